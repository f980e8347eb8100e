"""What the output of agent programs means: real captures, one table."""

from __future__ import annotations

import dataclasses
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logist.agents.programs.described import Described
from logist.agents.programs.finding import PRESETS
from logist.agents.programs.protocol import Finished, How, Program, Result, Spent
from logist.config.programs import ProgramEntry
from logist.core.model import ErrorKind

CAPTURES = Path(__file__).parent / "captures"
COMMAND = '{"action": "COMPLETED", "evidence_files": ["hello.txt"], "summary_for_supervisor": "Wrote it."}'

KINDS = {
    "refused": ErrorKind.REFUSED,
    "auth": ErrorKind.AUTH,
    "context": ErrorKind.BAD_REQUEST,
    "rate": ErrorKind.TRANSIENT,
    "server": ErrorKind.TRANSIENT,
    "empty": ErrorKind.TRANSIENT,
    "cut": ErrorKind.TRANSIENT,
    "hang": ErrorKind.TIMEOUT,
    "stub": ErrorKind.BAD_REQUEST,
    "budget": ErrorKind.BAD_REQUEST,
    "usage": ErrorKind.BAD_REQUEST,
    "turns": ErrorKind.BAD_REQUEST,
}
SOME = {"stub", "budget", "turns"}
"""Cases that not every program has."""
ANSWERS = ("ok", "denied", "outside")
EVERY = sorted(f"{path.parent.name}/{path.stem}" for path in CAPTURES.glob("*/*.json"))

# Two calls of the model, each with 1,500 tokens of input, 500 of them cached, and 50 of output.
TWO_CALLS = Spent(uncached=2000, cached=1000, output=100)
SPENT = {
    "codex": dataclasses.replace(TWO_CALLS, scope="session"),
    "claude": TWO_CALLS,
    "opencode": TWO_CALLS,
    "goose": dataclasses.replace(TWO_CALLS, scope="session"),
    "gemini": TWO_CALLS,
    "cline": TWO_CALLS,
    "mini": TWO_CALLS,
    "llm": Spent(uncached=1000, cached=500, output=50),
    "aider": Spent(uncached=1500, cached=0, output=50),  # it does not tell what was cached
}
# In microcents, by the prices each was given; claude makes its own up for a model it does not know.
REPORTED = {"claude": 1_300_000, "opencode": 520_000, "mini": 520_000, "aider": 350_000}
SESSIONS = {"codex", "claude", "opencode", "gemini", "llm"}

DESCRIBED = [
    Described("text", ProgramEntry(argv=("x",), metered=False)),
    Described(
        "json", ProgramEntry(argv=("x",), output="json", text="a.0.b", error="e", cost="c", metered=False)
    ),
    Described("jsonl", ProgramEntry(argv=("x",), output="jsonl", text="a", where={"t": "r"}, metered=False)),
]
READERS: list[Program] = [*PRESETS.values(), *DESCRIBED]


def capture(name: str) -> Finished:
    told = json.loads((CAPTURES / f"{name}.json").read_text("utf-8"))
    return Finished(
        told["status"], told["how"], told["stdout"], told["stderr"], told["files"], signal=told["signal"]
    )


def read(name: str) -> Result:
    return PRESETS[name.split("/")[0]].read(capture(name))


def test_every_program_has_the_captures_that_count() -> None:
    for name in PRESETS:
        assert {"ok", *KINDS} - SOME <= {path.stem for path in (CAPTURES / name).glob("*.json")}, name


@pytest.mark.parametrize(
    ("program", "output", "message"),
    [
        (DESCRIBED[1], "hello\n", "its output is not JSON: hello"),
        (DESCRIBED[1], '{"text": "hello"}', "its output has no text at `a.0.b` (agents.json.text)"),
        (DESCRIBED[2], '{"t": "other"}', 'its output is not a line of JSON that fits: {"t": "other"}'),
        (DESCRIBED[2], "", "it ended without an answer"),
    ],
)
def test_an_output_of_another_form_is_named(program: Program, output: str, message: str) -> None:
    error = program.read(Finished(0, "exited", output, "", {})).error
    assert error is not None
    assert (error.kind, error.message) == (ErrorKind.TRANSIENT, message)


@pytest.mark.parametrize("name", [name for name in EVERY if name.split("/")[1] in ANSWERS])
def test_an_answer(name: str) -> None:
    result = read(name)
    assert result.error is None
    assert result.finish == "stop"
    assert result.text.endswith(COMMAND)


