"""Which program a name stands for: one of the config, a shipped one, or one that a package adds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

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
from logist.documents import nearest
from logist.errors import InvalidFile, LogistError

GROUP = "logist.agents"
"""The group of entry points by which a package adds programs."""

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
    """A program of another package; whatever it raises is told as what it is, an error of that package."""

    program: Program
    origin: str
    """The package, for errors."""

    def __post_init__(self) -> None:
        self.name, self.executable = self.program.name, self.program.executable
        self.metered = self.program.metered

    def invocation(self, run: Run) -> Invocation:
        """How to start it; InvalidFile for all that goes wrong in it."""
        try:
            made: object = self.program.invocation(run)
        except LogistError:
            raise
        except Exception as error:  # it is not our code
            raise _broken(self.origin, f"`invocation` failed: {_words(error)}") from error
        if not isinstance(made, Invocation):
            raise _broken(self.origin, "`invocation` gave back no Invocation")
        return made

    def read(self, finished: Finished) -> Result:
        """What its output means; an error if the package can't read it."""
        try:
            result: object = self.program.read(finished)
        except Exception as error:  # noqa: BLE001  it is not our code
            return _unread(f"`read` of {self.origin} failed: {_words(error)}")
        return (
            result if isinstance(result, Result) else _unread(f"`read` of {self.origin} gave back no Result")
        )


def program(name: str, described: Mapping[str, ProgramEntry]) -> Program:
    """The program of a name: of the config before the shipped ones, and these before those of packages.

    Raises InvalidFile for a name that is unknown, or whose package is broken.
    """
    if name in described:
        return Described(name, described[name])
    if name in PRESETS:
        return PRESETS[name]
    added = [point for point in entry_points(group=GROUP) if point.name == name]
    if len(added) > 1:
        packages = " and ".join(sorted(_origin(point) for point in added))
        raise InvalidFile(
            f"agent `{name}` is in more than one package: {packages}", fix="uninstall all but one"
        )
    if added:
        return _loaded(added[0])
    known = names(described)
    raise InvalidFile(
        f"unknown agent `{name}`; known: litellm, {', '.join(known)}",
        where="config.yaml: agent",
        fix=f"{nearest(name, [*known, 'litellm'])} Or describe it in .logist/config.yaml, under `agents`.",
    )


def handed(name: str, entry: JsonObject | None) -> Program:
    """The same for a courier, which is handed the entry of the config, if there is one, with its errand."""
    described = {} if entry is None else {name: ProgramEntry.model_validate_json(json.dumps(entry))}
    return program(name, described)


def names(described: Mapping[str, ProgramEntry]) -> list[str]:
    """All programs there are, by name."""
    return sorted({*described, *PRESETS, *(point.name for point in entry_points(group=GROUP))})


def _loaded(point: EntryPoint) -> Program:
    origin = _origin(point)
    try:
        found: Any = point.load()
        made = found() if isinstance(found, type) else found
    except Exception as error:  # it is not our code
        raise _broken(origin, f"`{point.value}` can't be loaded: {_words(error)}") from error
    fields = {"name": str, "executable": str, "metered": bool}
    wrong = [key for key, kind in fields.items() if not isinstance(getattr(made, key, None), kind)]
    wrong += [method for method in ("invocation", "read") if not callable(getattr(made, method, None))]
    if wrong:
        raise _broken(origin, f"`{point.value}` is no agent program: it lacks {', '.join(wrong)}")
    return Foreign(made, origin)


def _origin(point: EntryPoint) -> str:
    return f"the package {point.dist.name} {point.dist.version}" if point.dist else "a package"


def _broken(origin: str, what: str) -> InvalidFile:
    fix = "update or uninstall that package, or choose another agent"
    return InvalidFile(f"{origin}: {what}", where=f"entry points of {GROUP}", fix=fix)


def _unread(message: str) -> Result:
    return Result(error=TransportError(kind=ErrorKind.BAD_REQUEST, message=message))


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:300]
