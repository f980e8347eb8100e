"""Running a program in the sandbox: how it ends, what it is given, what it may see, and that nothing is left."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from logist.agents import sandbox
from logist.agents.sandbox import (
    Confinement,
    Means,
    boxed,
    filters,
    landlock,
    launcher,
    processes,
    running,
    started,
    trial,
)
from logist.errors import InvalidFile, Refused
from logist.workspace import Workspace
from tests import support
from tests.shell.sandbox_bench import KINDS, MINE, PATH, Bench, confining, every
from tests.support import CRASHED, ROOT


@every
def test_what_a_program_is_given(bench: Bench) -> None:
    out, _ = bench("pwd; env; cat", stdin=b"a prompt", environment={"KEY": "välue\n2"})
    assert out.startswith(f"{bench.workspace}\n")
    assert out.endswith("a prompt")
    names = {line.partition("=")[0] for line in out.splitlines() if "=" in line}
    # Landlock lets git see its settings for all users and not read them, and git then ends.
    without_settings = {"GIT_CONFIG_NOSYSTEM", "GIT_ATTR_NOSYSTEM"} if bench.kind == "landlock" else set()
    given = {"PATH", "HOME", "KEY", "TMPDIR", "LOGIST_RUN_ID", *without_settings}
    assert names - {"PWD", "SHLVL", "_", "OLDPWD"} == given
    assert "KEY=välue\n2\n" in out
    assert bench.end == (0, None, "exited")


@confining
def test_a_shared_place_can_be_written_to_and_nothing_beside_it(bench: Bench) -> None:
    shared = bench.place / "shared"
    shared.mkdir()
    bench(f"echo in > {shared}/file; echo out > {shared}/../out; true", shared=(shared,))
    assert (shared / "file").read_text("utf-8") == "in\n"
    assert not (bench.place / "out.txt").exists()
    bench(f"echo again > {shared}/file; true")
    assert (shared / "file").read_text("utf-8") == "in\n"


@confining
def test_what_an_agent_planted_in_the_workspace_opens_nothing(bench: Bench) -> None:
    """PATH begins with a directory of the workspace: neither its pyvenv.cfg nor its links show other places."""
    private = bench.place / "private project"
    (private / "bin").mkdir(parents=True)
    for name in ("secret", "bin/tool"):
        (private / name).write_text("#!/bin/sh\necho the secret\n", "utf-8")
        (private / name).chmod(0o755)
    venv = bench.workspace / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text(f"home = {private / 'bin'}\n", "utf-8")
    (venv / "bin" / "linked").symlink_to(private / "bin" / "tool")
    path = {"PATH": f"{venv / 'bin'}:{PATH}"}
    out, _ = bench(f"cat {private}/secret {private}/bin/tool; linked; true", environment=path)
    assert "the secret" not in out
    with suppress(InvalidFile, Refused):
        out, _ = bench(["linked"], environment=path)
    assert "the secret" not in out


def test_an_agent_program_is_never_one_of_the_workspace(bench: Bench) -> None:
    """It gets a key: neither it, nor the interpreter that `env` finds, may be what an earlier agent has left."""
    tools = bench.place / "tools"
    planted = bench.workspace / "bin"
    for folder, word in ((tools, "real"), (planted, "planted")):
        folder.mkdir(parents=True)
        for name, text in (("agent", "#!/usr/bin/env runner\n"), ("runner", f"#!/bin/sh\necho {word} $2\n")):
            (folder / name).write_text(text, "utf-8")
            (folder / name).chmod(0o755)
    environment = {"PATH": f"{planted}:{tools}:{PATH}"}
    confinement = Confinement(bench.workspace, True, bench.home, environment)
    argv, confinement = sandbox.pin_program(["agent", "now"], confinement, f"{tools}:{PATH}")
    assert argv == [str(tools / "runner"), str(tools / "agent"), "now"]
    out, _ = bench(argv, environment=environment, readable=confinement.readable)
    assert out == "real now\n"
    with pytest.raises(InvalidFile, match="program not found"):
        sandbox.pin_program(["agent"], confinement, PATH)
    (tools / "agent").chmod(0o644)
    with pytest.raises(InvalidFile, match="the program is not executable") as caught:
        sandbox.pin_program(["agent"], confinement, f"{tools}:{PATH}")
    assert caught.value.fix == f"chmod +x {tools / 'agent'}"


@every
@pytest.mark.parametrize(
    ("script", "end"),
    [
        ("exit 0", (0, None, "exited")),
        ("exit 3", (3, None, "exited")),
        ("exit 145", (145, None, "exited")),  # a program that tells the status of HTTP
        ("kill -9 $$", (None, 9, "killed")),
        ("kill -TERM $$", (None, 15, "killed")),
        ("kill -SEGV $$", (None, 11, "killed")),
    ],
)
def test_how_a_program_ends_by_itself(
    bench: Bench, script: str, end: tuple[int | None, int | None, str]
) -> None:
    bench(script)
    assert bench.end == end


@confining
def test_git_works_whatever_settings_the_machine_has(bench: Bench) -> None:
    """Under Landlock a file that can't be read is still there, and git stops at its settings for all users."""
    script = "git init -q . && git -c user.name=a -c user.email=b commit -q --allow-empty -m x && echo done"
    assert bench(script) == ("done\n", "")
    assert bench('test "$GIT_CONFIG_NOSYSTEM" = 1 || test ! -e /etc/gitconfig')[1] == ""
    assert bench.end == (0, None, "exited")


