"""The data of a step are the same in each of its phases: first work, review, rework, retry, resubmit, rejection."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from logist.core.model import Kind, Status, StuckKind
from logist.core.model.commands import ApproveCommand, ResubmitCommand
from logist.core.step.plan import StepPlan
from logist.jobs.steward.role_switch import switch_role
from logist.jobs.steward.steward_decisions import record_decision, rerun_job, restep_job
from logist.jobs.turn.next_request import Choice, preview_request
from logist.resources import find_resource
from logist.roles import load_roles
from tests.jobs.bench import PLAN, Bench, Json, gave
from tests.jobs.conftest import MakeBench

Do = Callable[[Bench], object]

COUNTED, SUMMED, DONE = gave({"x": 5}), gave({"y": 1}), gave()
RETRY, STUCK = gave({"z": 2}, "RETRY"), gave(action="STUCK")
EXPECTED = "Sum up 5, 5 for me."


def decide(kind: Kind, **command: Any) -> Do:
    def do(b: Bench) -> object:
        made = {Kind.RESUBMIT: ResubmitCommand, Kind.APPROVE: ApproveCommand}.get(kind)
        return record_decision(b.project, "j", kind, command=made(**command) if made else None)

    return do


def step(b: Bench) -> object:
    return b.step()


RESUBMIT, REJECT, APPROVE = decide(Kind.RESUBMIT), decide(Kind.REJECT), decide(Kind.APPROVE)


def write_flow(tmp_path: Path, steps: Sequence[Json], **flow: Any) -> Path:
    path = tmp_path / "flow.json"
    path.write_text(json.dumps({"name": "flow", "steps": list(steps), **flow}), "utf-8")
    return path


def sum_up(**more: Any) -> list[Json]:
    prompt = "Sum up {{output.x}}, {{input.x}} for {{input.who}}."
    return [{"id": "a", "prompt": "Count."}, {"id": "b", "prompt": prompt, **more}]


def list_own_lines(b: Bench, step_id: str, begin: str, job_id: str = "j") -> list[str]:
    """The line of the step's own prompt that begins so, in each request of the step."""
    asked = [entry for entry in b.history(job_id) if entry.kind is Kind.ASK and entry.step == step_id]
    return [find_line(entry.request.prompt, begin) for entry in asked]


def find_line(prompt: str, begin: str) -> str:
    (line,) = {line for line in prompt.splitlines() if line.startswith(begin)}
    return line


def preview_line(b: Bench, begin: str) -> str:
    state, plan = preview_request(b.project, "j", Choice())
    assert isinstance(plan, StepPlan), state.status
    return find_line(plan.request.prompt, begin)


C = {"id": "c", "prompt": "Check."}
AGAIN = {"id": "more", "stepType": "decision", "branches": [{"condition": "output.more", "to": "c"}]}

