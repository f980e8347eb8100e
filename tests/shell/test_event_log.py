"""The log file of events: lines of many processes, rotation, what is replaced, and a disk that doesn't take them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from logist import event_log
from logist.event_log import events
from logist.event_log.log_file import LogFile
from logist.event_log.recorder import LONGEST_TEXT, EventRecorder
from tests.support import ROOT, process_environment

SECRET = "hunter2-hunter2"


def read_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def make_recorder(path: Path, **options: Any) -> EventRecorder:
    warnings: list[str] = options.pop("warnings", [])
    file = LogFile(str(path), warnings.append)
    return EventRecorder(
        [SECRET], log_file=file, now=lambda: datetime(2026, 1, 2, 3, 4, 5, 678_901, UTC), **options
    )


def test_a_line_is_one_object_with_utc_time_level_event_job_and_fields(tmp_path: Path) -> None:
    make_recorder(tmp_path / "log").record(events.JobSkipped("another run works on it"), "j1")
    assert read_lines(tmp_path / "log") == [
        {
            "time": "2026-01-02T03:04:05.678Z",
            "level": "info",
            "event": "job_skipped",
            "pid": os.getpid(),
            "job": "j1",
            "message": "skipped: another run works on it",
            "fields": {"reason": "another run works on it"},
        }
    ]
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


def test_secrets_are_replaced_in_texts_and_lists_before_they_are_cut_or_escaped(tmp_path: Path) -> None:
    said: list[str] = []
    recorder = make_recorder(tmp_path / "log", show=said.append)
    key = "sk-" + "a1B2" * 12
    recorder.record(
        events.GitBegun(f"/x/{SECRET}", ["fetch", f"https://u:{SECRET}@host", f'"{SECRET}"']), None
    )
    recorder.record(events.MessagePrinted("é" * (LONGEST_TEXT - 5) + key), None)
    recorder.add_secrets(["tomorrow-tomorrow"])
    recorder.record(events.ProgramBegun("curl\n tomorrow-tomorrow"), "j")
    written = (tmp_path / "log").read_text("utf-8") + "\n".join(said)
    assert SECRET not in written
    assert "sk-" not in written
    assert "tomorrow" not in written
    assert said[-1] == "j: run in the workspace: curl [redacted]"
    assert all(len(line["message"]) <= LONGEST_TEXT for line in read_lines(tmp_path / "log"))


def test_what_is_printed_anyway_is_not_told_twice_and_details_need_verbose(tmp_path: Path) -> None:
    said: list[str] = []
    for recorder in (make_recorder(tmp_path / "quiet"), make_recorder(tmp_path / "log", show=said.append)):
        recorder.record(events.MessagePrinted("asking"), None)
        recorder.record(events.JobsListed(3), None)
    assert said == ["ready jobs: 3"]
    assert [line["event"] for line in read_lines(tmp_path / "quiet")] == ["message"]
    assert [line["event"] for line in read_lines(tmp_path / "log")] == ["message", "jobs_listed"]


def test_each_event_has_its_name_and_a_sentence() -> None:
    names = [each.name for each in events.EVENTS]
    assert len(names) == len(set(names)) > 15
    text = (ROOT / "docs" / "operation.md").read_text("utf-8")
    assert [name for name in names if f"| `{name}` |" not in text] == []


def test_it_is_rotated_by_size_and_few_files_are_kept(tmp_path: Path) -> None:
    log = LogFile(str(tmp_path / "log"), pytest.fail, largest=100, kept=2)
    for number in range(40):
        log.write(b"%04d %s\n" % (number, b"x" * 20))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "log.1", "log.2"]
    lines = [
        line for name in ("log.2", "log.1", "log") for line in (tmp_path / name).read_bytes().splitlines()
    ]
    assert [int(line[:4]) for line in lines] == list(range(40 - len(lines), 40))
    assert all(path.stat().st_size <= 100 for path in tmp_path.iterdir())
    log.write(b"y" * 500 + b"\n")  # longer than the file may be: it gets a file of its own
    assert (tmp_path / "log").read_bytes() == b"y" * 500 + b"\n"


WRITER = """
import sys
from logist.event_log.log_file import LogFile
log = LogFile(sys.argv[1], sys.exit, largest=20_000, kept=50)
for number in range(500):
    log.write(b"%s %04d %s\\n" % (sys.argv[2].encode(), number, b"x" * 50))
