"""Whose code the commands of a job run: that of its workspace, and what outside of it Python, Node, Go or Cargo would take."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from logist.agents import sandbox
from logist.agents.outside_code import OutsideCode, find_missing_modules, find_outside_code
from logist.agents.protocol import CodePaths
from logist.agents.sandbox import Confinement
from logist.core.model import MAX_DEPTH, State
from logist.errors import LogistError
from logist.jobs.base.project import Project
from logist.jobs.base.session import read_current_state
from logist.jobs.setup.setup_cache import SetupCache
from logist.store import JobDir
from logist.workspace.prepared import SetupStamp

NODE_PROGRAMS = "node_modules/.bin"
NAMED = 5
"""Packages that a note names."""
LOGIST = "logist_jobs"
"""The distribution, as its `.dist-info` is named; the package `logist` of another project has no place here."""
LOGIST_PARTS = ("logist", "schemas", "roles", "fixtures")
"""Of a checkout of Logist that is installed: what its pytest plugin needs."""


@dataclass(frozen=True)
class WorkspaceCode:
    """Where the commands of a workspace find code, and which of it is not the workspace's."""

    paths: CodePaths
    outside: tuple[OutsideCode, ...] = ()
    """Packages whose code lies outside: nothing that is done in the workspace changes them."""
    instead: tuple[OutsideCode, ...] = ()
    """Packages of the job's own repository: the user's checkout would be run, not the workspace."""


def find_agent_code(project: Project, job: JobDir, state: State) -> CodePaths:
    """Where commands of an agent find programs and code."""
    stamp = SetupStamp.load(job.setup_file) if project.settings.workspace.setup.commands else None
    is_current = stamp is not None and stamp.digest and stamp.belongs_to(job.workspace)
    return find_code(
        project, job, state, find_prepared_paths(job, stamp) if stamp and is_current else CodePaths()
    ).paths


def find_prepared_paths(job: JobDir, stamp: SetupStamp) -> CodePaths:
    """Of what a setup made directly in the workspace, the virtual environment and the programs of node modules."""
    top = [name for name in stamp.outputs if "/" not in name]
    environments = [name for name in top if (job.workspace / name / "pyvenv.cfg").is_file()]
    programs = [f"{name}/bin" for name in environments]
    if "node_modules" in top and (job.workspace / NODE_PROGRAMS).is_dir():
        programs.append(NODE_PROGRAMS)
    return CodePaths(
        programs=tuple(programs),
        virtual_env=environments[0] if environments else "",
        readable=(str(SetupCache(job.path.parent).interpreters),),
    )


def find_code(
    project: Project,
    job: JobDir,
    state: State,
    prepared: CodePaths,
    programs: Sequence[str] = (),
    *,
    isolated: bool = False,
) -> WorkspaceCode:
    """What commands of a job run; `prepared` is what its setup made, `programs` those that are run.

    `isolated`: one of them is a Python that ignores PYTHONPATH.
    """
    workspace = Path(os.path.realpath(job.workspace))
    path = os.pathsep.join(
        [
            *(str(workspace / name) for name in prepared.programs),
            project.environment.build_child_environment().get("PATH", ""),
        ]
    )
    above = sandbox.choose_sandbox(project.settings.sandbox.mode).kind == "none"
    all_outside = find_outside_code(workspace, path, programs, above=above)
    origin = _find_origin(project, job, state)
    mapped: list[str] = []
    importable: list[tuple[OutsideCode, str]] = []
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
        if origin.is_code_missing(project, relative, find_missing_modules(code.place, roots)):
            instead.append(code)
    paths = replace(
        prepared, python_path=tuple(dict.fromkeys(mapped)), readable=tuple(dict.fromkeys(readable))
    )
    return WorkspaceCode(paths, tuple(outside), tuple(instead))


def filter_reachable(code: Sequence[OutsideCode], confinement: Confinement) -> list[OutsideCode]:
    """Those that a command can run: a sandbox hides what lies outside."""
    if sandbox.choose_sandbox(confinement.mode).kind == "none":
        return list(code)
    return [each for each in code if sandbox.is_visible(each.place, confinement)]


def format_names(code: Sequence[OutsideCode]) -> str:
    """Their names, without their places: prompts name no place on this machine."""
    more = f" and {len(code) - NAMED} more" if len(code) > NAMED else ""
    return ", ".join(map(str, code[:NAMED])) + more


@dataclass(frozen=True)
class _Origin:
    """What a job, or the job that it does a part of, began from."""

    source: Path | None
    """The user's repository, without links."""
    job: JobDir
    start: str | None
    """The first checkpoint of `job`."""

    def is_code_missing(self, project: Project, folder: str, missing: Sequence[str]) -> bool:
        """Whether the checkout has modules in `folder` that the workspace had, or that are built from it.

        What is new in the checkout since then is no reason: nothing in the workspace can know of it.
        """
        if any(not name.endswith(".py") for name in missing):
            return True
        paths = [os.path.normpath(os.path.join(folder, name)) for name in missing]
        return bool(paths and self.start and project.open_workspace(self.job).holds_any(self.start, paths))


def _find_origin(project: Project, job: JobDir, state: State) -> _Origin:
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
    return _Origin(Path(os.path.realpath(source)) if isinstance(source, str) else None, job, start)


def _is_directory_of(workspace: Path, name: str) -> bool:
    """Whether it is a directory in the workspace; one that a link leads to is none, for it may lie elsewhere."""
    place = workspace / name
    return place.is_dir() and os.path.realpath(place) == str(place)


def _find_relative_path(place: Path, source: Path | None) -> str | None:
    """The path of `place` in the repository; None if it is not in it."""
    return str(place.relative_to(source)) if source is not None and place.is_relative_to(source) else None


def _find_logist_parts(code: OutsideCode) -> list[str]:
    """What to show of a Logist that is installed from a checkout.

    pytest loads its plugin in every run, and ends where it can't be imported.
    """
    if code.ecosystem != "Python" or code.name.replace("-", "_").casefold() != LOGIST:
        return []
    parts = [code.place / name for name in LOGIST_PARTS]
    return [str(part) for part in parts if part.is_dir()]
