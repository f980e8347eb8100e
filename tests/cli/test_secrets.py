"""Canaries: no key of the environment reaches a file or a terminal; and `job verify --secrets` finds one that does."""

from __future__ import annotations

import base64
import json
import os
import shlex
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from logist.store import JobDir
from tests.cli.desk import Desk, answer, command
from tests.cli.test_interrupted import MODELS, Slow
from tests.support import Ran, process_environment

ALLOWED = frozenset(
    [
        "PATH",
        "HOME",
        "LANG",
        "LC_ALL",
        "TZ",
        "TMPDIR",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "HTTPS_PROXY",
        "HTTP_PROXY",
        "NO_PROXY",
    ]
)
KEY, PASSWORD, TOKEN = "canary-Key?0123~9", 'canary "pass"\\wörd', "canarytoken%41/+=7"
ENV = {
    "OPENAI_API_KEY": KEY,
    "DB_PASSWORD": PASSWORD,
    "SOME_PAT": TOKEN,
    "DATABASE_URL": "postgres://app:canary-of-the-db@db.example.org/x",
    "PLAIN": "not-a-canary",
}
CANARIES = (KEY, PASSWORD, TOKEN, "canary-of-the-db")
PATTERN = "ghp" + "_" + "aB3dE5fG7h" * 4


def traces() -> list[bytes]:
    """How a canary would be seen in bytes: as it is, in JSON, in base64, in hex, in an address."""
    found: list[bytes] = [PATTERN.encode()]
    for canary in CANARIES:
        data = canary.encode()
        found += [data, json.dumps(canary)[1:-1].encode(), data.hex().encode(), base64.b64encode(data)[:-4]]
    return found


def seen_in(data: bytes) -> list[bytes]:
    return [trace for trace in traces() if trace in data]


def everything(text: str) -> str:
    """A text with every canary in it, and a key by its looks."""
    encoded = base64.b64encode(b"user:" + KEY.encode()).decode()
    return f"{text} {' | '.join(CANARIES)} | {PATTERN} | {encoded} | {KEY.encode().hex()}"


def answers() -> Iterator[dict[str, Any]]:
    escaped = command(summary="Hidden: KEY").replace("KEY", KEY.replace("a", "\\u0061"))
    more: dict[str, Any] = {
        "output": {everything("k"): [everything("v")]},
        "metadata": {"m": everything("m")},
    }
    files = {"out.txt": everything("content"), f"some/{KEY}.txt": "x", "later.txt": "y"}
    named = command(evidence_files=["out.txt", f"{KEY}.txt"], summary=everything("Done."), **more)
    yield answer("", error={"kind": "transient", "message": everything("overloaded")})
    yield answer(named, files=files)
    yield answer(command("RETRY", everything("Not yet.")))
    yield answer(escaped, files={"later.txt": None})
    yield answer(everything("no command at all"))
    yield answer(command(summary="Reviewed."))
    yield answer(command("STUCK", everything("I can't.")), finish=everything("stop"))


def steps() -> Iterator[tuple[list[str], str]]:
    """The main path, every command with what it reads from standard input."""
    note = ["--note", everything("note")]
    spec: dict[str, Any] = {
        "prompt": everything("Do it."),
        "title": everything("T"),
        "description": everything("D"),
        "id": "j1",
    }
    spec |= {"tags": [everything("t")], "acceptance_criteria": [everything("c")], "files": [everything("f")]}
    yield ["job", "create", "-"], json.dumps(spec)
    for words in ("preview", "step", "step", "step", "step", "step"):
        yield ["job", words, "j1"], ""
    yield ["job", "resubmit", "j1", *note], ""
    yield ["job", "preview", "j1"], ""
    yield ["job", "config", "j1", "--set", f"description={everything('d')}"], ""
    yield ["job", "run", "j1"], ""
    yield ["job", "poststep", "j1", "--response-string", command(summary=everything("given"))], ""
    yield ["job", "resubmit", "j1", *note], ""
    yield ["job", "suspend", "j1", *note], ""
    yield ["job", "resume", "j1", *note], ""
    yield ["job", "rerun", "j1", *note], ""
    yield ["job", "cancel", "j1", *note], ""
    for words in ("list", "show", "status", "history", "replay", "verify"):
        yield ["job", words, *(["j1"] if words != "list" else [])], ""
        yield ["job", words, *(["j1"] if words != "list" else []), "--json"], ""
    yield ["doctor", "--deep"], ""


