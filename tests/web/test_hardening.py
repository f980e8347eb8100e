"""Requests, files and moments that the page must survive, without giving anything away."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from logist.core.model import Kind
from logist.jobs.base.project import ProjectContext
from logist.jobs.steward import inbox_decisions
from logist.jobs.steward.steward_decisions import record_decision
from logist.web import job_actions
from logist.web.pages import events
from logist.web.pages.events import iter_events
from logist.web.server import claim_folder
from logist.web.sessions import Sessions, create_link
from tests import support
from tests.cli.desk import Desk
from tests.web.example_jobs import make_approval
from tests.web.running_server import RunningServer
from tests.web.test_raw_requests import SECONDS, Raw
from tests.web.visitor import ADDRESS, PORT, Visitor, enter

FORM = {"Origin": ADDRESS, "Content-Type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize("path", ["/enter", "/enter?key=x", "/enters", "/static/none"])
def test_who_is_not_signed_in_does_not_learn_the_secret_prefix(visitor: Visitor, path: str) -> None:
    stranger = type(visitor.client)(visitor.client.app, base_url=ADDRESS)
    assert visitor.sessions.prefix not in stranger.get(path).text
    refused = stranger.post("/enter", data={"key": "x"}, headers={"Origin": ADDRESS})
    assert refused.status_code == 403
    assert visitor.sessions.prefix not in refused.text


def test_a_request_with_an_endless_length_is_too_large(visitor: Visitor) -> None:
    path = f"{visitor.sessions.prefix}/jobs/approval/decide"
    answered = visitor.client.post(path, content=b"", headers={**FORM, "Content-Length": "9" * 5000})
    assert answered.status_code == 413


def test_a_directory_among_the_links_does_not_keep_the_others(desk: Desk) -> None:
    with claim_folder(desk.home, PORT) as folder:
        keys = [create_link(folder, PORT, "eve").partition("key=")[2] for _ in range(8)]
        for number in range(8):  # as a repository can bring them along; the order of a directory is not known
            (folder / "links" / f"{number}" / "deeper").mkdir(parents=True)
    with claim_folder(desk.home, PORT) as folder:
        sessions = Sessions(folder, PORT, "ada")
        assert [sessions.start(key) for key in keys] == [None] * 8
        assert list((folder / "links").iterdir()) == []


def spoil(jobs: Path) -> None:
    """Put a file where the directory of the jobs was."""
    shutil.move(jobs, jobs.with_name("away"))
    jobs.write_text("")


def test_jobs_that_cannot_be_listed_are_an_error_on_the_page(visitor: Visitor, examples: Desk) -> None:
    spoil(examples.jobs)
    visitor.project.expect_change()
    for path in ("/", "/jobs", "/jobs/plan", "/costs", "/nothing"):
        answered = visitor.get(path)
        assert 400 <= answered.status_code < 500
        assert "<h1>" in answered.text
    assert "must be a directory" in visitor.get("/").text
    examples.jobs.unlink()
    shutil.move(examples.jobs.with_name("away"), examples.jobs)
    visitor.project.expect_change()
    assert visitor.get("/").status_code == 200


def test_a_stream_goes_on_after_the_jobs_could_not_be_listed(visitor: Visitor, examples: Desk) -> None:
    async def follow() -> str:
        stream = iter_events(visitor.project, "0", None)
        await anext(stream)
        waiting = asyncio.ensure_future(anext(stream))
        spoil(examples.jobs)
        await asyncio.wait([waiting], timeout=1.5)
        examples.jobs.unlink()
        shutil.move(examples.jobs.with_name("away"), examples.jobs)
        shutil.rmtree(examples.job("failed"))
        event = await asyncio.wait_for(waiting, 20)
        await stream.aclose()
        return event

    assert json.loads(asyncio.run(follow()).partition("data: ")[2])["jobs"] == ["failed"]


def test_a_job_that_was_just_deleted_is_not_counted(visitor: Visitor, examples: Desk) -> None:
    visitor.project.look()
    shutil.rmtree(examples.job("failed"))
    assert visitor.get("/costs").status_code == 200


@pytest.mark.parametrize("job", ["cost", "halted"])
@pytest.mark.parametrize("number", ["1e308", "1e999", "nan", "-inf"])
def test_a_limit_that_is_no_amount_of_money(visitor: Visitor, job: str, number: str) -> None:
    fields = {"time_threshold_minutes": "5", "max_allowed_iterations": "0", "max_attempts": "3"}
    revision = visitor.read_field(job, "revision")
    changed = visitor.post(
        f"/jobs/{job}/act/limits", revision=revision, **(fields | {"cost_threshold": number})
    )
    assert changed.status_code in (303, 400)
    visitor.decide(job, "raise_limit", number)
    assert visitor.get(f"/jobs/{job}").status_code == 200


def test_a_job_with_broken_texts_does_not_hide_the_others(visitor: Visitor, examples: Desk) -> None:
    file = examples.job("approval") / "state.json"
    state = json.loads(file.read_text())
    for change in ({"tags": ["\ud800"]}, {"status": "\ud800"}):
        file.write_text(json.dumps({**state, **change}))
        visitor.project.expect_change()
        for path in ("/", "/jobs"):
            assert visitor.get(path).status_code == 200
        assert visitor.get("/jobs?status=CANCELED").status_code == 200


def test_what_a_decision_did_is_not_lost_to_a_script_in_the_background(visitor: Visitor) -> None:
    assert visitor.decide("approval", "approve").status_code == 303
    path = f"{visitor.sessions.prefix}/jobs/approval"
    background = visitor.client.get(path, headers={"Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin"})
    assert "Done: approval is now SUCCESS" not in background.text
    assert "Done: approval is now SUCCESS" in visitor.get("/jobs/approval").text


def test_nothing_is_written_through_a_link_in_place_of_the_drafts(desk: Desk, tmp_path: Path) -> None:
    make_approval(desk)
    mine = tmp_path / "mine"
    mine.mkdir()
    visitor = enter(desk)
    (desk.home / "serve" / "drafts").symlink_to(mine)
    fields = {"id": "0123456789abcdef", "comment": "a.txt:1", "side": "workspace", "entered": "Why?"}
    revision = visitor.read_field("approval", "revision")
    refused = visitor.post("/jobs/approval/comments", revision=revision, **fields)
    assert "no link" in refused.text
    assert list(mine.iterdir()) == []


def test_a_stream_ends_when_the_person_signs_out(visitor: Visitor) -> None:
    [session] = visitor.sessions._sessions.values()

    async def follow() -> list[str]:
        stream = iter_events(visitor.project, "0", None, is_wanted=lambda: visitor.sessions.is_open(session))
        first = await anext(stream)
        visitor.sessions.end(session)
        return [first, *[event async for event in stream]]

    assert len(asyncio.run(follow())) == 1


def test_a_plan_is_approved_only_as_it_was_seen(visitor: Visitor, examples: Desk) -> None:
    fields = {name: visitor.read_field("plan", name) for name in ("revision", "seen")}
    planned = examples.job("plan") / "workspace" / "planned.txt"
    planned.write_text("after the page was loaded")
    refused = visitor.post("/jobs/plan/decide", decision="carry_out", **fields)
    assert refused.status_code == 409
    assert "the work has changed since you saw it: files" in refused.text
    assert str(examples.state("plan")["revision"]) == fields["revision"]  # not even the role was switched
    assert visitor.decide("plan", "carry_out").status_code == 303
    approval = examples.history("plan")[-1]
    assert (approval["kind"], approval["command"]["seen"]) == ("approve", True)
    assert examples("job", "verify", "plan").code == 0


ONE_WINS = {
    "rerun": "success",
    "restep": "approval",
    "rank": "pending",
    "tags": "pending",
    "limits": "pending",
    "role": "pending",
    "answer": "pending",
    "carry_out": "plan",
    "raise_limit": "cost",
    "switch": "permission",
}


@pytest.mark.parametrize(("name", "job"), ONE_WINS.items())
def test_a_change_in_the_last_moment_is_not_decided_about(
    visitor: Visitor, examples: Desk, monkeypatch: pytest.MonkeyPatch, name: str, job: str
) -> None:
    fields = {name: visitor.read_field(job, name) for name in ("revision", "seen")}
    fields |= {"to": "2", "entered": {"switch": "Worker", "rank": "3", "raise_limit": "5000"}.get(name, "")}
    fields |= {"cost_threshold": "1", "time_threshold_minutes": "1", "max_allowed_iterations": "1"}
    fields |= {"max_attempts": "1"}
    if name == "role":
        fields["entered"] = "Planner"

    def change_meanwhile(project: ProjectContext, *_: object) -> None:
        record_decision(project, job, Kind.NOTE, note="Wait.")

    monkeypatch.setattr(job_actions, "require_unchanged", change_meanwhile)
    monkeypatch.setattr(inbox_decisions, "require_unchanged", change_meanwhile)
    is_decision = name in ("carry_out", "raise_limit", "switch")
    path, more = ("decide", {"decision": name}) if is_decision else (f"act/{name}", {})
    refused = visitor.post(f"/jobs/{job}/{path}", **fields, **more)
    assert refused.status_code == 409, refused.text
    assert examples.history(job)[-1]["kind"] == "note"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_clients_that_do_not_read_or_end_keep_no_server_from_stopping(
    desk: Desk, number: int, code: int
) -> None:
    make_approval(desk)
    (desk.job("approval") / "workspace" / "big.txt").write_text("lorem ipsum dolor sit amet\n" * 100_000)
    with RunningServer(desk) as server, contextlib.ExitStack() as stack:
        raw = Raw(server)

        def send(data: bytes) -> None:
            one = stack.enter_context(socket.create_connection(("127.0.0.1", raw.port), SECONDS))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.sendall(data)

        for _ in range(8):
            send(raw.head("GET", f"{raw.prefix}/events?seen=0&job=approval"))
            send(raw.head("GET", f"{raw.prefix}/jobs/approval/changes?path=big.txt"))
            send(raw.head("POST", f"{raw.prefix}/jobs/approval/decide", b"x" * 1000)[:-999])
        assert raw.get_status(raw.head("GET", f"{raw.prefix}/")) == 200
        server.process.send_signal(number)
        server.process.wait(support.CRASHED)
    # The end of the block has checked that nothing is on standard error.
    assert server.process.returncode == code


def test_a_stream_ends_at_once_however_long_a_look_takes(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "LOAD", 10**9)

    async def follow() -> list[str]:
        stream = iter_events(visitor.project, "0", None)
        first = await anext(stream)
        rest = asyncio.ensure_future(anext(stream, ""))
        await asyncio.wait([rest], timeout=2)
        visitor.project.is_closing = True
        return [first, await asyncio.wait_for(rest, 60)]

    assert asyncio.run(follow())[1] == ""


def test_all_modules_are_loaded_before_requests_come_in_threads(desk: Desk) -> None:
    desk.create("j1")
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from logist import lazy_modules\n"
        "from logist.config.environment import Environment\n"
        "from logist.jobs.base.project_opening import open_project\n"
        "from logist.web.server import serve\n"
        "home = Path(sys.argv[1])\n"
        "context = open_project(Environment({'HOME': str(home)}), home, say=print)\n"
        "serve(lambda: context, 0, show_link=lambda *_: None, is_stopped=lambda: 143)\n"
        "print(sorted(lazy_modules._specs))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(desk.place)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_a_form_that_is_not_utf_8_is_refused_in_words(visitor: Visitor) -> None:
    path = f"{visitor.sessions.prefix}/jobs/approval/decide"
    for body in (b"entered=%ff", b"entered=\xff", b"&".join(b"a=1" for _ in range(300))):
        refused = visitor.client.post(path, content=body, headers=FORM)
        assert refused.status_code == 400
        assert "It must be UTF-8" in refused.text


def test_a_page_number_that_is_none_shows_the_first_page(visitor: Visitor) -> None:
    for number in ("x", "-1", "", "9" * 5000, "0"):
        assert "page 1 of 1" in visitor.get(f"/jobs/approval/history?page={number}").text
