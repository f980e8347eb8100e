"""`logist budget`, `run --max-cost`, and what is shown of a job whose budget is used up."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from logist.config.environment import Environment
from logist.core.money.amounts import MICROCENTS
from logist.core.money.budgets import Account
from logist.jobs.base import project_opening
from logist.store import JobDir
from logist.store.ledger import Ledger
from tests.cli.desk import Desk, command
from tests.jobs.test_paid import waiting_for
from tests.loopback import Loopback

DONE = {"text": command(), "usage": {"input": 1000, "output": 8000}}
"""Costs 1.65 cents: 1000 tokens at 50 microcents, 8000 at 200."""
ENV = {"LOGIST_AGENT": "model", "MY_KEY": "dummy-key-for-tests-0001"}


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback(*[DONE] * 20) as running:
        yield running


def configure(desk: Desk, server: Loopback, *limits: str) -> None:
    model = f"{{provider_model: openai/m, endpoint: '{server.url}', api_key_env: MY_KEY, input_price: 0.5, output_price: 2}}"
    lines = ["approval: none", "review: false", "model: m", f"models: {{m: {model}}}", "budget:", "  limits:"]
    lines += [f"    {limit}" for limit in limits] or ["    none: {calls: 1000}"]
    desk.settings("\n".join(lines) + "\n")


def test_a_job_whose_budget_is_used_up_is_listed_with_the_budgets_name(desk: Desk, server: Loopback) -> None:
    configure(desk, server, "few: {calls: 1}")
    for job_id in ("a", "b"):
        desk.create(job_id)
    ran = desk("run", "--parallel", "1", env=ENV)
    assert ran.code == 7
    assert re.search(r"(?m)^b\tPENDING\t.*\tbudget few, used up .*\tlogist budget show$", ran.out)
    assert len(server.requests) == 1
    assert (
        "waiting for budget few, used up; 1 try so far: budget few: 1 of 1 calls" in desk("status", "b").out
    )
    listed = desk("list")
    assert "b: waits for budget few, used up" in listed.err
    inbox = desk("inbox", "--kind", "budget", "--json")
    assert inbox.code == 7
    [row] = inbox.json["data"]["jobs"] if isinstance(inbox.json["data"], dict) else inbox.json["data"]
    assert (row["job"], row["kind"], row["command"]) == ("b", "budget", "logist budget show")
    assert row["reason"].startswith("budget few: 1 of 1 calls used")
    wait = desk("status", "b", "--json").json["data"]["provider_wait"]
    assert (wait["budget"], wait["reason"]) == ("few", "used up")
    again = desk("job", "step", "b", env=ENV)
    assert (again.code, len(server.requests)) == (7, 1)
    assert desk("budget", "set", "few", "--calls", "2").code == 0
    assert desk("run", env=ENV).code == 0
    assert len(server.requests) == 2
    assert desk("inbox").code == 0


def test_a_run_that_watches_keeps_to_a_budget_that_is_changed_meanwhile(desk: Desk, server: Loopback) -> None:
    configure(desk, server, "few: {calls: 1}")
    config = desk.home / "config.yaml"
    config.write_text(f"{config.read_text()}poll_interval_seconds: 1\n")
    for job_id in ("a", "b"):
        desk.create(job_id)
    with desk.started(
        *("run", "--watch", "--parallel", "1"),
        env=ENV,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as running:
        try:
            waiting_for((desk.job("b") / "provider-wait.json").exists)
            assert desk("budget", "set", "few", "--calls", "2").code == 0
            server.wait_for(2)
            waiting_for(lambda: desk.state("b")["status"] == "SUCCESS")
            desk.create("c")
            waiting_for((desk.job("c") / "provider-wait.json").exists)
        finally:
            running.send_signal(signal.SIGINT)
    assert len(server.requests) == 2


def test_budgets_that_need_trust_or_are_wrong_do_not_replace_those_of_before(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "user" / "logist" / "config.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("budget: {limits: {daily: {per: day, cost: 500}}}\n")
    monkeypatch.chdir(desk.place)
    project = project_opening.open_project(
        Environment({"XDG_CONFIG_HOME": str(tmp_path / "user")}), desk.place, say=print
    )

    def read_limit(text: str) -> float | None:
        desk.settings(text)
        return project.budget_settings.budget.limits["daily"].cost

    assert read_limit("budget: {limits: {daily: {cost: 400}}}\n") == 400
    assert read_limit("budget: {limits: {daily: {cost: 60000}}}\n") == 400
    assert read_limit("budget: {limits: {daily: {cost: -1}}}\n") == 400
    assert read_limit("budget: {limits: {daily: {cost: 30}}}\n") == 30


def test_a_run_costs_no_more_than_its_option_whatever_runs_at_the_same_time(desk: Desk) -> None:
    """The answers are as long as the shortest output that may be asked for, so the model keeps to what it is asked."""
    answer = {"text": command(), "usage": {"input": 1000, "output": 2000}}  # 0.45 cents
    with Loopback(*[answer] * 20) as server:
        configure(desk, server)
        for number in range(8):
            desk.create(f"j{number}")
        ran = desk("run", "--max-cost", "2", "--parallel", "4", "--wait", "0", env=ENV)
        assert ran.code == 7
        [spent] = desk("budget", "history", "--by", "run", "--json").json["data"]["rows"]
        assert spent["cost_cents"] * MICROCENTS + spent["cost_microcents"] <= 2 * MICROCENTS
        assert spent["calls"] == len(server.requests) <= 4
        rows = [line.split("\t") for line in ran.out.splitlines() if "\tbudget --max-cost" in line]
        assert rows
        assert all(row[5] == "logist run" for row in rows)  # the next run has its own limit
        assert "waits for" not in ran.err  # the table says it
        assert "all jobs of this run together cost at most $0.02" in ran.err
        assert desk("run", env=ENV).code == 0
        assert len(server.requests) == 8
    by_job = desk("budget", "history", "--by", "job").out.splitlines()
    assert by_job == [f"j{number}\t$0.0045\t3,000\t1" for number in range(8)]
    assert desk("budget", "verify").out == "ledger: OK, 16 entries verified\n"


def test_what_is_shown_of_budgets(desk: Desk, server: Loopback) -> None:
    nothing = desk("budget", "show")
    assert (nothing.code, "no budgets are set (to set one: logist budget set daily" in nothing.err) == (
        0,
        True,
    )
    assert desk("budget", "history").err == "nothing was spent yet\n"
    configure(desk, server, "daily: {per: day, cost: 10}", "runs: {per: run, cost: 5}")
    desk.create("a")
    assert desk("run", env=ENV).code == 0
    out = desk("budget", "show").out
    assert "spent in all: $0.0165, 9,000 tokens, 1 call\n" in out
    assert re.search(
        r"^daily\tproject per day\t\$0.0165 of \$0.10\t\t\d{4}-\d\d-\d\d 00:00$", out, re.MULTILINE
    )
    assert "runs\teach run\tup to $0.05\t\t\n" in out
    assert re.search(r"^\d{4}-\d\d-\d\d\t\$0.0165\t9,000\t1$", desk("budget", "history").out.strip())
    assert desk("budget", "history", "--since", "2999-01-01").err == "nothing was spent yet\n"


def test_a_budget_is_set_changed_and_removed(desk: Desk, server: Loopback) -> None:
    configure(desk, server)
    ran = desk("budget", "set", "daily", "--per", "day", "--cost", "500")
    assert ran.out == f"budget daily: per day, cost $5.00\nfile: {desk.home / 'config.yaml'}\n"
    assert desk("budget", "set", "daily", "--tag", "night", "--json").json["data"]["new"] == {
        "per": "day",
        "cost": 500,
        "tag": "night",
    }
    changed = desk("budget", "set", "daily", "--model", "m", "--per", "all", "--dry-run")
    assert changed.out.startswith("budget daily: cost $5.00, model m\ndry run")
    assert (
        desk("budget", "set", "daily", "--tag", "night").out
        == "budget daily is already: per day, cost $5.00, tag night\n"
    )
    assert desk("config", "unset", "budget.limits.daily").code == 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["d"], "nothing to set (use --cost, --tokens or --calls)"),
        (
            ["d", "--per", "day"],
            "`budget.limits.d` limits nothing; set `cost` (in US cents), `tokens` or `calls`",
        ),
        (["d", "--calls", "1", "--model", "m", "--tag", "t"], "can't be about `model` and `tag` at once"),
        (["d", "--calls", "1", "--model", "m", "--per", "run"], "`per: run` can't be combined with `model`"),
        (["d", "--calls", "1", "--model", "nope"], "--model: unknown model `nope`; known: "),
        (["d", "--calls", "1", "--provider", "opnai"], "--provider: unknown provider `opnai`; known: "),
        (["a b", "--calls", "1"], "budget.limits"),
        (["d", "--cost", "nan"], "is not a finite number"),
    ],
)
def test_a_wrong_budget_is_refused_in_one_line(
    desk: Desk, server: Loopback, args: list[str], message: str
) -> None:
    configure(desk, server)
    before = (desk.home / "config.yaml").read_text()
    ran = desk("budget", "set", *args)
    assert (ran.code, ran.err.count("\n"), message in ran.err) == (2, 1, True), ran.err
    assert (desk.home / "config.yaml").read_text() == before


def test_a_limit_below_what_is_spent_warns(desk: Desk, server: Loopback) -> None:
    configure(desk, server)
    desk.create("a")
    assert desk("run", env=ENV).code == 0
    ran = desk("budget", "set", "all", "--cost", "1")
    assert ran.code == 0
    assert ran.err == (
        "warning: budget all is used up: $0.0165 of $0.01; jobs wait (to see who spent it: logist budget history --by job)\n"
    )


def test_a_provider_in_a_budget_that_nothing_knows_is_a_warning_of_doctor(
    desk: Desk, server: Loopback
) -> None:
    configure(desk, server, "few: {calls: 1, provider: opnai}")
    examined = desk("doctor", env=ENV)
    assert "budgets: budget.limits.few.provider: unknown provider `opnai`; known: " in examined.out
    assert "it limits nothing (did you mean `openai`?)" in examined.out


def test_a_rate_limit_with_an_unknown_name_is_refused_by_all_that_read_it(
    desk: Desk, server: Loopback
) -> None:
    configure(desk, server)
    desk.create("a")
    before = (desk.home / "config.yaml").read_text()
    message = "rate_limits.opnai: unknown provider or model `opnai` (did you mean `openai`? Or write PROVIDER/MODEL)\n"
    changed = desk("config", "set", "rate_limits.opnai.concurrent", "1")
    assert (changed.code, changed.err) == (2, f"error: {message}")
    assert (desk.home / "config.yaml").read_text() == before
    desk.settings(before + "rate_limits: {opnai: {concurrent: 1}}\n")
    ran = desk("run", env=ENV)
    assert (ran.code, ran.err) == (5, f"error: {message}")
    assert f"rate limits: {message}" in desk("doctor", env=ENV).out


def test_a_run_with_an_unknown_model_says_so_once(desk: Desk, server: Loopback) -> None:
    configure(desk, server)
    desk.create("a")
    desk.create("b")
    ran = desk("run", "--model", "nope", env=ENV)
    assert (ran.code, ran.out, ran.err.count("unknown model `nope`")) == (5, "", 1)
    assert not (desk.home / "runs").exists()


def test_an_unknown_model_of_a_budget_names_the_budget(desk: Desk, server: Loopback) -> None:
    configure(desk, server, "few: {calls: 1, model: nope}")
    desk.create("a")
    ran = desk("job", "step", "a", env=ENV)
    assert (ran.code, "budget.limits.few.model: unknown model `nope`" in ran.err) == (5, True)
    examined = desk("doctor", env=ENV)
    assert (examined.code, "budgets: budget.limits.few.model: unknown model `nope`" in examined.out) == (
        5,
        True,
    )


def test_a_damaged_ledger_ends_with_10_and_is_repaired(desk: Desk, server: Loopback) -> None:
    configure(desk, server)
    for job_id in ("a", "b"):
        desk.create(job_id)
    assert desk("job", "step", "a", env=ENV).code == 0
    file = desk.home / "ledger" / "ledger.json"
    file.write_bytes(file.read_bytes().replace(b'"kind":"settle"', b'"kind":"sottle"'))
    for args in (["budget", "verify"], ["budget", "show"], ["job", "step", "b"], ["run"], ["doctor"]):
        ran = desk(*args, env=ENV)
        assert ran.code == 10, args
        assert "the ledger is damaged: entry 2" in ran.out + ran.err
    assert desk("doctor", "--fix", env=ENV).code == 0
    assert desk("budget", "show", "--json").json["data"]["spent"][2]["spent"]["cost_cents"] == 1
    assert desk("run", env=ENV).code == 0
    assert len(server.requests) == 2
    assert json.loads((desk.job("b") / "state.json").read_text())["status"] == "SUCCESS"


def test_killed_runs_and_couriers_exceed_no_budget(desk: Desk) -> None:
    """What was sent is counted by the server itself; a call in doubt stays reserved, and an unsent one is released."""
    with Loopback(*[{**DONE, "delay": 0.2}] * 40) as server:
        configure(desk, server, "few: {calls: 7}")
        ids = [f"j{number}" for number in range(12)]
        for job_id in ids:
            desk.create(job_id)
        for number in range(3):
            running = desk.started(
                *("run", "--parallel", "4"), env=ENV, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            server.wait_for(2 * number + 1)
            running.kill()
            running.wait()
            for holder in (JobDir.open(desk.jobs, job_id).find_lock_holder() for job_id in ids):
                if holder is not None and holder.courier is not None:
                    with suppress(ProcessLookupError):
                        os.kill(holder.courier.pid, signal.SIGKILL)
        assert desk("run", "--wait", "0", env=ENV).code in (3, 7)
        sums = Ledger(desk.home / "ledger").read().sums[Account("project")]
        assert sums.get_total().calls == 7
        assert sums.spent.calls <= len(server.requests) <= 7
        in_doubt = sum(desk.state(job_id)["status"] == "STUCK" for job_id in ids)
        assert sums.reserved.calls == in_doubt
    assert desk("budget", "verify").code == 0