@every
def test_input_and_output_of_any_size_and_their_files(bench: Bench) -> None:
    out, err = bench("cat; head -c 200000 /dev/zero | tr '\\0' e >&2", stdin=b"i" * 3_000_000)
    assert (len(out), len(err)) == (3_000_000, 200_000)
    assert stat.S_IMODE((bench.place / "out").stat().st_mode) == 0o600
    bench("exec 0<&-; exit 4", stdin=b"i" * 1_000_000)  # one that does not read
    assert bench.end == (4, None, "exited")


@every
def test_what_it_writes_is_ours(bench: Bench) -> None:
    bench('echo a > f; echo b > "$HOME/g"; echo c > "$TMPDIR/h" && cat "$TMPDIR/h"')
    assert (bench.workspace / "f").read_text() == "a\n"
    assert (bench.home / "g").read_text() == "b\n"
    assert (bench.workspace / "f").stat().st_uid == os.getuid()
    assert bench.end == (0, None, "exited")


@confining
def test_a_workspace_that_is_only_read(bench: Bench) -> None:
    (bench.workspace / "f").write_text("a", "utf-8")
    out, _ = bench(
        'cat f; echo b > "$HOME/g"; echo x > new || echo x >> f || rm f || echo no', writable=False
    )
    assert out == "ano\n"
    assert [path.name for path in bench.workspace.iterdir()] == ["f"]


def test_beside_the_workspace_there_is_nothing(bench: Bench) -> None:
    out, _ = bench("ls -A .. ../..; ls -A /home /root /var/lib /mnt /sys 2>/dev/null")
    assert out == "..:\nworkspace\n\n../..:\nhere\nprivate\n"


@every
def test_what_it_left_is_ended_and_counted(bench: Bench) -> None:
    bench(
        "sleep 1000 & setsid sleep 1000 & setsid sh -c 'sleep 1000 & touch left; exec sleep 1000' &"
        " until [ -e left ]; do sleep 0.05; done; exit 5"
    )
    assert bench.end == (5, None, "exited")
    assert bench.ended is not None
    assert bench.ended.strays == 4
    assert bench.ended.seconds < 30


END_FIRST_THREAD = """
import ctypes, os, threading, time
def alone(work):
    while b") Z" not in open(f"/proc/{os.getpid()}/stat", "rb").read(): time.sleep(0.01)
    work()
def end_first_thread(work):
    threading.Thread(target=alone, args=(work,)).start()
    ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
"""
known_calls = pytest.mark.skipif(
    not filters.is_supported(), reason="no numbers of system calls for this machine"
)


@pytest.mark.deep
@every
@known_calls
def test_a_program_lives_as_long_as_one_of_its_threads(bench: Bench) -> None:
    work = "def work(): time.sleep(0.3); print('done', flush=True); os._exit(3)\n"
    out, _ = bench(["python3", "-c", f"{END_FIRST_THREAD}{work}end_first_thread(work)"])
    assert (out, *bench.end) == ("done\n", 3, None, "exited")


