"""Erasing a text from a job: it is nowhere left, in no spelling, and the job is as valid as before."""

from __future__ import annotations

import base64
import errno
import gzip
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import unicodedata
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from logist.core.model import TERMINAL, Kind, Status
from logist.core.model.commands import ScrubCommand
from logist.core.relevance.word_table import WordTableBuilder
from logist.core.secrets.spellings import list_forms
from logist.errors import Busy, Refused, StorageError, UsageError
from logist.jobs.archive import archive_replay
from logist.jobs.archive.job_fork import fork_job
from logist.jobs.archive.job_pack import pack_job, unpack_job
from logist.jobs.base import cleaned_files, job_reader
from logist.jobs.base.session import open_session
from logist.jobs.erasure import matching_texts
from logist.jobs.erasure.job_scrub import ScrubOptions, ScrubResult, scrub_job
from logist.jobs.erasure.pack_scrub import scrub_pack
from logist.jobs.steward import job_merge, job_update
from logist.jobs.steward.job_deletion import delete_job
from logist.jobs.steward.steward_decisions import record_decision, restep_job
from logist.store import list_jobs, scrubs
from logist.store.job_index import JobIndex
from logist.workspace.context import WORDS_FOLDER, WordIndex
from logist.workspace.context.word_index import IndexPart
from tests import support
from tests.jobs.bench import Bench, answer, command, gave
from tests.jobs.conftest import MakeBench
from tests.jobs.test_recovery import in_flight
from tests.jobs.test_workflow_children import given_away, work

SECRET = 'hunter2"Pä$$wörd/42'
ENCODED = base64.b64encode(f"user:{SECRET}!".encode()).decode()


def scrub(b: Bench, job_id: str = "j", **options: object) -> ScrubResult:
    if "pattern" not in options:
        options = {"value": SECRET, **options}
    return scrub_job(b.project, job_id, ScrubOptions(**options))  # type: ignore[arg-type]


