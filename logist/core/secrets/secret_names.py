"""Decides by name and value which environment variables contain a secret, and which part is the secret."""

from __future__ import annotations

import re
from collections.abc import Iterator

from logist.lazy_patterns import compile_on_use

# The value of such a variable is a secret, whatever it looks like, unless it is the path of a secret.
_PARTS = (
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "PRIVATE_KEY",
    "APIKEY",
    "CONNECTION_STRING",
)
_ENDINGS = frozenset(("KEY", "TOKEN", "PASS", "PWD", "PAT", "APITOKEN"))

# The value of such a variable is a secret only if it looks like one, unlike `AUTH=required`.
_PERHAPS = frozenset(
    (
        *("AUTH", "AUTHORIZATION", "BEARER", "COOKIE", "COOKIES", "CREDS", "JWT", "KEYS", "PRIVATE", "PSK"),
        *("SALT", "SAS", "SESSIONID", "SIGNATURE", "TOKENS", "WEBHOOK", "TOKEN", "KEY", "PASS"),
    )
)
_PLACES = frozenset(
    (
        "DIR",
        "DIRECTORY",
        "FILE",
        "FILENAME",
        "FOLDER",
        "HOME",
        "HOST",
        "NAME",
        "PATH",
        "SOCK",
        "SOCKET",
        "PID",
    )
)
_DIRECTORIES = frozenset(("PWD", "OLDPWD"))
_WRAPPERS = compile_on_use(r"_(?:[0-9]+|B64|BASE64|JSON|PEM|VALUE)\Z")

_WORDS = frozenset(
    [
        "password",
        "passphrase",
        "changeme",
        "disabled",
        "enabled",
        "required",
        "optional",
        "undefined",
        "username",
        "default",
    ]
)
_PATH_START = compile_on_use(r"(?:~|\.{1,2})?/")
_PATH_WORD = compile_on_use(r"[A-Z]?[a-z0-9]*|[A-Z]+")
_ADDRESS = compile_on_use(r"[A-Za-z][A-Za-z0-9+.-]*://")
_USERINFO = compile_on_use(r"[A-Za-z][A-Za-z0-9+.-]*://(?P<user>[^\s/?#@:]*)(?::(?P<password>[^\s/?#@]*))?@")
_ASSIGNED = compile_on_use(r"(?i:key|password|pwd|secret|token|signature|sig)=(?P<value>[^;&\s]+)")
_BYTE = compile_on_use(r"%([0-9A-Fa-f]{2})")


def find_variable_secrets(name: str, value: str, *, named: bool = False) -> Iterator[str]:
    """Yield the parts of a variable that must not be written to a file; `named`: it is the API key of a model.

    The password in a URL is a secret in every variable. The rest of a URL is not, except for a webhook, whose
    path is the key.
    """
    value = value.strip()
    if "@" in value and (userinfo := _USERINFO.match(value)):
        user, password = userinfo["user"], userinfo["password"]
        alone = password in (None, "", "x-oauth-basic") and _is_key_like(user)
        part = user if alone else password
        if part and part.lower() not in _WORDS:
            yield part
            yield _decode_percents(part)
    certainty = "sure" if named else _classify_name(name.upper())
    if certainty is None or (_is_place(value) and not named):
        return
    if _ADDRESS.match(value) and not named:
        path = value.split("://", 1)[1].partition("/")[2]
        if "WEBHOOK" in name.upper() and _is_key_like(path):
            yield value
    elif (certainty == "sure" or _is_key_like(value)) and value.lower() not in _WORDS:
        yield value
    yield from (userinfo["value"] for userinfo in _ASSIGNED.finditer(value))


def _classify_name(name: str) -> str | None:
    """Return `sure`, `perhaps`, or None for a name that does not suggest a secret."""
    if name in _DIRECTORIES:
        return None
    name = _WRAPPERS.sub("", name)
    words = re.split(r"[^A-Z0-9]+", name)
    if words[-1] in _PLACES:
        return None
    if any(part in name for part in _PARTS) or (words[-1] in _ENDINGS):
        return "sure"
    return "perhaps" if _PERHAPS.intersection(words) or words[-1] == "DSN" else None


def _is_place(value: str) -> bool:
    """Whether a value is a path: the path of a secret is not a secret.

    Base64 may begin with `/` too, but has uppercase letters inside its words.
    """
    words = re.split(r"[/._ -]", value.removeprefix("~"))
    return _PATH_START.match(value) is not None and all(map(_PATH_WORD.fullmatch, words))


def _is_key_like(value: str) -> bool:
    """Whether a value is long enough, and not a word, a number or a list of words."""
    digits = any(c.isdigit() for c in value)
    letters = any(c.isalpha() for c in value)
    return len(value) >= 12 and digits and letters and " " not in value


def _decode_percents(part: str) -> str:
    data = _BYTE.sub(lambda match: chr(int(match[1], 16)), part)
    try:
        return data.encode("latin-1").decode("utf-8")
    except (UnicodeEncodeError, UnicodeDecodeError):
        return data
