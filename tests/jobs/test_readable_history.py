"""`workspace.history` through the life of a job: an agent program that uses it in its sandbox, and everything that must not
notice it.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from logist.agents import sandbox
from logist.core.model import JobSpec, Kind, Status
from logist.core.model.commands import ApproveCommand
from logist.jobs.archive.job_fork import fork_job
from logist.jobs.archive.job_pack import pack_job, unpack_job
from logist.jobs.base.create import create_job, plan_job
from logist.jobs.base.create_batch import create_jobs
from logist.jobs.erasure.job_scrub import ScrubOptions, scrub_job
from logist.jobs.steward import job_merge, job_update
from logist.jobs.steward.steward_decisions import record_decision, rerun_job
from logist.workspace import readable_history
from tests import support
from tests.jobs.bench import Bench, answer
from tests.jobs.conftest import MakeBench
from tests.jobs.test_paid import paid
from tests.jobs.test_programs import program
from tests.jobs.test_workflow_children import given_away, work
from tests.support import git

FULL = {"workspace": {"history": "full"}}


def commit(repository: Path, number: int) -> str:
    (repository / "price.py").write_text(f"RATE = {number}\n# end\n")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", f"rate {number}")
    return git(repository, "rev-parse", "HEAD").strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Ten commits; from the seventh on, the rate is too high."""
    place = tmp_path / "repo"
    place.mkdir()
    git(place, "init", "--quiet", "--initial-branch", "main")
    for number in range(1, 11):
        commit(place, number)
    return place


def subjects(b: Bench, job_id: str = "j") -> list[str]:
    return git(b.workspace(job_id), "log", "--format=%s").splitlines()


ALL = [f"rate {number}" for number in range(10, 0, -1)]

LOOKS = """
import subprocess
def git(*words):
    return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout
pathlib.Path("check.sh").write_text("grep -q 'RATE = [1-6]$' price.py\\n")
seen = {"log": git("log", "--format=%s"), "blame": git("blame", "--line-porcelain", "price.py")}
git("bisect", "start", "HEAD", "HEAD~9")
seen["bisect"] = git("bisect", "run", "sh", "check.sh")
git("bisect", "reset")
seen["again"] = git("status", "--porcelain")
pathlib.Path("check.sh").unlink()
pathlib.Path("price.py").write_text("RATE = 6\\n# end\\n")
pathlib.Path("made.txt").write_text(json.dumps(seen))
"""


@pytest.mark.parametrize("mode", ["required", "off"])
def test_a_program_finds_the_bad_commit_in_its_sandbox(bench: MakeBench, repository: Path, mode: str) -> None:
    if mode == "required" and sandbox.detect_sandbox().kind == "none":
        pytest.skip("no sandbox on this machine")
    b = program(paid(bench(), "http://127.0.0.1:9/v1", **FULL), LOOKS)
    rules = b.project.settings.sandbox.model_copy(update={"mode": mode})
    b.change(settings=b.project.settings.model_copy(update={"sandbox": rules}))
    b.create(repo=str(repository))
    before = support.tree(repository)
    result = b.step()
    assert result.state.status is Status.REVIEW_REQUIRED
    seen = json.loads((b.workspace() / "made.txt").read_text())
    assert seen["log"].splitlines() == ALL
    assert "summary rate 10" in seen["blame"]
    assert "summary rate 1\n" in seen["blame"]
    assert f"{git(repository, 'rev-parse', 'HEAD~3').strip()} is the first bad commit" in seen["bisect"]
    assert seen["again"] == "?? check.sh\n"
    assert support.tree(repository) == before
    observed = b.history()[-1].observed
    assert observed is not None
    assert [change.path for change in observed.changes] == ["made.txt", "price.py"]


MOVES = {
    "an old commit": ["update-ref --no-deref HEAD HEAD~5", "read-tree HEAD"],
    "branches": ["checkout --quiet -b mine", "commit --quiet --allow-empty -m mine", "branch -D main"],
    "nothing left": ["update-ref -d refs/heads/main", "gc --quiet --prune=now"],
    "a bisect": ["bisect start", "bisect bad", "bisect good HEAD~9"],
}


