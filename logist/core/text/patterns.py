"""Patterns as in .gitignore: compiled once, and matched in time linear in the length of a path.

Plain names and extensions (`build`, `*.log`) are looked up in tables; only the others become regular expressions,
which don't backtrack.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

from logist.lazy_patterns import compile_on_use
from logist.quick_dataclass import dataclass

MAX_PATTERN = 1_000
"""The maximum length of a pattern; longer lines are skipped."""

_PLAIN = compile_on_use(r"[^*?\[\\]+")
_ENDING = compile_on_use(r"\*(\.[^*?\[\\/]+)")
_STARS = compile_on_use(r"\*+")
_NEVER = "(?!)"
_CLASSES = {
    "alnum": "A-Za-z0-9",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "digit": "0-9",
    "lower": "a-z",
    "space": r"\s",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


@dataclass(frozen=True)
class Pattern:
    """The pattern of one line; `negated` (`!`) includes matching paths again."""

    text: str
    negated: bool = False
    directories_only: bool = False
    anchored: bool = False
    """Whether it is matched with the complete path instead of only the file name."""

    @property
    def expression(self) -> str:
        """A regular expression without capturing groups; it must match the complete text."""
        if self.anchored:
            return _translate_path(self.text.removeprefix("/").split("/"))
        return _translate_component(self.text)

    @property
    def last(self) -> str:
        """The same expression for only the last name of the path."""
        name = self.text.rpartition("/")[2]
        return ".*" if name == "**" else _translate_component(name)

    @property
    def lead(self) -> str:
        """The directory that everything that a path pattern matches is below: `bin/` for `bin/*`, or "" for none."""
        plain = _PLAIN.match(self.text.removeprefix("/"))
        return plain[0][: plain[0].rfind("/") + 1] if plain else ""


def parse_patterns(text: str, most: int = 100_000) -> list[Pattern]:
    """Return the patterns of a file in their order, at most `most`; comments and empty lines are skipped."""
    patterns: list[Pattern] = []
    for line in text.removeprefix("\ufeff").split("\n"):
        pattern = _parse_line(line.removesuffix("\r"))
        if pattern is not None:
            patterns.append(pattern)
            if len(patterns) >= most:
                break
    return patterns


def _parse_line(line: str) -> Pattern | None:
    text = line.rstrip(" ")
    if text.endswith("\\") and len(text) < len(line) and (len(text) - len(text.rstrip("\\"))) % 2:
        text += " "
    if not text or text.startswith("#") or len(text) > MAX_PATTERN:
        return None
    negated = text.startswith("!")
    text = text[negated:]
    directories_only = text.endswith("/")
    text = text[: len(text) - directories_only]
    return Pattern(text, negated, directories_only, "/" in text) if text else None


@dataclass
class _Table:
    """The patterns that can match files, or those that can match directories, each with its index."""

    names: dict[str, int] = field(default_factory=dict)
    endings: dict[str, int] = field(default_factory=dict)
    paths: dict[str, int] = field(default_factory=dict)
    of_names: list[tuple[str, int]] = field(default_factory=list)
    of_paths: list[tuple[str, int]] = field(default_factory=list)

    def add_pattern(self, pattern: Pattern, place: int) -> None:
        text = pattern.text.removeprefix("/") if pattern.anchored else pattern.text
        if _PLAIN.fullmatch(text):
            (self.paths if pattern.anchored else self.names)[text] = place
        elif not pattern.anchored and (ending := _ENDING.fullmatch(text)):
            self.endings[ending[1]] = place
        else:
            (self.of_paths if pattern.anchored else self.of_names).append((pattern.expression, place))

    def compile_searches(self) -> None:
        """Compile the regular expressions; call this after all patterns are added."""
        self._ends = tuple(self.endings)
        self._search_names, self._search_paths = _Last(self.of_names), _Last(self.of_paths)

    def find_last_match(self, path: str, name: str) -> int:
        """Return the index of the last pattern that matches; -1 for none."""
        index = self.names.get(name, -1)
        if name.endswith(self._ends):
            index = max(index, *(place for ending, place in self.endings.items() if name.endswith(ending)))
        if self.paths:
            index = max(index, self.paths.get(path, -1))
        if self.of_names:
            index = max(index, self._search_names.find_index(name))
        if self.of_paths:
            index = max(index, self._search_paths.find_index(path))
        return index


class _Last:
    """Many regular expressions compiled into one that finds the last one that matches."""

    def __init__(self, expressions: list[tuple[str, int]]) -> None:
        backwards = expressions[::-1]
        self._places = [place for _, place in backwards]
        self._match = re.compile("|".join(rf"({one})\Z" for one, _ in backwards), re.DOTALL).match

    def find_index(self, text: str) -> int:
        match = self._match(text)
        return self._places[(match.lastindex or 1) - 1] if match else -1


class Patterns:
    """The patterns of one file; a later one overrides those before it."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self._negated: list[bool] = []
        self.files, self.directories = _Table(), _Table()
        self.of_paths: list[Pattern] = []
        """The patterns with wildcards that match paths."""
        for place, pattern in enumerate(patterns):
            self._negated.append(pattern.negated)
            self.directories.add_pattern(pattern, place)
            if not pattern.directories_only:
                self.files.add_pattern(pattern, place)
            if pattern.anchored and not _PLAIN.fullmatch(pattern.text):
                self.of_paths.append(pattern)
        self.directories.compile_searches()
        self.files.compile_searches()
        searched = [*self.directories.of_names, *self.directories.of_paths]
        self.effort = sum(len(expression) for expression, _ in searched)
        """The maximum cost per character of a path, in steps of a regular expression."""

    def __bool__(self) -> bool:
        return bool(self._negated)

    def match_path(self, path: str, directory: bool = False) -> bool | None:
        """Return whether a path relative to the file's directory is ignored; None if no pattern matches.

        Only the path itself is checked: the contents of an ignored directory are ignored too.
        """
        table = self.directories if directory else self.files
        place = table.find_last_match(path, path[path.rfind("/") + 1 :])
        return None if place < 0 else not self._negated[place]

    def is_ignored(self, path: str, *, directory: bool = False) -> bool:
        """Whether a path, or a directory above it, is ignored."""
        above = any(self.match_path(one, directory=True) for one in find_parent_directories(path))
        return above or bool(self.match_path(path, directory=directory))


