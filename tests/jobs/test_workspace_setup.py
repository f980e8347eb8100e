"""Setting a workspace up: commands, what they make, when they are run again, and who may change it."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from logist.config.environment import Environment
from logist.core.model import Check, CheckResult, Kind, Place, Status
from logist.errors import InvalidFile, SetupFailed, Stopped
from logist.jobs.archive.job_fork import fork_job
from logist.jobs.base.session import open_session
from logist.jobs.setup import setup_cache, workspace_setup
from logist.jobs.setup.command_host import JobHost
from logist.jobs.steward.job_update import update_job
from logist.jobs.steward.steward_decisions import record_decision, rerun_job, restep_job
from logist.jobs.turn import agent_calls
from tests.jobs.bench import Bench, Json, answer, command
from tests.jobs.conftest import MakeBench
from tests.jobs.test_recovery import left_in_flight, response
from tests.jobs.test_workflow_children import given_away, work

WORK = answer(files={"a.txt": "made\n"})
PASSES = answer(command(output={"verdict": "PASS", "issues": [], "suggestions": []}))
INSTALL = (
    "mkdir -p .venv/bin && touch .venv/pyvenv.cfg && date +%s%N > .venv/made"
    " && printf '#!/bin/sh\\necho the tool of %s, with %s\\n' $PWD \"$(cat requirements.txt)\" > .venv/bin/tool"
    " && chmod +x .venv/bin/tool"
)
"""Stands in for a package manager: an environment with one program, which has its own path in it."""
RUNS = f"setting up the workspace: {INSTALL}"
COPIES = "workspace set up from the cache"


def repository(place: Path, **files: str) -> Path:
    place.mkdir(parents=True)
    for name, text in {"requirements.txt": "one", ".gitignore": "*.log\nbuild/\n", **files}.items():
        (place / name.replace("__", ".")).write_text(text, "utf-8")
    done = "git init -q . && git add -A && git -c user.name=a -c user.email=a@b.c commit -qm first"
    subprocess.run(done, shell=True, cwd=place, check=True)
    return place


class Site:
    """A project with a setup, and the repository its jobs begin with."""

    def __init__(self, bench: MakeBench, place: Path, answers: list[Json], check: Any = None, **setup: Any):
        rules = {"commands": [INSTALL], **setup}
        checks = {"ours": {"severity": "error", "command": check}} if check else {}
        self.bench: Bench = bench(answers, {"workspace": {"setup": rules}, "review": {"checks": checks}})
        self.repo = repository(place / f"repo-{len(list(place.iterdir()))}")

    def create(self, job_id: str = "j", **spec: Any) -> Bench:
        self.bench.create(job_id, repo=str(self.repo), **spec)
        return self.bench

    def set(self, **setup: Any) -> None:
        settings = self.bench.project.settings
        rules = settings.workspace.setup.model_copy(update=setup)
        workspace = settings.workspace.model_copy(update={"setup": rules})
        self.bench.change(settings=settings.model_copy(update={"workspace": workspace}))

    def ran(self) -> int:
        """How often the commands were run."""
        return sum(line.startswith("setting up the workspace") for line in self.bench.said)

    def copied(self) -> int:
        return sum(line.startswith(COPIES) for line in self.bench.said)


def outcome(b: Bench, job_id: str = "j") -> Json:
    (found,) = b.state(job_id).checks or [CheckResult()]
    return found.model_dump(mode="json")


def test_it_is_done_before_the_first_step_and_checks_find_it(bench: MakeBench, tmp_path: Path) -> None:
    site = Site(bench, tmp_path, [WORK, PASSES], check='tool && test "$VIRTUAL_ENV" = $PWD/.venv')
    b = site.create()
    entry = b.step().entries[0]
    assert (outcome(b)["outcome"], outcome(b)["output"]) == ("passed", "the tool of ., with one")
    assert site.ran() == 1
    assert entry.request.metadata["setup"]["source"] == "commands"
    assert entry.observed is not None
    assert [change.path for change in entry.observed.changes] == ["a.txt"]
    (log,) = b.folder().glob("logs/*.setup.log")
    assert log.name == "000002.setup.log"
    assert log.read_text("utf-8").startswith(f"$ {INSTALL}\n")
    assert b.step().state.status is Status.APPROVAL_REQUIRED
    assert site.ran() == 1


def test_agents_find_it(bench: MakeBench, tmp_path: Path) -> None:
    site = Site(bench, tmp_path, [])
    b = site.create()
    with open_session(b.project, "j", "test") as session:
        workspace_setup.prepare_before_ask(JobHost(session), network=True)
        worker = b.project.roles.get("Worker")
        for agent in ("litellm", "codex"):
            code = agent_calls.describe_agent_work(session, agent, worker, []).code
            assert (code.programs, code.virtual_env) == ((".venv/bin",), ".venv")


def test_the_second_job_gets_a_copy_that_knows_its_own_place(bench: MakeBench, tmp_path: Path) -> None:
    site = Site(bench, tmp_path, [WORK], check="tool; readlink .venv/self; cat .venv/self/made")
    site.set(commands=(INSTALL, "ln -s $PWD/.venv .venv/self"))
    site.create().step()
    b = site.create("second")
    entry = b.step("second").entries[0]
    assert (site.ran(), site.copied()) == (2, 1)
    assert outcome(b, "second")["output"] == outcome(b)["output"]
    tool = (b.workspace("second") / ".venv" / "bin" / "tool").read_text("utf-8")
    assert str(b.workspace("second")) in tool
    assert str(b.workspace("j")) not in tool
    assert entry.request.metadata["setup"]["source"] == "cache"


@pytest.mark.deep
def test_other_lock_files_or_commands_are_another_setup(bench: MakeBench, tmp_path: Path) -> None:
    site = Site(bench, tmp_path, [WORK], check="tool")
    site.create().step()
    (site.repo / "requirements.txt").write_text("two", "utf-8")
    subprocess.run(
        "git -c user.name=a -c user.email=a@b.c commit -qam 2", shell=True, cwd=site.repo, check=True
    )
    b = site.create("second")
    b.step("second")
    assert (site.ran(), outcome(b, "second")["output"]) == (2, "the tool of ., with two")
    site.set(commands=(INSTALL, "true"))
    site.create("third")
    b.step("third")
    assert site.ran() == 4


@pytest.mark.deep
def test_a_failure_stops_the_job_before_anybody_is_asked(bench: MakeBench, tmp_path: Path) -> None:
    site = Site(bench, tmp_path, [WORK], check="tool")
    site.set(commands=("mkdir .venv; touch half.txt; echo why it fails >&2; exit 3",))
    b = site.create()
    before = b.state()
    for _ in range(2):
        with pytest.raises(SetupFailed, match=r"failed: mkdir .*: exit status 3") as raised:
            b.step()
        assert raised.value.exit_code == 5
        assert not raised.value.by_agent
    assert b.state() == before
    assert (b.said.count("  why it fails"), site.ran()) == (2, 2)
    assert "why it fails" in (b.folder() / "logs" / "000002.setup.log").read_text("utf-8")
    assert sorted(os.listdir(b.workspace())) == [".git", ".gitignore", "requirements.txt"]
    assert not (b.folder() / "restoring").exists()
    assert not (b.folder() / "inflight").exists()
    assert workspace_setup.preview_setup(b.project, b.project.open_job("j")).status == "failed"
    site.set(commands=(INSTALL,))
    b.step()
    assert outcome(b)["outcome"] == "passed"
    assert workspace_setup.preview_setup(b.project, b.project.open_job("j")).status == "done"


@pytest.mark.parametrize(
    ("commands", "minutes", "why"),
    [
        ((("no-such-program", "a"),), 2, "no-such-program a: not run: no-such-program: program not found"),
        (("sleep 60",), 0.005, "sleep 60: timed out: the setup took longer than 0.3 seconds"),
        (("kill -SEGV $$",), 2, "killed by signal 11"),
    ],
)
def test_why_it_failed(bench: MakeBench, tmp_path: Path, commands: Any, minutes: float, why: str) -> None:
    site = Site(bench, tmp_path, [WORK], timeout_minutes=minutes)
    site.set(commands=commands)
    with pytest.raises(SetupFailed) as raised:
        site.create().step()
    assert why in raised.value.message


@pytest.mark.deep
def test_what_it_changes_beside_goes_back_and_what_git_ignores_stays(
    bench: MakeBench, tmp_path: Path
) -> None:
    site = Site(bench, tmp_path, [WORK, PASSES], check="cat made.log build/x/out.txt; ls")
    extra = "echo log > made.log; mkdir -p build/x; echo out > build/x/out.txt; echo more >> requirements.txt"
    extra += "; echo made > build/requirements.txt"  # what it makes is nothing that it is made from
    site.set(commands=(INSTALL, f"{extra}; mkdir new; echo new > new/file.txt"))
    b = site.create()
    entry = b.step().entries[0]
    assert outcome(b)["output"].split() == ["log", "out", "a.txt", "build", "made.log", "requirements.txt"]
    assert "the setup changed files that git doesn't ignore; restored: new/file.txt, requirements.txt" in (
        " ".join(b.said)
    )
    workspace = b.project.open_workspace(b.project.open_job("j"))
    start = b.state().start_checkpoint
    assert start
    changed = [change.path for change in workspace.list_changes(start, None)[0] if not change.cache]
    assert changed == ["a.txt"]
    assert entry.checkpoint_after
    kept = workspace.git.run("ls-tree", "-r", "--name-only", entry.checkpoint_after).decode().split()
    assert kept == [".gitignore", "a.txt", "requirements.txt"]
    b.step()
    site.create("second")
    b.step("second")
    assert (b.workspace("second") / "build" / "x" / "out.txt").read_text("utf-8") == "out\n"
    assert (site.ran(), site.copied()) == (2, 1)


def test_an_agent_can_not_change_the_program_that_judges_it(bench: MakeBench, tmp_path: Path) -> None:
    planted = answer(files={".venv/bin/tool": "#!/bin/sh\necho planted\n", ".venv/lib/new.py": "x = 1\n"})
    site = Site(bench, tmp_path, [planted, PASSES], check="tool; ls .venv")
    b = site.create()
    b.step()
    assert outcome(b)["output"].splitlines() == ["the tool of ., with one", "bin", "made", "pyvenv.cfg"]
    assert site.ran() == 1
    b.step()
    assert b.state().status is Status.APPROVAL_REQUIRED


def test_a_check_can_not_change_the_program_of_the_next_one(bench: MakeBench, tmp_path: Path) -> None:
    """A check runs what the agent wrote, its tests say, and the linter after it is in the environment too."""
    site = Site(bench, tmp_path, [WORK], check="printf '#!/bin/sh\\necho planted\\n' > .venv/bin/tool; tool")
    settings = site.bench.project.settings
    checks = {**settings.review.checks, "second": Check(command="tool")}
    review = settings.review.model_copy(update={"checks": checks})
    site.bench.change(settings=settings.model_copy(update={"review": review}))
    b = site.create()
    b.step()
    assert {each.check: each.output for each in b.state().checks or []} == {
        "ours": "planted",
        "second": "the tool of ., with one",
    }


def test_the_commands_run_no_program_that_an_agent_has_configured_for_git(
    bench: MakeBench, tmp_path: Path
) -> None:
    """They have network access, and git runs what its config and hooks name."""
    site = Site(bench, tmp_path, [WORK])
    site.set(commands=(INSTALL, "git status > .venv/status"))
    b = site.create()
    program = b.workspace() / ".git" / "planted"
    program.write_text(f"#!/bin/sh\ntouch {b.workspace()}/planted\n", "utf-8")
    program.chmod(0o755)
    with (b.workspace() / ".git" / "config").open("a") as file:
        file.write(f"[core]\n\tfsmonitor = {program}\n")
    b.step()
    assert (b.workspace() / ".venv" / "status").exists()
    assert not any("planted" in line for line in b.said)


@pytest.mark.parametrize(
    "name",
    [
        "packages",
        *(pytest.param(name, marks=pytest.mark.deep) for name in ("", "interpreters", "copies", "locks")),
    ],
)
def test_no_link_that_came_with_a_clone_leads_a_setup_elsewhere(
    bench: MakeBench, tmp_path: Path, name: str
) -> None:
    """The commands write to these, and have network access."""
    site = Site(bench, tmp_path, [WORK])
    site.set(commands=(INSTALL, "touch $XDG_CACHE_HOME/written"))
    b = site.create()
    private = tmp_path / "private"
    private.mkdir()
    folder = b.project.jobs_dir / setup_cache.FOLDER
    if name:
        folder.mkdir()
    (folder / name).symlink_to(private)
    with nullcontext() if name == "copies" else pytest.raises(InvalidFile, match="must be a directory"):
        b.step()
    assert not list(private.iterdir())


def test_variables_that_are_no_secret_decide_what_is_installed(bench: MakeBench, tmp_path: Path) -> None:
    site = Site(bench, tmp_path, [WORK], environment=["NODE_ENV", "NPM_TOKEN"])
    b = site.bench
    for number, values in enumerate(
        [
            {"NODE_ENV": "production", "NPM_TOKEN": "secret-one-1234"},
            {"NODE_ENV": "production", "NPM_TOKEN": "secret-two-1234"},
            {"NODE_ENV": "test", "NPM_TOKEN": "secret-two-1234"},
        ]
    ):
        b.change(environment=Environment({"HOME": str(tmp_path), "PATH": os.environ["PATH"], **values}))
        site.create(f"j{number}", review=False)
        b.step(f"j{number}")
        b.script({}, [WORK])
    assert (site.ran(), site.copied()) == (2, 1)


def test_without_a_lock_file_each_job_runs_the_commands(bench: MakeBench, tmp_path: Path) -> None:
    """Nothing says that the second one needs what the first has made, say a build of its sources."""
    site = Site(bench, tmp_path, [WORK], check="cat build/out")
    site.set(commands=("mkdir build; cat main.c > build/out",))
    committed = "git add -A && git -c user.name=a -c user.email=a@b.c commit -qm more"
    for text in ("one", "two"):
        (site.repo / "main.c").write_text(text, "utf-8")
        subprocess.run(f"git rm -q --ignore-unmatch requirements.txt; {committed}", shell=True, cwd=site.repo, check=True)  # fmt: skip
        b = site.create(text)
        b.step(text)
        assert outcome(b, text)["output"] == text
        b.script({}, [WORK])


def test_it_is_done_again_when_an_update_has_changed_a_lock_file(bench: MakeBench, tmp_path: Path) -> None:
    site = Site(bench, tmp_path, [WORK, PASSES], check="tool")
    b = site.create()
    b.step()
    assert (outcome(b)["output"], site.ran()) == ("the tool of ., with one", 1)
    changed = "printf two > requirements.txt; git -c user.name=a -c user.email=a@b.c commit -qam 2"
    subprocess.run(changed, shell=True, cwd=site.repo, check=True)
    update_job(b.project, "j")
    b.step()
    observed = b.history()[-1].observed
    assert observed is not None
    assert [each.output for each in observed.checks] == ["the tool of ., with two"]
    assert site.ran() == 2


@pytest.mark.deep
def test_it_is_done_again_when_an_agent_has_changed_a_lock_file(bench: MakeBench, tmp_path: Path) -> None:
    site = Site(bench, tmp_path, [answer(files={"requirements.txt": "two"}), PASSES], check="tool")
    b = site.create()
    b.step()
    assert (outcome(b)["output"], site.ran()) == ("the tool of ., with two", 2)
    # What an agent may have had a hand in is for its own job alone.
    subprocess.run("printf two > requirements.txt; git -c user.name=a -c user.email=a@b.c commit -qam 2",
                   shell=True, cwd=site.repo, check=True)  # fmt: skip
    site.create("second")
    b.script({}, [WORK])
    b.step("second")
    assert (outcome(b, "second")["output"], site.ran()) == ("the tool of ., with two", 3)
    b.script({}, [PASSES])
    b.step()
    assert site.ran() == 3


def test_without_network_the_environment_from_before_is_used_and_the_check_says_so(
    bench: MakeBench, tmp_path: Path
) -> None:
    """With network access, what an agent wrote into a project's build could send the workspace anywhere."""
    work = answer(files={"requirements.txt": "two", ".venv/bin/tool": "#!/bin/sh\necho planted\n"})
    site = Site(bench, tmp_path, [work, PASSES, WORK, PASSES], check="tool", rerun="never")
    b = site.create()
    b.step()
    found = outcome(b)
    assert found["outcome"] == "passed"
    assert found["output"] == "the tool of ., with one"
    assert found["reason"] == "the environment is from before requirements.txt changed"
    assert site.ran() == 1
    b.step()
    assert b.state().status is Status.APPROVAL_REQUIRED
    assert (found["reason"] in b.history()[-1].request.prompt, site.ran()) == (True, 1)


