"""Every command's `--json`, failures included, against the published schemas."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from typing import Any

import jsonschema
import pytest
from referencing import Registry, Resource

from logist.cli.commands.inbox import INBOX
from logist.cli.main import ATTEST, BUDGET, CONFIG, JOB, ROLE, ROOT, RUNS, SKILL, WORKFLOW
from logist.core.money.budgets import BookedCall, Cost
from logist.resources import find_resource
from logist.store.ledger import Ledger
from tests import support
from tests.cli.desk import Desk, answer, command
from tests.tool_server import write_noter

SESSIONS = support.ROOT / "fixtures" / "sessions"
ADOPTED = "claude-" + next((SESSIONS / "claude" / "edit").rglob("*.jsonl")).stem
SHARED = {"envelope", "shapes"}
BARE = {"workflow next"}
"""Prints its data alone, as a protocol of other tools has it; a failure is told as by every command."""
COMMANDS = (
    *(
        name
        for name in ROOT
        if name not in ("attest", "budget", "config", "job", "role", "runs", "skill", "workflow")
    ),
    *(f"budget {name}" for name in BUDGET),
    *(f"config {name}" for name in CONFIG),
    *(f"inbox {name}" for name in INBOX),
    *(f"job {name}" for name in JOB),
    *(f"role {name}" for name in ROLE),
    *(f"runs {name}" for name in RUNS),
    *(f"skill {name}" for name in SKILL),
    *(f"attest {name}" for name in ATTEST),
    *(f"workflow {name}" for name in WORKFLOW),
)


@cache
def schemas() -> dict[str, Any]:
    files = find_resource("schemas", "cli").glob("*.json")
    return {file.stem: json.loads(file.read_text("utf-8")) for file in files}


def validate(instance: Any, schema: dict[str, Any]) -> None:
    known = [(each["$id"], Resource.from_contents(each)) for each in schemas().values()]
    jsonschema.Draft202012Validator(schema, registry=Registry().with_resources(known)).validate(instance)


def test_every_command_has_a_schema_and_every_schema_a_command() -> None:
    assert set(schemas()) - SHARED == {name.replace(" ", "-") for name in COMMANDS}
    for name, schema in schemas().items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["$id"] == f"{name}.json"


def pending(desk: Desk) -> None:
    desk.create("j1", "--title", "Größe")


def in_git(desk: Desk) -> None:
    past = {"GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z"}
    for arguments in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "First"]):
        subprocess.run(
            ["git", "-c", "user.name=ada", "-c", "user.email=ada@localhost", *arguments],
            cwd=desk.place,
            env=os.environ | past,
            check=True,
        )
    pending(desk)


def adopted(desk: Desk) -> None:
    desk("adopt", str(SESSIONS / "claude" / "edit"))


def batch(desk: Desk) -> None:
    (desk.place / "batch.jsonl").write_text(
        '{"prompt": "x", "id": "b2"}\n{"prompt": "y", "title": "Größe"}\n', "utf-8"
    )


def draft(desk: Desk) -> None:
    desk.create("j1", "--draft")


def approvable(desk: Desk) -> None:
    pending(desk)
    desk("job", "run", "j1")


def approved(desk: Desk) -> None:
    desk.script(answer(files={"a.txt": "a"}), answer())
    support.make_repository(desk.place / "repo")
    desk("job", "create", "--id", "j1", "--prompt", "Do it.", "--repo", "repo")
    desk("job", "run", "j1")
    desk("job", "approve", "j1")


def moved(desk: Desk) -> None:
    approved(desk)
    (desk.place / "repo" / "later.txt").write_text("later")
    support.git(desk.place / "repo", "add", "later.txt")
    support.git(desk.place / "repo", "commit", "--quiet", "--message", "later")


def stuck(desk: Desk) -> None:
    desk.script(answer(command(output={"a": 1}, evidence_files=["a.txt"])), answer("?"))
    pending(desk)
    desk("job", "run", "j1")


def halted(desk: Desk) -> None:
    desk.create("j1", "--cost-threshold", "0")
    desk("job", "step", "j1")


def raised(desk: Desk) -> None:
    halted(desk)
    desk("job", "config", "j1", "--set", "limits.cost_threshold=10")


def unreadable(desk: Desk) -> None:
    stuck(desk)
    (desk.job() / "state.json").write_text("{", "utf-8")


def torn(desk: Desk) -> None:
    stuck(desk)
    file = desk.job() / "jobHistory.json"
    file.write_bytes(file.read_bytes().replace(b'"sequence":2,', b'"sequence":9,'))


def leaked(desk: Desk) -> None:
    stuck(desk)
    (desk.job() / "logs" / "courier.log").write_text("key " + "sk-" + "a1B2" * 8, "utf-8")
    (desk.job() / "workspace" / "key").write_text("npm" + "_" + "a1B2" * 9, "utf-8")


def badly_configured(desk: Desk) -> None:
    pending(desk)
    desk.settings("limts: 1\n")
    (desk.home / "roles").mkdir()
    (desk.home / "roles" / "Poet.yaml").write_text("name: Poet\n", "utf-8")


def spent(desk: Desk) -> None:
    """Two calls are booked, one of them without an answer, and there are budgets."""
    pending(desk)
    call = BookedCall("j1/0123456789abcdef/1", "j1", "2026-01-02", "openai", "openai/gpt-5", "", ("nightly",))
    ledger = Ledger(desk.home / "ledger")
    for number in (1, 2):
        assert (
            ledger.reserve(call._replace(id=f"j1/a/{number}"), Cost(7, 8, 1), [], "2026-01-02T03:04:05Z")
            is None
        )
    assert ledger.settle({"j1/a/1": Cost(5, 6, 1)}, "2026-01-02T03:04:05Z") == 1
    limits = [
        "all: {cost: 0.000005, tokens: 100}",
        "daily: {per: day, calls: 1, tag: nightly}",
        "one: {per: run, cost: 1}",
    ]
    desk.settings("budget:\n  limits:\n" + "".join(f"    {limit}\n" for limit in limits))


def has_run(desk: Desk) -> None:
    """A run has an end, an error, and a line that is damaged; another one was killed."""
    pending(desk)
    desk.create("j2")
    (desk.job("j2") / "job.yaml").write_text("prompt: [\n", "utf-8")
    assert desk("run", "--for", "1h30m").code == 5
    [record] = (desk.home / "runs").glob("*.jsonl")
    lines = record.read_bytes().splitlines(keepends=True)
    (record.parent / "2020-01-02T03:04:05-abcd.jsonl").write_bytes(b"".join(lines[:2]) + b'{"torn')
    record.write_bytes(b"".join([*lines[:2], b"damaged\n", *lines[2:]]))


def ledger_damaged(desk: Desk) -> None:
    spent(desk)
    file = desk.home / "ledger" / "ledger.json"
    file.write_bytes(file.read_bytes().replace(b'"tokens":8', b'"tokens":9', 1))


def untrusted(desk: Desk) -> None:
    desk.settings("sandbox: {mode: required}\n")


def with_tool_server(desk: Desk) -> None:
    pending(desk)
    write_noter(desk.home)
    assert desk("trust", "--yes").code == 0


WORKFLOW_FILE = """\
name: Letter
description: From a draft to the post
steps:
  - {id: draft, prompt: Write it., agentRole: You write short letters., guidance: [be kind], role: Worker}
  - id: good
    stepType: decision
    branches: [{condition: output.ok, targetStepId: send}, {condition: null, targetStepId: draft}]
  - {id: send, execution: manual, prompt: Send it., colour: red}
