"""What a recorded history says as a test: it passes, it differs, it can't be read, or prompts have drifted."""

from __future__ import annotations

from contextlib import suppress
from shutil import copytree

import pytest

from tests import support
from tests.plugin.conftest import Run, changed, other_end, recorded


def test_one_that_goes_another_way_fails_as_replay_says_it(pytester: pytest.Pytester, run: Run) -> None:
    changed(recorded(pytester.path / "rec"), other_end)
    result = run("--logist-fixtures", "rec")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*logist::main-job*",
            "main-job: * in 8 interactions",
            "*summary_for_supervisor*",
            "*recorded*Another summary.*",
            "*today*",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")


@pytest.mark.parametrize(
    ("choice", "outcomes"),
    [
        ("warn", {"passed": 1, "warnings": 1}),
        ("fail", {"failed": 1}),
        ("accept", {"passed": 1, "warnings": 0}),
    ],
)
def test_a_prompt_that_has_drifted(
    pytester: pytest.Pytester, run: Run, choice: str, outcomes: dict[str, int]
) -> None:
    recorded(pytester.path / "rec")
    result = run("--logist-fixtures", "rec", "--logist-prompts", choice)
    result.assert_outcomes(**outcomes)
    if choice != "accept":
        result.stdout.fnmatch_lines(
            ["*main-job: 8 interactions replay with the same result; * would now be different*"]
        )
    if choice == "fail":
        result.stdout.fnmatch_lines(["*the role file Supervisor*has changed*"])


@pytest.mark.parametrize(("strict", "outcome"), [([], "passed"), (["--logist-strict"], "failed")])
def test_a_rule_that_a_newer_version_changed(
    pytester: pytest.Pytester, run: Run, strict: list[str], outcome: str
) -> None:
    gates = support.ROOT / "fixtures/upgrades/gates-that-a-missing-confidence-opened"
    copytree(gates, pytester.path / "rec" / "gates")
    result = run("--logist-fixtures", "rec", "--logist-prompts", "accept", "-rA", *strict)
    result.assert_outcomes(**{outcome: 1})
    result.stdout.fnmatch_lines(["*a rule has changed in Logist 0.1.0 (closed_gates)*"])


def test_a_warning_that_is_an_error_is_told_as_a_failure(pytester: pytest.Pytester, run: Run) -> None:
    recorded(pytester.path / "rec")
    result = run("--logist-fixtures", "rec", "-Werror::logist.testing.PromptDrift")
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*warn_explicit*")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the *history * damaged"),
        (b"{}", "the history is invalid: missing list `interactions`"),
        (b"[" * 100_000, "the history is invalid: * nested too deeply"),
    ],
    ids=["empty", "another shape", "deep"],
)
def test_one_that_is_damaged_is_an_error(
    pytester: pytest.Pytester, run: Run, content: bytes, said: str
) -> None:
    recorded(pytester.path / "rec", "main-job").write_bytes(content)
    recorded(pytester.path / "rec", "restep-suspend-and-rerun")
    result = run("--logist-fixtures", "rec")
    result.assert_outcomes(errors=1, passed=1)
    result.stdout.fnmatch_lines([f"main-job: can't be read completely: {said}*", "*main-job/jobHistory.json"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_one_whose_manifest_tells_another_fails(pytester: pytest.Pytester, run: Run) -> None:
    path = recorded(pytester.path / "rec")
    path.with_name("fixture.json").write_text("{}")
    result = run("--logist-fixtures", "rec")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["main-job: can't be read completely: the manifest is invalid: *"])


def test_no_socket_is_made_while_it_replays(
    pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    from logist.core.replay import replay

    rule = replay.judge_interaction

    def asks_somebody(*given: object) -> object:
        with suppress(Exception):  # a handler that is too wide hides nothing
            socket.socket()
        return rule(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(replay, "judge_interaction", asks_somebody)
    recorded(pytester.path / "rec")
    result = run("--logist-fixtures", "rec")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*unexpected network access (socket.__new__)*"])
    socket.socket().close()  # which is nobody's business outside


@pytest.mark.deep
def test_with_xdist(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each history is read by one process, and its id is the same in all."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # and so it is loaded by its name
    recorded(pytester.path / "rec")
    recorded(pytester.path / "rec", "restep-suspend-and-rerun")
    result = pytester.runpytest_subprocess("-pxdist", "-plogist", "-n2", "-v", "--logist-fixtures", "rec")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines_random(
        [f"*PASSED rec/{name}/jobHistory.json::replay*" for name in ("main-job", "restep-suspend-and-rerun")]
    )
