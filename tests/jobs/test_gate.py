"""Programs whose requests go through the gate: each one is limited, reserved and recorded before it is sent."""

from __future__ import annotations

import json
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from logist.config import trust
from logist.config.layering import USER_KEYS
from logist.config.settings import load_settings
from logist.core.model import ErrorKind, Kind, Status, StuckKind, Usage
from logist.core.money.amounts import MICROCENTS
from logist.core.money.budgets import Account, Cost, Sums
from logist.jobs.base import budgets
from logist.jobs.steward import job_edits
from logist.jobs.steward.steward_decisions import record_decision
from logist.store import JobDir, inflight
from logist.store.progress import Activity, ActivityRecord, read_last_record
from logist.store.progress_text import format_progress
from logist.store.transcripts import read_transcript
from tests.jobs.bench import Bench, Json, command
from tests.jobs.conftest import MakeBench
from tests.jobs.test_paid import KEY, paid, step_as_process, waiting_for
from tests.jobs.test_programs import program
from tests.jobs.test_workflow_children import given_away
from tests.loopback import Loopback

PROJECT = Account("project")
COST = 70_000
"""What one request of tests costs, in microcents: 1000 tokens at 50, 100 at 200."""
SAYS: Json = {"text": "Hm.", "usage": {"input": 1000, "output": 100}}

ASKS = """
import concurrent.futures, urllib.error, urllib.request
url, model = sys.argv[sys.argv.index("--url") + 1], sys.argv[sys.argv.index("--model") + 1]
def ask(words="Hello", **more):
    body = {"model": model, "messages": [{"role": "user", "content": words}], "max_tokens": 1000, **more}
    headers = {"authorization": "Bearer " + os.environ["AGENT_KEY"], "content-type": "application/json"}
    request = urllib.request.Request(url + "/chat/completions", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
def note(name, what):
    pathlib.Path(name).write_text(json.dumps(what))
"""


def gated(b: Bench, body: str, text: str = "", **settings: Any) -> Bench:
    """Makes a program that makes requests the agent."""
    program(b, ASKS + body, text or command())
    b.change(settings=b.project.settings.model_copy(update={"gate": "on", **settings}))
    return b


def made(bench: MakeBench, server: Loopback, body: str, text: str = "", **spec: Any) -> Bench:
    b = gated(paid(bench(), server.url, review={"enabled": False}), body, text)
    b.create(**spec)
    return b


def workspace(b: Bench, job_id: str = "j") -> Path:
    return b.project.open_job(job_id).workspace


def sums(b: Bench) -> Sums:
    return budgets.open_ledger(b.project).read().sums.get(PROJECT, Sums())


def microcents(usage: Usage) -> int:
    return usage.cost_cents * MICROCENTS + usage.cost_microcents


def total(b: Bench) -> int:
    usage = b.state().usage
    return usage.cumulative_cost * MICROCENTS + usage.cumulative_cost_microcents


def test_the_requests_of_a_program_are_recorded_with_their_exact_cost(bench: MakeBench) -> None:
    body = 'answers = [ask(f"turn {n}") for n in range(3)]; note("made.txt", [answers, dict(os.environ), sys.argv])'
    with Loopback(SAYS) as server:
        b = made(bench, server, body, command(evidence=["made.txt"]))
        result = b.step()
    assert result.state.status is Status.APPROVAL_REQUIRED
    entry = b.history()[-1]
    assert (entry.usage.source, entry.usage.calls) == ("gate", 3)
    assert microcents(entry.usage) == 3 * COST == total(b)
    assert (entry.usage.input_tokens, entry.usage.output_tokens) == (3000, 300)
    assert sums(b) == Sums(Cost(3 * COST, 3300, 3))
    answers, environment, argv = json.loads((workspace(b) / "made.txt").read_text())
    assert [status for status, _ in answers] == [200, 200, 200]
    assert json.loads(answers[0][1])["choices"][0]["message"]["content"] == "Hm."
    # The key stays outside: the program has a token that opens nothing but the gate.
    assert KEY not in json.dumps([environment, argv])
    assert server.url not in json.dumps([environment, argv])
    assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {KEY}"}
    turns = read_transcript(b.folder(), 2)
    assert [turn.get("text") for turn in turns] == ["Hm.", "Hm.", "Hm.", None]
    assert ["turn 1" in turn["request"] for turn in turns[:3]] == [False, True, False]
    assert environment["AGENT_KEY"] not in json.dumps(b.history()[-1].model_dump(mode="json"))
    assert not (b.folder() / "inflight").exists()


