"""A job in every state that the page shows, each named after what it waits for."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests import support
from tests.cli.desk import Desk, answer, command
from tests.cli.faults import asked

Json = dict[str, Any]

QUESTION = {
    "type": "question",
    "question": "Which database?",
    "options": ["postgres", {"value": "sqlite", "label": "a file"}],
}
PLAN = {
    "goal": "It works.",
    "steps": [{"step_number": 1, "action": "Look at a.py.", "reason": "It is small."}],
    "risks": ["None."],
}
PASSED = {"verdict": "PASS", "issues": [], "suggestions": []}
COMMIT = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-qam")
"""Arguments of git before the message."""
IN_DOUBT = "j2"
"""The only job whose name doesn't say what it is: `faults.asked` calls it so."""


def take_steps(desk: Desk, job_id: str, *answers: Json, options: tuple[str, ...] = ()) -> None:
    """Create a job, and make one step for each answer."""
    desk.script(*answers)
    desk.create(job_id, *options)
    for _ in answers:
        desk("job", "step", job_id)


def follow(desk: Desk, job_id: str, steps: str, *answers: Json) -> None:
    """Create a job that follows a workflow, and make one step for each answer and one more."""
    (desk.place / "inner.yaml").write_text("name: I\nsteps:\n- {id: s, prompt: x}\n", "utf-8")
    (desk.place / f"{job_id}.yaml").write_text(f"name: W\nsteps:\n{steps}", "utf-8")
    desk.script(*answers)
    assert desk("job", "create", "--id", job_id, "--workflow", f"{job_id}.yaml").code == 0
    desk("job", "step", job_id)


def make_draft(desk: Desk) -> None:
    desk.create("draft", "--draft")


def make_pending(desk: Desk) -> None:
    desk.create("pending", "--tag", "later")


def make_waiting(desk: Desk) -> None:
    follow(desk, "parent", "- {id: sub, stepType: subflow, subflowId: inner}\n")


def make_approval(desk: Desk, job_id: str = "approval") -> None:
    files = {"a.txt": "new line\n", "src/b.py": "def f():\n    return 1\n"}
    done = command(summary="Well done.", evidence_files=["a.txt", "lost.txt"])
    take_steps(desk, job_id, answer(done, files=files), answer(command(output=PASSED)))


def make_manual(desk: Desk) -> None:
    steps = "- {id: look, execution: manual, prompt: 'Look at the logs of {{title}}.'}\n- {id: next, prompt: Go on.}\n"
    follow(desk, "manual", steps)


def make_plan(desk: Desk) -> None:
    take_steps(desk, "plan", answer(command(output=PLAN)), answer(), options=("--role", "Planner"))


def make_question(desk: Desk) -> None:
    take_steps(desk, "question", answer(command("STUCK", "I need to know.", output=QUESTION)))


def make_invalid(desk: Desk) -> None:
    take_steps(desk, "invalid", answer("I did it, I think.\nReally."))


def make_attempts(desk: Desk) -> None:
    take_steps(desk, "attempts", answer(command("RETRY", "Not yet.")), options=("--max-attempts", "1"))


def make_review(desk: Desk) -> None:
    stuck = command("STUCK", "I can't judge it.")
    take_steps(desk, "review", answer(files={"a.txt": "a\n"}), answer(stuck))


def make_permission(desk: Desk) -> None:
    take_steps(desk, "permission", answer(files={"a.txt": "a\n"}), options=("--role", "Planner"))


def make_in_doubt(desk: Desk) -> None:
    desk.create(IN_DOUBT)
    asked(sent=True)(desk)
    assert desk("job", "step", IN_DOUBT).code == 3


NO_BRANCH = """\
- {id: ask, prompt: Ask.}
- id: which
  stepType: decision
  branches: [{condition: output.ok == true, targetStepId: send}]
- {id: send, prompt: Send.}
"""


def make_no_branch(desk: Desk) -> None:
    follow(desk, "branch", NO_BRANCH, answer(command(output={"ok": False})))