@pytest.mark.parametrize("name", [name for name in EVERY if name.split("/")[1] in KINDS])
def test_a_failure(name: str) -> None:
    result = read(name)
    assert result.error is not None
    assert result.error.kind == KINDS[name.split("/")[1]], result.error
    assert 0 < len(result.error.message) <= 500
    assert (result.text, result.finish) == ("", None)


@pytest.mark.parametrize("name", [name for name in EVERY if name.endswith("/truncated")])
def test_an_answer_cut_at_the_limit_of_output(name: str) -> None:
    result = read(name)
    assert result.error is None
    # The gemini program prints no sign of it: then the missing exit command has to tell.
    assert result.finish == ("stop" if name.startswith("gemini") else "length")
    assert "exceeded" not in result.text, "words of the program, not of the model"


@pytest.mark.parametrize("name", sorted(SPENT))
def test_tokens_are_told_in_one_way(name: str) -> None:
    result = read(f"{name}/ok")
    assert result.spent == SPENT[name]
    assert result.reported_microcents == REPORTED.get(name)
    assert bool(result.session) == (name in SESSIONS)


@pytest.mark.parametrize(
    ("name", "denials"),
    [
        ("claude/outside", ("Write /run/outside.txt",)),
        ("opencode/outside", ("write /run/outside.txt",)),
        ("codex/denied", ()),
    ],
)
def test_what_the_program_refused_its_model(name: str, denials: tuple[str, ...]) -> None:
    assert read(name).denials == denials


@pytest.mark.parametrize("name", ["claude/stub", "opencode/stub"])
def test_a_package_without_its_program_says_how_to_install_it(name: str) -> None:
    error = read(name).error
    assert error is not None
    assert "npm install" in error.message


def test_what_was_used_up_to_the_limit_of_turns_is_told() -> None:
    result = read("goose/turns")
    assert result.error is not None
    assert result.error.message == "it reached its limit of 100 turns"
    assert result.spent == Spent(uncached=1000, cached=500, output=50, scope="session")


USAGE_ERRORS = {
    "argparse": "usage: x [-h] [--n N]\nx: error: unrecognized arguments: --bogus",
    "argparse, a value": "usage: x [-h] [--n N]\nx: error: argument --n: invalid int value: 'many'",
    "argparse, a choice": "x: error: argument --e: invalid choice: 'b' (choose from 'a')",
    "argparse, nothing": "x: error: the following arguments are required: prompt",
    "click": "Usage: x [OPTIONS]\nTry 'x --help' for help.\n\nError: No such option: --bogus",
    "click, a value": "Error: Invalid value for '--n': 'many' is not a valid integer.",
    "click, no value": "Error: Option '-m' requires an argument.",
    "click, nothing": "Error: Missing argument 'PROMPT'.",
    "click, a command": "Error: No such command 'bogus'.",
    "typer": "Usage: x [OPTIONS]\n╭─ Error ──────────╮\n│ No such option: --bogus   │\n╰──────────╯",
    "typer, more": "╭─ Error ──────────╮\n│ Got unexpected extra argument(s) (extra)  │\n╰──────────╯",
    "clap": "error: unexpected argument '--bogus' found\n\nUsage: x [OPTIONS]\n\nFor more information, try '--help'.",
    "clap, a value": "error: invalid value 'many' for '--max-turns <N>': invalid digit found in string",
    "clap, no value": "error: a value is required for '--model <MODEL>' but none was supplied",
    "clap, twice": "error: the argument '--quiet' cannot be used multiple times",
    "clap, nothing": "error: the following required arguments were not provided:\n  <PROMPT>",
    "clap, a command": "error: unrecognized subcommand 'bogus'",
    "commander": "error: unknown option '--bogus'",
    "commander, a value": "error: option '--mode <m>' argument 'x' is invalid. Allowed choices are a, b.",
    "commander, no value": "error: option '--model <model>' argument missing",
    "commander, in colour": "\x1b[31merror:\x1b[0m error: unknown option '--bogus'",
    "its own words": '\x1b[31merror:\x1b[0m invalid level "nonsense" (expected "low" or "high")',
    "yargs": "Unknown arguments: no-such, noSuch\nUsage: x [options]",
    "yargs, a value": 'Invalid values:\n  Argument: mode, Given: "x", Choices: "a", "b"',
    "yargs, no value": "Not enough arguments following: m",
    "yargs, help alone": "x run\n\nOptions:\n  -h, --help   show help\n      --model  the model",
    "cobra": "Error: unknown flag: --bogus\nUsage:\n  x run [flags]",
    "cobra, nothing": 'Error: required flag(s) "model" not set',
    "go": "flag provided but not defined: -bogus\nUsage of x:",
    "go, no value": "flag needs an argument: -m",
    "getopt": "x: unrecognized option '--bogus'",
    "getopt, short": "x: invalid option -- 'b'",
    "getopt, no value": "x: option requires an argument -- 'm'",
}