@pytest.mark.deep
@pytest.mark.parametrize(("rerun", "network", "runs"), [("auto", False, False), ("auto", True, True), ("always", False, True)])  # fmt: skip
def test_who_makes_it_run_again(
    bench: MakeBench, tmp_path: Path, rerun: str, network: bool, runs: bool
) -> None:
    site = Site(bench, tmp_path, [WORK], rerun=rerun)
    b = site.create(review=False, approval="none")
    b.step()
    (b.workspace() / "requirements.txt").write_text("two", "utf-8")
    with open_session(b.project, "j", "test") as session:
        session.state = session.state.model_copy(update={"place": Place(status=Status.PENDING)})
        prepared = workspace_setup.prepare_before_ask(JobHost(session), network=network)
    assert (site.ran() == 2, bool(prepared.note)) == (runs, not runs)


@pytest.mark.deep
def test_what_was_never_set_up_and_may_not_be_is_told(bench: MakeBench, tmp_path: Path) -> None:
    site = Site(bench, tmp_path, [WORK, PASSES, WORK], check="true", rerun="never")
    site.set(commands=())
    b = site.create()
    b.step()
    site.set(commands=(INSTALL,))
    b.step()
    assert (
        f"warning: {workspace_setup.NOT_RUN} (to run the setup anyway: workspace.setup.rerun: always)"
        in b.said
    )
    rerun_job(b.project, "j")
    b.script({}, [WORK])
    b.step()
    assert (site.ran(), outcome(b).get("reason")) == (1, None)


