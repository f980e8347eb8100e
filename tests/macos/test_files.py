"""Files on an emulated Mac: flushing, renaming, permissions, and the commands that move whole jobs."""

from __future__ import annotations

import re
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.cli.desk import answer
from tests.macos.mac import Mac
from tests.support import make_repository


@pytest.fixture
def created(mac: Mac) -> Mac:
    """A project with a repository and one job that is done."""
    mac.project.rmdir()
    make_repository(mac.project)
    mac.script(answer(files={"src/app.py": "ANSWER = 43\n", "new.txt": "a secret\n"}), answer())
    for command in ("init", "job create --id j1 --prompt change"):
        assert mac.run(*command.split()).code == 0
    return mac


def list_calls(trace: Path) -> list[tuple[str, str]]:
    """The emulated calls and their paths, since the last call of this function."""
    lines = trace.read_text("utf-8").splitlines()
    trace.write_text("", "utf-8")
    return [(name, path) for name, _, path in (line.partition(" ") for line in lines)]


def test_what_is_acknowledged_has_reached_the_drive(created: Mac) -> None:
    trace = created.trace()
    assert created.run("job", "create", "--id", "j2", "--prompt", "more").code == 0
    calls = list_calls(trace)
    new = [path for name, path in calls if name == "fsync"]
    assert any(path.endswith("/jobHistory.json") for path in new)
    assert all("/.new-j2-" in path for path in new)
    assert calls[-1] == ("F_FULLFSYNC", str(created.jobs))  # after the rename
    last_of_new = max(at for at, (name, _) in enumerate(calls) if name == "fsync")
    assert ("F_FULLFSYNC", new[-1]) in calls[
        last_of_new:
    ]  # the directory itself, and with it everything before

    assert created.run("job", "step", "j1").code == 0
    calls = list_calls(trace)
    assert [name for name, _ in calls if name == "fsync"] == []
    assert any("jobHistory.json" in path for name, path in calls if name == "F_FULLFSYNC"), calls


def test_a_merge_exchanges_files_in_one_step(created: Mac) -> None:
    created.run("run")
    assert created.run("job", "approve", "j1").code == 0
    trace = created.trace()
    assert created.run("job", "merge", "j1").code == 0
    calls = list_calls(trace)
    assert ("renameatx_np", "2 app.py") in calls  # RENAME_SWAP
    assert ("renameatx_np", "4 new.txt") in calls  # RENAME_EXCL
    assert (created.project / "src" / "app.py").read_text("utf-8") == "ANSWER = 43\n"


def test_many_files_are_on_the_drive_after_a_merge_and_a_restore(created: Mac) -> None:
    names = [f"src/{number}.txt" for number in range(200)]
    created.script(answer(files=dict.fromkeys(names, "new\n")), answer(), answer())
    assert created.run("run").code == 11
    for name in names:
        (created.jobs / "j1" / "workspace" / name).unlink()
    trace = created.trace()
    assert created.run("job", "restep", "j1", "--to", "3").code == 0
    calls = list_calls(trace)
    assert len([path for name, path in calls if name == "fsync" and path.endswith("restoring")]) == 200
    assert calls[-1][0] == "F_FULLFSYNC"
    created.run("run")
    assert created.run("job", "approve", "j1").code == 0
    list_calls(trace)
    merged = created.run("job", "merge", "j1")
    assert merged.code == 0, merged
    calls = list_calls(trace)
    written = [at for at, (name, path) in enumerate(calls) if name == "fsync" and path.endswith(".txt")]
    assert len(written) == 200
    moved = [at for at, (name, path) in enumerate(calls) if name == "renameatx_np" and path.endswith(".txt")]
    assert "F_FULLFSYNC" in [name for name, _ in calls[written[-1] : moved[0]]]


def test_new_files_of_a_merge_have_the_umask_of_the_user(created: Mac) -> None:
    created.run("run")
    assert created.run("job", "approve", "j1").code == 0
    script = "import os, sys; os.umask(0o027); import runpy; runpy.run_module('logist', run_name='__main__')"
    merged = created.run_python("-c", script, "job", "merge", "j1")
    assert merged.code == 0, merged
    assert (created.project / "new.txt").stat().st_mode & 0o777 == 0o640


def test_jobs_are_scrubbed_packed_and_deleted(created: Mac) -> None:
    created.run("run")
    trace = created.trace()
    scrubbed = created.run("job", "scrub", "j1", "--value-from-stdin", "--yes", stdin="a secret")
    assert scrubbed.code == 0, scrubbed
    assert ("renameatx_np", f"2 {created.jobs / 'j1'}") in list_calls(trace)
    assert created.run("job", "verify", "j1").code == 0
    assert created.run("job", "cancel", "j1", "--note", "No.").code == 0
    packed = created.run("job", "pack", "j1", "--output", "j1.tar.gz")
    assert packed.code == 0, packed
    with tarfile.open(created.project / "j1.tar.gz") as archive:
        assert any(name.endswith("jobHistory.json") for name in archive.getnames())
    deleted = created.run("job", "delete", "j1", "--force", "--yes")
    assert deleted.code == 0, deleted
    assert not (created.jobs / "j1").exists()
    unpacked = created.run("job", "unpack", "j1.tar.gz")
    assert unpacked.code == 0, unpacked
    assert created.run("job", "verify", "j1").code == 0