class NameGate:
    """A quick check of the names in a directory: whether any of many patterns could match a path that ends with one."""

    def __init__(self, patterns: Iterable[Patterns], *, led: bool = True) -> None:
        """`led`: also for directories below `lead` of a pattern."""
        every = list(patterns)
        tables = [table for each in every for table in (each.files, each.directories)]
        ends = [path.rpartition("/")[2] for table in tables for path in table.paths]
        self._names = frozenset(ends).union(*(table.names for table in tables))
        self._endings = tuple({ending for table in tables for ending in table.endings})
        searched = [one for table in tables for one, _ in table.of_names]
        searched += [each.last for one in every for each in one.of_paths if led or not each.lead]
        self._search = re.compile(
            "|".join(rf"(?:{one})\Z" for one in dict.fromkeys(searched)), re.DOTALL
        ).match
        self._searches = bool(searched)
        # No expression crosses a slash, so that all names of a directory can be searched at once.
        self._search_names = re.compile(
            "/(?:" + "|".join(rf"(?:{one})(?=/|\Z)" for one in dict.fromkeys(searched)) + ")", re.DOTALL
        ).search
        self.effort = sum(map(len, searched))
        """The maximum cost per character of a name, in steps of a regular expression."""

    def can_match(self, name: str) -> bool:
        return (
            name in self._names
            or name.endswith(self._endings)
            or (self._searches and self._search(name) is not None)
        )

    def find_suspects(self, names: Sequence[str]) -> set[str]:
        """Return the names that a pattern could match."""
        known, endings, search = self._names, self._endings, self._search
        joined = "/" + "/".join(names)
        if not self._searches or self._search_names(joined) is None:
            # In most directories no name is suspect, and to look at all of them together is quicker.
            for ending in endings:
                if ending in joined:
                    return {name for name in names if name in known or name.endswith(endings)}
            return set() if known.isdisjoint(names) else set(known.intersection(names))
        return {name for name in names if name in known or name.endswith(endings) or search(name)}


