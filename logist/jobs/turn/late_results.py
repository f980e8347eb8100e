"""Results of workers that arrive after the job has moved on: they are kept in the job and booked, never judged.

When an ask is recorded as in doubt because its machine is out of reach, a note in `logs/` remembers its ticket. If the
machine is there again, the next run with workers finds the result by that note.
"""

from __future__ import annotations

import json
import os
import shlex
from contextlib import suppress
from functools import reduce
from typing import TYPE_CHECKING

from logist.agents.courier import ask_files, reservations
from logist.core.machine import kinds
from logist.core.model.commands import ResubmitCommand
from logist.core.money.amounts import format_cents, format_money
from logist.core.money.budgets import NOTHING, BookedCall, Cost
from logist.core.step import step
from logist.core.text.ids import is_job_id
from logist.core.text.json_object import JsonObject
from logist.errors import Busy, Damaged, LogistError
from logist.jobs.base import budgets, job_bundles
from logist.jobs.base.session import open_session
from logist.jobs.turn import errands
from logist.store import files, inflight
from logist.timestamps import find_local_day

if TYPE_CHECKING:
    from logist.agents.courier.ask_files import AwayErrand, RecordedAsk
    from logist.jobs.base.project import ProjectContext
    from logist.jobs.base.session import Session
    from logist.jobs.turn.errands import Call

_MOST_NOTE = 1 << 16


def note_away(session: Session, ask: RecordedAsk) -> None:
    """Write down to which task the doubt belongs that is about to be recorded."""
    errand = ask.errand
    assert errand is not None
    ask_id = reservations.name_ask(budgets.name_job(session), ask.after, ask.sequence)
    note = {
        "ticket": errand.ticket,
        "sequence": session.state.revision + 1,
        "call": reservations.name_call(ask_id, reservations.name_errand(errand.number)),
        "role": ask.role,
        "worker": errand.worker,
        "checkpoint": ask.checkpoint_before,
    }
    session.job.write_log(f"away-{errand.ticket}.json", files.dump_json(note))


def find_booked(session: Session, sequence: int | None) -> int:
    """Return what is booked for a late result of the doubt that an interaction recorded, in microcents."""
    return sum(
        int(kept["cost_microcents"])
        for name in (os.listdir(session.job.logs) if session.job.logs.is_dir() else ())
        if name.startswith("late-") and name.endswith(".json")
        if (kept := _read_note(session, name)) and kept["sequence"] == sequence
    )


def collect_late_results(project: ProjectContext) -> None:
    """Keep and book the results that workers still have of jobs that have moved on. Raises SchedulerLost.

    Those of jobs that wait for them are collected by their next step.
    """
    from logist.agents.remote import worker as work  # noqa: PLC0415 - only a run with workers needs it
    from logist.agents.remote.cluster import SchedulerLost  # noqa: PLC0415

    pool = project.workers
    assert pool is not None
    seen: set[str] = set()
    for worker in pool.list_workers():
        call = errands.bind_call(pool, worker)
        try:
            machine = pool.describe_machine(worker)
            if machine["machine"] in seen or work.find_difference(machine):
                continue
            seen.add(machine["machine"])
            results = call(work.list_results, job_bundles.name_project(project))
        except SchedulerLost:
            raise
        except LogistError:
            continue  # it is out of reach: the next run asks again
        for found in results:
            try:
                _collect_result(project, call, found["ticket"], found["job"])
            except SchedulerLost:
                raise
            except Busy:
                continue  # the command that has the job waits for this answer, or the next run asks again
            except LogistError as error:
                project.say(f"can't collect a late answer of {found['job']} from {worker.name}: {error}")


def _collect_result(project: ProjectContext, call: Call, ticket: str, job_id: str) -> None:
    from logist.agents.remote import worker as work  # noqa: PLC0415

    if not is_job_id(job_id):
        return
    if not (project.jobs_dir / job_id).is_dir():
        if call(work.collect_task, ticket, seconds=errands.COLLECT_SECONDS)["outcome"] != "running":
            call(work.forget_tasks, [ticket])
            project.say(
                f"{job_id}: an answer has arrived, but the job is deleted; its highest cost was booked then"
            )
        return
    with open_session(project, job_id, "run") as session:
        exchanges = session.job.read_exchanges()
        errand = ask_files.read_errand(exchanges)
        if errand is not None and errand.is_away and errand.ticket == ticket:
            if step.find_due_phase(session.state) is None:
                _accept_for_later(session, errand, call)
            return
        note = _read_note(session, f"away-{ticket}.json")
        if note is not None:
            result = call(work.collect_task, ticket, seconds=errands.COLLECT_SECONDS)
            if result["outcome"] == "running":
                return
            if result["outcome"] == "done":
                _keep_result(session, note, result)
            else:
                _release_unused(session, note)
        call(work.forget_tasks, [ticket])


