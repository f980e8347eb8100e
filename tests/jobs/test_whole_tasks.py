"""Whole tasks on a real program with real tests: its checks misbehave, its reviewer never agrees, a steward goes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from logist.config.settings import Settings
from logist.core.model import Kind, Status, StuckKind
from logist.core.model.commands import ApproveCommand
from logist.errors import Refused, UsageError
from logist.jobs.steward import job_merge, steward_decisions
from tests import shop, support
from tests.jobs.bench import Bench, Json, answer, command
from tests.jobs.conftest import MakeBench

MENDS = answer(files={shop.CART: shop.MENDED, shop.EDGE: shop.EDGE_TEST}, role="fix")


def judged(verdict: str, *issues: Json) -> Json:
    """What the reviewer answers."""
    said = {"verdict": verdict, "issues": list(issues), "suggestions": []}
    return answer(command(output=said), role="Supervisor")


def issue(severity: str, message: str) -> Json:
    return {"check": "code_quality", "severity": severity, "file": shop.CART, "line": 7, "message": message}


def checked(*, minutes: float | None = None, argv: tuple[str, ...] = shop.SUITE, **review: Any) -> Json:
    """A config whose check is the test suite of the program."""
    check = {"severity": "error", "command": list(argv), "timeout_minutes": minutes}
    return {"review": {"checks": {"test_coverage": check}, **review}}


def hired(bench: MakeBench, place: Path, *answers: Json, settings: Json | None = None, **spec: Any) -> Bench:
    """A bug of the program as a job."""
    shop.make(place / "repo")
    b = bench(list(answers), settings or checked())
    b.create(repo=str(place / "repo"), task_type="bug", title="Mend the discount", **spec)
    return b


def breaks(line: str) -> Json:
    """Work after which loading the program does this."""
    return answer(files={shop.CART: shop.cart("amount > 100", line), shop.EDGE: shop.EDGE_TEST}, role="fix")


def merged(b: Bench, repository: Path) -> None:
    """Approves and merges the job, and runs the tests where it went."""
    steward_decisions.record_decision(b.project, "j", Kind.APPROVE)
    assert job_merge.merge_job(b.project, "j").result.state.merge == "merged"
    assert (repository / shop.CART).read_text("utf-8") == shop.MENDED
    assert support.git(repository, "status", "--porcelain") == ""
    assert shop.works(repository)


MISBEHAVES: dict[str, tuple[Json, Json, str]] = {
    "hangs": (
        breaks("time.sleep(600)"),
        checked(minutes=0.02),
        "took too long: stopped after 1.2 seconds",
    ),
    "crashes": (
        breaks("os.kill(os.getpid(), 11)"),
        checked(),
        "failed: killed by signal 11 (SIGSEGV)",
    ),
    "is gone": (
        answer(files={"suite": None}, role="fix"),
        checked(argv=("./suite",)),
        "was not run: ./suite: program not found",
    ),
}


@pytest.mark.deep
@pytest.mark.parametrize("way", MISBEHAVES)
def test_a_check_that_comes_to_no_good_end_outweighs_the_reviewer(
    bench: MakeBench, tmp_path: Path, way: str
) -> None:
    work, settings, told = MISBEHAVES[way]
    b = hired(bench, tmp_path, work, judged("PASS"), MENDS, judged("PASS"), settings=settings)
    before = support.tree(tmp_path / "repo")
    b.step()
    assert b.step().state.status is Status.PENDING
    b.change(settings=Settings.model_validate(checked()))
    prompt = b.step().entries[0].request.prompt
    assert f"- error (test_coverage): the check {told}" in prompt
    assert support.tree(tmp_path / "repo") == before
    assert b.step().state.status is Status.APPROVAL_REQUIRED
    assert b.state().findings is None
    merged(b, tmp_path / "repo")


@pytest.mark.deep
def test_a_suite_that_floods_and_litters_leaves_a_tail_and_no_litter(
    bench: MakeBench, tmp_path: Path
) -> None:
    litter = "[open(name, 'w').close() for name in ('litter', 'shop/litter', 'tests/test_cart.py')]"
    flood = "[os.write(1, b'x' * 1_000_000) for _ in range(100)]"
    work = answer(
        files={
            shop.CART: shop.MENDED,
            shop.EDGE: shop.EDGE_TEST,
            "tests/test_loud.py": f"import os\n{flood}\n{litter}\n",
        },
        role="fix",
    )
    b = hired(bench, tmp_path, work, judged("PASS"))
    b.step()
    (result,) = b.state().checks or []
    assert result.outcome == "passed"
    assert result.output is not None
    assert len(result.output) < 4100
    assert result.output.endswith("OK")
    b.step()
    assert not list(b.workspace().rglob("litter"))
    merged(b, tmp_path / "repo")
    changed = support.git(tmp_path / "repo", "show", "--name-only", "--format=", "HEAD").split()
    assert changed == [shop.CART, shop.EDGE, "tests/test_loud.py"]
    assert b.folder().joinpath("jobHistory.json").stat().st_size < 60_000


def test_a_reviewer_that_never_agrees_hands_it_to_a_person(bench: MakeBench, tmp_path: Path) -> None:
    again = (MENDS, judged("FAIL", issue("error", "I don't like it.")))
    b = hired(bench, tmp_path, *again * 2, settings={"limits": {"max_attempts": 2}})
    result = b.run()
    assert result.state.place.stuck is not None
    assert (result.state.place.stuck.kind, result.exit_code) == (StuckKind.ATTEMPTS, 3)
    with pytest.raises(Refused, match="can't merge: the job is STUCK"):
        job_merge.merge_job(b.project, "j")
    with pytest.raises(UsageError, match="a reason is required"):
        steward_decisions.record_decision(
            b.project, "j", Kind.APPROVE, note=" ", command=ApproveCommand(override=True)
        )
    steward_decisions.record_decision(
        b.project, "j", Kind.APPROVE, note="I do like it.", command=ApproveCommand(override=True)
    )
    entry = b.history()[-1]
    assert entry.steward is not None
    assert (entry.steward.note, entry.state_after) == ("I do like it.", Status.SUCCESS)
    assert job_merge.merge_job(b.project, "j").result.state.merge == "merged"
    assert shop.works(tmp_path / "repo")


GRAVE, SLIGHT = issue("error", "It is wrong."), issue("warning", "It is long.")


@pytest.mark.deep_beyond(1)
@pytest.mark.parametrize(
    ("mode", "rounds", "status", "source"),
    [
        ("strict", 3, Status.APPROVAL_REQUIRED, ["shop"]),
        ("normal", 2, Status.APPROVAL_REQUIRED, ["shop"]),
        ("yolo", 2, Status.SUCCESS, ["Mend the discount", "shop"]),
    ],
)
def test_what_a_mode_sends_back_and_what_it_lets_in(
    bench: MakeBench, tmp_path: Path, mode: str, rounds: int, status: Status, source: list[str]
) -> None:
    rounds_of_answers = [MENDS, judged("PASS", GRAVE), MENDS, judged("PASS", SLIGHT), MENDS, judged("PASS")]
    b = hired(bench, tmp_path, *rounds_of_answers, settings={"review": {"mode": mode}})
    result = b.run()
    assert (result.state.status, result.state.asked) == (status, 2 * rounds)
    assert shop.subjects(tmp_path / "repo") == source
    assert result.state.findings == (None if mode == "strict" else [SLIGHT])
    if mode != "yolo":
        merged(b, tmp_path / "repo")
    assert shop.works(tmp_path / "repo")


def test_nothing_that_judges_later_work_is_merged_unseen(bench: MakeBench, tmp_path: Path) -> None:
    lax = answer(files={shop.CART: shop.MENDED, "sub/.logist/config.yaml": "review: {enabled: false}\n"})
    b = hired(bench, tmp_path, lax, judged("PASS"), settings={"review": {"mode": "yolo"}})
    result = b.run()
    assert (result.state.status, result.state.merge, result.exit_code) == (Status.SUCCESS, "due", 8)
    assert "sub/.logist/config.yaml" in result.warnings[0]
    assert shop.subjects(tmp_path / "repo") == ["shop"]
    assert job_merge.merge_job(b.project, "j").result.state.merge == "merged"
    assert shop.works(tmp_path / "repo")


@pytest.mark.deep
@pytest.mark.parametrize(
    ("to", "status", "cart"),
    [
        (2, Status.PENDING, shop.BROKEN),
        (3, Status.REVIEW_REQUIRED, shop.cart("amount > 99")),
        (4, Status.PENDING, shop.cart("amount > 99")),
    ],
    ids=["before the work", "before the review", "after the review"],
)
def test_going_back_after_a_review_brings_back_workspace_and_state(
    bench: MakeBench, tmp_path: Path, to: int, status: Status, cart: str
) -> None:
    close = answer(files={shop.CART: shop.cart("amount > 99")}, role="fix")
    failed = judged("FAIL", issue("error", "100 has it still."))
    b = hired(bench, tmp_path, close, failed, answer(command("RETRY"), files={shop.CART: "rubbish"}))
    states = [b.state(), *(b.step().state for _ in range(3))]
    state = steward_decisions.restep_job(b.project, "j", to).state
    then = states[to - 2]
    assert state.status is status
    for field in ("attempts", "checks", "findings", "merge", "step", "checkpoint"):
        assert getattr(state, field) == getattr(then, field), field
    assert (b.workspace() / shop.CART).read_text("utf-8") == cart
    b.script({}, [close] * 3 + [failed] * (to == 3) + [MENDS, judged("PASS")])
    prompt = b.step().entries[0].request.prompt
    assert ("## What the review found" in prompt) == (to == 4)
    assert ("Supervisor (review) (undone since) ended with COMPLETED, FAIL" in prompt) == (to == 2)
    if to == 4:
        assert b.run().state.status is Status.APPROVAL_REQUIRED
        merged(b, tmp_path / "repo")
