"""Tells the forms of a condition apart and builds the test of each."""

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
"""Of one condition in text form."""
MAX_DEPTH = 10
"""Levels of nested objects."""
MAX_PARTS = 200
"""Conditions in one object."""
MAX_CHOICES = 200
"""Values after `field:`."""

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
        """The test for a condition of any form; `reader` collects its paths. Raises ConditionError."""
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise ConditionError(f"too many conditions in one: at most {MAX_PARTS}")
        if isinstance(form, bool):
            return lambda data: form
        if isinstance(form, dict):
            return self._build_object(form, depth)
        if isinstance(form, str):
            return self._build_text(form)
        raise ConditionError(f"a condition is a text or an object, not {values.describe_kind(form)}")

    def _build_object(self, form: dict[Any, Any], depth: int) -> Test:
        if depth == MAX_DEPTH:
            raise ConditionError(f"the condition is nested too deep: at most {MAX_DEPTH} levels")
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
        """Return a test that holds if the condition does not; unlike `not`, also
        if the condition can't be judged.
        """
        inner = self.build_test(form, depth)

        def test(data: Any) -> bool:
            try:
                return not inner(data)
            except Unusable:
                return True

        return test

    def _build_text(self, form: str) -> Test:
        if len(form) > MAX_CHARACTERS:
            raise ConditionError(f"too long: {len(form):,} characters, at most {MAX_CHARACTERS:,}", 1)
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
                raise ConditionError(f"{fault} (a word that has dots is put in quotes)", text.index(word) + 1)
            return self.reader.build_read(path, values.is_truthy)
        return self._build_alike(CHOICE, [self._unquote_word(word, text)])

    def _build_one_of(self, text: str) -> Test | None:
        """`field:v1,v2`, or None for a text of another form."""
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
        """Whether a text that could be a path is a word: one name with no dot, index or quote, or a number."""
        return path == (word,) or _NUMBER.fullmatch(word) is not None

    def _unquote_word(self, word: str, text: str) -> str:
        """Return the word without its quotes. Raises ConditionError for a path
        in quotes, which nobody means as a word.
        """
        if not _QUOTED.fullmatch(word):
            return word
        inner = word[1:-1]
        if self._mentions_root(_QUOTED.sub("''", inner)):
            raise ConditionError("the quotes around it make it a word: take them off", text.index(word) + 1)
        if not inner.strip():
            raise ConditionError("the condition is empty", text.index(word) + 1)
        return inner

    def _find_root_fault(self, path: paths.Path) -> str | None:
        """Return what is wrong with the first name of a path, or None."""
        if not path or path[0] in self._roots:
            return None
        root = str(path[0])
        near = difflib.get_close_matches(root, [*self._roots], n=1)
        if near:
            fix = f"did you mean `{near[0]}`?"
        elif "output" in self._roots:
            fix = f"a field of the last answer is `{paths.path_to_text(('output', *path))[:80]}`"
        else:
            fix = f"known: {', '.join(sorted(self._roots))}"
        return f"unknown name `{root[:40]}`; {fix}"


def _split_choices(text: str, start: int) -> list[str]:
    """Return the values after the colon, separated by commas; quotes protect a comma in a value."""
    items: list[str] = []
    here = start
    while here <= len(text):
        match = _ITEM.match(text, here)
        if match is None:
            raise ConditionError("after the colon come values with commas between them", here + 1)
        item = next(group for group in match.groups() if group is not None)
        if not item.strip():
            raise ConditionError("a value is missing", min(here, len(text)) + 1)
        items.append(item)
        if len(items) > MAX_CHOICES:
            raise ConditionError(f"too many values: at most {MAX_CHOICES}", here + 1)
        if match.end() == len(text) and not match[0].endswith(","):
            break
        here = match.end()
    return items
