"""Makes jobs of the example project: each with its own clock, and an agent that answers from a list."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from logist.agents.function import AgentAnswer, AgentRequest, FunctionAgent
from logist.api import Job, Project
from logist.jobs.base.project import Clock, ProjectContext
from logist.quick_dataclass import dataclass

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Killed(BaseException):
    """The process of an agent ends at this place, without an answer."""


@dataclass(frozen=True)
class ExampleAnswer:
    """What an agent does and answers."""

    text: str | Mapping[str, Any]
    files: Mapping[str, str | None] = field(default_factory=dict)
    """Files to write; None deletes one."""
    minutes: float = 2.5
    cost_cents: float = 3.0
    kills: bool = False
    """The process ends instead of an answer."""


def complete(
    summary: str,
    files: Mapping[str, str | None] | None = None,
    *,
    output: Any = None,
    evidence: tuple[str, ...] | None = None,
    minutes: float = 2.5,
    cost_cents: float = 3.0,
) -> ExampleAnswer:
    """The agent did its work. `evidence`: by default, the files that it wrote."""
    files = files or {}
    named = tuple(name for name, text in files.items() if text is not None) if evidence is None else evidence
    return ExampleAnswer(_build_command("COMPLETED", summary, output, named), files, minutes, cost_cents)


def review(verdict: str, summary: str, *issues: Mapping[str, Any], cost_cents: float = 1.2) -> ExampleAnswer:
    """A reviewer accepted the work (PASS), or sends it back (FAIL)."""
    output = {"verdict": verdict, "issues": list(issues), "suggestions": []}
    return ExampleAnswer(_build_command("COMPLETED", summary, output), {}, 0.8, cost_cents)


def retry(summary: str, *, minutes: float = 2.5, cost_cents: float = 2.0) -> ExampleAnswer:
    """The agent failed, and wants to try again."""
    return ExampleAnswer(_build_command("RETRY", summary), {}, minutes, cost_cents)


def give_up(summary: str, output: Any = None, *, cost_cents: float = 1.5) -> ExampleAnswer:
    """The agent needs a person."""
    return ExampleAnswer(_build_command("STUCK", summary, output), {}, 1.5, cost_cents)


def _build_command(
    action: str, summary: str, output: Any = None, evidence: tuple[str, ...] = ()
) -> dict[str, Any]:
    command: dict[str, Any] = {
        "action": action,
        "evidence_files": list(evidence),
        "summary_for_supervisor": summary,
    }
    return command if output is None else command | {"output": output}


class ExampleJob:
    """A job in the making. Its time is that of the example: it only passes while its agents work."""

    def __init__(self, context: ProjectContext, job_id: str, began: datetime) -> None:
        self.id = job_id
        self._now = began
        self._answers: dict[str, list[ExampleAnswer]] = {}
        clock = Clock(lambda: self._now, self._count_seconds)
        function = FunctionAgent(self._answer)
        self.context = replace(context, clock=clock, agent="function", function=function)

    @property
    def job(self) -> Job:
        """The job itself."""
        return Job(self.context, self.id)

    def find_child(self, number: int) -> Job:
        """Return the job of an item of its foreach, from 1."""
        return Job(self.context, self.job.state.children[number - 1])

    def create(self, prompt: str | None, *answers: ExampleAnswer, draft: bool = False, **fields: Any) -> None:
        """Create the job. `answers`: what its agents do, in this order."""
        self._answers[self.id] = list(answers)
        Project(self.context).create_job(prompt, job_id=self.id, draft=draft, **fields)
        self.pass_time(hours=0.1)

    def answer_child(self, number: int, *answers: ExampleAnswer) -> None:
        """Set what the agents of a child do."""
        self._answers[self.find_child(number).id] = list(answers)

    def pass_time(self, **duration: float) -> None:
        """Let time pass, such as `hours=3`."""
        self._now += timedelta(**duration)

    def _count_seconds(self) -> float:
        return (self._now - _EPOCH).total_seconds()

    def _answer(self, request: AgentRequest) -> AgentAnswer:
        answer = self._answers[request.workspace.parent.name].pop(0)
        self.pass_time(minutes=answer.minutes)
        if answer.kills:
            raise Killed
        for name, text in answer.files.items():
            path = request.workspace / name
            if text is None:
                path.unlink()
            else:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, "utf-8")
        text = answer.text if isinstance(answer.text, str) else json.dumps(answer.text)
        # As many tokens as such a prompt and answer have, about.
        return AgentAnswer(text, len(request.prompt) // 4, len(text) // 4, answer.cost_cents)
