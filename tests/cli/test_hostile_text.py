"""Nothing that an agent, a file or a name says steers the terminal, hides, or forges a line of a listing."""

from __future__ import annotations

import json
import os
import pty
import signal
import termios
import threading
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from itertools import chain
from typing import Any

import pytest

from tests.cli.desk import Desk, answer, command
from tests.torture.hostile_texts import TEXTS, faults

ALL = "everything at once"
CLASSES = {**TEXTS, ALL: " ".join(text for name, text in TEXTS.items() if name != "very long")}
HERE = (ALL, "csi", "c1 as bytes", "c1 as characters", "a forged row by return", "line separators")
"""All classes at once, and some alone; `scripts/torture hostile/texts` tries each."""
RAW = ("preview", "config", "--raw", "--prompt", "Worker")
"""Several lines are their content: on a terminal they are cleaned all the same."""


def test_there_are_enough_classes() -> None:
    assert len(TEXTS) >= 16
    harmless = {"rich markup", "very long", "escapes of JSON", "format string", "combining"}
    assert {name for name, text in TEXTS.items() if not _hostile(text)} == harmless


def _hostile(text: str) -> bool:
    return any(faults(text.encode("utf-8", "surrogateescape") if _is_bytes(text) else _loose(text)))


def _is_bytes(text: str) -> bool:
    return any("\udc80" <= c <= "\udcff" for c in text) and "\ud800" not in text


