"""The full prompt of every shipped role, in every form of answer and on both sides: it must not contradict itself."""

from __future__ import annotations

import json
import re

import pytest

from logist.core import sections
from logist.core.answer import exit_command
from logist.core.model import ExitAction, Phase, Status
from logist.core.permissions.permissions import can_change_files
from logist.core.prompt.prompt import CONTRACT, ENDING, Given
from logist.core.review import read_verdict
from logist.core.step.step_instructions import build_instructions
from logist.core.text.layers import BASE
from logist.resources import find_resource
from logist.roles import load_roles
from tests.core.builders import SCHEMA, spec, state

ROLES = {name: each.role for name, each in load_roles([find_resource("roles")]).by_name.items()}
FORMS = ("json", "sections")


def told(name: str, form: str, phase: Phase = Phase.DOER) -> str:
    status = Status.PENDING if phase is Phase.DOER else Status.REVIEW_REQUIRED
    found = build_instructions(spec(response_format=form), state(status), ROLES[name], Given(), phase)
    return "\n\n".join(piece.text for piece in (*found.system, *found.user))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ROLES)
def test_who_changes_nothing_is_not_told_to_do_the_task(name: str, form: str) -> None:
    text = told(name, form)
    does = can_change_files(ROLES[name].permissions)
    assert ("## Your part: do the task" in text) is does
    assert ("leave every file unchanged" in text.split("## Your part:")[1]) is not does


@pytest.mark.parametrize("phase", [Phase.DOER, Phase.REVIEWER])
@pytest.mark.parametrize("name", ROLES)
def test_in_sections_the_words_of_the_exit_command_are_explained(name: str, phase: Phase) -> None:
    text = told(name, "sections", phase)
    assert "COMPLETED" in ROLES[name].instructions
    assert ENDING in text
    assert "End your answer with one JSON object" not in text
    assert ENDING not in told(name, "json", phase)


def test_a_role_without_these_words_needs_no_explanation() -> None:
    plain = ROLES["Worker"].model_copy(update={"instructions": "Write."})
    found = build_instructions(spec(response_format="sections"), state(), plain, Given(), Phase.DOER)
    assert "ending" not in {piece.source for piece in found.system}


@pytest.mark.parametrize("action", ExitAction)
def test_what_the_explanation_says_leads_to_that_action(action: ExitAction) -> None:
    line = next(line for line in ENDING.splitlines() if line.startswith(f"- {action}:"))
    status, following = (part.split()[-1] for part in line.split(","))
    text = f"## Status\n{status}\n\n## Summary\nS.\n\n## Output\nO\n\n## Next Action\n{following}\n\n## Metadata\n{{}}\n"
    verdict = sections.judge_sections(text, SCHEMA)
    assert verdict.command is not None
    assert verdict.command.action is action


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ROLES)
def test_the_forms_agree_with_the_contract(name: str, form: str) -> None:
    text = " ".join(told(name, form).split())
    assert text.lower().count("two to five sentences") == 1  # in the contract, and no other number elsewhere
    assert "two or three sentences" not in text
    assert "second JSON object" not in text  # one without an action is no exit command
    assert "exactly the five" not in text  # beside `## Evidence`
    assert ("Your role requires an output." in text) is (ROLES[name].output_schema is not None)


@pytest.mark.parametrize("phase", [Phase.DOER, Phase.REVIEWER])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ROLES)
def test_the_contract_is_the_last_part_and_there_only(name: str, form: str, phase: Phase) -> None:
    contract = CONTRACT if form == "json" else BASE
    text = told(name, form, phase)
    assert text.endswith(contract)
    assert text.count("## How to answer") == 1


@pytest.mark.parametrize("name", ROLES)
def test_a_copy_of_the_prompt_or_of_a_form_in_it_is_not_valid(name: str) -> None:
    for form, judge in (("json", exit_command.judge_answer), ("sections", sections.judge_sections)):
        for phase in (Phase.DOER, Phase.REVIEWER):
            assert judge(told(name, form, phase), SCHEMA).command is None
    assert exit_command.judge_answer(CONTRACT, SCHEMA).reason == exit_command.EXAMPLE_COPIED
    assert sections.judge_sections(BASE, SCHEMA).reason.startswith('`Status` is "[SUCCESS | PARTIAL | ')


def test_a_copy_of_the_form_of_a_verdict_is_not_a_verdict() -> None:
    (line,) = (
        line for line in told("review", "json", Phase.REVIEWER).split("\n") if line.startswith('{"verdict"')
    )
    review = read_verdict(json.loads(line), {})
    assert review is not None
    assert review.fault == "`output.verdict` is neither PASS nor FAIL"


@pytest.mark.parametrize("name", ROLES)
def test_a_reviewer_has_one_form_for_its_output(name: str) -> None:
    text = told(name, "json", Phase.REVIEWER)
    assert "must match this JSON Schema" not in text
    assert "## Your verdict" in text


@pytest.mark.parametrize("name", ["Supervisor", "Reviewer", "review"])
def test_a_reviewer_reads_the_sections_that_its_instructions_name(name: str) -> None:
    instructions, text = ROLES[name].instructions, told(name, "json", Phase.REVIEWER)
    named = re.findall(r'the section "([^"]+)"', " ".join(instructions.split()), re.IGNORECASE)
    assert "Your verdict" in named
    assert all(f"\n## {heading}\n" in text.removeprefix(instructions) for heading in named)


@pytest.mark.parametrize(
    ("form", "has", "lacks"),
    [
        (
            "json",
            ("## Task: Say hello", "### Acceptance criteria\n\n- It is there."),
            ("## Agent Context", "## Task Context", "## Task Instructions"),
        ),
        (
            "sections",
            (
                "## Agent Context\n",
                "## Task Instructions\nWrite hello.txt.",
                "**Additional Info:** It is there.",
            ),
            ("## Task: ", "### Acceptance criteria"),
        ),
    ],
)
def test_the_headings_are_those_that_the_docs_name(
    form: str, has: tuple[str, ...], lacks: tuple[str, ...]
) -> None:
    asked = spec(response_format=form, acceptance_criteria=("It is there.",))
    found = build_instructions(asked, state(), ROLES["Worker"], Given(), Phase.DOER)
    text = found.joint.join(piece.text for piece in (*found.system, *found.user))
    assert [heading for heading in has if heading not in text] == []
    assert [heading for heading in lacks if heading in text] == []
    assert ("\n\n---\n\n" in found.joint) is (form == "sections")
    page = (find_resource("roles").parent / "docs" / "workflows.md").read_text("utf-8")
    for heading in ("## Agent Context", "## Task Context", "## Task Instructions", "### Acceptance criteria"):
        assert f"`{heading}`" in page