def list_contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every file below a directory, decompressed if it is compressed, and every object of every git repository."""
    for place, folders, names in os.walk(folder):
        for name in [*folders, *names]:
            yield f"name {name}", os.fsencode(name)
        for name in names:
            path = Path(place, name)
            if path.is_fifo():
                continue
            data = os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes()
            yield str(path), data
            if name.endswith(".gz"):
                yield str(path), gzip.decompress(data)
            elif data[:1] == b"\x78":
                yield str(path), zlib.decompress(data)
        if "HEAD" in names and "objects" in folders:
            git = ("git", "-c", "safe.directory=*", f"--git-dir={place}")
            every = [*git, "cat-file", "--batch-all-objects", "--batch", "--buffer"]
            yield f"objects of {place}", subprocess.run(every, capture_output=True, check=True).stdout


def find_anywhere(folder: Path, value: str = SECRET) -> list[str]:
    """The places where a value is, in any of its spellings."""
    forms = [form.encode() for form in list_forms(value)]
    return [where for where, data in list_contents(folder) if any(form in data for form in forms)]


def list_names(b: Bench) -> list[str]:
    """What is in the directory of the jobs, without the caches."""
    return sorted(each.name for each in b.project.jobs_dir.iterdir() if each.name not in (".packs", ".setup"))


def make_source(tmp_path: Path) -> Path:
    """A repository that has the value in a file, and in the history of a file."""
    source = support.make_repository(tmp_path / "source")
    (source / "config.ini").write_text(f"password={SECRET}\n")
    (source / "clean.txt").write_text("a\n")
    support.git(source, "add", "-A")
    support.git(source, "commit", "--quiet", "-m", f"Add {SECRET}")
    return source


def make_job(bench: MakeBench, tmp_path: Path) -> Bench:
    """A job whose source, task, answer, files, names, links, notes and logs have the value."""
    source = make_source(tmp_path)
    b = bench(
        [
            answer(
                command(summary=f"I used {SECRET}.", output={SECRET: [ENCODED]}, evidence=["out.txt"]),
                files={"out.txt": f"1\n{SECRET}\n", "sub/data.bin": f"\0\1{SECRET}"},
            ),
            answer(),
        ],
        {"history": {"rotate_at": 1}},
    )
    b.create(repo=str(source), prompt=f"Log in with {SECRET}.", title="Log in")
    b.step()
    (b.workspace() / "hand").mkdir()
    os.symlink(f"../{SECRET}", b.workspace() / "hand" / "link")
    (b.folder() / "logs" / "extra.jsonl").write_text(
        json.dumps({"a": SECRET}) + "\n" + json.dumps([ENCODED]) + "\n"
    )
    (b.workspace() / "wrapped.txt").write_text(
        "\n".join(ENCODED[i : i + 10] for i in range(0, len(ENCODED), 10))
    )
    record_decision(b.project, "j", Kind.NOTE, note=f"the key is {SECRET}")
    b.step()
    return b


def test_the_value_is_nowhere_left_and_the_job_is_valid(bench: MakeBench, tmp_path: Path) -> None:
    b = make_job(bench, tmp_path)
    before = b.history()
    assert find_anywhere(b.project.jobs_dir)
    result = scrub(b, reason=f"it has {SECRET}")
    assert find_anywhere(b.project.jobs_dir) == []
    assert list_names(b) == ["j"]
    after = b.history()
    assert [each.kind for each in after] == [*(each.kind for each in before), Kind.SCRUB]
    recorded = ScrubCommand.read(after[-1].command)
    assert (recorded.places, recorded.old_head) == (result.places, before[-1].checksum)
    assert recorded.head == after[-2].checksum != before[-1].checksum
    assert (after[-1].steward and after[-1].steward.name, recorded.reason) == ("ada", "it has [redacted]")
    assert (result.jobs[0].history > 5, result.jobs[0].files > 5, result.jobs[0].checkpoints > 5) == (
        True,
    ) * 3
    verified = job_reader.verify_job(b.project, b.project.open_job("j"))
    assert verified.problems == ()
    assert (b.workspace() / "config.ini").read_text() == "password=[redacted]\n"
    assert (b.workspace() / "clean.txt").read_text() == "a\n"
    replayed = archive_replay.replay_job(b.project, b.project.open_job("j"))
    assert not replayed.has_failed()


def test_a_job_without_the_value_stays_as_it_is(bench: MakeBench, tmp_path: Path) -> None:
    b = make_job(bench, tmp_path)
    before = b.files()
    result = scrub(b, value="another text")
    after = b.files()
    assert (result.places, result.jobs[0].sequence) == (0, None)
    assert {name for name in before if before[name] != after.get(name)} <= {"lock", "git/logist-clock"}


def test_a_dry_run_counts_the_same_and_changes_nothing(bench: MakeBench, tmp_path: Path) -> None:
    b = make_job(bench, tmp_path)
    before = b.files()
    counted = scrub(b, dry_run=True)
    assert {name for name, data in b.files().items() if before.get(name) != data} <= {
        "lock",
        "git/logist-clock",
    }
    assert scrub(b).places == counted.places > 0


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        ("abc", Refused, "3 characters"),
        ("", UsageError, "empty"),
        ("  \n", UsageError, "empty"),
        ("redacted", UsageError, "which replaces it"),
        ("x" * 70_000, UsageError, "longer than"),
        ("PENDING", Refused, "a word that Logist's own files consist of"),
    ],
)
def test_what_would_destroy_a_job_is_refused(
    bench: MakeBench, tmp_path: Path, value: str, error: type[Exception], words: str
) -> None:
    b = make_job(bench, tmp_path)
    before = b.files()
    with pytest.raises(error, match=words) as raised:
        scrub(b, value=value)
    assert len(value) < 4 or value in ("redacted", "  \n") or value not in str(raised.value)
    assert {name for name, data in b.files().items() if before.get(name) != data} <= {
        "lock",
        "git/logist-clock",
    }
    assert list_names(b) == ["j"]


def test_a_short_value_can_be_forced(bench: MakeBench) -> None:
    b = bench([answer(files={"a.txt": "my pin is 8471\n"})])
    b.create(prompt="Use 8471.", review=False)
    b.step()
    assert scrub(b, value="8471", force=True).places >= 2
    assert (b.workspace() / "a.txt").read_text() == "my pin is [redacted]\n"
    assert find_anywhere(b.folder(), "8471") == []


def test_a_scrub_waits_for_no_agent_and_no_answer_is_lost(bench: MakeBench) -> None:
    b = bench([answer()])
    in_flight(b, command())
    with pytest.raises(Refused, match="not recorded yet"):
        scrub(b)
    with open_session(b.project, "j", "test"), pytest.raises(Busy):
        scrub(b)
    b.step()
    assert scrub(b).places == 0


def test_an_id_with_the_value_is_refused(bench: MakeBench) -> None:
    b = bench()
    b.create("ada-lovelace-1815")
    with pytest.raises(Refused, match="the id of the job contains the value") as raised:
        scrub(b, "ada-lovelace-1815", value="lovelace")
    assert "lovelace" not in str(raised.value)


def test_a_pattern_finds_the_texts_and_all_their_spellings(bench: MakeBench) -> None:
    mails = ["ada@example.org", "bob+x@example.org"]
    other = base64.b64encode(f"to: {mails[0]}, please".encode()).decode()
    b = bench(
        [answer(command(summary=f"Wrote to {mails[1]}."), files={"m.txt": f"{other}\nada%40example.org\n"})]
    )
    b.create(prompt=f"Write to {mails[0]}.", review=False)
    b.step()
    result = scrub(b, pattern=r"[\w.+-]+@example\.org")
    assert result.places >= 4
    for mail in mails:
        assert find_anywhere(b.folder(), mail) == []
    assert job_reader.verify_job(b.project, b.project.open_job("j")).problems == ()


@pytest.mark.parametrize(
    ("pattern", "error", "words"),
    [
        ("x*", UsageError, "matches the empty text"),
        (r"\b", UsageError, "matches the empty text"),
        ("(", UsageError, "invalid pattern"),
        ("[a-z]", Refused, "1 character"),
        ("[a-z]{6,}", Refused, "a word that Logist's own files consist of"),
    ],
)
def test_a_pattern_that_is_too_wide_is_refused(
    bench: MakeBench, tmp_path: Path, pattern: str, error: type[Exception], words: str
) -> None:
    b = make_job(bench, tmp_path)
    before = b.history()
    with pytest.raises(error, match=words):
        scrub(b, pattern=pattern)
    assert b.history() == before


def test_a_pattern_that_hangs_is_stopped(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    slow = Path(matching_texts.__file__).read_text().replace("SECONDS = 300", "SECONDS = 1")
    (tmp_path / "matching_texts.py").write_text(slow)
    monkeypatch.setattr(matching_texts, "__file__", str(tmp_path / "matching_texts.py"))
    b = bench()
    b.create(prompt="a" * 40 + "!")
    with pytest.raises(Refused, match="the pattern takes more than"):
        scrub(b, pattern="(a+)+$")


KILLED = """
import os, signal, sys
from logist.store import scrubs
from tests.jobs.bench import Bench
from pathlib import Path
from logist.jobs.erasure import job_scrub