def _loose(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def for_json(text: str) -> str:
    """As a file of JSON can hold it, and Logist takes it: a lone surrogate is refused."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\x01")


def for_names(text: str) -> str:
    """As a name of a file can hold it: no NUL, no slash, not long."""
    name = text.replace("\0", "").replace("/", "_")
    return os.fsdecode(name.encode("utf-8", "surrogateescape" if _is_bytes(text) else "replace")[:200])


def made(desk: Desk, text: str) -> None:
    """A project with that text in every field that may hold it."""
    said = for_json(text)
    file = for_names(text)
    more = {"output": {said: [said]}, "metadata": {said: said}}
    desk.script(
        answer("", error={"kind": "transient", "message": said}),
        answer(command("COMPLETED", said, **more | {"evidence_files": [f"x{for_json(file)}"]}), files={f"x{for_json(file)}": said}),
        answer(command("RETRY", said)),
        answer(command("COMPLETED", said, **more)),
        answer(command("STUCK", said)),
        answer(said, finish=said),
    )  # fmt: skip
    roles = desk.home / "roles"
    roles.mkdir()
    model = said[:100]
    role: dict[str, Any] = {"name": "Worker", "description": said, "instructions": said, "llm_model": model}
    (roles / "Worker.json").write_text(json.dumps(role), "utf-8")
    (roles / "Bad.json").write_text(
        json.dumps({said: said, "name": said, "badge": said, "color": said}), "utf-8"
    )
    (roles / os.fsencode(f"{file}.yaml").decode("utf-8", "surrogateescape")).write_text("name: [", "utf-8")
    spec = {
        "id": "j1",
        "title": said,
        "prompt": f"Do {said}",
        "description": said,
        "tags": [said],
        "files": [f"x{for_json(file)}"],
    }
    spec |= {"acceptance_criteria": [said], "task_type": said, "role": "Worker"}
    (desk.place / "spec.json").write_text(json.dumps(spec), "utf-8")
    desk.settings("context: {budget_tokens: 10000000}\n")  # else what is very long is never sent
    assert desk("trust", "--yes").code == 0  # a model's name with a `/` reaches another host


def history(text: str) -> Iterator[list[str]]:
    """What makes the job's history."""
    given = for_names(text)
    yield ["job", "create", "spec.json"]
    for _ in range(4):
        yield ["job", "step", "j1"]
    yield ["job", "step", "j1"]
    yield ["job", "resubmit", "j1", "--note", given]
    yield ["job", "step", "j1"]
    yield ["job", "poststep", "j1", "--response-string", given]


def looks() -> Iterator[list[str]]:
    """What shows it."""
    yield from (
        ["job", name, "j1"] for name in ("show", "status", "history", "preview", "replay", "verify", "config")
    )
    yield from (["job", "list"], ["job", "status", "j1", "-v"], ["job", "verify", "--secrets", "--all"])
    yield from (
        ["job", "history", "j1", option, number] for option in ("--raw", "--prompt") for number in ("3", "7")
    )
    yield from (["role", "list"], ["role", "show", "Worker"], ["role", "show", "Bad"], ["role", "validate"])
    yield from (["doctor", "--deep"], ["config", "show"], ["run"])


def mistakes(text: str) -> Iterator[list[str]]:
    """Commands that fail on it, and say so."""
    given = for_names(text)
    yield from (
        ["job", "show", given],
        ["job", "step", "j1", "--role", given],
        ["job", "list", "--jobs-dir", given],
    )
    yield from (
        ["job", "create", "--id", given, "--prompt", "x"],
        ["role", "show", given],
        ["job", "rank", "j1", given],
    )
    yield from (["job", "step", "j1", "--agent", given], ["job", "config", "j1", "--set", f"{given}=1"])
    yield from (["job", given], [f"--{given}"], ["job", "show", f"--{given}"], ["completion", given])
    yield from (
        ["job", "config", "j1", "--set", f"review={given}"],
        ["job", "create", given],
        ["job", "replay", given],
    )
    yield ["job", "select", given]


def broken(desk: Desk, text: str) -> Iterator[list[str]]:
    """What is told about files that somebody spoiled with it."""
    said, name = for_json(text), for_names(text)
    with suppress(OSError):
        (desk.job() / "logs" / f"{name}.x").write_text("", "utf-8")
        (desk.job() / f".{name}.new").write_text("", "utf-8")
        (desk.jobs / name).mkdir()
    (desk.job() / "job.yaml").write_text(json.dumps({said: said, "prompt": "x", "role": said}), "utf-8")
    yield from (
        ["job", "step", "j1"],
        ["job", "verify", "j1"],
        ["job", "config", "j1"],
        ["doctor", "--deep"],
        ["job", "list"],
    )
    state = desk.state()
    state |= {
        "reason": said,
        "status": said,
        "title": said,
        "tags": [said],
        "badge": said,
        "agent_role": said,
    }
    (desk.job() / "state.json").write_text(json.dumps(state), "utf-8")
    yield from (
        ["job", "list"],
        ["job", "status", "j1"],
        ["job", "show", "j1"],
        ["doctor"],
        ["job", "verify", "j1"],
    )
    (desk.job() / "damaged-on-purpose").touch()
    line = {"sequence": 99, "kind": said, "summary": said}
    with (desk.job() / "jobHistory.json").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line))
    yield from (["job", "history", "j1"], ["job", "verify", "j1"], ["doctor", "--deep"])
    desk.settings(json.dumps({said: said, "agent": said, "models": {said: {said: said}}}))
    yield from (["config", "show"], ["job", "step", "j1"], ["doctor"])


def seen(desk: Desk, args: list[str], env: Mapping[str, str]) -> tuple[int, bytes]:
    """A command in this process, on a terminal of its own: its exit code, and every byte that went there."""
    from logist.cli import main

    master, slave = pty.openpty()
    modes = termios.tcgetattr(slave)
    modes[1] &= ~termios.OPOST
    termios.tcsetattr(slave, termios.TCSANOW, modes)
    chunks: list[bytes] = []
    reader = threading.Thread(target=_drain, args=(master, chunks))
    reader.start()
    before = dict(os.environ), os.getcwd(), signal.getsignal(signal.SIGTERM)
    os.environ.update({**desk.env, "TERM": "xterm", **env})
    os.chdir(desk.place)
    code = 0
    try:
        # As in a C locale: what nobody cleans goes out as the byte it was.
        with (
            open(slave, "w", encoding="utf-8", errors="surrogateescape", newline="") as screen,
            redirect_stdout(screen),
            redirect_stderr(screen),
        ):
            main(args)
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else 1
    finally:
        os.environ.clear()
        os.environ.update(before[0])
        os.chdir(before[1])
        signal.signal(signal.SIGTERM, before[2])
        reader.join()
        os.close(master)
    return code, b"".join(chunks)


