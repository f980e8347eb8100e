"""The Python interface: projects and jobs as objects, over the functions that the command line calls.

`from logist import Project` is the way in; docs/python.md explains it. Every failure that a person can act on is
a `LogistError`. Nothing here installs signal handlers, changes the directory, or prints.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

from logist import documents
from logist.agents.function import AgentFunction, FunctionAgent
from logist.agents.protocol import FUNCTION
from logist.config.environment import PROJECT_DIRECTORY, Environment
from logist.core.machine import kinds
from logist.core.model import Interaction, JobSpec, Kind, State, Status
from logist.core.model.commands import ApproveCommand, RecordedCommand, ResubmitCommand
from logist.core.money import money
from logist.core.step.step import StepPlan
from logist.core.text import surrogates
from logist.errors import LogistError, Refused, UsageError
from logist.jobs import job_queue
from logist.jobs.archive import (
    archive_drift,
    archive_replay,
    archive_statistics,
    fixture_export,
    job_fork,
    recorded_jobs,
)
from logist.jobs.archive.archive_replay import Replayed
from logist.jobs.archive.archive_statistics import Gathered
from logist.jobs.archive.fixture_export import ExportedFixture
from logist.jobs.base import cleaned_files, job_names, job_reader, project_home, specs
from logist.jobs.base.create import create_job
from logist.jobs.base.job_reader import Verified
from logist.jobs.base.project import ProjectContext
from logist.jobs.base.project_opening import open_project
from logist.jobs.base.result import CommandResult
from logist.jobs.base.session import load_session
from logist.jobs.job_queue import EndedJob
from logist.jobs.step_job import GivenAnswer, do_poststep, do_step
from logist.jobs.steward import job_edits, job_merge, job_update, retention, role_switch, steward_decisions
from logist.jobs.steward.inbox import InboxItem, count_changed_files, list_inbox
from logist.jobs.steward.job_merge import MergeResult
from logist.jobs.steward.job_update import UpdateResult
from logist.jobs.steward.retention import GarbageCollection
from logist.jobs.steward.review_hash import find_review_hash
from logist.jobs.turn.agent_calls import INTERRUPTED
from logist.jobs.turn.next_request import Choice, preview_request
from logist.store import list_jobs

LONGEST_DIFF = 10_000_000
"""Bytes of a diff; what is longer is cut, with a note in it."""
logger = logging.getLogger("logist")
logger.addHandler(logging.NullHandler())


class Project:
    """A directory with jobs. `Project.open` and `Project.create` return one.

    It can be used from several threads; its jobs are locked like those of the command line.
    """

    def __init__(self, context: ProjectContext) -> None:
        self._context = context

    @classmethod
    def open(
        cls,
        directory: str | Path = ".",
        *,
        agent: str | AgentFunction | None = None,
        jobs_dir: str | Path | None = None,
        steward: str | None = None,
        stop: Event | None = None,
        on_message: Callable[[str], None] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Project:
        """Open the project of a directory: that of the nearest `.logist` directory in it or above.

        - `agent`: `litellm`, the name of an agent program, `scripted:PATH`, or a Python function; instead of
          the agent of the environment and the config.
        - `jobs_dir`: the directory of the jobs, instead of `.logist/jobs`.
        - `steward`: the name that decisions are recorded with, instead of the user's.
        - `stop`: while this event is set, no new work begins and a running agent is asked to end, as after
          Ctrl-C on the command line.
        - `on_message`: gets each progress message, instead of the logger `logist`.
        - `environment`: environment variables, instead of those of this process.

        Raises UsageError if there is no project, InvalidFile for an invalid config or role.
        """
        place = Path(directory).absolute()
        variables = Environment.from_process() if environment is None else Environment(environment)
        named_jobs_dir = None if jobs_dir is None else str(jobs_dir)
        if not place.is_dir():
            raise UsageError("directory not found", where=str(place))
        is_elsewhere = named_jobs_dir is not None or variables.has_jobs_dir()
        if variables.find_home(place).source == "user" and not is_elsewhere:
            fix = f"to create one: Project.create({str(place)!r})"
            raise UsageError("no Logist project here or in a directory above", where=str(place), fix=fix)
        context = open_project(
            variables,
            place,
            say=on_message or _log_message,
            jobs_dir=named_jobs_dir,
            agent=agent if isinstance(agent, str) else None,
            stopping=lambda: INTERRUPTED if stop is not None and stop.is_set() else 0,
        )
        if agent is not None and not isinstance(agent, str):
            if not callable(agent):
                raise UsageError(f"agent must be a string or a function, got {type(agent).__name__}")
            context = replace(context, agent=FUNCTION, function=FunctionAgent(agent))
        return cls(replace(context, steward=steward or context.steward, via="python"))

    @classmethod
    def create(cls, directory: str | Path = ".", **options: Any) -> Project:
        """Create a `.logist` directory in a directory and open the project; existing files stay as they are.

        `options` are those of `Project.open`. Like `logist init`.
        """
        project_home.create_project(Path(directory).absolute() / PROJECT_DIRECTORY)
        return cls.open(directory, **options)

    @property
    def home(self) -> Path:
        """The `.logist` directory, with the config, roles and workflows."""
        return self._context.home

    @property
    def jobs_dir(self) -> Path:
        """The directory of the jobs; it need not exist yet."""
        return self._context.jobs_dir

    def create_job(
        self,
        prompt: str | None = None,
        *,
        job_id: str | None = None,
        draft: bool = False,
        **fields: Any,
    ) -> Job:
        """Create a job. Without `job_id` it gets one made from the title or the prompt.

        `fields` are those of job.yaml, such as `title`, `acceptance_criteria`, `review=False`,
        `limits={"cost_threshold": 50}`, `repo=False` or `workflow`. Paths in them are relative to the current
        directory. Raises UsageError for a job without a prompt or with an invalid id, Refused if the id is
        taken, InvalidFile for invalid fields. Like `logist job create`.
        """
        values = {name: value for name, value in fields.items() if value is not None}
        if prompt is not None:
            values["prompt"] = prompt
        spec = documents.validate_document(JobSpec, documents.Document("create_job", values, {}))
        created = create_job(
            self._context,
            job_id or spec.id or job_names.create_job_id(spec),
            spec,
            draft=draft,
            here=Path.cwd(),
        )
        for warning in (*created.warnings, *created.merge_warnings, *created.file_warnings):
            self._context.say(f"warning: {warning}")
        return Job(self._context, created.job.id)

    def open_job(self, job_id: str) -> Job:
        """Open a job by its id. Raises UsageError if there is no such job."""
        return Job(self._context, self._context.open_job(job_id).id)

    def list_jobs(self) -> list[Job]:
        """List all jobs, sorted by id."""
        return [Job(self._context, job_id) for job_id in list_jobs(self.jobs_dir)]

    def inbox(self) -> list[InboxItem]:
        """List the jobs that wait for a person: what blocks most others first, then what has waited longest.

        Snoozed jobs are included, with `snoozed_until`. Like `logist inbox`.
        """
        now = self._context.clock.now().timestamp()
        return count_changed_files(list_inbox(str(self.jobs_dir), now))

    def run(
        self,
        *,
        parallel: int | None = None,
        model: str | None = None,
        on_step: Callable[[CommandResult], None] | None = None,
    ) -> list[EndedJob]:
        """Run every ready job until it waits for a person or has ended, and return how each one ended.

        `parallel`: how many at a time; by default the setting `max_concurrent_agents`. `model`: instead of those
        of the config, the jobs and the roles. `on_step` gets each
        result, from the thread that runs the job. An error of one job stops no other: it is in its
        `EndedJob`. Like `logist run`.
        """
        most = self._context.settings.max_concurrent_agents if parallel is None else parallel
        if most < 1:
            raise UsageError(f"parallel must be at least 1, got {most}")
        return list(
            job_queue.run_queue(
                self._context, most, on_step or _ignore_result, Choice(model=model, command="run")
            )
        )

    def collect_garbage(
        self, older_than: timedelta, *, keep_history: bool = False, dry_run: bool = False
    ) -> GarbageCollection:
        """Delete the jobs that ended longer ago than that, and return what was removed, what was kept, and why.

        `keep_history`: remove only their workspaces, checkpoints and logs. `dry_run`: remove nothing. Jobs with changes that are
        not merged are kept. Like `logist gc --yes`.
        """
        return retention.collect_garbage(
            self._context, older_than, keep_history=keep_history, dry_run=dry_run
        )

    def replay(self, *paths: str | Path, prompts: bool = False) -> list[Replayed]:
        """Replay recorded histories with the current rules: those at `paths`, or of all jobs.

        `prompts`: compare prompts with those that agents would get now. Histories that can't be read are in
        the list, with their `error`. Like `logist replay`.
        """
        finder = archive_drift.build_drift_finder(self._context) if prompts else None
        return list(
            archive_replay.replay_all(self._find_archives(paths), self._context.schema, prompts=finder)
        )

    def gather_statistics(self, *paths: str | Path, by: Iterable[str] = ("role",)) -> Gathered:
        """Add up how agents did in recorded histories: those at `paths`, or of all jobs.

        `by`: how to group, such as `role`, `model` or `job`. Like `logist stats`.
        """
        return archive_statistics.gather_statistics(self._find_archives(paths), tuple(by))

    def _find_archives(self, paths: Iterable[str | Path]) -> Iterable[recorded_jobs.Archive]:
        names = [str(path) for path in paths]
        if names:
            return recorded_jobs.find_histories(names)
        return (
            recorded_jobs.Archive.from_job(self._context.open_job(each)) for each in list_jobs(self.jobs_dir)
        )

    def __repr__(self) -> str:
        return f"<Project {self.home.parent}, agent {self._context.agent}>"


class Job:
    """A job of a project. Its methods do what the commands of `logist job` do, with the same locks.

    Methods that change the job return a `CommandResult` with the new state and the recorded interactions. They
    raise Refused if the job's state forbids them, and Busy while another process works on the job.
    """

    def __init__(self, context: ProjectContext, job_id: str) -> None:
        self._context = context
        self.id = job_id

    # What it is

    @property
    def directory(self) -> Path:
        """The directory of the job."""
        return self._context.jobs_dir / self.id

    @property
    def workspace(self) -> Path:
        """The directory that agents work in."""
        return self._context.open_job(self.id).workspace

    @property
    def state(self) -> State:
        """The current state, rebuilt from the history where that is newer. Raises Damaged."""
        return load_session(self._context, self._context.open_job(self.id)).state

    @property
    def status(self) -> Status:
        """The status of the current state, such as `PENDING` or `SUCCESS`; also a string."""
        return self.state.status

    @property
    def spec(self) -> JobSpec:
        """The content of job.yaml. Raises InvalidFile."""
        return specs.read_job_spec(self._context.open_job(self.id), draft=True, accept_slips=True)

    @property
    def history(self) -> list[Interaction]:
        """All interactions, the newest last. Raises Damaged at the first one that can't be read."""
        return list(job_reader.read_interactions(self._context.open_job(self.id)))

    @property
    def next_command(self) -> str:
        """The command that continues this job, such as `logist job step --job hello`."""
        return CommandResult(self.id, self.state).next_command

    def preview(self, *, role: str | None = None, model: str | None = None) -> str:
        """Return the prompt that a step would send now; nothing is sent, and the job does not change. Like `logist job preview`.

        Raises Refused where a step would send nothing.
        """
        _, planned = preview_request(self._context, self.id, Choice(role, model))
        if not isinstance(planned, StepPlan):
            raise Refused(f"nothing to send: {planned.reason or self.status}", fix=self.next_command)
        return planned.request.prompt

    @property
    def review_hash(self) -> str | None:
        """Names the work exactly, for `approve(seen=...)`: revision, files on disk, check results and evidence.

        None if the job has ended or its workspace can't be read.
        """
        return find_review_hash(self._context, self._context.open_job(self.id), self.state)

    def diff(self) -> str:
        """Return what agents have changed in the workspace since the job began, as a patch; "" for nothing.

        Binary files, and those above 1 MB, are only named. Work of a step that is under way is not in it.
        """
        state = self.state
        if not state.start_checkpoint or not state.checkpoint:
            return ""
        job = self._context.open_job(self.id)
        cleaned_files.require_files(job, "compare")
        workspace = self._context.open_workspace(job)
        return workspace.build_patch(state.start_checkpoint, state.checkpoint, LONGEST_DIFF).text

    # What agents do

    def step(
        self,
        *,
        role: str | None = None,
        model: str | None = None,
        wait: float = 0.0,
        strict: bool = False,
    ) -> CommandResult:
        """Ask one agent for one piece of work, check its answer and record it. Like `logist job step`.

        `role`, `model`: instead of those that are due. `wait`: seconds to wait for a process that works on
        the job. `strict`: refuse to run if a template has unfilled placeholders.
        """
        with self._guard():
            return do_step(self._context, self.id, Choice(role, model, wait, strict=strict))

    def run(
        self, on_step: Callable[[CommandResult], None] | None = None, *, model: str | None = None
    ) -> CommandResult:
        """Step until the job waits for a person, ends, or its provider fails. Like `logist job run`.

        `model`: instead of those of the config, the job and the roles. `on_step` gets the result of each step, also of the job's child jobs, from the thread that did it.
        """
        with self._guard():
            choice = Choice(model=model, command="run")
            return job_queue.run_job(self._context, self.id, on_step or _ignore_result, choice)

    def answer(
        self,
        answer: str | Mapping[str, Any],
        *,
        role: str | None = None,
        cost_cents: float | None = None,
        wait: float = 0.0,
        dry_run: bool = False,
    ) -> CommandResult:
        """Do a step with an answer supplied by hand: its text, or an exit command. Like `logist job poststep`.

        `role`: whose answer it is. `cost_cents`: what it has cost. `dry_run`: write nothing, and return what
        would happen.
        """
        text = answer if isinstance(answer, str) else json.dumps(dict(answer), ensure_ascii=False)
        given = GivenAnswer(surrogates.replace_surrogates(text)[0], charge=money.build_charge(cost_cents))
        with self._guard():
            return do_poststep(self._context, self.id, given, Choice(role, None, wait), dry_run=dry_run)

    # What stewards decide

    def decide(
        self,
        kind: Kind | str,
        note: str | None = None,
        *,
        wait: float = 0.0,
        ends_agent: bool = False,
        revision: int | None = None,
        **options: Any,
    ) -> CommandResult:
        """Record a decision by its name, such as `approve`; the methods below are clearer.

        `options`: as the history records them. `ends_agent`: end an agent that works on the job first. `revision`:
        Refused if the job has changed since this revision.
        """
        if kind not in kinds.DECISIONS:
            known = ", ".join(sorted(kinds.DECISIONS))
            raise UsageError(f"unknown decision {str(kind)!r}", where="decide", fix=f"decisions: {known}")
        command = kinds.read_command(Kind(kind), options)
        if command.write() != options:
            raise UsageError(f"invalid options for {kind}: {options}", where="decide")
        return self._decide(Kind(kind), note, command, wait=wait, ends_agent=ends_agent, revision=revision)

    def approve(
        self,
        note: str | None = None,
        *,
        output: Any = None,
        override: str | None = None,
        seen: str | None = None,
        revision: int | None = None,
        wait: float = 0.0,
    ) -> CommandResult:
        """Approve a job that waits for approval. Like `logist job approve`.

        `output`: the result of a step that a person does, for the steps after it. `override`: accept the work
        against its review, for this reason. `seen`: the `review_hash` of the work that you have seen; Refused if it
        has changed since. Without it, Refused if files have changed since the last checkpoint.
        """
        command = ApproveCommand() if output is None else ApproveCommand(output=output)
        if override is not None:
            if note is not None:
                raise UsageError("can't use note and override together", where="note", fix="omit the note")
            note, command = override, command.model_copy(update={"override": True})
        return self._decide(Kind.APPROVE, note, command, wait=wait, revision=revision, seen=seen)

    def reject(self, note: str, *, revision: int | None = None, wait: float = 0.0) -> CommandResult:
        """Send the work back with a note, which the next agent reads. Like `logist job reject`."""
        return self._decide(Kind.REJECT, note, wait=wait, revision=revision)

    def resubmit(
        self,
        note: str | None = None,
        *,
        review: bool = False,
        step: str | None = None,
        doubt: str | None = None,
        allow: Iterable[str] = (),
        force: bool = False,
        revision: int | None = None,
        wait: float = 0.0,
    ) -> CommandResult:
        """Resolve a STUCK job: try again with all its attempts, and the note in the prompt.

        `review`: ask the reviewer instead. `step`: the step of the workflow to continue at. `doubt`: of a
        request that may have been paid, `assume_paid` or `retry`. `allow`: tools that the agent may use from
        now on. `force`: continue without the child jobs that failed. Like `logist job resubmit`.
        """
        if doubt not in (None, "assume_paid", "retry"):
            raise UsageError(f"doubt must be assume_paid or retry, got {doubt!r}", where="doubt")
        command = ResubmitCommand(
            review=review or None, step=step, doubt=doubt, allow=list(allow) or None, force=force or None
        )
        return self._decide(Kind.RESUBMIT, note, command, wait=wait, revision=revision)

    def suspend(
        self, note: str | None = None, *, ends_agent: bool = False, revision: int | None = None
    ) -> CommandResult:
        """Suspend the job. `ends_agent`: end an agent that works on it. Like `logist job suspend`."""
        return self._decide(Kind.SUSPEND, note, ends_agent=ends_agent, revision=revision)

    def resume(self, note: str | None = None, *, revision: int | None = None) -> CommandResult:
        """Resume a suspended job, or a halted one whose limit was raised. Like `logist job resume`."""
        return self._decide(Kind.RESUME, note, revision=revision)

    def cancel(
        self, note: str | None = None, *, ends_agent: bool = False, revision: int | None = None
    ) -> CommandResult:
        """Cancel a job that is no longer needed. Files and history stay. Like `logist job cancel`."""
        return self._decide(Kind.CANCEL, note, ends_agent=ends_agent, revision=revision)

    def fail(
        self, note: str | None = None, *, ends_agent: bool = False, revision: int | None = None
    ) -> CommandResult:
        """End the job as failed. Files and history stay. Like `logist job fail`."""
        return self._decide(Kind.FAIL, note, ends_agent=ends_agent, revision=revision)

    def activate(self, note: str | None = None) -> CommandResult:
        """Start a draft. Like `logist job activate`."""
        return self._decide(Kind.ACTIVATE, note)

    def add_note(self, note: str) -> CommandResult:
        """Add a note for people, without a decision; no agent reads it. Like `logist inbox note`."""
        if not note.strip():
            raise UsageError("the note is empty", where="add_note")
        return self._decide(Kind.NOTE, note)

    def restep(self, to: int, note: str | None = None) -> CommandResult:
        """Go back to before interaction `to`: state and workspace. Like `logist job restep`."""
        with self._guard():
            return steward_decisions.restep_job(self._context, self.id, to, note=note)

    def rerun(
        self, note: str | None = None, *, clean: bool = True, keep_files: bool = False
    ) -> CommandResult:
        """Start the job over, with nothing used. Like `logist job rerun`.

        `clean`: put the workspace back to the start. `keep_files`: copy the artefacts to attachments/ first.
        """
        with self._guard():
            return steward_decisions.rerun_job(
                self._context, self.id, clean=clean, keep_files=keep_files, note=note
            )

    def switch_role(self, role: str | None, note: str | None = None, *, wait: float = 0.0) -> CommandResult:
        """Let another role do the work from now on; None: the role that the job names. Like `logist job role`."""
        needless = role_switch.find_needless_switch(self._context, self.id, role)
        if needless is not None:
            return needless
        with self._guard():
            return role_switch.switch_role(self._context, self.id, role, note=note, wait=wait)

    def configure(self, **fields: Any) -> CommandResult:
        """Set fields of job.yaml; None removes one. Fields of a section are set with a mapping.

        `job.configure(rank=3, limits={"cost_threshold": 80})`. Like `logist job config --set`.
        """
        changes: dict[tuple[str, ...], object | None] = {}
        for name, value in fields.items():
            if isinstance(value, Mapping) and name == "limits":
                changes |= {(name, key): item for key, item in value.items()}
            else:
                changes[(name,)] = value
        return job_edits.configure_job(self._context, self.id, changes)

    def merge(
        self,
        *,
        dry_run: bool = False,
        branch_only: bool = False,
        repository: str | Path | None = None,
        wait: float = 0.0,
    ) -> MergeResult:
        """Merge the work of a job that succeeded into the repository it came from. Like `logist job merge`.

        `dry_run`: change nothing, and return what would be merged, with the patch and what prevents it.
        `branch_only`: create only the branch. `repository`: another one, such as a clone.
        """
        if dry_run and branch_only:
            raise UsageError("can't use dry_run and branch_only together")
        mode = "look" if dry_run else "branch" if branch_only else "merge"
        place = Path(repository) if repository is not None else None
        return job_merge.merge_job(
            self._context, self.id, mode=mode, patch=dry_run, repository=place, wait=wait
        )

    def update(
        self,
        *,
        onto: str | None = None,
        repository: str | Path | None = None,
        resolve: bool = False,
        dry_run: bool = False,
        note: str | None = None,
        wait: float = 0.0,
    ) -> UpdateResult:
        """Bring later commits of the source repository into the workspace. Like `logist job update`.

        `onto`: a commit or branch instead of the checked-out one. `repository`: another one, such as a clone. `resolve`:
        if files conflict, the agent's next task is to resolve them; without it, a conflict raises Refused. `dry_run`:
        change nothing, and return what would change and what conflicts.
        """
        place = Path(repository) if repository is not None else None
        with self._guard():
            return job_update.update_job(
                self._context,
                self.id,
                onto=onto,
                repository=place,
                resolve=resolve,
                dry_run=dry_run,
                note=note,
                wait=wait,
            )

    def fork(self, at: int | None = None, *, job_id: str | None = None, note: str | None = None) -> Job:
        """Create a new job that begins like this one, up to interaction `at`. Like `logist job fork`."""
        forked = job_fork.fork_job(self._context, self.id, at, new_id=job_id, note=note)
        for warning in forked.notes:
            self._context.say(warning)
        return Job(self._context, forked.job.id)

    # What the history says

    def replay(self, *, prompts: bool = False) -> Replayed:
        """Replay the history with the current rules; `differences` is empty if all results are the same.

        `prompts`: compare prompts too. Reads files only: no network, no clock, no model. Raises Damaged.
        """
        finder = archive_drift.build_drift_finder(self._context) if prompts else None
        with self._guard():
            return archive_replay.replay_job(self._context, self._context.open_job(self.id), prompts=finder)

    def verify(self) -> Verified:
        """Check the files of the job against each other; `problems` is empty if all match."""
        verified = job_reader.verify_job(self._context, self._context.open_job(self.id))
        return verified if verified.edits is None else replace(verified, edits=verified.edits.load_models())

    def export(
        self, directory: str | Path, *, redacted: bool = False, force: bool = False
    ) -> ExportedFixture:
        """Write the history as a fixture to a new directory. Like `logist job export --fixture`.

        Raises Refused if a secret would be in it, UsageError for a directory that can't be used.
        """
        return fixture_export.export_fixture(
            self._context, self._context.open_job(self.id), Path(directory), redacted=redacted, force=force
        )

    def _decide(
        self,
        kind: Kind,
        note: str | None,
        command: RecordedCommand | None = None,
        *,
        wait: float = 0.0,
        ends_agent: bool = False,
        revision: int | None = None,
        seen: str | None = None,
    ) -> CommandResult:
        with self._guard():
            return steward_decisions.record_decision(
                self._context,
                self.id,
                kind,
                note=note,
                command=command,
                wait=wait,
                ends_agent=ends_agent,
                revision=revision,
                seen=seen,
            )

    def _guard(self) -> AbstractContextManager[None]:
        """Entered around whatever may ask an agent or run a command; a test forbids the network here."""
        return nullcontext()

    def __repr__(self) -> str:
        try:
            return f"<Job {self.id}: {self.status}>"
        except LogistError as error:  # a debugger shows jobs with damaged files too
            return f"<Job {self.id}: {error}>"


def _log_message(text: str) -> None:
    logger.log(logging.WARNING if text.startswith("warning: ") else logging.INFO, "%s", text)


def _ignore_result(result: CommandResult) -> None:
    pass
