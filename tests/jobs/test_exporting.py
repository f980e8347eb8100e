"""`job export --fixture`: a history that can be shared, with the proof that it goes the way of the original."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from logist.config.environment import Environment
from logist.core.model import JsonObject
from logist.core.share import Replacing
from logist.core.share.words import NO_NAMES
from logist.errors import Damaged, LogistError, Refused, ReplayDiffers, UsageError
from logist.jobs.archive import archive_replay, fixture_export, job_fixture, recorded_jobs, redaction
from logist.jobs.archive.fixture_export import ExportedFixture, export_fixture
from logist.store import JobDir
from logist.store.entries import CLOSING, format_header, seal_entry
from tests import support
from tests.jobs.bench import Bench, answer, command

RECORDED = sorted(path.parent for path in (support.ROOT / "fixtures" / "jobs").glob("*/jobHistory.json"))
PASSWORD = "tr0ub4dor" + "-and-3-more"
KEY = "sk-" + "proj-aB3dE6gH9jK2mN5pQ8sT"
SUMMARY = "Asked ada@corp.example.com at 10.20.30.40.\nSee /home/ada/a.txt, ACME-1234."
PRIVATE = ("ada", "corp.example", "10.20.30.40", "ACME-1234")
SETTINGS = {"redact": {"patterns": [r"ACME-\d+"]}, "approval": "none"}


def without_hashes(text: str) -> str:
    """A history without what has `ada` in it and is no name: the word metadata, and hashes."""
    return re.sub("[0-9a-f]{40,64}", "", text.replace("metadata", ""))


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The job `j`, which nobody changes: done by a doer and a reviewer who say much about ada."""
    b = Bench(
        tmp_path_factory.mktemp("shelf"),
        [
            answer(command(evidence=["ada/a.txt"], summary=SUMMARY, output={"ada": [SUMMARY]}), files={"ada/a.txt": "x"}),
            answer(f"I looked.\n\n```json\n{command(summary=SUMMARY)}\n```"),
        ],
        SETTINGS,
    )  # fmt: skip
    b.create(prompt=f"Do it for Ada. {SUMMARY}", acceptance_criteria=["ACME-1234 is done"])
    b.run()
    return b


def job(b: Bench) -> JobDir:
    return b.project.open_job("j")


def entries(folder: Path) -> list[JsonObject]:
    loaded: list[JsonObject] = json.loads((folder / "jobHistory.json").read_bytes())["interactions"]
    return loaded


def retold(b: Bench, name: str, change: Callable[[list[JsonObject]], object]) -> JobDir:
    """A job of that name whose history is that of `j` with something changed, and sealed again."""
    history = entries(b.folder("j"))
    change(history)
    folder = b.project.jobs_dir / name
    folder.mkdir(exist_ok=True)
    lines, previous = [format_header()], None
    for number, entry in enumerate(history, 1):
        complete, line = seal_entry(entry, number, previous)
        previous = complete["checksum"]
        lines.append((b"," if number > 1 else b"") + line + b"\n")
    (folder / "jobHistory.json").write_bytes(b"".join([*lines, CLOSING]))
    return JobDir(folder, name)


def said(text: str) -> Callable[[list[JsonObject]], object]:
    """A change: the first answer's summary also says this."""

    def change(history: list[JsonObject]) -> None:
        response = history[1]["response"]
        response["summary_for_supervisor"] += text
        found = json.loads(response["raw_response"])
        found["summary_for_supervisor"] += text
        response["raw_response"] = json.dumps(found)

    return change