def _drain(master: int, chunks: list[bytes]) -> None:
    with suppress(OSError):  # the other end is closed
        while chunk := os.read(master, 65536):
            chunks.append(chunk)


def steward(text: str) -> dict[str, str]:
    return {"LOGIST_STEWARD": for_names(text)}


def checked(desk: Desk, args: list[str], env: Mapping[str, str]) -> list[str]:
    """What is wrong with a command on a terminal, plain."""
    code, shown = seen(desk, args, {"NO_COLOR": "1", **env})
    lines = not set(RAW).intersection(args)
    found = [f"{' '.join(args)[:80]!r}: {fault}" for fault in faults(shown, lines=lines)]
    if code == 1 or b"Traceback" in shown or b"\x1b" in shown:
        found.append(f"{' '.join(args)[:80]!r}: exit {code}: {shown[-300:]!r}")
    return found


@pytest.mark.deep_beyond(2)
@pytest.mark.parametrize("name", [*HERE, "very long", "escapes of JSON", "rich markup"])
def test_on_a_terminal(desk: Desk, name: str) -> None:
    text = CLASSES[name]
    env = steward(text)
    made(desk, text)
    found = [fault for args in history(text) for fault in checked(desk, args, env)]
    assert len(desk.history()) >= 6
    found += [fault for args in looks() for fault in checked(desk, args, env)]
    found += [fault for args in mistakes(text) for fault in checked(desk, args, env)]
    found += [fault for args in broken(desk, text) for fault in checked(desk, args, env)]
    assert found == []


@pytest.mark.deep
@pytest.mark.parametrize("name", HERE)
def test_in_a_pipe_and_as_json(desk: Desk, name: str) -> None:
    text = CLASSES[name]
    env = steward(text)
    made(desk, text)
    ran_all = [desk(*args, env=env) for args in history(text)]
    assert ran_all[0].code == 0, ran_all[0]
    found: list[str] = []
    for args in chain(
        looks(), mistakes(text), broken(desk, text)
    ):  # the last spoil the job when they are reached
        ran = desk(*args, env=env)
        raw = set(RAW).intersection(args) and ran.code == 0
        shown = ran.err if raw else ran.out + ran.err
        found += [f"{' '.join(args)[:80]!r}: {fault}" for fault in faults(_loose(shown))]
        document = desk(*args, "--json", env=env)
        assert document.out.isascii(), args
        assert document.out.count("\n") == 1, args
        assert set(json.loads(document.out)) == {"schema_version", "data", "diagnostics"}
    assert found == []


@pytest.mark.deep
def test_with_colours_only_ours_reach_the_terminal(desk: Desk) -> None:
    text = CLASSES[ALL]
    made(desk, text)
    for args in (*history(text), *looks()):
        code, shown = seen(desk, args, {"FORCE_COLOR": "1"})
        assert list(faults(shown, lines=not set(RAW).intersection(args))) == [], args
        assert code != 1


@pytest.mark.deep
def test_a_process_on_a_terminal_shows_the_same(desk: Desk) -> None:
    text = CLASSES[ALL]
    made(desk, text)
    for args in history(text):
        desk(*args)
    for args in (["job", "list"], ["job", "history", "j1"], ["job", "show", "j1"], ["doctor"]):
        shown = desk.on_terminal(*args, env={"NO_COLOR": "1"})
        assert list(faults(shown.encode())) == [], args