@every
@known_calls
def test_what_is_left_without_its_first_thread_is_ended_and_counted(bench: Bench) -> None:
    work = "def work(): open('ready', 'w'); time.sleep(1000)\n"
    (bench.workspace / "stray").write_text(f"{END_FIRST_THREAD}{work}end_first_thread(work)", "utf-8")
    bench("setsid python3 stray >/dev/null 2>&1 & until [ -e ready ]; do sleep 0.05; done; exit 5")
    assert bench.ended is not None
    assert (bench.ended.status, bench.ended.strays) == (5, 1)


@pytest.mark.deep
@every
@known_calls
def test_memory_counts_without_the_first_thread(bench: Bench) -> None:
    work = "def work(): global kept; kept = b'x' * (400 << 20); time.sleep(60)\n"
    bench(["python3", "-c", f"{END_FIRST_THREAD}{work}end_first_thread(work)"], memory_bytes=100 << 20)
    assert bench.ended is not None
    assert (bench.ended.how, bench.ended.reason) == ("limit", "more than 100 MiB of memory")


@pytest.mark.deep
@every
def test_a_program_that_has_itself_traced_is_stopped_and_has_not_ended(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "GRACE", 0.2)
    monkeypatch.setattr(running, "LAST_GRACE", 0.2)
    code = "import ctypes, os; ctypes.CDLL(None).ptrace(0, 0, 0, 0); os.kill(os.getpid(), 10)"
    bench(["python3", "-c", code], deadline=0.5)
    assert bench.ended is not None
    assert bench.ended.how == "timeout"


TRACE = """
import ctypes, time
libc = ctypes.CDLL(None)
print(libc.ptrace(0x4206, 1, 0, 0), libc.ptrace(0x4207, 1, 0, 0), libc.ptrace(16, 1, 0, 0), flush=True)
open("traced", "w").close()
time.sleep(1000)
"""
TRACE_ONCE = "import ctypes; print(ctypes.CDLL(None).ptrace(16, 1, 0, 0))"
WHILE_TRACED = "until [ -e traced ]; do sleep 0.05; done; exit 3"


@pytest.mark.parametrize("bench", KINDS, indirect=True)
def test_git_reads_the_past_of_a_workspace_and_checks_it_out(bench: Bench, git_repo: Path) -> None:
    """With `workspace.history`; the user's repository itself is not visible."""
    for number in range(3):
        (git_repo / "src" / "app.py").write_text(f"ANSWER = {number}\n")
        support.git(git_repo, "commit", "--quiet", "--all", "--message", f"answer {number}")
    bench.workspace.rmdir()
    Workspace(bench.workspace, bench.place / "checkpoints").populate(git_repo, history="full")
    out, err = bench(
        "git log --format=%s && git blame -s src/app.py && git bisect start HEAD HEAD~3 && "
        "git bisect run grep -q 42 src/app.py && git bisect reset && git status --porcelain"
    )
    assert bench.end == (0, None, "exited"), err
    assert out.splitlines()[:5] == ["answer 2", "answer 1", "answer 0", "second", "first"]
    blamed, bad = (support.git(git_repo, "rev-parse", name).strip() for name in ("HEAD", "HEAD~2"))
    assert out.splitlines()[5].split()[0].lstrip("^") == blamed[:8]
    assert f"{bad} is the first bad commit" in out
    assert (bench.workspace / "src" / "app.py").read_text() == "ANSWER = 2\n"


@known_calls
def test_the_first_process_of_the_sandbox_is_not_traced(bench: Bench) -> None:
    out, _ = bench(f"python3 -c '{TRACE_ONCE}'; exit 4")
    assert (out, *bench.end) == ("-1\n", 4, None, "exited")
    (bench.workspace / "tracer").write_text(TRACE, "utf-8")
    out, _ = bench(f"setsid python3 tracer & {WHILE_TRACED}")
    assert (out, *bench.end) == ("-1 -1 -1\n", 3, None, "exited")