PHASES: Mapping[str, tuple[list[Json], list[Json], list[Do]]] = {
    "first": (sum_up(), [COUNTED], [step]),
    "retried": (sum_up(), [COUNTED, RETRY], [step, step]),
    "reviewed": (sum_up(review=True), [COUNTED, SUMMED], [step, step]),
    "sent back": (sum_up(review=True), [COUNTED, SUMMED, RETRY], [step, step, step]),
    "reviewed again": (sum_up(review=True), [COUNTED, SUMMED, RETRY, SUMMED], [step] * 4),
    "sent back again": (sum_up(review=True), [COUNTED, SUMMED, RETRY, SUMMED, RETRY], [step] * 5),
    "retried after a review": (sum_up(review=True), [COUNTED, SUMMED, RETRY, RETRY], [step] * 4),
    "rejected at the end": (sum_up(), [COUNTED, SUMMED], [step, step, REJECT]),
    "rejected twice": (sum_up(), [COUNTED, SUMMED, SUMMED], [step, step, REJECT, step, REJECT]),
    "rejected before the next step": (
        [*sum_up(confirm=True), C],
        [COUNTED, SUMMED],
        [step, step, REJECT],
    ),
    "resubmitted": (sum_up(), [COUNTED, STUCK], [step, step, RESUBMIT]),
    "resubmitted by its reviewer": (
        sum_up(review=True),
        [COUNTED, SUMMED, STUCK],
        [step, step, step, RESUBMIT],
    ),
    "reviewed by decision": (
        sum_up(review=True),
        [COUNTED, SUMMED, STUCK],
        [step, step, step, decide(Kind.RESUBMIT, review=True)],
    ),
    "resubmitted with a condition": (
        sum_up(review=True, when="output.x > 4"),
        [COUNTED, SUMMED, STUCK],
        [step, step, step, RESUBMIT],
    ),
    "resubmitted from the next step": (
        [*sum_up(), C],
        [COUNTED, SUMMED, STUCK],
        [step, step, step, decide(Kind.RESUBMIT, step="b")],
    ),
    "resubmitted from a later step": (
        [*sum_up(), C, {"id": "d", "prompt": "Deliver."}],
        [COUNTED, SUMMED, DONE, STUCK],
        [step, step, step, step, decide(Kind.RESUBMIT, step="b")],
    ),
    "resubmitted without a branch": (
        [*sum_up(), {**AGAIN, "id": "none"}, C],
        [COUNTED, SUMMED],
        [step, step, RESUBMIT],
    ),
    "restepped": (
        sum_up(review=True),
        [COUNTED, SUMMED, RETRY],
        [step, step, step, lambda b: restep_job(b.project, "j", 4)],
    ),
    "restepped to its beginning": (
        sum_up(),
        [COUNTED, SUMMED],
        [step, step, lambda b: restep_job(b.project, "j", 3)],
    ),
    "run again": (
        sum_up(),
        [COUNTED, SUMMED, COUNTED],
        [step, step, lambda b: rerun_job(b.project, "j"), step],
    ),
    "suspended": (
        sum_up(review=True),
        [COUNTED, SUMMED],
        [step, step, decide(Kind.SUSPEND), decide(Kind.RESUME)],
    ),
    "with a plan": (
        sum_up(role="Planner"),
        [COUNTED, gave(PLAN)],
        [step, step, lambda b: switch_role(b.project, "j", "Actor"), APPROVE],
    ),
}


@pytest.mark.parametrize("phase", PHASES)
def test_the_prompt_of_a_step_has_the_same_data_in_each_phase(
    bench: MakeBench, tmp_path: Path, phase: str
) -> None:
    steps, answers, does = PHASES[phase]
    b = bench(answers)
    b.follow(write_flow(tmp_path, steps), input={"who": "me"}, approval="end")
    for do in does:
        do(b)
    assert b.state().step == "b"
    assert preview_line(b, "Sum up") == EXPECTED
    assert set(list_own_lines(b, "b", "Sum up")) <= {EXPECTED}
    assert not [said for said in b.said if "not found" in said]


def test_a_first_step_has_no_last_output_in_its_review_either(bench: MakeBench, tmp_path: Path) -> None:
    b = bench([gave({"about": "snow"}), RETRY, DONE])
    haiku = "A haiku about {{input.about}}{{if output}}, not {{output.about}}{{end}}."
    steps: list[Json] = [{"id": "a", "prompt": haiku, "review": True}]
    b.follow(write_flow(tmp_path, steps), input={"about": "rain"})
    assert [b.step(), b.step(), b.step()]
    assert set(list_own_lines(b, "a", "A haiku")) == {"A haiku about rain."}


