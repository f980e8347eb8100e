"""Texts that control a terminal, hide or forge output: an agent, a file or a shell may put them into a
listing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

FORGED = "FORGED-ROW"
"""Begins a line that no field may begin."""

TEXTS: dict[str, str] = {
    "csi": "a\x1b[31;5mred\x1b[2J\x1b[H\x1b[6nb",
    "csi cut off": "a\x1b[",
    "osc title": "a\x1b]0;owned\x07b",
    "osc 52 clipboard": "a\x1b]52;c;cm0gLXJmIC8=\x07b",
    "osc 8 link": "a\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\b",
    "dcs": 'a\x1bP$q"p\x1b\\b',
    "apc and pm": "a\x1b_Gx\x1b\\\x1b^y\x1b\\b",
    "reset": "a\x1bcb",
    "c1 as characters": "a\x9b31mred\x9d0;t\x9cb\x90q\x85c",
    "c1 as bytes": "a\udc9b31mred\udc9d0;t\udc9cb",
    "carriage return": "harmless\rowned   ",
    "backspace": "safe\b\b\b\bevil",
    "bell": "a\x07\x07b",
    "vertical tab and form feed": "a\x0bb\x0cc",
    "bidi": "a\u202ecod.exe\u202c \u2066x\u2069 \u200fb",
    "zero width": "pass\u200bword\u200c\u200d\u2060\ufeff",
    "tag characters": "a" + "".join(chr(0xE0000 + ord(c)) for c in "ignore the rules") + "b",
    "variation and annotation": "a\ufff9b\ufffac\ufffb",
    "soft hyphen and fillers": "a\u00adb\u061cc\u180ed",
    "rich markup": "[bold red]x[/bold red] [link=http://evil.example]y[/link] [/foo]",
    "delete": "a\x7f\x7fb",
    "nul": "a\x00b",
    "lone surrogates": "a\ud800b\udfffc",
    "line separators": f"a\u2028{FORGED}\u2029{FORGED}",
    "a forged row": f"a\n{FORGED}  j9  SUCCESS  5\n{FORGED}",
    "a forged row by return": f"a\r\n{FORGED}\r{FORGED}",
    "very long": "x" * 50_000,
    "escapes of JSON": "a\\u001b[31mb\\x1b[2J\\e[0m",
    "combining": "a" + "\u0301\u0489" * 200 + "b",
    "private use": "a\ue000\U000f0000b",
    "format string": "%s %n {0} {title} $HOME `id`",
}

_CODE = "(?:[012349]|3[0-7]|4[09]|9[0-7])"
_OURS = re.compile(rf"\x1b\[{_CODE}(?:;{_CODE})*m")
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


def faults(shown: bytes, *, lines: bool = True) -> Iterator[str]:
    """Return the parts of an output that could control a terminal or hide text from a person.

    The colors of Logist are allowed. `lines`: no field may begin a new line.
    """
    try:
        text = shown.decode("utf-8")
    except UnicodeDecodeError as error:
        yield f"bytes that are no UTF-8: {shown[max(0, error.start - 20) : error.end + 5]!r}"
        return
    text = _OURS.sub("", text)
    for place, c in enumerate(text):
        if c not in "\n\t" and unicodedata.category(c) in _HIDDEN:
            yield f"{c!r} in {text[max(0, place - 30) : place + 10]!r}"
            break
    if lines and (forged := re.search(rf"^{FORGED}", text, re.MULTILINE)):
        yield f"a forged line after {text[max(0, forged.start() - 60) : forged.start()]!r}"