@pytest.mark.deep
def test_where_no_filter_refuses_that_the_sandbox_ends_all_the_same(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "build_filter", lambda **_: None)
    monkeypatch.setattr(boxed, "PATIENCE", 0.5)
    bench(f"python3 -c '{TRACE_ONCE}'; exit 4")
    assert bench.end == (4, None, "exited")
    (bench.workspace / "tracer").write_text(TRACE, "utf-8")
    bench(f"setsid python3 tracer & {WHILE_TRACED}")
    assert bench.end == (3, None, "exited")
    assert bench.ended is not None
    assert bench.ended.strays == 1


@pytest.mark.deep
@pytest.mark.parametrize(("inner", "end"), [(True, (3, None, "exited")), (False, (None, 9, "killed"))])
def test_a_sandbox_that_is_stopped_from_outside_ends(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, inner: bool, end: tuple[int | None, int | None, str]
) -> None:
    monkeypatch.setattr(boxed, "PATIENCE", 0.5)
    before, go_on = set(processes.list_children(os.getpid())), bench.workspace / "go-on"

    def stop() -> bool:
        if (bench.workspace / "ready").exists() and not go_on.exists():
            (bubblewrap,) = set(processes.list_children(os.getpid())) - before
            os.kill(processes.list_children(bubblewrap)[0] if inner else bubblewrap, signal.SIGSTOP)
            go_on.touch()
        return False

    bench("touch ready; until [ -e go-on ]; do sleep 0.02; done; exit 3", stop=stop)
    assert bench.end == end


def test_a_sandbox_that_is_never_ready_is_given_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = bench.place / "bwrap"
    slow.write_text('#!/bin/sh\n[ "$1" = --help ] || exec sleep 1000\n', "utf-8")
    slow.chmod(0o755)
    monkeypatch.setattr(started, "SETUP_SECONDS", 0.5)
    monkeypatch.setattr(running, "detect_sandbox", lambda: Means("bubblewrap", (), str(slow)))
    with pytest.raises(Refused, match="not ready within"):
        bench("true")


@pytest.mark.deep
@pytest.mark.parametrize("bench", ["landlock", "none"], indirect=True)
def test_a_launcher_that_is_never_ready_is_given_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = bench.place / "launcher.py"
    slow.write_text("import time; time.sleep(1000)", "utf-8")
    monkeypatch.setattr(started, "SETUP_SECONDS", 0.5)
    monkeypatch.setattr(landlock, "_LAUNCHER", str(slow))
    with pytest.raises(Refused, match="not ready within"):
        bench("true")


