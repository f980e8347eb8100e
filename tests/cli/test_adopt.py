"""`logist adopt`: sessions that the real programs wrote, and files that are no sessions."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from logist.core.adoption.building import AdoptedHistory, AdoptionFacts
from logist.core.adoption.session import NotASessionError, SessionCall, SessionTurn
from logist.jobs.archive.session_files import find_session_files, read_session_file
from logist.resources import load_schema
from logist.timestamps import format_utc
from tests import support
from tests.cli.desk import Desk
from tests.sessions.make_captures import SECRET

SESSIONS = support.ROOT / "fixtures" / "sessions"
FACTS = AdoptionFacts("0" * 64, "me", "2026-11-27T00:00:00Z", "/w", "0" * 40, format_utc)
Json = dict[str, Any]


def adopt(desk: Desk, *paths: Path | str, code: int = 0) -> list[Json]:
    ran = desk("adopt", *map(str, paths), "--json")
    assert ran.code == code, ran.err
    rows: list[Json] = json.loads(ran.out)["data"]["sessions"]
    return rows


def history(desk: Desk, job: str) -> list[Json]:
    path = desk.place / ".logist" / "jobs" / job / "jobHistory.json"
    entries: list[Json] = json.loads(path.read_bytes())["interactions"]
    return entries


def asks(desk: Desk, case: str) -> list[Json]:
    rows = adopt(desk, SESSIONS / case)
    return [entry for row in rows for entry in history(desk, row["job"]) if entry["kind"] == "ask"]


@pytest.mark.parametrize("program", ["claude", "codex", "mini"])
def test_each_capture_is_adopted_and_replays(desk: Desk, program: str) -> None:
    cases = list((SESSIONS / program).iterdir())
    assert len(cases) >= 20
    rows = adopt(desk, *cases)
    assert all(row["is_new"] for row in rows)
    assert len(rows) >= len(cases)
    replayed = desk("replay", "--prompts", "accept")
    assert replayed.code == 0, replayed.err
    assert f"{len(rows)} the same" in replayed.out
    assert desk("doctor").code == 0
    assert json.loads(desk("inbox", "--json").out)["data"] == []
    for row in rows:
        assert desk("job", "verify", "--job", row["job"]).code == 0


def test_an_interaction_has_the_prompt_the_answer_the_calls_and_the_cost(desk: Desk) -> None:
    (ask,) = asks(desk, "claude/shell")
    assert ask["request"]["prompt"] == "Greet the customers."
    assert ask["response"]["raw_response"] == "Done."
    assert ask["response"]["tools"] == {"Bash": 1}
    (call,) = ask["command"]["calls"]
    assert (call["name"], call["needs"], call["result"]) == ("Bash", ["execute_commands"], "hello")
    usage = ask["usage"]
    assert (usage["input_tokens"], usage["cached_tokens"], usage["output_tokens"]) == (2400, 400, 120)
    assert usage["source"] == "provider"
    assert usage["cost_microcents"] > 0


@pytest.mark.parametrize("case", ["codex/shell", "mini/shell"])
def test_the_tokens_of_other_programs_count_once(desk: Desk, case: str) -> None:
    (ask,) = asks(desk, case)
    usage = ask["usage"]
    assert (usage["input_tokens"], usage["cached_tokens"], usage["output_tokens"]) == (2400, 400, 120)
    assert ask["response"]["raw_response"].strip() == "Done."


def test_an_unknown_price_is_said(desk: Desk) -> None:
    (row,) = adopt(desk, SESSIONS / "codex" / "plain")
    assert "the cost is unknown, because no price is known for gpt-5-codex" in row["notes"]
    ask = history(desk, row["job"])[1]
    assert ask["usage"]["source"] == "none"
    assert row["notes"][0] in history(desk, row["job"])[0]["command"]["notes"]


@pytest.mark.parametrize("case", ["claude/resumed_twice", "codex/resumed_twice"])
def test_a_resumed_session_is_one_job(desk: Desk, case: str) -> None:
    prompts = [ask["request"]["prompt"] for ask in asks(desk, case)]
    assert prompts == ["Greet the customers.", *["Now greet them in French."] * 2]


def test_a_forked_session_counts_only_what_is_new(desk: Desk) -> None:
    used = [ask["usage"]["input_tokens"] for ask in asks(desk, "claude/forked")]
    assert sorted(used) == [0, 1200, 1200]


def test_the_calls_of_a_subagent_belong_to_its_session(desk: Desk) -> None:
    (ask,) = asks(desk, "claude/subagent")
    assert ask["response"]["tools"] == {"Agent": 1, "Bash": 1}
    assert ask["usage"]["input_tokens"] == 4 * 1200
    part = next((SESSIONS / "claude" / "subagent").rglob("agent-*.jsonl"))
    ran = desk("adopt", str(part))
    assert ran.code == 10
    assert "it is a subagent of the session" in ran.err


@pytest.mark.parametrize(
    ("case", "needs"),
    [
        ("claude/create", ["create_files"]),
        ("claude/edit", ["read_files", "write_files"]),
        ("codex/patch_add", ["create_files"]),
        ("codex/patch_update", ["read_files", "write_files"]),
        ("codex/patch_delete", ["delete_files"]),
    ],
)
def test_a_call_needs_permissions(desk: Desk, case: str, needs: list[str]) -> None:
    (ask,) = asks(desk, case)
    assert ask["command"]["calls"][-1]["needs"] == needs


@pytest.mark.parametrize("case", ["server_error", "bad_request", "refused_key"])
@pytest.mark.parametrize("program", ["claude", "codex"])
def test_an_error_of_the_model_is_recorded(desk: Desk, program: str, case: str) -> None:
    (ask,) = asks(desk, f"{program}/{case}")
    assert ask["response"]["error"]["message"]


def test_a_session_is_adopted_once(desk: Desk, tmp_path: Path) -> None:
    session = tmp_path / "s.jsonl"
    shutil.copy(next((SESSIONS / "claude" / "plain").rglob("*.jsonl")), session)
    (first,) = adopt(desk, session)
    (again,) = adopt(desk, session)
    assert (again["job"], again["is_new"]) == (first["job"], False)
    with session.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"type": "user", "sessionId": "x", "message": {"content": "More."}}) + "\n")
    (refused,) = adopt(desk, session, code=8)
    assert "has changed since it was adopted" in refused["error"]["message"]
    assert len(list((desk.place / ".logist" / "jobs").glob("claude-*"))) == 1


@pytest.mark.parametrize(
    "command",
    [["step"], ["run"], ["rerun"], ["restep", "--to", "2"], ["fork"], ["poststep", "--response-string", "x"]],
)
def test_an_adopted_job_does_not_continue(desk: Desk, command: list[str]) -> None:
    (row,) = adopt(desk, SESSIONS / "claude" / "plain")
    before = history(desk, row["job"])
    ran = desk("job", command[0], "--job", row["job"], *command[1:])
    assert ran.code == 8, ran.err
    assert "the job was adopted from a session of Claude Code" in ran.err
    assert history(desk, row["job"]) == before


def test_an_adopted_job_is_marked(desk: Desk) -> None:
    (row,) = adopt(desk, SESSIONS / "codex" / "plain")
    assert "adopted from a session of Codex 0.169.0" in desk("job", "show", "--job", row["job"]).out
    assert row["job"] in desk("job", "list", "--tag", "adopted").out


def test_whatif_lists_each_call_that_would_have_been_refused(desk: Desk) -> None:
    adopt(
        desk,
        SESSIONS / "claude" / "edit",
        SESSIONS / "claude" / "refused_shell",
        SESSIONS / "codex" / "patch_delete",
    )
    ran = desk("whatif", "--permissions", "Worker:read_files,execute_commands", "--json")
    data = json.loads(ran.out)["data"]
    calls = [call for row in data["histories"] for call in row["refused_calls"]]
    assert [(call["tool"], call["missing"]) for call in calls] == [
        ("Edit", ["write_files"]),
        ("apply_patch", ["delete_files"]),
    ]
    assert data["totals"]["refused_calls"] == 2
    shown = desk("whatif", "--permissions", "Worker:none").out
    assert "#2 Read" in shown
    assert "rm -rf build" not in shown  # the program has refused it itself


def test_no_secret_reaches_a_file(desk: Desk) -> None:
    rows = adopt(desk, *(SESSIONS / program / "secret" for program in ("claude", "codex", "mini")))
    files = [path for path in (desk.place / ".logist").rglob("*") if path.is_file() and not path.is_symlink()]
    assert len(rows) == 3
    assert not any(SECRET.encode() in path.read_bytes() for path in files)
    exported = desk("job", "export", rows[0]["job"], "--fixture", "out", "--redact")
    assert exported.code == 0, exported.err


def test_no_part_of_a_secret_and_no_name_with_one_reaches_a_file(desk: Desk, tmp_path: Path) -> None:
    about = {"sessionId": f"one {SECRET}", "timestamp": "2026-11-27T00:00:00Z"}
    call = {"type": "tool_use", "id": "c", "name": "x" * 190 + f" {SECRET}", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": "x " * 990 + SECRET}
    answer = {"id": "a", "model": f"gpt {SECRET}", "content": [call], "usage": {"input_tokens": 1}}
    lines: list[Json] = [
        {**about, "type": "user", "message": {"content": "Look."}},
        {**about, "type": "assistant", "uuid": "1", "message": answer},
        {**about, "type": "user", "message": {"content": [result]}},
    ]
    session = tmp_path / "one.jsonl"
    session.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    (row,) = adopt(desk, session)
    paths = list((desk.place / ".logist").rglob("*"))
    start = SECRET[:9]
    assert not [path for path in paths if start in path.name]
    assert not [path for path in paths if path.is_file() and start.encode() in path.read_bytes()]
    assert start not in json.dumps(row)
    (again,) = adopt(desk, session)
    assert (again["job"], again["is_new"]) == (row["job"], False)


def test_a_result_is_found_without_a_look_at_each_call() -> None:
    looks = 0

    class Counted(str):
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal looks
            looks += 1
            return str.__eq__(self, other)

    turn = SessionTurn("Look.")
    for number in range(1000):
        turn.add_call(SessionCall(Counted(number), f"{number}", "", ()))
    turn.add_call(SessionCall("7", "the last one with its id", "", ()))
    looks = 0
    found = turn.find_call("7")
    assert found is not None
    assert found.name == "the last one with its id"
    assert turn.find_call("missing") is None
    assert looks < 10


def test_what_is_not_a_session_is_refused_and_the_others_are_adopted(desk: Desk, tmp_path: Path) -> None:
    good = next((SESSIONS / "claude" / "plain").rglob("*.jsonl"))
    (tmp_path / "deep.jsonl").write_text("[" * 100_000 + "\n", "utf-8")
    (tmp_path / "empty.jsonl").write_text("", "utf-8")
    (tmp_path / "mine.traj.json").write_text('{"messages": 7, "info": {}}', "utf-8")
    (tmp_path / "nul.jsonl").write_bytes(b"\0" * 1000)
    with (tmp_path / "sparse.jsonl").open("wb") as file:
        file.truncate(1 << 30)
    os.mkfifo(tmp_path / "pipe.jsonl")
    shutil.copy(good, tmp_path / "good.jsonl")
    rows = adopt(desk, tmp_path, code=10)
    assert {Path(row["path"]).name: bool(row["job"]) for row in rows} == {
        **dict.fromkeys(
            ("deep.jsonl", "empty.jsonl", "mine.traj.json", "nul.jsonl", "pipe.jsonl", "sparse.jsonl"), False
        ),
        "good.jsonl": True,
    }
    assert all(
        row["error"]["message"].startswith("can't adopt the session: it ") for row in rows if not row["job"]
    )


def test_no_link_is_followed(desk: Desk, tmp_path: Path) -> None:
    link = tmp_path / "link.jsonl"
    link.symlink_to(next((SESSIONS / "claude" / "plain").rglob("*.jsonl")))
    (row,) = adopt(desk, link, code=10)
    assert "it is a symbolic link" in row["error"]["message"]
    assert desk("adopt", str(tmp_path)).code == 2


def test_an_incomplete_last_line_is_noted(desk: Desk, tmp_path: Path) -> None:
    data = next((SESSIONS / "claude" / "several_turns").rglob("*.jsonl")).read_bytes()
    (tmp_path / "half.jsonl").write_bytes(data[:-40])
    (row,) = adopt(desk, tmp_path / "half.jsonl")
    assert any(note.startswith("the last line is incomplete") for note in row["notes"])


ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    10**400,
    1e308,
    "",
    "\ud800",
    "x" * 5000,
    [],
    [[]],
    {},
    {"type": "text"},
    "9999-99-99T99:99:99Z",
)


def _damage(value: Any, chance: random.Random) -> Any:
    if chance.random() < 0.02:
        return chance.choice(ODD)
    if isinstance(value, dict):
        return {key: _damage(each, chance) for key, each in value.items() if chance.random() > 0.01}
    if isinstance(value, list):
        return [_damage(each, chance) for each in value for _ in range(chance.choice((1, 1, 1, 1, 2)))]
    return value


def try_damaged(source: Path, target: Path, seed: int) -> bool:
    """Read a damaged copy and build its history; False if it is refused."""
    chance = random.Random(seed)
    data = source.read_bytes()
    if source.suffix == ".jsonl":
        lines = [json.dumps(_damage(json.loads(line), chance)) for line in data.splitlines()]
        if chance.random() < 0.2:
            chance.shuffle(lines)
        data = "\n".join(lines).encode("utf-8", "surrogatepass")
    else:
        data = json.dumps(_damage(json.loads(data), chance)).encode()
    if chance.random() < 0.2:
        data = data[: chance.randrange(len(data))]
    target.write_bytes(data)
    try:
        found = read_session_file(target, set())
    except NotASessionError:
        return False
    building = AdoptedHistory(found.session, {}, load_schema("llm-chat-schema"), FACTS)
    entries = list(building.build_interactions())
    assert entries[-1].state_after == "CANCELED"
    return True


@pytest.mark.parametrize("program", ["claude", "codex", "mini"])
def test_a_damaged_session_is_adopted_or_refused(tmp_path: Path, program: str) -> None:
    sources = find_session_files([str(SESSIONS / program)])
    for seed in range(60):
        source = sources[seed % len(sources)]
        try_damaged(source, tmp_path / source.name, seed)