"""


def workflows(desk: Desk) -> None:
    folder = desk.home / "workflows"
    folder.mkdir()
    (folder / "letter.yaml").write_text(WORKFLOW_FILE, "utf-8")
    role = "**Agent's Role:** You are the postman."
    mixed = WORKFLOW_FILE.replace("Letter", "Mixed").replace("Send it.", f'"{role}\\n\\nSend it."')
    (desk.place / "mixed.yaml").write_text(mixed, "utf-8")
    (folder / "broken.mmd").write_text("graph TD\nA --> \n", "utf-8")


Prepare = Callable[[Desk], None]


def packed(desk: Desk) -> None:
    pending(desk)
    desk("job", "pack", "j1", "-o", "j1.tar.gz")
    shutil.rmtree(desk.job())


CASES: list[tuple[str, Prepare, list[str], int]] = [
    ("job open", pending, ["j1"], 0),
    ("job open", pending, ["nope"], 2),
    ("job du", pending, [], 0),
    ("job du", pending, ["nope"], 2),
    ("job pack", pending, ["j1"], 0),
    ("job pack", unreadable, ["j1"], 10),
    ("job unpack", packed, ["j1.tar.gz"], 0),
    ("job unpack", pending, ["answers.json"], 10),
    ("gc", approved, ["--older-than", "0d"], 0),
    ("gc", unreadable, ["--older-than", "0d", "--dry-run"], 10),
    ("gc", pending, ["--older-than", "x"], 2),
    ("job scrub", pending, ["j1", "--pattern", "[D]o it", "--force", "--yes"], 0),
    ("job scrub", pending, ["j1", "--pattern", "nowhere", "--dry-run"], 0),
    ("job scrub", pending, ["j1", "--pattern", "[D]o it", "--force"], 8),
    ("job scrub", pending, ["j1", "--yes"], 2),
    ("job delete", approved, ["j1", "--yes", "--force", "--prune"], 0),
    ("job delete", approved, ["j1"], 8),
    ("job delete", pending, ["j1", "--yes"], 8),
    ("init", pending, [], 0),
    ("init", pending, ["--model", "ollama/llama3"], 0),
    ("role set", pending, ["Worker", "llm_model", "ollama/llama3"], 0),
    ("role set", pending, ["Nobody", "llm_model", "ollama/llama3"], 2),
    ("role tools", with_tool_server, ["Noter"], 0),
    ("role tools", pending, ["Worker"], 2),
    ("trust", pending, [], 0),
    ("trust", untrusted, [], 8),
    ("trust", untrusted, ["--yes"], 0),
    ("doctor", stuck, ["--deep"], 0),
    ("doctor", unreadable, [], 10),
    ("doctor", badly_configured, [], 5),
    ("inbox", pending, [], 0),
    ("inbox", stuck, [], 3),
    ("inbox", unreadable, ["--kind", "damaged"], 10),
    ("inbox", stuck, ["-i"], 2),
    ("inbox snooze", stuck, ["j1", "--until", "2h"], 0),
    ("inbox snooze", pending, ["j1", "--until", "2h"], 8),
    ("inbox note", stuck, ["j1", "Ask Bob."], 0),
    ("inbox note", stuck, ["j1", ""], 2),
    ("budget show", spent, [], 0),
    ("budget show", badly_configured, [], 5),
    ("budget history", spent, ["--by", "tag"], 0),
    ("budget history", pending, ["--since", "yesterday"], 2),
    ("budget set", spent, ["daily", "--per", "day", "--cost", "250", "--tag", "nightly"], 0),
    ("budget set", pending, ["daily"], 2),
    ("budget verify", spent, [], 0),
    ("budget verify", ledger_damaged, [], 10),
    ("runs list", has_run, [], 0),
    ("runs list", has_run, ["--limit", "0"], 2),
    ("runs show", has_run, [], 0),
    ("runs show", pending, [], 2),
    ("config show", pending, [], 0),
    ("config show", badly_configured, [], 5),
    ("config set", pending, ["limits.max_attempts", "4"], 0),
    ("config set", pending, ["models.m", "{provider_model: x/y}", "--user", "--dry-run"], 0),
    ("config set", pending, ["limits.max_attempts", "x"], 2),
    ("config set", badly_configured, ["limits.max_attempts", "4"], 5),
    ("config unset", badly_configured, ["limts"], 0),
    ("config unset", pending, ["nothing"], 2),
    ("schema", pending, [], 0),
    ("schema", pending, ["config"], 0),
    ("schema", pending, ["nope"], 2),
    ("completion", pending, ["zsh"], 0),
    ("completion", pending, ["csh"], 2),
    ("attest create", stuck, ["j1"], 0),
    ("attest create", pending, ["nothing"], 2),
    ("attest verify", pending, ["nothing"], 2),
    ("blame", pending, ["nothing"], 2),
    ("stats", stuck, [], 0),
    ("stats", torn, ["--by", "day", "--by", "job"], 10),
    ("stats", pending, ["nowhere"], 2),
    ("sarif", stuck, ["--output", "log.sarif"], 0),
    ("sarif", torn, ["--output", "log.sarif"], 10),
    ("sarif", pending, [], 2),
    ("otel", stuck, ["--output", "spans.jsonl"], 0),
    ("otel", torn, ["--output", "spans.jsonl"], 10),
    ("otel", pending, ["--output", "spans.jsonl", "--endpoint", "http://127.0.0.1:1"], 2),
    ("whatif", stuck, ["--set", "limits.attempts=1", "--set", "review=off"], 0),
    ("whatif", approved, ["--set", "limits.cost=0", "--expect", "same"], 9),
    ("whatif", torn, ["--set", "limits.attempts=1"], 10),
    ("whatif", pending, [], 2),
    ("whatif", pending, ["--schema", "answers.json"], 5),
    ("run", pending, [], 11),
    ("run", unreadable, [], 10),
    ("run", approvable, [], 11),
    ("run", badly_configured, [], 5),
    ("job create", pending, ["--id", "j2", "--prompt", "x"], 0),
    ("job create", pending, ["--id", "j1", "--prompt", "x"], 8),
    ("job create", pending, [], 2),
    ("job create", batch, ["--batch", "batch.jsonl"], 0),
    ("job create", batch, ["--batch", "answers.json"], 5),
    ("watch", stuck, [], 0),
    ("watch", unreadable, [], 0),
    ("watch", pending, ["--jobs-dir", "answers.json"], 2),
    ("job list", stuck, [], 0),
    ("job list", unreadable, [], 0),
    ("job list", pending, ["--jobs-dir", "answers.json"], 2),
    ("job show", stuck, ["j1"], 0),
    ("job show", unreadable, ["j1"], 10),
    ("job status", draft, ["j1"], 0),
    ("job status", stuck, ["j1", "-v"], 0),
    ("job status", halted, ["j1"], 0),
    ("job status", approvable, ["j1"], 0),
    ("job status", unreadable, ["j1"], 10),
    ("job tail", pending, ["j1"], 0),
    ("job tail", pending, ["j9"], 2),
    ("job config", pending, ["j1"], 0),
    ("job config", pending, ["j1", "--set", "rank=3"], 0),
    ("job config", pending, ["j1", "--set", "rnk=3"], 5),
    ("job activate", draft, ["j1"], 0),
    ("job activate", pending, ["j1"], 8),
    ("job select", pending, ["j1"], 0),
    ("job select", pending, ["--clear"], 0),
    ("job select", pending, [], 2),
    ("job rank", pending, ["j1", "-3"], 0),
    ("job rank", pending, ["j1", "x"], 2),
    ("job preview", pending, ["j1"], 0),
    ("job preview", stuck, ["j1"], 3),
    ("job preview", draft, ["j1"], 8),
    ("job preview", approvable, ["j1"], 11),
    ("job preview", halted, ["j1"], 7),
    ("job preview", pending, ["j1", "--role", "Nobody"], 2),
    ("job preview", pending, ["j1", "--role", "fix", "--why", "--file", "x.py"], 0),
    ("job preview", pending, ["j1", "--file", "x.py"], 2),
    ("job step", pending, ["j1"], 0),
    ("job step", stuck, ["j1"], 3),
    ("job step", halted, ["j1"], 7),
    ("job step", draft, ["j1"], 8),
    ("job step", badly_configured, ["j1"], 5),
    ("job poststep", pending, ["j1", "--response-string", "?"], 3),
    ("job poststep", pending, ["j1", "--response-string", "?", "--dry-run"], 3),
    ("job poststep", pending, ["j1"], 2),
    ("job run", pending, ["j1"], 11),
    ("job run", stuck, ["j1"], 3),
    ("job run", unreadable, ["j1"], 10),
    ("job approve", approvable, ["j1"], 0),
    ("job approve", pending, ["j1"], 8),
    ("job approve", approvable, ["j1", "j2"], 2),
    ("job diff", approved, ["j1"], 0),
    ("job diff", draft, ["j1", "--since", "review"], 8),
    ("job diff", pending, ["j1", "3..4"], 2),
    ("serve", pending, ["--link"], 2),
    ("mcp", pending, ["--port", "1"], 2),
    ("job merge", pending, ["j1"], 8),
    ("job merge", approved, ["j1"], 0),
    ("job merge", approved, ["j1", "--dry-run", "--diff"], 0),
    ("job update", pending, ["j1"], 8),
    ("job update", approved, ["j1"], 0),
    ("job update", moved, ["j1", "--dry-run"], 0),
    ("job update", moved, ["j1"], 0),
    ("job reject", approvable, ["j1", "--note", "x"], 0),
    ("job reject", approvable, ["j1"], 2),
    ("job resubmit", stuck, ["j1", "--note", "x"], 0),
    ("job resubmit", pending, ["j1"], 8),
    ("job role", pending, ["j1", "Planner"], 0),
    ("job role", pending, ["j1", "--reset"], 0),
    ("job role", pending, ["j1", "Nobody"], 2),
    ("job suspend", pending, ["j1"], 0),
    ("job suspend", unreadable, ["j1"], 10),
    ("job resume", raised, ["j1"], 0),
    ("job resume", halted, ["j1"], 8),
    ("job cancel", stuck, ["j1"], 0),
    ("job cancel", pending, ["nope"], 2),
    ("job fail", stuck, ["j1"], 0),
    ("job fail", pending, ["../x"], 2),
    ("job restep", stuck, ["j1", "--to", "2"], 0),
    ("job restep", stuck, ["j1", "--to", "9"], 2),
    ("job rerun", stuck, ["j1", "--keep-files"], 0),
    ("job fork", stuck, ["j1", "--at", "2"], 0),
    ("job fork", stuck, ["j1", "--at", "9"], 2),
    ("job import", stuck, [".logist/jobs/j1", "--id", "j2"], 0),
    ("job import", torn, [".logist/jobs/j1"], 10),
    ("adopt", pending, [str(SESSIONS / "claude" / "edit")], 0),
    ("adopt", pending, [".logist/jobs/j1/jobHistory.json"], 10),
    ("whatif", adopted, ["--permissions", "Worker:read_files"], 0),
    ("job show", adopted, [f"--job={ADOPTED}"], 0),
    ("job rerun", torn, ["nope"], 2),
    ("job history", stuck, ["j1"], 0),
    ("job history", stuck, ["j1", "--raw", "3"], 0),
    ("job history", stuck, ["j1", "--prompt", "3"], 0),
    ("job history", stuck, ["j1", "--diff", "2", "3"], 0),
    ("job history", stuck, ["j1", "--with", "j1"], 0),
    ("job history", stuck, ["j1", "--diff", "2", "3", "--with", "j1"], 0),
    ("job history", torn, ["j1"], 10),
    ("skill install", pending, ["--yes"], 0),
    ("skill install", pending, ["--claude"], 8),
    ("bisect", in_git, [], 0),
    ("bisect", stuck, [], 2),
    ("replay", stuck, [], 0),
    ("replay", torn, ["--prompts", "fail"], 10),
    ("replay", pending, ["nowhere"], 2),
    ("job replay", stuck, ["j1"], 0),
    ("job replay", torn, ["j1"], 10),
    ("job export", stuck, ["j1", "--fixture", "f", "--redact"], 0),
    ("job export", stuck, ["j1", "--fixture", "."], 2),
    ("job export", torn, ["j1", "--fixture", "f"], 10),
    ("job export", stuck, ["--dataset", "-o", "d.jsonl"], 0),
    ("job export", torn, ["--dataset", "-o", "d.jsonl"], 10),
    ("job export", stuck, ["--dataset"], 2),
    ("job verify", stuck, ["j1"], 0),
    ("job verify", torn, ["j1"], 10),
    ("job verify", unreadable, ["j1"], 10),
    ("job verify", stuck, ["j1", "--secrets"], 0),
    ("job verify", leaked, ["--secrets", "--all"], 3),
    ("job verify", stuck, ["j1", "--all"], 2),
    ("role list", pending, [], 0),
    ("role list", badly_configured, [], 0),
    ("role show", pending, ["Worker"], 0),
    ("role show", badly_configured, ["Poet"], 5),
    ("role show", pending, ["Nobody"], 2),
    ("role new", pending, ["mine", "--base", "fix"], 0),
    ("role new", pending, ["mine", "--base", "Nobody"], 2),
    ("role validate", pending, [], 0),
    ("role validate", pending, ["Worker"], 0),
    ("role validate", badly_configured, [], 5),
    ("workflow list", workflows, [], 0),
    ("workflow list", pending, [], 0),
    ("workflow show", workflows, ["Letter"], 0),
    ("workflow show", workflows, ["broken"], 5),
    ("workflow show", workflows, ["nothing"], 2),
    ("workflow validate", workflows, [], 5),
    ("workflow validate", workflows, ["mixed.yaml"], 0),
    ("workflow validate", workflows, ["nothing.mmd"], 2),
    ("workflow lint", workflows, ["mixed.yaml"], 0),
    ("workflow lint", workflows, ["mixed.yaml", "--strict"], 5),
    ("workflow migrate", workflows, ["mixed.yaml"], 0),
    ("workflow migrate", workflows, ["mixed.yaml", "--write"], 0),
    ("workflow migrate", workflows, ["."], 2),
    ("workflow next", workflows, ["Letter"], 0),
    ("workflow next", workflows, ["Letter", "--completed", "draft", "send", "--context", '{"ok": 1}'], 0),
    ("workflow next", workflows, ["Letter", "--completed", "letter"], 2),
    ("workflow import", workflows, ["mixed.yaml"], 0),
    ("workflow import", workflows, ["broken"], 5),
    ("workflow export", workflows, ["Letter"], 0),
    ("workflow export", workflows, ["Letter", "-o", "letter.json"], 0),
    ("workflow export", workflows, ["Letter", "-o", "mixed.yaml"], 8),
]


def test_every_command_is_tried_and_those_that_can_fail_fail() -> None:
    tried = {name for name, *_ in CASES}
    assert tried | {"demo"} == set(COMMANDS)
    assert {name for name, _, _, code in CASES if code} | {
        "init",
        "role list",
        "workflow list",
        "demo",
    } == set(COMMANDS)


@pytest.mark.deep_beyond(70)
@pytest.mark.parametrize(
    ("name", "prepare", "args", "code"), CASES, ids=lambda value: getattr(value, "__name__", None)
)
def test_the_document_is_as_published(
    desk: Desk, name: str, prepare: Prepare, args: list[str], code: int
) -> None:
    prepare(desk)
    ran = desk(*name.split(), *args, "--json")
    assert ran.code == code, ran.out
    assert ran.err.count("error") == 0
    assert ran.out.count("\n") == 1
    assert ran.out.isascii()
    if code == 0 and name in BARE:
        validate(ran.json, schemas()[name.replace(" ", "-")])
        return
    validate(ran.json, schemas()["envelope"])
    if ran.json["data"] is None:
        assert code != 0
        assert [found["severity"] for found in ran.json["diagnostics"]] == ["error"]
    else:
        validate(ran.json["data"], schemas()[name.replace(" ", "-")])


@pytest.mark.parametrize("name", ["job list", "job history", "config show", "role list", "workflow list"])
def test_each_line_of_jsonl_is_one_of_the_rows(desk: Desk, name: str) -> None:
    stuck(desk)
    workflows(desk)
    args = [*name.split(), *(["j1"] if name == "job history" else [])]
    rows = [json.loads(line) for line in desk(*args, "--jsonl").out.splitlines()]
    assert rows == desk(*args, "--json").json["data"]
    validate(rows, schemas()[name.replace(" ", "-")])


@pytest.mark.deep
def test_the_demo(desk: Desk) -> None:
    ran = desk.process("demo", "tour", "--json")
    assert ran.code == 0
    validate(ran.json, schemas()["envelope"])
    validate(ran.json["data"], schemas()["demo"])
    codes = [command["exit_code"] for command in ran.json["data"]["commands"]]
    assert codes == [0, 0, 0, 0, 0, 3, 0, 0, 11, 0, 0, 0, 0]


def test_fields_nobody_published_are_found() -> None:
    with pytest.raises(jsonschema.ValidationError):
        validate({"home": "x", "made": [], "more": 1}, schemas()["init"])
