"""What runs on the machine of a worker: tasks that a dispatcher sends.

A dispatcher calls these functions through an engine, by their names. They take and return plain data, so that two versions
of Logist can tell each other that they differ. All of them take `spool`: the directory of the machine; None for that of the
environment. A task works in a copy of the job (`mirror.py`) with the same courier, gate and sandbox as on one machine. Its
result stays here until the dispatcher has it (`forget_tasks`).
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from logist.agents import sandbox
from logist.agents.courier import process as courier
from logist.agents.courier.ask_files import RecordedAsk
from logist.agents.courier.ending import end_courier
from logist.agents.courier.process import CourierProcess
from logist.agents.courier.reservations import ExchangeLedger
from logist.agents.courier.tool_turns import AskProgress
from logist.agents.programs.finding import load_errand_program
from logist.agents.protocol import MODEL_AGENTS
from logist.agents.remote.mirror import Mirror, has_commit
from logist.agents.remote.spool import Spool
from logist.config.environment import Environment
from logist.core.model import JsonObject
from logist.errors import Busy, Damaged, LogistError, Refused
from logist.store import Lock, describe_problem, files, inflight
from logist.store.gate_log import LOG
from logist.store.progress import MOST_BYTES as MOST_PROGRESS
from logist.store.progress import NAME as PROGRESS
from logist.version import __version__
from logist.workspace.git import Git

COMMAND = "a task of another machine"
POLL_SECONDS = 0.1
BEGIN_SECONDS = 3.0
"""How long a task may take from its record to the lock of its job, before it is taken for one whose worker was killed."""
MOST_SKEW = 300.0
"""Seconds by which the clocks of two machines may differ."""
LEAST_FREE = 256 << 20
"""Bytes that must be free on the disk before a task begins."""
MOST_FILE = 1 << 29


def describe_machine(spool: str | None = None) -> JsonObject:
    """Return what a dispatcher has to know before it sends a task. Raises Refused if several machines may share the directory."""
    place = Spool.open(spool)
    if problem := describe_problem(place.path):
        # One name would stand for all machines with this home directory, and a lock for none of them.
        message = f"can't keep tasks at {place.path}, {problem}; set LOGIST_WORKER_DIR there to a directory on a local disk"
        raise Refused(message)
    return {
        "machine": place.machine,
        "host": socket.gethostname(),
        "logist": __version__,
        "python": platform.python_version(),
        "clock": time.time(),
        "free_bytes": shutil.disk_usage(place.path).free,
    }


def find_known_commits(asked: JsonObject, spool: str | None = None) -> JsonObject:
    """Return what a machine has of a job, so that only the rest is sent.

    `asked`: `mirror`, `job`, `base` (the commit that the job began with), `rules`. The answer: `has_base`, and `commits`,
    those that came from the dispatcher, the last one first.
    """
    place = Spool.open(spool)
    mirror = open_mirror(place, asked)
    return {
        "has_base": has_commit(Git(place.store, of_job=True), asked["base"]),
        "commits": mirror.list_commits(),
    }


def do_task(task: JsonObject, spool: str | None = None) -> JsonObject:
    """Do a task and return its result: `outcome` is `done`, or `refused` with a `reason` and nothing was sent.

    If the same task is begun again here, it waits for the first and returns the same result.
    """
    place = Spool.open(spool)
    ticket = task["ticket"]
    if task["machine"] != place.machine:
        return {"outcome": "refused", "reason": f"{socket.gethostname()} got a task of another machine"}
    record = {name: task[name] for name in ("ticket", "project", "mirror", "job", "commit", "rules", "kept")}
    if not place.begin_task(ticket, record):
        while (result := collect_task(ticket, spool))["outcome"] == "running":
            time.sleep(POLL_SECONDS)
        return result
    try:
        if reason := find_obstacle(task, place):
            raise _NotBegun(reason)
        place.remove_old()
        mirror = open_mirror(place, task)
        with _hold_for_task(place, mirror, ticket) as lock:
            finish_earlier(place, mirror)
            process = _launch(place, mirror, task, lock)
            while not process.has_ended(POLL_SECONDS):
                pass
            return _finish(place, mirror, record)
    except _NotBegun as error:
        place.forget(ticket)
        return {"outcome": "refused", "reason": str(error)}


class _NotBegun(Exception):
    """A task could not be begun, so nothing was sent."""


@contextmanager
def _hold_for_task(place: Spool, mirror: Mirror, ticket: str) -> Iterator[Lock]:
    """Hold the copy of a job inside the block, after an earlier task of it has ended. Raises _NotBegun."""
    with ExitStack() as stack:
        while True:
            with suppress(Busy):
                lock = stack.enter_context(mirror.hold(COMMAND, 0.0))
                break
            if place.is_given_up(ticket):
                raise _NotBegun("it was stopped before it began")
            time.sleep(POLL_SECONDS)
        if place.is_given_up(ticket):  # another process has collected it while this one was stopped
            raise _NotBegun("it was given up before it began")
        yield lock


def finish_earlier(place: Spool, mirror: Mirror) -> None:
    """Save the result of an earlier task of this job whose worker was killed, before the next one removes it."""
    earlier = mirror.read_ticket()
    record = place.read_task(earlier) if earlier else None
    if record is not None and place.read_result(earlier) is None and mirror.job.read_exchanges():
        _finish(place, mirror, record)


def collect_task(ticket: str, spool: str | None = None) -> JsonObject:
    """Return the result of a task that was begun before; `outcome` is `running` as long as it is at work.

    `outcome` is `unknown` if its agent has not been started here; from then on, it can't be. It is `delivered` if a
    dispatcher has the result, so that this machine has not.
    """
    place = Spool.open(spool)
    place.fence_task(ticket)
    if (known := place.read_result(ticket)) is not None:
        return {**known[0], "pack": known[1]}
    record = place.read_task(ticket)
    if record is None:
        return {"outcome": "delivered" if place.was_delivered(ticket) else "unknown"}
    mirror = open_mirror(place, record)
    try:
        with mirror.hold(COMMAND, 0.0):
            if (known := place.read_result(ticket)) is not None:
                return {**known[0], "pack": known[1]}
            if mirror.read_ticket() == ticket and mirror.job.read_exchanges():
                return _finish(place, mirror, record)
            if place.count_age(ticket) < BEGIN_SECONDS:
                return {"outcome": "running"}
            place.forget(ticket)
            return {"outcome": "unknown"}
    except Busy:
        return {"outcome": "running"}


def stop_task(ticket: str, spool: str | None = None) -> bool:
    """Ask the courier of a task to end and to record what it knows; False if none is at work yet, or any more.

    A task that has not begun, or that has not started its agent, doesn't do so any more.
    """
    place = Spool.open(spool)
    place.fence_task(ticket)
    record = place.read_task(ticket)
    if record is None:
        return False
    mirror = open_mirror(place, record)
    if mirror.read_ticket() != ticket:
        place.give_up(ticket)  # it waits for another task of this job
        return False
    holder = mirror.job.find_lock_holder()
    if holder is None or holder.courier is None:
        return False
    return end_courier(holder.courier, mirror.path)


def read_activity(ticket: str, offset: int, spool: str | None = None) -> JsonObject:
    """Return what the agent of a task has reported since `offset` (bytes): `data` and the new offset, `end`."""
    place = Spool.open(spool)
    record = place.read_task(ticket)
    data = b""
    if record is not None:
        path = open_mirror(place, record).job.inflight / PROGRESS
        data = (files.read_bytes(path, 2 * MOST_PROGRESS) or b"") if path.exists() else b""
    new = data[offset:] if offset <= len(data) else data  # the courier has emptied it
    return {"data": new, "end": len(data)}


def list_results(project: str, spool: str | None = None) -> list[JsonObject]:
    """Return the tasks of a project that this machine still has, also those at work: `ticket`, `job`, `mirror`."""
    place = Spool.open(spool)
    found = []
    for ticket in place.list_tickets():
        with suppress(Damaged):  # the others can be collected all the same
            record = place.read_task(ticket)
            if record is not None and record.get("project") == project:
                found.append({"ticket": ticket, "job": record["job"], "mirror": record["mirror"]})
    return found


def forget_tasks(tickets: list[str], spool: str | None = None) -> None:
    """Remove tasks whose results the dispatcher has."""
    place = Spool.open(spool)
    for ticket in tickets:
        place.forget(ticket, is_delivered=True)


def find_difference(machine: JsonObject) -> str:
    """Return why a machine can't get tasks from this one, as one line, by what `describe_machine` says; empty if it can."""
    there = machine["host"]
    if machine["logist"] != __version__:
        return f"{there} has Logist {machine['logist']}, and this machine {__version__}; install the same version on both"
    here = platform.python_version()
    if machine["python"].split(".")[:2] != here.split(".")[:2]:
        return f"{there} has Python {machine['python']}, and this machine {here}; use the same minor version on both"
    skew = machine["clock"] - time.time()
    if abs(skew) > MOST_SKEW:
        return f"the clock of {there} is {abs(skew) / 60:.0f} minutes {'ahead' if skew > 0 else 'behind'}; set it"
    return ""