def _accept_for_later(session: Session, errand: AwayErrand, call: Call) -> None:
    """Accept the answer of a job that has ended or is suspended: it is booked, and stays until the job is resumed."""
    from logist.agents.remote import worker as work  # noqa: PLC0415

    result = call(work.collect_task, errand.ticket, seconds=errands.COLLECT_SECONDS)
    ask = ask_files.collect_ask(session.job.read_exchanges()).ask
    if result["outcome"] == "running" or ask is None:
        return
    errands.accept_result(session, ask, result, call)
    budgets.settle_calls(session)
    session.project.say(
        f"{session.job.id} is {session.state.status}: its answer has arrived from {errand.worker}, and is booked"
    )


def _release_unused(session: Session, note: JsonObject) -> None:
    """Release what is reserved for a call in doubt whose machine says that its agent never began."""
    _book(session, note, NOTHING)
    _remove_note(session, note)
    job_id = session.job.id
    session.project.say(
        f"{job_id}: {note['worker']} is back and has never called the agent, so the call in doubt has cost nothing; "
        f"to call it again: logist job resubmit --job {job_id} --retry"
    )


def _remove_note(session: Session, note: JsonObject) -> None:
    with suppress(FileNotFoundError):
        (session.job.logs / f"away-{note['ticket']}.json").unlink()


def _keep_result(session: Session, note: JsonObject, result: JsonObject) -> None:
    """Keep the text and the changes of a late result, and book what it has cost."""
    from logist.agents.remote.mirror import add_pack  # noqa: PLC0415
    from logist.workspace.checkpoint import objects  # noqa: PLC0415

    job, ticket = session.job, note["ticket"]
    record = errands.read_result(result, ticket)
    commit = record["commit"]
    git = session.project.open_workspace(job).git
    add_pack(git, record["pack"], commit)
    git.run("update-ref", f"{objects.KEPT}{commit}", commit)
    cost, text = _read_files(session, record["files"], ticket, result.get("kept", 0))
    path = job.write_log(f"late-{ticket}.txt", text.encode())
    kept = {
        **note,
        "cost_microcents": cost.microcents,
        "commit": commit,
    }
    job.write_log(f"late-{ticket}.json", files.dump_json(kept))
    _book(session, note, cost)
    _remove_note(session, note)
    price = format_money(cost.microcents)
    session.project.say(
        f"{job.id}: the late answer of {note['role']} has arrived from {note['worker']}; it cost {price}, and is not recorded. "
        f"To use it: git -C {job.git_dir} diff {note['checkpoint'][:12]} {commit[:12]} shows its changes, then "
        f"logist job poststep --job {job.id} --response-file {shlex.quote(str(path))} --charge {format_cents(cost.microcents)}"
    )


def _read_files(session: Session, sent: dict[str, str], ticket: str, kept: int) -> tuple[Cost, str]:
    """Return what the exchanges of a result have cost, those in doubt at their highest, and the text of the answer."""
    folder = session.job.logs / f"late-{ticket}"
    files.ensure_directory(session.job.logs)
    files.make_directory(folder)
    for name, text in sent.items():
        files.make_directory((folder / name).parent)
        files.replace_file(folder / name, session.project.redact_text(text).encode())
    exchanges = inflight.read_exchanges(folder)
    got = ask_files.collect_ask(exchanges)
    own = exchanges.gate if ask_files.has_gate(exchanges) else exchanges[kept:]
    try:
        costs = [reservations.read_cost(each.response) for each in own if each.response is not None]
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged("a worker has sent a damaged result", where=str(folder)) from error
    if got.kind == "in_doubt":
        costs.append(Cost(ask_files.read_reserved(exchanges) or 0, 0, 1))
    return reduce(Cost.plus, costs, NOTHING), got.reply.text


def _book(session: Session, note: JsonObject, cost: Cost) -> None:
    """Book what a late result has cost, unless its highest cost, or what a person said, is booked already."""
    project = session.project
    ledger, now = budgets.open_ledger(project), project.clock.now().timestamp()
    if ledger.settle({note["call"]: cost}, project.clock.timestamp()) or cost == NOTHING:
        return
    commands = map(kinds.command_of, session.load_history())
    if any(isinstance(each, ResubmitCommand) and each.released_of == note["sequence"] for each in commands):
        # A person has said that it was not charged.
        day = find_local_day(now, project.budget_settings.budget.timezone)
        call = BookedCall(f"{note['call']}/late", budgets.name_job(session), day, run=project.run_id)
        ledger.book(call, cost, project.clock.timestamp())


def _read_note(session: Session, name: str) -> JsonObject | None:
    """Return a note of this module; None if there is none that can be used."""
    with suppress(LogistError, ValueError, RecursionError):
        note = json.loads(files.read_bytes(session.job.logs / name, _MOST_NOTE) or b"null")
        if isinstance(note, dict) and isinstance(note.get("sequence"), int):
            return note
    return None