def shape(value: Any) -> Any:
    """A value with the length of each text in its place."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return [(len(key), shape(inner)) for key, inner in value.items()]
    return [shape(inner) for inner in value] if isinstance(value, list) else value


def test_a_redacted_fixture_holds_nothing_private_and_goes_the_same_way(shelf: Bench, tmp_path: Path) -> None:
    before = shelf.files("j")
    done = export_fixture(shelf.project, job(shelf), tmp_path / "deep" / "f", redacted=True)
    folder = done.path
    assert shelf.files("j") == before
    assert sorted(os.listdir(folder)) == ["fixture.json", "jobHistory.json"]
    assert os.listdir(folder.parent) == ["f"]
    was, now = entries(shelf.folder("j")), entries(folder)
    text = (folder / "jobHistory.json").read_text("utf-8") + (folder / "fixture.json").read_text("utf-8")
    assert not [word for word in PRIVATE if word in without_hashes(text)]
    manifest = json.loads((folder / "fixture.json").read_bytes())
    assert manifest["head"] == was[-1]["checksum"]
    assert manifest["replaced"].keys() == {"pattern", "user", "email", "address"}
    assert (manifest["certified"], manifest["redacted"], manifest["interactions"]) == (True, True, len(was))
    moves = [(each["kind"], each["state_before"], each["state_after"]) for each in was]
    assert [(each["kind"], each["before"], each["after"]) for each in manifest["transitions"]] == moves
    found = archive_replay.replay_file(shelf.project.schema, folder)
    assert (found.interactions, found.differences) == (len(was), ())
    assert job_fixture.find_disagreements(folder) == ()
    assert now[0]["workspace_path"] == "${JOB_DIR}/workspace"
    for one, other in zip(was, now, strict=True):
        assert shape({**one, "workspace_path": ""}) == shape({**other, "workspace_path": ""})


def test_names_keep_their_relations(shelf: Bench, tmp_path: Path) -> None:
    first = entries(export_fixture(shelf.project, job(shelf), tmp_path / "f", redacted=True).path)[1]
    (path,) = first["response"]["evidence_files"]
    assert path == first["observed"]["evidence"][0]["path"] == first["observed"]["changes"][0]["path"]
    assert path != "ada/a.txt"
    assert json.loads(first["response"]["raw_response"])["evidence_files"] == [path]


def test_it_is_the_same_every_time(shelf: Bench, tmp_path: Path) -> None:
    one, two = (
        export_fixture(shelf.project, job(shelf), tmp_path / name, redacted=True).path for name in "ab"
    )
    assert support.tree(one) == support.tree(two)


def test_without_redact_only_the_paths_of_the_job_change(shelf: Bench, tmp_path: Path) -> None:
    done = export_fixture(shelf.project, job(shelf), tmp_path / "f")
    for was, now in zip(entries(shelf.folder("j")), entries(done.path), strict=True):
        own = {"workspace_path": "${JOB_DIR}/workspace", "previous": 0, "checksum": 0}
        assert {**now, "previous": 0, "checksum": 0} == {**was, **own}
    assert str(shelf.folder("j")).encode() not in (done.path / "jobHistory.json").read_bytes()


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_every_recorded_job_can_be_shared(shelf: Bench, path: Path, tmp_path: Path) -> None:
    done = export_fixture(shelf.project, JobDir(path, path.name), tmp_path / "f", redacted=True)
    archived = archive_replay.replay_file(shelf.project.schema, path)
    again = archive_replay.replay_file(shelf.project.schema, done.path)
    assert [each.sequence for each in again.differences] == [each.sequence for each in archived.differences]
    assert job_fixture.find_disagreements(done.path) == ()


def test_a_job_that_goes_another_way_today_can_be_shared_to_show_that(shelf: Bench, tmp_path: Path) -> None:
    def change(history: list[JsonObject]) -> None:
        history[1]["response"]["summary_for_supervisor"] = "Something that ada did not say."

    done = export_fixture(shelf.project, retold(shelf, "odd", change), tmp_path / "f", redacted=True)
    assert done.differences == 1


@pytest.mark.parametrize("redacted", [False, True])
@pytest.mark.parametrize(
    ("secret", "kind"),
    [(f' password: "{PASSWORD}"', "password or key value"), (f" {KEY}", "API key (sk-)")],
)
def test_a_secret_is_refused_or_taken_out(
    shelf: Bench, tmp_path: Path, secret: str, kind: str, redacted: bool
) -> None:
    leaky = retold(shelf, "leaky", said(secret))
    if redacted:
        done = export_fixture(shelf.project, leaky, tmp_path / "f", redacted=True)
        text = (done.path / "jobHistory.json").read_text("utf-8")
        assert PASSWORD not in text
        assert KEY not in text
        assert done.manifest.replaced["secret"] == 1
        return
    with pytest.raises(Refused) as refused:
        export_fixture(shelf.project, leaky, tmp_path / "f")
    told = str(refused.value)
    assert f"interaction 2, response.summary_for_supervisor: {kind}" in told
    assert PASSWORD not in told
    assert KEY not in told
    assert os.listdir(tmp_path) == []


def test_what_the_survey_missed_is_still_taken_out(shelf: Bench) -> None:
    leaky = next(
        each for each in retold(shelf, "missed", said(f" {KEY}")).read_entries() if each["sequence"] == 2
    )
    private = redaction.collect_private_values(shelf.project)
    complete, line, leaks = redaction.redact_entry(
        leaky, Replacing({}, private), {}, {}, partial(seal_entry, sequence=2, previous=None), is_clean=True
    )
    assert (KEY in json.dumps(complete), KEY.encode() in line, leaks) == (False, False, [])


def test_only_an_interaction_with_a_secret_is_searched_for_its_format_again(shelf: Bench) -> None:
    leaky = retold(shelf, "once", said(f" {KEY}"))
    private = redaction.collect_private_values(shelf.project)
    survey = redaction.survey_history("once", leaky.history_file, leaky.read_entries(), private)
    with_secret = {each["checksum"] for each in leaky.read_entries() if KEY in json.dumps(each)}
    assert survey.unclean == with_secret
    assert 0 < len(with_secret) < survey.count


def test_a_secret_in_the_id_of_the_job_is_one_too(shelf: Bench, tmp_path: Path) -> None:
    named = retold(shelf, KEY, lambda history: None)
    with pytest.raises(Refused, match="the id of the job: API key"):
        export_fixture(shelf.project, named, tmp_path / "f")
    done = export_fixture(shelf.project, named, tmp_path / "f", redacted=True)
    assert KEY not in (done.path / "fixture.json").read_text("utf-8")


def test_what_is_a_secret_today_is_found_in_what_was_recorded_before(shelf: Bench, tmp_path: Path) -> None:
    known = 'correct horse "battery" staple'
    leaky = retold(shelf, "leaky", said(f" {known}"))
    project = replace(shelf.project, environment=Environment({"MY_API_KEY": known}))
    with pytest.raises(Refused, match=r"interaction 2, response\.\w+: value of MY_API_KEY"):
        export_fixture(project, leaky, tmp_path / "f")
    done = export_fixture(project, leaky, tmp_path / "f", redacted=True)
    assert "horse" not in (done.path / "jobHistory.json").read_text("utf-8")


def test_a_secret_that_is_a_word_of_the_history_is_not_certified(shelf: Bench, tmp_path: Path) -> None:
    project = replace(shelf.project, environment=Environment({"MY_API_KEY": "COMPLETED"}))
    with pytest.raises(LogistError) as refused:
        export_fixture(project, job(shelf), tmp_path / "f", redacted=True)
    assert isinstance(refused.value, ReplayDiffers | Refused)
    assert os.listdir(tmp_path) == []


def test_an_empty_folder_is_taken_and_a_fixture_of_the_same_job_with_force(
    shelf: Bench, tmp_path: Path
) -> None:
    (tmp_path / "f").mkdir()
    export_fixture(shelf.project, job(shelf), tmp_path / "f")
    with pytest.raises(UsageError, match="already contains a fixture"):
        export_fixture(shelf.project, job(shelf), tmp_path / "f", redacted=True)
    export_fixture(shelf.project, job(shelf), tmp_path / "f", redacted=True, force=True)
    assert job_fixture.find_disagreements(tmp_path / "f") == ()
    assert "ada" not in without_hashes((tmp_path / "f" / "jobHistory.json").read_text("utf-8"))
    before = support.tree(tmp_path)
    with pytest.raises(UsageError, match="a fixture of another job, j"):
        export_fixture(shelf.project, retold(shelf, "odd", said(".")), tmp_path / "f", force=True)
    assert support.tree(tmp_path) == before


def a_file(folder: Path) -> None:
    folder.write_text("x", "utf-8")


def a_pipe(folder: Path) -> None:
    os.mkfifo(folder)


def a_loop(folder: Path) -> None:
    folder.symlink_to(folder.name)


def other_files(folder: Path) -> None:
    folder.mkdir()
    (folder / "x").write_text("x", "utf-8")


@pytest.mark.parametrize("make", [a_file, a_pipe, a_loop, other_files])
def test_what_is_there_is_never_overwritten(
    shelf: Bench, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "f")
    with pytest.raises(UsageError):
        export_fixture(shelf.project, job(shelf), tmp_path / "f", redacted=True, force=True)
    assert os.listdir(tmp_path) == ["f"]


def test_a_history_from_before_that_is_not_redacted_does_not_stay(shelf: Bench, tmp_path: Path) -> None:
    done = export_fixture(shelf.project, job(shelf), tmp_path / "f")
    (done.path / "jobHistory.before.json").write_bytes(
        shelf.folder("j").joinpath("jobHistory.json").read_bytes()
    )
    before = support.tree(tmp_path)
    with pytest.raises(UsageError, match=r"jobHistory\.before\.json is not redacted"):
        export_fixture(shelf.project, job(shelf), tmp_path / "f", redacted=True, force=True)
    assert support.tree(tmp_path) == before


def test_what_is_refused_does_not_lie_on_the_disk_meanwhile(
    shelf: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is killed just then leaves it there, beside what a person commits."""
    leaky = retold(shelf, "leaky", said(f" {KEY}"))
    seen: list[bytes] = []

    def look(leaks: redaction.Leaks, fix: str) -> None:
        seen.extend(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        raise Refused("here it is stopped")

    monkeypatch.setattr(redaction.Leaks, "require_none", look)
    with pytest.raises(Refused, match="stopped"):
        export_fixture(shelf.project, leaky, tmp_path / "f")
    assert seen
    assert not [data for data in seen if KEY.encode() in data]


def test_a_fixture_does_not_go_among_the_jobs(shelf: Bench) -> None:
    with pytest.raises(UsageError, match="can't write a fixture into the jobs directory"):
        export_fixture(shelf.project, job(shelf), shelf.project.jobs_dir / "f")


def test_who_works_here_is_private_even_under_another_name(shelf: Bench, tmp_path: Path) -> None:
    project = replace(shelf.project, environment=Environment({"HOME": "/srv/people/quibble"}))
    done = export_fixture(
        project, retold(shelf, "odd", said(" Quibble did it.")), tmp_path / "f", redacted=True
    )
    assert b"quibble" not in (done.path / "jobHistory.json").read_bytes().lower()


def test_the_name_of_this_machine_is_private(shelf: Bench) -> None:
    name = os.uname().nodename.lower()
    assert name in redaction.collect_private_values(shelf.project).hosts or len(name) < 3 or name in NO_NAMES


def test_a_fixture_does_not_go_into_the_job(shelf: Bench) -> None:
    with pytest.raises(UsageError, match="can't write a fixture into its own job"):
        export_fixture(shelf.project, job(shelf), shelf.folder("j") / "f")


def test_a_damaged_history_gives_no_fixture(shelf: Bench, tmp_path: Path) -> None:
    damaged = retold(shelf, "damaged", lambda history: None)
    data = damaged.history_file.read_bytes()
    damaged.history_file.write_bytes(data.replace(b'"sequence":2,', b'"sequence":9,'))
    with pytest.raises(Damaged):
        export_fixture(shelf.project, damaged, tmp_path / "f")
    assert os.listdir(tmp_path) == []


@pytest.fixture
def made(shelf: Bench, tmp_path: Path) -> ExportedFixture:
    return export_fixture(shelf.project, job(shelf), tmp_path / "f")


def edit(folder: Path, change: Callable[[Any], object]) -> None:
    manifest = json.loads((folder / "fixture.json").read_bytes())
    change(manifest)
    (folder / "fixture.json").write_text(json.dumps(manifest), "utf-8")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda m: m["transitions"][1].update(after="STUCK"), "expects interaction 2 (ask): PENDING -> STUCK, the history has interaction 2 (ask): "),
        (lambda m: m["transitions"].pop(), "fixture.json expects no more interactions, the history has interaction 3 (ask)"),
        (lambda m: m.update(interactions=7), "fixture.json expects 7 interactions, the history has 3"),
        (lambda m: m.update(fixture_head="0" * 64), "the history does not match fixture.json: the hash of its last interaction differs"),
    ],
)  # fmt: skip
def test_a_manifest_that_says_something_else_is_told(
    made: ExportedFixture, change: Any, problem: str
) -> None:
    edit(made.path, change)
    (found,) = job_fixture.find_disagreements(made.path)
    assert problem in found


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("{", Damaged, "the manifest is not valid JSON"),
        ("[" * 100_000, Damaged, "the manifest is not valid JSON"),
        ("[]", Damaged, "the manifest is invalid: "),
        ('{"fixture": 2}', Refused, "fixture format 2"),
        ('{"fixture": 1, "certified": false}', Damaged, "the manifest is invalid: "),
    ],
)
def test_a_manifest_that_does_not_read_is_an_error(
    made: ExportedFixture, text: str, error: type[LogistError], message: str
) -> None:
    (made.path / "fixture.json").write_text(text, "utf-8")
    with pytest.raises(error, match=message):
        job_fixture.find_disagreements(made.path)