def test_a_workspace_that_begins_empty_is_set_up_when_there_is_something(
    bench: MakeBench, tmp_path: Path
) -> None:
    begins = answer(files={"requirements.txt": "one", ".gitignore": ""})
    site = Site(bench, tmp_path, [begins, PASSES], check="tool")
    b = site.bench
    b.create(repo=False)
    assert workspace_setup.preview_setup(b.project, b.project.open_job("j")).status == "none"
    b.step()
    assert (outcome(b)["output"], site.ran()) == ("the tool of ., with one", 1)


@pytest.mark.deep
def test_what_an_agent_began_and_can_not_be_set_up_goes_back_to_it(bench: MakeBench, tmp_path: Path) -> None:
    bad, good = (answer(files={"requirements.txt": text}) for text in ("bad", "one"))
    site = Site(bench, tmp_path, [bad, PASSES, good, PASSES], check="tool")
    site.set(commands=("! grep bad requirements.txt", INSTALL))
    b = site.bench
    b.create(repo=False)
    b.step()
    assert outcome(b)["outcome"] == "not_run"
    b.step()
    b.step()
    assert (outcome(b)["outcome"], b.state().place.attempts) == ("passed", 1)


@pytest.mark.deep
def test_a_lock_file_that_an_agent_broke_goes_back_to_it(bench: MakeBench, tmp_path: Path) -> None:
    broken = answer(files={"requirements.txt": "bad"})
    corrected = answer(files={"requirements.txt": "one"})
    site = Site(bench, tmp_path, [broken, PASSES, corrected, PASSES], check="tool")
    site.set(commands=(INSTALL, "! grep bad requirements.txt"))
    b = site.create()
    b.step()
    found = outcome(b)
    assert found["outcome"] == "not_run"
    assert found["reason"] == "workspace setup failed: ! grep bad requirements.txt: exit status 1"
    assert found["output"] == "bad"
    b.step()
    assert (b.state().status, b.state().place.attempts) == (Status.PENDING, 1)
    entry = b.step().entries[0]
    assert found["reason"] in entry.request.prompt
    assert (outcome(b)["outcome"], outcome(b)["output"]) == ("passed", "the tool of ., with one")
    b.step()
    assert b.state().status is Status.APPROVAL_REQUIRED
    assert site.ran() == 3 * 2  # what was not run is tried once more after the review


