from __future__ import annotations

import errno
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.torture.suite import Skip
from tests.torture.tracer import Action, Call, Trace, Whom, fail, kill_before, short, trace
from tests.torture.tracing import calls, seccomp

CROWD = """
import os, threading
def work(n):
    for k in range(5):
        with open(f"t{n}", "ab", buffering=0) as file:
            file.write(b"x" * (k + 1))
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for thread in threads: thread.start()
for child in range(3):
    if os.fork() == 0:
        os.mkdir(f"d{child}")
        if child == 2:
            os.setsid()
            if os.fork() == 0:
                os.close(os.open("deep", os.O_CREAT | os.O_WRONLY))
        os._exit(0)
for thread in threads: thread.join()
for child in range(3): os.wait()
os.rename("d0", "e0")
"""
TRUTH = {"openat": 21, "write": 20, "mkdir": 3, "rename": 1}
"""What CROWD does to files, counted by hand."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "w").mkdir()
    return tmp_path / "w"


def run(place: Path, program: str, act: Action | None = None, data: bool = False) -> Trace:
    env = {"PATH": os.environ["PATH"]}
    try:
        return trace([sys.executable, "-S", "-I", "-c", program], cwd=place, env=env, act=act, data=data)
    except Skip as reason:
        pytest.skip(str(reason))


def shown(place: Path, trace: Trace) -> list[Call]:
    """Return the calls on files of the test, without other calls of the interpreter."""
    return [call for call in trace.calls if any(path.startswith(f"{place}/") for path in call.paths)]


def test_every_call_of_threads_and_children_is_counted_once(place: Path) -> None:
    ran = run(place, CROWD)
    assert (ran.code, ran.err) == (0, b"")
    seen = shown(place, ran)
    assert Counter(call.name for call in seen) == TRUTH
    assert [call.index for call in ran.calls] == list(range(len(ran.calls)))
    assert {call.process for call in seen} == {0, 1, 2, 3, 4}
    # The kernel repeats a fork that a signal interrupted: the first call created no process.
    forks = [call for call in ran.calls if call.name in ("clone", "clone3", "fork", "vfork")]
    assert sum(call.result is not None and call.result > 0 for call in forks) == 4
    assert not [call for call in ran.calls if call.result is None]


def test_a_call_is_shown_with_its_paths_numbers_data_and_result(place: Path) -> None:
    program = """
import os
here = os.open(".", os.O_RDONLY)
fd = os.open("a", os.O_RDWR | os.O_CREAT, 0o640, dir_fd=here)
os.pwrite(fd, b"hello", 7)
os.writev(fd, [b"ab", b"c"])
os.ftruncate(fd, 3)
os.symlink("where", "link")
try: os.rename("b", os.path.abspath("c"))
except FileNotFoundError: print("no")
"""
    ran = run(place, program, data=True)
    told = [(call.name, call.data, call.result) for call in shown(place, ran)]
    assert told == [
        ("openat", None, 4),
        ("pwrite64", b"hello", 5),
        ("writev", b"abc", 3),
        ("ftruncate", None, 0),
        ("symlink", b"where", 0),
        ("rename", None, -errno.ENOENT),
    ]
    opened, written, pieces, cut, _, renamed = shown(place, ran)
    assert opened.detail["mode"] == 0o640
    assert opened.detail["flags"] & os.O_CREAT
    assert written.detail == {"count": 5, "offset": 7}
    assert pieces.detail == {"count": 3}
    assert cut.detail == {"size": 3}
    assert opened.paths == written.paths == (f"{place}/a",)
    assert renamed.paths == (f"{place}/b", f"{place}/c")
    assert ran.out == b"no\n"
    assert ran.calls[-1].paths == ("memfd:stdout",)


def test_reading_is_not_stopped_at(place: Path) -> None:
    (place / "a").write_text("x")
    assert shown(place, run(place, "import os; os.listdir('.'); open('a').read(); os.stat('a')")) == []


def test_a_kill_comes_before_the_call_and_nothing_after_it(place: Path) -> None:
    program = "import os\nfor n in range(6): os.mkdir(f'd{n}')"
    first = shown(place, run(place, program))[0].index
    for kept in range(6):
        where = place / str(kept)
        where.mkdir()
        ran = run(where, program, kill_before(first + kept))
        assert ran.code == -signal.SIGKILL
        assert sorted(path.name for path in where.iterdir()) == [f"d{n}" for n in range(kept)]
        assert ran.calls[-1].result is None
        assert ran.calls[-1].index == first + kept


FAMILY = """
import os
parent_lives, parent = os.pipe()
child_lives, child = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.close(parent)
        {child}
    os._exit(0)
