"""The scripted agent: archived answers in order, with their files, at no cost."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from logist.agents.protocol import Ask, build_first_messages
from logist.agents.scripted import Scripted
from logist.core.model import ErrorKind, Model, Request
from logist.core.prompt.prompt import SEPARATOR
from logist.errors import InvalidFile

MODEL = Model(name="m", provider_model="openai/m")


def asking(index: int = 0, role: str = "Worker", request: Request | None = None) -> Ask:
    return Ask(request=request or Request(prompt="p"), model=MODEL, role=role, index=index)


def script(folder: Path, *answers: dict[str, Any]) -> Scripted:
    path = folder / "script.json"
    path.write_text(json.dumps({"answers": answers}))
    return Scripted.load(path)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


def test_answers_come_in_the_order_of_the_asks_and_cost_nothing(tmp_path: Path, workspace: Path) -> None:
    scripted = script(tmp_path, {"text": "one"}, {"exit": {"action": "COMPLETED", "summary": "ü"}})
    first, second = (scripted.ask(asking(index), workspace) for index in (0, 1))
    assert (first.text, first.finish, first.error) == ("one", "stop", None)
    assert second.text == '{"action": "COMPLETED", "summary": "ü"}'
    assert first.usage.source == "none"
    assert first.usage.cost_cents == first.usage.cost_microcents == 0


def test_no_more_answers_is_a_refusal_that_counts(tmp_path: Path, workspace: Path) -> None:
    reply = script(tmp_path, {"text": "one"}).ask(asking(1), workspace)
    assert reply.error is not None
    assert reply.error.kind is ErrorKind.REFUSED
    assert " has 1, needed 2" in reply.error.message


def test_an_answer_for_another_role_is_a_bad_request_that_names_both(tmp_path: Path, workspace: Path) -> None:
    scripted = script(tmp_path, {"text": "one", "role": "Supervisor", "files": {"a": "b"}})
    reply = scripted.ask(asking(role="Worker"), workspace)
    assert reply.error is not None
    assert reply.error.kind is ErrorKind.BAD_REQUEST
    assert "Supervisor" in reply.error.message
    assert "Worker" in reply.error.message
    assert not (workspace / "a").exists()


def test_usage_and_errors_are_given_as_scripted(tmp_path: Path, workspace: Path) -> None:
    usage = {"input_tokens": 5, "output_tokens": 7, "cost_cents": 1, "cost_microcents": 2, "seconds": 0.5}
    scripted = script(
        tmp_path,
        {"text": "half", "usage": usage, "error": {"kind": "transient", "message": "cut"}},
    )
    reply = scripted.ask(asking(), workspace)
    assert reply.text == "half"
    assert reply.usage.model_dump(include=set(usage)) == usage
    assert reply.error is not None
    assert (reply.error.kind, reply.error.message) == (ErrorKind.TRANSIENT, "cut")


def test_files_are_written_replaced_and_deleted(tmp_path: Path, workspace: Path) -> None:
    (workspace / "old.txt").write_text("a longer text than the new one")
    (workspace / "run.sh").write_text("#!")
    (workspace / "run.sh").chmod(0o755)
    (workspace / "gone.txt").write_text("x")
    files = {"deep/er/new.txt": "ünew\n", "old.txt": "short", "run.sh": "#!/bin/sh", "gone.txt": None}
    script(tmp_path, {"text": "t", "files": files | {"never/was": None}}).ask(asking(), workspace)
    assert (workspace / "deep/er/new.txt").read_text() == "ünew\n"
    assert (workspace / "old.txt").read_text() == "short"
    assert (workspace / "run.sh").stat().st_mode & 0o777 == 0o755
    assert not (workspace / "gone.txt").exists()
    assert not (workspace / "never").exists()


@pytest.mark.parametrize("name", ["link/x.txt", "leaf.txt", "twin.txt", "pipe"])
def test_a_script_never_writes_through_links_or_special_files(
    tmp_path: Path, workspace: Path, name: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.txt").write_text("kept")
    (workspace / "link").symlink_to(outside)
    (workspace / "leaf.txt").symlink_to(outside / "kept.txt")
    os.link(outside / "kept.txt", workspace / "twin.txt")
    os.mkfifo(workspace / "pipe")
    reply = script(tmp_path, {"text": "t", "files": {name: "evil"}}).ask(asking(), workspace)
    assert reply.error is not None
    assert reply.error.kind is ErrorKind.BAD_REQUEST
    assert [path.name for path in outside.iterdir()] == ["kept.txt"]
    assert (outside / "kept.txt").read_text() == "kept"


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "a//b", "", ".", "a\0b"])
def test_a_path_that_leaves_the_workspace_is_refused_when_loading(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidFile, match=r"answers\[0\]\.files"):
        script(tmp_path, {"text": "t", "files": {name: "x"}})


@pytest.mark.parametrize(
    ("answer", "field"),
    [
        ({}, "answers[0]"),
        ({"text": "t", "exit": {}}, "answers[0]"),
        ({"text": 5}, "answers[0].text"),
        ({"txt": "t"}, "answers[0].txt"),
        ({"text": "t", "error": {"kind": "odd", "message": "m"}}, "answers[0].error.kind"),
        ({"text": "t", "usage": {"input_tokens": -1}}, "answers[0].usage.input_tokens"),
    ],
)
def test_a_bad_script_is_an_error_that_names_the_field(
    tmp_path: Path, answer: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidFile) as caught:
        script(tmp_path, answer)
    assert field in str(caught.value)
    assert "script.json" in str(caught.value)


def test_an_archived_job_answers_again_with_its_errors(tmp_path: Path, workspace: Path) -> None:
    error = {"kind": "timeout", "message": "too late", "http_status": None}
    interactions = [
        {"kind": "create", "response": {"raw_response": ""}},
        {"kind": "ask", "response": {"status": "SUCCESS", "raw_response": "one", "finish": "length"}},
        {"kind": "approve", "response": {"raw_response": ""}},
        {"kind": "ask", "simulated": True, "response": {"status": "SUCCESS", "raw_response": "two"}},
        {"kind": "ask", "response": {"status": "TIMEOUT", "raw_response": "half", "error": error}},
        {"response": {"status": "ERROR", "raw_response": ""}},
    ]
    (tmp_path / "jobHistory.json").write_text(json.dumps({"interactions": interactions}))
    for path in (tmp_path, tmp_path / "jobHistory.json"):
        scripted = Scripted.load(path)
        one, two, late, failed, none = (scripted.ask(asking(index), workspace) for index in range(5))
        assert (one.text, one.finish, one.error) == ("one", "length", None)
        assert (two.text, two.error) == ("two", None)
        assert late.text == "half"
        assert late.error is not None
        assert late.error.model_dump() == error
        assert failed.error is not None
        assert failed.error.kind is ErrorKind.TRANSIENT
        assert none.error is not None
        assert " has 4, needed 5" in none.error.message


BROKEN = "half \ud83d of a smile"
CLEAN = "half \\ud83d of a smile"


@pytest.mark.parametrize(
    ("answer", "field"),
    [
        ({"text": BROKEN}, r"answers\[0\]\.text"),
        ({"exit": {"action": [BROKEN]}}, r"answers\[0\]\.exit\.action"),
        ({"error": {"kind": "transient", "message": BROKEN}}, r"answers\[0\]\.error\.message"),
    ],
)
def test_lone_surrogates_of_a_script_are_told_when_loading(
    tmp_path: Path, answer: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidFile, match=field):
        script(tmp_path, answer)


def test_lone_surrogates_of_an_archive_are_an_answer_all_the_same(tmp_path: Path, workspace: Path) -> None:
    error = {"kind": "timeout", "message": BROKEN}
    response = {"raw_response": BROKEN, "finish": BROKEN}
    odd = response | {"status": BROKEN}
    archive = {"interactions": [{"response": response | {"error": error}}, {"response": odd}]}
    place = tmp_path / os.fsdecode(b"not \xff text")
    place.mkdir()
    (place / "jobHistory.json").write_text(json.dumps(archive))
    scripted = Scripted.load(place)
    told, untold, none = (scripted.ask(asking(index), workspace) for index in range(3))
    assert told.text == untold.text == CLEAN
    assert told.error is not None
    assert told.error.message == CLEAN
    assert untold.error is not None
    assert untold.error.message == f"the archived answer is {CLEAN}"
    assert none.error is not None
    for reply in (told, untold, none):
        reply.model_dump_json().encode()


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"interactions": 1}', '{"interactions": [1]}', '{"interactions": [{}]}']
)
def test_a_bad_archive_is_an_error_that_names_it(tmp_path: Path, content: str) -> None:
    (tmp_path / "jobHistory.json").write_text(content)
    with pytest.raises(InvalidFile, match=r"jobHistory\.json"):
        Scripted.load(tmp_path)


def test_a_missing_script_is_an_error_that_says_where_its_path_begins(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="file with scripted answers not found") as caught:
        Scripted.load(tmp_path / "answers.json")
    assert "begins in the current directory" in str(caught.value.fix)


def test_a_missing_archive_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match=r"jobHistory\.json"):
        Scripted.load(tmp_path)


def test_the_two_messages_are_the_halves_of_the_prompt() -> None:
    system, user = "be 🙂 good", "do it\n\n---\n\nnow"
    request = Request(prompt=system + SEPARATOR + user, metadata={"user_start": len(system) + len(SEPARATOR)})
    assert build_first_messages(asking(request=request)) == [
        {"role": "system", "content": system},
        {"role": "user", "content": user},
    ]
    assert build_first_messages(asking()) == [{"role": "user", "content": "p"}]
