"""The order of the checks at a call: the name, the permissions, the arguments, the approval."""

from __future__ import annotations

import json
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from logist.agents.clients.answers import ModelAnswer, Tokens
from logist.agents.courier import booking
from logist.agents.protocol import Ask
from logist.agents.tools import CHANGING, run_tool
from logist.core.model import EVERYTHING, Call, Model, Permission, Permissions, Request
from logist.core.permissions.permissions import tool_refusal
from logist.core.permissions.tools import TOOLS, select_permitted_tools
from tests.shell.agents.tool_bench import SECRET, Bench, bench
from tests.support import tree

SETS = [Permissions.from_names(some) for count in range(6) for some in combinations(Permission, count)]
GOOD: dict[str, dict[str, Any]] = {
    "read_file": {"path": "a.txt"},
    "list_directory": {},
    "search": {"pattern": "alpha"},
    "write_file": {"path": "a.txt", "content": "beta\n"},
    "edit_file": {"path": "a.txt", "old": "alpha", "new": "beta"},
    "create_file": {"path": "b.txt", "content": "beta\n"},
    "delete_file": {"path": "a.txt"},
    "execute_command": {"command": "true"},
}


@pytest.mark.parametrize("permissions", SETS, ids=lambda allowed: "+".join(allowed.list_names()) or "nothing")
def test_a_tool_that_is_not_offered_does_nothing(tmp_path: Path, permissions: Permissions) -> None:
    names = {tool.name for tool in select_permitted_tools(permissions)}
    for name, tool in TOOLS.items():
        tools = bench(tmp_path / name, permissions)
        (tools.root / "a.txt").write_text("alpha\n")
        before = tree(tools.root)
        outcome = tools.call(name, **GOOD[name])
        if name in names:
            assert outcome.refusal is None
            assert not outcome.error, outcome.content
            continue
        missing = permissions.find_missing(tool.required_permissions)
        assert outcome.refusal == tool_refusal(name, "Worker", missing)
        assert all(word in outcome.content for word in (name, "Worker", *missing))
        assert tree(tools.root) == before
        assert tools.sandbox.asked == []


@pytest.mark.parametrize(
    "name", ["", "rm", "read_files", "READ_FILE", "read_file ", "\ud800", "x" * 100_000, "a\x1b[31m\n"]
)
def test_a_tool_that_does_not_exist_is_an_error_that_names_the_others(tools: Bench, name: str) -> None:
    outcome = tools.raw(name, "{}")
    assert (outcome.refusal, outcome.error) == (None, True)
    assert outcome.content.isprintable()
    assert outcome.content.startswith("error: unknown tool: ")
    assert outcome.content.endswith("; your tools are: " + ", ".join(TOOLS))
    assert len(outcome.content) < 250


def test_an_unknown_tool_names_only_what_the_role_has(tmp_path: Path) -> None:
    reader = bench(tmp_path / "reader", Permissions(can_read_files=True)).ruled(disabled=("search",))
    outcome = reader.call("bash", command="ls")
    assert outcome.content == "error: unknown tool: bash; your tools are: read_file, list_directory"
    nobody = bench(tmp_path / "nobody", Permissions())
    assert nobody.call("bash").content == "error: unknown tool: bash; you have no tools"