os.close(child)
os.wait()
{parent}
"""
CHILD_LAST = FAMILY.format(
    child="os.read(parent_lives, 1); os.mkdir('child')", parent="os.mkdir('parent'); os._exit(0)"
)
PARENT_LAST = FAMILY.format(
    child="os.mkdir('child')", parent="os.read(child_lives, 1); os.mkdir('parent'); os._exit(0)"
)


@pytest.mark.parametrize(
    ("program", "at", "whom", "code", "made"),
    [
        (CHILD_LAST, "parent", "process", -signal.SIGKILL, ["child"]),
        (PARENT_LAST, "child", "process", 0, ["parent"]),
        (PARENT_LAST, "child", "all", -signal.SIGKILL, []),
        (PARENT_LAST, "child", "first", -signal.SIGKILL, ["child"]),
    ],
)
def test_who_dies_is_chosen(
    place: Path, program: str, at: str, whom: Whom, code: int, made: list[str]
) -> None:
    (index,) = [call.index for call in shown(place, run(place, program)) if call.paths[0].endswith(at)]
    for path in place.iterdir():
        path.rmdir()
    assert run(place, program, kill_before(index, whom)).code == code
    assert [path.name for path in place.iterdir()] == made


def test_a_process_dies_with_all_its_threads(place: Path) -> None:
    program = """
import os, threading, time
def spin():
    while True: time.sleep(0.001)
for _ in range(5): threading.Thread(target=spin).start()
os.mkdir("d")
"""
    env = {"PATH": os.environ["PATH"]}
    try:
        ran = trace(
            [sys.executable, "-S", "-I", "-c", program + "os._exit(3)"], cwd=place, env=env, timeout=60
        )
    except Skip as reason:
        pytest.skip(str(reason))
    (index,) = [call.index for call in shown(place, ran)]
    (place / "d").rmdir()
    assert ran.code == 3
    assert run(place, program, kill_before(index)).code == -signal.SIGKILL
    assert not (place / "d").exists()


def test_an_injected_error_is_seen_and_the_call_does_not_happen(place: Path) -> None:
    program = """
import os
def attempt(n):
    try: os.mkdir(f"d{n}")
    except OSError as error: print(n, error.errno)
for n in range(4): attempt(n)
"""
    first = shown(place, run(place, program))[0].index
    for path in place.iterdir():
        path.rmdir()
    once = run(place, program, fail(first + 1, errno.ENOSPC))
    assert once.out == b"1 28\n"
    assert sorted(path.name for path in place.iterdir()) == ["d0", "d2", "d3"]
    assert once.calls[first + 1].result == -errno.ENOSPC
    for path in place.iterdir():
        path.rmdir()
    for_ever = run(place, program, fail(first + 2, errno.EDQUOT, forever=True))
    assert for_ever.out == b"2 122\n3 122\n"


@pytest.mark.parametrize(("error", "left"), [(errno.ENOSPC, []), (errno.EROFS, ["d"])])
def test_a_full_disk_lets_things_be_removed_and_a_read_only_one_does_not(
    place: Path, error: int, left: list[str]
) -> None:
    program = """
