"""The result of a hostile agent in a job: runs an attempt, then an honest step, and lists the problems."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from logist.errors import LogistError
from logist.jobs.archive import archive_replay
from logist.resources import load_schema
from logist.store.ledger import Ledger
from tests.loopback import Loopback
from tests.torture.crowd_forks import Forks
from tests.torture.hostile_site import (
    AGAIN,
    ANYTHING,
    CACHE,
    DONE,
    DOUBT,
    HALTED,
    LEDGER,
    NOWHERE,
    PERMISSION,
    REVIEW,
    STUCK,
    TESTED,
    Attempt,
    Site,
    look,
)
from tests.torture.hostile_texts import faults
from tests.torture.lab import JOB, KEY, broken, broken_files

CODES = {REVIEW: 0, PERMISSION: 3, STUCK: 3, AGAIN: 6, DOUBT: 3, HALTED: 7}
"""The exit codes of `job step`, by the status of the job afterwards."""
SHOWN = 12
"""How many names of changed files a problem lists."""
HUNG = 200.0
"""Seconds after which a step counts as hung."""
HONEST = """
for path in ("../../logs", JOB): tried(os.listdir, path)
left = set(os.listdir(HOME)) - {"tmp"}
if left: found.append(f"OUT: HOME has {left}")
"""
"""An agent program that only checks whether an earlier one left something for it."""


def attempted(site: Site, forks: Forks, attempt: Attempt, *, mode: str, ends: Sequence[str]) -> Iterator[str]:
    """Run a hostile agent in the job, then an honest one; return the problems after each."""
    script = json.loads(filled(json.dumps(attempt.steps), site.told()))
    with Loopback(*(script or [{"text": DONE}])) as server:
        site.settle_on(attempt, server.url if script else NOWHERE, mode)
        before, workspace = site.outside(), site.inside()
        code = _command(site, forks, "job", "step", JOB)
        asked = json.dumps([request.body for request in server.requests])
        if attempt.requests is not None and len(server.requests) != attempt.requests:
            yield f"the model was asked {len(server.requests)} times"
        yield from _moved(site, code, ends)
        yield from _harm(site, before, asked)
        yield from _changed(site, attempt, workspace)
        yield from _goes_on(site, forks, attempt, ends)
        yield from _harm(site, {**before, **_ours(site)}, "")
        yield from shown(site)


def filled(text: str, names: Mapping[str, str]) -> str:
    """Replace each `$NAME` in a text by its value; unknown names remain."""
    return re.sub(r"\$([A-Z]+)", lambda found: names.get(found[1], found[0]), text)


def _ours(site: Site) -> dict[str, Any]:
    """The files that this module itself has written."""
    paths = (site.place / "program" / "agent.py", site.config)
    return {str(path.relative_to(site.place)): look(path) for path in paths}


def _command(site: Site, forks: Forks, *args: str) -> int | None:
    pid = forks.logist(site, *args)
    code = forks.wait(pid, HUNG)
    if code is None:
        forks.kill(pid)
    return code


def _moved(site: Site, code: int | None, ends: Sequence[str]) -> Iterator[str]:
    """Check that the job made one step of the state machine, to the expected state."""
    history, state = site.history(), site.state()
    stuck = state.get("stuck")
    at = state["status"] + (f"/{stuck['kind']}" if stuck else "")
    last = history[-1]
    error = (last.get("response") or {}).get("error")
    if at not in ends:
        yield f"the job is {at}, not {' or '.join(ends)}: {state.get('reason')} {error}"
    elif code != CODES.get(at, code):
        yield f"{at}, and the step ends with {code}"
    asks = [entry for entry in history if entry["kind"] in ("ask", "recover")]
    if len(asks) != 1 or asks[0]["state_before"] != AGAIN:
        yield f"recorded: {[entry['kind'] for entry in history]}"
    if any(entry["actor"] == "agent" and entry["kind"] != "ask" for entry in history):
        yield "an agent decided"
    if site.job.inflight.exists():
        yield f"left in flight: {os.listdir(site.job.inflight)}"


def _harm(site: Site, before: Mapping[str, Any], asked: str) -> Iterator[str]:
    """Yield what was read, changed or left behind, and what no longer works."""
    after = site.outside()
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    if changed:
        yield f"changed outside: {changed[:SHOWN]}"
    yield from _changed_ledger(Ledger(site.place / LEDGER))
    for word in (site.canary, site.planted, KEY):
        if word in asked:
            yield f"{word} was sent to the model"
        if found := _holding(site, word):
            yield f"{word} is in {found}"
    if told := _holding(site, "OUT: "):
        yield f"it says that it got out, in {told}"
    if told := _holding(site, "Traceback (most recent call last)"):
        yield f"the attempt itself failed, or Logist did: {told}"
    if left := list(processes(str(site.place), site.nap())):
        yield f"left running: {left}"
    yield from broken_files(site)
    differences = archive_replay.replay_file(load_schema("llm-chat-schema"), site.folder).differences
    if differences:
        yield f"the replay differs: {differences}"


def _changed_ledger(ledger: Ledger) -> Iterator[str]:
    """Check that the ledger has only what commands book for the job."""
    try:
        ledger.verify()
        jobs = {entry.call.job for entry in ledger.read_entries() if entry.call is not None}
    except LogistError as error:
        yield f"the ledger: {error}"
        return
    names = set(os.listdir(ledger.folder)) if ledger.folder.exists() else set()
    if strange := sorted(names - {".gitignore", "ledger.json", "totals.json"} | jobs - {JOB}):
        yield f"in the ledger: {strange}"


def shown(site: Site) -> Iterator[str]:
    """Check that every reading command works, and prints nothing that controls a terminal."""
    yield from broken(site)
    for args in (("job", "history", JOB), ("job", "status", JOB, "-v"), ("job", "list")):
        ran = site.run(*args)
        yield from (
            f"{' '.join(args)}: {fault}" for fault in faults((ran.out + ran.err).encode("utf-8", "replace"))
        )


def _holding(site: Site, word: str) -> list[str]:
    """Files of the job that hold a word, and objects of its checkpoints."""
    searched = ["grep", "-rlaF", "-D", "skip", "--exclude=earlier.txt", "-e", word, str(site.folder)]
    found = subprocess.run(searched, capture_output=True, check=False).stdout.decode("utf-8", "replace")
    listed = ["git", "--git-dir", str(site.folder / "git"), "cat-file", "--batch-all-objects", "--batch"]
    objects = subprocess.run(listed, capture_output=True, check=False, cwd="/").stdout
    return [*found.splitlines(), *(["a checkpoint"] if word.encode() in objects else [])]


def _changed(site: Site, attempt: Attempt, before: Mapping[str, Any]) -> Iterator[str]:
    if not attempt.same:
        return
    after = site.inside()
    new = {name for name in after.keys() - before.keys() if {name, ANYTHING}.isdisjoint(attempt.plus)}
    differ = new | {name for name in before if before[name] != after.get(name)}
    if kept := sorted(name for name in differ if name.split("/")[0] not in attempt.lost):
        yield f"the workspace is not as it was: {kept[:5]}"
    state, last = site.state(), site.history()[-1]
    if (state.get("stuck") or {}).get("kind") != "permission":
        return
    refusals = last["observed"]["refusals"]
    if not refusals or not all(each["message"] in state["stuck"]["reason"] for each in refusals[:1]):
        yield f"it is not said why: {state['stuck']} {refusals[:2]}"
    held = (
        attempt.role != "Tester" or CACHE not in attempt.lost
    )  # a cache counts as a change by a role that may not run commands
    if attempt.lost and held and differ.intersection(before) and all(each["undone"] for each in refusals):
        yield f"it is not said that the change could not be undone: {refusals[:3]}"


def _goes_on(site: Site, forks: Forks, attempt: Attempt, ends: Sequence[str]) -> Iterator[str]:
    """Check that the next command works: a steward resubmits the job, and an honest agent answers."""
    state = site.state()
    in_review = state["status"] == REVIEW
    site.write_program(HONEST, TESTED if attempt.role == "Tester" and not in_review else DONE)
    if state["status"] == "STUCK":
        paid = ["--assume-paid"] if state["stuck"]["kind"] == "in_doubt" else []
        ran = site.run("job", "resubmit", JOB, "--note", "Once more.", *paid)
        if ran.code:
            yield f"resubmit ends with {ran.code}: {ran.err}"
    wanted = [(11, "APPROVAL_REQUIRED") if in_review else (0, REVIEW)]
    wanted += [(7, HALTED)] if HALTED in ends else []  # the usage that it claimed may be above the limit
    config = json.loads(site.config.read_text("utf-8"))
    described = config["agents"]["hostile"] | {"read_from": None, "output": "json"}
    config |= {"agent": "hostile", "agents": {"hostile": described}, "agent_timeout_minutes": 1}
    site.config.write_text(json.dumps(config), "utf-8")
    code = _command(site, forks, "job", "step", JOB)
    if (code, site.state()["status"]) not in wanted:
        reason = site.history()[-1].get("response")
        yield f"the next step ends with {code}, and the job is {site.state()['status']}: {str(reason)[:400]}"


def processes(*marks: str) -> Iterator[str]:
    """Return the processes with one of these marks in their command line or environment."""
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        with suppress(OSError):
            told = [Path("/proc", name, file).read_bytes() for file in ("cmdline", "environ")]
            if any(mark.encode() in text for mark in marks for text in told):
                yield f"{name}: {told[0].replace(bytes(1), b' ')[:80].decode('utf-8', 'replace')}"
