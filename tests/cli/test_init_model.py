"""`logist init --model`, and the questions of `logist init` on a terminal."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import support
from tests.cli.desk import Desk
from tests.cli.terminal import Terminal

KEY = "OPENAI_" + "API_KEY"


@pytest.fixture
def place(desk: Desk) -> Path:
    """An empty directory."""
    desk.jobs.rmdir()
    desk.home.rmdir()
    (desk.place / "answers.json").unlink()
    return desk.place


def config(place: Path) -> str:
    return (place / ".logist" / "config.yaml").read_text("utf-8")


def test_the_option_writes_the_setting(desk: Desk, place: Path) -> None:
    ran = desk("init", "--model", "ollama/llama3")
    assert (ran.code, ran.err) == (0, "")
    assert f"model: ollama/llama3 (in {place / '.logist' / 'config.yaml'})" in ran.out
    assert config(place).endswith("model: ollama/llama3\n")
    assert desk("init", "--model", "openai/gpt-5-mini", env={KEY: "dummy-key-for-tests-0001"}).err == ""
    assert config(place).endswith("model: openai/gpt-5-mini\n")
    assert desk("trust").code == 0


def test_a_missing_key_is_a_warning(desk: Desk, place: Path) -> None:
    ran = desk("init", "--model", "openai/gpt-5-mini")
    assert ran.code == 0
    assert f"{KEY} is not set" in ran.err


def test_files_that_no_job_would_see_are_a_warning(desk: Desk, place: Path) -> None:
    (place / "prices.py").write_text("", "utf-8")
    assert desk("init").err == (
        f"warning: {place} is not in a git repository: jobs begin with an empty workspace, without the files here\n"
    )
    assert desk("init").err == ""
    shutil.rmtree(place / ".logist")
    support.git(place, "init", "--quiet")
    assert desk("init").err == ""


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("gpt-5", "unknown model `gpt-5`"),
        ("elsewhere/x", "unknown provider"),
        ("", "must not be empty"),
    ],
)
def test_an_unknown_model_creates_nothing(desk: Desk, place: Path, model: str, message: str) -> None:
    ran = desk("init", "--model", model)
    assert (ran.code in (2, 5), message in ran.err) == (True, True), ran.err
    assert not (place / ".logist").exists()


@contextmanager
def asked(desk: Desk) -> Iterator[Terminal]:
    """A person whom `logist init` has just asked for a provider."""
    with Terminal(desk, "init", env={"LOGIST_AGENT": ""}) as terminal:
        terminal.wait_for("Provider:")
        yield terminal


def test_a_terminal_asks_for_provider_and_model(desk: Desk, place: Path) -> None:
    with asked(desk) as terminal:
        terminal.type(b"nobody\n")
        terminal.wait_for("unknown provider `nobody`")
        terminal.type(b"OpenAI\n")
        terminal.wait_for("Model of openai:")
        terminal.type(b"gpt-5-mini\n")
        assert terminal.wait() == 0
    assert "no key needed" in terminal.seen
    assert f"{KEY} is not set" in terminal.seen
    assert config(place).endswith("model: openai/gpt-5-mini\n")
    with Terminal(desk, "init") as terminal:
        assert terminal.wait() == 0
    assert "Provider:" not in terminal.seen


def test_a_provider_may_be_entered_with_its_model(desk: Desk, place: Path) -> None:
    with asked(desk) as terminal:
        terminal.type(b"nobody/qwen3\n")
        terminal.wait_for("unknown provider `nobody`")
        terminal.type(b"Ollama/qwen3\n")
        assert terminal.wait() == 0
    assert "Model of" not in terminal.seen
    assert config(place).endswith("model: ollama/qwen3\n")


def test_no_answer_decides_later(desk: Desk, place: Path) -> None:
    with asked(desk) as terminal:
        terminal.type(b"\n")
        assert terminal.wait() == 0
    assert "\nmodel:" not in config(place)


@pytest.mark.parametrize("key", [b"\x03", b"\x04"], ids=["Ctrl-C", "Ctrl-D"])
def test_stopped_at_the_question_nothing_is_created(desk: Desk, place: Path, key: bytes) -> None:
    with asked(desk) as terminal:
        terminal.type(key)
        assert terminal.wait() == 130
    assert "\nerror: stopped" in terminal.seen.replace("\r\n", "\n")
    assert not (place / ".logist").exists()
    with asked(desk):
        pass


def test_the_settings_of_a_project_above_decide_nothing(desk: Desk, place: Path) -> None:
    assert desk("init", "--model", "ollama/llama3").code == 0
    (place / "below").mkdir()
    desk.place = place / "below"
    with asked(desk):
        pass


def test_without_a_terminal_nothing_is_asked(place: Path) -> None:
    ran = support.run_as_process("init", cwd=place)
    assert (ran.code, "Provider" in ran.out + ran.err) == (0, False)


def test_without_input_it_asks_for_no_model(desk: Desk) -> None:
    (desk.place / "new").mkdir()
    printed = desk.on_terminal("init", "--no-input", stdin_too=True)
    assert "Provider" not in printed
