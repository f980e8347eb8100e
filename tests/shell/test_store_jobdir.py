"""The job directory: made whole or not at all, private, found by its id."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from logist.errors import Refused, UsageError
from logist.store import JobDir, jobdir, list_jobs
from logist.store import lock as locks
from tests import support

pytestmark = pytest.mark.disk

BAD_IDS = ["", "../x", "a/b", ".", "..", ".hidden", "a b", "ä", "a\n", "a\x00", "x" * 129, "/etc", "a.b"]


def fill(job: JobDir) -> None:
    """All that a job ever writes."""
    with job.hold_lock(command="job step", since="2026-01-02T03:04:05Z"):
        job.begin_exchange(1, {})
        job.mark_sent(1)
        job.save_response(1, {})
        job.history_file.write_bytes(job.history_file.read_bytes()[:-3] + b",torn")
        loaded = job.load()
        position = job.append_entries(loaded.position, [{"text": "one"}], loaded.torn).position
        job.write_state({"head": position._asdict()})
        job.write_log("000001.txt", b"log")


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_directories_are_0700_and_files_0600_under_any_umask(tmp_path: Path, umask: int) -> None:
    os.umask(umask)
    with JobDir.create_job(tmp_path / "new" / "jobs", "job") as job:
        pass
    fill(job)
    found = {str(path.relative_to(job.path)): path for path in [job.path, *job.path.rglob("*")]}
    modes = {name: path.stat().st_mode & 0o7777 for name, path in found.items()}
    assert modes == {name: 0o700 if path.is_dir() else 0o600 for name, path in found.items()}
    assert len(modes) == 11


def test_a_job_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    with JobDir.create_job(tmp_path, "job") as job:
        job.write_state({"head": None})
        assert list(list_jobs(tmp_path)) == []
        assert job.path.name.startswith(".new-job-")
        with pytest.raises(UsageError):
            JobDir.open(tmp_path, "job")
    assert (job.id, job.path, job.spec_file) == ("job", tmp_path / "job", tmp_path / "job" / "job.yaml")
    assert list(list_jobs(tmp_path)) == ["job"]
    assert os.listdir(tmp_path) == ["job"]
    assert job.read_state() is not None
    assert JobDir.open(tmp_path, "job").read_state() == job.read_state()


def test_an_error_while_a_job_is_made_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with JobDir.create_job(tmp_path, "job") as job:
            (job.path / "git" / "objects").mkdir(parents=True)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("taken", ["directory", "job", "file", "dangling link"])
def test_a_name_that_is_taken_is_refused_and_left_alone(tmp_path: Path, taken: str) -> None:
    path = tmp_path / "job"
    if taken == "directory":
        path.mkdir()
    elif taken == "job":
        path.mkdir()
        (path / "state.json").write_bytes(b"{}")
    elif taken == "file":
        path.write_bytes(b"")
    else:
        path.symlink_to("nowhere")
    before = {found: found.lstat() for found in tmp_path.iterdir()}
    with pytest.raises(Refused, match="already exists"), JobDir.create_job(tmp_path, "job"):
        raise AssertionError("not reached")
    assert {found: found.lstat() for found in tmp_path.iterdir()} == before


def test_of_two_that_make_the_same_job_one_is_refused(tmp_path: Path) -> None:
    def lose() -> None:
        with JobDir.create_job(tmp_path, "job") as second:
            second.write_state({"who": "second"})
            with JobDir.create_job(tmp_path, "job") as first:
                first.write_state({"who": "first"})

    with pytest.raises(Refused, match="already exists"):
        lose()
    state = JobDir.open(tmp_path, "job").read_state()
    assert state is not None
    assert state["who"] == "first"
    assert os.listdir(tmp_path) == ["job"]


KILLED = """
import os, signal, sys
from pathlib import Path
from logist.store import JobDir
with JobDir.create_job(Path(sys.argv[1]), "job"):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_maker_that_is_killed_leaves_no_job_and_the_next_one_clears_up(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    done = subprocess.run(command, env=support.process_environment(), check=False)
    assert done.returncode == -signal.SIGKILL
    assert list(list_jobs(tmp_path)) == []
    (left,) = os.listdir(tmp_path)
    assert left.startswith(".new-job-")
    with JobDir.create_job(tmp_path, "other"):
        pass
    assert os.listdir(tmp_path) == ["other"]


WAITING = """
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from logist.store import JobDir
with JobDir.create_job(Path(sys.argv[1]), "job"):
    print("making", flush=True)
    sys.stdin.read()
"""


def test_the_directory_of_a_living_maker_is_left_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WAITING, str(tmp_path)]
    env = support.process_environment()
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as maker:
        assert maker.stdout is not None
        maker.stdout.readline()
        with JobDir.create_job(tmp_path, "other"):
            assert len(os.listdir(tmp_path)) == 2
        maker.communicate()
    assert maker.returncode == 0
    assert sorted(os.listdir(tmp_path)) == ["job", "other"]