def test_a_step_that_a_loop_reaches_again_has_the_output_before_each_round(
    bench: MakeBench, tmp_path: Path
) -> None:
    """In its second round, the last output is the one of its first round, also after its second answer."""
    drafts = [gave({"x": number, "more": True}) for number in (6, 7)]
    b = bench([COUNTED, drafts[0], RETRY, drafts[0], DONE, drafts[1], RETRY, drafts[1], RETRY])
    decision = {"id": "good", "stepType": "decision", "branches": [{"condition": "output.more", "to": "b"}]}
    b.follow(write_flow(tmp_path, [*sum_up(review=True), decision]), input={"who": "me"})
    for _ in range(9):
        b.step()
    assert (b.state().step, b.state().status) == ("b", Status.PENDING)
    rounds = ["Sum up 5, 5 for me."] * 4 + ["Sum up 6, 6 for me."] * 4
    assert list_own_lines(b, "b", "Sum up") == rounds
    assert preview_line(b, "Sum up") == rounds[-1]


def test_a_step_that_leads_to_itself_without_a_condition_has_its_own_output(
    bench: MakeBench, tmp_path: Path
) -> None:
    b = bench([COUNTED, *[gave({"x": number}) for number in (6, 7)]])
    b.follow(write_flow(tmp_path, [*sum_up(next="b")]), input={"who": "me"})
    assert [b.step(), b.step(), b.step()]
    assert [*list_own_lines(b, "b", "Sum up"), preview_line(b, "Sum up")] == [
        f"Sum up {number}, {number} for me." for number in (5, 6, 7)
    ]


def test_a_decision_that_a_steward_takes_again_reads_the_output_of_the_step(
    bench: MakeBench, tmp_path: Path
) -> None:
    b = bench([COUNTED, gave({"x": 6, "more": "?"}), DONE])
    branches = [{"condition": "output.more == 1", "to": "b"}]
    decision = {"id": "good", "stepType": "decision", "branches": branches}
    b.follow(write_flow(tmp_path, [*sum_up(), decision]), input={"who": "me"})
    assert [b.step(), b.step()]
    stuck = b.state().place.stuck
    assert stuck is not None
    assert stuck.kind is StuckKind.NO_BRANCH
    again = record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(step="good")).entries[0]
    assert again.route[0]["values"] == {"output.more": "?"}
    record_decision(b.project, "j", Kind.RESUBMIT)
    assert preview_line(b, "Sum up") == EXPECTED


@pytest.mark.parametrize("how", ["rejected", "resubmitted"])
def test_the_items_of_a_step_of_child_jobs_come_from_the_step_before_it(
    bench: MakeBench, tmp_path: Path, how: str
) -> None:
    steps: list[Json] = [
        {"id": "a", "prompt": "List."},
        {
            "id": "b",
            "stepType": "foreach",
            "itemsPath": "output.parts",
            "itemVariable": "part",
            "prompt": "Do {{part}} of {{output.x}}.",
        },
        *(
            [{"id": "j", "stepType": "join", "prompt": "Join {{output.length}}."}]
            if how == "resubmitted"
            else []
        ),
    ]
    b = bench()
    each = {f"b[{number}]": [gave({"done": number})] for number in (1, 2)}
    b.follow(
        write_flow(tmp_path, steps),
        steps={"a": [gave({"parts": ["p", "q"], "x": 5})], **each, "j": [STUCK]},
        approval="end",
    )
    b.run()
    first = b.children()
    if how == "rejected":
        record_decision(b.project, "j", Kind.REJECT)
    else:
        assert b.state().status is Status.STUCK
        assert list_own_lines(b, "j", "Join") == ["Join 2."]
        record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(step="b"))
    b.run()
    again = [child for child in b.children() if child not in first]
    assert [[list_own_lines(b, "b", "Do", child)[0] for child in each] for each in (first, again)] == [
        ["Do p of 5.", "Do q of 5."]
    ] * 2


def run_after_two_items(bench: MakeBench, tmp_path: Path, steps: Sequence[Json]) -> Bench:
    """Run until step `b` has followed the foreach `e`, has been sent back once, and waits for approval."""
    each = {f"e[{number}]": [gave({"done": number})] for number in (1, 2)}
    b = bench()
    b.follow(
        write_flow(tmp_path, steps),
        steps={"a": [gave({"parts": ["p", "q"]})], **each, "b": [SUMMED, RETRY, SUMMED, DONE]},
        approval="end",
    )
    b.run()
    return b


