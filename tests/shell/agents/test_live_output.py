"""What agent programs print while they work, and what of it is safe to show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from logist.agents.courier.reporting import ProgressReport, choose_last_words, redact_window
from logist.agents.programs.live_output import Said, find_last_said
from logist.core.answer.failed_calls import describe_target
from logist.core.model import Call
from logist.core.secrets.redact import REDACTED
from logist.store.progress import NAME

CAPTURES = Path(__file__).parent / "captures"
SECRET = "hunter2-hunter2-hunter2"
SENTENCE = "correct horse battery staple"
PEM = (
    "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n" * 4 + "-----END PRIVATE KEY-----\n"
)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("codex", Said("command", "/bin/bash -lc \"printf '%s' 'hello' > 'hello.txt'\"")),
        ("cline", Said("editor", "/run/workspace/hello.txt")),
        ("opencode", Said("write", "/run/workspace/hello.txt")),
        ("aider", Said(words="Applied edit to hello.txt")),
        ("mini", Said(words="Done.")),
    ],
)
def test_a_program_says_what_it_does(name: str, said: Said) -> None:
    lines = json.loads((CAPTURES / name / "ok.json").read_text())["stdout"].splitlines(keepends=True)
    assert said in [find_last_said("".join(lines[:count])) for count in range(len(lines) + 1)]


@pytest.mark.parametrize("name", ["claude", "gemini", "goose", "llm"])
def test_a_document_at_the_end_says_nothing_for_people(name: str) -> None:
    captured = json.loads((CAPTURES / name / "ok.json").read_text())
    assert find_last_said(captured["stdout"]) is None


def test_half_a_line_is_not_read() -> None:
    assert find_last_said("done: one\ndone: tw") == Said(words="done: one")
    assert find_last_said("", "a warning\n") == Said(words="a warning")
    assert find_last_said('{"type":\n[1, 2\n"name": 3,\n\x1b[2K\n') is None


@pytest.mark.parametrize("secret", [SECRET, SENTENCE, PEM, "sk-" + "a1B2" * 8])
def test_a_secret_that_arrives_piece_by_piece_is_never_shown(secret: str) -> None:
    text = f"The value is {secret} and that is all."
    known = [secret] if secret in (SECRET, SENTENCE) else []
    for length in range(len(text)):
        words = choose_last_words(text[:length], known)
        assert not any(
            part in words for part in secret.split() if len(part) > 4 and not part.strip("-").isupper()
        ), words
    assert REDACTED in choose_last_words(text + " ", known)


def test_complete_lines_hide_a_key_that_is_being_printed() -> None:
    lines = "reading\n" + PEM
    for length in range(len(lines)):
        assert "MIIE" not in redact_window(lines[:length], [])


def test_what_the_courier_writes_has_no_secret(tmp_path: Path) -> None:
    report = ProgressReport(tmp_path, "Worker", [SECRET])
    report.report_call(
        Call(id="1", name="execute_command", arguments=json.dumps({"command": f"curl {SECRET}"}))
    )
    report.report_call(Call(id="2", name=SECRET, arguments="{"))
    written = (tmp_path / NAME).read_text()
    assert SECRET not in written
    assert f"curl {REDACTED}" in written


@pytest.mark.parametrize(
    ("arguments", "target"),
    [
        ('{"path": "a.py", "content": "x"}', "a.py"),
        ('{"pattern": "x", "path": ""}', "x"),
        ('{"command": "make"}', "make"),
        ('{"path": 3}', ""),
        ("[]", ""),
        ("{", ""),
        ("[" * 100_000, ""),
    ],
)
def test_what_a_call_is_about(arguments: str, target: str) -> None:
    assert describe_target(arguments) == target
