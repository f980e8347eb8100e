"""Agent programs described in the config: how a program is started, and how its output is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from logist.core.model import Frozen
from logist.lazy_patterns import compile_on_use
from logist.quick_model import AfterValidator, Field, StringConstraints, model_validator

Text = Annotated[str, StringConstraints(min_length=1)]
Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


def _check_inside(path: str) -> str:
    if path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise ValueError("must be a relative path without `..`")
    return path


Inside = Annotated[str, StringConstraints(min_length=1), AfterValidator(_check_inside)]
"""A file in the home of the program, as a relative path."""
ProgramName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*$")]

PLACEHOLDER = compile_on_use(r"\{([a-z_]+)\}")
COMMON = frozenset({"model", "provider_model", "workspace", "home", "endpoint", "name", "prompt_file"})
"""Placeholders allowed in `argv`, `environment` and `files`."""


class UsagePaths(Frozen):
    """The dotted paths of the token counts."""

    input: Text
    """The path of the number of input tokens."""
    output: Text
    """The path of the number of output tokens."""
    cached: Text | None = None
    """The path of the number of input tokens from a cache."""
    cached_in_input: bool = True
    """Whether `input` includes cached tokens."""


class ProgramEntry(Frozen):
    """An agent program of the user; placeholders are in braces, for example `{model}`."""

    argv: Annotated[tuple[Text, ...], Field(min_length=1)]
    """The program and its arguments."""
    prompt: Literal["stdin", "file", "argument"] = "stdin"
    """How the program gets the prompt: on stdin, in the file `{prompt_file}`, or as the argument `{prompt}`."""
    output: Literal["text", "json", "jsonl"] = "text"
    """What it prints: text, one JSON value, or one JSON value in each line."""
    read_from: Inside | None = None
    """The file in its home with the output; None means standard output."""
    where: dict[Text, str] = Field(default_factory=dict)
    """For `jsonl`: use only lines with these texts at these paths; the last such line is read."""
    text: Text | None = None
    """The path of the final message, for example `result` or `messages.-1.text`."""
    error: Text | None = None
    """The path of a value that exists only after a failure."""
    usage: UsagePaths | None = None
    """Where its output has the numbers of tokens."""
    cost: Text | None = None
    """The path of the cost that the program reports, in US dollars."""
    session: Text | None = None
    """The path of the name under which it stores its conversation."""
    environment: dict[Variable, str] = Field(default_factory=dict)
    """Variables with their values."""
    files: dict[Inside, str] = Field(default_factory=dict)
    """Files to write to its home before the start; here `{key}` is replaced by the API key."""
    pass_key_as: Variable | None = None
    """The variable that gets the API key."""
    metered: bool = True
    """`false` allows a program that doesn't report its usage."""
    read_only_argv: tuple[Text, ...] = ()
    """Arguments added for a role that may only read."""
    edit_argv: tuple[Text, ...] = ()
    """Arguments added for a role that may change files, but not run commands."""
    full_argv: tuple[Text, ...] = ()
    """Arguments added for a role that may run commands."""
    results: tuple[Inside, ...] = ()
    """More files in its home to keep with its output."""

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.output != "text" and self.text is None:
            raise ValueError(f"with `output: {self.output}` must have `text`, the path of the final message")
        if self.metered and (self.usage is None or self.output == "text"):
            raise ValueError("must have `usage`, the paths of the token counts, or `metered: false`")
        arguments = (*self.argv, *self.read_only_argv, *self.edit_argv, *self.full_argv)
        for place, values, more in (
            ("argv", arguments, {"prompt"} if self.prompt == "argument" else set()),
            ("environment", tuple(self.environment.values()), set()),
            ("files", tuple(self.files.values()), {"key"}),
        ):
            if unknown := sorted(set(_list_placeholders(values)) - COMMON - more):
                known = ", ".join(sorted(COMMON | more))
                raise ValueError(f"has the unknown placeholder {{{unknown[0]}}} in `{place}`; known: {known}")
        if self.prompt == "file" and "prompt_file" not in _list_placeholders(self.list_texts()):
            raise ValueError("with `prompt: file` must have {prompt_file} in `argv`")
        return self

    def list_texts(self) -> tuple[str, ...]:
        """Return all texts in which placeholders are filled in."""
        arguments = (*self.argv, *self.read_only_argv, *self.edit_argv, *self.full_argv)
        return (*arguments, *self.environment.values(), *self.files.values())


def _list_placeholders(texts: tuple[str, ...]) -> list[str]:
    return list(_find_placeholders(texts))


def _find_placeholders(texts: tuple[str, ...]) -> Iterator[str]:
    for text in texts:
        yield from PLACEHOLDER.findall(text)
