"""Old histories read where they lie, and `job import`: a job that has one as its past."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logist.agents.scripted import Scripted
from logist.core.model import Kind, Status
from logist.errors import Damaged, LogistError, Refused, UsageError
from logist.jobs.archive import recorded_jobs
from logist.jobs.archive.archive_replay import replay_archive, replay_job
from logist.jobs.archive.history_import import Imported, import_history
from logist.jobs.archive.job_fork import fork_job
from logist.jobs.archive.recorded_jobs import Archive
from logist.jobs.steward import steward_decisions
from logist.resources import load_schema
from logist.store import foreign
from tests import support
from tests.jobs.bench import Bench, Json, answer
from tests.jobs.conftest import MakeBench
from tests.jobs.test_workflow_children import given_away, work

MAIN = support.ROOT / "fixtures" / "jobs" / "main-job" / "jobHistory.json"
OURS: list[Json] = json.loads(MAIN.read_bytes())["interactions"]


def old(action: str = "COMPLETED", role: str = "Worker", **more: Any) -> Json:
    response = {"action": action, "evidence_files": ["a.py"], "summary_for_supervisor": "Done."}
    return {
        "timestamp": "2025-01-29T14:30:45Z",
        "request": {"prompt": "Do it.", "metadata": {"role": role}},
        "response": response,
        **more,
    }


OLD = [
    old(sequence=0, state_before="PENDING"),
    old("RETRY", "Supervisor", sequence=1, state_before="REVIEW_REQUIRED"),
]


def written(place: Path, document: object, name: str = "jobHistory.json", **layout: Any) -> Path:
    place.mkdir(exist_ok=True)
    (place / name).write_text(json.dumps(document, **layout), "utf-8")
    return place / name


@pytest.mark.parametrize(
    ("document", "layout"),
    [
        (OURS, {}),
        ({"interactions": OURS}, {"indent": 1}),
        (json.loads(MAIN.read_bytes()), {"indent": 2}),
    ],
)
def test_a_history_of_ours_that_was_written_anew_is_read(
    tmp_path: Path, document: object, layout: dict[str, Any]
) -> None:
    archive = recorded_jobs.find_history(written(tmp_path, document, **layout))
    expected = list(recorded_jobs.find_history(MAIN).read_interactions())
    assert list(archive.read_interactions()) == expected
    assert list(archive.read_notes()) == [
        "another program rewrote the file, so Logist can't verify that it is unchanged"
    ]


def test_a_change_in_it_is_noted(tmp_path: Path) -> None:
    changed = [*OURS[:2], {**OURS[2], "timestamp": "2000-01-01T00:00:00Z"}, *OURS[3:]]
    notes = list(recorded_jobs.find_history(written(tmp_path, changed)).read_notes())
    assert notes[1].startswith("the checksum does not match")
    assert notes[1].endswith("(interaction 3)")


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([], "the history is empty"),
        ([*OLD, OURS[1]], "entry 3 .sequence 2. is an interaction of Logist"),
        ([OURS[0], OLD[0]], "entry 2 is not a Logist interaction"),
        ([OURS[0], {**OURS[1], "usage": 3}], "interaction 2 is invalid: usage"),
        ([{**OLD[0], "response": None}], "entry 1 .sequence 0.: `response` must be an object"),
        ([{**OLD[0], "x": json.loads("[" * 900 + "]" * 900)}], "nested too deeply"),
        ([{**OLD[0], "x": json.loads("[" * 260 + "]" * 260)}], "nested too deeply"),
    ],
)
def test_what_is_wrong_is_told_with_file_and_entry(tmp_path: Path, document: object, said: str) -> None:
    archive = recorded_jobs.find_history(written(tmp_path, document))
    with pytest.raises(Damaged, match=said) as raised:
        list(archive.read_interactions())
    assert raised.value.where == str(tmp_path / "jobHistory.json")


def test_it_is_found_and_nothing_is_written(tmp_path: Path) -> None:
    written(tmp_path / "a", OLD)
    before = support.tree(tmp_path)
    (archive,) = recorded_jobs.find_histories([str(tmp_path)])
    assert [one.kind for one in archive.read_interactions()] == [Kind.CREATE, Kind.ASK, Kind.ASK]
    assert [entry["kind"] for entry in archive.read_entries()] == ["create", "ask", "ask"]
    assert archive.find_restep_targets() == set()
    assert support.tree(tmp_path) == before


@pytest.mark.parametrize("document", [OLD, OURS], ids=["old", "ours, written anew"])
def test_two_readings_are_enough_for_a_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, document: list[Json]
) -> None:
    path, read, real = written(tmp_path, document), [], foreign.read_foreign_entries

    def entries(path: Path) -> Any:
        read.append(path)
        return real(path)

    monkeypatch.setattr(foreign, "read_foreign_entries", entries)
    archive = recorded_jobs.find_history(path)
    found = replay_archive(archive, load_schema("llm-chat-schema"))
    assert found.error is None
    assert found.notes != ()
    assert read == [path] * 2
    assert set(archive.read_notes()) <= set(found.notes)
    assert len(read) == 2
    written(tmp_path, document[:1])
    assert len(list(archive.read_interactions())) < found.interactions
    assert len(read) == 4


def test_a_script_may_be_such_a_history(tmp_path: Path) -> None:
    told = Scripted.load(written(tmp_path, OLD))
    assert [json.loads(one.text or "")["action"] for one in told.answers] == ["COMPLETED", "RETRY"]


def test_log_entries_are_no_answers_of_a_script(tmp_path: Path) -> None:
    log = {"request": {"operation": "preview"}, "response": {"action": "PREVIEW_COMPLETED"}}
    assert len(Scripted.load(written(tmp_path, [log, *OLD])).answers or []) == 2


def first_tool(operation: str, role: str, action: str, **more: Any) -> Json:
    """An entry as the first tool of this name recorded it."""
    return {
        "timestamp": "2025-12-01T23:48:00.458893",
        "model": "grok-code-fast-1",
        "cost": 0.5,
        "execution_time_seconds": 2.5,
        "request": {"operation": operation, "job_id": "j", "phase": "default", "role": role},
        "response": {
            "action": action,
            "summary_for_supervisor": "So.",
            "evidence_files": [],
            "metrics": {},
            **more,
        },
    }


FIRST_TOOL = [
    first_tool("preview", "Worker", "PREVIEW_COMPLETED"),
    first_tool("run", "Worker", "RUN_STARTED"),
    first_tool("step", "Worker", "COMPLETED"),
    first_tool("step", "Worker", "COMPLETED"),
    first_tool("step", "Supervisor", "RETRY"),
    first_tool("step", "Supervisor", "COMPLETED"),
]


# --- job import ---


def imported(b: Bench, path: Path, new_id: str | None = None) -> Imported:
    before = path.read_bytes()
    made = import_history(b.project, path, new_id=new_id)
    assert path.read_bytes() == before
    return made


def test_an_old_history_becomes_a_job_that_goes_on(bench: MakeBench, tmp_path: Path) -> None:
    b = bench([answer(), answer(), answer(files={"new.txt": "new"}), answer()])
    path = written(tmp_path / "Old Job", OLD)
    made = imported(b, path)
    assert (made.job.id, made.state.status, made.interactions) == ("Old-Job", Status.PENDING, 3)
    assert made.notes[-1].startswith("the workspace is empty")
    assert (b.folder("Old-Job") / "attachments" / "jobHistory.json").read_bytes() == path.read_bytes()
    create = b.history("Old-Job")[0]
    assert create.command["imported"] == made.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert create.command["notes"] == list(made.notes[:-1])
    assert (b.folder("Old-Job") / "job.yaml").read_text("utf-8") == "id: Old-Job\nprompt: Do it.\n"
    assert replay_job(b.project, b.project.open_job("Old-Job")).differences == ()
    assert b.step("Old-Job").state.status is Status.REVIEW_REQUIRED
    assert (b.workspace("Old-Job") / "new.txt").exists()
    assert steward_decisions.restep_job(b.project, "Old-Job", 3).state.status is Status.REVIEW_REQUIRED
    assert list(b.workspace("Old-Job").glob("*.txt")) == []


def test_a_history_of_the_first_tool_becomes_a_job_that_replays(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    path = written(tmp_path / "j", FIRST_TOOL)
    assert replay_archive(recorded_jobs.find_history(path), load_schema("llm-chat-schema")).differences == ()
    made = imported(b, path)
    assert (made.state.status, made.differences) == (Status.APPROVAL_REQUIRED, ())
    assert [entry.kind.value for entry in b.history("j")] == [
        *("create", "ask", "restep", "ask", "ask", "restep", "ask")
    ]
    assert [entry.observed.role for entry in b.history("j") if entry.observed] == [
        *("Worker", "Worker", "Supervisor", "Supervisor")
    ]
    assert made.state.usage.cumulative_cost == 200
    assert made.state.usage.current_action_count == 4


def test_an_import_says_why_it_does_not_replay(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    raw = {
        "action": "COMPLETED",
        "evidence_files": [],
        "summary_for_supervisor": "So.",
        "job_manifest_url": "x",
    }
    strange = first_tool("step", "Worker", "COMPLETED", raw_response=json.dumps(raw))
    made = imported(b, written(tmp_path / "j", [strange]))
    (made.job.path / "damaged-on-purpose").touch()
    assert len(made.differences) == 2
    assert made.differences[0].startswith(
        'interaction 2 replays with a different result: response.actions is ["COMPLETED"]'
    )
    assert made.differences[0].endswith('the unknown key "job_manifest_url"; put extra data into `metadata`')


def test_a_history_of_ours_becomes_a_job(bench: MakeBench) -> None:
    b = bench()
    b.drifts = True  # it is older than some words of the prompts
    made = imported(b, MAIN)
    assert (made.job.id, made.state.status) == ("main-job", Status.SUCCESS)
    ours = [
        one.model_dump(exclude=NOT_THE_SAME) for one in recorded_jobs.find_history(MAIN).read_interactions()
    ]
    assert [one.model_dump(exclude=NOT_THE_SAME) for one in b.history("main-job")] == ours
    assert imported(b, MAIN).job.id == "main-job-2"
    assert imported(b, MAIN, "mine").job.id == "mine"


NOT_THE_SAME = {"command", "previous", "checksum", "checkpoint_before", "checkpoint_after"}


def test_what_is_cut_off_is_not_taken_for_the_whole(bench: MakeBench, tmp_path: Path) -> None:
    project = bench().project
    cut = tmp_path / "cut.json"
    cut.write_bytes(MAIN.read_bytes()[:-40])
    with pytest.raises(Damaged, match="may have had more than 7 interactions"):
        import_history(project, cut)
    assert not list(project.jobs_dir.glob("*"))


def test_a_link_to_a_history_is_followed(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    b.drifts = True
    (tmp_path / "link.json").symlink_to(MAIN)
    made = imported(b, tmp_path / "link.json")
    assert (made.job.id, made.interactions) == ("main-job", len(OURS))


def test_secrets_stay_behind(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    secret = "sk-" + "a1B2c3D4" * 6
    first, second = old(request={"prompt": f"Use {secret}."}), old("RETRY", "Supervisor")
    second["response"]["summary_for_supervisor"] = f"It needs {secret}."
    made = imported(b, written(tmp_path, [first, second]))
    assert made.notes[-1] == ("secrets were removed from 3 interactions, so the file itself was not kept")
    assert not (b.folder(made.job.id) / "attachments").exists()
    for name, content in b.files(made.job.id).items():
        assert secret.encode() not in content, name


SECRET = "sk-" + "a1B2c3D4" * 6


@pytest.mark.parametrize(
    "document",
    [
        [old(env={"KEY": SECRET})],
        {"interactions": [old()], "key": SECRET},
        [old() | {SECRET: 1}],
        [old(request={"prompt": "Do it.", "metadata": {SECRET: 1}})],
    ],
)
def test_a_secret_that_no_interaction_tells_stays_behind_too(
    bench: MakeBench, tmp_path: Path, document: object
) -> None:
    b = bench()
    made = imported(b, written(tmp_path, document))
    assert not (b.folder(made.job.id) / "attachments").exists()
    assert SECRET not in str(made.notes)
    assert "file" in made.notes[-1]
    assert "was not kept" in made.notes[-1]
    for name, content in b.files(made.job.id).items():
        assert SECRET.encode() not in content, name


def test_an_error_shows_no_secret(bench: MakeBench, tmp_path: Path) -> None:
    with pytest.raises(Damaged, match=r"`state_before` is .*, which is not a known state") as raised:
        import_history(bench().project, written(tmp_path, [old(state_before=SECRET)]))
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("prompt", ["Do it.", f"Use {SECRET}."])
def test_a_file_that_is_written_to_meanwhile_is_not_taken(
    bench: MakeBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prompt: str
) -> None:
    def written_to(archive: Archive) -> set[int]:
        with archive.path.open("a") as file:
            file.write("\n")
        return set()

    monkeypatch.setattr(Archive, "find_restep_targets", written_to)
    b = bench()
    with pytest.raises(Refused, match="the file was changed while it was read"):
        import_history(b.project, written(tmp_path, [old(request={"prompt": prompt})]))
    assert list(b.project.jobs_dir.iterdir()) == []


def test_an_import_does_not_take_up_the_children_of_another(bench: MakeBench) -> None:
    b = bench()
    children = given_away(b, "one", "two", input={"who": "me"})
    work(b, *children)
    b.step()
    made = import_history(b.project, b.folder(), new_id="other")
    assert "workflow: Fan-out" in (made.job.path / "job.yaml").read_text("utf-8")
    with pytest.raises(Refused, match="before interaction 4, another job was waiting"):
        steward_decisions.restep_job(b.project, "other", 4)
    assert b.step("other").state.status is Status.SUCCESS
    assert steward_decisions.restep_job(b.project, "other", 3).state.place.spawns
    assert b.step("other").state.children == ["other--7-1", "other--7-2"]


def test_one_that_waits_for_nobody_knows_whom_is_refused(bench: MakeBench, tmp_path: Path) -> None:
    path = written(tmp_path, [old(state_before="PENDING", state_after="WAITING")])
    with pytest.raises(Refused, match=r"can't import a job that waits for child jobs \("):
        import_history(bench().project, path)
    failed = old("STUCK", state_before="PENDING", state_after="FAILED")
    b = bench()
    made = imported(b, written(tmp_path / "again", [old(state_after="WAITING"), failed]))
    (made.job.path / "damaged-on-purpose").touch()  # no rule leads there, and so its replay differs
    with pytest.raises(Refused, match="before interaction 3, another job was waiting"):
        steward_decisions.restep_job(b.project, made.job.id, 3)


def test_of_what_was_undone_the_import_names_no_checkpoint(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    b.drifts = True
    seen = {**OURS[1]["observed"], "found": "0" * 40}
    undone = [OURS[0], {**OURS[1], "observed": seen}, *OURS[2:]]
    made = imported(b, written(tmp_path, undone))
    assert fork_job(b.project, made.job.id).job.id == f"{made.job.id}-fork-1"


def test_a_name_that_is_too_long_keeps_nobody_from_importing(bench: MakeBench, tmp_path: Path) -> None:
    b = bench()
    made = imported(b, written(tmp_path, OLD, f"{'n' * 250}.json"))
    assert (made.job.path / "attachments" / "jobHistory.json").is_file()


@pytest.mark.parametrize(
    ("document", "new_id", "said", "error"),
    [
        (OURS[1:], None, "interaction 2 .ask. is at position 1", Damaged),
        ([OURS[0], OURS[2]], None, "interaction 3 .ask. is at position 2", Damaged),
        ([], None, "the history is empty", Damaged),
        (OLD, "../x", "invalid job id '../x'", UsageError),
        (OLD, "there", "already exists", Refused),
        (None, None, "jobHistory.json not found in", UsageError),
        ("words", None, ": not a history", Damaged),
    ],
)
def test_what_can_not_be_imported(
    bench: MakeBench,
    tmp_path: Path,
    document: object,
    new_id: str | None,
    said: str,
    error: type[LogistError],
) -> None:
    b = bench()
    (b.project.jobs_dir / "there").mkdir(parents=True)
    (b.project.jobs_dir / "there" / "damaged-on-purpose").touch()
    name = "notes.txt" if document == "words" else "jobHistory.json"
    path = tmp_path / "x" if document is None else written(tmp_path / "x", document, name)
    with pytest.raises(error, match=said):
        import_history(b.project, path, new_id=new_id)
    assert [each.name for each in b.project.jobs_dir.iterdir()] == ["there"]


def test_of_a_job_from_a_repository_the_source_stays_behind(bench: MakeBench, tmp_path: Path) -> None:
    support.make_repository(tmp_path / "repo")
    b = bench()
    b.create(repo=str(tmp_path / "repo"))
    made = import_history(b.project, b.folder(), new_id="other")
    assert (b.state().source, made.state.source) == (str(tmp_path / "repo"), None)
    assert [path.name for path in b.workspace("other").iterdir()] == [".git"]


def test_what_was_read_has_a_name() -> None:
    found: Iterator[Archive] = recorded_jobs.find_histories([str(MAIN)])
    assert [one.name for one in found] == [str(MAIN)]
