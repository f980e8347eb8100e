"""Prompt drift: nothing is told where nothing has changed, whatever the prompt; and each change with its cause."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logist.core.machine.limits import Halt
from logist.core.model import (
    Actor,
    Change,
    EffectiveSpec,
    ExitAction,
    Interaction,
    Kind,
    Last,
    Observed,
    Permissions,
    Phase,
    Place,
    Request,
    Role,
    State,
    Status,
    Step,
    Workflow,
)
from logist.core.prompt import archived_request
from logist.core.prompt.prompt import FileText, Given, Relevant
from logist.core.replay.drift import (
    Drift,
    compare_part_by_part,
    compare_prompts,
    find_drifts,
    find_setting_differences,
)
from logist.core.replay.drift_causes import DriftContext, Today, schema_hash
from logist.core.secrets.redact import redact
from logist.core.step import step
from logist.core.text import line_diff
from tests.core.builders import MODEL, SCHEMA, spec, state
from tests.support import examples

SECRET = "correct-horse-battery"
POET = Role(name="Poet", description="d", instructions="Rhyme.\nAlways.", llm_model="small")
REVIEWED = state(Status.REVIEW_REQUIRED)
GIVEN = Given(
    listing=("a.txt", "b.txt"),
    files=[FileText("a.txt", "roses\n"), FileText("gone.txt", None, "not there")],
    changes=[Change(path="a.txt", kind="created", mode="100644")],
    structure="a.txt\nb/",
    relevant=[
        Relevant(FileText("b/c.py", "x = 1\n"), "named in the task"),
        Relevant(FileText("d", None), "maybe"),
    ],
    attempts=["The first\nran out.", "The second too."],
    others=["other: Water (PENDING)"],
    related=["one", "two", "three"],
    instructions="Be kind.",
    diff="+roses\n",
    job="j",
)
ONE = replace(GIVEN, attempts=["Ran out."], relevant=GIVEN.relevant[:1], related=["one"])
EVERY = ("repo_structure", "relevant_files", "prior_attempts", "session_context", "related_tasks")
FLOW = Workflow(
    name="letter",
    steps=(
        Step(
            id="task",
            name="Draft",
            prompt="Write {{.title}}.",
            agent_role="You are a poet.",
            guidance=("be kind",),
        ),
    ),
    start="task",
)


def clean(text: str) -> tuple[str, int]:
    return redact(text, [SECRET])


def today(role: Role | None = POET, **fields: Any) -> Today:
    known = {"version": "2.0", "role_file": "roles/Poet.yaml", "redact": clean}
    return Today(**{**known, "role": role, **fields})


def asked(
    asks: EffectiveSpec,
    before: State,
    role: Role = POET,
    given: Given = GIVEN,
    *,
    tokens: int | None = None,
    metadata: dict[str, Any] | None = None,
) -> Interaction:
    """An interaction as a step records it, with the request that is planned today."""
    phase = step.find_owing_phase(before) or Phase.DOER
    bounds = step.RequestBounds(redact=clean, prompt_tokens=tokens)
    plan = step.plan(asks, before, role, MODEL, given, bounds, phase=phase, free=True)
    assert not isinstance(plan, Halt)
    known = {**plan.request.metadata, "logist": "1.0", **(metadata or {})}
    request = plan.request.model_copy(update={"metadata": known, "command": {"job_id": "j"}})
    return Interaction(
        sequence=7,
        timestamp="",
        kind=Kind.ASK,
        actor=Actor.AGENT,
        state_before=before.status,
        state_after=before.status,
        workspace_path="",
        after=Place(status=before.status),
        request=request,
        observed=Observed(phase=phase, role=role.name),
    )


def causes(found: list[Drift]) -> dict[str, str]:
    return {f"{drift.source} {drift.change}": drift.cause for drift in found}


LAST = Last(
    sequence=3,
    phase=Phase.DOER,
    role="Poet",
    action=ExitAction.RETRY,
    summary="No.",
    output={"verse": [1, 2]},
)
FINDING = {"check": "security", "severity": "error", "message": "It leaks."}
TEMPLATES = (
    "{{.Title}}",
    "{{.Title}} ({{.ID}})\n{{.Prompt}}\n{{.RepoContext}}\n{{.CustomInstructions}}\n",
    "{{if .PriorAttempts}}Careful.{{end}}{{range .RelatedTasks}}* {{.}}\n{{end}}",
    "{{range .PriorAttempts}}<{{.}}>{{end}} and {{.PriorAttempts}}",
    "{{range .RelevantFiles}}{{.Path}}: {{.Reason}}\n{{.Content}}\n{{end}}{{.SessionContext}}",
    "{{.RelevantFiles}}{{.output}}{{.steps}}{{range .Tags}}[{{.}}]{{end}}",
    "{{range .RelevantFiles}}{{.Path}} ({{.Reason}}), {{end}}{{range .PriorAttempts}}{{.}}, {{end}}done",
    "{{range .RelatedTasks}}{{.}}, {{end}}and {{.RelatedTasks}}{{range .PriorAttempts}}.{{end}}",
    "{{range .RelevantFiles}}{{if .Content}}{{.Path}};{{else}}no {{.Path}}{{end}}{{end}}{{.nothing}}",
)
ASKED = [None, (), EVERY, ("repo_structure",), ("related_tasks", "prior_attempts")]


@pytest.mark.parametrize("asking", ASKED, ids=str)
@pytest.mark.parametrize("template", [None, *TEMPLATES])
@pytest.mark.parametrize("given", [GIVEN, ONE], ids=["several", "one"])
def test_nothing_drifts_where_nothing_has_changed(given: Given, template: str | None, asking: Any) -> None:
    role = POET.model_copy(update={"prompt_template": template, "context_requirements": asking})
    one = spec(tags=("x", "y"), acceptance_criteria=("It rhymes.",), description=f"Not {SECRET}.")
    before = state(last=LAST, outputs={"task": LAST.output}, output_of="task", note="Go on.", attempts=1)
    entry = asked(one, before, role, given)
    assert find_drifts(one, before, entry, today(role)) == []


@pytest.mark.parametrize("fields", [{}, {"response_format": "sections"}, {"workflow": FLOW}])
@pytest.mark.parametrize("status", [Status.PENDING, Status.REVIEW_REQUIRED])
@pytest.mark.parametrize(
    "given", [GIVEN, Given(), Given(partial=True, unlisted=True)], ids=["much", "none", "part"]
)
def test_nothing_drifts_in_any_form_of_prompt(fields: dict[str, Any], status: Status, given: Given) -> None:
    one = spec(**fields)
    before = state(
        status, last=LAST, findings=[FINDING], checks=[{"check": "x", "outcome": "failed", "output": "no"}]
    )
    assert find_drifts(one, before, asked(one, before, given=given), today()) == []


@pytest.mark.deep_beyond(4)
@pytest.mark.parametrize("tokens", [700, 1400])
@pytest.mark.parametrize("template", [None, *TEMPLATES])
def test_nothing_drifts_where_the_prompt_was_cut(tokens: int, template: str | None) -> None:
    words = "Roses are\nred, `violets` are blue.\n\n" * 8
    output = {"text": [words, words], SECRET: ["é" * 90] * 20}
    before = state(
        last=LAST.model_copy(update={"output": output}),
        outputs={"task": output},
        output_of="task",
        summaries={"a": words},
    )
    given = replace(
        GIVEN,
        listing=[f"{number}.txt" for number in range(99)],
        files=[FileText("a", f"{SECRET}{words}" * 2)],
        attempts=[f"One: {words}"] * 3,
        others=[words],
    )
    for asking in (None, EVERY):
        role = POET.model_copy(update={"prompt_template": template, "context_requirements": asking})
        entry = asked(spec(tags=("x",)), before, role, given, tokens=tokens)
        assert archived_request.read_cuts(entry.request) or tokens > 900
        assert find_drifts(spec(tags=("x",)), before, entry, today(role)) == []
    other = role.model_copy(update={"instructions": "Sing."})
    assert [drift.source for drift in find_drifts(spec(tags=("x",)), before, entry, today(other))] == [
        "role:Poet"
    ]


def changed(**fields: Any) -> Role:
    return POET.model_copy(update=fields)


FILE = "the role file Poet (roles/Poet.yaml)"
OWN = "Logist's own text has changed"


@pytest.mark.parametrize(
    ("role", "found"),
    [
        (changed(instructions="Rhyme.\nNever."), {"role:Poet changed": f"{FILE} has changed"}),
        (
            changed(permissions=Permissions(can_read_files=True)),
            {
                "permissions changed": "the permissions of the role Poet have changed (roles/Poet.yaml)",
                "step changed": "the permissions of the role Poet have changed (roles/Poet.yaml)",
            },
        ),
        (
            changed(context_requirements=("repo_structure",)),
            {
                "repo_structure added": f"{FILE} has changed: it requests other context",
                "listing gone": f"{FILE} has changed: it requests other context",
            },
        ),
        (
            changed(prompt_template="Do {{.Title}}: {{.Prompt}}"),
            {
                "template:Poet added": f"{FILE} has changed: its template",
                "task gone": f"{FILE} has changed: its template describes the task differently",
            },
        ),
        (None, {"role:Poet gone": "there is none"}),
    ],
)
def test_a_role_that_has_changed(role: Role | None, found: dict[str, str]) -> None:
    one, before = spec(), state()
    now = today(role, missing="" if role else "there is none")
    assert causes(find_drifts(one, before, asked(one, before), now)) == found


def test_the_lines_that_differ_are_shown() -> None:
    one, before = spec(), state()
    (drift,) = find_drifts(one, before, asked(one, before), today(changed(instructions="Rhyme.\nNever.")))
    assert (drift.sequence, drift.diff) == (7, (" Rhyme.", "-Always.", "+Never."))


@pytest.mark.parametrize("asking", [None, EVERY])
@pytest.mark.parametrize("template", TEMPLATES[1:])
def test_a_template_that_has_changed(template: str, asking: Any) -> None:
    then = changed(prompt_template=template, context_requirements=asking)
    now = changed(prompt_template=f"Mind this.\n{template}", context_requirements=asking)
    one, before = spec(tags=("x",)), state(last=LAST, outputs={"task": 1}, output_of="task")
    (drift,) = find_drifts(one, before, asked(one, before, then), today(now))
    assert (drift.source, drift.cause) == ("template:Poet", f"{FILE} has changed: its template")
    assert drift.diff[0] == "+Mind this."
    assert "?" not in "".join(line for line in drift.diff if line.startswith("+"))


def test_a_template_that_tells_less_of_the_task() -> None:
    one, before = spec(description="In C."), state()
    then, now = (
        changed(prompt_template=f"Do {{{{.Title}}}}{more}") for more in (" {{.Prompt}}", " {{.Description}}")
    )
    found = find_drifts(one, before, asked(one, before, then), today(now))
    assert causes(found) == {
        "template:Poet changed": f"{FILE} has changed: its template",
        "task changed": f"{FILE} has changed: its template describes the task differently",
    }


def test_a_step_that_its_file_tells_in_another_way() -> None:
    one, before = spec(workflow=FLOW), state()
    other = FLOW.steps[0].model_copy(update={"prompt": "Burn it.", "agent_role": "You are a critic."})
    found = find_drifts(one, before, asked(one, before), today(step=other, step_file="workflows/letter.mmd"))
    cause = "the step `task` of the workflow letter (workflows/letter.mmd) has changed"
    assert causes(found) == {"agent_role changed": cause, "workflow_step changed": cause}
    silent = today(step=FLOW.steps[0].model_copy(update={"prompt": "", "guidance": ()}))
    sections = spec(workflow=FLOW, response_format="sections")
    (drift,) = find_drifts(sections, before, asked(sections, before), silent)
    assert (drift.source, drift.change) == ("workflow_step", "gone")
    form = FLOW.steps[0].model_copy(update={"response_format": "sections"})
    found = find_drifts(one, before, asked(one, before), today(step=form, step_file="workflows/letter.mmd"))
    assert {drift.cause for drift in found if not drift.source.startswith("role:")} == {cause}


@pytest.mark.parametrize(
    ("version", "cause"),
    [
        ("1.0", f"{OWN} (the contract (how to answer)): it was 1.0, now it is 2.0"),
        ("2.0", f"{OWN} (the contract (how to answer)), although the version is still 2.0"),
        (
            None,
            f"{OWN} (the contract (how to answer)): now 2.0, the archive does not record the old version",
        ),
    ],
)
def test_a_rule_of_logists_own_that_has_changed(
    monkeypatch: pytest.MonkeyPatch, version: str | None, cause: str
) -> None:
    one, before = spec(), state()
    entry = asked(one, before, metadata={"logist": version})
    monkeypatch.setattr("logist.core.prompt.prompt.CONTRACT", "Answer in JSON.")
    assert causes(find_drifts(one, before, entry, today())) == {"contract changed": cause}


def test_a_rule_that_is_new_and_one_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    one = spec()
    entry = asked(one, REVIEWED)
    monkeypatch.setattr("logist.core.review.telling._render_verdict_request", lambda mode, sections: "")
    (drift,) = find_drifts(one, REVIEWED, entry, today())
    assert (drift.source, drift.change, drift.diff[0]) == ("verdict", "gone", "-## Your verdict")
    entry = asked(one, REVIEWED)
    monkeypatch.undo()
    (drift,) = find_drifts(one, REVIEWED, entry, today())
    assert (drift.source, drift.change, drift.diff[0]) == ("verdict", "added", "+## Your verdict")


def test_the_same_parts_in_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    one, before = spec(), state(note="Go on.")
    entry = asked(one, before)
    monkeypatch.setattr("logist.core.prompt.prompt.JOINT", "\n")
    (drift,) = find_drifts(one, before, entry, today())
    assert (drift.source, drift.change) == ("", "changed")
    assert "how the parts are joined" in drift.cause


def test_a_task_that_the_history_does_not_tell_as_the_prompt_did() -> None:
    before = state()
    found = find_drifts(spec(prompt="Write bye.txt."), before, asked(spec(), before), today())
    assert [(drift.source, drift.diff[-2:]) for drift in found] == [
        ("task", ("-Write hello.txt.", "+Write bye.txt."))
    ]


def test_an_ask_that_went_on_after_a_failed_turn_has_the_prompt_of_an_earlier_attempt() -> None:
    entry = asked(spec(max_attempts=4), state())
    assert find_drifts(spec(), state(attempts=1), entry, today()) == []


def test_another_schema() -> None:
    one, before = spec(), state()
    then = schema_hash(SCHEMA)
    assert schema_hash(dict(reversed(SCHEMA.items()))) == then
    entry = asked(one, before, metadata={"schema": then})
    assert find_drifts(one, before, entry, today(schema=then)) == []
    (drift,) = find_drifts(one, before, entry, today(schema=schema_hash({})))
    assert drift.source == "schema"
    assert f"it was {then[:8]}, now it is {schema_hash({})[:8]}" in drift.cause


def test_a_secret_that_nobody_knows_any_more_is_no_drift_and_not_shown() -> None:
    secretive = changed(instructions=f"Rhyme.\nThe key is {SECRET}, keep it.\nAlways.")
    one, before = spec(), state()
    entry = asked(one, before, secretive)
    assert SECRET not in entry.request.prompt
    forgetful = {"redact": lambda text: (text, 0)}
    assert find_drifts(one, before, entry, today(secretive, **forgetful)) == []
    other = changed(instructions=f"Rhyme.\nThe key is {SECRET}, keep it.\nNever.")
    (drift,) = find_drifts(one, before, entry, today(other, **forgetful))
    assert drift.diff == (" Rhyme.", " The key is [redacted], keep it.", "-Always.", "+Never.")


def test_a_secret_that_stands_across_the_parts_of_a_template_is_no_drift() -> None:
    role = changed(prompt_template=f"Key {SECRET[:9]}{{{{.Title}}}} end")
    one, before = spec(title=SECRET[9:]), state()
    entry = asked(one, before, role)
    assert entry.request.metadata["redactions"] == 1
    assert find_drifts(one, before, entry, today(role)) == []


@pytest.mark.parametrize(
    ("role_hash", "version", "count"), [("h", "1.0", 0), ("h", "2.0", 1), ("x", "1.0", 1)]
)
def test_what_the_archive_can_not_tell_is_no_drift_where_nothing_has_changed(
    role_hash: str, version: str, count: int
) -> None:
    role = changed(prompt_template=f"Key {SECRET[:9]}{{{{.CustomInstructions}}}}, {{{{.Title}}}}")
    one, before = spec(roles={"Poet": "h"}), state()
    entry = asked(one, before, role, Given(instructions=SECRET[9:]))
    assert len(find_drifts(one, before, entry, today(role, role_hash=role_hash, version=version))) == count


def test_a_request_that_does_not_say_its_parts_has_no_drift() -> None:
    one, before = spec(), state()
    entry = asked(one, before)
    bare = entry.model_copy(update={"request": entry.request.model_copy(update={"parts": []})})
    assert find_drifts(one, before, bare, today(changed(instructions="Other."))) == []


@pytest.mark.parametrize(
    "metadata",
    [
        {"context": 3, "permissions": 4, "role": 5, "logist": [], "schema": {}, "redactions": "x"},
        {"context": [1, {"cut": "dropped"}, {"source": [], "cut": "shortened"}], "role": None},
    ],
)
def test_metadata_may_be_anything(metadata: dict[str, Any]) -> None:
    one, before = spec(), state()
    entry = asked(one, before, metadata=metadata)
    assert find_drifts(one, before, entry, today(schema="s")) == []
    assert find_drifts(one, before, entry, today(changed(instructions="Other."), schema="s"))


def test_parts_that_lie_anywhere_do_no_harm() -> None:
    one, before = spec(), state()
    entry = asked(one, before)
    wild = [
        part.model_copy(update={"start": part.end + 5, "end": -part.start}) for part in entry.request.parts
    ]
    odd = entry.model_copy(update={"request": entry.request.model_copy(update={"parts": wild * 3})})
    assert find_drifts(one, before, odd, today())


EDITS = st.lists(
    st.tuples(
        st.sampled_from(["prompt", "source", "start", "end", "drop", "double", "masked"]),
        st.integers(0, 1 << 16),
        st.integers(-3, 3),
    ),
    max_size=2,
)


def edit_request(request: Request, edits: list[tuple[str, int, int]]) -> Request:
    prompt, parts = request.prompt, list(request.parts)
    metadata: dict[str, Any] = dict(request.metadata)
    for what, place, shift in edits:
        number = place % len(parts)
        if what == "prompt":
            prompt = prompt[: place % len(prompt)] + "x" * abs(shift) + prompt[place % len(prompt) + 1 :]
        elif what == "source":
            source = ["task", "listing", "file:a.txt", "step", "contract", "relevant:d"][shift]
            parts[number] = parts[number].model_copy(update={"source": source})
        elif what in ("start", "end"):
            moved = getattr(parts[number], what) + shift
            parts[number] = parts[number].model_copy(update={what: moved})
        elif what == "masked":
            metadata["redacted"] = [number]
        else:
            parts[number : number + 1] = [parts[number]] * (2 if what == "double" or len(parts) == 1 else 0)
    return request.model_copy(update={"prompt": prompt, "parts": parts, "metadata": metadata})


@given(EDITS, st.sampled_from([GIVEN, ONE, Given()]), st.sampled_from([None, EVERY]), st.booleans())
@settings(max_examples=examples(150))
def test_a_prompt_is_equal_only_if_all_of_its_parts_are(
    edits: list[tuple[str, int, int]], surroundings: Given, asking: Any, is_reviewed: bool
) -> None:
    one, role = spec(), POET.model_copy(update={"context_requirements": asking})
    before = REVIEWED if is_reviewed else state(last=LAST, note="Go on.", attempts=1)
    entry = asked(one, before, role, surroundings)
    edited = entry.model_copy(update={"request": edit_request(entry.request, edits)})
    phase = Phase.REVIEWER if is_reviewed else Phase.DOER
    context = DriftContext(one, before, edited, today(role))
    slowly = compare_part_by_part(one, before, edited, role, phase, context)
    assert find_drifts(one, before, edited, today(role)) == slowly
    assert edits or not slowly


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="it recurses as deep as its stack allows")
def test_what_is_nested_too_deep_is_told() -> None:
    deep: Any = []
    for _ in range(20_000):
        deep = [deep]
    one, before = spec(), state()
    entry = asked(one, before)
    found = find_drifts(one, state(last=LAST.model_copy(update={"output": deep})), entry, today())
    assert [drift.cause for drift in found] == ["the history is nested too deep"]


def test_two_prompts_of_a_job() -> None:
    one = spec()
    first = asked(one, state())
    second = asked(
        one, state(attempts=1, note="Go on."), given=Given(), metadata={"logist": "2.0"}
    ).model_copy(update={"sequence": 9})
    found = compare_prompts(first, second)
    assert found.equal == ("role:Poet", "permissions", "task", "step", "contract")
    assert {drift.source: (drift.change, drift.cause) for drift in found.drifts} == {
        "limits": ("changed", "the text about the attempt and its limit: not the same"),
        "note": ("added", "the steward's note: only in #9"),
        "listing": ("changed", "the files of the workspace: not the same"),
        "file:a.txt": ("gone", "the file a.txt: only in #7"),
        "file:gone.txt": ("gone", "the file gone.txt: only in #7"),
        "custom_instructions": ("gone", "the instructions of the project: only in #7"),
    }
    assert next(drift.diff for drift in found.drifts if drift.source == "limits") == (
        "-This is attempt 1 of 3.",
        "+This is attempt 2 of 3.",
    )
    assert find_setting_differences(first.request, second.request) == {"logist": ("1.0", "2.0")}
    assert compare_prompts(first, first).drifts == ()


NUMBERS = [str(number) for number in range(1000)]


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("a", "a", ()),
        ("a\nb\nc\nd\ne\nf\ng", "a\nb\nc\nX\ne\nf\ng", ("...", " b", " c", "-d", "+X", " e", " f", "...")),
        ("", "x", ("-", "+x")),
        ("a\nb", "a", (" a", "-b")),
        (
            "\n".join(NUMBERS[:20]),
            "\n".join(["x", *NUMBERS[1:19], "y"]),
            ("-0", "+x", " 1", " 2", "...", " 17", " 18", "-19", "+y"),
        ),
    ],
)
def test_lines_that_differ(old: str, new: str, shown: tuple[str, ...]) -> None:
    assert line_diff.diff_lines(old, new) == shown


def test_a_difference_is_bounded_in_lines_and_width() -> None:
    found = line_diff.diff_lines("\n".join(NUMBERS), "\n".join(f"{number}x" for number in NUMBERS))
    assert found[25] == "... and 975 more removed"
    assert len(found) == 52
    (was, now) = line_diff.diff_lines("x" * 5000 + "a" + "y" * 5000, "x" * 5000 + "b" + "y" * 5000)
    assert ("a" in was, "b" in now, len(was)) == (True, True, 207)
    assert len(line_diff.mark_all_lines("+", "\n".join(NUMBERS))) == 61
