"""Finds the code that commands of a job run: in its workspace, and
outside of it for Python, Node, Go and Cargo.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from logist.agents import outside_code, sandbox
from logist.agents.protocol import CodePaths
from logist.core.model import MAX_DEPTH, State
from logist.errors import LogistError
from logist.jobs.base.stored_records import read_current_state
from logist.quick_dataclass import dataclass
from logist.workspace.prepared import SetupStamp

if TYPE_CHECKING:
    from logist.agents.sandbox import Confinement
    from logist.jobs.base.project import ProjectContext
    from logist.jobs.setup.command_host import CommandHost
    from logist.store import JobDir

NODE_PROGRAMS = "node_modules/.bin"
NAMED = 5
"""The maximum number of packages that a note names."""
LOGIST = "logist_jobs"
"""The name of our distribution in `.dist-info`. Another project may also have a package named `logist`."""
LOGIST_PARTS = ("logist", "schemas", "roles", "fixtures")
"""Directories that the pytest plugin needs, if Logist is installed from a checkout."""


@dataclass(frozen=True)
class WorkspaceCode:
    """Where the commands of a workspace find code, and which of it is outside the workspace."""

    paths: CodePaths
    outside: tuple[outside_code.OutsideCode, ...] = ()
    """Packages with code outside the workspace: changes in the workspace don't affect them."""
    instead: tuple[outside_code.OutsideCode, ...] = ()
    """Packages of the job's own repository: commands would run the user's checkout, not the workspace."""


def find_agent_code(host: CommandHost) -> CodePaths:
    """Where commands of an agent find programs and code."""
    stamp = SetupStamp.load(host.job.setup_file) if host.setup.commands else None
    is_current = stamp is not None and stamp.digest and stamp.belongs_to(host.job.workspace)
    return find_code(host, find_prepared_paths(host, stamp) if stamp and is_current else CodePaths()).paths


def find_prepared_paths(host: CommandHost, stamp: SetupStamp) -> CodePaths:
    """The virtual environment and the node programs that a setup made directly in the workspace."""
    workspace = host.job.workspace
    top = [name for name in stamp.outputs if "/" not in name]
    environments = [name for name in top if (workspace / name / "pyvenv.cfg").is_file()]
    programs = [f"{name}/bin" for name in environments]
    if "node_modules" in top and (workspace / NODE_PROGRAMS).is_dir():
        programs.append(NODE_PROGRAMS)
    return CodePaths(
        programs=tuple(programs),
        virtual_env=environments[0] if environments else "",
        readable=(str(host.cache.interpreters),),
    )


def find_code(
    host: CommandHost,
    prepared: CodePaths,
    programs: Sequence[str] = (),
    *,
    isolated: bool = False,
) -> WorkspaceCode:
    """Find the code that commands of a job run; `prepared`: what its setup made, `programs`: those that run.

    `isolated`: one of them is a Python that ignores PYTHONPATH.
    """
    workspace = Path(os.path.realpath(host.job.workspace))
    path = os.pathsep.join(
        [
            *(str(workspace / name) for name in prepared.programs),
            host.environment.build_child_environment().get("PATH", ""),
        ]
    )
    above = sandbox.choose_sandbox(host.sandbox.mode).kind == "none"
    all_outside = outside_code.find_outside_code(workspace, path, programs, above=above)
    origin = host.find_origin()
    mapped: list[str] = []
    importable: list[tuple[outside_code.OutsideCode, str]] = []
    outside, instead, readable = [], [], list(prepared.readable)
    for code in all_outside:
        relative = _find_relative_path(code.place, origin.source)
        if relative is None:
            parts = _find_logist_parts(code)
            readable += parts
            outside += [] if parts or code.missing else [code]
        elif (
            code.ecosystem != "Python"
            or code.overrides
            or isolated
            or not _is_directory_of(workspace, relative)
        ):
            instead.append(code)
        else:
            importable.append((code, relative))
            mapped += [] if relative in (".", "src") else [relative]
    roots = [workspace / name for name in ("src", ".", *mapped) if _is_directory_of(workspace, name)]
    for code, relative in importable:
        if origin.is_code_missing(relative, outside_code.find_missing_modules(code.place, roots)):
            instead.append(code)
    paths = replace(
        prepared, python_path=tuple(dict.fromkeys(mapped)), readable=tuple(dict.fromkeys(readable))
    )
    return WorkspaceCode(paths, tuple(outside), tuple(instead))


def filter_reachable(
    code: Sequence[outside_code.OutsideCode], confinement: Confinement
) -> list[outside_code.OutsideCode]:
    """The packages that a command can run: a sandbox hides what is outside."""
    if sandbox.choose_sandbox(confinement.mode).kind == "none":
        return list(code)
    return [each for each in code if sandbox.is_visible(each.place, confinement)]


def format_names(code: Sequence[outside_code.OutsideCode]) -> str:
    """The names of the packages without their paths: prompts contain no paths of this machine."""
    more = f" and {len(code) - NAMED} more" if len(code) > NAMED else ""
    return ", ".join(map(str, code[:NAMED])) + more


@dataclass(frozen=True)
class JobOrigin:
    """What a job, or the job that it does a part of, started from."""

    source: Path | None
    """The user's repository, without links."""
    had_any: Callable[[Sequence[str]], bool]
    """Whether the workspace held one of these files at the start."""

    def is_code_missing(self, folder: str, missing: Sequence[str]) -> bool:
        """True if the checkout has modules in `folder` that the workspace had, or that are built from it.

        Modules that are new in the checkout since then don't count: nothing in the workspace can know about
        them.
        """
        if any(not name.endswith(".py") for name in missing):
            return True
        paths = [os.path.normpath(os.path.join(folder, name)) for name in missing]
        return bool(paths) and self.had_any(paths)


def find_origin(project: ProjectContext, job: JobDir, state: State) -> JobOrigin:
    """Find what a job of this machine started from."""
    source, parent, start = state.source, state.parent, state.start_checkpoint
    for _ in range(MAX_DEPTH):
        if source is not None or parent is None:
            break
        try:
            above = project.open_job(parent)
            values = read_current_state(above)
        except LogistError:
            break
        job, start = above, values.get("start_checkpoint")
        source, parent = values.get("source"), values.get("parent")

    def had_any(paths: Sequence[str]) -> bool:
        return bool(start) and project.open_workspace(job).holds_any(str(start), paths)

    return JobOrigin(Path(os.path.realpath(source)) if isinstance(source, str) else None, had_any)


def _is_directory_of(workspace: Path, name: str) -> bool:
    """True if it is a directory in the workspace; a link to one does not
    count, because it may lead outside.
    """
    place = workspace / name
    return place.is_dir() and os.path.realpath(place) == str(place)


def _find_relative_path(place: Path, source: Path | None) -> str | None:
    """The path of `place` relative to the repository; None if it is outside."""
    return str(place.relative_to(source)) if source is not None and place.is_relative_to(source) else None


def _find_logist_parts(code: outside_code.OutsideCode) -> list[str]:
    """The directories that must be readable for a Logist installed from a checkout.

    pytest loads Logist's plugin in every run, and fails if it can't be imported.
    """
    if code.ecosystem != "Python" or code.name.replace("-", "_").casefold() != LOGIST:
        return []
    parts = [code.place / name for name in LOGIST_PARTS]
    return [str(part) for part in parts if part.is_dir()]