@pytest.mark.deep
def test_an_answer_waits_while_the_setup_fails(bench: MakeBench, tmp_path: Path) -> None:
    """The network is down, say: the work is not to blame, and is neither lost nor asked for again."""
    site = Site(bench, tmp_path, [], check="tool")
    b = site.create()
    job, _ = left_in_flight(b)
    (b.workspace() / "a.txt").write_text("made", "utf-8")
    job.mark_sent(1)
    job.save_response(1, response(command(evidence=["a.txt"])))
    site.set(commands=("false",))
    for _ in range(2):
        with pytest.raises(SetupFailed):
            b.step()
        assert len(b.history()) == 1
    site.set(commands=(INSTALL,))
    b.step()
    assert (outcome(b)["outcome"], b.state().status) == ("passed", Status.REVIEW_REQUIRED)
    assert len(b.history()) == 2


def test_where_nothing_can_be_put_back_the_check_says_so(bench: MakeBench, tmp_path: Path) -> None:
    changes = answer(files={"a.txt": "", ".venv/new": ""})
    site = Site(bench, tmp_path, [changes, PASSES], check="tool", rerun="never")
    b = site.create()
    with open_session(b.project, "j", "test") as session:
        workspace_setup.prepare_before_ask(JobHost(session), network=True)
    shutil.rmtree(b.project.jobs_dir / setup_cache.FOLDER / "copies")
    b.step()
    assert outcome(b)["reason"] == workspace_setup.CHANGED