CHANGE_MODES = """
import os, stat
from logist import systems
from logist.workspace.files import safe_open
os.makedirs("d/closed")
open("d/file", "w").close()
os.symlink("file", "d/link")
os.link("d/file", "d/other")
os.chmod("d/file", 0), os.chmod("d/closed", 0)
parent = os.open("d", os.O_RDONLY)
for name in (b"file", b"link", b"closed"):
    safe_open.unlock_entry(parent, name)
print(oct(os.stat("d/file").st_mode & 0o777), oct(os.stat("d/closed").st_mode & 0o777))
os.unlink("d/other")
safe_open.unlock_entry(parent, b"file")
print(oct(os.stat("d/file").st_mode & 0o777), systems.find_path(parent) == os.path.realpath("d"))
"""


def test_permissions_are_never_changed_through_a_link(mac: Mac) -> None:
    done = mac.run_python("-c", CHANGE_MODES)
    assert (done.out, done.err) == ("0o0 0o700\n0o600 True\n", "")


READ_SOCKET = """
import socket
from pathlib import Path
from logist import regular_files
listening = socket.socket(socket.AF_UNIX)
listening.bind("s")
try:
    regular_files.open_regular("s")
except OSError as error:
    print(error.errno in regular_files.IRREGULAR)
"""


def test_a_socket_in_the_place_of_a_file_is_recognized(mac: Mac) -> None:
    assert mac.run_python("-c", READ_SOCKET).out == "True\n"


INDEX = """
import sys
from logist.store import job_index
job_index.LEAST_JOBS = 1
from logist.cli import main
main(sys.argv[1:])
"""


def test_the_index_of_jobs_works(created: Mac) -> None:
    """It needs the id of the start of the machine, and to know which jobs commands are working on."""
    for _ in range(2):
        listed = created.run_python("-c", INDEX, "job", "list", "--limit", "5")
        assert (listed.code, listed.out.count("j1")) == (0, 1)
    identity = created.jobs / ".index" / "identity"
    boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip().upper()
    assert boot in identity.read_text("ascii")


@contextmanager
def serving(mac: Mac) -> Iterator[str]:
    server = mac.start("serve", "--port", "0", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert server.stdout is not None
    try:
        link = None
        until = time.monotonic() + 60
        while link is None and time.monotonic() < until:
            line = server.stdout.readline().decode()
            link = re.search(r"http://127\.0\.0\.1:\d+/enter\?key=\S+", line)
            assert line, "the server ended"
        assert link is not None
        yield link[0]
    finally:
        server.terminate()
        server.wait(60)
        server.stdout.close()


def test_the_page_shows_the_jobs(created: Mac) -> None:
    created.run("run")
    with serving(created) as link, closing(HTTPConnection(link.split("/")[2], timeout=30)) as browser:
        address, _, key = link.partition("/enter?key=")
        form = {"Origin": address, "Content-Type": "application/x-www-form-urlencoded"}
        browser.request("POST", "/enter", f"key={key}", form)
        entered = browser.getresponse()
        assert (entered.status, entered.read()) == (303, b"")
        cookie = (entered.getheader("Set-Cookie") or "").partition(";")[0]
        browser.request("GET", f"{entered.getheader('Location')}jobs/j1", headers={"Cookie": cookie})
        page = browser.getresponse()
        text = page.read().decode()
        assert (page.status, "APPROVAL_REQUIRED" in text or "approval" in text) == (200, True), text[:2000]


def test_hooks_run(created: Mac) -> None:
    created.settings("notify:\n  approval: [touch, called]\n")
    assert created.run("trust", "--yes").code == 0
    created.run("run")
    until = time.monotonic() + 30
    while not any(created.place.rglob("called")) and time.monotonic() < until:
        time.sleep(0.05)
    assert any(created.place.rglob("called"))


WITHOUT_FULL_FLUSH = """
import errno, fcntl, os
from logist import systems
was = fcntl.fcntl
def control(fd, command, argument=0):
    if command == fcntl.F_FULLFSYNC:
        raise OSError(errno.{error}, "no")
    return was(fd, command, argument)
fcntl.fcntl = control
with open("file", "w") as file:
    systems.flush(file.fileno())
"""


def test_a_file_system_that_only_has_fsync(mac: Mac) -> None:
    trace = mac.trace()
    assert mac.run_python("-c", WITHOUT_FULL_FLUSH.format(error="ENOTSUP")).code == 0
    assert list_calls(trace) == [("fsync", str(mac.project / "file"))]
    failed = mac.run_python("-c", WITHOUT_FULL_FLUSH.format(error="EIO"))
    assert failed.err.endswith("OSError: [Errno 5] no\n")
    assert list_calls(trace) == []