def test_a_join_and_the_step_after_it_have_the_results_in_each_phase(
    bench: MakeBench, tmp_path: Path
) -> None:
    results = "{{range aggregatedResults}}{{.output.done}},{{end}}"
    steps: list[Json] = [
        {"id": "a", "prompt": "List."},
        {"id": "e", "stepType": "foreach", "itemsPath": "output.parts", "prompt": "Do {{item}}."},
        {"id": "b", "stepType": "join", "review": True, "prompt": "Join {{output.length}}: " + results},
    ]
    b = run_after_two_items(bench, tmp_path, steps)
    assert list_own_lines(b, "b", "Join") == ["Join 2: 1,2,"] * 4
    record_decision(b.project, "j", Kind.REJECT)
    assert preview_line(b, "Join") == "Join 2: 1,2,"


def test_the_results_are_in_each_prompt_of_a_step_after_a_foreach(bench: MakeBench, tmp_path: Path) -> None:
    steps: list[Json] = [
        {"id": "a", "prompt": "List."},
        {"id": "e", "stepType": "foreach", "itemsPath": "output.parts", "prompt": "Do {{item}}."},
        {"id": "b", "review": True, "prompt": "Join."},
    ]
    b = run_after_two_items(bench, tmp_path, steps)
    prompts = [entry.request.prompt for entry in b.history() if entry.request.prompt and entry.step == "b"]
    assert len(prompts) == 4
    for prompt in prompts:
        results = prompt.partition("## Results of the previous jobs")[2]
        assert results.index('"done": 1') < results.index('"done": 2')


def test_a_step_after_a_foreach_without_items_has_the_empty_list(bench: MakeBench, tmp_path: Path) -> None:
    steps: list[Json] = [
        {"id": "a", "prompt": "List."},
        {"id": "e", "stepType": "foreach", "itemsPath": "output.parts", "prompt": "Do {{item}}."},
        {"id": "b", "review": True, "prompt": "Join {{output.length}}."},
    ]
    b = bench([gave({"parts": []}), gave([1, 2]), RETRY, DONE])
    b.follow(write_flow(tmp_path, steps))
    assert [b.step() for _ in range(4)]
    assert [*list_own_lines(b, "b", "Join"), preview_line(b, "Join")] == ["Join 0."] * 3


def test_a_subflow_gets_the_same_input_again_and_its_steps_have_the_same_data(
    bench: MakeBench, tmp_path: Path
) -> None:
    inner: list[Json] = [
        {"id": "i", "prompt": "Think."},
        {"id": "b", "review": True, "prompt": "Sum up {{output.x}} of {{input.n}}."},
    ]
    (tmp_path / "inner.json").write_text(json.dumps({"name": "inner", "steps": inner}), "utf-8")
    steps: list[Json] = [
        {"id": "a", "prompt": "Count."},
        {"id": "s", "stepType": "subflow", "subflowId": "inner.json", "inputMapping": {"output.x": "n"}},
    ]
    b = bench()
    b.follow(
        write_flow(tmp_path, steps),
        steps={"a": [COUNTED], "i": [gave({"x": 6})], "b": [SUMMED, RETRY, SUMMED, DONE]},
        approval="end",
    )
    b.run()
    record_decision(b.project, "j", Kind.REJECT)
    b.run()
    assert len(b.children()) == 2
    for child in b.children():
        assert set(list_own_lines(b, "b", "Sum up", child)) == {"Sum up 6 of 5."}


