"""Tells the forms of a condition apart and makes a program of each."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from logist.core import paths
from logist.core.condition import cel, emitting, objects, values
from logist.core.condition.expression import parsed
from logist.core.condition.fault import ConditionError, Unusable
from logist.core.condition.slots import Slots, named

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
    """One condition on its way to a program."""

    def __init__(self, known_roots: Collection[str], *, javascript: bool = True) -> None:
        self.slots = Slots(javascript=javascript)
        self._roots = known_roots
        self._parts = 0

    def program(self, form: Any, depth: int = 0) -> str:
        """CEL for any form; its values are in `slots`. Raises ConditionError."""
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise ConditionError(f"too many conditions in one: at most {MAX_PARTS}")
        if isinstance(form, bool):
            return "true" if form else "false"
        if isinstance(form, dict):
            return self._object(form, depth)
        if isinstance(form, str):
            return self._text(form)
        raise ConditionError(f"a condition is a text or an object, not {values.kind(form)}")

    def _object(self, form: dict[Any, Any], depth: int) -> str:
        if depth == MAX_DEPTH:
            raise ConditionError(f"the condition is nested too deep: at most {MAX_DEPTH} levels")
        objects.checked(form)
        all_of = objects.tested(form, self.slots, self._roots, f"{self._parts}")
        if "and" in form:
            all_of += [f"({self.program(part, depth + 1)})" for part in form["and"]]
        if "or" in form:
            any_of = [f"({self.program(part, depth + 1)})" for part in form["or"]]
            all_of.append(f"({' || '.join(any_of) or 'false'})")
        if "not" in form:
            all_of.append(f"!({self.program(form['not'], depth + 1)})")
        if "unless" in form:
            all_of.append(self._unless(form["unless"], depth + 1))
        return " && ".join(all_of) or "true"

    def _unless(self, form: Any, depth: int) -> str:
        """Whether a condition does not hold; unlike `not`, also where it can't be judged."""
        inner = Reading(self._roots, javascript=self.slots.javascript)
        inner._parts = self._parts
        text = inner.program(form, depth)
        self._parts = inner._parts
        takes = tuple(inner.slots.takes)
        program = cel.compiled(text, len(takes))
        self.slots.reads |= inner.slots.reads

        def take(data: Any) -> bool:
            given = {}
            for number, take_value in enumerate(takes):
                with suppress(Unusable):
                    given[f"v{number}"] = take_value(data)
            try:
                return not cel.judged(program, given)
            except cel.Faulty:
                return True

        return self.slots.name(("unless", self._parts), take)

    def _text(self, form: str) -> str:
        if len(form) > MAX_CHARACTERS:
            raise ConditionError(f"too long: {len(form):,} characters, at most {MAX_CHARACTERS:,}", 1)
        text = _BREAK.sub(lambda match: " " * len(match[0]), form)
        if not text.strip():
            raise ConditionError("the condition is empty", 1)
        if (one_of := self._one_of(text)) is not None:
            return one_of
        if self._is_expression(text):
            return emitting.truth(parsed(text, self._root_fault), self.slots)
        word = text.strip()
        path, end = paths.scan(word, 0)
        if end == len(word) and (path[0] in self._roots or not self._is_word(word, path)):
            if fault := self._root_fault(path):
                raise ConditionError(f"{fault} (a word that has dots is put in quotes)", text.index(word) + 1)
            return self.slots.truth(path)
        return self._alike(CHOICE, [self._unquoted(word, text)])

    def _one_of(self, text: str) -> str | None:
        """`field:v1,v2`, or None for a text of another form."""
        start = len(text) - len(text.lstrip())
        path, end = paths.scan(text, start)
        colon = _COLON.match(text, end)
        if not path or text[start] == "[" or not colon:
            return None
        choices = _items(text, colon.end())
        return self._alike(path if path[0] in self._roots else ("output", *path), choices)

    def _alike(self, path: paths.Path, choices: list[str]) -> str:
        self.slots.reads[path] = None

        def take(data: Any) -> bool:
            value = self.slots.lookup(data, path)
            if value is paths.MISSING:
                raise Unusable(f"`{named(path)}` is missing")
            return any(values.alike(value, choice) for choice in choices)

        return self.slots.name(("alike", path, tuple(choices)), take)

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