@pytest.mark.deep
def test_going_back_keeps_or_makes_it_again(bench: MakeBench, tmp_path: Path) -> None:
    two = answer(files={"requirements.txt": "two"})
    site = Site(bench, tmp_path, [two, PASSES, two, PASSES, WORK, PASSES], check="tool")
    b = site.create()
    b.step()
    b.step()
    restep_job(b.project, "j", 2)
    b.step()
    assert outcome(b)["output"] == "the tool of ., with two"
    assert site.ran() == 2
    rerun_job(b.project, "j")
    shutil.rmtree(b.workspace() / ".venv")
    b.script({}, [WORK])
    b.step()
    assert (outcome(b)["output"], site.ran()) == ("the tool of ., with one", 2)


def test_a_fork_and_children_get_a_copy(bench: MakeBench, tmp_path: Path) -> None:
    site = Site(bench, tmp_path, [WORK, PASSES], check="tool")
    b = site.create()
    b.step()
    made = fork_job(b.project, "j", new_id="forked")
    b.script({}, [PASSES, PASSES, PASSES])
    b.step(made.job.id)
    assert (site.ran(), site.copied()) == (1, 1)
    assert (b.workspace("forked") / ".venv" / "bin" / "tool").exists()


@pytest.mark.deep
def test_children_get_a_copy_of_what_their_parent_has(bench: MakeBench, tmp_path: Path) -> None:
    site = Site(bench, tmp_path, [], check="tool")
    b = site.bench
    children = given_away(b, "one", "two", repo=str(site.repo))
    work(b, *children)
    assert all((b.workspace(child) / ".venv" / "bin" / "tool").exists() for child in children)
    assert (site.ran(), site.copied()) == (1, 2)
    b.run()
    assert b.state().status is Status.SUCCESS
    git, last = b.project.open_workspace(b.project.open_job("j")).git, b.state().checkpoint
    assert last
    assert b".venv" not in git.run("ls-tree", "-r", "--name-only", last)


