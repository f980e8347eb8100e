"""The work of a job onto the current state of its source: merged, in conflict, handed to the agent, undone, killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from logist.core.model import Actor, Kind, Status
from logist.core.step.plan import StepPlan
from logist.errors import Refused
from logist.jobs.archive import archive_replay
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