def own_files(job: Path) -> Iterator[Path]:
    """What Logist wrote: all but the workspace; git's objects are packed, and looked at by verify."""
    for path in job.rglob("*"):
        if "workspace" not in path.relative_to(job).parts[:1]:
            yield path


def test_no_canary_reaches_a_file_or_the_terminal(desk: Desk) -> None:
    os.umask(0)
    desk.script(*answers())
    for args, stdin in steps():
        ran = desk(*args, stdin=stdin, env=ENV)
        assert ran.code not in (1, 2, 5, 10), (args, ran)
        assert seen_in((ran.out + ran.err).encode("utf-8", "surrogatepass")) == [], args
    assert len(desk.history()) > 12
    data = (desk.job() / "jobHistory.json").read_bytes()
    assert data.count(b"[redacted]") > 50
    for path in own_files(desk.job()):
        assert seen_in(bytes(path)) == [], path
        if path.is_file():
            assert seen_in(path.read_bytes()) == [], path
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) & ~wanted == 0, path
    assert stat.S_IMODE(desk.job().stat().st_mode) == 0o700
    looked = desk("job", "verify", "j1", "--secrets", env=ENV)
    assert (looked.code, seen_in((looked.out + looked.err).encode())) == (0, [])
    assert "in the workspace or its checkpoints" in looked.err


def within(value: str, depth: int) -> str:
    for _ in range(depth):
        value = json.dumps({"text": value})
    return value


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("spell", [str, shlex.quote])
def test_an_answer_holds_no_value_in_json_within_json(
    desk: Desk, depth: int, spell: Callable[[str], str]
) -> None:
    env = {"DB_PASSWORD": PASSWORD, "API_TOKEN": "canary's-token"}
    hidden = [within(f"x {spell(value)} y", depth) for value in env.values()]
    desk.script(answer(command(output=hidden, summary=hidden[0])))
    desk.create("j1", "--no-review")
    assert desk("job", "step", "j1", env=env).code == 11
    response = desk.history()[-1]["response"]
    assert response["redactions"] == 3
    assert "canary" not in response["raw_response"]
    assert "token" not in response["raw_response"]
    assert json.loads(response["raw_response"])["summary_for_supervisor"].count("[redacted]") == 1


UNSEEN = ("\u200b", "\u00ad", "\0", "\x08")


@pytest.mark.parametrize("unseen", UNSEEN, ids=ascii)
def test_a_key_that_an_agent_splits_is_neither_stored_nor_shown(desk: Desk, unseen: str) -> None:
    split = [unseen.join((key[:9], key[9:15], key[15:])) for key in (PATTERN, KEY)]
    desk.script(answer(command(summary=" and ".join(split), output=split)))
    desk.create("j1", "--no-review")
    desk("job", "step", "j1", env=ENV)
    assert desk.history()[-1]["response"]["redactions"] == 4
    for words in ("status", "show", "history"):
        ran = desk("job", words, "j1")
        assert seen_in((ran.out + ran.err).encode()) == [], words
    assert "[redacted] and [redacted]" in desk("job", "status", "j1").out


@pytest.mark.parametrize("unseen", UNSEEN, ids=ascii)
def test_a_key_that_was_stored_split_is_not_shown_whole(desk: Desk, unseen: str) -> None:
    desk.script(answer(command(summary=f"It is {unseen.join((KEY[:9], KEY[9:]))}.")))
    desk.create("j1", "--no-review")
    desk("job", "step", "j1")  # in an environment that has no such value
    for words in ("status", "show", "history"):
        ran = desk("job", words, "j1", env=ENV)
        assert seen_in((ran.out + ran.err).encode()) == [], words
    assert "It is [redacted]." in desk("job", "status", "j1", env=ENV).out
    assert desk("job", "verify", "j1", "--secrets", env=ENV).code == 3