@pytest.mark.deep
def test_a_stop_ends_it_and_the_next_step_begins_it_again(bench: MakeBench, tmp_path: Path) -> None:
    site = Site(bench, tmp_path, [WORK, PASSES], check="tool")
    site.set(commands=("mkdir -p .venv; touch .venv/half; touch stray.txt; exec sleep 60",))
    b = site.create()
    half = b.workspace() / ".venv" / "half"
    calm = b.project
    b.change(stopping=lambda: 130 if half.exists() else 0)
    with pytest.raises(Stopped, match="during the workspace setup"):
        b.step()
    b.project = replace(calm, settings=b.project.settings)
    site.set(commands=(INSTALL,))
    b.step()
    assert outcome(b)["outcome"] == "passed"
    assert not half.exists()
    assert not (b.workspace() / "stray.txt").exists()


@pytest.mark.deep
def test_a_copy_that_does_not_fit_another_place_is_for_its_own_job(bench: MakeBench, tmp_path: Path) -> None:
    site = Site(bench, tmp_path, [answer(files={".venv/binary": "gone"}), PASSES], check="cat .venv/binary")
    site.set(commands=(INSTALL, "printf '\\0%s' $PWD > .venv/binary"))
    b = site.create()
    b.step()
    assert outcome(b)["output"].endswith(".")
    assert site.ran() == 2
    b.script({}, [WORK])
    site.create("second")
    b.step("second")
    assert site.ran() == 4