import os
os.mkdir("d")
try: open("a", "x")
except OSError: pass
try: os.rmdir("d")
except OSError: pass
print("told")
"""
    second = shown(place, run(place, program))[1].index
    (place / "a").unlink()
    assert run(place, program, fail(second, error, forever=True)).out == b"told\n"
    assert [path.name for path in place.iterdir()] == left


def test_a_short_write_writes_so_many_bytes_and_may_be_the_last(place: Path) -> None:
    program = """
import os
fd = os.open("a", os.O_WRONLY | os.O_CREAT)
print(os.write(fd, b"0123456789"), flush=True)
os.write(fd, b"!")
"""
    _, write, _ = shown(place, run(place, program))
    (place / "a").unlink()
    assert run(place, program, short(write.index, 4)).out == b"4\n"
    assert (place / "a").read_bytes() == b"0123!"
    (place / "a").unlink()
    assert run(place, program, short(write.index, 4, then_errno=errno.ENOSPC)).code == 1
    assert (place / "a").read_bytes() == b"0123"
    (place / "a").unlink()
    cut = run(place, program, short(write.index, 4, then_kill=True))
    assert (cut.code, cut.out) == (-signal.SIGKILL, b"")
    assert (place / "a").read_bytes() == b"0123"


def test_a_program_that_a_thread_becomes_is_followed(place: Path) -> None:
    program = """
import os, sys, threading, time
def become(): os.execv(sys.executable, [sys.executable, "-S", "-I", "-c", "import os; os.mkdir('d')"])
threading.Thread(target=become).start()
time.sleep(60)
"""
    ran = run(place, program)
    assert ran.code == 0
    assert [(call.name, call.process, call.result) for call in shown(place, ran)] == [("mkdir", 0, 0)]


def test_a_stopped_program_stays_stopped_until_it_is_told_to_go_on(place: Path) -> None:
    program = """
import os, signal, time
child = os.fork()
if child == 0:
    os.kill(os.getpid(), signal.SIGSTOP)
    os.mkdir("child")
    os._exit(0)
os.waitpid(child, os.WUNTRACED)
time.sleep(0.05)
os.mkdir("parent")
os.kill(child, signal.SIGCONT)
os.waitpid(child, 0)
"""
    ran = run(place, program)
    assert [call.paths[0] for call in shown(place, ran)] == [f"{place}/parent", f"{place}/child"]
    (told,) = [call for call in ran.calls if call.name == "kill"]
    assert told.detail["signal"] == signal.SIGCONT


def test_signals_reach_the_program(place: Path) -> None:
    program = """
import os, signal
signal.signal(signal.SIGUSR1, lambda *_: os.mkdir("d"))
os.kill(os.getpid(), signal.SIGUSR1)
"""
    ran = run(place, program)
    assert [call.name for call in shown(place, ran)] == ["mkdir"]
    assert not [call for call in ran.calls if call.name == "kill"], "a process may signal itself"


def test_nothing_survives_a_program_that_hangs(place: Path) -> None:
    program = "import os, time\nprint(os.getpid(), file=open('pid', 'w'), flush=True)\n"
    program += "os.fork(); os.setsid() if os.getpid() != os.getpgrp() else 0; time.sleep(600)"
    argv = [sys.executable, "-S", "-I", "-c", program]
    try:
        with pytest.raises(AssertionError, match="did not end in 3 s"):
            trace(argv, cwd=place, env={"PATH": os.environ["PATH"]}, timeout=3)
    except Skip as reason:
        pytest.skip(str(reason))
    with pytest.raises(ProcessLookupError):
        os.kill(int((place / "pid").read_text()), 0)


def test_both_machines_have_a_filter_and_no_number_twice() -> None:
    for machine in ("x86_64", "aarch64"):
        kinds = calls.numbered(machine)
        column = 1 if machine == "x86_64" else 2
        assert len(kinds) == sum(kind[column] is not None for kind in calls.KINDS)
        assert len(seccomp.program(machine)) % 8 == 0