@pytest.mark.parametrize("name", sorted(USAGE_ERRORS))
@pytest.mark.parametrize("program", READERS, ids=lambda program: program.name)
def test_a_command_line_that_is_rejected_is_not_tried_again(program: Program, name: str) -> None:
    for stdout, stderr in (("", USAGE_ERRORS[name]), (USAGE_ERRORS[name], "")):
        result = program.read(Finished(2, "exited", stdout, stderr))
        assert result.error is not None
        assert result.error.kind == ErrorKind.BAD_REQUEST
        assert result.error.message.startswith("it rejected its command line: ")
        assert result.text == ""


@pytest.mark.parametrize(
    ("stdout", "stderr", "kind"),
    [
        ("", "Error: 429 Too many requests. Usage: 10 of 10 requests", ErrorKind.TRANSIENT),
        ("", "OSError: [Errno 22] Invalid argument", ErrorKind.TRANSIENT),
        ("", "the option that I took did not work, and the connection was reset", ErrorKind.TRANSIENT),
        ('{"type": "started"}', "unknown option --bogus\nrate limit", ErrorKind.TRANSIENT),
        ("", "I have exceeded my maximum number of turns.", ErrorKind.BAD_REQUEST),
    ],
)
def test_other_words_mean_what_they_did(stdout: str, stderr: str, kind: ErrorKind) -> None:
    result = DESCRIBED[0].read(Finished(1, "exited", stdout, stderr))
    assert result.error is not None
    assert (result.error.kind, "command line" in result.error.message) == (kind, False)


@pytest.mark.parametrize("status", [64, 126, 127])
def test_what_a_shell_can_not_run_is_not_tried_again(status: int) -> None:
    result = DESCRIBED[0].read(Finished(status, "exited", "", "sh: 1: agent: Permission denied"))
    assert result.error is not None
    assert result.error.kind == ErrorKind.BAD_REQUEST


@pytest.mark.parametrize("name", sorted(PRESETS))
@pytest.mark.parametrize(
    ("how", "signal", "kind"),
    [
        ("timeout", None, ErrorKind.TIMEOUT),
        ("idle", None, ErrorKind.TIMEOUT),
        ("stopped", 15, ErrorKind.TRANSIENT),
        ("killed", 9, ErrorKind.TRANSIENT),
        ("limit", None, ErrorKind.BAD_REQUEST),
    ],
)
def test_how_it_ended_goes_before_what_it_says(
    name: str, how: How, signal: int | None, kind: ErrorKind
) -> None:
    done = capture(f"{name}/ok")
    result = PRESETS[name].read(dataclasses.replace(done, how=how, status=None, signal=signal))
    assert result.error is not None
    assert result.error.kind == kind
    assert result.text == ""
    assert result.spent == SPENT[name], "what was used is to be paid all the same"


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_an_answer_that_was_cut_and_then_hung_is_no_answer(name: str) -> None:
    done = dataclasses.replace(capture(f"{name}/truncated"), how="timeout")
    result = PRESETS[name].read(done)
    assert result.error is not None
    assert result.error.kind == ErrorKind.TIMEOUT


@pytest.mark.parametrize("name", sorted(PRESETS))
@pytest.mark.parametrize("status", [0, 1, 137])
def test_silence_is_no_success(name: str, status: int) -> None:
    result = PRESETS[name].read(Finished(status, "exited", "", ""))
    assert result.error is not None
    assert result.error.kind == ErrorKind.TRANSIENT


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_an_answer_with_a_bad_status_is_taken_with_a_warning(name: str) -> None:
    result = PRESETS[name].read(dataclasses.replace(capture(f"{name}/ok"), status=3))
    assert result.error is None
    assert result.warnings == ("the program answered, but exited with status 3",)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_lost_output_is_told(name: str) -> None:
    result = PRESETS[name].read(dataclasses.replace(capture(f"{name}/ok"), cut=True))
    assert any("the output of the program was too long" in warning for warning in result.warnings)