def find_machine_obstacle(task: JsonObject, place: Spool, required: str | None) -> str:
    """Return why this machine can't do any task like this, as one line; empty if it can.

    `required`: the mode of the sandbox in which it runs programs; None if it runs none.
    """
    here = socket.gethostname()
    if (free := shutil.disk_usage(place.path).free) < LEAST_FREE + 3 * len(task["pack"]):
        return f"{here} has only {free >> 20} MiB free at {place.path}; free some space there"
    if required == "required" and sandbox.detect_sandbox().kind == "none":
        why = "; ".join(sandbox.detect_sandbox().details)
        return f"{here} has no sandbox, but the config requires one: {why}; install bubblewrap there"
    return ""


def find_obstacle(task: JsonObject, place: Spool) -> str:
    """Return why this machine can't do a task, as one line; empty if it can. Nothing was sent then."""
    here = socket.gethostname()
    ask = RecordedAsk.read(task["ask"])
    # As on one machine: a program that reaches its model on its own may have a login instead.
    name = ask.model.api_key_env if ask.agent in MODEL_AGENTS or ask.provider is not None else None
    if name and not Environment.from_process().get_key(name):
        return f"{here} has no key {name} in the environment of its worker; set it there, and start the worker again"
    runs_commands = ask.agent not in MODEL_AGENTS or ask.work.permissions.can_execute_commands
    if reason := find_machine_obstacle(task, place, ask.work.sandbox.mode if runs_commands else None):
        return reason
    if ask.agent not in MODEL_AGENTS:
        try:
            program = load_errand_program(ask.agent, ask.work.program).executable
        except LogistError as error:
            return f"{here}: {error.message}"
        if not _has_program(program):
            return f"{here} has no program {program}; install it there, in the PATH of its worker"
    for name, server in ask.work.mcp_servers.items():
        if not _has_program(server.command[0]):
            needed = f"{server.command[0]}, which the MCP server {name} of the role {ask.role} needs"
            return f"{here} has no program {needed}; install it there, in the PATH of its worker"
    return ""


