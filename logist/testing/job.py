"""A job for a test: its answers come from the test; everything else, including files and git, is real."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

from logist import documents
from logist.api import Job
from logist.config.environment import PROJECT_DIRECTORY, Environment, list_config_directories
from logist.config.merging import merge_settings
from logist.config.settings import CONFIG_FILE, load_settings
from logist.config.trust import Trust
from logist.core.model import JobSpec, Kind
from logist.errors import UsageError
from logist.jobs.base.create import create_job
from logist.jobs.base.project import SCRIPTED, Clock, ProjectContext
from logist.jobs.base.result import CommandResult
from logist.quick_dataclass import dataclass
from logist.resources import find_resource
from logist.roles import load_roles
from logist.testing.offline import forbid_network

Given: TypeAlias = str | Mapping[str, Any]
"""An answer: text, an exit command, or an answer as in a script file."""

BESIDE = frozenset({"files", "role", "usage", "finish"})
"""Fields of an answer that may be mixed with the fields of an exit command."""
WHOLE = frozenset({"text", "exit", "error"})
"""Fields that only an answer of a script file has."""
STEWARD = "tester"
KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR")
"""Environment variables that are passed to a job in a test; none of them is a key."""
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
"""Start time of every test, so that histories are the same in each run."""


def answer(
    action: str = "COMPLETED",
    summary: str = "Done.",
    evidence: Iterable[str] = (),
    *,
    files: Mapping[str, str | None] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Build an exit command, and the files that the agent leaves behind; None deletes a file.

    `more` are other fields of the command (`output`, `metadata`), or of the answer (`role`, `usage`,
    `finish`).
    """
    command = {"action": action, "evidence_files": list(evidence), "summary_for_supervisor": summary}
    return {**command, **({"files": dict(files)} if files else {}), **more}


def to_script_answer(given: Given | object) -> dict[str, Any]:
    """Convert an answer to the form of a script file. Raises UsageError if it is not an answer."""
    if isinstance(given, str):
        return {"text": given}
    if not isinstance(given, Mapping):
        message = f"an answer must be a text or a mapping, got {type(given).__name__}"
        raise UsageError(message, where="answers", fix="use answer(...) from logist.testing")
    if WHOLE & given.keys():
        return dict(given)
    exit_command = {name: value for name, value in given.items() if name not in BESIDE}
    return {"exit": exit_command, **{name: given[name] for name in given if name in BESIDE}}


@dataclass
class Ticking:
    """A clock that advances one second each time it is read."""

    looks: int = 0

    def now(self) -> datetime:
        return BEGAN + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        self.looks += 1
        return float(self.looks)


class LogistJob(Job):
    """A job with the methods of `logist.Job`, and answers that the test supplies. Nothing reaches the network."""

    def __init__(self, job_id: str, project: ProjectContext, said: list[str]) -> None:
        super().__init__(project, job_id)
        self.said = said
        """The progress messages so far."""

    @property
    def project(self) -> ProjectContext:
        """The first argument of the functions in `logist.jobs`, for what has no method here."""
        return self._context

    @project.setter
    def project(self, project: ProjectContext) -> None:
        self._context = project

    @property
    def folder(self) -> Path:
        """The directory of the job."""
        return self.directory

    @property
    def prompts(self) -> list[str]:
        """The prompts so far, one for each request."""
        return [entry.request.prompt for entry in self.history if entry.kind is Kind.ASK]

    def script(self, *answers: Given, steps: Mapping[str, Sequence[Given]] | None = None) -> None:
        """Replace the answers for later requests. Answers are numbered from the first request of the job.

        `steps`: the answers at the steps of a workflow, by step id. Raises InvalidFile for an invalid answer.
        """
        path = Path(self.project.agent.removeprefix(SCRIPTED))
        by_step = {step: [*map(to_script_answer, given)] for step, given in (steps or {}).items()}
        _write_json(path, {"answers": [*map(to_script_answer, answers)], "steps": by_step})
        self.project = replace(self.project)  # a copy that has not read its script yet
        assert self.project.local_agent

    def poststep(self, given: Given, *, dry_run: bool = False, role: str | None = None) -> CommandResult:
        """Do a step with an answer supplied by hand, as `job poststep`; `answer` with the answers of a script."""
        script_answer = to_script_answer(given)
        return self.answer(
            script_answer.get("exit") or str(script_answer.get("text", "")), role=role, dry_run=dry_run
        )

    def _guard(self) -> AbstractContextManager[None]:
        return forbid_network()


