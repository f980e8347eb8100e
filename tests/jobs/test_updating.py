"""The work of a job onto the current state of its source: merged, in conflict, handed to the agent, undone, killed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from logist.core.model import Actor, Kind, Status
from logist.core.step.plan import StepPlan
from logist.errors import Busy, Refused, UsageError
from logist.jobs.archive import archive_replay, history_import, job_fork
from logist.jobs.base import job_reader
from logist.jobs.steward import job_merge, job_update, steward_decisions
from logist.jobs.steward.review_hash import compute_review_hash
from logist.jobs.turn import next_request
from tests import support
from tests.jobs.bench import Bench, answer, gave
from tests.support import git

PASSES = gave({"verdict": "PASS"})
APP = "def a():\n    return 1\n\n\ndef b():\n    return 2\n"
MINE = APP.replace("return 1", "return 10")
"""What the job makes of it."""
FITTING = APP.replace("return 2", "return 20")
CLASHING = APP.replace("return 1", "return 5")
"""Two states of the source: one that fits the work, and one that conflicts with it."""


def bench(place: Path, *more: Any, settings: dict[str, Any] | None = None, **spec: Any) -> Bench:
    """A job from a repository; its worker changes app.py, and its reviewer is content."""
    source = place / "repo"
    source.mkdir()
    git(source, "init", "--quiet", "--initial-branch", "main")
    commit(source, {"app.py": APP, "README": "read me\n", ".gitignore": "build/\n"}, "first")
    work = answer(files={"app.py": MINE, "new.txt": "new\n", "build/x.o": "junk"})
    made = Bench(place, [work, PASSES, *more, *[answer(), PASSES] * 3], settings)
    made.create(repo=str(source), title="Do it", **spec)
    return made


def commit(source: Path, files: dict[str, str | bytes | None], message: str = "theirs") -> str:
    for name, content in files.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.unlink()
        elif isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content, "utf-8")
    git(source, "add", "--all")
    git(source, "commit", "--quiet", "--allow-empty", "--message", message)
    return git(source, "rev-parse", "HEAD").strip()


def files(desk: Bench, name: str = "j") -> dict[str, str]:
    root = desk.workspace(name)
    found = [path for path in root.rglob("*") if path.is_file() and ".git" not in path.parts]
    return {str(path.relative_to(root)): path.read_text("utf-8", "replace") for path in found}


def is_sound(desk: Bench, name: str = "j") -> bool:
    """Whether everything about the job matches, and its history replays."""
    job = desk.project.open_job(name)
    verified = job_reader.verify_job(desk.project, job)
    replayed = archive_replay.replay_job(desk.project, job)
    edits = verified.edits
    return not verified.problems and not replayed.differences and not (edits and edits.changes)


def update(desk: Bench, name: str = "j", **options: Any) -> job_update.UpdateResult:
    return job_update.update_job(desk.project, name, **options)


def test_what_is_new_in_the_source_joins_the_work(tmp_path: Path) -> None:
    desk = bench(tmp_path)
    desk.run()
    start = desk.state().start_checkpoint
    commit(tmp_path / "repo", {"README": "more\n"})
    new = commit(tmp_path / "repo", {"app.py": FITTING, "lib/x.py": "x = 1\n", ".gitignore": "build/\n*.o\n"})
    before = support.tree(tmp_path / "repo")
    made = update(desk)
    assert (made.update.before, made.update.after, made.update.commits) == (start, new, 2)
    assert [change.path for change in made.update.files] == [".gitignore", "README", "app.py", "lib/x.py"]
    assert files(desk) == {
        "app.py": FITTING.replace("return 1", "return 10"),
        "README": "more\n",
        ".gitignore": "build/\n*.o\n",
        "lib/x.py": "x = 1\n",
        "new.txt": "new\n",
        "build/x.o": "junk",
    }
    assert support.tree(tmp_path / "repo") == before
    entry = desk.history()[-1]
    assert (entry.kind, entry.actor, entry.command["commits"]) == (Kind.UPDATE, Actor.STEWARD, 2)
    assert desk.state().start_checkpoint == new
    workspace_git = desk.project.open_workspace(desk.project.open_job("j"))
    changed, _ = workspace_git.list_changes(new, desk.state().checkpoint)
    assert [change.path for change in changed] == ["app.py", "build/x.o", "new.txt"]
    assert is_sound(desk)

    again = update(desk)
    assert (again.update.is_needed, again.result.entries) == (False, ())
    assert len(desk.history()) == entry.sequence


def test_what_was_reviewed_and_approved_is_judged_again_and_then_merged(tmp_path: Path) -> None:
    desk = bench(tmp_path, PASSES)
    desk.run()
    steward_decisions.record_decision(desk.project, "j", Kind.APPROVE)
    assert desk.state().status is Status.SUCCESS
    new = commit(tmp_path / "repo", {"app.py": FITTING})
    assert update(desk).result.state.status is Status.REVIEW_REQUIRED
    with pytest.raises(Refused, match="can't merge: the job is REVIEW_REQUIRED"):
        job_merge.merge_job(desk.project, "j")
    assert desk.run().state.status is Status.APPROVAL_REQUIRED
    steward_decisions.record_decision(desk.project, "j", Kind.APPROVE)
    merged = job_merge.merge_job(desk.project, "j")
    assert merged.published.how == "fast_forward"
    assert git(tmp_path / "repo", "rev-parse", "HEAD^").strip() == new
    assert (tmp_path / "repo" / "app.py").read_text() == FITTING.replace("return 1", "return 10")
    with pytest.raises(Refused, match="the work is merged already"):
        update(desk)
    assert is_sound(desk)


def test_an_approval_of_the_older_files_is_refused(tmp_path: Path) -> None:
    desk = bench(tmp_path, review=False)
    desk.run()
    state = desk.state()
    seen = str(compute_review_hash(desk.project, desk.project.open_job("j"), state))
    commit(tmp_path / "repo", {"README": "more\n"})
    assert update(desk).result.state.status is Status.APPROVAL_REQUIRED
    with pytest.raises(Refused, match="the work has changed since you saw it"):
        steward_decisions.record_decision(desk.project, "j", Kind.APPROVE, seen=seen)
    with pytest.raises(Refused, match="the job has changed since revision"):
        steward_decisions.record_decision(desk.project, "j", Kind.APPROVE, revision=state.revision)


def test_the_results_of_checks_on_the_older_files_do_not_count(tmp_path: Path) -> None:
    checks = {"tests": {"severity": "error", "command": ["grep", "more", "README"]}}
    desk = bench(tmp_path, settings={"review": {"checks": checks}})
    desk.step()
    assert [result.outcome for result in desk.state().checks or []] == ["failed"]
    commit(tmp_path / "repo", {"README": "more\n"})
    assert update(desk).result.state.checks is None
    desk.step()
    assert desk.state().status is Status.APPROVAL_REQUIRED
    observed = desk.history()[-1].observed
    assert observed is not None
    assert [result.outcome for result in observed.checks] == ["passed"]


def test_a_conflict_leaves_the_job_as_it_was(tmp_path: Path) -> None:
    desk = bench(tmp_path)
    desk.run()
    commit(tmp_path / "repo", {"app.py": CLASHING})
    before = support.tree(desk.project.open_job("j").path)
    with pytest.raises(Refused, match=r"merge conflict with main in: app\.py \(both changed it\).*--resolve"):
        update(desk)
    assert support.tree(desk.project.open_job("j").path) == before
    look = update(desk, dry_run=True)
    assert [str(each) for each in look.update.conflicts] == ["app.py (both changed it)"]
    assert support.tree(desk.project.open_job("j").path) == before


def test_the_agent_resolves_what_conflicts_as_its_next_task(tmp_path: Path) -> None:
    resolved = APP.replace("return 1", "return 15")
    desk = bench(tmp_path, answer(files={"app.py": resolved}), PASSES, limits={"max_allowed_iterations": 4})
    desk.run()
    used = desk.state().usage
    new = commit(tmp_path / "repo", {"app.py": CLASHING})
    made = update(desk, resolve=True, note="Prefer theirs.")
    assert made.result.state.status is Status.PENDING
    assert made.result.state.usage == used
    assert files(desk)["app.py"].startswith(
        "def a():\n<<<<<<< job\n    return 10\n=======\n    return 5\n>>>>>>> source\n"
    )
    assert desk.history()[-1].command["conflicts"] == ["app.py (both changed it)"]
    note = desk.state().note or ""
    assert note.startswith("Prefer theirs.\n\nThe files were updated to commit")
    assert "- app.py (both changed it)\n" in note
    _, plan = next_request.preview_request(desk.project, "j", next_request.Choice())
    assert isinstance(plan, StepPlan)
    assert "- app.py (both changed it)" in plan.request.prompt
    assert desk.run().state.status is Status.APPROVAL_REQUIRED
    steward_decisions.record_decision(desk.project, "j", Kind.APPROVE)
    job_merge.merge_job(desk.project, "j")
    assert git(tmp_path / "repo", "show", "HEAD:app.py") == resolved
    assert git(tmp_path / "repo", "rev-parse", "HEAD^").strip() == new
    assert is_sound(desk)


def clashing(place: Path, mine: dict[str, Any], theirs: dict[str, Any], **spec: Any) -> Bench:
    """A job whose worker has made `mine`, from a repository that has `theirs` now; None is a file that is removed."""
    source = place / "repo"
    source.mkdir()
    git(source, "init", "--quiet", "--initial-branch", "main")
    base: dict[str, str | bytes | None] = {
        "a.txt": "a\n",
        "b.bin": b"b\0\n",
        "c.txt": "c\n",
        "d/e.txt": "e\n",
        "keep": "keep\n",
    }
    commit(source, {**base, "ren.txt": "".join(f"{n}\n" for n in range(20))}, "first")
    (source / "link").symlink_to("a.txt")
    commit(source, {}, "link")
    desk = Bench(place, [answer("STUCK")])
    desk.create(repo=str(source), **spec)
    root = desk.workspace()
    for name, content in mine.items():
        write(root / name, content)
    for name, content in theirs.items():
        write(source / name, content)
    commit(source, {}, "theirs")
    return desk


def write(path: Path, content: Any) -> None:
    if path.is_symlink() or path.exists():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    if content is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, Path):
        path.symlink_to(content)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


KINDS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "both changed": ({"a.txt": "mine\n"}, {"a.txt": "theirs\n"}, "a.txt (both changed it)"),
    "both added": ({"new": "mine\n"}, {"new": "theirs\n"}, "new (both added it)"),
    "a binary file": ({"b.bin": b"x\0"}, {"b.bin": b"y\0"}, "b.bin (both changed this binary file)"),
    "deleted by the source": (
        {"c.txt": "mine\n"},
        {"c.txt": None},
        "c.txt (changed in the job, deleted in the source)",
    ),
    "deleted by the job": (
        {"c.txt": None},
        {"c.txt": "theirs\n"},
        "c.txt (changed in the source, deleted in the job)",
    ),
    "a link": ({"link": Path("mine")}, {"link": Path("theirs")}, "link (both changed this link)"),
    "a file and a directory": ({"x": "mine\n"}, {"x/y": "theirs\n"}, "x~job (file/directory)"),
    "a name with a line break": (
        {"a\nb": "mine\n"},
        {"a\nb": "theirs\n"},
        "a\\nb (both added it)",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_how_files_conflict(tmp_path: Path, kind: str) -> None:
    mine, theirs, told = KINDS[kind]
    desk = clashing(tmp_path, mine, theirs)
    before = support.tree(desk.workspace())
    look = update(desk, dry_run=True)
    assert look.result.warnings  # the edits are in no checkpoint yet
    with pytest.raises(Refused) as refused:
        update(desk)
    assert told in refused.value.message
    assert support.tree(desk.workspace()) == before
    made = update(desk, resolve=True)
    assert [str(each) for each in made.update.conflicts] == [told]
    assert is_sound(desk)


FITS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "the same change": ({"a.txt": "same\n"}, {"a.txt": "same\n"}, {"a.txt": "same\n"}),
    "a file that the source renames": (
        {"ren.txt": "".join(f"{n}\n" for n in [*range(20), "mine"])},
        {"ren.txt": None, "moved/ren.txt": "".join(f"{n}\n" for n in range(20))},
        {"ren.txt": None, "moved/ren.txt": "".join(f"{n}\n" for n in [*range(20), "mine"])},
    ),
    "a directory that becomes a file": (
        {"a.txt": "mine\n"},
        {"d": "file\n"},
        {"d": "file\n", "a.txt": "mine\n"},
    ),
    "a link that becomes a file": ({}, {"link": "file\n"}, {"link": "file\n"}),
    "a file that becomes a link": ({}, {"a.txt": Path("keep")}, {"a.txt": Path("keep")}),
    "a binary file": ({"a.txt": "mine\n"}, {"b.bin": b"\0\1\2"}, {"b.bin": b"\0\1\2"}),
    "an empty directory of the job": ({"empty/.x": None}, {"c.txt": "theirs\n"}, {"c.txt": "theirs\n"}),
}


@pytest.mark.parametrize("kind", FITS)
def test_what_fits(tmp_path: Path, kind: str) -> None:
    mine, theirs, expected = FITS[kind]
    desk = clashing(tmp_path, mine, theirs)
    assert update(desk).update.conflicts == ()
    for name, content in expected.items():
        path = desk.workspace() / name
        if isinstance(content, Path):
            assert path.readlink() == content
        elif content is None:
            assert not os.path.lexists(path)
        else:
            assert path.read_bytes() == (content if isinstance(content, bytes) else content.encode())
    assert is_sound(desk)


def test_the_mode_of_a_file_is_merged_too(tmp_path: Path) -> None:
    desk = clashing(tmp_path, {"a.txt": "mine\n"}, {})
    (tmp_path / "repo" / "a.txt").chmod(0o755)
    commit(tmp_path / "repo", {})
    update(desk)
    path = desk.workspace() / "a.txt"
    assert (path.read_text(), path.stat().st_mode & 0o100) == ("mine\n", 0o100)


def test_what_no_checkpoint_holds_is_not_lost(tmp_path: Path) -> None:
    desk = clashing(tmp_path, {}, {"fifo": "theirs\n", "under/fifo/file": "theirs\n"})
    os.mkfifo(desk.workspace() / "fifo")
    (desk.workspace() / "under").mkdir()
    os.mkfifo(desk.workspace() / "under" / "fifo")
    for resolve in (False, True):
        with pytest.raises(Refused, match=r"fifo \(the workspace has something there.*would be lost"):
            update(desk, resolve=resolve)
    assert (desk.workspace() / "fifo").is_fifo()


def test_no_program_of_anybody_runs(tmp_path: Path) -> None:
    desk = clashing(tmp_path, {"a.txt": "mine\n"}, {"a.txt": "theirs\n"})
    source = tmp_path / "repo"
    trap = f"touch {tmp_path}/sprung; false"
    for key in ("filter.f.clean", "filter.f.smudge", "merge.m.driver", "diff.d.textconv", "core.fsmonitor"):
        git(source, "config", key, trap)
    hook = source / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\n{trap}\n")
    hook.chmod(0o755)
    inner = desk.workspace() / ".git"
    (inner / "hooks").mkdir(exist_ok=True)
    shutil.copy(hook, inner / "hooks" / "post-checkout")
    with open(inner / "config", "a") as config:
        config.write(f'[merge "m"]\n\tdriver = {trap}\n[filter "f"]\n\tclean = {trap}\n\tsmudge = {trap}\n')
    for root in (source, desk.workspace()):
        (root / ".gitattributes").write_text("* merge=m filter=f diff=d\n")
    commit_tree = ["-c", "filter.f.clean=cat", "-c", "core.fsmonitor=false"]
    git(source, *commit_tree, "add", ".gitattributes")
    git(source, *commit_tree, "commit", "--quiet", "--message", "attributes")
    (tmp_path / "sprung").unlink(missing_ok=True)
    update(desk, resolve=True)
    assert "<<<<<<< job" in (desk.workspace() / "a.txt").read_text()
    assert not (tmp_path / "sprung").exists()


def test_submodules_of_the_source_move_with_it(tmp_path: Path) -> None:
    other = support.make_repository(tmp_path / "other")
    source = support.make_repository(tmp_path / "repo")
    git(source, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "sub")
    commit(source, {}, "with a submodule")
    desk = Bench(tmp_path, [answer(files={"mine.txt": "mine\n"})])
    desk.create(repo=str(source), review=False)
    desk.step()
    commit(other, {"more": "more\n"})
    git(source / "sub", "pull", "--quiet")
    commit(source, {"theirs.txt": "theirs\n"}, "a later submodule")
    made = update(desk)
    assert made.update.conflicts == ()
    assert (desk.workspace() / "theirs.txt").exists()
    steward_decisions.record_decision(desk.project, "j", Kind.APPROVE)
    merged = job_merge.merge_job(desk.project, "j").published
    assert [change.path for change in merged.files] == ["mine.txt"]
    assert is_sound(desk)


def test_a_rewritten_history_needs_a_word_of_the_steward(tmp_path: Path) -> None:
    desk = bench(tmp_path)
    desk.run()
    source = tmp_path / "repo"
    commit(source, {"app.py": FITTING}, "second")
    git(source, "checkout", "--quiet", "--orphan", "rewritten")
    new = commit(source, {}, "all in one")
    git(source, "branch", "--quiet", "--delete", "--force", "main")
    git(source, "-c", "gc.reflogExpire=now", "gc", "--quiet", "--prune=now")
    shutil.rmtree(source / ".git" / "logs")
    git(source, "gc", "--quiet", "--prune=now")
    with pytest.raises(Refused, match=r"the history of rewritten was rewritten.*--onto HEAD"):
        update(desk)
    made = update(desk, onto="HEAD")
    assert (made.update.after, made.update.commits, made.update.branch) == (new, None, "HEAD")
    assert files(desk)["app.py"] == FITTING.replace("return 1", "return 10")
    assert is_sound(desk)
    desk.run()
    steward_decisions.record_decision(desk.project, "j", Kind.APPROVE)
    assert job_merge.merge_job(desk.project, "j").published.how == "fast_forward"


def test_another_branch_of_the_source(tmp_path: Path) -> None:
    desk = bench(tmp_path)
    source = tmp_path / "repo"
    git(source, "branch", "later")
    commit(source, {"README": "main\n"})
    git(source, "checkout", "--quiet", "later")
    commit(source, {"later.txt": "later\n"})
    git(source, "checkout", "--quiet", "main")
    made = update(desk, onto="later")
    assert (made.update.branch, made.update.commits) == ("later", 1)
    assert sorted(files(desk)) == [".gitignore", "README", "app.py", "later.txt"]
    for name in ("nothing", "-x", "HEAD:app.py"):
        with pytest.raises(UsageError, match="commit not found"):
            update(desk, onto=name)


def test_a_source_that_was_empty_when_the_job_began(tmp_path: Path) -> None:
    source = tmp_path / "repo"
    source.mkdir()
    git(source, "init", "--quiet", "--initial-branch", "main")
    desk = Bench(tmp_path, [answer(files={"mine.txt": "mine\n"})])
    desk.create(repo=str(source), review=False)
    desk.step()
    with pytest.raises(Refused, match="no commits yet"):
        update(desk)
    commit(source, {"theirs.txt": "theirs\n"})
    update(desk)
    assert files(desk) == {"mine.txt": "mine\n", "theirs.txt": "theirs\n"}
    steward_decisions.record_decision(desk.project, "j", Kind.APPROVE)
    assert [change.path for change in job_merge.merge_job(desk.project, "j").published.files] == ["mine.txt"]


def test_uncommitted_changes_of_the_source_are_left_and_told(tmp_path: Path) -> None:
    desk = bench(tmp_path)
    commit(tmp_path / "repo", {"README": "more\n"})
    (tmp_path / "repo" / "README").write_text("not committed\n")
    made = update(desk)
    assert any("without uncommitted changes: README" in each for each in made.result.warnings)
    assert files(desk)["README"] == "more\n"


def test_who_can_not_be_updated_is_told_what_to_do(tmp_path: Path) -> None:
    desk = bench(tmp_path)
    commit(tmp_path / "repo", {"app.py": CLASHING})
    desk.create("bare")
    with pytest.raises(Refused, match=r"the job was not created from a git repository.*--repo DIR"):
        update(desk, "bare")
    steward_decisions.record_decision(desk.project, "bare", Kind.CANCEL)
    with pytest.raises(Refused, match=r"can't update: the job is CANCELED.*job restep"):
        update(desk, "bare")
    desk.create("draft", draft=True, repo=str(tmp_path / "repo"))
    commit(tmp_path / "repo", {"app.py": FITTING})
    assert update(desk, "draft").result.state.status is Status.DRAFT
    (desk.workspace("draft") / "app.py").write_text(MINE)
    commit(tmp_path / "repo", {"app.py": CLASHING})
    with pytest.raises(Refused, match="can't give the conflicts to an agent: the job is a DRAFT"):
        update(desk, "draft", resolve=True)
    shutil.move(tmp_path / "repo", tmp_path / "elsewhere")
    with pytest.raises(Refused, match="git repository not found"):
        update(desk)
    assert update(desk, repository=tmp_path / "elsewhere").update.is_needed
    with pytest.raises(UsageError, match="not in a git repository"):
        update(desk, "draft", repository=tmp_path)


def test_a_job_at_work_is_left_alone(tmp_path: Path) -> None:
    desk = bench(tmp_path)
    commit(tmp_path / "repo", {"README": "more\n"})
    job = desk.project.open_job("j")
    with job.hold_lock(command="job step", since="2026-01-02T03:04:05Z"), pytest.raises(Busy):
        update(desk)
    assert update(desk, dry_run=True).update.commits == 1


def test_a_role_that_may_not_write_gets_no_conflicts(tmp_path: Path) -> None:
    desk = bench(tmp_path, role="Planner")
    (desk.workspace() / "app.py").write_text(MINE)
    commit(tmp_path / "repo", {"app.py": CLASHING})
    with pytest.raises(Refused, match=r"the role Planner may not change files.*job role"):
        update(desk, resolve=True)


def test_a_suspended_job_resolves_conflicts_when_it_resumes(tmp_path: Path) -> None:
    desk = bench(tmp_path)
    desk.run()
    steward_decisions.record_decision(desk.project, "j", Kind.SUSPEND)
    commit(tmp_path / "repo", {"README": "more\n"})
    assert update(desk).result.state.status is Status.SUSPENDED
    commit(tmp_path / "repo", {"app.py": CLASHING})
    assert update(desk, resolve=True).result.state.status is Status.SUSPENDED
    assert steward_decisions.record_decision(desk.project, "j", Kind.RESUME).state.status is Status.PENDING
    assert "app.py" in (desk.state().note or "")


def test_a_job_that_waits_for_its_children(tmp_path: Path) -> None:
    source = support.make_repository(tmp_path / "repo")
    desk = Bench(tmp_path)
    flow = tmp_path / "flow.mmd"
    flow.write_text(FAN_OUT)
    desk.script(
        {"A": [gave({"items": ["one", "two"]})], "C": [gave(1, files={"c.txt": "c\n"})], "D": [answer()]}
    )
    desk.create(prompt=None, workflow=str(flow), repo=str(source), approval="none")
    desk.step()
    commit(source, {"theirs.txt": "theirs\n"})
    assert update(desk).result.state.status is Status.PENDING  # before its children exist
    desk.step()
    assert desk.state().status is Status.WAITING
    commit(source, {"more.txt": "more\n"})
    with pytest.raises(Refused, match=r"its child jobs work on the older state.*job run --job j"):
        update(desk)
    (child, *_) = desk.children()
    with pytest.raises(Refused, match=r"can't update a child job.*logist job update --job j"):
        update(desk, child)
    assert desk.run().state.status is Status.SUCCESS
    assert "theirs.txt" in files(desk)
    assert update(desk).result.state.status is Status.SUCCESS
    assert {"c.txt", "theirs.txt", "more.txt"} <= {*files(desk)}
    assert is_sound(desk)


FAN_OUT = """\
graph TD
    A[List them] --> C[[Each: Do it]]
    C --> D[Join]
