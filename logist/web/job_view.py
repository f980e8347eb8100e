"""Gathers what the page shows of one job. Takes no lock and writes nothing."""

from __future__ import annotations

from typing import Any

from logist.core.answer import findings, plans, questions
from logist.core.machine import waiting
from logist.core.machine.job_row import add_unmet, build_job_row
from logist.core.model import Interaction, JsonObject, Kind, Phase, State, Status
from logist.errors import LogistError, UsageError
from logist.jobs.base import specs
from logist.jobs.base.plain_reader import read_interaction
from logist.jobs.base.predecessors import find_unmet_of
from logist.jobs.base.project import ProjectContext
from logist.jobs.base.session import load_session
from logist.jobs.followed_workflow import read_followed, read_step_task
from logist.jobs.steward.inbox import InboxItem
from logist.jobs.steward.inbox_decisions import DecisionChoice, Input, list_decisions
from logist.jobs.steward.job_diff import Scope, compare_job
from logist.quick_dataclass import dataclass
from logist.store import JobDir
from logist.web.agent_tail import AgentEvent, read_tail
from logist.web.served_project import ServedProject
from logist.web.sessions import WebSession
from logist.workspace.comparison import FileDifference


@dataclass(frozen=True)
class JobHead:
    """What every page of a job shows, and what decisions need."""

    project: ProjectContext
    job: JobDir
    state: State
    item: InboxItem | None
    """Why it waits for a person; None if it doesn't."""
    row: dict[str, Any]
    """As in a listing."""
    choices: list[DecisionChoice]
    progress: str | None = None
    """What its agent does at the moment; None if none works."""
    events: tuple[AgentEvent, ...] = ()
    """The last of what that agent has done."""

    @property
    def id(self) -> str:
        return self.job.id

    def find_choice(self, name: str) -> DecisionChoice | None:
        """Return a decision that is possible now."""
        return next((each for each in self.choices if each.name == name), None)

    def list_options(self) -> list[tuple[str, str]]:
        """Return the options that the agent's question offers: each value, and what else is known of it."""
        question = waiting.find_question(self.state.model_dump(mode="json"))
        return questions.list_options(question) if question is not None else []

    def list_steps(self) -> list[tuple[str, str]]:
        """Return the steps of the workflow that the job follows: each id, and what it is called."""
        try:
            found = read_followed(self.job, self.state.model_dump(mode="json"))
        except (ValueError, LogistError):
            return []  # a workflow of a newer Logist: the id has to be typed
        return [(each.id, each.name) for each in found.flow.steps] if found is not None else []

    def list_roles(self) -> list[tuple[str, str]]:
        """Return the roles that could do the work instead: each name, and what it is for."""
        roles = sorted(self.project.roles.by_name.items())
        return [(name, each.role.description) for name, each in roles if name != self.state.agent_role]


@dataclass(frozen=True)
class Changes:
    """The files that agents changed."""

    files: list[FileDifference]
    seen: str | None
    """The review hash of the work with these files."""
    problem: str | None = None
    """Why they are not known."""
    left_out: tuple[str, ...] = ()
    before: str = ""
    after: str = ""
    """What the two sides are, such as `start of the job` and `workspace`."""
    notes: tuple[str, ...] = ()
    patch: bytes = b""
    is_whole: bool = True
    """Whether that is all of the patch."""

    @property
    def added(self) -> int:
        return sum(file.added or 0 for file in self.files)

    @property
    def deleted(self) -> int:
        return sum(file.deleted or 0 for file in self.files)


def load_head(served: ServedProject, session: WebSession, job_id: str) -> JobHead:
    """Load a job as it is now. Raises UsageError if there is none, Damaged if its files don't verify."""
    project = served.open(session)
    job = project.open_job(job_id)
    state = load_session(project, job).state
    seen = served.look()
    item = next((each for each in seen.inbox if each.job == job_id), None)
    # A job that was just created may not be in the list yet.
    row = seen.rows.get(job_id) or build_job_row(job_id, state.model_dump(mode="json"), running=False)
    if unmet := find_unmet_of(project, job_id, state, state.after or ()):
        row = add_unmet(row, state.after or (), unmet)
    choices = list_decisions(state, item.kind if item is not None else None)
    progress, events = read_tail(job)
    return JobHead(project, job, state, item, row, choices, progress, tuple(events))


MOST_PATCH = 8_000_000
"""Bytes of a patch that are read for a page."""