def test_a_program_may_make_several_requests_at_once(bench: MakeBench) -> None:
    body = "pool = concurrent.futures.ThreadPoolExecutor(4); print(list(pool.map(ask, map(str, range(8)))), file=sys.stderr)"
    with Loopback(SAYS) as server:
        b = made(bench, server, body)
        b.step()
    assert len(server.requests) == 8
    assert b.history()[-1].usage.calls == 8
    assert total(b) == 8 * COST == sums(b).spent.microcents
    assert sums(b).reserved == Cost(0, 0, 0)


LIMIT = {"cost_threshold": 0.5}
"""US cents: room for some requests of tests, but not for twelve."""


def test_over_the_cost_limit_the_program_is_refused_and_the_job_halts_with_its_work(bench: MakeBench) -> None:
    body = 'note("made.txt", "half"); answers = [ask() for _ in range(12)]; note("answers.txt", answers); sys.exit("no money")'
    with Loopback(SAYS) as server:
        b = made(bench, server, body, limits=LIMIT)
        b.change(settings=b.project.settings.model_copy(update={"min_output_tokens": 900}))
        result = b.step()
        seen = len(server.requests)
        assert result.state.status is Status.HALTED_COST
        assert result.state.reason is not None
        assert "the next one could cost more than the job has left" in result.state.reason
        answers = json.loads((workspace(b) / "answers.txt").read_text())
        assert [status for status, _ in answers] == [200] * seen + [400] * (12 - seen)
        assert 0 < seen < 12
        assert "the next one could cost more than the job has left" in answers[-1][1]
        assert total(b) == seen * COST == sums(b).spent.microcents
        assert total(b) <= 0.5 * MICROCENTS
        # With more money, it goes on with the files that are there.
        job_edits.configure_job(b.project, "j", {("limits", "cost_threshold"): 10})
        record_decision(b.project, "j", Kind.RESUME)
        assert (workspace(b) / "made.txt").exists()
        b.step()
    assert len(server.requests) == seen + 12


def test_a_program_that_ends_with_an_answer_after_a_refusal_is_judged_by_it(bench: MakeBench) -> None:
    body = "answers = [ask() for _ in range(12)]"
    with Loopback(SAYS) as server:
        b = made(bench, server, body, limits=LIMIT)
        b.change(settings=b.project.settings.model_copy(update={"min_output_tokens": 900}))
        assert b.step().state.status is Status.APPROVAL_REQUIRED


def test_a_used_up_budget_ends_the_run_and_the_job_waits_for_it(bench: MakeBench) -> None:
    body = (
        'note("made.txt", "half"); answers = [ask() for _ in range(5)]; answers[-1][0] == 200 or sys.exit(1)'
    )
    with Loopback(SAYS) as server:
        b = made(bench, server, body)
        limited = b.project.settings.model_copy(
            update={
                "budget": type(b.project.settings.budget).model_validate({"limits": {"few": {"calls": 2}}})
            }
        )
        unlimited = b.project.settings
        b.change(settings=limited)
        result = b.step()
        assert (result.exit_code, result.state.status) == (7, Status.PENDING)
        assert "waiting for budget few" in result.notes[0]
        assert result.state.place.attempts == 0
        error = b.history()[-1].response.error
        assert error is not None
        assert (error.kind, error.budget) == (ErrorKind.OUTAGE, "few")
        assert total(b) == 2 * COST == sums(b).spent.microcents
        wait = b.step().wait
        assert wait is not None
        assert wait.budget == "few"
        assert len(server.requests) == 2
        b.change(settings=unlimited)
        assert (workspace(b) / "made.txt").exists()
        assert b.step().state.status is Status.APPROVAL_REQUIRED
    assert len(server.requests) == 7