def test_the_template_of_a_reviewer_reads_the_output_that_it_judges(bench: MakeBench, tmp_path: Path) -> None:
    b = bench([COUNTED, gave({"x": 6}), RETRY, gave({"x": 7}), DONE])
    roles = b.project.home / "roles"
    roles.mkdir()
    for name in ("Doing", "Judging"):
        role = {"name": name, "description": "D.", "prompt_template": name + " {{.output.x}}: {{.Title}}"}
        (roles / f"{name}.json").write_text(json.dumps(role), "utf-8")
    b.change(roles=load_roles([find_resource("roles"), roles]))
    b.follow(
        write_flow(tmp_path, sum_up(role="Doing", review=True, reviewRole="Judging")), input={"who": "me"}
    )
    assert [b.step() for _ in range(5)]
    begins = ("Doing", "Judging") * 2
    asked = [entry.request.prompt for entry in b.history() if entry.kind is Kind.ASK][1:]
    assert [
        find_line(prompt, begin).partition(":")[0] for prompt, begin in zip(asked, begins, strict=True)
    ] == [
        "Doing 5",
        "Judging 6",
        "Doing 5",
        "Judging 7",
    ]


# --- any order of phases ---

LOOPS: list[Json] = [
    {"id": "a", "prompt": "Now a."},
    {"id": "b", "prompt": "Now b {{output.x}}, {{input.x}}.", "review": True, "when": "output.x"},
    {"id": "c", "prompt": "Now c {{output.y}}, {{input.y}}.", "confirm": True},
    {"id": "back", "stepType": "decision", "branches": [{"condition": "output.more", "to": "b"}], "defaultBranch": "d"},
    {"id": "d", "prompt": "Now d {{output.x}}, {{input.x}}.", "review": True},
    {"id": "more", "stepType": "decision", "branches": [{"condition": "output.more", "to": "d"}], "defaultBranch": "end"},
]  # fmt: skip
LIMITS = {"limits": {"max_attempts": 4, "max_allowed_iterations": 1000}}


def walk(b: Bench, chance: random.Random, moves: int) -> None:
    """Steps and decisions that the job accepts, by chance."""
    for number in range(1, moves + 1):
        state = b.state()
        done = [name for name in state.outputs if name != state.step]
        match state.status:
            case Status.PENDING | Status.REVIEW_REQUIRED:
                name = "y" if state.step == "b" else "x"
                action = chance.choice(["COMPLETED"] * 4 + ["RETRY", "RETRY", "STUCK"])
                output = (
                    {name: number, "more": chance.random() < 0.5}
                    if action == "COMPLETED"
                    else {"x": number, "y": number}
                )
                b.script({}, [gave(output, action)] * (state.asked + 1))
                b.step()
            case Status.STUCK:
                to = chance.choice([None, None, *done])
                record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(step=to))
            case Status.APPROVAL_REQUIRED:
                record_decision(b.project, "j", chance.choice([Kind.APPROVE, Kind.REJECT, Kind.REJECT]))
            case _:
                sequences = [entry.sequence for entry in b.history() if entry.kind is Kind.ASK]
                restep_job(b.project, "j", chance.choice(sequences))


def list_visits(b: Bench) -> list[list[str]]:
    """The step's own line in each request, by visit: the workflow led to the step, and then elsewhere or back."""
    visits: list[list[str]] = [[]]
    for entry in b.history():
        if entry.kind is Kind.ASK:
            visits[-1].append(find_line(entry.request.prompt, "Now "))
        goes_on = any(told.get("branch") for told in entry.route)
        if goes_on or entry.step != entry.after.step or entry.kind in (Kind.RESUBMIT, Kind.RESTEP):
            visits.append([])
    return [lines for lines in visits if lines]


@pytest.mark.parametrize(
    "seed", [*range(2), *[pytest.param(each, marks=pytest.mark.deep) for each in range(2, 12)]]
)
def test_no_phase_loses_the_data_of_a_step(bench: MakeBench, tmp_path: Path, seed: int) -> None:
    b = bench(settings=LIMITS)
    b.follow(write_flow(tmp_path, LOOPS), approval="end")
    walk(b, random.Random(seed), 60)
    visits = list_visits(b)
    assert [line for lines in visits for line in lines if "{{" in line] == []
    assert [lines for lines in visits if len(set(lines)) > 1] == []
    assert max(map(len, visits)) > 2
    assert not [said for said in b.said if "not found" in said]
