"""`logist job role`, and where the role of a job is shown."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import time
from contextlib import suppress
from typing import Any, ClassVar, get_args

import pytest

from logist.cli.show import glance, render
from logist.cli.show.output import StyledText
from logist.core.model.spec import Role
from logist.core.text.columns import count_columns
from logist.resources import find_resource
from logist.roles import load_roles
from logist.store import JobDir
from logist.store.settled_state import compute_checksum
from tests import support
from tests.cli.desk import Desk, answer, command
from tests.cli.test_interrupted import MODELS, Slow, paid

SHIPPED = {name: found.role for name, found in load_roles([find_resource("roles")]).by_name.items()}
COLORED = {"FORCE_COLOR": "1"}
BLUE = "\x1b[34m\x1b[1m🔍 Planner\x1b[0m"
GREEN = "\x1b[32m\x1b[1m⚡ Actor\x1b[0m"


def shown(desk: Desk, *options: str) -> dict[str, Any]:
    data: dict[str, Any] = desk("job", "status", "j1", *options, "--json").json["data"]
    return data


class TestCommand:
    def test_p33_p36_it_says_from_whom_to_whom(self, desk: Desk) -> None:
        desk.create()
        ran = desk("job", "role", "j1", "Planner", "--note", "Look first.")
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.splitlines() == [
            "#2 steward: role Worker -> Planner, PENDING -> PENDING",
            "   Look first.",
            "j1 is PENDING",
            "next: logist job step --job j1",
        ]
        entry = desk.history()[-1]
        assert (entry["kind"], entry["actor"]) == ("role", "steward")
        assert entry["steward"] == {"name": "ada", "note": "Look first.", "via": "pipe"}
        assert desk("job", "history", "j1").out.splitlines()[1:3] == ran.out.splitlines()[:2]

    def test_the_job_may_be_chosen_in_every_way(self, desk: Desk) -> None:
        desk.create()
        assert desk("job", "role", "--job", "j1", "Planner").code == 0
        assert desk("job", "role", "Actor", env={"LOGIST_JOB_ID": "j1"}).code == 0
        assert desk("job", "role", "--reset", "j1").code == 0
        assert desk("job", "role", "--reset", "--job", "j1").err.startswith(
            "j1 has no role switch to undo: its role is Worker (default)"
        )
        assert [entry["command"]["to"] for entry in desk.history()[1:]] == ["Planner", "Actor", "Worker"]

    @pytest.mark.parametrize("words", [["j1"], [], ["j1", "Planner", "x"], ["j1", "Planner", "--reset"]])
    def test_what_is_no_job_and_role(self, desk: Desk, words: list[str]) -> None:
        desk.create()
        before = desk.tree()
        ran = desk("job", "role", *words)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.count("\n") == 1
        assert desk.tree() == before

    def test_p5_an_unknown_role_names_the_valid_ones(self, desk: Desk) -> None:
        desk.create()
        before = desk.tree()
        ran = desk("job", "role", "j1", "Plannr")
        assert (ran.code, ran.out) == (2, "")
        assert "unknown role `Plannr` (did you mean `Planner`? valid roles: Actor, Commander," in ran.err
        assert desk.tree() == before

    def test_a_broken_role(self, desk: Desk) -> None:
        desk.create()
        (desk.home / "roles").mkdir()
        (desk.home / "roles" / "Poet.yaml").write_text("name: Poet\npermissions: {can_fly: true}\n", "utf-8")
        ran = desk("job", "role", "j1", "Poet")
        assert (ran.code, ran.out) == (5, "")

    def test_the_same_role_again_is_told_and_not_recorded(self, desk: Desk) -> None:
        desk.create()
        desk("job", "role", "j1", "Planner")
        before = desk.tree()
        ran = desk("job", "role", "j1", "Planner")
        assert (ran.code, ran.err) == (0, "j1 already has the role Planner (switch): nothing recorded\n")
        assert ran.out.startswith("j1 is PENDING\n")
        assert desk.tree() == before

    def test_a_draft_may_be_switched(self, desk: Desk) -> None:
        desk.create("j1", "--draft")
        assert desk("job", "role", "j1", "Planner").code == 0
        desk("job", "activate", "j1")
        assert "You work in the PLANNER role" in desk("job", "preview", "j1").out


class TestAtWork:
    """P37: a switch on a job with an agent at work stops the run, and only if a person says so."""

    @pytest.mark.deep
    def test_p37_without_a_terminal_it_takes_yes(self, desk: Desk) -> None:
        with Slow({"text": command()}) as server:
            desk.settings(MODELS.replace("{url}", server.url).replace(" &model", ""))
            desk.create()
            started = desk.started("job", "step", "j1", env=paid(desk), stderr=subprocess.DEVNULL)
            server.wait_for(1)
            refused = desk("job", "role", "j1", "Planner")
            assert (refused.code, refused.out) == (8, "")
            assert (
                "(to stop the agent, and leave its request in doubt: logist job role --job j1 Planner --yes)"
                in refused.err
            )
            same = desk("job", "role", "j1", "Worker", "--yes")
            assert (same.code, shown(desk)["status"]) == (0, "RUNNING")
            assert desk("job", "role", "j1", "Nobody", "--yes").code == 2
            assert len(desk.history()) == 1
            done = desk("job", "role", "j1", "Planner", "--yes")
            assert (done.code, started.wait()) == (0, 3)
            assert "stopping the agent (courier pid" in done.err
            assert [entry["kind"] for entry in desk.history()] == ["create", "recover", "role"]
        assert len(server.requests) == 1
        assert (shown(desk)["role"], shown(desk)["status"]) == ("Planner", "STUCK")

    @pytest.mark.deep
    @pytest.mark.parametrize(
        ("reply", "kinds"), [("n\n", ["create"]), ("y\n", ["create", "recover", "role"])]
    )
    def test_p37_at_a_terminal_it_asks_and_warns(self, desk: Desk, reply: str, kinds: list[str]) -> None:
        with Slow({"text": command()}) as server:
            desk.settings(MODELS.replace("{url}", server.url).replace(" &model", ""))
            desk.create()
            started = desk.started("job", "step", "j1", env=paid(desk), stderr=subprocess.DEVNULL)
            server.wait_for(1)
            seen, code = answered(desk, "job", "role", "j1", "Planner", reply=reply)
            assert "stop it and interrupt its work? [y/N]" in seen
            assert [entry["kind"] for entry in desk.history()] == kinds
            if reply == "n\n":
                assert code == 8
                assert desk("job", "cancel", "j1", "--yes").code == 0
            started.wait()


def answered(desk: Desk, *args: str, reply: str) -> tuple[str, int]:
    """A command on a terminal at which a person answers the question: `(what was seen, exit code)`."""
    master, slave = pty.openpty()
    environment = support.process_environment() | desk.env | {"TERM": "xterm", "NO_COLOR": "1"}
    started = subprocess.Popen(
        [*support.logist_command(), *args],
        cwd=desk.place,
        env=environment,
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    seen, until = b"", time.monotonic() + support.CRASHED
    while started.poll() is None and time.monotonic() < until:
        if select.select([master], [], [], 0.1)[0]:
            with suppress(OSError):  # it has left
                seen += os.read(master, 65536)
        if b"[y/N]" in seen and reply:
            os.write(master, reply.encode())
            reply = ""
    os.close(master)
    return seen.decode(), started.wait()


class TestShown:
    def test_p39_in_a_pipe_the_bare_name(self, desk: Desk) -> None:
        desk.create("j1", "--role", "Planner")
        assert desk("job", "list").out.split("\t")[2] == "Planner"
        assert "\n  role: Planner (job)\n" in desk("job", "status", "j1").out
        out = "".join(
            desk(*args).out for args in (["job", "list"], ["job", "status", "j1"], ["role", "list"])
        )
        assert "🔍" not in out
        assert (shown(desk)["badge"], shown(desk)["color"]) == ("🔍", "blue")

    def test_p39_planner_is_blue_with_a_magnifier_and_actor_green_with_a_bolt(self, desk: Desk) -> None:
        desk.create("j1", "--role", "Planner")
        desk.create("j2", "--role", "Actor")
        desk.create("j3")
        listed = [line.split("\t")[2] for line in desk("job", "list", env=COLORED).out.splitlines()]
        assert listed == [BLUE, GREEN, "Worker"]
        for job_id, role in (("j1", BLUE), ("j2", GREEN)):
            assert f"\n  role: {role} (job)\n" in desk("job", "status", job_id, env=COLORED).out
        roles = desk("role", "list", env=COLORED).out
        assert BLUE in roles
        assert GREEN in roles
        assert desk("role", "show", "Planner", env=COLORED).out.startswith(f"{BLUE}: ")

    @pytest.mark.deep
    @pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
    def test_p39_who_wants_it_plain_gets_it_plain(self, desk: Desk, env: dict[str, str]) -> None:
        desk.create("j1", "--role", "Planner")
        for args in (["job", "list"], ["job", "status", "j1"], ["role", "list"]):
            seen = desk.on_terminal(*args, env=env, columns=200)
            assert "Planner" in seen
            assert "🔍" not in seen
            assert "\x1b" not in seen

    def test_badges_keep_the_columns(self, desk: Desk) -> None:
        for name in ("Planner", "Actor", "Worker", "Tester"):
            desk.create(name.lower(), "--role", name, "--title", "T")
        seen = desk.on_terminal("job", "list")
        plain = [line.translate(NOTHING) for line in strip(seen).splitlines()]
        columns = {count_columns(line[: line.index("$")]) for line in plain[1:]}
        assert ("🔍 Planner" in seen, len(plain), len(columns)) == (True, 5, 1)

    def test_p42_each_message_has_the_badge_of_its_role(self, desk: Desk) -> None:
        desk.script(answer(), answer(command(output=PLAN)))
        desk.create()
        desk("job", "step", "j1", "--role", "Actor")
        desk("job", "restep", "j1", "--to", "2")
        desk("job", "role", "j1", "Planner")
        desk("job", "step", "j1")
        (desk.home / "roles").mkdir()
        (desk.home / "roles" / "Planner.yaml").write_text("name: Planner\n", "utf-8")  # not needed any more
        lines = desk("job", "history", "j1", env=COLORED).out.splitlines()
        told = [line for line in lines if line.startswith("\x1b[2m#")]
        assert told[1].startswith(f"\x1b[2m#2\x1b[0m {GREEN}: COMPLETED")
        assert "steward\x1b[0m: role Worker -> Planner, " in told[3]
        assert told[4].startswith(f"\x1b[2m#5\x1b[0m {BLUE}: COMPLETED")
        plain = desk("job", "history", "j1").out
        assert "#5 Planner: COMPLETED" in plain
        assert "🔍" not in plain

    def test_p40_p41_what_the_role_is_for_and_how_to_switch_it(self, desk: Desk) -> None:
        desk.create("j1", "--role", "Planner")
        command_line = "    to switch: logist job role --job j1 NAME\n"
        brief, whole = desk("job", "status", "j1").out, desk("job", "status", "j1", "-v").out
        assert f"\n  role: Planner (job)\n{command_line}" in brief
        what = " ".join(SHIPPED["Planner"].description.split())
        assert f"\n  role: Planner (job)\n    {what}\n{command_line}" in whole
        assert shown(desk)["switch_command"] == "logist job role --job j1 NAME"
        assert (shown(desk)["role_description"], shown(desk, "-v")["role_description"]) == (None, what)
        assert desk("job", "cancel", "j1").code == 0
        assert "to switch:" not in desk("job", "status", "j1").out
        assert shown(desk)["switch_command"] is None

    def test_p40_a_role_that_is_not_here_breaks_nothing(self, desk: Desk) -> None:
        (desk.home / "roles").mkdir()
        file = desk.home / "roles" / "Poet.yaml"
        file.write_text("name: Poet\ndescription: d\ninstructions: i\nllm_model: m\nbadge: 🪶\n", "utf-8")
        desk.create("j1", "--role", "Poet")
        file.unlink()
        ran = desk("job", "status", "j1", "-v", env=COLORED)
        assert ran.code == 0
        assert "\n  role: \x1b[1m🪶 Poet\x1b[0m (job)\n" in ran.out

    def test_p4_the_state_and_its_source(self, desk: Desk) -> None:
        desk.create()
        assert (shown(desk)["role"], shown(desk)["role_source"]) == ("Worker", "default")
        desk("job", "role", "j1", "Planner")
        assert (shown(desk)["role"], shown(desk)["role_source"]) == ("Planner", "switch")
        assert (desk.state()["agent_role"], desk.state()["agent_role_source"]) == ("Planner", "switch")

    @pytest.mark.parametrize(
        "change",
        [
            {"badge": "\x1b[31mX"},
            {"badge": "wide wide"},
            {"badge": "\n"},
            {"color": "red bold"},
            {"color": "no colour"},
            {"badge": "\u202e"},
        ],
    )
    def test_a_badge_or_colour_from_elsewhere_steers_nothing(
        self, desk: Desk, change: dict[str, str]
    ) -> None:
        desk.create()
        state = desk.state() | change
        del state["checksum"]
        (desk.job() / "state.json").write_text(
            json.dumps(state | {"checksum": compute_checksum(state)}), "utf-8"
        )
        for args in (["job", "list"], ["job", "status", "j1"]):
            ran = desk(*args, env=COLORED)
            assert ran.code == 0
            assert "\x1b[1mWorker\x1b[0m" in ran.out

    def test_p45_a_state_without_a_role_is_listed_and_shown(self, desk: Desk) -> None:
        desk.create()
        gone = ("agent_role", "agent_role_source", "badge", "color", "checksum")
        state = {name: value for name, value in desk.state().items() if name not in gone}
        (desk.job() / "state.json").write_text(
            json.dumps(state | {"checksum": compute_checksum(state)}), "utf-8"
        )
        before = desk.tree()
        assert desk("job", "list").out.split("\t")[2] == "Worker"
        assert (shown(desk)["role"], shown(desk)["role_source"]) == ("Worker", "default")
        assert desk.tree() == before
        assert desk("job", "step", "j1").code == 0
        assert desk.state()["agent_role"] == "Worker"


NOTHING = {ord(character): None for character in "\r"}


def strip(text: str) -> str:
    """Without what colours a terminal."""
    import re

    return re.sub(r"\x1b\[[0-9;]*m", "", text)


PLAN = {"goal": "It works.", "steps": [{"step_number": 1, "action": "Add a test.", "reason": "None."}]}


class TestQuestion:
    """P52: a question is STUCK, and its answers can be read where the job is looked at."""

    ASKED: ClassVar[dict[str, Any]] = {
        "type": "question",
        "question": "Which database?",
        "options": [{"label": "One file", "value": "sqlite"}, {"label": "A server", "value": "pg"}, "both"],
        "severity": "medium",
        "default": "sqlite",
    }

    def test_p52_it_is_shown_with_its_options(self, desk: Desk) -> None:
        desk.script(answer(command("STUCK", summary="A choice.", output=self.ASKED)), answer("?"))
        desk.create("j1", "--role", "Actor")
        assert desk("job", "step", "j1").code == 3
        lines = [
            "  question: Which database?",
            "    sqlite: One file (default)",
            "    pg: A server",
            "    both",
        ]
        assert "\n".join(lines) in desk("job", "status", "j1").out
        assert shown(desk)["last"]["output"] == self.ASKED
        desk("job", "resubmit", "j1", "--note", "sqlite")
        assert "question:" not in desk("job", "status", "j1").out
        desk("job", "step", "j1")
        assert "question:" not in desk("job", "status", "j1").out  # stuck again, for another reason

    @pytest.mark.parametrize("output", [{"type": "question"}, {"type": "question", "options": 7}, [], "x", 7])
    def test_any_output_is_bearable(self, desk: Desk, output: object) -> None:
        desk.script(answer(command("STUCK", summary="A choice.", output=output)))
        desk.create()
        desk("job", "step", "j1")
        assert desk("job", "status", "j1").code == 0

    def test_values_that_are_no_text_are_shown_as_json(self, desk: Desk) -> None:
        options = [{"label": "All", "value": {"a": [True]}}, {"label": ["x"], "value": None}, "none"]
        asked = {"type": "question", "question": "Which?", "options": options}
        desk.script(answer(command("STUCK", summary="A choice.", output=asked)))
        desk.create()
        desk("job", "step", "j1")
        lines = ["  question: Which?", '    {"a": [true]}: All', '    null: ["x"]', "    none"]
        assert "\n".join(lines) in desk("job", "status", "j1").out

    def test_p52_a_plan_is_the_output(self, desk: Desk) -> None:
        step = {
            "step_number": 1,
            "action": "Add a test.",
            "reason": "None is there.",
            "tools_needed": ["write"],
        }
        plan = {"goal": "It works.", "steps": [step], "risks": ["None."]}
        desk.script(answer(command(output=plan)))
        desk.create("j1", "--role", "Planner")
        desk("job", "step", "j1")
        assert desk.state()["outputs"]["task"] == plan


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_p22_p32_exactly_one_role_prompt_is_injected(desk: Desk, name: str) -> None:
    desk.create()
    if name != "Worker":
        assert desk("job", "role", "j1", name).code == 0
    prompt = desk("job", "preview", "j1").out
    found = [other for other, role in SHIPPED.items() if role.instructions.strip() in prompt]
    assert found == [name]
    assert prompt.count("You are operating in") == prompt.count(f"You are operating in {name.upper()} role.")
    parts = [
        part["source"] for part in desk("job", "preview", "j1", "--json").json["data"]["request"]["parts"]
    ]
    assert [source for source in parts if source.startswith("role:")] == [f"role:{name}"]


def test_glance_knows_every_colour_of_a_role() -> None:
    colors = get_args(Role.model_fields["color"].annotation)[0]
    assert set(get_args(colors)) == set(glance.ROLE_COLORS)


@pytest.mark.parametrize(("encoding", "text"), [("ascii", "Planner"), ("utf-8", "🔍 Planner")])
def test_a_badge_that_the_terminal_can_not_write_is_left_out(
    monkeypatch: pytest.MonkeyPatch, encoding: str, text: str
) -> None:
    import io

    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    assert strip(render.style_line((StyledText("Planner", "blue", "🔍"),), True)) == text
    assert render.style_line((StyledText("Planner", "blue", "🔍"),), False) == "Planner"


def test_a_job_whose_lock_is_held_is_not_switched(desk: Desk) -> None:
    desk.create()
    job = JobDir.open(desk.jobs, "j1")
    with job.hold_lock(command="job step", since="2026-01-02T03:04:05Z"):
        assert desk("job", "role", "j1", "Planner").code == 8
    assert len(desk.history()) == 1


def test_a_plan_is_shown_as_a_text_with_what_an_approval_of_it_does(desk: Desk) -> None:
    steps = [
        {"step_number": 1, "action": "Create a.txt", "reason": "The goal"},
        {"step_number": 2, "action": "Check it", "reason": "Care"},
    ]
    desk.script(answer(command(output={"goal": "a.txt is there.", "steps": steps})), answer())
    desk.create("j1", "--role", "Planner", "--no-review")
    stepped = desk("job", "step", "j1")
    plan = [
        "goal: a.txt is there.",
        "1. Create a.txt",
        "   reason: The goal",
        "2. Check it",
        "   reason: Care",
    ]
    for out, indent in (
        (stepped.out, "     "),
        (desk("job", "history", "j1").out, "     "),
        (desk("job", "status", "j1").out, "    "),
        (desk("job", "show", "j1").out, "   "),
    ):
        shown = out.splitlines()
        first = shown.index(f"{indent}{plan[0]}")
        assert shown[first : first + 5] == [f"{indent}{line}" for line in plan]
        assert '"steps"' not in out
    to_actor = "logist job role --job j1 Actor, then: logist job approve --job j1, to carry out the plan; "
    assert f"next: {to_actor}" in stepped.out
    assert to_actor in desk("job", "status", "j1").out
    carried_out = "next: logist job approve --job j1 to let Actor carry out the plan"
    assert carried_out in desk("job", "role", "j1", "Actor").out
    assert carried_out in desk("job", "status", "j1").out
    approved = desk("job", "approve", "j1")
    assert (
        approved.code,
        "approve, Actor carries out the plan, APPROVAL_REQUIRED -> PENDING" in approved.out,
    ) == (
        0,
        True,
    )
    assert "  plan of Planner (#2, approved): logist job history --job j1" in desk("job", "status", "j1").out
    assert "## The approved plan" in desk("job", "preview", "j1").out
