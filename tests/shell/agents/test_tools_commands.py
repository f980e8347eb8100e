"""execute_command: what the sandbox is asked, and what the model is told."""

from __future__ import annotations

import time
from typing import Any

import pytest

from logist.agents import sandbox
from logist.agents.sandbox import ProgramEnd
from logist.errors import Refused
from tests.shell.agents.tool_bench import SECRET, Bench


def test_a_command_is_run_by_the_shell_in_the_sandbox(tools: Bench) -> None:
    tools.sandbox.stdout = "grüße\n".encode()
    assert tools.done("execute_command", command="make 'a b'") == (
        "[exit status 0; 1.2 s]\n--- stdout, 8 bytes\ngrüße\n"
    )
    argv, given = tools.sandbox.asked[0]
    assert argv == ("/bin/sh", "-c", "make 'a b'")
    assert given["confinement"] is tools.context.confine()
    assert (given["stdin"], given["marker"], given["stop"]) == (b"", "marker", tools.context.stop)
    assert given["stdout"].is_relative_to(tools.context.scratch)
    assert given["stderr"].is_relative_to(tools.context.scratch)
    assert list(tools.context.scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("ended", "head"),
    [
        (ProgramEnd(0, None, "exited", seconds=0.04), "[exit status 0; 0.0 s]\n(no output)"),
        (ProgramEnd(7, None, "exited"), "[exit status 7;"),
        (ProgramEnd(None, 11, "exited"), "[killed by signal 11 (SIGSEGV);"),
        (ProgramEnd(None, 9, "killed"), "[killed by signal 9 (SIGKILL);"),
        (ProgramEnd(None, 99, "killed"), "[killed by signal 99;"),
        (ProgramEnd(None, 15, "timeout"), "[timed out after 600 seconds;"),
        (ProgramEnd(None, 15, "stopped"), "[stopped by a person;"),
        (ProgramEnd(None, 15, "idle"), "[timed out: no output for too long;"),
        (ProgramEnd(None, 9, "limit", "too much output"), "[stopped: too much output;"),
        (ProgramEnd(None, 9, "limit"), "[stopped: it exceeded a limit;"),
    ],
)
def test_the_model_is_told_how_it_ended(tools: Bench, ended: ProgramEnd, head: str) -> None:
    tools.sandbox.ended = ended
    long = tools.with_(deadline=time.monotonic() + 3000)
    assert long.done("execute_command", command="x").startswith(head)


@pytest.mark.parametrize(
    ("asked", "configured", "left", "given"),
    [(None, 100, 900, 100), (5, 100, 900, 5), (500, 100, 900, 100), (10**19, 100, 50, 50), (None, 100, 7, 7)],
)
def test_a_command_has_no_more_time_than_there_is(
    tools: Bench, asked: int | None, configured: float, left: float, given: float
) -> None:
    short = tools.ruled(command_seconds=configured).with_(deadline=time.monotonic() + left)
    short.done("execute_command", command="x", timeout_seconds=asked)
    assert given - 5 < tools.sandbox.asked[0][1]["deadline_seconds"] <= given


@pytest.mark.parametrize("limit", [1000, 5000, 30_000])
@pytest.mark.parametrize(
    ("out", "err"), [(100_000, 0), (0, 100_000), (100_000, 100_000), (100, 100_000), (100_000, 300)]
)
def test_long_output_keeps_its_beginning_and_its_end(tools: Bench, limit: int, out: int, err: int) -> None:
    tools.sandbox.stdout = b"<out" + b"o" * out + b"out>" if out else b""
    tools.sandbox.stderr = b"<err" + b"e" * err + b"err>" if err else b""
    content = tools.ruled(max_result_chars=limit).done("execute_command", command="x")
    assert len(content) <= limit
    assert len(content) > limit // 3
    for name, size in (("out", out), ("err", err)):
        assert (f"<{name}" in content and f"{name}>" in content) is bool(size)
    assert " bytes cut ...]" in content
    if out and out <= 100:
        assert "o" * out in content


def test_no_half_of_a_secret_or_character_shows_at_the_cut(tools: Bench) -> None:
    short = tools.ruled(max_result_chars=1000)
    for shift in range(60):
        tools.sandbox.stdout = (
            b"x" * (130 + shift)
            + SECRET.encode()
            + "ü🦊".encode() * 2000
            + SECRET.encode()
            + b"y" * (130 + shift)
        )
        content = short.done("execute_command", command="x")
        assert not any(
            piece in content for piece in ("hunter2", "unter2-", SECRET[:3] + "\n", "\n" + SECRET[-3:])
        ), shift
        head, _, tail = content.partition("bytes cut ...]\n")
        assert not tail.startswith("\\udc")
        assert len(head) > 150
        assert "\\udc" not in content


def test_output_that_is_no_text_is_shown_escaped(tools: Bench) -> None:
    tools.sandbox.stdout = b"\xff\xfe ok \x1b[31m"
    assert tools.done("execute_command", command="x").endswith("\\udcff\\udcfe ok \x1b[31m")


def test_a_command_that_cannot_be_started_is_an_error_for_the_model(tools: Bench) -> None:
    def refusing(*_: Any, **__: Any) -> ProgramEnd:
        raise Refused("no sandbox works here")

    def failing(*_: Any, **__: Any) -> ProgramEnd:
        raise OSError(12, "Cannot allocate memory")

    assert "can't run the command: no sandbox works here" in tools.with_(run=refusing).fails(
        "execute_command", command="x"
    )
    assert "can't run the command: Cannot allocate memory" in tools.with_(run=failing).fails(
        "execute_command", command="x"
    )
    assert "write it to a script file and run that" in tools.fails("execute_command", command="x" * 100_001)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            "printf 'grüße\\n'; printf 'oh\\n' >&2; exit 3",
            ["[exit status 3;", "--- stdout, 8 bytes\ngrüße\n", "--- stderr, 3 bytes\noh\n"],
        ),
        ("echo made > file; cat file", ["[exit status 0;", "\nmade\n"]),
        ("kill -9 $$", ["[killed by signal 9 (SIGKILL);"]),
        ("cat", ["[exit status 0;", "(no output)"]),
        ("no-such-program", ["[exit status 127;", "not found"]),
        ("yes | head -c 300000; echo end", ["[exit status 0;", "bytes cut ...]", "\nend\n"]),
    ],
)
def test_a_real_command_in_the_real_sandbox(tools: Bench, command: str, words: list[str]) -> None:
    content = real(tools).done("execute_command", command=command)
    assert all(word in content for word in words), content


def test_a_real_command_that_goes_on_is_ended(tools: Bench) -> None:
    started = time.monotonic()
    content = real(tools).done("execute_command", command="sleep 300 & sleep 300", timeout_seconds=1)
    assert content.startswith("[timed out after 1 seconds;")
    assert time.monotonic() - started < 60


def real(tools: Bench) -> Bench:
    home = tools.root.parent / "home"
    home.mkdir()
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}
    confinement = sandbox.Confinement(tools.root, writable=True, home=home, environment=environment)
    return tools.with_(run=sandbox.run_program, confine=lambda: confinement)
