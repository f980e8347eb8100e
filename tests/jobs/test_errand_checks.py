"""Checks and setups that workers on other machines run: what is recorded is what one machine records. The machines here
are directories.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from logist.agents import sandbox
from logist.agents.remote import worker as work
from logist.agents.remote.cluster import Worker, WorkerLost
from logist.agents.remote.threads import ThreadCluster
from logist.agents.sandbox import running
from logist.config.environment import Environment
from logist.core.model import Kind, Status
from logist.errors import ProviderError, SetupFailed, Stopped
from logist.jobs.base.worker_pool import WorkerPool
from logist.jobs.setup import remote_commands, worker_commands
from tests.jobs.bench import Bench, Json, answer, command
from tests.jobs.conftest import MakeBench
from tests.jobs.test_checking import PASSES, WAYS, WORK, checked, only, result
from tests.jobs.test_gate import SAYS, gated, made
from tests.jobs.test_paid import KEY, paid
from tests.jobs.test_workspace_setup import INSTALL, Site, outcome, repository
from tests.loopback import Loopback


@pytest.fixture
def cluster(tmp_path: Path) -> ThreadCluster:
    return ThreadCluster(tmp_path / "machines", 2)


@pytest.fixture
def away(bench: MakeBench, cluster: ThreadCluster) -> MakeBench:
    """Makes projects whose commands run on the workers."""

    def make(answers: Any = (), settings: Json | None = None) -> Bench:
        b = bench(answers, settings)
        b.change(workers=WorkerPool(cluster))
        return b

    return make


def wait_for(is_true: Callable[[], object]) -> None:
    while not is_true():
        time.sleep(0.02)


def without_time(found: Json) -> Json:
    return {name: value for name, value in found.items() if name != "seconds"}


def test_what_is_recorded_is_the_same_as_on_one_machine(bench: MakeBench, away: MakeBench) -> None:
    ours = {name: {"severity": "error", **check} for name, (check, _) in WAYS.items()}
    ours["meddles"] = {"severity": "warning", "command": "pwd; ls; echo x > a.txt; echo y > b.txt"}
    ours["comes last"] = {"severity": "warning", "command": "cat a.txt; ls"}
    settings = {"review": {"checks": ours}}
    here, there = checked(bench, settings), checked(away, settings)
    found, expected = (
        [without_time(each.model_dump(mode="json")) for each in b.state().checks or []] for b in (there, here)
    )
    assert found == expected
    assert [line for line in there.said if "check" in line] == [line for line in here.said if "check" in line]
    last = found[-1]
    assert (last["outcome"], last["output"]) == ("passed", "made\na.txt")
    assert (there.workspace() / "a.txt").read_text() == "made\n"
    assert not (there.workspace() / "b.txt").exists()


def test_a_check_runs_in_the_directory_of_the_worker(away: MakeBench, tmp_path: Path) -> None:
    b = checked(
        away,
        {"sandbox": {"mode": "off"}, **only(command=f"echo ran > {tmp_path}/$(basename $(dirname $PWD))")},
    )
    assert result(b)["outcome"] == "passed"
    assert (tmp_path / "j").exists()
    (mirror,) = tmp_path.glob("machines/*/mirrors/*/j/workspace")
    assert mirror.is_dir()


def test_secrets_of_both_machines_are_removed(away: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEIR_TOKEN", "secret-of-the-worker-1234")
    b = away([WORK], only(command="echo secret-of-the-''worker-1234 secret-of-the-''dispatcher-1234"))
    variables = {"HOME": str(b.project.home), "PATH": "/usr/bin:/bin"}
    b.change(environment=Environment({**variables, "OUR_TOKEN": "secret-of-the-dispatcher-1234"}))
    b.create()
    b.step()
    assert result(b)["output"] == "[redacted] [redacted]"


def test_the_setup_is_there_for_the_check_and_stays_there(away: MakeBench, tmp_path: Path) -> None:
    site = Site(away, tmp_path, [WORK, PASSES], check='tool && test "$VIRTUAL_ENV" = $PWD/.venv')
    b = site.create()
    entry = b.step().entries[0]
    assert (outcome(b)["outcome"], outcome(b)["output"]) == ("passed", "the tool of ., with one")
    assert site.ran() == 1
    assert entry.request.metadata["setup"]["source"] == "commands"
    assert entry.observed is not None
    assert [change.path for change in entry.observed.changes] == ["a.txt"]
    assert (b.folder() / "logs" / "000002.setup.log").read_text("utf-8").startswith(f"$ {INSTALL}\n")
    assert not (b.workspace() / ".venv").exists()
    assert not (b.folder() / "setup.json").exists()
    assert b.step().state.status is Status.APPROVAL_REQUIRED
    assert site.ran() == 1


def test_a_second_job_gets_the_copy_that_the_machine_has(bench: MakeBench, tmp_path: Path) -> None:
    site = Site(bench, tmp_path, [WORK], check="tool")
    site.bench.change(workers=WorkerPool(ThreadCluster(tmp_path / "machines", 1)))
    for job_id in ("j", "k"):
        site.create(job_id).step(job_id)
        assert outcome(site.bench, job_id)["outcome"] == "passed"
    assert (site.ran(), site.copied()) == (1, 1)


def test_a_setup_that_fails(bench: MakeBench, away: MakeBench, tmp_path: Path) -> None:
    errors = []
    for make, name in ((bench, "here"), (away, "there")):
        (tmp_path / name).mkdir()
        site = Site(make, tmp_path / name, [WORK], commands=["echo the reason; exit 3"])
        b = site.create()
        before = b.files()
        with pytest.raises(SetupFailed) as caught:
            b.step()
        error = caught.value
        assert Path(error.where or "").read_text("utf-8").startswith("$ echo the reason")
        errors.append((error.message, error.fix, error.output, [line for line in b.said if "j:" not in line]))
        assert [entry.kind for entry in b.history()] == [Kind.CREATE]
        changed = {name for name in b.files() if b.files()[name] != before.get(name)}
        assert "history.jsonl" not in changed
    assert errors[0] == errors[1]


def test_a_setup_that_an_agent_has_broken_fails_the_check(away: MakeBench, tmp_path: Path) -> None:
    breaks = answer(files={"requirements.txt": "broken"})
    install = f'test "$(cat requirements.txt)" = one || {{ echo no such package; exit 1; }}; {INSTALL}'
    site = Site(away, tmp_path, [breaks, WORK], check="tool", commands=[install], rerun="always")
    b = site.create()
    b.step()
    found = outcome(b)
    assert (found["outcome"], found["output"]) == ("not_run", "no such package")
    assert found["reason"].startswith("workspace setup failed: ")


def hanging_once(tmp_path: Path) -> str:
    """A command that ends the first time only when the file `end` is there, and leaves `ended` then."""
    return (
        f"echo ran >> {tmp_path}/ran; test $(wc -l < {tmp_path}/ran) -gt 1 && exit;"
        f" until test -e {tmp_path}/end; do sleep 0.1; done; touch {tmp_path}/ended"
    )


@contextmanager
def stepping(b: Bench, tmp_path: Path) -> Iterator[None]:
    """A step whose check hangs inside the block, and is over afterwards."""
    thread = threading.Thread(target=b.step)
    thread.start()
    wait_for((tmp_path / "ran").exists)
    yield
    thread.join()
    (tmp_path / "end").touch()


def find_busy(cluster: ThreadCluster, tmp_path: Path) -> Worker:
    machines = {path.parents[2].name for path in tmp_path.glob("machines/*/mirrors/*/j")}
    (busy,) = [each for each in cluster.list_workers() if each.name in machines]
    return busy


def test_a_worker_that_is_lost_during_checks(away: MakeBench, cluster: ThreadCluster, tmp_path: Path) -> None:
    b = away([WORK], {"sandbox": {"mode": "off"}, **only(command=hanging_once(tmp_path))})
    b.create()
    with stepping(b, tmp_path):
        cluster.lose_worker(find_busy(cluster, tmp_path))
    assert result(b)["outcome"] == "passed"
    assert (tmp_path / "ran").read_text() == "ran\n" * 2
    assert [entry.kind for entry in b.history()] == [Kind.CREATE, Kind.ASK]
    assert any("looking for another worker" in line for line in b.said)


def test_the_only_worker_is_lost_and_comes_back(bench: MakeBench, tmp_path: Path) -> None:
    b = bench([WORK], {"sandbox": {"mode": "off"}, **only(command=hanging_once(tmp_path))})
    cluster = ThreadCluster(tmp_path / "machines", 1)
    b.change(workers=WorkerPool(cluster))
    b.create()
    with stepping(b, tmp_path):
        cluster.lose_worker(find_busy(cluster, tmp_path))
        wait_for(lambda: any("looking for another worker" in line for line in b.said))
        cluster.add_worker("machine-1")  # the commands that nobody waits for end there first
    assert result(b)["outcome"] == "passed"
    assert not (tmp_path / "ended").exists()


def test_commands_that_nobody_waits_for_end(
    away: MakeBench, cluster: ThreadCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_commands, "ABANDONED_SECONDS", 3.0)
    b = away([WORK], {"sandbox": {"mode": "off"}, **only(command=hanging_once(tmp_path))})
    b.create()
    with pytest.raises(ProviderError):
        lose_scheduler_during(b, cluster, tmp_path)
    wait_for(lambda: not worker_commands._RUNS)
    (tmp_path / "end").touch()
    assert not (tmp_path / "ended").exists()


def lose_scheduler_during(b: Bench, cluster: ThreadCluster, tmp_path: Path) -> None:
    def lose() -> None:
        wait_for((tmp_path / "ran").exists)
        cluster.lose_scheduler()

    losing = threading.Thread(target=lose)
    losing.start()
    try:
        b.step()
    finally:
        losing.join()


def test_ctrl_c_during_checks(away: MakeBench, tmp_path: Path) -> None:
    began, stopping = tmp_path / "began", [0]
    line = f"test -e {began} || {{ touch {began}; sleep 60; }}"
    b = away([WORK], {"sandbox": {"mode": "off"}, **only(command=line)})
    b.create()
    b.change(stopping=lambda: stopping[0])

    def press() -> None:
        wait_for(began.exists)
        stopping[0] = 130

    pressing = threading.Thread(target=press)
    pressing.start()
    with pytest.raises(Stopped, match="stopped while the check ours was running") as caught:
        b.step()
    pressing.join()
    assert caught.value.exit_code == 130
    assert caught.value.fix == "to run it again: logist job step --job j; the agent is not called again"
    assert [entry.kind for entry in b.history()] == [Kind.CREATE]
    stopping[0] = 0
    b.step()
    assert result(b)["outcome"] == "passed"


def test_a_worker_without_the_sandbox_that_is_required(
    away: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sandbox, "detect_sandbox", lambda: sandbox.Means("none", ("bubblewrap: not installed",))
    )
    b = away([WORK], {"sandbox": {"mode": "required"}, **only(command="true")})
    b.create()
    with pytest.raises(ProviderError) as caught:
        b.step()
    assert "has no sandbox, but the config requires one: bubblewrap: not installed" in caught.value.message
    assert [entry.kind for entry in b.history()] == [Kind.CREATE]


def test_a_worker_of_another_version_runs_nothing(away: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    describe = work.describe_machine
    monkeypatch.setattr(work, "describe_machine", lambda spool=None: {**describe(spool), "logist": "0.0.1"})
    b = away([WORK], only(command="true"))
    b.create()
    with pytest.raises(ProviderError, match=r"has Logist 0\.0\.1, and this machine "):
        b.step()


def test_after_the_last_worker_is_lost_nobody_waits_for_another(
    away: MakeBench, cluster: ThreadCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(spool: str | None = None) -> Json:
        raise WorkerLost("it is gone")

    monkeypatch.setattr(work, "describe_machine", lose)
    waits: list[str] = []
    monkeypatch.setattr(remote_commands, "_wait_for_fit", lambda session, pool, kind: waits.append(kind))
    cluster.add_worker()
    b = away([WORK], only(command="true"))
    b.create()
    with pytest.raises(ProviderError, match=r"no worker has run the commands of j: .*it is gone"):
        b.step()
    assert len(waits) == remote_commands.MOST_TRIES - 1


def test_a_check_that_would_run_the_checkout_of_the_user_is_not_run(
    bench: MakeBench, away: MakeBench, tmp_path: Path
) -> None:
    repo = repository(tmp_path / "repo", pyproject__toml="[project]\nname = 'x'\n")
    work = answer(files={"go.mod": "module x\n", "go.work": f"go 1.22\nuse {repo}\n"})
    settings = {"sandbox": {"mode": "off"}, **only(command="true")}
    found = []
    for make in (bench, away):
        b = make([work], settings)
        b.create(repo=str(repo))
        b.step()
        found.append((without_time(result(b)), [line for line in b.said if line.startswith("check ours")]))
    assert found[0] == found[1]
    assert found[1][0]["outcome"] == "not_run"


def test_the_scheduler_is_lost_during_checks(away: MakeBench, cluster: ThreadCluster, tmp_path: Path) -> None:
    b = away([WORK], {"sandbox": {"mode": "off"}, **only(command=hanging_once(tmp_path))})
    b.create()
    with pytest.raises(ProviderError):
        lose_scheduler_during(b, cluster, tmp_path)
    (tmp_path / "end").touch()
    b.change(workers=None)
    assert b.step().entries[-1].kind is Kind.ASK
    assert result(b)["outcome"] == "passed"


def test_a_program_finds_what_the_setup_has_made(
    bench: MakeBench, cluster: ThreadCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_MODEL", KEY)
    body = 'ask(); import subprocess; note("made.txt", subprocess.check_output(["tool"], text=True) + open("build/lib").read())'
    with Loopback(SAYS) as server:
        b = gated(paid(bench(), server.url, review={"enabled": False}), body, command(evidence=["made.txt"]))
        rules = b.project.settings.workspace.setup.model_copy(
            update={"commands": (INSTALL, "mkdir build && echo x > build/lib")}
        )
        workspace = b.project.settings.workspace.model_copy(update={"setup": rules})
        b.change(
            settings=b.project.settings.model_copy(update={"workspace": workspace}),
            workers=WorkerPool(cluster),
        )
        b.create(repo=str(repository(tmp_path / "repo")))
        b.step()
    assert "the tool of" in (b.workspace() / "made.txt").read_text()
    assert sum(line.startswith("setting up the workspace") for line in b.said) == 2  # two commands
    assert not (b.workspace() / ".venv").exists()
    assert not (b.workspace() / "build").exists()
    observed = b.history()[-1].observed
    assert observed is not None
    assert [change.path for change in observed.changes] == ["made.txt"]


@pytest.mark.parametrize("mode", ["required", "auto", "off"])
def test_a_program_on_a_worker_without_a_sandbox(
    bench: MakeBench, cluster: ThreadCluster, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("MY_MODEL", KEY)
    for module in (sandbox, running):
        monkeypatch.setattr(
            module, "detect_sandbox", lambda: sandbox.Means("none", ("bubblewrap: not installed",))
        )
    with Loopback(SAYS) as server:
        b = made(bench, server, "ask()")
        rules = b.project.settings.sandbox.model_copy(update={"mode": mode})
        settings = b.project.settings.model_copy(update={"sandbox": rules})
        b.change(settings=settings, workers=WorkerPool(cluster))
        if mode != "required":
            b.step()
        else:
            with pytest.raises(ProviderError) as caught:
                b.step()
            why = "has no sandbox, but the config requires one: bubblewrap: not installed"
            assert why in caught.value.message
            assert len(b.history()) == 1
        assert len(server.requests) == (mode != "required")
    warning = "warning: no sandbox available on machine-"
    assert any(line.startswith(warning) for line in b.said) is (mode == "auto")
