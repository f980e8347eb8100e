"""Find the files and directories that a task mentions: paths, file names, modules, lines of a traceback."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import compress

from logist.core.relevance.task import Task
from logist.lazy_patterns import compile_on_use
from logist.quick_dataclass import dataclass

MAX_TEXT = 200_000
"""The number of characters of a task that are searched for names."""
MAX_MENTIONS = 200
MANY_DIRECTORIES = 20
"""A scope that is the name of more directories than this is ignored."""
LONGEST = 500
"""The maximum length of a path, in characters."""

_QUOTED = compile_on_use(r"[`\"']([^`\"'\n]{1,300})[`\"']")
_TOKEN = compile_on_use(r"[\w@+~.\-/\\\[\]():]+")
# Bounded, so that no text takes long.
_LINK = compile_on_use(r"\b[a-z][a-z0-9+.-]{0,30}://\S+", re.IGNORECASE)
_SCOPE = compile_on_use(r"[A-Za-z]{1,20}\(([\w@./-]{1,100})\)!?:")
# `at load (src/app.ts:12:5)`, `at shop.Cart.add(Cart.java:12)`
_FRAME = compile_on_use(r"\(([^()\s]{1,300}):\d{1,7}(?::\d{1,7})?\)")
_PLACE = compile_on_use(r":\d+(?:[:,-]\d+)*$")
# `app.py:12`, `File "app.py", line 12`, `app.ts(12,5)`, `app.py#L12`, `Foo.cs:line 12`
_LINE = compile_on_use(
    r"(?<![\w@+~.\-/\\])([\w@+~.\-/\\]{1,500}+)(?:[\"'`]?,?[ ](?:on[ ])?line[ ]|:line[ ]|[:(]|[#]L)(\d{1,7})(?!\w)"
)


@dataclass(frozen=True)
class Mentions:
    """The files and directories that a task mentions, in order of appearance."""

    files: list[list[str]]
    """For each name, the files that it may refer to: one, or several with the same name."""
    directories: list[str]
    unknown: list[str]
    """Paths that match no file; they may be hidden files."""


class Index:
    """Paths by file name, limited to the names that occur in the task."""

    def __init__(
        self,
        paths: Collection[str],
        directories: Collection[str],
        texts: Iterable[str],
        names: Sequence[str] | None = None,
    ) -> None:
        self.paths = paths
        names = names or [path[path.rfind("/") + 1 :] for path in paths]
        lasts = {text.rpartition("/")[2] for text in texts}
        stems = (
            {part for last in lasts for part in last.split(".")[-2:]}
            if any("." in one for one in lasts)
            else set()
        )
        self.directories: dict[str, list[str]] = {}
        for path in directories:
            name = path[path.rfind("/") + 1 :]
            if name in lasts:
                self.directories.setdefault(name, []).append(path)
        self.by_name: dict[str, list[str]] = {}
        self.by_stem: dict[str, list[str]] = {}
        for path, name in compress(zip(paths, names, strict=True), map(lasts.__contains__, names)):
            self.by_name.setdefault(name, []).append(path)
        if stems:
            beginnings = tuple(stems)
            for path, name in zip(paths, names, strict=True):
                if name.startswith(beginnings) and (stem := name.partition(".")[0]) in stems:
                    self.by_stem.setdefault(stem, []).append(path)

    def find_files(self, text: str) -> list[str]:
        """Return the files that a text may refer to: the exact path, or else paths that end with it or with a part
        of it.
        """
        if text in self.paths:
            return [text]
        parts = text.split("/")[::-1]
        longest, matches = 1, list[str]()
        for path in self.by_name.get(parts[0], []):
            number = _count_common(path.split("/")[::-1], parts)
            if number > longest:
                longest, matches = number, [path]
            elif number == longest:
                matches.append(path)
        return matches

    def find_modules(self, text: str) -> list[str]:
        """Return the files of a dotted name such as `app.users.views` or `com.example.Parser`, or of a member of
        one.
        """
        parts = text.split(".")
        for end in range(len(parts), max(1, len(parts) - 2), -1):
            tail = "/".join(parts[:end])
            matches = [
                path
                for path in self.by_stem.get(parts[end - 1], [])
                if f"/{path.rpartition('/')[0]}/{parts[end - 1]}".endswith(f"/{tail}")
            ]
            if matches:
                return matches
        return []

    def find_directories(self, text: str) -> list[str]:
        """Return the directories that a path may refer to."""
        same = self.directories.get(text.rpartition("/")[2], [])
        if text in same:
            return [text]
        return sorted(path for path in same if path.endswith(f"/{text}"))


def _count_common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return with how many equal items two lists begin."""
    return next(
        (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def find_mentions(
    task: Task, paths: Collection[str], above: Collection[str], names: Sequence[str] | None = None
) -> Mentions:
    """Return the files and directories that a task mentions, each once.

    `names`: the last part of each path, if the caller has them.
    """
    candidates = list(_find_candidates(task))
    scope = _SCOPE.match(task.title)
    texts = [text for text, _ in candidates]
    index = Index(paths, above, [*texts, scope[1]] if scope else texts, names)
    files: list[list[str]] = []
    directories: dict[str, None] = {}
    unknown: list[str] = []
    for text, marked in candidates:
        if matches := _find_matches(text, index):
            files.append(matches)
        elif folders := (index.find_directories(text) if marked or "/" in text else []):
            directories.update(dict.fromkeys(folders))
        elif "/" in text or "." in text:
            unknown.append(text)
        if len(files) + len(unknown) + len(directories) >= MAX_MENTIONS:
            break
    if scope is not None:
        folders = index.find_directories(scope[1])
        directories.update(dict.fromkeys(folders if len(folders) <= MANY_DIRECTORIES else ()))
    return Mentions(files, list(directories), unknown)


def find_lines(task: Task, path: str) -> list[int]:
    """Return the numbers of the lines of a file that a task mentions, such as those in a traceback, each once."""
    name = path.rpartition("/")[2]
    text = _join_texts(task)
    if name not in text:
        return []
    lines = (int(number) for mention, number in _LINE.findall(text) if _may_be(mention, path))
    return [*dict.fromkeys(lines)]


def _may_be(mention: str, path: str) -> bool:
    """Whether a mentioned path, perhaps of another machine, may be this one: the name and its directory are the same."""
    mentioned = mention.replace("\\", "/").split("/")[-2:]
    own = path.split("/")[-2:]
    return mentioned[-1] == own[-1] and (
        min(len(mentioned), len(own)) < 2 or mentioned[0] in (own[0], ".", "")
    )


def _join_texts(task: Task) -> str:
    return "\n".join((task.title, task.prompt, task.step, task.description, *task.criteria))[:MAX_TEXT]


def _find_matches(text: str, index: Index) -> list[str]:
    matches = index.find_files(text)
    return index.find_modules(text) if not matches and "." in text and "/" not in text else matches


def _find_candidates(task: Task) -> Iterator[tuple[str, bool]]:
    """Yield texts that may be paths, and whether they are in quotes; each once, in order of appearance."""
    seen: set[str] = set()
    whole = _join_texts(task)
    plain = _LINK.sub(" ", whole)
    quoted = {_clean_path(quote) for quote in _QUOTED.findall(plain)}
    spaced = [quote for quote in quoted if " " in quote]
    names = (name for token in _TOKEN.findall(plain) for name in (*_FRAME.findall(token), token))
    for raw in (*sorted(spaced, key=plain.find), *names):
        path = _clean_path(raw)
        if path and path not in seen:
            seen.add(path)
            marked = path in quoted or raw.endswith("/")
            if marked or _is_like_a_file(path):
                yield path, marked


def _clean_path(raw: str) -> str:
    if len(raw) > LONGEST:
        return ""
    path = raw.strip().replace("\\", "/")
    path = path.rstrip(".,;:!?([")
    path = _PLACE.sub("", path)
    while path.endswith((")", "]")) and path.count("(") + path.count("[") < path.count(")") + path.count("]"):
        path = path[:-1].rstrip(".,;:")
    if path[:1] + path[-1:] in ("()", "[]"):
        path = path[1:-1]
    while path.startswith("(") and path.count("(") > path.count(")"):
        path = path[1:]
    path = path.removesuffix("()")
    return path.removeprefix("./").strip("/")


def _is_like_a_file(path: str) -> bool:
    """Whether the text contains a `/` or a dot, or is a name like `Makefile`; other words are keywords."""
    name = path.rpartition("/")[2]
    return "/" in path or "." in name or (name[:1].isupper() and name.lower() in _BARE)


_WITHOUT_ENDING = """\
authors brewfile changelog codeowners containerfile dockerfile gemfile jenkinsfile justfile license makefile procfile
rakefile readme tiltfile vagrantfile"""
_BARE = frozenset(_WITHOUT_ENDING.split())
"""Common file names without an extension."""