def make_share(desk: Desk) -> None:
    follow(desk, "share", "- {id: sub, stepType: subflow, subflowId: inner}\n")
    (child,) = desk.state("share")["children"]
    assert desk("job", "fail", child).code == 0
    assert desk("job", "step", "share").code == 3


def make_merge_conflict(desk: Desk) -> None:
    repo = support.make_repository(desk.place / "repo")
    (repo / "a.txt").write_text("old\n", "utf-8")
    support.git(repo, "add", ".")
    support.git(repo, *COMMIT, "old")
    desk.settings("review: {mode: yolo}\n")
    assert desk("trust", "--yes").code == 0
    done = command(evidence_files=["a.txt"])
    desk.script(answer(done, files={"a.txt": "by the agent\n"}), answer(command(output=PASSED)))
    desk.create("conflict", "--repo", "repo")
    (repo / "a.txt").write_text("by a person\n", "utf-8")
    support.git(repo, *COMMIT, "theirs")
    assert desk("job", "run", "conflict").code == 3
    desk.settings("")


def make_halted(desk: Desk) -> None:
    desk.create("halted", "--max-allowed-iterations", "0")
    assert desk("job", "step", "halted").code == 7


def make_halted_cost(desk: Desk) -> None:
    desk.create("cost", "--cost-threshold", "0")
    assert desk("job", "step", "cost").code == 7


def make_provider(desk: Desk) -> None:
    desk.create("provider")
    wait = {"provider": "openai", "revision": 1, "reason": "503", "message": "try later", "waited": 3600.0}
    file = desk.job("provider") / "provider-wait.json"
    file.write_text(json.dumps(wait | {"pause": 3600.0, "gave_up": True}), "utf-8")


def make_suspended(desk: Desk) -> None:
    desk.create("suspended")
    assert desk("job", "suspend", "suspended").code == 0


def make_success(desk: Desk) -> None:
    make_approval(desk, "success")
    assert desk("job", "approve", "success").code == 0


def make_failed(desk: Desk) -> None:
    desk.create("failed")
    assert desk("job", "fail", "failed").code == 0


def make_canceled(desk: Desk) -> None:
    desk.create("canceled")
    assert desk("job", "cancel", "canceled").code == 0


EXAMPLES: dict[str, tuple[Callable[[Desk], None], str, str]] = {
    "draft": (make_draft, "DRAFT", ""),
    "pending": (make_pending, "PENDING", ""),
    "parent": (make_waiting, "WAITING", ""),
    "approval": (make_approval, "APPROVAL_REQUIRED", "approval"),
    "manual": (make_manual, "APPROVAL_REQUIRED", "manual"),
    "plan": (make_plan, "APPROVAL_REQUIRED", "plan"),
    "question": (make_question, "STUCK", "question"),
    "invalid": (make_invalid, "STUCK", "agent"),
    "attempts": (make_attempts, "STUCK", "attempts"),
    "review": (make_review, "STUCK", "agent"),
    "permission": (make_permission, "STUCK", "permission"),
    IN_DOUBT: (make_in_doubt, "STUCK", "in_doubt"),
    "branch": (make_no_branch, "STUCK", "no_branch"),
    "share": (make_share, "STUCK", "share"),
    "conflict": (make_merge_conflict, "STUCK", "merge"),
    "halted": (make_halted, "HALTED_ITERATION", "iterations"),
    "cost": (make_halted_cost, "HALTED_COST", "cost"),
    "provider": (make_provider, "PENDING", "provider"),
    "suspended": (make_suspended, "SUSPENDED", ""),
    "success": (make_success, "SUCCESS", ""),
    "failed": (make_failed, "FAILED", ""),
    "canceled": (make_canceled, "CANCELED", ""),
}
"""How to make each job, its status, and what kind of decision it waits for ("": none)."""


def copy_examples(folder: Path, desk: Desk) -> None:
    """Fill the project with all examples. They are made once, in `folder`, and copied from there."""
    if not folder.exists():
        made = Desk(folder.with_name(f"{folder.name}.new"), support.run_in_process)
        for make, _, _ in EXAMPLES.values():
            make(made)
        made.place.rename(folder)
    shutil.copytree(folder, desk.place, symlinks=True, dirs_exist_ok=True)