def test_a_history_without_a_manifest_has_nothing_to_agree_with(made: ExportedFixture) -> None:
    (made.path / "fixture.json").unlink()
    assert job_fixture.read_manifest(made.path) is None
    assert job_fixture.find_disagreements(made.path) == ()
    assert [archive.path.parent for archive in recorded_jobs.find_histories([str(made.path)])] == [made.path]


def test_what_a_killed_export_leaves_is_no_history(shelf: Bench, tmp_path: Path) -> None:
    done = export_fixture(shelf.project, job(shelf), tmp_path / "f")
    left = []
    with contextlib.suppress(RuntimeError), fixture_export._make_temporary_folder(tmp_path / "g") as made:
        (made / "jobHistory.json").write_bytes(b"{")
        left = [archive.path for archive in recorded_jobs.find_histories([str(tmp_path)])]
        raise RuntimeError
    assert left == [done.path / "jobHistory.json"]
    assert os.listdir(tmp_path) == ["f"]


def test_a_history_in_several_files_becomes_one(tmp_path: Path) -> None:
    b = Bench(tmp_path / "project", [answer(), answer()], SETTINGS | {"history": {"rotate_at": 3000}})
    b.create()
    b.run()
    assert (b.folder() / "jobHistory.1.json.gz").exists()
    done = export_fixture(b.project, job(b), tmp_path / "f")
    assert sorted(os.listdir(done.path)) == ["fixture.json", "jobHistory.json"]
    assert [each["kind"] for each in entries(done.path)] == ["create", "ask", "ask"]
    assert job_fixture.find_disagreements(done.path) == ()


def test_what_is_nested_without_end_is_refused(shelf: Bench, tmp_path: Path) -> None:
    def change(history: list[JsonObject]) -> None:
        deep: Any = "x"
        for _ in range(600):
            deep = [deep]
        history[1]["request"]["metadata"]["deep"] = deep

    try:
        done = export_fixture(shelf.project, retold(shelf, "deep", change), tmp_path / "f", redacted=True)
    except LogistError:
        assert os.listdir(tmp_path) == []
    else:
        assert job_fixture.find_disagreements(done.path) == ()