@pytest.mark.parametrize("moves", MOVES)
def test_the_work_is_merged_wherever_the_agent_left_its_own_git(
    bench: MakeBench, repository: Path, moves: str
) -> None:
    done = answer(files={"price.py": "RATE = 6\n# end\n"})
    b = bench([done, answer()], FULL)
    b.create(repo=str(repository))
    for words in MOVES[moves]:
        git(b.workspace(), *words.split())
    b.run()
    state = b.state()
    assert state.status is Status.APPROVAL_REQUIRED
    assert state.start_checkpoint is not None
    workspace = b.project.open_workspace(b.project.open_job("j"))
    changes, more = workspace.list_changes(state.start_checkpoint, None)
    assert ([change.path for change in changes], more) == (["price.py"], 0)
    record_decision(b.project, "j", Kind.APPROVE, command=ApproveCommand())
    before = git(repository, "rev-parse", "HEAD").strip()
    job_merge.merge_job(b.project, "j")
    assert git(repository, "show", "HEAD:price.py") == "RATE = 6\n# end\n"
    assert git(repository, "diff", "--name-only", before, "HEAD").split() == ["price.py"]


@pytest.mark.parametrize("extent", ["none", "shallow", "full"])
def test_what_the_job_was_created_with_counts(bench: MakeBench, repository: Path, extent: str) -> None:
    b = program(paid(bench(), "http://127.0.0.1:9/v1", workspace={"history": extent}), "")
    b.create(repo=str(repository))
    wanted = ALL[:1] if extent == "none" else ALL
    assert subjects(b) == wanted
    other = "full" if extent == "none" else "none"
    rules = b.project.settings.workspace.model_copy(update={"history": other})
    b.change(settings=b.project.settings.model_copy(update={"workspace": rules}))
    shutil.rmtree(b.workspace() / ".git")
    b.step()
    assert subjects(b) == wanted
    rerun_job(b.project, "j")
    shutil.rmtree(b.workspace() / ".git")
    b.step()
    assert subjects(b) == wanted
    assert "no past commits" not in str(fork_job(b.project, "j", new_id="f").notes)
    assert subjects(b, "f") == wanted


def test_an_update_brings_the_new_commits(bench: MakeBench, repository: Path) -> None:
    b = bench([answer(files={"mine.txt": "mine\n"}), answer()], FULL)
    b.create(repo=str(repository))
    b.run()
    commit(repository, 11)
    assert job_update.update_job(b.project, "j").result.warnings == ()
    assert subjects(b) == ["rate 11", *ALL]
    assert git(b.workspace(), "status", "--porcelain") == "?? mine.txt\n"


def test_an_update_from_a_repository_that_has_moved(
    bench: MakeBench, repository: Path, tmp_path: Path
) -> None:
    b = bench([answer(files={"mine.txt": "mine\n"}), answer()], FULL)
    b.create(repo=str(repository))
    b.run()
    repository.rename(tmp_path / "moved")
    commit(tmp_path / "moved", 11)
    updated = job_update.update_job(b.project, "j", repository=tmp_path / "moved")
    assert updated.result.warnings == ()
    assert subjects(b) == ["rate 11", *ALL]
    shutil.rmtree(b.workspace() / ".git")
    b.project.open_workspace(b.project.open_job("j")).disarm_git()
    assert subjects(b) == ["rate 11", *ALL]


def test_an_update_that_can_not_bring_them_says_so(
    bench: MakeBench, repository: Path, tmp_path: Path
) -> None:
    b = bench([answer(files={"mine.txt": "mine\n"}), answer()], FULL)
    b.create(repo=str(repository))
    b.run()
    git(repository, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "--quiet", "--filter=blob:none", f"file://{repository}", "partial")
    commit(tmp_path / "partial", 11)
    updated = job_update.update_job(b.project, "j", repository=tmp_path / "partial")
    (warning,) = updated.result.warnings
    assert warning.startswith("no past commits in the workspace (workspace.history: full): ")
    assert subjects(b) == ["rate 11"]


def test_children_see_the_past_below_the_work_of_their_parent(bench: MakeBench, repository: Path) -> None:
    b = bench(settings=FULL)
    children = given_away(b, "one", "two", repo=str(repository))
    for child in children:
        assert subjects(b, child) == ALL
    work(b, *children)
    b.run()