def test_a_disabled_tool_is_refused(tools: Bench) -> None:
    outcome = tools.ruled(disabled=("create_file",)).call("create_file", path="x", content="")
    assert outcome.refusal is not None
    assert (
        outcome.refusal.message == "the tool create_file is disabled and was not offered to the role Worker"
    )
    assert not (tools.root / "x").exists()


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("read_file", "", "missing `path`"),
        ("read_file", "{}", "missing `path`"),
        ("write_file", "{}", "missing `path`, `content`"),
        ("read_file", "{", "not valid JSON"),
        ("read_file", "path=a", "not valid JSON"),
        ("read_file", '{"path": "a"} x', "not valid JSON"),
        ("read_file", '"a"', "must be a JSON object"),
        ("read_file", "[]", "must be a JSON object"),
        ("read_file", "null", "must be a JSON object"),
        ("read_file", '{"path": "a", "path": "b"}', "duplicate key"),
        ("read_file", '{"path": 1}', "`path` must be text, not 1"),
        ("read_file", '{"path": ["a"]}', "`path` must be text, not a list"),
        ("read_file", '{"path": {"a": NaN}}', "NaN"),
        ("read_file", '{"path": "a", "limit": Infinity}', "Infinity"),
        ("read_file", '{"path": "a", "limit": 0}', "`limit` must be at least 1"),
        ("read_file", '{"path": "a", "limit": 1.5}', "`limit` must be an integer, not 1.5"),
        ("read_file", '{"path": "a", "limit": 1e999}', "`limit` must be an integer"),
        ("read_file", '{"path": "a", "limit": "5"}', '`limit` must be an integer, not "5"'),
        ("read_file", '{"path": "a", "limit": true}', "`limit` must be an integer, not true"),
        ("read_file", '{"path": "a", "limit": ' + "9" * 5000 + "}", "a number that is too long: 5000 digits"),
        ("read_file", '{"path": "a", "lines": 1}', 'unknown argument "lines"; known: `path`, `offset`'),
        ("read_file", '{"path": "a", "' + "k" * 9999 + '": 1}', "unknown argument"),
        ("list_directory", '{"depth": 4}', "`depth` must be at most 3"),
        ("search", '{"pattern": "a", "regex": "yes"}', '`regex` must be true or false, not "yes"'),
        ("read_file", "[" * 100_000, "nested 100000 levels deep"),
        ("read_file", '{"path": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested 100001 levels deep"),
        ("read_file", '{"a":' * 500_000 + "1" + "}" * 500_000, "nested 500000 levels deep"),
        ("read_file", '{"path": ' + "[" * 100 + "]" * 100 + "}", "nested 101 levels deep; the limit is 100"),
        ("read_file", '{"path": ' + "[" * 99 + "]" * 99 + "}", "`path` must be text, not a list"),
        ("read_file", "{" + " " * (16 << 20) + "}", "the limit is 16,777,216"),
        ("write_file", '{"path": "a", "content": "\\ud800"}', "half of a surrogate pair"),
        ("edit_file", '{"path": "a", "old": "x", "new": "\\udcff"}', "half of a surrogate pair"),
        ("search", '{"pattern": "\\ud800"}', "not valid Unicode"),
        ("execute_command", '{"command": "\\ud800"}', "not valid Unicode"),
        ("execute_command", '{"command": "a\\u0000b"}', "NUL"),
        ("execute_command", '{"command": " \\n"}', "empty"),
    ],
)
def test_bad_arguments_go_back_to_the_model(tools: Bench, name: str, arguments: str, words: str) -> None:
    outcome = tools.raw(name, arguments)
    assert words in outcome.content
    assert outcome.error
    assert outcome.refusal is None
    assert len(outcome.content) < 400
    assert tools.sandbox.asked == []
    assert tree(tools.root) == {}


def test_null_and_whole_floats_are_taken_as_meant(tools: Bench) -> None:
    (tools.root / "a").write_text("1\n2\n3\n")
    outcome = tools.raw("read_file", '{"path": "a", "offset": 2.0, "limit": 1, "column": null}')
    assert outcome.content == "[a: lines 2-2 of 3]\n2\n[... 2 more bytes; continue with offset=3]"


def test_a_tool_may_need_approval(tools: Bench) -> None:
    careful = tools.ruled(require_approval=("execute_command", "write_file"))
    outcome = careful.call("execute_command", command=f"rm -rf x\n\x1b[2Jecho {SECRET}" + "y" * 500)
    assert outcome.refusal is not None
    assert outcome.refusal.kind == "approval"
    message = outcome.refusal.message
    assert message.startswith(
        "the tool execute_command needs a steward's approval (job resubmit --allow execute_command): rm -rf x [2Jecho [redacted]yyy"
    )
    assert message.isprintable()
    assert len(message) < 250
    assert tools.sandbox.asked == []
    assert careful.call("write_file", path="x", content="").content.endswith("--allow write_file): x")
    assert not (tools.root / "x").exists()
    allowed = careful.with_(approved=frozenset({"execute_command"}))
    assert allowed.done("execute_command", command="true").startswith("[exit status 0")
    assert allowed.call("write_file", path="x", content="").refusal is not None