def _has_program(program: str) -> bool:
    """Whether a program can be started here; one with a relative path is in the workspace."""
    if os.sep in program:
        return not os.path.isabs(program) or (os.path.isfile(program) and os.access(program, os.X_OK))
    path = Environment.from_process().build_child_environment().get("PATH")
    return shutil.which(program, path=path or os.defpath) is not None


def open_mirror(place: Spool, named: JsonObject) -> Mirror:
    """Return the copy of a job that a task works in."""
    return Mirror(place.find_mirror(named["mirror"], named["job"]), named["rules"])


def _launch(place: Spool, mirror: Mirror, task: JsonObject, lock: Lock) -> CourierProcess:
    """Start the courier of a task; it goes on if this process is killed. Raises _NotBegun."""
    ask: JsonObject = task["ask"]
    environment = Environment.from_process()
    name = RecordedAsk.read(ask).model.api_key_env
    key = environment.get_key(name) if name else None
    try:
        mirror.set_up(place, task)
        mirror.job.begin_exchange(1, ask)
        for kept, text in task["files"].items():
            if inflight.is_exchange_file(kept):
                files.replace_file(mirror.job.inflight / kept, text.encode())
        ledger = _place_ledger(place, task)
        _reserve_first(mirror, RecordedAsk.read(ask), ledger)
        mirror.workspace.disarm_git(for_programs=True)
        private = {
            "api_key": key,
            "secrets": list(environment.list_secrets(*([name] if name else []))),
            "ledger": ledger,
            "rates": _place_rates(place, task),
        }
        return courier.launch_courier(mirror.job, lock, private, environment.build_child_environment())
    except (LogistError, OSError) as error:
        raise _NotBegun(f"{socket.gethostname()} can't begin the task: {error}") from error