@pytest.mark.deep
def test_a_copy_that_came_with_a_clone_is_not_used(bench: MakeBench, tmp_path: Path) -> None:
    site = Site(bench, tmp_path, [WORK], check="tool")
    b = site.create()
    b.step()
    shelf = b.project.jobs_dir / setup_cache.FOLDER / "copies"
    shutil.copytree(shelf, tmp_path / "cloned", symlinks=True)
    shutil.rmtree(shelf)
    shutil.copytree(tmp_path / "cloned", shelf, symlinks=True)
    site.create("second")
    b.step("second")
    assert (site.ran(), site.copied()) == (2, 0)


def test_a_pipe_in_a_copy_holds_nobody_up(bench: MakeBench, tmp_path: Path) -> None:
    site = Site(bench, tmp_path, [WORK], check="tool")
    b = site.create()
    b.step()
    (copy,) = (b.project.jobs_dir / setup_cache.FOLDER / "copies").iterdir()
    (copy / "setup.json").unlink()
    os.mkfifo(copy / "setup.json")
    site.create("second")
    b.step("second")
    assert (site.ran(), site.copied()) == (2, 0)


def test_a_job_that_was_copied_does_not_pass_for_one_that_is_set_up(bench: MakeBench, tmp_path: Path) -> None:
    site = Site(bench, tmp_path, [WORK, PASSES], check="tool")
    b = site.create()
    b.step()
    shutil.move(b.folder(), tmp_path / "away")
    shutil.copytree(tmp_path / "away", b.folder(), symlinks=True)
    assert workspace_setup.preview_setup(b.project, b.project.open_job("j")).status == "cached"


@pytest.mark.deep
def test_copies_that_nobody_used_for_long_go(
    bench: MakeBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup_cache, "MOST_KEPT", 2)
    site = Site(bench, tmp_path, [WORK])
    for number in range(4):
        site.set(commands=(INSTALL, f"echo {number}"))
        site.create(f"j{number}", review=False)
        site.bench.step(f"j{number}")
    folder = site.bench.project.jobs_dir / setup_cache.FOLDER
    assert len(list((folder / "copies").iterdir())) == 2


def test_variables_reach_the_setup_by_name_and_no_other_command(bench: MakeBench, tmp_path: Path) -> None:
    site = Site(bench, tmp_path, [WORK], check='test -z "$MY_INDEX"', environment=["MY_INDEX"])
    site.set(commands=('test "$MY_INDEX" = here && test -z "$OTHER"', INSTALL))
    b = site.create()
    values = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "MY_INDEX": "here", "OTHER": "x"}
    b.change(environment=type(b.project.environment)(values))
    b.step()
    assert outcome(b)["outcome"] == "passed"


def test_a_cancelled_job_is_not_set_up(bench: MakeBench, tmp_path: Path) -> None:
    site = Site(bench, tmp_path, [WORK], check="tool")
    b = site.create()
    record_decision(b.project, "j", Kind.CANCEL)
    assert site.ran() == 0


def test_at_a_limit_nothing_is_set_up(bench: MakeBench, tmp_path: Path) -> None:
    site = Site(bench, tmp_path, [WORK])
    b = site.create(limits={"max_allowed_iterations": 0})
    assert b.step().state.status is Status.HALTED_ITERATION
    assert site.ran() == 0
