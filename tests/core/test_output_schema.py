"""The shape of an output: what a role may declare, what an answer that does not fit leads to, and questions."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from logist.core.answer import output_schema
from logist.core.machine.rules import TODAY, Rule
from logist.core.model import JsonObject, Phase, Role, Status, StuckKind
from logist.core.prompt import prompt
from logist.core.step import step
from logist.errors import Refused
from logist.resources import find_resource, load_schema
from logist.roles.checking import OUTPUT_SCHEMAS
from tests.core.builders import command, conclude, observed, reply, spec, state

PLAN: JsonObject = {"goal": "g", "steps": [{"step_number": 1, "action": "a", "reason": "r"}]}
FITTING: dict[str, Any] = {
    "plan": PLAN,
    "assignments": {"goal": "g", "assignments": [{"number": 1, "role": "Actor", "task": "t", "after": []}]},
    "feedback": {"verdict": "good", "findings": [{"severity": "remark", "problem": "p", "line": None}]},
    "test-report": {
        "passed": True,
        "commands": [{"command": "pytest", "exit_code": 0, "result": "2 passed"}],
    },
}


def concluded(
    output: Any, wanted: JsonObject | None = None, action: str = "COMPLETED", **more: Any
) -> step.Outcome:
    seen = observed(more.pop("phase", Phase.DOER)).model_copy(update={"output_schema": wanted})
    text = command(action, output=output, **more)
    return conclude(spec(review=False), state(Status.PENDING), reply(text), seen)


class TestShipped:
    @pytest.mark.parametrize("name", OUTPUT_SCHEMAS)
    def test_each_can_be_used_and_takes_what_fits(self, name: str) -> None:
        wanted = load_schema(f"output/{name}")
        assert output_schema.schema_fault(wanted) == ""
        assert output_schema.output_fault(FITTING[name], wanted, name) == ""

    def test_none_is_left_out(self) -> None:
        assert {path.stem for path in find_resource("schemas", "output").iterdir()} == set(OUTPUT_SCHEMAS)

    @pytest.mark.parametrize(
        ("output", "named"),
        [
            (None, "missing `output`"),
            ("just words", '`output` is "just words"; expected an object'),
            ({"goal": "g"}, "`output` has no `steps`"),
            ({"goal": "g", "steps": "nope"}, '`output.steps` is "nope"; expected an array'),
            ({"goal": "g", "steps": []}, "`output.steps` is empty"),
            (
                {"goal": "g", "steps": [{"step_number": 1, "action": "a"}]},
                "`output.steps[0]` has no `reason`",
            ),
            ({**PLAN, "goal": ""}, "`output.goal` is empty"),
            ({**PLAN, "risks": [1]}, "`output.risks[0]` is 1; expected a string"),
        ],
    )
    def test_p52_a_plan_that_does_not_fit_is_stuck_and_names_the_field(self, output: Any, named: str) -> None:
        outcome = concluded(output, load_schema("output/plan"))
        assert outcome.place.status is Status.STUCK
        assert outcome.place.stuck is not None
        assert outcome.place.stuck.kind is StuckKind.AGENT
        assert named in outcome.reason
        assert "the role Worker" in outcome.reason

    def test_one_that_fits_goes_on(self) -> None:
        assert concluded(PLAN, load_schema("output/plan")).place.status is not Status.STUCK

    @pytest.mark.parametrize("action", ["STUCK", "RETRY"])
    def test_it_is_due_only_with_completed(self, action: str) -> None:
        assert "output" not in concluded(None, load_schema("output/plan"), action).reason


class TestDeclared:
    @pytest.mark.parametrize(
        ("wanted", "fault"),
        [
            (7, "must be a JSON Schema"),
            ({"$ref": "https://example.org/x.json"}, "uses `$ref`, which is not supported"),
            (
                {"properties": {"a": {"pattern": "(a+)+$"}}},
                "uses `properties.a.pattern`, which is not supported",
            ),
            (
                {"anyOf": [{"patternProperties": {}}]},
                "uses `anyOf[0].patternProperties`, which is not supported",
            ),
            ({"items": {"$defs": {}}}, "uses `items.$defs`, which is not supported"),
            ({"type": "text"}, "is not a valid JSON Schema: type"),
            ({"description": "x" * 20_000}, "at most 16,384"),
            ({"enum": [float("nan")]}, "must be valid JSON"),
        ],
    )
    def test_what_can_not_be_bounded_is_refused(self, wanted: Any, fault: str) -> None:
        assert fault in output_schema.schema_fault(wanted)

    def test_depth(self) -> None:
        wanted: JsonObject = {}
        for _ in range(30):
            wanted = {"items": wanted}
        assert "levels deep" in output_schema.schema_fault(wanted)

    @pytest.mark.parametrize(
        "wanted",
        [
            {"$ref": "http://127.0.0.1:9/x.json"},
            {"$ref": "#"},
            {"patternProperties": {"^(g+)+$": {}}},
            {"properties": {"goal": {"minimum": "x"}}},
            {"type": "bogus"},
        ],
    )
    def test_a_recorded_one_that_no_role_can_have_is_not_applied(self, wanted: JsonObject) -> None:
        """A history may come from elsewhere: no replay opens an address, runs an expression or ends in a traceback."""
        with pytest.raises(
            Refused, match=r"can't use the recorded `output_schema` of the role Worker: it (uses|is not) "
        ):
            concluded({"g" * 40 + "!": 1, "goal": 1}, wanted)

    def test_names_of_fields_are_no_keywords(self) -> None:
        assert output_schema.schema_fault({"properties": {"$ref": {"type": "string"}, "pattern": True}}) == ""

    @pytest.mark.parametrize(
        ("sections", "place"), [(False, "`output`"), (True, "the JSON under `## Output`")]
    )
    def test_the_doer_is_told_and_the_reviewer_is_not(self, sections: bool, place: str) -> None:
        role = Role(
            name="R", description="d", instructions="i", llm_model="m", output_schema={"type": "array"}
        )
        told = {each.source: each.text for each in prompt.system_pieces(role, sections=sections)}
        assert f"{place} must match this JSON Schema" in told["output_schema"]
        assert '{"type": "array"}' in told["output_schema"]
        pieces = prompt.system_pieces(role, sections=sections, doing=False)
        assert "output_schema" not in {each.source for each in pieces}


class TestQuestion:
    ASKED: ClassVar[JsonObject] = {
        "type": "question",
        "question": "Which?",
        "options": ["a", {"label": "B", "value": "b"}],
    }

    @pytest.mark.parametrize("action", ["COMPLETED", "RETRY", "STUCK"])
    def test_p52_it_stops_the_job_whatever_the_action(self, action: str) -> None:
        outcome = concluded(self.ASKED, load_schema("output/plan"), action, summary="A choice.")
        assert (outcome.place.status, outcome.reason) == (Status.STUCK, "A choice.")
        assert outcome.response.output == self.ASKED
        assert any("a question always stops the job" in each for each in outcome.response.warnings) is (
            action != "STUCK"
        )

    def test_without_a_summary_its_words_are_the_reason(self) -> None:
        assert concluded(self.ASKED, summary="").reason == "Which?"

    @pytest.mark.parametrize(
        ("change", "named"),
        [
            ({"question": " "}, "`output.question` is empty"),
            ({"question": ""}, "`output.question` is empty"),
            ({"question": None}, "`output.question` is null; expected a string"),
            ({"options": "a or b"}, '`output.options` is "a or b"; expected an array'),
            ({"options": [1]}, "`output.options[0]` is 1; expected a string or an object"),
            ({"options": [{"label": "x"}]}, "`output.options[0]` has no `value`"),
            ({"severity": "dire"}, '`output.severity` is "dire"; expected one of "low", "medium", "high"'),
        ],
    )
    def test_a_field_that_does_not_fit_is_named(self, change: JsonObject, named: str) -> None:
        outcome = concluded({**self.ASKED, **change}, action="STUCK", summary="A choice.")
        assert outcome.reason == f"invalid question: {named}: A choice."

    def test_before_the_rule_a_question_with_completed_went_on(self) -> None:
        text = command("COMPLETED", output=self.ASKED)
        arguments = (spec(review=False), state(Status.PENDING), reply(text), observed(Phase.DOER))
        assert conclude(*arguments, TODAY - {Rule.QUESTIONS_STOP}).place.status is not Status.STUCK
        assert conclude(*arguments).place.status is Status.STUCK


class Quoted(str):
    """A text as a reader of YAML may make it."""

    __slots__ = ()


def test_a_schema_may_have_texts_of_other_classes() -> None:
    wanted = {"type": Quoted("object"), "required": [Quoted("verdict")]}
    assert output_schema.output_fault({"verdict": 1}, wanted, "Poet") == ""
    assert "verdict" in output_schema.output_fault({}, wanted, "Poet")