def test_a_program_that_ignores_refusals_is_ended(bench: MakeBench) -> None:
    body = 'for n in range(1000): open("count.txt", "a").write("x"); ask(model="another")'
    with Loopback(SAYS) as server:
        b = made(bench, server, body)
        result = b.step()
        assert server.requests == []
    assert (result.exit_code, result.state.status) == (6, Status.PENDING)
    assert "it ignored 20 refusals of the gate" in (result.state.reason or "")
    assert 20 <= len((workspace(b) / "count.txt").read_text()) < 500


def test_a_program_that_crashes_has_its_exact_cost_and_takes_an_attempt(bench: MakeBench) -> None:
    with Loopback(SAYS) as server:
        b = made(bench, server, "ask(); os.kill(os.getpid(), 9)")
        result = b.step()
    assert result.state.place.attempts == 1
    assert b.history()[-1].usage.source == "gate"
    assert total(b) == COST == sums(b).spent.microcents


def test_an_answer_that_the_program_does_not_wait_for_is_still_counted(bench: MakeBench) -> None:
    body = """
import threading, time
threading.Thread(target=ask, daemon=True).start()
while not pathlib.Path(sys.argv[0]).with_name("asked").exists():
    time.sleep(0.01)
print(json.dumps({"result": COMMAND, "usage": {"in": 1, "out": 1}}))
os._exit(0)
""".replace("COMMAND", repr(command()))
    with Loopback({**SAYS, "delay": 3}) as server, ThreadPoolExecutor(1) as pool:
        b = made(bench, server, body)
        step = pool.submit(b.step)
        server.wait_for(1)
        (b.project.home.parent / "asked").touch()
        step.result()
    assert total(b) == COST
    assert b.history()[-1].usage.source == "gate"


def test_the_programs_own_figures_count_only_for_a_warning(bench: MakeBench) -> None:
    with Loopback(SAYS) as server:
        b = made(bench, server, "ask()")
        b.step()
    entry = b.history()[-1]
    assert entry.usage.reported_microcents == 50_000_000
    assert (entry.usage.input_tokens, microcents(entry.usage)) == (1000, COST)
    assert [text for text in entry.response.warnings if text.startswith("the reported cost, $0.50, is not")]


def test_without_a_known_address_there_is_no_gate_and_a_warning(bench: MakeBench) -> None:
    b = gated(paid(bench(), "http://127.0.0.1:9/v1"), "")
    models = {
        name: {**entry.model_dump(mode="json"), "endpoint": None, "provider_model": "bedrock/large"}
        for name, entry in b.project.settings.models.items()
    }
    data = b.project.settings.model_dump(mode="json")
    data["agents"]["fake"]["argv"] = data["agents"]["fake"]["argv"][:2]
    b.change(settings=type(b.project.settings).model_validate_json(json.dumps({**data, "models": models})))
    program_text = (b.project.home.parent / "agent.py").read_text().replace("url, model = ", "0 and ")
    (b.project.home.parent / "agent.py").write_text(program_text)
    b.create()
    b.step()
    assert [
        text for text in b.said if "works without the gate: the address of `bedrock/large` is unknown" in text
    ]
    assert b.history()[-1].usage.calls == 0
    b.create("another")
    b.step("another")
    assert sum("works without the gate" in text for text in b.said) == 1  # it holds for all jobs of a command


def test_over_the_limit_of_the_job_above_that_job_halts(bench: MakeBench) -> None:
    b = bench(settings={"review": {"enabled": False}})
    child = given_away(b, "one", limits=LIMIT)[0]
    body = "answers = [ask() for _ in range(12)]; sys.exit('no money')"
    with Loopback(SAYS) as server:
        gated(paid(b, server.url, review={"enabled": False}, min_output_tokens=900), body)
        result = b.step(child)
        seen = len(server.requests)
        assert (result.exit_code, result.state.status) == (7, Status.PENDING)
        assert "could cost more than j and its jobs have left" in (result.state.reason or "")
        assert b.step(child).exit_code == 7
        assert len(server.requests) == seen
    assert b.state("j").status is Status.HALTED_COST
    assert 0 < sums(b).spent.microcents == seen * COST <= 0.5 * MICROCENTS


def test_what_a_program_prints_is_shown_with_the_number_of_its_request() -> None:
    record = ActivityRecord(Activity.WORKING, role="Worker", turn=3, words="almost done")
    assert format_progress(record, 4) == 'Worker, turn 3 (4 s): working "almost done"'


