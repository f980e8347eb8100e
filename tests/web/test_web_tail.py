"""What an agent does while it works, on the page of its job; real couriers and a model on this machine."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from logist.store.progress import NAME, Activity, ActivityRecord, ProgressWriter
from logist.web.agent_tail import MOST_EVENTS, AgentTail
from logist.web.pages import events
from tests.cli.desk import Desk
from tests.cli.test_interrupted import Slow, paid
from tests.cli.test_progress import DONE, calling, prepare
from tests.support import RunLogist
from tests.web.action_page import ActionPage

HOSTILE = calling("write_file", path="<img src=x onerror=alert(1)>\u202e.txt", content="hi")


@pytest.fixture
def desk(tmp_path: Path, cli: RunLogist) -> Desk:
    return Desk(tmp_path, cli)


def start_step(desk: Desk) -> subprocess.Popen[bytes]:
    return desk.started(
        "job", "step", "j1", env=paid(desk), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def test_the_page_shows_what_the_agent_does(desk: Desk) -> None:
    with Slow(HOSTILE, DONE) as server:
        prepare(desk, server)
        page = ActionPage(desk, env=paid(desk))
        assert 'id="tail"' not in page.get("/jobs/j1").text
        assert re.search(r'id="progress" class="progress" hidden', page.get("/jobs/j1").text)
        step = start_step(desk)
        server.wait_for(1)
        assert "waiting for the answer" in page.read("/jobs/j1")
        server.go.release()
        server.wait_for(2)
        shown = page.get("/jobs/j1").text
        tail = shown.partition('id="tail"')[2].partition("</ol>")[0]
        lines = re.findall(r"<li[^>]*>(.*?)</li>", tail)
        activities = [line.partition("): ")[2] for line in lines]
        assert activities[:2] == ["waiting for the answer", "answered"]
        assert activities[2] == "write_file &lt;img src=x onerror=alert(1)&gt;U+202E.txt"
        assert "<img" not in shown
        server.go.release()
        assert step.wait() == 11
        assert 'id="tail"' not in page.get("/jobs/j1").text


def test_the_stream_sends_each_event_once_with_the_id_that_the_page_has(desk: Desk) -> None:
    with Slow(HOSTILE, DONE) as server:
        prepare(desk, server)
        page = ActionPage(desk, env=paid(desk))
        step = start_step(desk)
        server.wait_for(1)
        ids = re.findall(r'<li data-id="([^"]+)"', page.get("/jobs/j1").text)
        assert len(ids) == 1

        async def read_progress() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = []
            async with aclosing(events.iter_events(page.served, "", "j1")) as stream:
                async for event in stream:
                    if not event.startswith("event: progress"):
                        continue
                    found.append(json.loads(event.partition("data: ")[2]))
                    if len(found) == 1:
                        server.go.release(2)
                    if found[-1]["text"] is None:
                        return found
            return found

        found = asyncio.run(read_progress())
        assert step.wait() == 11
    lines = [line for each in found for line in each["lines"]]
    assert lines[0]["id"] == ids[0]
    assert len({line["id"] for line in lines}) == len(lines)
    texts = [line["text"].partition("): ")[2] for line in lines]
    assert texts[:3] == [
        "waiting for the answer",
        "answered",
        "write_file <img src=x onerror=alert(1)>U+202E.txt",
    ]
    assert texts[-1] == "answered"


def test_only_the_last_events_are_shown_at_first(desk: Desk) -> None:
    desk.create()
    job = ActionPage(desk).served.open_job("j1")
    job.inflight.mkdir()
    seconds = iter(range(10_000))
    writer = ProgressWriter(job.inflight, lambda: 0.0, lambda: float(next(seconds)))
    for number in range(100):
        writer.write(ActivityRecord(Activity.ANSWERING, turn=number, words="not an event"))
        writer.write(ActivityRecord(Activity.TOOL, turn=number, tool="read_file", target=f"{number}.txt"))
    tail = AgentTail(job)
    found = tail.read_new()
    assert len(found) == MOST_EVENTS
    assert found[-1].text.endswith("read_file 99.txt")
    assert tail.read_new() == []
    writer.write(ActivityRecord(Activity.TOOL, turn=100, tool="read_file", target="more.txt"))
    assert [each.text.rpartition(" ")[2] for each in tail.read_new()] == ["more.txt"]
    (job.inflight / NAME).unlink()
    assert tail.read_new() == []
    tail.close()


def test_a_stream_for_an_unknown_job_has_no_progress(desk: Desk) -> None:
    page = ActionPage(desk)

    async def read_first() -> str:
        async with aclosing(events.iter_events(page.served, "", "none")) as stream:
            return await anext(stream)

    assert asyncio.run(read_first()).startswith((":", "event: change"))
