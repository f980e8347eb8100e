"""Replaying recorded jobs: where they are found, what is read of them, and what stops none of the others."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from logist.core.history import fold
from logist.core.model import EffectiveSpec, Interaction, JsonObject, Kind, State, Status
from logist.core.replay.difference import Difference
from logist.core.replay.drift import Drift
from logist.core.replay.replay import collect_restep_targets, replay
from logist.core.whatif import ChangedRules
from logist.errors import Damaged, Stopped, StorageError, UsageError
from logist.jobs.archive import archive_drift, archive_replay, recorded_jobs, replay_report
from logist.jobs.archive.archive_replay import Replayed, replay_all, replay_archive
from logist.jobs.archive.archive_whatif import try_all
from logist.jobs.archive.recorded_jobs import Archive
from logist.jobs.base.stored_records import dump_interaction
from logist.store import JobDir
from logist.store.entries import CLOSING, format_header, seal_entry
from tests import support
from tests.core.builders import SCHEMA, Recorder, command, whole_history
from tests.jobs.bench import Bench

FIXTURES = support.ROOT / "fixtures" / "jobs"
HISTORY = whole_history().entries


def written(folder: Path, entries: list[Interaction], name: str = "jobHistory.json") -> Archive:
    """The entries as a history on disk, numbered and chained."""
    folder.mkdir(parents=True, exist_ok=True)
    lines, previous = [], None
    for number, entry in enumerate(entries, 1):
        sealed, line = seal_entry(dump_interaction(entry), number, previous)
        lines.append(line)
        previous = sealed["checksum"]
    (folder / name).write_bytes(format_header() + b"\n,".join(lines) + (b"\n" if lines else b"") + CLOSING)
    return Archive(folder.name, folder / name)


def replayed(archive: Archive) -> Replayed:
    return replay_archive(archive, SCHEMA)


def changed(**fields: object) -> list[Interaction]:
    """The history with fields of its third entry changed."""
    entries = list(HISTORY)
    entries[2] = entries[2].model_copy(update=fields)
    return entries


class TestArchives:
    def names(self, *paths: str) -> list[str]:
        return [archive.name for archive in recorded_jobs.find_histories(paths)]

    def test_jobs_files_folders_and_patterns(self, tmp_path: Path) -> None:
        for name in ("b", "a", "deep/c", ".git/no", ".new-x-1/no", ".batches/1/no", "a/workspace/inner"):
            written(tmp_path / "all" / name, HISTORY[:1])
        written(tmp_path, HISTORY[:1], "old.json")
        assert self.names("all") == ["all/a", "all/b", "all/deep/c"]
        assert self.names("all/b", "all/b/jobHistory.json", "all/?") == ["all/b", "all/a"]
        assert self.names("old.json") == ["old.json"]

    @pytest.mark.parametrize("path", ["nowhere", "*.nothing", "empty", "pipe"])
    def test_a_path_without_a_history(self, tmp_path: Path, path: str) -> None:
        (tmp_path / "empty").mkdir()
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(UsageError, match=f"no history found at {re.escape(path)} "):
            self.names(path)

    @pytest.mark.skipif(os.getuid() == 0, reason="root may list every folder")
    def test_a_folder_that_cannot_be_listed_is_no_empty_one(self, tmp_path: Path) -> None:
        written(tmp_path / "all" / "a", HISTORY[:1])
        (tmp_path / "all" / "locked").mkdir(mode=0)
        with pytest.raises(StorageError, match="can't list the directory"):
            self.names("all")

    def test_an_error_of_the_walk_is_told(self) -> None:
        with pytest.raises(StorageError, match="can't list the directory: gone"):
            recorded_jobs._raise_unlistable(OSError(5, "gone", "x"))

    def test_a_file_of_another_name_is_read_itself(self, tmp_path: Path) -> None:
        written(tmp_path, HISTORY[:1])
        other = written(tmp_path, HISTORY, "other.json")
        assert len(list(other.read_interactions())) == len(HISTORY)
        assert replayed(other).interactions == len(HISTORY)

    def test_the_targets_of_resteps(self, tmp_path: Path) -> None:
        archive = written(tmp_path, HISTORY)
        assert archive.find_restep_targets() == collect_restep_targets(HISTORY) != set()

    @pytest.mark.parametrize("rotate_at", [1, 6_000])
    def test_a_rotated_history_is_one(self, tmp_path: Path, rotate_at: int) -> None:
        with JobDir.create_job(tmp_path / "jobs", "j") as job:
            position = job.load().position
            for entry in HISTORY:
                position = job.append_entries(
                    position, [dump_interaction(entry)], rotate_at=rotate_at
                ).position
        archive = Archive.from_job(job)
        assert len(list((tmp_path / "jobs" / "j").glob("*.gz"))) > 1
        assert archive.find_restep_targets() == collect_restep_targets(HISTORY)
        found = replayed(archive)
        assert (found.name, found.interactions, found.differences, found.error) == (
            "j",
            len(HISTORY),
            (),
            None,
        )

    def test_what_only_looks_like_a_restep_is_none(self, tmp_path: Path) -> None:
        request = HISTORY[2].request.model_copy(update={"metadata": {"kind": "restep", "command": {"to": 2}}})
        archive = written(
            tmp_path, [HISTORY[0], HISTORY[1], HISTORY[2].model_copy(update={"request": request})]
        )
        assert archive.find_restep_targets() == set()


class TestOneHistory:
    def test_it_goes_the_same_way(self, tmp_path: Path) -> None:
        found = replayed(written(tmp_path / "x", HISTORY))
        assert (found.name, found.interactions, found.differences, found.error) == (
            "x",
            len(HISTORY),
            (),
            None,
        )
        assert not found.has_failed(prompts=True)

    def test_what_was_found_before_the_damage_is_kept(self, tmp_path: Path) -> None:
        archive = written(tmp_path / "x", changed(state_after=Status.WAITING))
        data = archive.path.read_bytes()
        archive.path.write_bytes(data.replace(b'"sequence":8,', b'"sequence":9,'))
        found = replayed(archive)
        assert (found.differences[0].sequence, found.differences[0].field) == (3, "state_after")
        assert found.interactions == 7
        assert found.error is not None
        assert found.error.exit_code == 10

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "first line"),
            (b"\0" * 5000, "first line"),
            (format_header() + CLOSING, "empty"),
            (b'{"version":1' + b" " * 5000, "first line"),
        ],
    )
    def test_what_is_no_history(self, tmp_path: Path, content: bytes, message: str) -> None:
        archive = written(tmp_path, HISTORY[:1])
        archive.path.write_bytes(content)
        found = replayed(archive)
        assert found.error is not None
        assert message in found.error.message

    @pytest.mark.parametrize("cut", [1, 3, 4, 50, 900])
    def test_an_archive_whose_end_is_cut_off_is_not_whole(self, tmp_path: Path, cut: int) -> None:
        archive = written(tmp_path, HISTORY)
        archive.path.write_bytes(archive.path.read_bytes()[:-cut])
        found = replayed(archive)
        assert found.error is not None
        assert found.error.message.startswith(
            "the end of the history is missing: it may have had more than 2"
        )
        (tmp_path / "state.json").write_text('{"head": null}', "utf-8")
        found = replayed(archive)
        assert found.error is None
        assert found.notes == (
            "the last append to the history is incomplete; the next change to the job repairs it",
        )

    def test_one_damaged_history_stops_no_other(self, tmp_path: Path) -> None:
        three = [written(tmp_path / name, HISTORY[:3]) for name in "abc"]
        three[1].path.unlink()
        os.symlink("/dev/null", three[1].path)
        found = list(replay_all(three, SCHEMA))
        assert [each.error is None for each in found] == [True, False, True]

    def test_a_history_that_only_a_newer_logist_knows_is_not_replayed(self, tmp_path: Path) -> None:
        newer = [entry.model_copy(update={"version": 2}) for entry in HISTORY[:3]]
        error = replayed(written(tmp_path, newer)).error
        assert error is not None
        assert "this Logist" in error.message
        assert "reads up to format 1" in error.message

    def test_what_no_rule_expects_is_no_traceback(self, tmp_path: Path) -> None:
        odd = HISTORY[0].model_copy(update={"command": {"children": 1.5}, "kind": Kind.COLLECT})
        entries = [HISTORY[0], *(odd.model_copy(update={"kind": kind}) for kind in Kind)]
        found = list(replay_all([written(tmp_path / "a", entries), written(tmp_path / "b", HISTORY)], SCHEMA))
        assert found[0].has_failed()
        assert not found[1].has_failed()

    def test_a_rule_that_fails_stops_no_other_history(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def odd(state: State | None, entry: Interaction, back: State | None = None) -> State:
            raise KeyError(entry.sequence)

        one, other = written(tmp_path / "a", HISTORY), written(tmp_path / "b", HISTORY)
        with monkeypatch.context() as patched:
            patched.setattr(fold, "apply_interaction", odd)
            found = replayed(one)
        assert found.error is not None
        assert found.error.message.endswith(
            "the history has unexpected content, at interaction 1: KeyError(1)"
        )
        assert not replayed(other).has_failed()

    def test_only_so_many_findings_are_kept(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(archive_replay, "KEPT", 2)
        entries = [entry.model_copy(update={"state_after": Status.WAITING}) for entry in HISTORY]
        found = replayed(written(tmp_path, entries))
        assert (len(found.differences), found.more) == (2, len(HISTORY) - 2)

    def test_a_restep_that_is_recorded_meanwhile(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        archive = written(tmp_path, HISTORY)
        monkeypatch.setattr(Archive, "find_restep_targets", lambda self: set())
        found = replayed(archive)
        assert (found.interactions, found.differences) == (len(HISTORY), ())

    def test_one_interaction_is_in_memory(self) -> None:
        alive: list[weakref.ref[Interaction]] = []
        most = 0

        def entries() -> Iterator[Interaction]:
            nonlocal most
            for entry in HISTORY:
                copied = entry.model_copy()
                alive.append(weakref.ref(copied))
                most = max(most, sum(each() is not None for each in alive))
                yield copied

        assert list(replay(entries(), SCHEMA, set())) is not None
        assert len(alive) == len(HISTORY)
        assert most <= 3


class TestPrompts:
    def test_each_ask_is_compared_with_the_state_before_it(self, tmp_path: Path) -> None:
        seen: list[tuple[int, State]] = []

        def prompts(spec: EffectiveSpec, state: State, entry: Interaction) -> Iterator[Drift]:
            assert spec == HISTORY[0].spec or entry.sequence > 1
            seen.append((entry.sequence, state))
            yield Drift(entry.sequence, "task", "changed", "why")

        found = replay_archive(written(tmp_path, HISTORY), SCHEMA, prompts=prompts)
        asks = [entry.sequence for entry in HISTORY if entry.kind is Kind.ASK]
        assert [number for number, _ in seen] == [each.sequence for each in found.drifts] == asks
        for number, state in seen:
            assert state == fold.fold_before(HISTORY, number)
        assert found.differences == ()
        assert (found.has_failed(), found.has_failed(prompts=True)) == (False, True)


OPENED: list[str] = []
WATCH = {"on": False}


def _audited(event: str, args: tuple[object, ...], watch: dict[str, bool] = WATCH) -> None:
    # As a default: at the end of the interpreter the hook is still called, and the module's names are gone.
    if watch["on"] and (event == "open" or event.startswith(("socket.", "subprocess.", "os.exec"))):
        OPENED.append(str(args[0]) if event == "open" else event)


sys.addaudithook(_audited)


def test_it_opens_the_history_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No path of the machine it was recorded on, no socket, no process and no clock; prompts included."""
    folder = tmp_path / "archive"
    shutil.copytree(FIXTURES / "main-job", folder)
    prompts = archive_drift.build_drift_finder(Bench(tmp_path / "project").project)
    archive = recorded_jobs.find_history(folder)
    replay_archive(archive, SCHEMA, prompts=prompts)  # the first time round, modules and roles are loaded
    OPENED.clear()
    with monkeypatch.context() as patched:
        for name in ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "gmtime", "localtime"):
            patched.setattr(time, name, _no_clock)
        WATCH["on"] = True
        try:
            found = replay_archive(archive, SCHEMA, prompts=prompts)
        finally:
            WATCH["on"] = False
    assert found.interactions == 8
    assert {os.path.dirname(each) for each in OPENED if not each.isdigit()} == {str(folder)}
    for module in (archive_replay, recorded_jobs, replay_report):
        assert not {"time", "datetime", "socket", "random"} & set(vars(module))