def _place_ledger(place: Spool, task: JsonObject) -> JsonObject | None:
    """The ledger of this task alone: it may spend what the dispatcher has reserved for it."""
    ledger = task["ledger"]
    return None if ledger is None else {**ledger, "folder": str(place.find_task(task["ticket"]) / "ledger")}


def _reserve_first(mirror: Mirror, ask: RecordedAsk, ledger: JsonObject | None) -> None:
    """Reserve the first exchange of a model in the ledger of the task: couriers rely on that. Raises _NotBegun."""
    if ledger is None or ask.agent not in MODEL_AGENTS or len(mirror.job.read_exchanges()) > 1:
        return
    coming = AskProgress.from_exchanges(()).plan_next(ask)
    sending = coming.sending if coming is not None else None
    refusal = ExchangeLedger.from_json(ledger).reserve(1, ask.reserved_microcents, sending)
    if refusal is not None:
        raise _NotBegun(f"what is left is less than one call: {refusal.describe()}")


def _place_rates(place: Spool, task: JsonObject) -> JsonObject:
    """The rate limits, which all tasks of a project on this machine share."""
    return {**task["rates"], "folder": str(place.path / "rates" / task["project"])}


def _finish(place: Spool, mirror: Mirror, record: JsonObject) -> JsonObject:
    """Save the result of a task that has ended, under the lock of its mirror, and return it."""
    marker = (inflight.read_exchanges(mirror.job.inflight)[0].request or {}).get("work", {}).get("marker")
    if marker:
        sandbox.end_leftover_processes(marker)
    checkpoint = mirror.workspace.create_checkpoint("as the agent left it on a worker")
    pack = mirror.pack_changes(checkpoint.commit, record["commit"])
    result = {
        "outcome": "done",
        "ticket": record["ticket"],
        "kept": record["kept"],
        "commit": checkpoint.commit,
        "skipped": list(checkpoint.skipped),
        "files": read_exchange_files(mirror.job.inflight),
        "log": _read_log(mirror.job.logs / courier.LOG),
    }
    place.save_result(record["ticket"], result, pack)
    return {**result, "pack": pack}


def read_exchange_files(folder: Path) -> dict[str, str]:
    """Return the files of exchanges, and of the gate; not those that a program made."""
    names = [*os.listdir(folder), f"{inflight.GATE}/{LOG}"]
    return {
        name: data.decode()
        for name in sorted(filter(inflight.is_exchange_file, names))
        if (folder / name).exists() and (data := files.read_bytes(folder / name, MOST_FILE)) is not None
    }


def _read_log(path: Path) -> str:
    with suppress(LogistError, OSError):
        return (files.read_bytes(path) or b"")[-4000:].decode("utf-8", "replace")
    return ""