"""


def test_processes_that_write_at_once_lose_and_mix_no_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(number)], env=process_environment(), cwd=ROOT
        )
        for number in range(4)
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0, 0]
    lines = [line for each in tmp_path.iterdir() for line in each.read_text().splitlines()]
    assert sorted(line[:6] for line in lines) == sorted(f"{w} {n:04}" for w in range(4) for n in range(500))
    assert {len(line) for line in lines} == {57}
    assert len(list(tmp_path.iterdir())) > 3


def test_it_follows_a_file_that_was_moved_or_removed(tmp_path: Path) -> None:
    log = LogFile(str(tmp_path / "log"), pytest.fail)
    log.write(b"1\n")
    (tmp_path / "log").rename(tmp_path / "moved")
    log.write(b"2\n")
    (tmp_path / "log").unlink()
    log.write(b"3\n")
    assert [(tmp_path / name).read_bytes() for name in ("moved", "log")] == [b"1\n", b"3\n"]


def test_half_a_line_of_a_killed_process_costs_no_other_line(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b'{"time')
    log = LogFile(str(tmp_path / "log"), pytest.fail)
    log.write(b"1\n")
    log.write(b"2\n")
    assert (tmp_path / "log").read_bytes() == b'{"time\n1\n2\n'


@pytest.mark.parametrize("kind", ["missing", "directory", "pipe", "device"])
def test_a_file_that_can_not_be_written_is_one_warning(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "log"
    if kind == "missing":
        path = tmp_path / "no" / "log"
    elif kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path = Path("/dev/full")
    warnings: list[str] = []
    log = LogFile(str(path), warnings.append)
    log.write(b"1\n")
    log.write(b"2\n")
    assert len(warnings) == 1
    assert warnings[0].startswith(f"can't write the log file {path}: ")


def test_a_full_disk_is_one_warning_and_later_lines_are_whole(tmp_path: Path) -> None:
    """A limit of the file size is what a test can have of a full disk: the kernel writes a part, then nothing."""
    code = """
import resource, signal, sys
from logist.event_log.log_file import LogFile
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (25, resource.RLIM_INFINITY))
warnings = []
log = LogFile(sys.argv[1], warnings.append)
for line in (b"1" * 20, b"2" * 20, b"3" * 20):
    log.write(line + b"\\n")
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
log.write(b"4\\n")
print(len(warnings))
"""
    path = tmp_path / "log"
    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, env=process_environment(), cwd=ROOT, capture_output=True, check=True)
    assert done.stdout == b"1\n"
    assert path.read_bytes() == b"1" * 20 + b"\n" + b"2" * 4 + b"\n4\n"


def test_where_files_can_not_be_renamed_the_log_goes_on_with_one_warning(tmp_path: Path) -> None:
    (tmp_path / "log.1").mkdir()
    (tmp_path / "log.1" / "file").touch()  # a directory that isn't empty can't be replaced, also by root
    warnings: list[str] = []
    log = LogFile(str(tmp_path / "log"), warnings.append, largest=10, kept=1)
    for _ in range(5):
        log.write(b"12345\n")
    assert (tmp_path / "log").read_bytes() == b"12345\n" * 5
    assert len(warnings) == 1
    assert "rotate" in warnings[0]


def test_nothing_is_recorded_without_a_recorder() -> None:
    assert not event_log.is_on()
    event_log.report(events.JobsListed(1))
