"""The reason of an agent that stops: everywhere where a person, a hook or the next agent looks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.desk import Desk, answer, command

SECTIONS = """\
## Status
{status}

## Summary
Half of the tables are moved.

## Next Action
{action}
"""


def sections(status: str, action: str) -> dict[str, object]:
    return answer(SECTIONS.format(status=status, action=action))


def configure(desk: Desk, **settings: str) -> None:
    for key, value in settings.items():
        assert desk("config", "set", key, json.dumps(value)).code == 0


@pytest.mark.parametrize(
    ("status", "action", "reason"),
    [
        ("BLOCKED", "ESCALATE: Which schema\nis the new one?", "ESCALATE: Which schema is the new one?"),
        ("PARTIAL", "HOLD - the export of Monday", "HOLD: the export of Monday"),
        ("FAILED (no access to the server)", "COMPLETE", "FAILED: no access to the server"),
    ],
)
def test_the_reason_is_shown_everywhere(
    desk: Desk, tmp_path: Path, status: str, action: str, reason: str
) -> None:
    hooked = tmp_path / "hooked"
    configure(desk, response_format="sections", on_stuck=f'printf %s "$LOGIST_REASON" > {hooked}')
    desk.script(sections(status, action))
    desk.create("j1")
    step = desk("job", "step", "j1")
    assert step.code == 3
    assert f"   Half of the tables are moved.\n   reason: {reason}\n" in step.out
    assert hooked.read_text() == reason
    assert f"  reason: {reason}\n" in desk("job", "status", "j1").out
    assert f"   reason: {reason}\n" in desk("job", "show", "j1").out
    assert f"   reason: {reason}\n" in desk("job", "history", "j1").out
    desk("job", "resubmit", "j1")
    assert f"Half of the tables are moved.\n\nIts reason: {reason}\n" in desk("job", "preview", "j1").out
    assert desk("job", "verify", "j1").code == 0


def test_another_attempt_reads_why_it_is_asked_for(desk: Desk) -> None:
    configure(desk, response_format="sections")
    desk.script(sections("PARTIAL", "CONTINUE: the second half"))
    desk.create("j1")
    assert "reason: CONTINUE: the second half\n" in desk("job", "step", "j1").out
    assert "Its reason: CONTINUE: the second half\n" in desk("job", "preview", "j1").out


def test_a_summary_that_is_the_reason_is_shown_once(desk: Desk) -> None:
    configure(desk, response_format="sections")
    desk.script(answer("## Status\nBLOCKED\n\n## Next Action\nHOLD: the export\n"))
    desk.create("j1")
    out = desk("job", "step", "j1").out
    assert out.count("the export") == 1
    assert "   HOLD: the export\n" in out


def test_a_reason_in_json_is_the_summary(desk: Desk, tmp_path: Path) -> None:
    hooked = tmp_path / "hooked"
    configure(desk, on_stuck=f'printf %s "$LOGIST_REASON" > {hooked}')
    desk.script(answer(command("STUCK", "Which\0 schema?")))
    desk.create("j1")
    assert desk("job", "step", "j1").code == 3
    assert hooked.read_text() == "Which schema?"