%% === WORKFLOW_CONFIG ===
%% @C: {"stepType": "foreach", "itemsPath": "output.items", "prompt": "Do {{item}}."}
%% @D: {"stepType": "join", "prompt": "Sum up."}
%% === END_CONFIG ===
"""


def test_a_restep_undoes_an_update_and_a_rerun_starts_from_it(tmp_path: Path) -> None:
    desk = bench(tmp_path)
    desk.run()
    before, start = files(desk), desk.state().start_checkpoint
    number = desk.state().revision + 1
    new = commit(tmp_path / "repo", {"app.py": FITTING})
    update(desk)
    assert git(desk.workspace(), "rev-parse", "HEAD").strip() == new
    steward_decisions.restep_job(desk.project, "j", number)
    assert (files(desk), desk.state().start_checkpoint) == (before, start)
    assert desk.state().status is Status.APPROVAL_REQUIRED
    assert git(desk.workspace(), "rev-parse", "HEAD").strip() == start
    assert is_sound(desk)
    update(desk)
    steward_decisions.rerun_job(desk.project, "j")
    assert files(desk) == {"app.py": FITTING, "README": "read me\n", ".gitignore": "build/\n"}
    assert git(desk.workspace(), "rev-parse", "HEAD").strip() == new
    assert git(desk.workspace(), "status", "--short") == ""
    assert is_sound(desk)


def test_a_fork_updates_from_its_own_base(tmp_path: Path) -> None:
    desk = bench(tmp_path)
    desk.run()
    number, start = desk.state().revision, desk.state().start_checkpoint
    new = commit(tmp_path / "repo", {"README": "more\n"})
    update(desk)
    latest = commit(tmp_path / "repo", {"app.py": FITTING})
    for name, at, base in (("early", number, start), ("late", number + 1, new)):
        job_fork.fork_job(desk.project, "j", at, new_id=name)
        assert desk.state(name).start_checkpoint == base
        made = update(desk, name)
        assert (made.update.before, made.update.after) == (base, latest)
        assert files(desk, name)["README"] == "more\n"
        assert is_sound(desk, name)
    assert desk.state().start_checkpoint == new


def test_work_that_was_merged_before_an_update_is_merged_once_more_on_top(tmp_path: Path) -> None:
    again = answer(files={"again.txt": "again\n"})
    desk = bench(tmp_path, again, PASSES, approval="none")
    desk.run()
    job_merge.merge_job(desk.project, "j")
    number = desk.state().revision
    steward_decisions.restep_job(desk.project, "j", 2)
    source = tmp_path / "repo"
    taken_back = commit(source, {"README": "for a while\n"})
    new = commit(source, {"lib.py": "x = 1\n"})
    assert update(desk).update.commits == 3
    git(source, "revert", "--no-edit", taken_back)
    desk.run()
    job_merge.merge_job(desk.project, "j")
    assert git(source, "log", "-1", "--format=%P", "logist/j").strip() == new
    assert git(source, "show", "HEAD:README") == "read me\n"  # what was reverted since stays so
    assert git(source, "show", "HEAD:again.txt") == "again\n"
    assert desk.state().revision > number
    assert is_sound(desk)


def test_a_merge_that_conflicts_by_itself_is_resolved_by_an_update(tmp_path: Path) -> None:
    resolved = answer(files={"app.py": APP.replace("return 1", "return 15")})
    desk = bench(tmp_path, resolved, PASSES, auto_merge=True)
    desk.run()
    commit(tmp_path / "repo", {"app.py": CLASHING})
    result = steward_decisions.record_decision(desk.project, "j", Kind.APPROVE)
    assert result.state.status is Status.STUCK
    assert "main has 1 new commit" in (result.state.reason or "")
    assert result.next_command.startswith("logist job update --job j --resolve")
    update(desk, resolve=True)
    desk.run()
    steward_decisions.record_decision(desk.project, "j", Kind.APPROVE)
    assert desk.state().merge == "merged"
    assert git(tmp_path / "repo", "show", "HEAD:app.py") == APP.replace("return 1", "return 15")


def test_an_imported_history_of_an_update_does_not_have_its_commit(tmp_path: Path) -> None:
    desk = bench(tmp_path)
    desk.run()
    commit(tmp_path / "repo", {"README": "more\n"})
    update(desk)
    copy = tmp_path / "history.json"
    shutil.copy(desk.folder() / "jobHistory.json", copy)
    history_import.import_history(desk.project, copy, new_id="copy")
    job = desk.project.open_job("copy")
    start = desk.state("copy").start_checkpoint
    assert start == desk.history("copy")[0].checkpoint_after
    assert not job_reader.verify_job(desk.project, job).problems
    made = update(desk, "copy", repository=tmp_path / "repo")
    assert (made.update.before, files(desk, "copy")["README"]) == (start, "more\n")