def test_permissions_come_before_arguments_and_arguments_before_approval(tools: Bench) -> None:
    careful = tools.ruled(require_approval=("write_file",))
    assert careful.raw("write_file", "{}").error
    denied = careful.with_(permissions=Permissions())
    assert denied.raw("write_file", "{").refusal == tool_refusal(
        "write_file", "Worker", [Permission.WRITE_FILES]
    )


def test_writing_a_new_file_takes_the_permission_to_create(tools: Bench) -> None:
    writer = tools.with_(permissions=EVERYTHING.model_copy(update={"can_create_files": False}))
    (tools.root / "there").write_text("x")
    writer.done("write_file", path="there", content="y")
    for path in ("new", "./new", "no/new"):
        outcome = writer.call("write_file", path=path, content="y")
        assert outcome.refusal == tool_refusal("write_file", "Worker", [Permission.CREATE_FILES])
    assert tree(tools.root) == {"there": b"y"}


@pytest.mark.parametrize("name", sorted(GOOD))
def test_nothing_is_done_when_the_time_is_up_or_a_person_stops(tools: Bench, name: str) -> None:
    (tools.root / "a.txt").write_text("alpha\n")
    late = tools.with_(deadline=time.monotonic() - 1)
    assert "the time limit of this step is reached" in late.fails(name, **GOOD[name])
    assert "stopped by a person" in tools.with_(stop=lambda: True).fails(name, **GOOD[name])
    assert tree(tools.root) == {"a.txt": b"alpha\n"}
    assert tools.sandbox.asked == []


@pytest.mark.parametrize("limit", [1, 10, 100, 500, 1000])
@pytest.mark.parametrize("name", sorted(GOOD))
def test_no_result_is_longer_than_the_limit(tools: Bench, name: str, limit: int) -> None:
    (tools.root / "a.txt").write_text("alpha\n" * 1000)
    tools.sandbox.stdout = tools.sandbox.stderr = b"output\n" * 10_000
    for arguments in (GOOD[name], {"path": "x" * 5000}, {"x" * 5000: 1}):
        assert len(tools.ruled(max_result_chars=limit).call(name, **arguments).content) <= limit


def received(name: str, arguments: str) -> Call:
    """A call as it is kept when a model has made it."""
    asked = Ask(request=Request(), model=Model(name="m", provider_model="p/m"), role="Worker")
    answer = ModelAnswer(Tokens(1, 1), "tool_calls", calls=(Call(id="1", name=name, arguments=arguments),))
    return booking.build_reply(asked, answer, "", 0.1, [SECRET]).calls[0]


@pytest.mark.parametrize("name", sorted(GOOD))
def test_a_call_that_lost_a_secret_changes_nothing(tools: Bench, name: str) -> None:
    (tools.root / "a.txt").write_text("alpha\n")
    last = list(GOOD[name])[-1:]
    spoilt = GOOD[name] | {key: GOOD[name][key] + SECRET for key in last}
    call = received(name, json.dumps(spoilt))
    assert call.redacted is bool(last)
    assert SECRET not in call.arguments
    outcome = run_tool(call, tools.context)
    told = "the arguments contain what looks like a secret; Logist removed it and did not run the tool"
    assert (outcome.content == f"error: {told}") is (name in CHANGING)
    assert outcome.refusal is None
    assert tree(tools.root) == {"a.txt": b"alpha\n"}
    assert tools.sandbox.asked == []


@pytest.mark.parametrize("content", ["beta", "the key is [redacted]", "half \ud800"])
def test_a_call_without_a_secret_is_whole(content: str) -> None:
    assert not received("create_file", json.dumps({"path": "b.txt", "content": content})).redacted
    assert not received("create_file", '{"path": "b.txt", "content": "\ud800"}').redacted


def test_a_role_that_lacks_a_permission_is_told_that_first(tools: Bench) -> None:
    call = received("write_file", json.dumps({"path": "a", "content": SECRET}))
    assert run_tool(call, tools.with_(permissions=Permissions()).context).refusal is not None
