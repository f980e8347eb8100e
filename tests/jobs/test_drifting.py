"""Recorded requests against today's files: what has changed since is named, with the file that it is in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from logist import __version__
from logist.config.environment import Environment
from logist.core.history import fold
from logist.core.model import EVERYTHING, Kind
from logist.core.permissions.tools import select_permitted_tools
from logist.core.replay.drift import Drift
from logist.core.replay.drift_causes import schema_hash
from logist.core.replay.replay import find_differences
from logist.jobs.archive import archive_drift, archive_replay
from logist.jobs.turn import next_request
from logist.jobs.turn.next_request import Choice
from logist.resources import find_resource
from logist.roles import load_roles
from tests.jobs.bench import PLAN, Bench, answer, command
from tests.jobs.conftest import MakeBench

POET = {"name": "Poet", "description": "d", "instructions": "Rhyme.", "llm_model": "m"}
LETTER = """\
name: letter
steps:
  - {id: draft, prompt: "Write {{.title}}.", agentRole: You write short letters., role: Poet}
  - {id: send, prompt: Send it., guidance: [be quick], role: Poet}
"""


def write(bench: Bench, name: str, text: str) -> None:
    """A file of the project, and the roles as they are then."""
    place = bench.project.home / name
    place.parent.mkdir(exist_ok=True)
    place.write_text(text, "utf-8")
    bench.change(roles=load_roles([find_resource("roles"), bench.project.home / "roles"]))


def drifts(bench: Bench) -> tuple[Drift, ...]:
    replayed = archive_replay.replay_job(
        bench.project, bench.project.open_job("j"), prompts=archive_drift.build_drift_finder(bench.project)
    )
    assert replayed.differences == ()
    return replayed.drifts


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A letter that was drafted, at the second attempt, and sent by a poet of the project."""
    one = Bench(
        tmp_path_factory.mktemp("recorded"), [answer(command("RETRY", summary="No.")), answer(), answer()]
    )
    write(one, "roles/Poet.json", json.dumps(POET))
    write(one, "workflows/letter.yaml", LETTER)
    one.create(prompt="Write.", title="Spring", workflow="letter", approval="none")
    one.run()
    assert sum(entry.kind is Kind.ASK for entry in one.history()) == 3
    return one


@pytest.fixture
def written(recorded: Bench, tmp_path: Path) -> Bench:
    """Another project with the same files, in which that job is replayed."""
    one = Bench(tmp_path)
    write(one, "roles/Poet.json", json.dumps(POET))
    write(one, "workflows/letter.yaml", LETTER)
    one.change(jobs_dir=recorded.project.jobs_dir)
    return one


def test_nothing_has_changed(written: Bench) -> None:
    assert drifts(written) == ()


FILE = "the role file Poet (.logist/roles/Poet.json)"


@pytest.mark.parametrize(
    ("role", "told"),
    [
        ({"instructions": "Sing."}, {("role:Poet", f"{FILE} has changed")}),
        (
            {"permissions": {"can_read_files": True}},
            {
                (part, "the permissions of the role Poet have changed (.logist/roles/Poet.json)")
                for part in ("permissions", "step")
            },
        ),
        (
            {"context_requirements": []},
            {("listing", f"{FILE} has changed: it requests other context")},
        ),
        ({"description": "other"}, set()),
        ({"llm_model": "another"}, {("model", f"{FILE} has changed: its model")}),
        ({"temperature": 0.5}, {("temperature", f"{FILE} has changed: its temperature")}),
    ],
)
def test_a_role_file_that_has_changed(
    written: Bench, role: dict[str, Any], told: set[tuple[str, str]]
) -> None:
    write(written, "roles/Poet.json", json.dumps(POET | role))
    found = drifts(written)
    assert {(drift.source, drift.cause) for drift in found} == told
    assert {drift.sequence for drift in found} == ({2, 3, 4} if told else set())


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (None, "the role Poet does not exist now"),
        ("{", "the role file Poet (.logist/roles/Poet.json:1:2) is invalid now: "),
    ],
)
def test_a_role_that_is_not_there(written: Bench, text: str | None, cause: str) -> None:
    if text is None:
        (written.project.home / "roles" / "Poet.json").unlink()
        written.change(roles=load_roles([find_resource("roles")]))
    else:
        write(written, "roles/Poet.json", text)
    found = drifts(written)
    assert [(drift.sequence, drift.source, drift.change) for drift in found] == [
        (number, "role:Poet", "gone") for number in (2, 3, 4)
    ]
    assert {drift.cause[: len(cause)] for drift in found} == {cause}


BROKEN = "roles: [\n"


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("poet.yaml", "the role file Poet (.logist/roles/poet.yaml:2:1) is invalid now: "),
        (
            "people.yaml",
            "the role Poet does not exist now, unless one of these invalid files defines it: .logist/roles/people.yaml:",
        ),
    ],
)
def test_a_role_whose_file_can_not_be_read(written: Bench, name: str, cause: str) -> None:
    (written.project.home / "roles" / "Poet.json").unlink()
    write(written, f"roles/{name}", BROKEN)
    assert {drift.cause[: len(cause)] for drift in drifts(written)} == {cause}


