"""Finds an agent program by name: in the config, in Logist, or in other packages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from logist.agents.programs.aider import Aider
from logist.agents.programs.claude import Claude
from logist.agents.programs.cline import Cline
from logist.agents.programs.codex import Codex
from logist.agents.programs.described import Described
from logist.agents.programs.gemini import Gemini
from logist.agents.programs.goose import Goose
from logist.agents.programs.llm import Llm
from logist.agents.programs.mini import Mini
from logist.agents.programs.opencode import Opencode
from logist.agents.programs.protocol import Finished, Invocation, Program, Result, Run
from logist.config.programs import ProgramEntry
from logist.core.model import ErrorKind, TransportError
from logist.core.text.json_object import JsonObject
from logist.documents import suggest_names
from logist.errors import InvalidFile, LogistError
from logist.quick_dataclass import dataclass

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

GROUP = "logist.agents"
"""The entry point group with which a package adds programs."""

_SHIPPED: tuple[Program, ...] = (
    Aider(),
    Claude(),
    Cline(),
    Codex(),
    Gemini(),
    Goose(),
    Llm(),
    Mini(),
    Opencode(),
)
PRESETS: Mapping[str, Program] = {program.name: program for program in _SHIPPED}
"""The shipped programs by name."""


@dataclass
class Foreign:
    """A program of another package; its exceptions are reported as errors of that package."""

    program: Program
    origin: str
    """The name of the package, for errors."""

    def __post_init__(self) -> None:
        self.name, self.executable = self.program.name, self.program.executable
        self.metered = self.program.metered

    def invocation(self, run: Run) -> Invocation:
        """Build the call; InvalidFile for every error in the package's code."""
        try:
            result: object = self.program.invocation(run)
        except LogistError:
            raise
        except Exception as error:  # other people's code
            raise _make_broken_error(self.origin, f"`invocation` failed: {_describe_error(error)}") from error
        if not isinstance(result, Invocation):
            raise _make_broken_error(self.origin, "`invocation` must return an Invocation")
        return result

    def read(self, finished: Finished) -> Result:
        """Read the program's output; an error result if the package can't read it."""
        try:
            result: object = self.program.read(finished)
        except Exception as error:  # noqa: BLE001  other people's code
            return _make_unreadable_result(f"`read` of {self.origin} failed: {_describe_error(error)}")
        return (
            result
            if isinstance(result, Result)
            else _make_unreadable_result(f"`read` of {self.origin} must return a Result")
        )


def load_program(name: str, described: Mapping[str, ProgramEntry]) -> Program:
    """Return the program with this name; the config overrides the shipped programs, and these override
    packages.

    Raises InvalidFile if the name is unknown or the package is broken.
    """
    if name in described:
        return Described(name, described[name])
    if name in PRESETS:
        return PRESETS[name]
    added = [point for point in _list_entry_points() if point.name == name]
    if len(added) > 1:
        packages = " and ".join(sorted(_describe_origin(point) for point in added))
        raise InvalidFile(
            f"more than one package provides agent `{name}`: {packages}", fix="uninstall all but one"
        )
    if added:
        return _load_entry_point(added[0])
    known = list_program_names(described)
    advice = suggest_names(name, [*known, "model", "litellm"]) or ""
    begin = f"{advice} Or describe" if advice.endswith("?") else "describe"
    raise InvalidFile(
        f"unknown agent `{name}`; known: model, litellm, {', '.join(known)}",
        where="config.yaml: agent",
        fix=f"{begin} it in .logist/config.yaml, under `agents`",
    )


def load_errand_program(name: str, entry: JsonObject | None) -> Program:
    """Return the program for a courier, which gets the entry of the config, if any, with its ask."""
    described = {} if entry is None else {name: ProgramEntry.model_validate_json(json.dumps(entry))}
    return load_program(name, described)


def list_program_names(described: Mapping[str, ProgramEntry]) -> list[str]:
    """Return the names of all available programs."""
    return sorted({*described, *PRESETS, *(point.name for point in _list_entry_points())})


def _list_entry_points() -> EntryPoints:
    from importlib.metadata import entry_points  # noqa: PLC0415 - it loads the modules for e-mail and zip files

    return entry_points(group=GROUP)


def _load_entry_point(point: EntryPoint) -> Program:
    origin = _describe_origin(point)
    try:
        target: Any = point.load()
        program_object = target() if isinstance(target, type) else target
    except Exception as error:  # it is not our code
        raise _make_broken_error(origin, f"can't load `{point.value}`: {_describe_error(error)}") from error
    fields = {"name": str, "executable": str, "metered": bool}
    missing = [
        key for key, kind in fields.items() if not isinstance(getattr(program_object, key, None), kind)
    ]
    missing += [
        method for method in ("invocation", "read") if not callable(getattr(program_object, method, None))
    ]
    if missing:
        raise _make_broken_error(
            origin, f"`{point.value}` is not an agent program: missing {', '.join(missing)}"
        )
    return Foreign(program_object, origin)


def _describe_origin(point: EntryPoint) -> str:
    return f"package {point.dist.name} {point.dist.version}" if point.dist else "a package"


def _make_broken_error(origin: str, what: str) -> InvalidFile:
    fix = "update or uninstall that package, or choose another agent"
    return InvalidFile(f"{origin}: {what}", where=f"entry points of {GROUP}", fix=fix)


def _make_unreadable_result(message: str) -> Result:
    return Result(error=TransportError(kind=ErrorKind.BAD_REQUEST, message=message))


def _describe_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:300]