def find_changes(head: JobHead, scope: Scope = Scope(), *, most_lines: int | None = None) -> Changes:  # noqa: B008 - it can't change
    """Compare the workspace, as it is now, with where the job began, or what `scope` says.

    `most_lines`: leave the patch out if more lines differ. All of it comes from one reading of the files, so the review
    hash names exactly the files whose lines are shown. Raises UsageError for an unknown interaction.
    """
    if head.state.start_checkpoint is None:
        return Changes([], None, "no agent has worked on this job yet")
    try:
        with compare_job(head.project, head.job, head.state, scope) as compared:
            files = compared.comparison.list_files()
            patch, is_whole = b"", True
            if (
                most_lines is None
                or sum((each.added or 0) + (each.deleted or 0) for each in files) <= most_lines
            ):
                patch, is_whole = compared.comparison.read_patch(MOST_PATCH)
            return Changes(
                files,
                compared.compute_review_hash(),
                left_out=compared.comparison.left_out,
                before=compared.before,
                after=compared.after,
                notes=compared.notes,
                patch=patch,
                is_whole=is_whole,
            )
    except UsageError:
        raise
    except LogistError as error:
        return Changes([], None, error.message)


@dataclass(frozen=True)
class Overview:
    """What a person reads before deciding."""

    task: str
    criteria: list[str]
    step_task: str
    answer: Interaction | None
    """The last answer of an agent."""
    is_valid: bool
    """False if that answer had no valid exit command."""
    is_repeated: bool
    """Whether the question is all that it says."""
    reviewed: Interaction | None
    """The answer of the doer that was reviewed, if the last answer is a reviewer's."""
    question: dict[str, Any] | None
    reason: str
    """Why the job waits, if the answer doesn't say that already."""
    plan: list[str]
    checks: list[dict[str, Any]]
    findings: list[str]
    evidence: list[dict[str, Any]]
    """Each file that the agent named: path, whether it exists now, and whether it was changed."""
    notes: list[Interaction]


def build_overview(head: JobHead, changes: Changes) -> Overview:
    """Gather what a person reads before deciding."""
    state, data = head.state, head.state.model_dump(mode="json")
    spec = specs.read_job_spec(head.job, draft=True, accept_slips=True)
    asked, done, noted = None, None, []
    for entry in head.job.read_entries():  # without the models: there may be thousands
        if entry["kind"] == Kind.ASK:
            asked = entry
            if not _is_review(entry):
                done = entry
        elif entry["kind"] == Kind.NOTE:
            noted.append(entry)
    answer = read_interaction(asked) if asked is not None else None
    said = " ".join(state.last.summary.split()) if state.last is not None else ""
    reason = head.item.reason if head.item is not None else " ".join(state.reason.split())
    plan = plans.find_waiting_plan(data)
    question = waiting.find_question(data)
    is_valid = answer is not None and bool(answer.response.actions)
    criteria = spec.acceptance_criteria or []
    return Overview(
        task=spec.prompt or state.title,
        criteria=[criteria] if isinstance(criteria, str) else list(criteria),
        step_task=read_step_task(head.job, state),
        answer=answer,
        is_valid=is_valid,
        is_repeated=is_valid and question is not None and " ".join(str(question["question"]).split()) == said,
        reviewed=read_interaction(done) if done is not None and asked is not done else None,
        question=question,
        reason="" if reason == said else reason,
        plan=plans.render_plan_lines(plan["output"]) if plan and plans.is_plan(plan.get("output")) else [],
        checks=[
            {**check.model_dump(mode="json"), "is_failed": findings.is_failed_check(check.outcome)}
            for check in state.checks or ()
        ],
        findings=[findings.format_finding(each) for each in state.findings or ()],
        evidence=list(_list_evidence(head, changes)),
        notes=[read_interaction(entry) for entry in noted],
    )


def _is_review(entry: JsonObject) -> bool:
    return (entry.get("observed") or {}).get("phase") == Phase.REVIEWER


def _list_evidence(head: JobHead, changes: Changes) -> list[dict[str, Any]]:
    workspace = head.project.open_workspace(head.job)
    changed = {file.path for file in changes.files}
    found = []
    for path in head.state.artefacts:
        try:
            exists = bool(workspace.hash_evidence(path)["exists"])
        except (LogistError, OSError):
            exists = False
        found.append({"path": path, "exists": exists, "is_changed": path in changed})
    return found


def get_default_answer(head: JobHead) -> str:
    """Return the form of an answer, for a person who answers instead of an agent."""
    verdict = '  "output": {"verdict": "PASS", "issues": [], "suggestions": []},\n'
    stuck = head.state.place.stuck
    is_review = head.state.status is Status.REVIEW_REQUIRED or (
        stuck is not None and stuck.phase is Phase.REVIEWER
    )
    return (
        '{\n  "action": "COMPLETED",\n  "evidence_files": [],\n'
        f'{verdict if is_review else ""}  "summary_for_supervisor": ""\n}}\n'
    )


def needs_text(choice: DecisionChoice) -> bool:
    """Whether a person has to enter something, so that one key can't decide it."""
    return choice.input not in (Input.NOTHING, Input.OUTPUT, Input.OPTIONAL_NOTE)
