"""Tells the forms of a condition apart and builds the test of each."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection
from typing import Any

from logist.core import paths
from logist.core.condition import evaluation, objects, values
from logist.core.condition.evaluation import DataReader, Test
from logist.core.condition.expression import parsed
from logist.core.condition.fault import ConditionError, Unusable

MAX_CHARACTERS = 2_000
"""Of a condition that is text."""
MAX_DEPTH = 10
"""Objects within each other."""
MAX_PARTS = 200
"""Conditions in one object."""
MAX_CHOICES = 200
"""Values after `field:`."""

CHOICE: paths.Path = ("output", "choice")
"""What a plain word is compared with."""

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


class Reading:
    """One condition on its way to a test."""

    def __init__(self, known_roots: Collection[str], *, javascript: bool = True) -> None:
        self.reader = DataReader(javascript=javascript)
        self._roots = known_roots
        self._parts = 0

    def build_test(self, form: Any, depth: int = 0) -> Test:
        """The test for any form; its paths are in `reader`. Raises ConditionError."""
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise ConditionError(f"too many conditions in one: at most {MAX_PARTS}")
        if isinstance(form, bool):
            return lambda data: form
        if isinstance(form, dict):
            return self._object(form, depth)
        if isinstance(form, str):
            return self._text(form)
        raise ConditionError(f"a condition is a text or an object, not {values.kind(form)}")

    def _object(self, form: dict[Any, Any], depth: int) -> Test:
        if depth == MAX_DEPTH:
            raise ConditionError(f"the condition is nested too deep: at most {MAX_DEPTH} levels")
        objects.checked(form)
        all_of = objects.build_tests(form, self.reader, self._roots)
        if "and" in form:
            all_of += [self.build_test(part, depth + 1) for part in form["and"]]
        if "or" in form:
            any_of = [self.build_test(part, depth + 1) for part in form["or"]]
            all_of.append(evaluation.join_tests("||", any_of))
        if "not" in form:
            all_of.append(evaluation.negate(self.build_test(form["not"], depth + 1)))
        if "unless" in form:
            all_of.append(self._unless(form["unless"], depth + 1))
        return evaluation.join_tests("&&", all_of)

    def _unless(self, form: Any, depth: int) -> Test:
        """Whether a condition does not hold; unlike `not`, also where it can't be judged."""
        inner = self.build_test(form, depth)

        def test(data: Any) -> bool:
            try:
                return not inner(data)
            except Unusable:
                return True

        return test

    def _text(self, form: str) -> Test:
        if len(form) > MAX_CHARACTERS:
            raise ConditionError(f"too long: {len(form):,} characters, at most {MAX_CHARACTERS:,}", 1)
        text = _BREAK.sub(lambda match: " " * len(match[0]), form)
        if not text.strip():
            raise ConditionError("the condition is empty", 1)
        if (one_of := self._one_of(text)) is not None:
            return one_of
        if self._is_expression(text):
            return evaluation.build_test(parsed(text, self._root_fault), self.reader)
        word = text.strip()
        path, end = paths.scan(word, 0)
        if end == len(word) and (path[0] in self._roots or not self._is_word(word, path)):
            if fault := self._root_fault(path):
                raise ConditionError(f"{fault} (a word that has dots is put in quotes)", text.index(word) + 1)
            return self.reader.read(path, values.truth)
        return self._alike(CHOICE, [self._unquoted(word, text)])

    def _one_of(self, text: str) -> Test | None:
        """`field:v1,v2`, or None for a text of another form."""
        start = len(text) - len(text.lstrip())
        path, end = paths.scan(text, start)
        colon = _COLON.match(text, end)
        if not path or text[start] == "[" or not colon:
            return None
        choices = _items(text, colon.end())
        return self._alike(path if path[0] in self._roots else ("output", *path), choices)

    def _alike(self, path: paths.Path, choices: list[str]) -> Test:
        return self.reader.read(path, lambda value: any(values.alike(value, choice) for choice in choices))

    def _is_expression(self, text: str) -> bool:
        """Whether it has a sign or a call outside quotes, or goes into a known root."""
        if _QUOTED.fullmatch(text.strip()):
            return False
        bare = _QUOTED.sub("''", text)
        if _OPERATOR.search(bare):
            return True
        path, end = paths.scan(text.strip(), 0)
        if path and end == len(text.strip()):
            return False
        return self._mentions_root(bare)

    def _mentions_root(self, text: str) -> bool:
        return any(match[1] in self._roots for match in _MENTION.finditer(text))

    def _is_word(self, word: str, path: paths.Path) -> bool:
        """Whether a text that could be a path is a word: one name with no dot, index or quote, or a number."""
        return path == (word,) or _NUMBER.fullmatch(word) is not None

    def _unquoted(self, word: str, text: str) -> str:
        """A word in quotes is that word, signs and all; what goes into a known root is a slip."""
        if not _QUOTED.fullmatch(word):
            return word
        inner = word[1:-1]
        if self._mentions_root(_QUOTED.sub("''", inner)):
            raise ConditionError("the quotes around it make it a word: take them off", text.index(word) + 1)
        if not inner.strip():
            raise ConditionError("the condition is empty", text.index(word) + 1)
        return inner

    def _root_fault(self, path: paths.Path) -> str | None:
        """What is wrong with the first name of a path."""
        if not path or path[0] in self._roots:
            return None
        root = str(path[0])
        near = difflib.get_close_matches(root, [*self._roots], n=1)
        if near:
            fix = f"did you mean `{near[0]}`?"
        elif "output" in self._roots:
            fix = f"a field of the last answer is `{paths.written(('output', *path))[:80]}`"
        else:
            fix = f"known: {', '.join(sorted(self._roots))}"
        return f"unknown name `{root[:40]}`; {fix}"


def _items(text: str, start: int) -> list[str]:
    """The values after the colon; one that has a comma is in quotes."""
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
