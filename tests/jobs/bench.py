"""A project for tests of whole steps: fixed clock, scripted answers, everything else real."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from logist.config.environment import Environment
from logist.config.merging import merge_settings
from logist.config.settings import Settings
from logist.config.trust import Trust
from logist.core.model import Interaction, JobSpec, State
from logist.jobs import job_queue
from logist.jobs.base import job_reader
from logist.jobs.base.create import create_job
from logist.jobs.base.project import Clock, ProjectContext
from logist.jobs.base.result import CommandResult
from logist.jobs.base.session import load_session
from logist.jobs.step_job import GivenAnswer, do_poststep, do_step
from logist.jobs.turn.next_request import Choice
from logist.resources import find_resource
from logist.roles import load_roles
from logist.store import list_jobs

Json = dict[str, Any]


class Ticking:
    """A clock that moves one second with every look."""

    def __init__(self) -> None:
        self.at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        self.seconds = 0.0

    def now(self) -> datetime:
        self.at += timedelta(seconds=1)
        return self.at

    def monotonic(self) -> float:
        self.seconds += 1.0
        return self.seconds


def command(
    action: str = "COMPLETED", evidence: Sequence[str] = (), summary: str = "Done.", **more: Any
) -> str:
    """An exit command as an agent writes it."""
    return json.dumps(
        {"action": action, "evidence_files": list(evidence), "summary_for_supervisor": summary, **more}
    )


def answer(text: str | None = None, **more: Any) -> Json:
    """One scripted answer; without a text it is COMPLETED."""
    return {"text": command() if text is None else text, **more}


def gave(output: Any = None, action: str = "COMPLETED", **more: Any) -> Json:
    """A scripted answer with this output; `more` are the files, the role, what it used."""
    return answer(command(action, output=output), **more)


PLAN: Json = {"goal": "g", "steps": [{"step_number": 1, "action": "a", "reason": "r"}]}
"""The least that fits as the output of a Planner."""

RUNS = Path(__file__).parents[2] / "fixtures" / "workflows" / "runs"
"""Workflows that are made to be run."""


class Bench:
    """A project in a directory, with the verbs that tests use."""

    def __init__(self, place: Path, answers: Sequence[Json] = (), settings: Json | None = None) -> None:
        place.mkdir(parents=True, exist_ok=True)
        home = place / ".logist"
        home.mkdir(exist_ok=True)
        script = place / "answers.json"
        script.write_text(json.dumps({"answers": list(answers)}), "utf-8")
        clock = Ticking()
        self.said: list[str] = []
        self.drifts = False
        """What a job asks today may be other than what it asked: a test has changed a role or a workflow since."""
        self.project = ProjectContext(
            home=home,
            jobs_dir=home / "jobs",
            settings=Settings.model_validate(
                merge_settings(Settings().model_dump(mode="json"), settings or {})
            ),
            roles=load_roles([find_resource("roles"), home / "roles"]),
            environment=Environment(
                {"HOME": str(place), "PATH": "/usr/bin:/bin", "TMPDIR": tempfile.gettempdir()}
            ),
            clock=Clock(clock.now, clock.monotonic),
            steward="ada",
            agent=f"scripted:{script}",
            say=self.said.append,
            trust=Trust(place / "user", home),
        )

    def change(self, **changes: Any) -> None:
        """Another project from here on: other settings, another agent."""
        self.project = replace(self.project, **changes)

    def create(self, job_id: str = "j", *, draft: bool = False, **spec: Any) -> State:
        return create_job(
            self.project,
            job_id,
            JobSpec.model_validate({"prompt": "Do it.", "repo": False, **spec}),
            draft=draft,
        ).state

    def script(self, steps: Mapping[str, Sequence[Json]], answers: Sequence[Json] = ()) -> None:
        """Other answers from here on: those at the steps of workflows, and those of all other asks."""
        Path(self.project.agent.partition(":")[2]).write_text(
            json.dumps({"answers": list(answers), "steps": dict(steps)}), "utf-8"
        )
        self.change()

    def follow(
        self,
        workflow: str | Path,
        job_id: str = "j",
        *,
        steps: Mapping[str, Sequence[Json]] = {},
        **spec: Any,
    ) -> State:
        """A job that follows a workflow of `RUNS`, or another file; without an approval at its end."""
        if steps:
            self.script(steps)
        path = str(RUNS / workflow)
        return self.create(job_id, **{"prompt": None, "workflow": path, "approval": "none", **spec})

    def run(self, job_id: str = "j") -> CommandResult:
        """Steps a job, and those it gives work to, as far as it goes."""
        return job_queue.run_job(self.project, job_id, lambda _: None)

    def children(self, job_id: str = "j") -> list[str]:
        """The jobs that were made for others, in the order of their names."""
        found = [name for name in list_jobs(self.project.jobs_dir) if name.startswith(f"{job_id}--")]
        return sorted(found, key=lambda name: [int(part) for part in re.findall("[0-9]+", name)])

    def step(self, job_id: str = "j", **choice: Any) -> CommandResult:
        return do_step(self.project, job_id, Choice(**choice))

    def give(self, text: str, job_id: str = "j", *, dry_run: bool = False, **choice: Any) -> CommandResult:
        return do_poststep(self.project, job_id, GivenAnswer(text), Choice(**choice), dry_run=dry_run)

    def folder(self, job_id: str = "j") -> Path:
        return self.project.jobs_dir / job_id

    def workspace(self, job_id: str = "j") -> Path:
        return self.folder(job_id) / "workspace"

    def state(self, job_id: str = "j") -> State:
        return load_session(self.project, self.project.open_job(job_id)).state

    def history(self, job_id: str = "j") -> list[Interaction]:
        return list(job_reader.read_interactions(self.project.open_job(job_id)))

    def files(self, job_id: str = "j") -> dict[str, bytes]:
        """Every byte of the job's directory, for comparing before and after."""
        folder = self.folder(job_id)
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and not path.is_symlink()
        }
