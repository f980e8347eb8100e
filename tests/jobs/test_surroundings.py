"""What a job is told of its earlier runs and of the jobs beside it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from logist.core.model import (
    Actor,
    EffectiveSpec,
    Interaction,
    JsonObject,
    Kind,
    Observed,
    Phase,
    Place,
    Response,
    Status,
)
from logist.core.model.record import TransportError
from logist.core.step.step import StepPlan
from logist.errors import Damaged
from logist.jobs.base.session import open_session
from logist.jobs.turn import next_request, surroundings
from logist.jobs.turn.next_request import Choice
from tests import support
from tests.jobs.bench import Bench, answer, command
from tests.jobs.conftest import MakeBench


def entry(sequence: int, kind: Kind = Kind.ASK, **fields: Any) -> Interaction:
    return Interaction(
        sequence=sequence,
        timestamp="2026-01-02T03:04:05Z",
        kind=kind,
        actor=Actor.AGENT,
        state_before=Status.PENDING,
        state_after=Status.PENDING,
        workspace_path="/w",
        **{"step": "task", "after": Place(status=Status.PENDING), **fields},
    )


def run(
    sequence: int, action: str = "RETRY", summary: str = "", phase: Phase = Phase.DOER, **fields: Any
) -> Interaction:
    role = "Supervisor" if phase is Phase.REVIEWER else "Worker"
    response = Response(actions=[action], summary_for_supervisor=summary or f"Run {sequence}.")
    return entry(sequence, response=response, observed=Observed(phase=phase, role=role), **fields)


def told(history: list[Interaction], **more: Any) -> list[str]:
    more = {"limit": 3, **more}
    return surroundings.describe_attempts(history, lambda text: text.replace("hunter2", "[redacted]"), **more)


def test_the_last_three_runs_are_told_oldest_first() -> None:
    history = [entry(1, Kind.CREATE), *(run(n) for n in range(2, 7))]
    assert told(history) == [f"Worker (work) ended with RETRY: Run {n}." for n in (4, 5, 6)]
    assert told(history, told=1) == [f"Worker (work) ended with RETRY: Run {n}." for n in (3, 4, 5)]
    assert told([]) == told(history[:2], told=1) == []


@pytest.mark.parametrize(("limit", "shown"), [(0, ()), (1, (5,)), (4, (2, 3, 4, 5)), (9, (2, 3, 4, 5))])
def test_the_config_says_how_many_runs_are_told(limit: int, shown: tuple[int, ...]) -> None:
    history = [entry(1, Kind.CREATE), *(run(n) for n in range(2, 7))]
    assert told(history, limit=limit, told=1) == [f"Worker (work) ended with RETRY: Run {n}." for n in shown]


def test_a_run_without_a_valid_answer_is_told_and_one_without_any_is_not() -> None:
    garbled = entry(
        2, response=Response(raw_response="?"), reason="no exit\n command", observed=Observed(role="Worker")
    )
    cut_off = entry(3, response=Response(error=TransportError(kind="timeout", message="late")))
    text = "Worker (work) returned no valid answer: no exit command"
    assert told([garbled, cut_off, run(4)], told=1) == [text]
    assert told([run(1), garbled], told=1) == [text]


def test_what_a_review_found_is_told_with_it() -> None:
    findings: list[JsonObject] = [
        {"check": "security", "severity": "error", "file": "a.py", "line": 3, "message": "a\npassword"},
        {"severity": "warning", "message": "x" * 500},
        *({"message": f"m{n}"} for n in range(20)),
    ]
    review = run(2, phase=Phase.REVIEWER, step="build", command={"verdict": "FAIL", "findings": findings})
    lines = told([review])[0].splitlines()
    assert lines[:2] == [
        "Supervisor (review at step build) ended with RETRY, FAIL: Run 2.",
        "  - error (security, a.py:3): a password",
    ]
    assert lines[2] == f"  - warning: {'x' * 408}..."
    assert lines[-1] == "  - ... and 12 more"
    assert len(lines) == 12


@pytest.mark.parametrize("findings", [None, "text", [None, 3], {"a": 1}, [{}]])
def test_findings_that_are_none_do_no_harm(findings: Any) -> None:
    (text,) = told([run(2, phase=Phase.REVIEWER, command={"findings": findings, "verdict": 3})])
    assert text.startswith("Supervisor (review) ended with RETRY: Run 2.")


def test_what_a_steward_took_back_is_marked_and_secrets_are_taken_out() -> None:
    history = [run(2), run(3, summary="It was\nhunter2."), entry(4, Kind.RESTEP, command={"to": 3}), run(5)]
    assert told(history) == [
        "Worker (work) ended with RETRY: Run 2.",
        "Worker (work) (undone since) ended with RETRY: It was [redacted].",
        "Worker (work) ended with RETRY: Run 5.",
    ]
    assert "(undone since)" in told([run(2), entry(3, Kind.RERUN)])[0]


def test_the_runs_of_a_real_job(bench: MakeBench) -> None:
    made = bench([answer(command("RETRY", summary=f"Try {n}.")) for n in range(3)])
    made.create()
    for _ in range(2):
        made.step()
    assert tell_runs(made, 3) == [f"Worker (work) ended with RETRY: Try {n}." for n in range(2)]


def tell_runs(made: Bench, limit: int) -> list[str]:
    with open_session(made.project, "j", "test") as session:
        runs = surroundings.read_runs(session.job, session.position, limit)
    return surroundings.describe_attempts(runs, made.project.redact_text, limit=limit)


def test_only_the_end_of_a_history_is_read_for_the_last_runs(bench: MakeBench) -> None:
    made = bench([answer(f"It is hard {n}.\n" + command("RETRY", summary=f"Try {n}.")) for n in range(4)])
    made.create()
    for _ in range(2):
        made.step()
    file = made.folder() / "jobHistory.json"
    file.write_bytes(file.read_bytes().replace(b"Try 0.", b"Try 9.", 1))
    (made.folder() / "damaged-on-purpose").touch()
    assert tell_runs(made, 1) == ["Worker (work) ended with RETRY: Try 1."]
    made.step()
    newest = json.loads(file.read_bytes())["interactions"][-1]
    assert "It is hard 1." in newest["request"]["prompt"], "the text of the last answer"
    with pytest.raises(Damaged):
        tell_runs(made, 4)


def test_of_a_history_in_segments_all_runs_are_told(bench: MakeBench) -> None:
    made = bench(
        [answer(command("RETRY", summary=f"Try {n}.")) for n in range(4)], {"history": {"rotate_at": 1}}
    )
    made.create(limits={"max_attempts": 9})
    for _ in range(4):
        made.step()
    assert len(list(made.folder().glob("jobHistory.*.json.gz"))) > 2
    for limit in (1, 2, 4, 9):
        assert tell_runs(made, limit) == [
            f"Worker (work) ended with RETRY: Try {n}." for n in range(4)[-limit:]
        ]


def others(made: Bench, job_id: str = "mine") -> list[str]:
    return surroundings.describe_other_jobs(made.project, job_id)


def test_jobs_with_work_under_way_are_told(bench: MakeBench) -> None:
    made = bench()
    made.create("retrying", title="A parser", rank=2)
    made.create("stuck", title="A lexer", rank=1)
    made.create("accepting", title="Docs")
    made.create("not-begun", title="Later")
    made.create("draft", draft=True)
    made.create("mine")
    for job_id, actions in (("retrying", ["RETRY"]), ("stuck", ["STUCK"]), ("accepting", ["COMPLETED"] * 2)):
        made.script({}, [answer(command(action)) for action in actions])
        for _ in actions:
            made.step(job_id)
    assert others(made) == [
        "accepting: Docs (APPROVAL_REQUIRED, Worker)",
        "stuck: A lexer (STUCK, Worker)",
        "retrying: A parser (PENDING, Worker)",
    ]
    assert "stuck" not in "".join(others(made, "stuck"))


def test_a_job_is_as_its_history_says_where_its_state_is_behind(bench: MakeBench) -> None:
    made = bench([answer(command("RETRY"))])
    made.create("theirs", title="A parser")
    made.create("mine")
    file = made.folder("theirs") / "state.json"
    made.step("theirs")
    behind = file.read_bytes()
    made.script({}, [answer(), answer(command("STUCK"))])
    made.step("theirs")
    file.write_bytes(behind)  # killed between the history and the state
    assert others(made) == ["theirs: A parser (STUCK, Worker)"]


def plant(made: Bench, job_id: str, **state: Any) -> None:
    """A job as a listing sees it."""
    folder = made.project.jobs_dir / job_id
    folder.mkdir(parents=True)
    (folder / "state.json").write_text(
        json.dumps({"status": "PENDING", "asked": 1, "agent_role": "Worker", **state})
    )


def unplant(made: Bench) -> None:
    """So that nothing is verified that was never a job."""
    for folder in made.project.jobs_dir.iterdir():
        (folder / "damaged-on-purpose").touch()


def test_lines_are_short_few_and_without_secrets(bench: MakeBench) -> None:
    made = bench()
    for n in range(15):
        plant(made, f"job{n:02}", title=f"{n}\n## Task {'x' * 300}")
    plant(made, "aa", title="ghp_" + "A1b2C3d4E5" * 4, rank=-1)
    plant(made, "mine--1-0", title="a part")
    plant(made, "odd", title=3, rank="x", agent_role=None, status="WAITING")
    (made.project.jobs_dir / "broken").mkdir()
    (made.project.jobs_dir / "broken" / "state.json").write_text("{")
    found = others(made, "mine--1-0--2-0")
    unplant(made)
    assert len(found) == 11
    assert found[0] == "aa: [redacted] (PENDING, Worker)"
    assert found[-1] == "... and 6 more"
    assert all("\n" not in line and len(line) < 250 for line in found)


@pytest.mark.parametrize(
    ("job_id", "state", "line"),
    [
        ("a", {"title": "The lexer", "tags": ["Parsing"]}, "a: The lexer (PENDING; tags: Parsing)"),
        ("a", {"title": "Parsers for users"}, "a: Parsers for users (PENDING)"),
        ("a", {"title": "A parser"}, None),
        ("a", {"title": "Something else", "tags": ["docs"]}, None),
        (
            "a",
            {"title": "User parsing", "status": "SUCCESS", "last": {"summary": "Done\nwell."}},
            "a: User parsing (SUCCESS): Done well.",
        ),
        ("a", {"title": "Parse users", "parent": "top"}, None),
        ("mine", {"title": "Parse users"}, None),
        ("a", {"title": None, "tags": "parsing"}, None),
    ],
)
def test_jobs_with_a_tag_or_two_words_in_common_are_related(
    bench: MakeBench, job_id: str, state: dict[str, Any], line: str | None
) -> None:
    made = bench()
    spec = EffectiveSpec(title="Parse the users", tags=("parsing",), parent="top")
    plant(made, job_id, **state)
    found = surroundings.describe_related_jobs(made.project, spec, "mine")
    unplant(made)
    assert found == ([line] if line else [])


def test_the_closest_are_told_first_and_only_a_few(bench: MakeBench) -> None:
    made = bench()
    spec = EffectiveSpec(title="Parse users and orders", tags=("parsing",))
    for n in range(8):
        plant(made, f"job{n}", title="Parse users")
    plant(made, "best", title="Parse users", tags=["parsing"])
    found = surroundings.describe_related_jobs(made.project, spec, "mine")
    unplant(made)
    assert found[0].startswith("best:")
    assert len(found) == 6
    assert found[-1] == "... and 4 more"


def test_of_very_many_jobs_those_that_changed_last_are_looked_at(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surroundings, "LOOKED_AT", 2)
    made = bench()
    for name in ("c", "b", "a"):
        plant(made, name, title=name)
    for age, name in enumerate(("b", "a", "c")):
        os.utime(made.project.jobs_dir / name, ns=(0, 10**18 - age * 10**9))
    found = [one.id for one in surroundings.load_glances(made.project)]
    unplant(made)
    assert found == ["a", "b"]


def test_a_file_that_the_source_tracks_is_told_of_though_git_would_ignore_it(tmp_path: Path) -> None:
    repository = support.make_repository(tmp_path / "repo")
    (repository / ".gitignore").write_text("lib/\n")
    (repository / "lib").mkdir()
    (repository / "lib" / "charge.py").write_text("CHARGED = True\n")
    support.git(repository, "add", "--force", "lib/charge.py", ".gitignore")
    support.git(repository, "commit", "--quiet", "--message", "Charge")
    made = Bench(tmp_path, [answer(command("RETRY"), files={"lib/made.py": "MADE = True\n"})])
    made.create(repo=str(repository), prompt="Mend charge.py and lib/made.py.", role="fix", review=False)
    made.step()
    _, plan = next_request.preview_request(made.project, "j", Choice())
    assert isinstance(plan, StepPlan)
    assert "lib/ (1 file)" in plan.request.prompt
    assert "CHARGED = True" in plan.request.prompt
    assert "MADE = True" not in plan.request.prompt