def _no_clock(*_: object) -> float:
    raise AssertionError("the time was read")


class TestReport:
    def test_a_difference_with_its_cause(self, tmp_path: Path) -> None:
        found = replayed(written(tmp_path / "x", changed(state_after=Status.WAITING)))
        head, *told = replay_report.format_replay_lines(found)
        assert head == f"x: 1 difference in {len(HISTORY)} interactions"
        assert told[:4] == [
            "  interaction 3: state_after",
            "    recorded  WAITING",
            f"    today     {HISTORY[2].state_after}",
            "    cause     the rules of the state machine lead to another state",
        ]

    def test_the_same_drift_is_told_once(self) -> None:
        drifts = tuple(Drift(number, "role:A", "changed", "why", ("-a", "+b")) for number in range(2, 14))
        found = Replayed(20, (), drifts=drifts, name="x")
        shown: set[str] = set()
        assert list(replay_report.format_replay_lines(found, shown=shown)) == [
            "x: 20 interactions replay with the same result; 12 prompts would now be different",
            "  prompts of interactions 2, 3, 4, 5, 6, 7, 8, 9 and 4 more: role:A changed",
            "    cause     why",
            "    -a",
            "    +b",
        ]
        assert list(replay_report.format_replay_lines(found, shown=shown))[-1] == "    same diff as above"

    def test_what_is_too_much_is_counted(self) -> None:
        many = tuple(Difference(number, "after", "a", "b", "why") for number in range(1, 31))
        drift = Drift(2, "task", "added", "why", tuple(f"+{number}" for number in range(99)))
        told = list(replay_report.format_replay_lines(Replayed(30, many, drifts=(drift,), more=7, name="x")))
        assert "  and 10 more differences" in told
        assert "    ... 69 more lines" in told
        assert told[-1] == "  and 7 more findings, not listed"
        assert len(told) < 150

    def report(self, *found: Replayed, prompts: bool = False) -> ElementTree.Element:
        report = replay_report.Junit(prompts)
        for each in found:
            report.add(each)
        suite = ElementTree.fromstring(b"".join(report.generate_document())).find("testsuite")
        assert suite is not None
        return suite

    def test_a_junit_report(self, tmp_path: Path) -> None:
        same, differs, damaged = (
            replayed(written(tmp_path / "same", HISTORY)),
            replayed(written(tmp_path / "differs", changed(state_after=Status.WAITING))),
            replayed(Archive("gone", tmp_path / "gone" / "jobHistory.json")),
        )
        drifts = Replayed(3, (), drifts=(Drift(2, "task", "changed", "why"),), name="drifts")
        suite = self.report(same, differs, damaged, drifts)
        assert [suite.get(name) for name in ("tests", "failures", "errors", "time")] == ["4", "1", "1", "0"]
        cases = {case.get("name"): [inner.tag for inner in case] for case in suite}
        assert cases == {"same": [], "differs": ["failure"], "gone": ["error"], "drifts": ["system-out"]}
        failure = suite[1][0]
        assert "interaction 3: state_after" in (failure.text or "")
        assert self.report(drifts, prompts=True).get("failures") == "1"

    def test_a_name_is_kept_as_it_is(self) -> None:
        name = "a\"'<b>\n\t&amp;"
        assert self.report(Replayed(1, (), name=name))[0].get("name") == name

    @pytest.mark.parametrize(
        "text", ["\x00\x1b[31m\x08", "]]>&<\"'", "\ud800\udfff", "\ufffe\uffff", "\r\x85 ü 😀"]
    )
    def test_no_text_breaks_it(self, text: str) -> None:
        found = Replayed(1, (Difference(1, "after", text, f"{text}!", text),), name=f"a{text}b")
        suite = self.report(found)
        assert suite[0].get("name", "").startswith("a")
        assert all(ord(c) >= 32 or c in "\t\n" for c in "".join(suite.itertext()))