def make_job(
    place: Path,
    *,
    prompt: str | None = "Do it.",
    answers: Sequence[Given] = (),
    steps: Mapping[str, Sequence[Given]] | None = None,
    files: Mapping[str, str] | None = None,
    roles: Mapping[str, Mapping[str, Any] | str | Path] | None = None,
    workflow: Mapping[str, Any] | str | Path | None = None,
    config: Mapping[str, Any] | None = None,
    project: str | Path | None = None,
    job_id: str = "job",
    **spec: Any,
) -> LogistJob:
    """Create a job in a new project at `place`; see the fixture `logist_job` for its arguments."""
    home = place / PROJECT_DIRECTORY
    home.mkdir(parents=True)
    if project is not None:
        _copy_project_files(Path(project), home)
    for name, role in (roles or {}).items():
        _write_role(home / "roles", name, role)
    if config:
        _write_config(home, config)
    if isinstance(workflow, Mapping):
        _write_json(home / "workflows" / "of-the-test.json", workflow)
        workflow = str(home / "workflows" / "of-the-test.json")
    said: list[str] = []
    job = LogistJob(job_id, _build_project(place, home, said), said)
    job.script(*answers, steps=steps)
    flow = {"workflow": str(workflow), "prompt": None if prompt == "Do it." else prompt} if workflow else {}
    fields = {"prompt": prompt, "repo": False, **flow, **spec}
    job_spec = documents.validate_document(JobSpec, documents.Document("logist_job", fields, {}))
    create_job(job.project, job_id, job_spec, here=Path.cwd())
    for name, text in (files or {}).items():
        _write_workspace_file(job.workspace, name, text)
    return job


def _build_project(place: Path, home: Path, said: list[str]) -> ProjectContext:
    clock = Ticking()
    variables = {
        name: value
        for name, value in Environment.from_process().build_child_environment().items()
        if name in KEPT
    }
    environment = Environment(variables | {"HOME": str(place), "XDG_CONFIG_HOME": str(place / "no-config")})
    folders = list_config_directories(home, environment.user_config_dir())
    return ProjectContext(
        home=home,
        jobs_dir=home / "jobs",
        settings=load_settings(home, environment.user_config_dir()).settings,
        roles=load_roles([find_resource("roles"), *(folder / "roles" for folder in folders)]),
        environment=environment,
        clock=Clock(clock.now, clock.monotonic),
        steward=STEWARD,
        agent=f"{SCRIPTED}{place / 'answers.json'}",
        say=said.append,
        trust=Trust(environment.user_config_dir(), home),
    )


def _copy_project_files(project: Path, home: Path) -> None:
    """Copy the config, roles and workflows of a project, but not its jobs, into the test's project."""
    source = project if project.name == PROJECT_DIRECTORY else project / PROJECT_DIRECTORY
    if not source.is_dir():
        raise UsageError(
            f"no {PROJECT_DIRECTORY} in {project}", where="project", fix="pass the directory of a project"
        )
    if (source / CONFIG_FILE).is_file():
        shutil.copyfile(source / CONFIG_FILE, home / CONFIG_FILE)
    for folder in ("roles", "workflows"):
        if (source / folder).is_dir():
            shutil.copytree(source / folder, home / folder)


def _write_role(folder: Path, name: str, role: Mapping[str, Any] | str | Path) -> None:
    """Write a role file from its fields, its text, or an existing file."""
    if Path(name).name != name:
        raise UsageError(f"invalid file name {name!r}", where="roles", fix="use the name of the role")
    if isinstance(role, Mapping):
        defaults = {"description": name, "instructions": "Do what the task says.", "llm_model": "test"}
        _write_json(folder / f"{name}.json", {"name": name, **({} if "base" in role else defaults), **role})
        return
    text = role.read_text("utf-8") if isinstance(role, Path) else role
    suffix = role.suffix if isinstance(role, Path) else ".md" if text.startswith("---") else ".yaml"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}{suffix}").write_text(text, "utf-8")


def _write_config(home: Path, config: Mapping[str, Any]) -> None:
    """Write the config of the test, which overrides the copied config of the project."""
    path = home / CONFIG_FILE
    base = documents.read_document(path).data if path.is_file() else {}
    _write_json(path, merge_settings(base, dict(config)))


def _write_workspace_file(workspace: Path, name: str, text: str) -> None:
    """Write a file before the first step. Raises UsageError for a path outside of the workspace."""
    path = workspace / name
    if Path(name).is_absolute() or ".." in Path(name).parts or not Path(name).parts:
        raise UsageError(
            f"{name!r} is outside the workspace", where="files", fix="use a relative path without `..`"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def _write_json(path: Path, data: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, ensure_ascii=False, indent=1), "utf-8")