@pytest.mark.deep_beyond(1)
@every
def test_at_the_deadline_it_is_asked_first(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    let_time_pass_once(bench.workspace / "ready", monkeypatch)
    script = "trap 'echo bye; exit 7' TERM; touch ready; while :; do sleep 0.05; done"
    out, _ = bench(script, deadline=1000)
    assert (out, *bench.end) == ("bye\n", 7, None, "timeout")


def let_time_pass_once(ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a day pass as soon as the file exists, however long the program takes until then."""

    def tell_time() -> float:
        return time.monotonic() + 86_400 * ready.exists()

    monkeypatch.setattr(running, "time", SimpleNamespace(monotonic=tell_time, sleep=time.sleep))


@pytest.mark.deep
@every
def test_one_that_does_not_listen_is_asked_twice_and_killed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Long enough for a loaded machine: the shell has to start before it is asked, and to answer before it is killed.
    monkeypatch.setattr(running, "GRACE", 1.5)
    monkeypatch.setattr(running, "LAST_GRACE", 1.5)
    out, _ = bench("trap 'echo asked' TERM; setsid sleep 1000 & while :; do sleep 0.05; done", deadline=2)
    assert (out, *bench.end) == ("asked\nasked\n", None, 9, "timeout")
    assert bench.ended is not None
    assert bench.ended.strays == 1


@every
def test_told_to_stop(bench: Bench) -> None:
    ready = bench.workspace / "ready"
    bench("touch ready; exec sleep 1000", stop=ready.exists)
    assert bench.end == (None, 15, "stopped")


@pytest.mark.deep
@every
def test_without_output_it_is_idle_and_with_output_it_is_not(bench: Bench) -> None:
    ends = []
    for script, idle in (("for n in 1 2 3 4 5 6; do echo; sleep 0.4; done", 1.6), ("exec sleep 1000", 0.2)):
        bench(script, idle=idle)
        ends.append(bench.end)
    assert ends == [(0, None, "exited"), (None, 15, "idle")]


@every
def test_output_is_kept_up_to_its_limit(bench: Bench) -> None:
    out, err = bench("echo error >&2; sleep 0.2; exec yes", output_bytes=100_000)
    assert len(out) + len(err) == 100_000
    assert err == "error\n"
    assert bench.ended is not None
    assert (bench.ended.how, bench.ended.output_cut) == ("limit", True)
    assert "100,000 bytes of output" in bench.ended.reason


@every
@pytest.mark.parametrize(
    ("script", "limit", "reason"),
    [
        ("for n in 1 2 3 4 5 6 7 8 9; do setsid sleep 1000 & done; wait", {"processes": 6}, "6 processes"),
        ("exec head -c 3000000 /dev/zero > f", {"file_bytes": 1 << 20}, "a file of more than 1,048,576"),
        (
            "exec python3 -c 'import time; kept = b\"x\" * (400 << 20); time.sleep(60)'",
            {"memory_bytes": 100 << 20},
            "100 MiB of memory",
        ),
    ],
)
def test_each_limit(bench: Bench, script: str, limit: dict[str, int], reason: str) -> None:
    settings: dict[str, Any] = dict(limit)
    bench(script, **settings)
    assert bench.ended is not None
    assert bench.ended.how == "limit"
    assert reason in bench.ended.reason


@every
def test_a_caller_that_raises_leaves_nothing(bench: Bench) -> None:
    def stop() -> bool:
        if (bench.workspace / "ready").exists():
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        bench("setsid sleep 1000 & touch ready; sleep 1000", stop=stop)
    assert sandbox.end_leftover_processes(MINE) == 0
    assert not sleeping("1000", bench)


def sleeping(seconds: str, bench: Bench) -> list[str]:
    """Processes that sleep so long in the workspace."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"sleep\0{seconds}".encode() in (entry / "cmdline").read_bytes():
                found += [entry.name] if str(bench.place) in os.readlink(entry / "cwd") else []
        except OSError:
            continue
    return found


@every
@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["no-such-program"], "program not found"),
        (["./script"], "can't start the program"),
        (["./plain"], "the program is not executable"),
        (["plain"], "program not found"),
    ],
)
def test_a_program_that_cannot_be_started(bench: Bench, argv: list[str], says: str) -> None:
    (bench.workspace / "script").write_text("#!/no/such/interpreter\n", "utf-8")
    (bench.workspace / "script").chmod(0o755)
    (bench.workspace / "plain").write_text("text", "utf-8")
    with pytest.raises(InvalidFile, match=says) as caught:
        bench(argv)
    assert caught.value.where == argv[0]
    assert caught.value.fix


@pytest.mark.parametrize("bench", [kind for kind in KINDS if kind != "bubblewrap"], indirect=True)
def test_a_script_without_an_interpreter(bench: Bench) -> None:
    """Bubblewrap starts such a script with /bin/sh, as a shell does."""
    (bench.workspace / "script").write_text("exit 0\n", "utf-8")
    (bench.workspace / "script").chmod(0o755)
    with pytest.raises(InvalidFile) as caught:
        bench(["./script"])
    assert (
        caught.value.fix == "if it is a script, its first line must name its interpreter, such as #!/bin/sh"
    )


