"""Why data doesn't fit a model: the same types, places and messages as pydantic's."""

from __future__ import annotations

from typing import Any

from logist.quick_tuple import NamedTuple

_JSON_MESSAGES = {
    "model_type": "Input should be an object",
    "dict_type": "Input should be an object",
    "list_type": "Input should be a valid array",
    "tuple_type": "Input should be a valid array",
}
"""The messages that differ for data from JSON text."""


class Problem(NamedTuple):
    """One thing that is wrong with the data."""

    type: str
    msg: str
    input: Any
    ctx: dict[str, Any] | None = None
    loc: tuple[str | int, ...] = ()

    def below(self, *parts: str | int) -> Problem:
        """Return the problem as seen from the value that has this one at `parts`."""
        return self._replace(loc=(*parts, *self.loc))


class Misfit(Exception):
    """A value doesn't fit its annotation. Only between the checks: callers get a ValidationError."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems


class ValidationError(ValueError):
    """The data doesn't fit the model."""

    def __init__(self, title: str, problems: tuple[Problem, ...], *, from_json: bool = False) -> None:
        super().__init__(title, problems)
        self.title = title
        self._problems = problems
        self._from_json = from_json

    def errors(
        self, *, include_url: bool = True, include_context: bool = True, include_input: bool = True
    ) -> list[dict[str, Any]]:
        """Return the problems as dictionaries, as pydantic does but without its addresses."""
        return [self._describe(each, include_context, include_input) for each in self._problems]

    def _describe(self, problem: Problem, include_context: bool, include_input: bool) -> dict[str, Any]:
        message = _JSON_MESSAGES.get(problem.type, problem.msg) if self._from_json else problem.msg
        described: dict[str, Any] = {"type": problem.type, "loc": problem.loc, "msg": message}
        if include_input:
            described["input"] = problem.input
        if include_context and problem.ctx is not None:
            described["ctx"] = problem.ctx
        return described

    def error_count(self) -> int:
        """Return the number of problems."""
        return len(self._problems)

    def __str__(self) -> str:
        count = len(self._problems)
        lines = [f"{count} validation error{'' if count == 1 else 's'} for {self.title}"]
        for each in self.errors():
            if each["loc"]:
                lines.append(".".join(map(str, each["loc"])))
            kind = type(each["input"]).__name__
            lines.append(f"  {each['msg']} [type={each['type']}, input_type={kind}]")
        return "\n".join(lines)