def test_only_what_was_to_become_a_job_is_cleared_up(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    jobs = tmp_path / "jobs"
    (jobs / ".new-notes").mkdir(parents=True)
    (jobs / ".new-a-0123456789ab").write_bytes(b"a file")
    (jobs / ".new-b-0123456789ab").symlink_to(outside)
    (jobs / ".new-c-0123456789ab" / "git" / "objects").mkdir(parents=True)
    with JobDir.create_job(jobs, "job"):
        pass
    kept = [".new-a-0123456789ab", ".new-b-0123456789ab", ".new-notes", "job"]
    assert sorted(os.listdir(jobs)) == kept
    assert outside.is_dir()


def test_a_maker_whose_directory_is_cleared_up_before_it_is_locked_makes_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed = locks.claim_unfinished_job
    lost: list[Path] = []

    def too_late(folder: Path) -> AbstractContextManager[bool]:
        if not lost:
            lost.append(folder)
            jobdir.remove_abandoned(tmp_path)  # as another command does at this moment
        return claimed(folder)

    monkeypatch.setattr(locks, "claim_unfinished_job", too_late)
    with JobDir.create_job(tmp_path, "job") as job:
        assert lost != [job.path]
        assert os.listdir(tmp_path) == [job.path.name]
    assert os.listdir(tmp_path) == ["job"]


@pytest.mark.parametrize("job_id", BAD_IDS)
def test_what_is_no_id_reaches_no_file(tmp_path: Path, job_id: str) -> None:
    with pytest.raises(UsageError, match="job id"):
        JobDir.open(tmp_path, job_id)
    with pytest.raises(UsageError, match="job id"), JobDir.create_job(tmp_path, job_id):
        raise AssertionError("not reached")
    assert os.listdir(tmp_path) == []


def test_an_unknown_job_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    for name in ("nobody", "file", "link"):
        with pytest.raises(UsageError, match=f"job '{name}' not found") as caught:
            JobDir.open(tmp_path, name)
        assert "job list" in (caught.value.fix or "")


def test_jobs_are_listed_in_order_and_what_is_no_job_is_not(tmp_path: Path) -> None:
    for name in ("b", "a", "C-1", "x" * 128, ".new-d-123", "a b"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to("a")
    assert list(list_jobs(tmp_path)) == ["C-1", "a", "b", "x" * 128]
    assert list(list_jobs(tmp_path / "none")) == []
    with pytest.raises(UsageError):
        list(list_jobs(tmp_path / "file"))


def test_reading_changes_no_byte(tmp_path: Path) -> None:
    with JobDir.create_job(tmp_path, "job") as job:
        pass
    fill(job)
    job.history_file.write_bytes(job.history_file.read_bytes()[:-3] + b",torn")
    before = support.tree(tmp_path)
    job.load(), list(job.read_entries()), job.verify(), job.read_state(), job.read_exchanges()
    job.find_lock_holder(), job.has_running_agent(), list(list_jobs(tmp_path)), JobDir.open(tmp_path, "job")
    assert support.tree(tmp_path) == before


LOADED = """
import sys
import logist.store.jobdir
print(*{"pydantic", "litellm", "dataclasses", "logist.core.model", "subprocess", "shutil"} & set(sys.modules))
"""


def test_importing_the_store_is_cheap() -> None:
    command = [sys.executable, "-c", LOADED]
    env = support.process_environment() | {"PYTHONPATH": str(support.ROOT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