def kill(*given, **named):
    os.kill(os.getpid(), signal.SIGKILL)

def exchange_and_kill(copy, job, real=scrubs._exchange):
    real(copy, job)
    kill()

point = sys.argv[2]
if point == "copy":
    scrubs.Scrub.replace_jobs = kill
elif point == "plan":
    scrubs._carry_out = kill
elif point == "exchange":
    scrubs._exchange = exchange_and_kill
elif point == "no exchange":
    rename = os.rename
    def rename_and_kill(old, new, **named):
        rename(old, new, **named)
        if named == {} and str(old).endswith("/j"):
            kill()
    scrubs.systems.exchange_names = lambda *names: False
    scrubs.os.rename = rename_and_kill
elif point == "cleaning":
    scrubs._remove = kill
b = Bench(Path(sys.argv[1]))
job_scrub.scrub_job(b.project, "j", job_scrub.ScrubOptions(value=sys.stdin.read()))
"""


def kill_scrub(b: Bench, point: str) -> subprocess.CompletedProcess[bytes]:
    """Scrub the job in a process that kills itself at a point."""
    return subprocess.run(
        [sys.executable, "-c", KILLED, str(b.project.home.parent), point],
        env={"PYTHONPATH": str(support.ROOT), "PATH": "/usr/bin:/bin"},
        input=SECRET.encode(),
        capture_output=True,
        check=False,
    )


@pytest.mark.parametrize("point", ["copy", "plan", "exchange", "no exchange", "cleaning"])
def test_a_killed_scrub_leaves_the_old_jobs_or_is_finished_by_the_next_command(
    bench: MakeBench, point: str
) -> None:
    b = bench()
    given_away(b, SECRET, "b")
    children = b.children()
    before = {name: b.history(name) for name in ["j", *children]}
    killed = kill_scrub(b, point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert ".scrubs" in list_names(b)
    JobIndex.make(str(b.project.jobs_dir)).refresh()  # a listing meanwhile
    record_decision(b.project, "j", Kind.NOTE, note="the next command")
    assert ".scrubs" not in list_names(b)
    kinds = [entry.kind for entry in b.history()]
    if point == "copy":
        assert kinds == [*(entry.kind for entry in before["j"]), Kind.NOTE]
        assert scrub(b).places
    else:
        assert kinds == [*(entry.kind for entry in before["j"]), Kind.SCRUB, Kind.NOTE]
    assert find_anywhere(b.project.jobs_dir) == []
    assert sorted(list_jobs(b.project.jobs_dir)) == sorted(before)
    for name in before:
        assert job_reader.verify_job(b.project, b.project.open_job(name)).problems == ()


def test_a_stranger_can_not_lead_a_scrub_elsewhere(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    b.create()
    jobs, elsewhere = b.project.jobs_dir, tmp_path / "elsewhere"
    (elsewhere / "folder" / "inner").mkdir(parents=True)
    (jobs / scrubs.FOLDER).symlink_to(elsewhere)
    record_decision(b.project, "j", Kind.NOTE, note="Nothing was removed.")
    with pytest.raises(StorageError, match="not a directory of Logist"), scrubs.begin_scrub(jobs):
        pass
    (jobs / scrubs.FOLDER).unlink()
    folder = jobs / scrubs.FOLDER / "a"
    folder.mkdir(parents=True)
    (folder / "link").symlink_to(elsewhere)
    record_decision(b.project, "j", Kind.NOTE, note="Nothing was removed.")
    assert not folder.exists()
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(json.dumps({"jobs": [os.path.relpath(elsewhere, folder)]}))
    record_decision(b.project, "j", Kind.NOTE, note="Nothing was removed.")
    assert not folder.exists()
    assert (elsewhere / "folder" / "inner").is_dir()


def test_a_scrub_that_can_not_be_finished_keeps_no_other_job_from_working(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = bench()
    b.create(prompt=f"Use {SECRET}.")
    b.create("other")
    kill_scrub(b, "plan")

    def fail(copy: Path, job: Path) -> None:
        raise OSError(errno.EIO, "the disk is broken", str(job))

    with monkeypatch.context() as patched:
        patched.setattr(scrubs, "_exchange", fail)
        record_decision(b.project, "other", Kind.NOTE, note="Goes on.")
        for _ in range(2):  # the lock is free again
            with pytest.raises(StorageError, match="the disk is broken"):
                record_decision(b.project, "j", Kind.NOTE, note="Waits.")
    record_decision(b.project, "j", Kind.NOTE, note="Goes on.")
    assert [entry.kind for entry in b.history("j")][-2:] == [Kind.SCRUB, Kind.NOTE]


def test_children_are_scrubbed_with_their_parent_and_not_alone(bench: MakeBench) -> None:
    b = bench()
    first, second = given_away(b, SECRET, "b")
    with pytest.raises(Refused, match="is a child job of j") as raised:
        scrub(b, first)
    assert raised.value.fix == "scrub both: logist job scrub --job j"
    result = scrub(b)
    assert {job.job_id for job in result.jobs if job.sequence} == {"j", first}
    assert b.history(second)[-1].kind is not Kind.SCRUB
    assert find_anywhere(b.project.jobs_dir) == []
    for name in ("j", first, second):
        assert job_reader.verify_job(b.project, b.project.open_job(name)).problems == ()


def test_a_family_goes_on_after_a_scrub(bench: MakeBench) -> None:
    b = bench()
    each = {1: [gave("a done", files={"a.txt": SECRET})]}
    first, second = given_away(b, SECRET, "b", each=each)
    work(b, first)
    scrub(b)
    work(b, second)
    assert b.run().state.status is Status.SUCCESS
    assert (b.workspace() / "a.txt").read_text() == "[redacted]"
    assert find_anywhere(b.project.jobs_dir) == []


def test_forks_are_named_or_scrubbed_too(bench: MakeBench, tmp_path: Path) -> None:
    b = make_job(bench, tmp_path)
    fork_job(b.project, "j", 2, new_id="copy")
    result = scrub(b)
    assert any("copy is a fork of j (at interaction 2)" in each.place for each in result.remaining)
    assert find_anywhere(b.folder("copy"))
    for name in ("j", "copy"):
        assert job_reader.verify_job(b.project, b.project.open_job(name)).problems == ()
    assert {job.job_id for job in scrub(b, forks=True).jobs if job.sequence} == {"copy"}
    assert find_anywhere(b.project.jobs_dir) == []
    for name in ("j", "copy"):
        assert job_reader.verify_job(b.project, b.project.open_job(name)).problems == ()


def test_other_jobs_and_the_repository_with_the_same_files_are_named(
    bench: MakeBench, tmp_path: Path
) -> None:
    b = make_job(bench, tmp_path)
    b.create("other", repo=str(tmp_path / "source"))
    result = scrub(b)
    places = [each.place for each in result.remaining]
    assert places == [
        "other has checkpoints with the same files",
        f"the repository {tmp_path / 'source'} has files with it",
    ]


def test_a_packed_job_is_scrubbed_in_its_file(bench: MakeBench, tmp_path: Path) -> None:
    b = make_job(bench, tmp_path)
    file = tmp_path / "j.tar.gz"
    pack_job(b.project, "j", file)
    result = scrub_pack(b.project, file, ScrubOptions(value=SECRET))
    assert result.places
    assert find_anywhere(b.folder())
    assert {each.name for each in tmp_path.iterdir()} == {"j.tar.gz", "project-0", "source"}
    delete_job(b.project, "j", force=True) if b.state().status in TERMINAL else shutil.rmtree(b.folder())
    unpack_job(b.project, file)
    assert find_anywhere(b.folder()) == []
    assert b.history()[-1].kind is Kind.SCRUB


def test_a_decision_that_followed_from_the_value_replays_because_of_the_scrub(
    bench: MakeBench, tmp_path: Path
) -> None:
    """The branch was chosen by a text that is gone."""
    (tmp_path / "w.yaml").write_text(
        "name: W\nsteps:\n- {id: a, prompt: x}\n- id: d\n  stepType: decision\n  branches:\n"
        "  - {condition: 'output.who.length == 15', targetStepId: b}\n"
        "  - {condition: null, targetStepId: c}\n- {id: b, prompt: y}\n- {id: c, prompt: z}\n"
    )
    b = bench()
    b.follow(str(tmp_path / "w.yaml"), steps={"a": [gave({"who": "ada@example.org"})], "b": [gave("b")]})
    b.step()
    assert b.state().step == "b"
    b.step()
    scrub(b, pattern="ada@example")
    replayed = archive_replay.replay_job(b.project, b.project.open_job("j"))
    assert not replayed.has_failed(rules=True)
    assert replayed.differences == ()
    assert {(each.sequence, each.cause) for each in replayed.scrubbed} == {
        (2, f"interaction {b.history()[-1].sequence} (scrub) has replaced text")
    }


def test_work_on_a_commit_with_the_value_is_merged_only_after_an_update(
    bench: MakeBench, tmp_path: Path
) -> None:
    source = make_source(tmp_path)
    b = bench([answer(command(evidence=["out.txt"]), files={"out.txt": "1\n"}), answer(), answer()])
    b.create(repo=str(source), approval="none")
    b.step()
    b.step()
    assert scrub(b).places
    (source / "config.ini").write_text("password=changed\n")
    support.git(source, "commit", "--quiet", "-am", "Another password")
    with pytest.raises(Refused, match="no longer in this repository"):
        job_merge.merge_job(b.project, "j")
    job_update.update_job(b.project, "j", onto="HEAD")
    assert (b.workspace() / "config.ini").read_text() == "password=changed\n"
    b.step()
    job_merge.merge_job(b.project, "j")
    assert (source / "out.txt").read_text() == "1\n"
    assert (b.workspace() / "out.txt").read_text() == "1\n"


def test_a_job_goes_back_to_before_the_scrub(bench: MakeBench, tmp_path: Path) -> None:
    b = make_job(bench, tmp_path)
    scrub(b)
    restep_job(b.project, "j", 2)
    assert (b.workspace() / "config.ini").read_text() == "password=[redacted]\n"
    assert not (b.workspace() / "out.txt").exists()
    assert find_anywhere(b.project.jobs_dir) == []


def test_a_job_without_its_files_is_valid_after_a_scrub(bench: MakeBench, tmp_path: Path) -> None:
    b = make_job(bench, tmp_path)
    record_decision(b.project, "j", Kind.CANCEL)
    with open_session(b.project, "j", "gc") as session:
        cleaned_files.clean_job(session)
    assert scrub(b).places
    assert b.project.open_job("j").read_cleaned() is not None
    assert find_anywhere(b.project.jobs_dir) == []
    assert job_reader.verify_job(b.project, b.project.open_job("j")).problems == ()


def test_a_second_scrub_keeps_the_first(bench: MakeBench, tmp_path: Path) -> None:
    b = make_job(bench, tmp_path)
    scrub(b)
    scrub(b, value="clean.txt")
    first, second = (entry for entry in b.history() if entry.kind is Kind.SCRUB)
    assert ScrubCommand.read(first.command).head == first.previous
    assert ScrubCommand.read(second.command).head == second.previous
    assert find_anywhere(b.folder(), "clean.txt") == []


def test_what_is_locked_or_odd_in_a_workspace_is_no_obstacle(bench: MakeBench, tmp_path: Path) -> None:
    b = make_job(bench, tmp_path)
    folder = b.workspace() / "locked"
    folder.mkdir()
    (folder / f"a {SECRET.replace('/', '')}").write_text(SECRET)
    (folder / "unreadable").write_text(SECRET)
    os.chmod(folder / "unreadable", 0)
    os.mkfifo(folder / "pipe")
    os.chmod(folder, 0o500)
    scrub(b)
    assert find_anywhere(b.folder()) == []
    assert (folder / "pipe").is_fifo()


def test_without_its_files_a_job_is_scrubbed_and_stays_valid(bench: MakeBench, tmp_path: Path) -> None:
    b = make_job(bench, tmp_path)
    record_decision(b.project, "j", Kind.CANCEL)
    with open_session(b.project, "j", "gc") as session:
        cleaned_files.clean_job(session)
    scrub(b)
    job = b.project.open_job("j")
    verified = job_reader.verify_job(b.project, job)
    assert (verified.problems, job.read_cleaned() is not None) == ((), True)
    assert find_anywhere(b.project.jobs_dir) == []


@pytest.mark.parametrize("value", ["committer", "author", "1767323", "ada <ada@localhost>", "@localhost"])
def test_git_can_read_the_checkpoints_without_any_value(bench: MakeBench, tmp_path: Path, value: str) -> None:
    b = make_job(bench, tmp_path)
    scrub(b, value=value)
    git = ("git", f"--git-dir={b.folder() / 'git'}")
    checked = subprocess.run(
        [*git, "fsck", "--full", "--strict"], capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stderr.count("error")) == (0, 0), checked.stderr
    persons = subprocess.run(
        [*git, "log", "--all", "--format=%an %ae %cn %ce"], capture_output=True, check=True
    )
    assert value.encode() not in persons.stdout


@pytest.mark.parametrize("written", ["NFC", "NFD", "latin-1"])
@pytest.mark.parametrize("given", ["NFC", "NFD"])
def test_a_name_is_found_however_its_accents_are_written(
    bench: MakeBench, written: str, given: Literal["NFC", "NFD"]
) -> None:
    name = "Jos\u00e9 \u00c5ngstr\u00f6m"
    data = {
        "NFC": unicodedata.normalize("NFC", name).encode(),
        "NFD": unicodedata.normalize("NFD", name).encode(),
        "latin-1": name.encode("latin-1"),
    }[written]
    b = bench()
    b.create()
    b.step()
    (b.workspace() / "customers.csv").write_bytes(b"1;" + data + b";2\n")
    (b.workspace() / os.fsdecode(data)).touch()
    assert scrub(b, value=unicodedata.normalize(given, name)).places >= 2
    assert (b.workspace() / "customers.csv").read_bytes() == b"1;[redacted];2\n"
    assert [where for where, found in list_contents(b.project.jobs_dir) if data in found] == []


def test_work_that_began_with_the_value_can_be_merged_after_an_update(
    bench: MakeBench, tmp_path: Path
) -> None:
    b = make_job(bench, tmp_path)
    (note,) = [each for each in scrub(b).jobs[0].notes if "can't be merged as it is" in each]
    assert note.endswith("logist job update --job j --onto HEAD")
    source = tmp_path / "source"
    (source / "config.ini").write_text("password=\n")
    support.git(source, "commit", "--quiet", "-a", "--amend", "-m", "Add it")
    job_update.update_job(b.project, "j", onto="HEAD")
    assert b.state().start_checkpoint == support.git(source, "rev-parse", "HEAD").strip()
    assert job_reader.verify_job(b.project, b.project.open_job("j")).problems == ()


def test_the_index_of_jobs_does_not_bring_the_value_back(bench: MakeBench) -> None:
    b = bench()
    b.create(title=f"Log in with {SECRET}")
    killed = kill_scrub(b, "plan")
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    listing = [sys.executable, "-m", "logist", "job", "list", "--jobs-dir", str(b.project.jobs_dir)]
    subprocess.run(listing, cwd=support.ROOT, env={"PATH": "/usr/bin:/bin", "HOME": "/"}, check=True)
    record_decision(b.project, "j", Kind.NOTE, note="the next command")
    assert find_anywhere(b.project.jobs_dir) == []


def test_a_disk_that_is_full_is_named_and_nothing_is_changed(bench: MakeBench) -> None:
    b = bench()
    b.create()
    (b.workspace() / "large.txt").write_text(SECRET * 20_000)
    b.step()
    before = b.files()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # as if there were no more space
    try:
        with pytest.raises(StorageError, match="File too large"):
            scrub(b)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    after = b.files()
    assert {name for name in before if before[name] != after.get(name)} <= {"lock", "git/logist-clock"}
    assert ".scrubs" not in list_names(b)


@pytest.mark.parametrize(
    "plan", [["../../../../elsewhere"], {"../../../../elsewhere": [1, 2]}, {"j": [1, 2]}, 5]
)
def test_a_plan_that_logist_has_not_written_here_replaces_and_removes_nothing(
    bench: MakeBench, tmp_path: Path, plan: object
) -> None:
    b = bench()
    b.create()
    elsewhere = b.project.jobs_dir / ".scrubs" / "one" / "../../../../elsewhere"
    elsewhere.resolve().mkdir(parents=True)
    (elsewhere.resolve() / "file").touch()
    planted = b.project.jobs_dir / ".scrubs" / "one" / "j"
    planted.mkdir(parents=True)
    (planted / scrubs.MARKER).touch()
    (planted.parent / "plan.json").write_text(json.dumps({"jobs": plan}))
    before = [each.checksum for each in b.history()]
    record_decision(b.project, "j", Kind.NOTE, note="the next command")
    assert [each.checksum for each in b.history()][:-1] == before
    assert (elsewhere.resolve() / "file").exists()
    assert list_names(b) == ["j"]


def test_no_scrub_is_looked_for_through_a_link(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    b.create()
    (tmp_path / "elsewhere" / "folder").mkdir(parents=True)
    (b.project.jobs_dir / ".scrubs").symlink_to(tmp_path / "elsewhere")
    record_decision(b.project, "j", Kind.NOTE, note="the next command")
    with pytest.raises(StorageError, match="not a directory of Logist"):
        scrub(b, value="any text")
    assert (tmp_path / "elsewhere" / "folder").exists()


def test_the_word_index_is_removed(bench: MakeBench, tmp_path: Path) -> None:
    """It is a cache, and has words of the text."""
    b = make_job(bench, tmp_path)
    words = b.project.jobs_dir / WORDS_FOLDER
    index, builder = WordIndex(words), WordTableBuilder()
    builder.add_text(SECRET.encode())
    index.save_part(IndexPart([bytes(20)], builder.finish()))
    assert len(index.list_parts()) == 1
    directories = [words / f"directory{number}" for number in range(10)]  # some are listed before the part
    for directory in directories:
        directory.mkdir()
    (remaining,) = [each for each in scrub(b).remaining if ".words" in each.place]
    assert index.list_parts() == []
    assert remaining.fix == f"rm -r {words}"
    for directory in directories:
        directory.rmdir()
    record_decision(b.project, "j", Kind.NOTE, note=f"the key is {SECRET}")
    assert [each for each in scrub(b).remaining if ".words" in each.place] == []
    assert not words.exists()
