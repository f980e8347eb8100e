"""Who may use the page: one-time links, and the sessions that they start.

A link has a random key. `logist serve` and `logist serve --link` write the hash of a key to a file in the project's
`.logist/serve/PORT/links`, and the first use of the link removes the file. So a link works once, and reading the files
gives nobody access. Sessions are only in memory: they end with the server.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import time
from dataclasses import field
from pathlib import Path
from threading import Lock

from starlette.datastructures import Headers
from starlette.requests import cookie_parser

from logist.quick_dataclass import dataclass
from logist.regular_files import read_regular
from logist.store import files

LINKS = "links"
"""In the directory of a server; a file for each link that was not used yet."""
LINK_SECONDS = 3600
"""How long a link can be used."""
SESSION_SECONDS = 7 * 24 * 3600
MOST_SESSIONS = 100
"""Of one server; the oldest ends when another one starts."""
_KEY = re.compile(r"[A-Za-z0-9_-]{43}")
_MOST_LINK_BYTES = 4096


@dataclass
class WebSession:
    """One browser that a steward uses."""

    steward: str
    """The name that its decisions are recorded with."""
    is_owner: bool
    """True if it is the user who runs the server: then decisions may be signed with that user's key."""
    started: float
    messages: list[str] = field(default_factory=list)
    """What to show on the next page, for example what a decision did."""

    def take_messages(self) -> list[str]:
        """Return the messages for the next page, once."""
        messages, self.messages = self.messages, []
        return messages


def create_link(folder: Path, port: int, steward: str | None = None) -> str:
    """Return a new one-time link for the server that uses `folder`. `steward`: whose decisions it is for, if not the owner's."""
    key = secrets.token_urlsafe(32)
    content = json.dumps({"steward": steward, "made_at": time.time()})
    files.replace_file(folder / LINKS / _hash_key(key), content.encode())
    return f"http://127.0.0.1:{port}/enter?key={key}"


class Sessions:
    """The sessions of a server; can be used from any thread."""

    def __init__(self, folder: Path, port: int, owner: str) -> None:
        self._folder = folder
        self._owner = owner
        self._sessions: dict[str, WebSession] = {}
        self._lock = Lock()
        self.cookie = f"logist-{port}"
        """Named by the port, because all ports of a host share their cookies."""
        self.prefix = f"/{secrets.token_hex(8)}"
        """What the paths of all pages begin with. The cookie is only for this path, which no other server of this machine
        knows: without that, a browser would send it to every port, for example to a server that an agent has started."""

    def find(self, headers: Headers) -> WebSession | None:
        """Return the session of a request."""
        cookie = cookie_parser("; ".join(headers.getlist("cookie"))).get(self.cookie, "")
        with self._lock:
            session = self._sessions.get(_hash_key(cookie))
        if session is not None and time.time() - session.started > SESSION_SECONDS:
            return None
        return session

    def start(self, key: str) -> str | None:
        """Use a link, and return the value of the cookie for a new session; None if the key is not valid any more."""
        link = self._take_link(key)
        if link is None:
            return None
        named = link.get("steward")
        steward = named if isinstance(named, str) and named else self._owner
        cookie = secrets.token_urlsafe(32)
        with self._lock:
            self._sessions[_hash_key(cookie)] = WebSession(steward, steward == self._owner, time.time())
            while len(self._sessions) > MOST_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
        return cookie

    def is_open(self, session: WebSession) -> bool:
        """Whether a session has not ended."""
        with self._lock:
            is_known = any(each is session for each in self._sessions.values())
        return is_known and time.time() - session.started <= SESSION_SECONDS

    def end(self, session: WebSession) -> None:
        """End a session."""
        with self._lock:
            for name in [name for name, each in self._sessions.items() if each is session]:
                del self._sessions[name]

    def _take_link(self, key: str) -> dict[str, object] | None:
        """Remove the file of a link, and return its content; only one caller gets it."""
        if not _KEY.fullmatch(key):
            return None
        file = self._folder / LINKS / _hash_key(key)
        try:
            link = json.loads(read_regular(str(file), _MOST_LINK_BYTES))
            os.unlink(file)  # of several callers, one succeeds
        except (OSError, ValueError):
            return None
        made_at = link.get("made_at") if isinstance(link, dict) else None
        is_valid = isinstance(made_at, float) and 0 <= time.time() - made_at <= LINK_SECONDS
        return link if is_valid else None


def remove_links(folder: Path) -> None:
    """Remove the links of an earlier server, and what else may have come with a repository.

    Raises StorageError if something is left: it could be a link that somebody knows.
    """
    links = folder / LINKS
    with files.convert_os_errors(links):
        for entry in list(os.scandir(links)):  # first: macOS skips some if others are removed meanwhile
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)


def _hash_key(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
