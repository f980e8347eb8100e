"""Recognizes the form of a condition and builds its test."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection
from typing import Any

from logist.core.condition import evaluation, objects, values
from logist.core.condition.evaluation import DataReader, Test
from logist.core.condition.expression import parse_expression
from logist.core.condition.fault import ConditionError, Unusable
from logist.core.text import paths

MAX_CHARACTERS = 2_000
"""The maximum length of one condition in text form."""
MAX_DEPTH = 10
"""Levels of nested objects."""
MAX_PARTS = 200
"""The maximum number of conditions in one object."""
MAX_CHOICES = 200
"""The maximum number of values after `field:`."""

CHOICE: paths.Path = ("output", "choice")
"""The path that a plain word is compared with."""

_BREAK = re.compile(r"<br\s{0,9}/?>", re.IGNORECASE)
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_OPERATOR = re.compile(
    r"""[<>]|[!=]=|&&|\|\||^\s*!|\?.*:|\bin\s*\[|["']\s*in\s|\w\.\w+\(|\]\s*\.|\['|^\s*[\w$]+\(.*\)\s*$""",
    re.DOTALL,
)
_MENTION = re.compile(rf"(?<![\w.-])({paths.NAME})(?=\.[^\s.]|\[)")
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?")
_COLON = re.compile(r"\s*:(?!:)")
_ITEM = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([^,]*?))\s*(?:,|$)""", re.DOTALL)


class ConditionBuilder:
    """Builds the test of one condition, and counts its parts."""

    def __init__(self, known_roots: Collection[str], *, javascript: bool = True) -> None:
        self.reader = DataReader(javascript=javascript)
        self._roots = known_roots
        self._parts = 0

    def build_test(self, form: Any, depth: int = 0) -> Test:
        """Build the test for a condition of any form; `reader` collects its paths. Raises ConditionError."""
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise ConditionError(f"too many conditions in one object: at most {MAX_PARTS}")
        if isinstance(form, bool):
            return lambda data: form
        if isinstance(form, dict):
            return self._build_object(form, depth)
        if isinstance(form, str):
            return self._build_text(form)
        raise ConditionError(f"a condition must be text or an object, not {values.describe_kind(form)}")

    def _build_object(self, form: dict[Any, Any], depth: int) -> Test:
        if depth == MAX_DEPTH:
            raise ConditionError(f"the condition is nested too deeply: at most {MAX_DEPTH} levels")
        objects.check_object(form)
        all_of = objects.build_tests(form, self.reader, self._roots)
        if "and" in form:
            all_of += [self.build_test(part, depth + 1) for part in form["and"]]
        if "or" in form:
            any_of = [self.build_test(part, depth + 1) for part in form["or"]]
            all_of.append(evaluation.join_tests("||", any_of))
        if "not" in form:
            all_of.append(evaluation.negate_test(self.build_test(form["not"], depth + 1)))
        if "unless" in form:
            all_of.append(self._build_unless(form["unless"], depth + 1))
        return evaluation.join_tests("&&", all_of)

    def _build_unless(self, form: Any, depth: int) -> Test:
        """Return a test that is true if the condition is false or, unlike with `not`, can't be evaluated."""
        inner = self.build_test(form, depth)

        def test(data: Any) -> bool:
            try:
                return not inner(data)
            except Unusable:
                return True

        return test

    def _build_text(self, form: str) -> Test:
        if len(form) > MAX_CHARACTERS:
            raise ConditionError(
                f"the condition is too long: {len(form):,} characters, at most {MAX_CHARACTERS:,}", 1
            )
        text = _BREAK.sub(lambda match: " " * len(match[0]), form)
        if not text.strip():
            raise ConditionError("the condition is empty", 1)
        if (one_of := self._build_one_of(text)) is not None:
            return one_of
        if self._is_expression(text):
            return evaluation.build_test(parse_expression(text, self._find_root_fault), self.reader)
        word = text.strip()
        path, end = paths.scan_path(word, 0)
        if end == len(word) and (path[0] in self._roots or not self._is_word(word, path)):
            if fault := self._find_root_fault(path):
                raise ConditionError(f"{fault} (to use it as a word, put it in quotes)", text.index(word) + 1)
            return self.reader.build_read(path, values.is_truthy)
        return self._build_alike(CHOICE, [self._unquote_word(word, text)])

    def _build_one_of(self, text: str) -> Test | None:
        """Build the test for `field:v1,v2`; None for text of another form."""
        start = len(text) - len(text.lstrip())
        path, end = paths.scan_path(text, start)
        colon = _COLON.match(text, end)
        if not path or text[start] == "[" or not colon:
            return None
        choices = _split_choices(text, colon.end())
        return self._build_alike(path if path[0] in self._roots else ("output", *path), choices)

    def _build_alike(self, path: paths.Path, choices: list[str]) -> Test:
        return self.reader.build_read(
            path, lambda value: any(values.is_alike(value, choice) for choice in choices)
        )

    def _is_expression(self, text: str) -> bool:
        """Whether the text has an operator or a call outside quotes, or a path below a known root."""
        if _QUOTED.fullmatch(text.strip()):
            return False
        bare = _QUOTED.sub("''", text)
        if _OPERATOR.search(bare):
            return True
        path, end = paths.scan_path(text.strip(), 0)
        if path and end == len(text.strip()):
            return False
        return self._mentions_root(bare)

    def _mentions_root(self, text: str) -> bool:
        return any(match[1] in self._roots for match in _MENTION.finditer(text))

    def _is_word(self, word: str, path: paths.Path) -> bool:
        """Whether text that could be a path is a word: a number, or one name without dot, index or quote."""
        return path == (word,) or _NUMBER.fullmatch(word) is not None

    def _unquote_word(self, word: str, text: str) -> str:
        """Return the word without its quotes. Raises ConditionError for a path in quotes, an obvious mistake."""
        if not _QUOTED.fullmatch(word):
            return word
        inner = word[1:-1]
        if self._mentions_root(_QUOTED.sub("''", inner)):
            raise ConditionError(
                "remove the quotes: they turn the condition into a plain word", text.index(word) + 1
            )
        if not inner.strip():
            raise ConditionError("the condition is empty", text.index(word) + 1)
        return inner

    def _find_root_fault(self, path: paths.Path) -> str | None:
        """Return the problem with the first name of a path, or None."""
        if not path or path[0] in self._roots:
            return None
        root = str(path[0])
        near = difflib.get_close_matches(root, [*self._roots], n=1)
        if near:
            fix = f"did you mean `{near[0]}`?"
        elif "output" in self._roots:
            fix = f"for a field of the last answer, write `{paths.path_to_text(('output', *path))[:80]}`"
        else:
            fix = f"known: {', '.join(sorted(self._roots))}"
        return f"unknown name `{root[:40]}`; {fix}"


def _split_choices(text: str, start: int) -> list[str]:
    """Return the values after the colon, separated by commas; put a value that contains a comma in quotes."""
    items: list[str] = []
    here = start
    while here <= len(text):
        match = _ITEM.match(text, here)
        if match is None:
            raise ConditionError("expected values separated by commas after the colon", here + 1)
        item = next(group for group in match.groups() if group is not None)
        if not item.strip():
            raise ConditionError("missing value", min(here, len(text)) + 1)
        items.append(item)
        if len(items) > MAX_CHOICES:
            raise ConditionError(f"too many values: at most {MAX_CHOICES}", here + 1)
        if match.end() == len(text) and not match[0].endswith(","):
            break
        here = match.end()
    return items