def test_an_agent_is_called_without_it_and_a_person_is_told(bench: MakeBench, repository: Path) -> None:
    b = program(paid(bench(), "http://127.0.0.1:9/v1", **FULL), "")
    b.create(repo=str(repository))
    repository.rename(repository.with_name("moved"))
    shutil.rmtree(b.workspace() / ".git")
    b.step()
    assert subjects(b) == ["rate 10"]
    assert (
        "warning: no past commits in the workspace (workspace.history: full): git repository not found "
        f"({repository / '.git'})"
    ) in b.said


def test_who_starts_over_without_it_is_told(bench: MakeBench, repository: Path) -> None:
    """The next step finds a valid `.git`, so it has nothing to say."""
    b = bench(settings=FULL)
    b.create(repo=str(repository))
    repository.rename(repository.with_name("moved"))
    shutil.rmtree(b.workspace() / ".git")
    (warning,) = rerun_job(b.project, "j").warnings
    assert warning == (
        "no past commits in the workspace (workspace.history: full): git repository not found "
        f"({repository / '.git'})"
    )
    assert rerun_job(b.project, "j").warnings == ()


def test_a_partial_clone_makes_a_job_with_a_warning(
    bench: MakeBench, repository: Path, tmp_path: Path
) -> None:
    git(repository, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "--quiet", "--filter=blob:none", f"file://{repository}", "partial")
    b = bench(settings=FULL)
    spec = JobSpec.model_validate({"prompt": "Do it.", "repo": str(tmp_path / "partial")})
    made = [create_job(b.project, "a", spec).warnings]
    made.append(create_jobs(b.project, [plan_job(b.project, name, spec) for name in ("b", "c")]).warnings)
    for warnings in made:
        (warning,) = warnings
        assert warning.startswith("no past commits in the workspace (workspace.history: full): ")
    assert [subjects(b, name) for name in ("a", "b", "c")] == [["rate 10"]] * 3


def test_a_pack_has_no_past(bench: MakeBench, repository: Path, tmp_path: Path) -> None:
    b = bench([answer(files={"mine.txt": "mine\n"}), answer()], FULL)
    b.create(repo=str(repository))
    b.step()
    packed = pack_job(b.project, "j", tmp_path / "j.tar.gz")
    with tarfile.open(packed.path) as tar:
        names = tar.getnames()
    assert [name for name in names if "workspace/.git" in name or readable_history.RECORD in name] == []
    other = bench([answer(), answer()])
    unpack_job(other.project, packed.path)
    assert subjects(other) == ["rate 10"]
    assert git(other.workspace(), "status", "--porcelain") == "?? mine.txt\n"


@pytest.fixture
def leaked(bench: MakeBench, repository: Path) -> Bench:
    """A job whose past has a password that was removed before it began; its agent has written another text."""
    (repository / "price.py").write_text("PASSWORD = 'hunter2/hunter2'\n")
    git(repository, "commit", "--quiet", "--all", "--message", "oops")
    commit(repository, 11)
    b = bench([answer(files={"mine.txt": "wordpass/wordpass\n"}), answer()], FULL)
    b.create(repo=str(repository))
    b.step()
    assert "hunter2" in git(b.workspace(), "log", "--patch")
    return b


SCRUBS = {
    "only in the past": ScrubOptions(value="hunter2/hunter2"),
    "only in the job": ScrubOptions(value="wordpass/wordpass"),
    "a pattern that matches nothing in the job": ScrubOptions(pattern="hunter2/[a-z0-9]+"),
}


@pytest.mark.parametrize("kind", SCRUBS)
def test_a_scrubbed_job_has_no_past_any_more(leaked: Bench, kind: str) -> None:
    """The text may be in any old commit, and these are the user's."""
    dry = scrub_job(leaked.project, "j", replace(SCRUBS[kind], dry_run=True))
    assert dry.jobs[0].notes == [
        "the past commits in its workspace would be removed, because they may have the text"
    ]
    assert len(subjects(leaked)) == 12
    done = scrub_job(leaked.project, "j", SCRUBS[kind])
    assert done.jobs[0].notes == [
        "the past commits in its workspace were removed, because they may have the text"
    ]
    assert subjects(leaked) == ["rate 11"]
    assert not readable_history.has_record(leaked.folder() / "git")
    shutil.rmtree(leaked.workspace() / ".git")
    leaked.project.open_workspace(leaked.project.open_job("j")).disarm_git()
    assert subjects(leaked) == ["rate 11"]
    assert scrub_job(leaked.project, "j", SCRUBS[kind]).jobs[0].notes == []
