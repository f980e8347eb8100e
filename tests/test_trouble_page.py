"""docs/when-something-goes-wrong.md names every exit code, state and message as the code has them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache

import pytest

from logist.core.machine import advice
from logist.core.model.words import Status, StuckKind
from logist.errors import LogistError
from tests import support
from tests.support import ROOT

PAGE = (ROOT / "docs" / "when-something-goes-wrong.md").read_text("utf-8")
JOB = "fix"
"""The id of the job in all examples."""
GAP = "..."
"""Stands for a variable part, in a quoted message and in a text of the code."""
STOPS = (130, 143)
"""Exit codes of Stopped: Ctrl-C and SIGTERM."""


def list_sections() -> dict[str, str]:
    """The sections of the page by their headings."""
    parts = re.split(r"^###? (.+)$", PAGE, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def read_code_span(text: str) -> str | None:
    """The content of a text that is one code span, as in `text` or `` `text` ``."""
    span = re.fullmatch(r"(`+)(.+?)\1", text)
    return span[2].strip() if span else None


def list_message_sections() -> dict[str, str]:
    """The sections about a message, by the message."""
    return {
        message: body
        for heading, body in list_sections().items()
        if (message := read_code_span(heading)) is not None
    }


def list_messages_in_tables() -> list[str]:
    """The first cells of all tables whose first column is called Message."""
    tables = re.findall(r"^\| Message \|.*\n\|[ -|]+\|\n((?:\|.*\n)+)", PAGE, re.M)
    rows = [row for table in tables for row in table.splitlines()]
    return [read_code_span(row.strip("|").split(" | ")[0].strip()) or row for row in rows]


def replace_placeholders(text: str) -> str:
    """A text of the code on one line, with `...` for each placeholder; placeholders can be nested."""
    shown, depth = "", 0
    for character in text:
        if character == "}" and depth:
            depth -= 1
            shown += "" if depth else GAP
        elif character == "{":
            depth += 1
        elif not depth:
            shown += character
    return re.sub(r"(\.\.\.)+", GAP, " ".join(shown.split()))


@cache
def list_texts_of_the_code() -> list[str]:
    printed = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "messages"), "--json"],
        capture_output=True,
        env=support.process_environment(),
        check=True,
    ).stdout.decode("utf-8")
    return [replace_placeholders(json.loads(line)["text"]) for line in printed.splitlines()]


def find_anchor(heading: str) -> str:
    """The anchor that GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def find_rows(heading: str) -> list[str]:
    return re.findall(r"^\| ([^|]+?) \|", list_sections()[heading], re.M)


def test_every_exit_code_has_a_row() -> None:
    def codes(error: type[LogistError]) -> set[int]:
        return {error.exit_code}.union(*(codes(child) for child in error.__subclasses__()))

    every = {0, *codes(LogistError), *map(advice.exit_code, Status), *STOPS}
    assert sorted(every) == sorted(int(row) for row in find_rows("Exit codes") if row.isdigit())


@pytest.mark.parametrize("status", [each for each in Status if each is not Status.STUCK])
def test_every_status_has_a_section_with_its_next_command(status: Status) -> None:
    bodies = [body for heading, body in list_sections().items() if status in heading.split(", ")]
    assert len(bodies) == 1
    assert f"next: {advice.next_command(status, JOB)}\n" in bodies[0]


@pytest.mark.parametrize("kind", StuckKind)
def test_every_kind_of_stuck_has_a_section_with_its_next_command(kind: StuckKind) -> None:
    body = list_sections()[f"STUCK ({kind})"]
    assert f"next: {advice.next_command('STUCK', JOB, kind)}\n" in body


def test_the_overview_of_states_is_complete() -> None:
    overview = "\n".join(find_rows("Where a job waits"))
    assert [each for each in Status if each is not Status.STUCK and each not in overview] == []
    assert [kind for kind in StuckKind if f"STUCK ({kind})" not in overview] == []


def test_every_next_command_is_one_that_logist_prints() -> None:
    known = {advice.next_command(status, JOB) for status in Status}
    known |= {advice.next_command("STUCK", JOB, kind, reviewing=True) for kind in StuckKind}
    known |= {advice.next_command("STUCK", JOB, kind) for kind in StuckKind}
    known |= {
        advice.next_command("APPROVAL_REQUIRED", JOB, awaiting="manual"),
        advice.next_command("APPROVAL_REQUIRED", JOB, plan=True),
        advice.next_command("SUCCESS", JOB, unmerged=True),
    }
    assert [line for line in re.findall(r"^    next: (.+)$", PAGE, re.M) if line not in known] == []


def test_every_quoted_message_is_a_text_of_the_code() -> None:
    quoted = [*list_message_sections(), *list_messages_in_tables()]
    assert len(quoted) > 40
    texts = list_texts_of_the_code()
    assert [message for message in quoted if not any(message in text for text in texts)] == []


@pytest.mark.parametrize("message", list_message_sections())
def test_every_message_has_an_example_that_shows_it(message: str) -> None:
    example = "\n".join(re.findall(r"^    (.+)$", list_message_sections()[message], re.M))
    assert re.search(".+".join(map(re.escape, message.split(GAP))), example)


def test_every_link_to_a_section_leads_there() -> None:
    anchors = set(map(find_anchor, list_sections()))
    links = re.findall(r"\]\(#([^)]+)\)", PAGE)
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        links += re.findall(r"when-something-goes-wrong\.md#([^)]+)\)", path.read_text("utf-8"))
    assert sorted(set(links) - anchors) == []
