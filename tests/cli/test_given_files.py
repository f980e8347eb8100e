"""Files that a person names, or may put in the place of another: what is none is refused at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from logist.agents.clients import answers
from logist.cli import given_answer
from logist.store import entries
from tests.cli.desk import Desk

PIPE = "pipe.md"
COMMANDS: dict[str, tuple[str, ...]] = {
    "a spec": ("job", "create", PIPE),
    "a prompt": ("job", "create", "--file", PIPE),
    "a workflow": ("job", "create", "--workflow", PIPE),
    "a workflow to look at": ("workflow", "show", PIPE),
    "a value": ("job", "create", "--prompt", "Do it.", "--input", "@" + PIPE),
    "a schema": ("whatif", ".logist/jobs/j1", "--schema", PIPE),
    "a role": ("whatif", ".logist/jobs/j1", "--role-file", PIPE),
}


@pytest.mark.parametrize("args", COMMANDS.values(), ids=COMMANDS)
def test_a_pipe_that_is_named(desk: Desk, args: tuple[str, ...]) -> None:
    desk.create()
    os.mkfifo(desk.place / PIPE)
    ran = desk(*args)
    assert ran.code in (2, 5), ran
    assert "regular file" in ran.err or "workflow file `pipe.md` not found" in ran.err


@pytest.mark.parametrize("name", ["job.yaml", "workflow.json"])
def test_a_pipe_in_the_place_of_a_file_of_a_job(desk: Desk, name: str) -> None:
    desk.create()
    path = desk.job() / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    asked = [("fork", "j1"), ("step", "j1"), ("config", "j1", "--set", "title=x"), ("config", "j1")]
    for args in asked if name == "job.yaml" else asked[:3]:
        ran = desk("job", *args)
        assert (args, ran.code) in ((args, 5), (args, 10)), ran
        assert "regular file" in ran.err
    verified = desk("job", "verify", "j1")
    assert name != "job.yaml" or "job.yaml: can't read the file: not a regular file" in str(verified)
    path.unlink()
    Path(desk.job(), "damaged-on-purpose").touch()


def test_an_answer_is_no_longer_than_one_of_a_model(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given_answer, "LONGEST", 1_000)
    desk.create()
    (desk.place / "answer.md").write_text("x" * 1_001, "utf-8")
    for source, stdin in (("answer.md", ""), ("-", "x" * 1_001)):
        ran = desk("job", "poststep", "j1", "--response-file", source, stdin=stdin)
        assert (ran.code, "larger than 1,000 bytes" in ran.err) == (2, True)
    assert len(desk.history("j1")) == 1


def test_the_longest_answers_fit_into_an_entry() -> None:
    """Of a model, all control characters; of a person, all bytes that are no UTF-8."""
    longest = max(answers.MAX_TEXT * len("\\u0001"), given_answer.LONGEST * len("\\\\udcff"))
    assert longest + (16 << 20) <= entries.LONGEST