def test_colours_and_titles_do_not_reach_the_text() -> None:
    program = DESCRIBED[0]
    result = program.read(
        Finished(0, "exited", "\x1b[1;31mred\x1b[0m\x1b]0;title\x07 \x9b2Jand\r\nmore\x00\n", "")
    )
    assert result.text == "red and\nmore"


HOSTILE = [
    "{",
    "[",
    "[" * 100_000,
    '{"a":' * 50_000,
    '{"type":"result","result":null}',
    '{"type":"result","is_error":"x","result":[1],"usage":{"input_tokens":1e999},"total_cost_usd":1e308}',
    '{"type":"turn.completed","usage":{"input_tokens":-5,"output_tokens":true}}',
    '{"type":"turn.completed","usage":[]}',
    '{"type":["turn.failed"],"error":7}',
    '{"messages":[[],{"role":"assistant","content":"x"}],"metadata":[]}',
    '{"stats":{"models":{"m":null},"tools":{"byName":[1]}},"response":{"a":1}}',
    '{"type":"text","part":"x"}\n{"type":"step_finish","part":{"tokens":[],"cost":"x"}}',
    '[{"response":"\\ud800","input_tokens":NaN,"output_tokens":Infinity}]',
    '{"type":"run_result","aggregateUsage":3,"finishReason":{}}',
    "1" * 10_000,
    '{"a":' + "9" * 5_000 + "}",
    "Tokens: 1.2.3k sent, ,,,k received. Cost: $... message, $,. session.",
    "\x00\x1b]8;;\x1b\\",
]


@pytest.mark.deep_beyond(60)
@pytest.mark.parametrize("program", READERS, ids=lambda program: program.name)
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_whatever_was_printed_it_is_read(program: Program, text: str) -> None:
    files = dict.fromkeys(("trajectory.json", "llm.history"), text)
    for status, stderr in ((0, ""), (1, text)):
        for kept in ({}, files):
            result = program.read(Finished(status, "exited", text, stderr, kept))
            assert result.text or result.error
            result.text.encode("utf-8")


@pytest.mark.deep_beyond(3)
@pytest.mark.parametrize("program", READERS, ids=lambda program: program.name)
@given(st.text(), st.text(), st.sampled_from([0, 1, 143, None]))
def test_arbitrary_text_is_read(program: Program, stdout: str, stderr: str, status: int | None) -> None:
    files = {"trajectory.json": stdout, "llm.history": stdout}
    for kept in ({}, files):
        result = program.read(Finished(status, "exited", stdout, stderr, kept))
        assert bool(result.text) != bool(result.error) or result.finish == "length"


def mutants(name: str, count: int) -> Iterator[Finished]:
    """The capture with pieces of its output cut, doubled, swapped or replaced."""
    chance, done = random.Random(name), capture(name)
    words = ["null", "[]", "{}", "-1", '"x"', "1e999", "\x1b[", "\n", "true", "\udc80"]
    for _ in range(count):
        parts = []
        for text in (done.stdout, done.stderr, *done.files.values()):
            start, end = sorted(chance.randrange(len(text) + 1) for _ in range(2))
            end = min(end, start + chance.choice((1, 5, 200, 100_000)))
            parts.append(text[:start] + chance.choice([*words, "", text[start:end] * 2]) + text[end:])
        files = dict(zip(done.files, parts[2:], strict=True))
        yield dataclasses.replace(done, stdout=parts[0], stderr=parts[1], files=files)


@pytest.mark.deep_beyond(30)
@pytest.mark.parametrize("name", EVERY)
def test_damaged_captures_are_read(name: str) -> None:
    program = PRESETS[name.split("/")[0]]
    for done in mutants(name, 60):
        result = program.read(done)
        result.text.encode("utf-8")
        assert result.error is None or result.error.message


@pytest.mark.deep
@pytest.mark.parametrize("program", READERS, ids=lambda program: program.name)
@pytest.mark.parametrize(
    "piece",
    [
        "x",
        " ",
        "\n ",
        "\n --x",
        "[",
        "{",
        "\n{",
        "\x1b]",
        "\x1b[1",
        '{"type":"text"}\n',
        "Error: ",
        "litellm.X\n",
        "\nError: ",
    ],
)
def test_long_output_takes_time_in_proportion(program: Program, piece: str) -> None:
    def taken(size: int) -> float:
        text = piece * (size // len(piece))
        began = time.process_time()
        program.read(Finished(1, "exited", text, text, {"trajectory.json": text, "llm.history": text}))
        return time.process_time() - began

    taken(1000)
    assert taken(1 << 19) < 30 * taken(1 << 16) + 0.5