@confining
def test_programs_installed_elsewhere_are_seen_and_what_lies_beside_them_is_not(bench: Bench) -> None:
    tools, person = bench.place / "tools" / "node-20", bench.place / "person"
    for path in (tools / "bin", tools / "lib", person / "bin", person / ".ssh", person / ".local" / "bin"):
        path.mkdir(parents=True)
    (tools / "lib" / "part").write_text("part\n", "utf-8")
    (tools.parent / "secret").write_text("secret\n", "utf-8")
    (person / ".ssh" / "key").write_text("secret\n", "utf-8")
    for path in (tools / "bin" / "first", person / "bin" / "second", person / ".local" / "bin" / "third"):
        path.write_text(f"#!/bin/sh\necho {path.name}; cat {tools}/lib/part\n", "utf-8")
        path.chmod(0o755)
    searched = ":".join([str(tools / "bin"), str(person / "bin"), str(person / ".local" / "bin"), PATH])
    script = f"first; second; third; cat {tools.parent}/secret {person}/.ssh/key; echo x > {tools}/lib/part"
    out, err = bench(script, environment={"PATH": searched})
    assert out == "first\npart\nsecond\npart\nthird\npart\n"
    assert "secret" in err
    assert (tools / "lib" / "part").read_text() == "part\n"
    out, _ = bench(f"cat {tools.parent}/secret", readable=(tools.parent,))
    assert out == "secret\n"


@confining
def test_a_virtual_environment_brings_the_python_it_is_made_of(bench: Bench) -> None:
    venv = bench.place / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True, timeout=CRASHED)
    out, err = bench(
        ["python", "-c", "import sys; print(sys.prefix)"], environment={"PATH": f"{venv}/bin:{PATH}"}
    )
    assert (out, err) == (f"{venv}\n", "")


@confining
def test_the_network_only_for_who_may_and_no_abstract_socket_even_then(bench: Bench) -> None:
    if launcher.read_landlock_version() < launcher.SCOPES_SINCE:
        pytest.skip("this kernel does not scope abstract sockets")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        name = f"logist-{os.getpid()}-{time.monotonic_ns()}"
        abstract.bind(f"\0{name}")
        abstract.listen()
        port = server.getsockname()[1]
        code = f"""
import socket
for reach in (
    lambda: socket.create_connection(("127.0.0.1", {port}), 5),
    lambda: socket.socket(socket.AF_UNIX).connect("\\0{name}"),
):
    try: reach(); print("reached")
    except OSError: print("refused")
"""
        argv = ["python3", "-c", code]
        assert bench(argv)[0] == "refused\nrefused\n"
        assert bench(argv, network=True)[0] == "reached\nrefused\n"


@every
def test_what_the_environment_loads_is_not_loaded_by_what_confines(bench: Bench) -> None:
    _, err = bench(["true"], environment={"LD_PRELOAD": "/no/such/library.so"})
    assert err.count("/no/such/library.so") == 1


def test_a_required_sandbox_that_is_not_there(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "detect_sandbox", lambda: Means("none", ("landlock: switched off",)))
    with pytest.raises(Refused, match="landlock: switched off") as caught:
        bench("true", mode="required")
    assert caught.value.fix
    assert caught.value.exit_code == 8
    bench.kind = "none"
    bench("exit 2", mode="auto")
    assert bench.end == (2, None, "exited")


def test_switched_off(bench: Bench) -> None:
    bench.kind = "none"
    out, _ = bench("cat ../beside", mode="off")
    assert out == "private"


def test_the_root_is_no_workspace(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="workspace"):
        sandbox.run_program(
            ["true"],
            Confinement(Path("/"), True, tmp_path, {"PATH": PATH}),
            stdin=b"",
            stdout=tmp_path / "out",
            stderr=tmp_path / "err",
            deadline_seconds=5,
            marker=MINE,
            stop=lambda: False,
        )


KILLED = """
import json, sys
from pathlib import Path
from unittest import mock
from logist.agents import sandbox
from logist.agents.sandbox import running
place, kind, marker, script = Path(sys.argv[1]), *sys.argv[2:]
found = sandbox.detect_sandbox() if kind == "bubblewrap" else sandbox.Means(kind)
with mock.patch.object(running, "detect_sandbox", lambda: found):
    sandbox.run_program(
        ["sh", "-c", script],
        sandbox.Confinement(place / "here/workspace", True, place / "private/home", {"PATH": "/usr/bin:/bin"}),
        stdin=b"", stdout=place / "out", stderr=place / "err",
        deadline_seconds=100, marker=marker, stop=lambda: False,
    )
"""


