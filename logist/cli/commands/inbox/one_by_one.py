"""Goes through the inbox on a terminal: shows one job after the other, and makes the decisions of the person."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from logist.cli.commands.job.diff import format_summary
from logist.cli.context import open_project
from logist.cli.show import inbox_page, inbox_table, pasting, render
from logist.cli.show.glance import status_span
from logist.cli.show.output import Diagnostic, Line, StyledText, make_notes, make_warnings
from logist.cli.show.patch_view import show_patch, show_patch_start
from logist.cli.stops import get_stop_code
from logist.core.answer import questions
from logist.core.machine import waiting
from logist.core.model import Interaction, Kind, Phase, State
from logist.errors import LogistError, Refused, UsageError
from logist.jobs.base import project_opening, specs
from logist.jobs.base.job_reader import read_interactions
from logist.jobs.base.session import load_session
from logist.jobs.followed_workflow import read_step_task
from logist.jobs.step_job import GivenAnswer, do_poststep
from logist.jobs.steward.inbox import list_inbox
from logist.jobs.steward.inbox_decisions import (
    PAID_TEXT,
    DecisionChoice,
    Input,
    list_decisions,
    make_decision,
    require_unchanged,
)
from logist.jobs.steward.job_diff import JobComparison, Scope, compare_job
from logist.jobs.steward.snoozing import parse_snooze_end, snooze_job
from logist.jobs.steward.steward_decisions import record_decision
from logist.jobs.turn.next_request import Choice
from logist.quick_dataclass import dataclass
from logist.timestamps import format_local

if TYPE_CHECKING:
    from logist.config.environment import Environment
    from logist.jobs.base.project import ProjectContext
    from logist.jobs.base.result import CommandResult
    from logist.jobs.steward.inbox import InboxItem

VIEW_KEYS = {"d": "diff", "e": "editor", "n": "note", "z": "snooze", "s": "skip", "q": "quit"}
"""Keys that decide nothing."""
FILES = 12
"""Changed files that are listed; the diff has all."""
PATCH_LINES = 30
"""Lines of the diff that are shown without asking for it."""
_BACK = "Enter: back"
_REPLY = "r"


class _Quit(Exception):
    """The person wants to stop."""


@dataclass
class _Case:
    """A job that a person decides about: what is shown of it."""

    project: ProjectContext
    item: InboxItem
    state: State
    choices: dict[str, DecisionChoice]
    """The decisions that its state allows, by key."""
    seen: str | None = None
    """The review hash of the work that was shown last."""

    @property
    def job_id(self) -> str:
        return self.item.job


def open_item_project(environment: Environment, jobs_dir: str | None, item: InboxItem) -> ProjectContext:
    """Open the project of a job in the inbox: this one, or with --all another one. `jobs_dir`: the value of --jobs-dir."""
    if item.project is None:
        return open_project(environment, jobs_dir)
    return project_opening.open_project(
        environment,
        Path(item.project),
        say=lambda text: render.print_message(text, environment),
        jobs_dir=item.jobs_dir,
        stopping=get_stop_code,
    )


def _compare_job(case: _Case) -> AbstractContextManager[JobComparison]:
    """Compare the workspace of the job, as it is now, with where the job began."""
    job = case.project.open_job(case.job_id)
    return compare_job(case.project, job, load_session(case.project, job).state, Scope())


@dataclass
class InboxWalk:
    """One walk through the inbox, and what was decided in it."""

    environment: Environment
    jobs_dir: str | None
    """The value of --jobs-dir."""
    decided: int = 0
    _projects: dict[str, ProjectContext] = field(default_factory=dict)

    def go_through(self, items: Sequence[InboxItem]) -> None:
        """Show each job and ask for a decision, until the end or until the person quits."""
        try:
            for number, item in enumerate(items, 1):
                while not self._settle(item, number, len(items)):
                    pass
        except _Quit:
            pass

    def _settle(self, item: InboxItem, number: int, count: int) -> bool:
        """Show a job as it is now; False to show it again, True once the person has decided or skipped it."""
        fresh = _reread(item)
        if fresh is None:
            self._print([f"{item.job} does not wait any more"])
            return True
        self._print(inbox_page.format_head(fresh, number, count))
        if fresh.kind == waiting.DAMAGED:
            command = pasting.add_jobs_dir(inbox_table.get_command(fresh), self.jobs_dir)
            self._print([f"  {fresh.reason}", f"  to fix it, run: {command}"])
            return _skip_or_quit()
        try:
            project = self._open_project(fresh)
            state = load_session(project, project.open_job(fresh.job)).state
            choices = list_decisions(state, fresh.kind)
            case = _Case(project, fresh, state, {each.key: each for each in choices})
            self._show_page(case)
        except LogistError as error:
            self._print_error(error)
            return _skip_or_quit()
        return self._ask_until_done(case)

    def _open_project(self, item: InboxItem) -> ProjectContext:
        if item.jobs_dir not in self._projects:
            self._projects[item.jobs_dir] = open_item_project(self.environment, self.jobs_dir, item)
        return self._projects[item.jobs_dir]

    # What is shown

    def _show_page(self, case: _Case) -> None:
        job = case.project.open_job(case.job_id)
        task = specs.read_job_spec(job, draft=True, accept_slips=True).prompt or ""
        step_task = read_step_task(job, case.state)
        last_ask = _find_last_ask(read_interactions(job))
        self._print(inbox_page.format_body(case.state, task, step_task, last_ask, case.item))
        self._show_changes(case)
        self._print_keys(case)

    def _show_changes(self, case: _Case) -> None:
        """Show the changed files, and the start of the diff of work that can be approved."""
        try:
            with _compare_job(case) as compared:
                case.seen = compared.compute_review_hash()
                files = compared.comparison.list_files()
                lines = format_summary(compared, files)
                self._print([(StyledText("Changed files:" if files else "No files changed", "bold"),)])
                if not files:
                    return
                self._print(lines[1:-1][:FILES])
                if len(files) > FILES:
                    self._print([f"  ... and {len(files) - FILES} more"])
                self._print(lines[-1:])
                if {"approve", "override"}.isdisjoint(each.name for each in case.choices.values()):
                    return
                with compared.comparison.open_patch(binary=False) as stream:
                    if show_patch_start(stream, PATCH_LINES, self.environment):
                        self._print([(StyledText("... (d shows the rest)", "dim"),)])
        except Refused:
            pass  # no agent has worked yet, so there is nothing to compare
        except LogistError as error:
            self._print([f"Changed files: {error.message}"])

    def _print_keys(self, case: _Case) -> None:
        self._print(["", *inbox_page.format_keys((each.key, each.text) for each in case.choices.values())])
        view_keys = [f"{key} {word}" for key, word in VIEW_KEYS.items()]
        self._print([(StyledText("  " + "  ".join(view_keys), "dim"),)])

    # What the person does

    def _ask_until_done(self, case: _Case) -> bool:
        """Ask for keys until the job is decided or skipped (True), or has to be shown again (False)."""
        replies = _list_replies(case)
        numbers = [f"1-{len(replies)}" if len(replies) > 1 else "1"] if replies else []
        allowed = "/".join([*numbers, *case.choices, *VIEW_KEYS])
        while True:
            key = render.ask_for_key(f"{case.job_id} [{allowed}]")
            if key == "q":
                raise _Quit
            if key == "s":
                return True
            if key == "n" and self._add_note(case):
                return False  # its revision is another one now
            if key not in {*replies, *case.choices, *VIEW_KEYS}:
                if key not in ("", "?"):
                    self._print([f"Unknown key {key[:20]!r}. The keys are:"])
                self._print_keys(case)
                continue
            try:
                is_done = self._use_key(case, key, replies)
            except LogistError as error:
                self._print_error(error)
                fresh = _reread(case.item)
                if fresh is None or fresh.revision != case.state.revision:
                    return False
                continue
            if is_done:
                return True

    def _use_key(self, case: _Case, key: str, replies: dict[str, str]) -> bool:
        """Do what a key says; return whether to go to the next job."""
        if key in replies:
            return self._decide(case, case.choices[_REPLY], replies[key])
        if key in case.choices:
            return self._decide(case, case.choices[key])
        return self._use_view_key(case, key)

    def _use_view_key(self, case: _Case, key: str) -> bool:
        """Do what a key says that decides nothing; return whether to go to the next job."""
        match key:
            case "d":
                self._show_diff(case)
            case "e":
                self._open_editor(case)
            case "z":
                return self._snooze(case)
        return False

    def _show_diff(self, case: _Case) -> None:
        with _compare_job(case) as compared:
            case.seen = compared.compute_review_hash()
            files = compared.comparison.list_files()
            with compared.comparison.open_patch(binary=False) as stream:
                show_patch(format_summary(compared, files), stream, self.environment)

    def _open_editor(self, case: _Case) -> None:
        workspace = case.project.open_job(case.job_id).workspace
        editor = self.environment.editor()
        if editor is None:
            self._print([f"The files are in {workspace} (to open them here, set $EDITOR)"])
            return
        try:
            subprocess.run([*shlex.split(editor), str(workspace)], check=False)
        except (OSError, ValueError) as error:
            raise UsageError(f"can't start the editor: {error}", where="$EDITOR") from error

    def _add_note(self, case: _Case) -> bool:
        text = render.ask_for_text(f"Note, for people ({_BACK})")
        if not text:
            return False
        record_decision(case.project, case.job_id, Kind.NOTE, note=text, revision=case.state.revision)
        self._print(["The note is recorded; `logist job history` shows it"])
        return True

    def _snooze(self, case: _Case) -> bool:
        text = render.ask_for_text(f"Hide it until: 2h, 3d, 2026-12-01 ({_BACK})")
        if not text:
            return False
        now = time.time()
        until = parse_snooze_end(text, now)
        if until is None or until <= now:
            raise UsageError(
                f"not a time in the future: {text[:40]!r}", fix="for example 2h or 3d; press z again"
            )
        snooze_job(case.item.jobs_dir, case.job_id, until, now)
        shown = format_local(until)
        self._print([f"{case.job_id} is hidden until {shown}, or until it changes"])
        return True

    def _decide(self, case: _Case, choice: DecisionChoice, entered: str | None = None) -> bool:
        """Make a decision, and ask for what it needs unless that was `entered`; return whether it was made."""
        if entered is None:
            entered = self._ask_for_input(case, choice)
        if entered is None:
            self._print(["Nothing was decided"])
            return False
        if choice.input is Input.ANSWER:
            require_unchanged(case.project, case.job_id, case.state)
            result = do_poststep(
                case.project, case.job_id, GivenAnswer(entered), Choice(), revision=case.state.revision
            )
        else:
            result = make_decision(case.project, case.job_id, case.state, choice, entered, seen=case.seen)
        self.decided += 1
        self._show_result(result)
        return True

    def _ask_for_input(self, case: _Case, choice: DecisionChoice) -> str | None:
        """Return what the person enters; None to decide nothing."""
        match choice.input:
            case Input.NOTHING:
                return ""
            case Input.CONFIRMATION:
                question = f"{choice.question} {case.job_id}?"
                return "" if render.ask_to_confirm(question, self.environment) else None
            case Input.PAID:
                self._print(inbox_page.wrap_text(PAID_TEXT))
                answer = render.ask_for_key(f"Was it charged? y yes or unknown, n no ({_BACK})")
                return {"y": "assume_paid", "n": "retry"}.get(answer[:1])
            case Input.ANSWER:
                return self._ask_for_answer(case)
            case Input.NOTE if options := _list_options(case.state):
                question = f"{choice.question}, or the number of an option ({_BACK})"
                answer = render.ask_for_text(question)
                return options.get(answer, answer) or None
            case Input.NOTE | Input.LIMIT:
                return render.ask_for_text(f"{choice.question} ({_BACK})") or None
        return render.ask_for_text(choice.question)

    def _ask_for_answer(self, case: _Case) -> str | None:
        """Return an answer as an agent gives it: an exit command, written in an editor or from a summary."""
        form: dict[str, object] = {
            "action": "COMPLETED",
            "evidence_files": [],
            "summary_for_supervisor": "",
        }
        stuck = case.state.place.stuck
        if stuck is not None and stuck.phase is Phase.REVIEWER:
            form["output"] = {"verdict": "PASS", "issues": [], "suggestions": []}
        if self.environment.editor() is None:
            summary = render.ask_for_text(f"What was done, in a sentence ({_BACK})")
            return json.dumps(form | {"summary_for_supervisor": summary}) if summary else None
        return render.edit_text(json.dumps(form, indent=2) + "\n", ".json")

    # What is printed

    def _show_result(self, result: CommandResult) -> None:
        state = result.state
        reason = f": {' '.join(state.reason.split())}" if state.place.stuck is not None else ""
        self._print([(StyledText(result.job_id, "bold"), " is now ", status_span(state.status), reason)])
        if "merge" in waiting.choose_command(result.next_command).split()[:3]:
            command = pasting.add_jobs_dir(result.next_command, self.jobs_dir)
            self._print([(StyledText(f"to merge its work: {command}", "dim"),)])
        diagnostics = make_notes(result.notes) + make_warnings(result.warnings)
        render.print_diagnostics(diagnostics, self.environment)

    def _print(self, lines: Sequence[Line] | Iterator[Line]) -> None:
        render.print_lines(lines, self.environment)

    def _print_error(self, error: LogistError) -> None:
        render.print_diagnostics((Diagnostic.from_error(error),), self.environment)


def _skip_or_quit() -> bool:
    """Wait for the person where nothing can be decided."""
    while True:
        match render.ask_for_key("Your choice [s skip, q quit]"):
            case "q":
                raise _Quit
            case "s" | "":
                return True


def _reread(item: InboxItem) -> InboxItem | None:
    """Return a job of the inbox as it is now; None if it does not wait any more."""
    items = list_inbox(item.jobs_dir, time.time(), item.project)
    return next((each for each in items if each.job == item.job), None)


def _list_options(state: State) -> dict[str, str]:
    """Return the options of the agent's question, by their number on the screen; {} for other jobs."""
    question = waiting.find_question(state.model_dump(mode="json"))
    options = questions.list_options(question) if question is not None else []
    return {str(number): text for number, (text, _) in enumerate(options, 1)}


def _list_replies(case: _Case) -> dict[str, str]:
    """Return the options that a number chooses: those of the doer. To a question of a reviewer, r is no reply."""
    reply = case.choices.get(_REPLY)
    takes_text = reply is not None and reply.name == "resubmit" and reply.input is Input.NOTE
    return _list_options(case.state) if takes_text else {}


def _find_last_ask(interactions: Iterator[Interaction]) -> Interaction | None:
    last = None
    for entry in interactions:
        if entry.kind is Kind.ASK:
            last = entry
    return last