def find_parent_directories(path: str) -> Iterator[str]:
    """Yield the directories above a path, the outermost first."""
    end = path.find("/")
    while end >= 0:
        yield path[:end]
        end = path.find("/", end + 1)


def compile_exclusions(lines: Iterable[str], directories: Iterable[str] = ()) -> Patterns:
    """Return the patterns for lines as in the setting `context.excluded_paths`, and for directories with exactly these
    names.
    """
    directory_patterns = [
        Pattern(re.sub(r"([*?\[\\])", r"\\\1", name), directories_only=True) for name in directories
    ]
    return Patterns(
        [*parse_patterns("\n".join(line.replace("\n", "") for line in lines)), *directory_patterns]
    )


def _translate_path(components: list[str]) -> str:
    """Translate the components of a path pattern to a regular expression; `**` is any number of components."""
    if components == ["**"]:
        return ".*"
    groups: list[list[str]] = [[]]
    for component in components:
        if component == "**":
            groups.append([])
        else:
            groups[-1].append(component)
    inside = components[-1] == "**"
    if inside:
        groups.pop()
    groups = [groups[0], *(group for group in groups[1:] if group)]
    joined = ["/".join(map(_translate_component, group)) for group in groups]
    # The first match of a group is as good as any later one, so backtracking is not needed.
    expression = f"{joined[0]}/" if joined[0] and (len(joined) > 1 or inside) else joined[0]
    for number, group in enumerate(joined[1:], start=2):
        last = number == len(joined) and not inside
        expression += rf"(?:[^/]*/)*?{group}" if last else rf"(?>(?:[^/]*/)*?{group}/)"
    return expression + ".+" if inside else expression


def _translate_component(text: str) -> str:
    """Translate one name with `*`, `?`, `[...]` and escapes to a regular expression."""
    pieces: list[str] = [""]
    here = 0
    while here < len(text):
        if stars := _STARS.match(text, here):
            pieces.append("")
            here = stars.end()
            continue
        piece, here = _translate_character(text, here)
        if not piece:
            return _NEVER
        pieces[-1] += piece
    first, *rest = pieces
    if not rest:
        return first
    middle = "".join(f"(?>[^/]*?{piece})" for piece in rest[:-1] if piece)
    return f"{first}{middle}[^/]*{rest[-1]}"


def _translate_character(text: str, here: int) -> tuple[str, int]:
    """Return the expression for one character of the pattern, and where it ends; `""` if it matches nothing."""
    character = text[here]
    if character == "?":
        return "[^/]", here + 1
    if character == "\\":
        return (re.escape(text[here + 1]), here + 2) if here + 1 < len(text) else ("", here)
    if character == "[":
        return _translate_bracket(text, here + 1)
    return re.escape(character), here + 1


def _translate_bracket(text: str, here: int) -> tuple[str, int]:
    negated = text[here : here + 1] in ("!", "^")
    here += negated
    start, inside = here, ""
    while here < len(text) and (text[here] != "]" or here == start):
        if class_match := re.compile(r"\[:([a-z]+):\]").match(text, here):
            if class_match[1] not in _CLASSES:
                return "", here
            inside, here = inside + _CLASSES[class_match[1]], class_match.end()
            continue
        low, here = _read_bracket_member(text, here)
        if text[here : here + 1] == "-" and text[here + 1 : here + 2] not in ("", "]"):
            high, here = _read_bracket_member(text, here + 1)
            inside += f"{re.escape(low)}-{re.escape(high)}" if low <= high else ""
        else:
            inside += re.escape(low)
    if here >= len(text):
        return "", here
    if not inside:
        return (r"[^/]" if negated else _NEVER), here + 1
    return (f"[^/{inside}]" if negated else f"(?!/)[{inside}]"), here + 1


def _read_bracket_member(text: str, here: int) -> tuple[str, int]:
    if text[here] == "\\" and here + 1 < len(text):
        return text[here + 1], here + 2
    return text[here], here + 1