def test_a_courier_has_no_key_in_argv_environment_or_file(desk: Desk) -> None:
    env = (
        desk.env | ENV | {"LOGIST_AGENT": "model", "MY_MODEL": "canary-of-the-model", "NO_PROXY": "127.0.0.1"}
    )
    os.umask(0)
    with Slow({"text": everything("canary-of-the-model"), "finish": everything("stop")}) as server:
        desk.settings(MODELS.replace("{url}", server.url).replace(" &model", ""))
        desk.create()
        started = desk.started("job", "step", "j1", env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        server.wait_for(1)
        holder = JobDir(desk.job(), "j1").find_lock_holder()
        assert holder is not None
        assert holder.courier is not None
        place = Path("/proc", str(holder.courier.pid))
        held = (place / "environ").read_bytes()
        assert {name.split("=")[0] for name in held.decode().split("\0") if name} - {"PYTHONPATH"} <= ALLOWED
        assert b"canary" not in held + (place / "cmdline").read_bytes()
        assert written(desk) == []
        server.go.release()
        assert b"canary" not in started.communicate()[0]
    assert written(desk) == []
    assert b"[redacted]" in (desk.job() / "jobHistory.json").read_bytes()


def written(desk: Desk) -> list[str]:
    """The files in which a canary is."""
    files = {path: path.read_bytes() for path in own_files(desk.job()) if path.is_file()}
    return [str(path) for path, data in files.items() if b"canary" in data or seen_in(data)]


def leaking(desk: Desk) -> Mapping[str, str]:
    """A job with leaks in most of what Logist writes; the environment that knows them."""
    desk.create(prompt="Do it.")
    desk("job", "step", "j1")
    job = desk.job()
    (job / "logs" / "courier.log").write_text(f"one\ntwo {KEY}\n", "utf-8")
    (job / "inflight").mkdir(mode=0o700)
    (job / "inflight" / "1.response").write_text(json.dumps({"text": PASSWORD}), "utf-8")
    (job / "logs" / "old.json").write_bytes(b"\xff\xfe" + base64.b64encode(TOKEN.encode()))
    (job / "workspace" / ".env").write_text(f"x={PATTERN}\n", "utf-8")
    (job / "damaged-on-purpose").touch()
    return ENV


def test_verify_finds_what_lies_where_it_should_not(desk: Desk) -> None:
    env = leaking(desk)
    ran = desk("job", "verify", "j1", "--secrets", env=env)
    assert ran.code == 3
    assert ran.out.splitlines() == [
        f"j1: inflight/1.response, line 1 (byte 10): value of DB_PASSWORD, {len(json.dumps(PASSWORD)) - 2} characters, starting with cana",
        f"j1: logs/courier.log, line 2 (byte 8): value of OPENAI_API_KEY, {len(KEY)} characters, starting with cana",
        "j1: logs/old.json, line 1 (byte 2): value of SOME_PAT, 24 characters, starting with Y2Fu",
        "j1: workspace/.env, line 1 (byte 2): GitHub token, 44 characters, starting with ghp_",
    ]
    assert "error: j1: 3 secrets in files written by Logist (revoke the key and create a new one" in ran.err
    assert "warning: j1: a secret in the workspace or its checkpoints" in ran.err
    assert seen_in((ran.out + ran.err).encode()) == []


def test_without_the_variables_only_what_looks_like_a_key_is_found(desk: Desk) -> None:
    leaking(desk)
    ran = desk("job", "verify", "j1", "--secrets")
    assert (ran.code, len(ran.out.splitlines())) == (0, 1)


def test_the_same_in_json_for_all_jobs(desk: Desk) -> None:
    env = leaking(desk)
    desk.create("j2")
    ran = desk("job", "verify", "--secrets", "--all", "--json", env=env)
    first, second = ran.json["data"]["jobs"]
    assert (ran.code, first["ok"], second["ok"]) == (3, False, True)
    assert [(each["place"], each["file"], each["line"]) for each in first["secrets"]] == [
        ("record", "inflight/1.response", 1),
        ("record", "logs/courier.log", 2),
        ("record", "logs/old.json", 1),
        ("workspace", "workspace/.env", 1),
    ]
    assert seen_in(ran.out.encode()) == []


def test_checkpoints_are_looked_into_and_names_too(desk: Desk) -> None:
    desk.script(
        answer(command("RETRY"), files={"key.txt": f"1\n{PATTERN}", f"{KEY}.txt": "x"}),
        answer(files={"key.txt": None}),
    )
    for words in (["create", "--id", "j1", "--prompt", "x"], ["step", "j1"], ["step", "j1"]):
        desk("job", *words, env=ENV)
    ran = desk("job", "verify", "j1", "--secrets", "--json", env=ENV)
    found = {
        (each["file"].split(":")[0], each["kind"], each["line"])
        for each in ran.json["data"]["jobs"][0]["secrets"]
    }
    assert ("workspace/[redacted].txt", "value of OPENAI_API_KEY, in the name", 1) in found
    assert ("git", "GitHub token", 2) in found
    assert not (desk.job() / "workspace" / "key.txt").exists()
    assert (ran.code, seen_in(ran.out.encode())) == (0, [])


def test_links_and_pipes_are_not_followed_and_what_is_locked_is_told(desk: Desk, tmp_path: Path) -> None:
    desk.create()
    outside = tmp_path / "outside"
    outside.write_text(PATTERN, "utf-8")
    (desk.job() / "logs" / "link").symlink_to(outside)
    (desk.job() / "workspace" / "up").symlink_to(tmp_path)
    os.mkfifo(desk.job() / "workspace" / "pipe")
    assert desk("job", "verify", "j1", "--secrets").code == 0


@pytest.mark.skipif(os.getuid() == 0, reason="root reads everything")
def test_what_cannot_be_read_is_no_clean_bill(desk: Desk) -> None:
    desk.create()
    (desk.job() / "logs" / "x").write_text("x", "utf-8")
    (desk.job() / "logs" / "x").chmod(0)
    ran = desk("job", "verify", "j1", "--secrets")
    assert (ran.code, "not looked at: logs/x: Permission denied" in ran.err) == (1, True)


def test_a_look_changes_nothing(desk: Desk) -> None:
    env = leaking(desk)
    before = desk.tree()
    desk("job", "verify", "--secrets", "--all", env=env)
    assert desk.tree() == before


MEGABYTES = 32
PROBE = """
import atexit, resource, sys
sys.argv[1:] = ["job", "verify", "j1", "--secrets", "--json"]
from logist.cli import main
atexit.register(lambda: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr))
main()
"""


def probed(desk: Desk) -> tuple[Ran, int]:
    """The command in a process of its own, and the most memory that it held, in KiB."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        capture_output=True,
        cwd=desk.place,
        env=process_environment() | desk.env | ENV,
        check=False,
    )
    return Ran(done.returncode, done.stdout.decode(), ""), int(done.stderr.split()[-1])


@pytest.mark.deep
def test_a_long_log_takes_no_memory(desk: Desk) -> None:
    desk.create()
    _, small = probed(desk)
    line = b"a line of a log, as long as lines are\n"
    log = desk.job() / "logs" / "courier.log"
    with log.open("wb") as file:
        block = (line * 30_000)[: 1 << 20]
        for _ in range(MEGABYTES):
            file.write(block)
        file.write(KEY.encode() + b"\n")
    ran, large = probed(desk)
    assert ran.code == 3
    assert [each["offset"] for each in ran.json["data"]["jobs"][0]["secrets"]] == [MEGABYTES << 20]
    assert large - small < 24 * 1024