def test_a_change_of_the_schema_is_found_in_every_fixture(tmp_path: Path) -> None:
    stricter: JsonObject = json.loads(json.dumps(SCHEMA))
    stricter["properties"]["response"]["properties"]["action"]["enum"] = ["STUCK"]
    found = list(replay_all(recorded_jobs.find_histories([str(FIXTURES)]), stricter))
    assert len(found) >= 5
    for each in found:
        fields = {one.field for one in each.differences}
        assert not each.differences or "response.actions" in fields
    assert sum(bool(each.differences) for each in found) >= 4


def test_a_command_in_an_answer_that_is_read_again(tmp_path: Path) -> None:
    job = Recorder()
    job.answer(command("RETRY", summary="Again."))
    response = job.entries[1].response.model_copy(update={"raw_response": command("STUCK", summary="Why?")})
    found = replayed(
        written(tmp_path, [job.entries[0], job.entries[1].model_copy(update={"response": response})])
    )
    assert [each.field for each in found.differences] == [
        "state_after",
        "response.actions",
        "response.summary_for_supervisor",
    ]
    assert found.differences[0].cause.endswith("judge this answer differently: Why?")


@pytest.mark.parametrize("problem", [Stopped("stopped", exit_code=143), TypeError("no number")], ids=repr)
def test_a_stop_ends_all_and_nonsense_one_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    def broken(archive: Archive) -> Iterator[Interaction]:
        raise problem

    found = [written(tmp_path / "a", HISTORY)]
    monkeypatch.setattr(Archive, "read_interactions", broken)
    ways = (lambda: replay_archive(found[0], SCHEMA), lambda: next(try_all(found, ChangedRules(SCHEMA))))
    for way in ways:
        if isinstance(problem, Stopped):
            with pytest.raises(Stopped):
                way()
        else:
            assert isinstance(way().error, Damaged)


def test_prompts_that_can_not_be_compared_are_told(tmp_path: Path) -> None:
    asked = [
        entry.model_copy(update={"request": entry.request.model_copy(update={"prompt": "Write it."})})
        if entry.kind is Kind.ASK
        else entry
        for entry in whole_history().entries
    ]
    archive = written(tmp_path / "old", asked)
    found = replay_archive(archive, SCHEMA, prompts=lambda *_: ())
    (note,) = found.notes
    assert (found.has_failed(), found.has_failed(prompts=True)) == (False, True)
    count = sum(entry.kind is Kind.ASK for entry in asked)
    assert note.startswith(f"{count} prompts are not compared with the current version")
    assert replay_archive(archive, SCHEMA).notes == ()
    assert not replay_archive(archive, SCHEMA).has_failed(prompts=True)