@every
def test_when_logist_is_killed_nothing_stays_or_it_is_swept(bench: Bench) -> None:
    script = "trap '' TERM; setsid sleep 1000 & sleep 1000 & sleep 1000"
    marker = f"killed-{os.getpid()}"
    command = [sys.executable, "-c", KILLED, str(bench.place), bench.kind, marker, script]
    process = subprocess.Popen(command, cwd=ROOT, env={"PATH": PATH, "PYTHONPATH": str(ROOT)})
    wait_for(lambda: len(sleeping("1000", bench)) == 3)
    process.send_signal(signal.SIGKILL)
    process.wait()
    if bench.kind == "bubblewrap":
        wait_for(lambda: not sleeping("1000", bench))
        assert sandbox.end_leftover_processes(marker) == 0
    else:
        assert sandbox.end_leftover_processes(marker) >= 3
    assert not sleeping("1000", bench)
    wait_for(lambda: not bury_orphans())


def bury_orphans() -> list[int]:
    """Takes the dead that became ours when their Logist was killed; returns those that are left."""
    processes.reap_children(processes.list_children(os.getpid()))
    return processes.list_children(os.getpid())


def wait_for(what: Callable[[], bool]) -> None:
    until = time.monotonic() + CRASHED
    while not what():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_sweep_ends_only_its_own() -> None:
    others = [
        subprocess.Popen(["sleep", "1000"], env={"LOGIST_RUN_ID": marker}) for marker in ("one", "one-more")
    ]
    try:
        wait_for(lambda: all(Path(f"/proc/{each.pid}/comm").read_text() == "sleep\n" for each in others))
        assert sandbox.end_leftover_processes("one") == 1
        assert others[0].wait(CRASHED) == -signal.SIGKILL
        assert others[1].poll() is None
        assert sandbox.end_leftover_processes("") == 0
    finally:
        for each in others:
            each.kill()
            each.wait()


@known_calls
def test_a_sweep_knows_one_whose_first_thread_has_ended(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    code = (
        f"{END_FIRST_THREAD}def work(): open({str(ready)!r}, 'w'); time.sleep(1000)\nend_first_thread(work)"
    )
    marker = f"thread-{os.getpid()}"
    process = subprocess.Popen([sys.executable, "-c", code], env={"LOGIST_RUN_ID": marker})
    try:
        wait_for(ready.exists)
        assert sandbox.end_leftover_processes(marker) == 1
    finally:
        process.kill()
        process.wait()


def test_doctor_names_what_a_missing_filter_leaves_open() -> None:
    filtered, unfiltered = (landlock.list_gaps(7, filtered=known) for known in (True, False))
    assert set(filtered) < set(unfiltered)
    assert any("priorities and limits" in gap for gap in unfiltered)
    assert any("shared memory" in gap for gap in unfiltered)


def test_the_means_are_found_by_trying() -> None:
    found = sandbox.detect_sandbox()
    assert found.details
    assert json.dumps(found.details)
    assert found.kind in KINDS


@pytest.mark.parametrize("mode", ["auto", "required", "off"])
def test_elsewhere_than_on_linux_no_program_is_started(
    monkeypatch: pytest.MonkeyPatch, mode: Literal["auto", "required", "off"]
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert sandbox.detect_sandbox("/nonexistent").details == ("the sandbox works only on Linux",)
    with pytest.raises(Refused, match="run only on Linux"):
        sandbox.choose_sandbox(mode)


class TestTrial:
    def test_what_works_says_nothing(self) -> None:
        assert trial.try_command(["true"], []) is None

    def test_what_does_not_says_why(self) -> None:
        assert trial.try_command(["sh", "-c", "echo no such thing >&2; exit 3"], []) == "no such thing"
        assert trial.try_command(["sh", "-c", "exit 3"], []) == "exit status 3"
        assert "No such file" in str(trial.try_command(["/nonexistent/launcher"], []))

    def test_a_launcher_that_is_killed_leaves_nobody(self, tmp_path: Path) -> None:
        """bwrap, killed before it has told its child to go on, leaves one that waits for ever."""
        script = f"setsid sh -c 'echo $$ > {tmp_path}/left; exec sleep 303' & while [ ! -s {tmp_path}/left ]; do :; done; kill -9 $$"
        assert trial.try_command(["sh", "-c", script], []) == "exit status -9"
        left = processes.read_process(int((tmp_path / "left").read_text()))
        assert left is None or not left.is_alive