def write_config(b: Bench) -> Path:
    """Writes the settings of the bench for other processes; the directory with the config of the user."""
    whole = b.project.settings.model_dump(mode="json", exclude_none=True)
    said = {name: value for name, value in whole.items() if name not in USER_KEYS} | {"agent": "fake"}
    (b.project.home / "config.yaml").write_text(json.dumps(said), "utf-8")
    user = b.project.home.parent / "user" / "logist"
    trust.read_trust(user, b.project.home, load_settings(b.project.home, user)).allow_claims()
    return user


def as_process(b: Bench) -> Any:
    """A step in a process of its own, with the settings of the bench."""
    return step_as_process(b, XDG_CONFIG_HOME=str(write_config(b).parent))


def kill_courier(job: JobDir) -> None:
    holder = job.find_lock_holder()
    assert holder is not None
    assert holder.courier is not None
    os.kill(holder.courier.pid, signal.SIGKILL)


def is_sent(job: JobDir, k: int) -> bool:
    return any(each.k == k and each.sent for each in job.read_exchanges().gate)


@pytest.mark.parametrize("stream", [False, True])
def test_a_courier_killed_while_a_request_is_open_leaves_its_highest_cost_in_doubt(
    bench: MakeBench, *, stream: bool
) -> None:
    gate = threading.Event()
    slow: Json = (
        {**SAYS, "text": "word " * 300, "chunk": 5, "chunk_delay": 0.2} if stream else {**SAYS, "gate": gate}
    )
    with Loopback(SAYS, slow) as server:
        b = made(bench, server, f'note("made.txt", 1); ask(); ask(stream={stream})')
        job = b.project.open_job("j")
        stepper = as_process(b)
        server.wait_for(2)
        waiting_for(lambda: is_sent(job, 2))
        if stream:
            waiting_for(lambda: (job.inflight / inflight.GATE / "2.stream").stat().st_size > 500)
        live = read_last_record(job.inflight)
        assert live is not None
        assert live.cost_microcents == COST
        assert live.in_flight_microcents > 0
        reserved = live.in_flight_microcents
        waiting_for(
            lambda: sums(b).reserved.microcents == reserved
        )  # the first one is settled a moment after its end
        kill_courier(job)
        gate.set()
        stepper.wait()
        assert b.step().entries == ()
        assert len(server.requests) == 2  # never sent again
    state = b.state()
    assert state.place.stuck is not None
    assert state.place.stuck.kind is StuckKind.IN_DOUBT
    entry = b.history()[-1]
    assert microcents(entry.usage) == COST + reserved
    assert sums(b).spent.microcents == COST
    assert sums(b).reserved.microcents == reserved
    assert not (workspace(b) / "made.txt").exists()


@pytest.mark.parametrize("asks", [0, 2])
def test_a_courier_killed_between_two_requests_leaves_no_doubt(bench: MakeBench, asks: int) -> None:
    with Loopback(SAYS) as server:
        b = made(bench, server, f'[ask() for _ in range({asks})]; note("made.txt", 1); time.sleep(299)')
        job = b.project.open_job("j")
        stepper = as_process(b)
        waiting_for((workspace(b) / "made.txt").exists)
        kill_courier(job)
        stepper.wait()  # it records what is known
        assert len(server.requests) == asks
    state = b.state()
    assert (state.status, state.place.attempts) == (Status.PENDING, 1)
    assert total(b) == asks * COST == sums(b).spent.microcents
    assert sums(b).reserved == Cost(0, 0, 0)
    assert (workspace(b) / "made.txt").exists()


def test_a_stop_ends_the_program_and_records_what_is_known(bench: MakeBench) -> None:
    gate = threading.Event()
    with Loopback(SAYS, {**SAYS, "gate": gate}) as server:
        b = made(bench, server, 'note("made.txt", 1); ask(); ask()')
        stepper = as_process(b)
        server.wait_for(2)
        stepper.send_signal(signal.SIGINT)
        assert stepper.wait() == 130
        gate.set()
        assert len(server.requests) == 2
    entry = b.history()[-1]
    assert entry.kind is Kind.ASK
    assert entry.usage.source == "worst_case"
    assert microcents(entry.usage) == sums(b).spent.microcents == total(b) > COST
    assert sums(b).reserved == Cost(0, 0, 0)