def test_what_is_sent_beside_the_prompt(written: Bench) -> None:
    write(written, "roles/Poet.json", json.dumps(POET | {"llm_model": "another", "temperature": 1}))
    first, *_, last = written.history()
    assert first.spec is not None
    before = fold.fold_before(written.history(), last.sequence)

    def told(
        simulated: bool = False, command: Any = None, **metadata: Any
    ) -> set[tuple[str, tuple[str, ...]]]:
        request = last.request.model_copy(
            update={"metadata": {**last.request.metadata, **metadata}, "command": command}
        )
        entry = last.model_copy(update={"request": request, "simulated": simulated})
        found = archive_drift.build_drift_finder(written.project)(first.spec, before, entry)  # type: ignore[arg-type]
        return {(drift.source, drift.diff) for drift in found}

    model, temperature = ("model", ('-"m"', '+"another"')), ("temperature", ("-null", "+1.0"))
    assert told() == {model, temperature}
    assert told(command={"options": {"model": "m"}}) == {temperature}
    assert told(simulated=True) == told(agent="given") == set()
    every = [tool.name for tool in select_permitted_tools(EVERYTHING)]
    assert told(agent="litellm", tools=every) == {model, temperature}
    assert ("tools", ("-none", f"+{', '.join(every)}")) in told(agent="litellm", tools=[])
    assert not [name for name, _ in told(agent="litellm", tools=[], permissions=[]) if name == "permissions"]


def test_whose_turn_it_is(written: Bench) -> None:
    history = written.history()
    assert [*find_differences(history, written.project.schema)] == []
    last = history[-1]
    assert last.observed is not None
    other = last.observed.model_copy(update={"role": "Worker"})

    def found(**metadata: Any) -> list[tuple[str, str, str]]:
        request = last.request.model_copy(update={"metadata": metadata})
        entry = last.model_copy(update={"observed": other, "request": request})
        every = find_differences([*history[:-1], entry], written.project.schema)
        return [(each.field, each.recorded, each.today) for each in every if each.field == "role"]

    assert found(logist="1") == [("role", "Worker", "Poet")]
    assert found() == found(logist="1", role_chosen=True) == []


def test_a_role_that_a_person_chose_is_marked(bench: MakeBench) -> None:
    one = bench([answer(command(output=PLAN)), answer()])
    one.create(review=True)
    one.step(role="Planner")
    one.step()
    chosen, turn = (entry.request.metadata for entry in one.history()[1:])
    assert (chosen["role_chosen"], "role_chosen" in turn) == (True, False)


def test_a_step_that_its_workflow_tells_in_another_way(written: Bench) -> None:
    write(written, "workflows/letter.yaml", LETTER.replace("Send it.", "Burn it.").replace("short", "long"))
    cause = "of the workflow letter (.logist/workflows/letter.yaml) has changed"
    assert [(drift.sequence, drift.source, drift.cause) for drift in drifts(written)] == [
        (2, "agent_role", f"the step `draft` {cause}"),
        (3, "agent_role", f"the step `draft` {cause}"),
        (4, "workflow_step", f"the step `send` {cause}"),
    ]


@pytest.mark.parametrize(
    "text", [None, "steps: [", LETTER.replace("id: draft", "id: first"), LETTER + "# later\n"]
)
def test_a_workflow_that_does_not_tell_the_step_says_nothing(written: Bench, text: str | None) -> None:
    place = written.project.home / "workflows" / "letter.yaml"
    place.write_text(text or "", "utf-8")
    if text is None:
        place.unlink()
    assert drifts(written) == ()


def test_a_workflow_is_no_path(written: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "letter.yaml").write_text(LETTER.replace("Send it.", "Burn it."), "utf-8")
    monkeypatch.chdir(tmp_path)
    asks = archive_drift.build_drift_finder(written.project)
    entries = written.history()
    for name in ("letter.yaml", "./letter.yaml", str(tmp_path / "letter.yaml"), "letter.yaml#letter", ""):
        spec = entries[0].spec
        assert spec is not None
        assert spec.workflow is not None
        spec = spec.model_copy(update={"workflow": spec.workflow.model_copy(update={"name": name})})
        written_state = written.state()
        place = written_state.place.model_copy(update={"step": "send"})
        state = written_state.model_copy(update={"place": place, "last": None})
        assert "workflow_step" not in {drift.source for drift in asks(spec, state, entries[-1])}


def test_a_step_that_was_filled_when_the_job_was_made_is_not_compared_with_its_template(
    written: Bench,
) -> None:
    write(written, "workflows/letter.yaml", LETTER.replace("Send it.", "Burn it."))
    first, *_, last = written.history()
    flow = first.spec.workflow if first.spec else None
    assert first.spec is not None
    assert flow is not None
    filled = [step.model_copy(update={"rendered": True}) for step in flow.steps]
    spec = first.spec.model_copy(update={"workflow": flow.model_copy(update={"steps": tuple(filled)})})
    state = fold.fold_before(written.history(), last.sequence)
    assert archive_drift.build_drift_finder(written.project)(first.spec, state, last)
    assert archive_drift.build_drift_finder(written.project)(spec, state, last) == []


def test_a_secret_of_today_is_not_told(written: Bench) -> None:
    write(written, "roles/Poet.json", json.dumps(POET | {"instructions": "Sing hunter-two-hunter."}))
    environment = Environment({"HOME": "/", "MY_API_KEY": "hunter-two-hunter"})
    written.change(environment=environment)
    assert {drift.diff for drift in drifts(written)} == {("-Rhyme.", "+Sing [redacted].")}


def test_a_request_says_which_logist_made_it_and_by_which_schema(bench: MakeBench) -> None:
    one = bench([answer()])
    one.create()
    _, plan = next_request.preview_request(one.project, "j", Choice())
    one.step()
    sent = one.history()[-1].request
    assert getattr(plan, "request", None) == sent
    assert (sent.metadata["logist"], sent.metadata["schema"]) == (
        __version__,
        schema_hash(one.project.schema),
    )
