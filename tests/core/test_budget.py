"""The budget of a prompt: never over it, never a cut in what matters most, and always the same cut."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logist.core.machine.limits import Halt
from logist.core.model import ExitAction, Last, Model, Phase, State
from logist.core.prompt import budget, prompt_parts
from logist.core.prompt.budget import Budget, Fitted
from logist.core.prompt.prompt import FileText, Given
from logist.core.prompt.prompt_parts import UnplacedPart
from logist.core.relevance.tree import draw_tree
from logist.core.step import step
from logist.errors import InvalidFile
from tests.core.builders import MODEL, WORKER, spec, state
from tests.support import examples

SAYS = "context.budget_tokens"
LINES = st.text(st.sampled_from("ab`é🎉\n "), max_size=60)
LONG = st.one_of(
    LINES, st.integers(0, 3000).map(lambda n: "x" * n), st.integers(0, 300).map(lambda n: "y\n" * n)
)


@st.composite
def piece(draw: st.DrawFn) -> UnplacedPart:
    source = draw(st.sampled_from([*budget.PRIORITIES, "task", "contract", "findings", "checks"]))
    text = draw(LONG)
    least = draw(st.integers(0, len(text))) if source == "previous" else 0
    return UnplacedPart(f"{source}:{draw(st.integers(0, 3))}", "given", text, least=least)


@st.composite
def prompts(draw: st.DrawFn) -> list[UnplacedPart]:
    """Pieces, and now and then some that a template has put together."""
    found = draw(st.lists(piece(), max_size=8))
    run = draw(st.lists(piece(), max_size=3))
    glued = [UnplacedPart(one.source, one.kind, one.text, glued=True, least=one.least) for one in run]
    return [*found, UnplacedPart("template:r", "rule", ""), *glued, UnplacedPart("task", "given", "last")]


def fit(user: list[UnplacedPart], tokens: int, **more: Any) -> Fitted:
    system = [UnplacedPart("contract", "rule", "Answer.")]
    return budget.fit_to_budget(system, user, prompt_parts.JOINT, Budget(tokens, SAYS, "raise it"), **more)


def prompt_of(found: Fitted) -> str:
    return prompt_parts.assemble(found.system, found.user, lambda text: (text, 0))[0]


def shown(one: UnplacedPart, found: Fitted) -> int:
    """How many of its characters are still there, from the first; no other part has its source."""
    text = next((kept.text for kept in found.user if kept.source == one.source), "")
    pairs = enumerate(zip(text, one.text, strict=False))
    return next((n for n, (kept, whole) in pairs if kept != whole), min(len(text), len(one.text)))


class TestProperties:
    @settings(max_examples=examples(80), deadline=None)
    @given(user=prompts(), tokens=st.integers(1, 3000))
    def test_never_over_and_never_a_cut_in_what_matters_most(
        self, user: list[UnplacedPart], tokens: int
    ) -> None:
        try:
            found = fit(user, tokens)
        except InvalidFile:
            return
        assert budget.estimate_tokens(prompt_of(found)) <= tokens
        protected = [one for one in user if budget.get_priority(one) == budget.NEVER]
        assert [
            one for one in found.user if budget.get_priority(one) == budget.NEVER and one.source != "left_out"
        ] == protected
        for one in user:
            if one.least:
                assert any(kept.text.startswith(one.text[: one.least].rstrip("\n")) for kept in found.user)

    @settings(max_examples=examples(25), deadline=None)
    @given(user=prompts(), tokens=st.integers(300, 3000))
    def test_the_same_inputs_give_the_same_bytes(self, user: list[UnplacedPart], tokens: int) -> None:
        assert fit(user, tokens, strict=False) == fit(list(user), tokens, strict=False)

    @settings(max_examples=examples(60), deadline=None)
    @given(
        user=st.lists(piece(), min_size=1, max_size=6, unique_by=lambda one: one.source),
        small=st.integers(1, 2000),
        more=st.integers(0, 500),
    )
    def test_a_larger_budget_shows_no_less_of_any_part(
        self, user: list[UnplacedPart], small: int, more: int
    ) -> None:
        less, full = (fit(user, tokens, strict=False) for tokens in (small, small + more))
        assert all(shown(one, less) <= shown(one, full) for one in user)

    @settings(max_examples=examples(25), deadline=None)
    @given(user=prompts(), tokens=st.integers(1, 3000))
    def test_the_table_tells_of_every_part(self, user: list[UnplacedPart], tokens: int) -> None:
        found = fit(user, tokens, strict=False)
        assert {row.source for row in found.rows} - {"left_out"} == {
            "contract",
            *(one.source for one in user if one.text),
        }
        assert all(row.whole >= row.tokens or row.cut == "shortened" for row in found.rows)
        assert found.cut or all(row.cut == "none" for row in found.rows)

    @settings(max_examples=examples(25))
    @given(text=LONG)
    def test_tokens_are_three_bytes(self, text: str) -> None:
        assert budget.estimate_tokens(text) == -(-len(text.encode()) // 3)


BRIEFLY = "(Some context was left out to save space.)"
TASK = UnplacedPart("task", "given", "t" * 300)
BIG = "line of text\n" * 200


class TestCuts:
    def test_what_fits_is_left_alone(self) -> None:
        user = [TASK, UnplacedPart("listing", "given", BIG)]
        found = fit(user, 2000)
        assert (found.user, found.cut) == (user, False)
        assert [row.cut for row in found.rows] == ["none"] * 3

    def test_the_least_important_goes_first(self) -> None:
        user = [
            UnplacedPart(source, "given", f"## {source}\n\n{BIG}")
            for source in ("related_tasks", "file:a", "listing", "previous")
        ]
        found = fit([TASK, *user], 2400)
        assert {row.source: row.cut for row in found.rows} == {
            **dict.fromkeys(("contract", "task", "previous", "file:a", "left_out"), "none"),
            "listing": "shortened",
            "related_tasks": "dropped",
        }
        assert "Shortened: listing. Left out: related_tasks." in found.user[-1].text

    def test_of_equals_the_later_goes_first(self) -> None:
        user = [UnplacedPart(f"file:{name}", "given", BIG) for name in "abc"]
        cuts = [row.cut for row in fit(user, 1500).rows if row.source.startswith("file")]
        assert cuts == ["none", "shortened", "dropped"]

    def test_a_file_that_is_cut_keeps_its_fence(self) -> None:
        file = UnplacedPart("file:a", "given", f"## File: a\n\n````\n{BIG}```\n````")
        text = fit([file], 600).user[0].text
        lines = text.split("\n")
        assert lines[:4] == ["## File: a", "", "````", "line of text"]
        assert lines[-3:-1] == ["````", ""]
        assert re.fullmatch(r"\([0-9,]+ more characters are left out: .* no room for them\)", lines[-1])

    def test_a_long_line_is_cut_inside(self) -> None:
        text = fit([UnplacedPart("file:a", "given", "é" * 50_000)], 2000).user[0].text
        assert 2000 < text.count("é") < 3000

    def test_what_a_template_has_put_together_stays_in_its_place(self) -> None:
        run = [
            UnplacedPart("template:r", "rule", ""),
            UnplacedPart("repo_structure", "given", BIG, glued=True),
            UnplacedPart("template:r", "rule", "\n\n## End", glued=True),
        ]
        assert prompt_of(fit([TASK, *run], 150)).endswith(f"{TASK.text}\n\n\n\n## End\n\n{BRIEFLY}")

    def test_what_is_never_cut_and_too_long_is_an_error(self) -> None:
        with pytest.raises(InvalidFile) as caught:
            fit([UnplacedPart("task", "given", BIG), UnplacedPart("note", "given", "n")], 500)
        assert caught.value.message == (
            "the prompt is too long: the parts that can't be cut have more than 500 tokens (task 867, contract 3, note 1)"
        )
        assert (caught.value.where, caught.value.fix) == (SAYS, "raise it")
        whole = fit(
            [UnplacedPart("task", "given", BIG), UnplacedPart("listing", "given", BIG)], 500, strict=False
        )
        assert [row.cut for row in whole.rows] == ["none", "none", "dropped"]

    def test_whatever_is_cut_is_told_as_soon_as_there_is_room_for_a_line(self) -> None:
        user = [
            TASK,
            UnplacedPart("custom_instructions", "given", "Be kind."),
            UnplacedPart("listing", "given", BIG),
        ]
        joints = len("\n\n\n\n")  # the first part of each half is reckoned with what stands between parts
        least = -(-(len(prompt_of(fit(user[:1], 1000))) + joints) // 3)
        with pytest.raises(InvalidFile, match="the prompt is too long"):
            fit(user, least - 1)
        told: list[str] = []
        for tokens in range(least, 1100):
            found = fit(user, tokens)
            spare = 3 * tokens - len(prompt_of(found)) - joints
            sources = [one.source for one in found.user]
            told += [found.user[-1].text if "left_out" in sources else ""]
            assert "left_out" in sources or not found.cut or spare < len(f"\n\n{BRIEFLY}")
            assert "custom_instructions" in sources or spare < len("\n\nBe kind.")
        assert BRIEFLY in told
        assert any("Left out: listing" in one or "Shortened: listing" in one for one in told)

    def test_the_note_stands_before_the_contract(self) -> None:
        contract = UnplacedPart("contract", "rule", "Answer.")
        found = fit([TASK, UnplacedPart("listing", "given", BIG), contract], 240)
        assert [one.source for one in found.user][-2:] == ["left_out", "contract"]
        assert found.user[-1] == contract

    def test_a_tight_budget_goes_to_the_parts(self) -> None:
        user = [
            TASK,
            UnplacedPart("custom_instructions", "given", "k" * 300),
            UnplacedPart("listing", "given", BIG),
        ]
        found = fit(user, 240)
        assert [one.source for one in found.user] == ["task", "custom_instructions", "left_out"]
        assert found.user[1:] == [user[1], UnplacedPart("left_out", "given", BRIEFLY)]

    def test_of_the_structure_readme_and_build_files_are_lost_last(self) -> None:
        shown = draw_tree(
            [*((f"d{n:02}", list("01234")) for n in range(30)), ("", ["README.md", "Makefile"])], [], {}
        )
        found = fit([TASK, UnplacedPart("repo_structure", "given", f"## Structure\n\n{shown}")], 200)
        assert [row.cut for row in found.rows if row.source == "repo_structure"] == ["shortened"]
        assert {"README.md", "Makefile"} <= {*found.user[1].text.splitlines()}

    def test_a_huge_part_takes_no_time(self) -> None:
        begun = time.process_time()
        fit([UnplacedPart("output", "given", "x\n" * 100_000)], 100_000)
        assert time.process_time() - begun < 3

    def test_many_names_stay_a_line(self) -> None:
        user = [UnplacedPart(f"file:{n:03}/{'x' * 40}\n", "given", BIG) for n in range(60)]
        note = fit(user, 1200).user[-1].text
        assert len(note.splitlines()) == 3
        assert " more. If you need" in note


class TestPlan:
    def plan(
        self, given: Given, model: Model = MODEL, here: State | None = None, **bounds: Any
    ) -> step.StepPlan:
        found = step.plan(
            spec(),
            here or state(),
            WORKER,
            model,
            given,
            step.RequestBounds(**bounds),
            phase=Phase.DOER,
            free=True,
        )
        assert not isinstance(found, Halt)
        return found

    def test_the_smaller_of_config_and_window_counts(self) -> None:
        windowed = MODEL.model_copy(update={"context_window": 9000, "max_output_tokens": 5000})
        assert self.plan(Given(), prompt_tokens=100_000).allowed == Budget(
            100_000, SAYS, "raise it, or shorten the task or the role"
        )
        for most, tokens, says in ((100_000, 4000, "models.small.context_window"), (3000, 3000, SAYS)):
            allowed = self.plan(Given(), windowed, prompt_tokens=most).allowed
            assert allowed is not None
            assert (allowed.tokens, allowed.says) == (tokens, says)
        assert self.plan(Given()).allowed is None

    @pytest.mark.parametrize(
        ("window", "says"),
        [
            (
                8000,
                r"no tokens left for a prompt: the context window has 8,000 tokens, of which the answer can use 8,192 \(max_output_tokens\)",
            ),
            (
                8300,
                r"the prompt .* can't be cut have more than 108 tokens \(contract [0-9]+, .*\): the context window has 8,300 tokens, of which the answer can use 8,192 .*",
            ),
        ],
    )
    def test_a_window_that_the_answer_fills_is_told_with_both_numbers(self, window: int, says: str) -> None:
        small = MODEL.model_copy(update={"context_window": window, "max_output_tokens": 8192})
        with pytest.raises(InvalidFile) as caught:
            self.plan(Given(), small)
        assert re.fullmatch(says, caught.value.message)
        assert caught.value.where == "models.small.context_window"
        assert caught.value.fix is not None
        assert "lower max_output_tokens of the role or the model" in caught.value.fix

    def test_what_is_cut_is_recorded_and_else_nothing(self) -> None:
        given = Given(listing=("a",), files=(FileText("a", "a" * 900), FileText("b", BIG)))
        whole = self.plan(given, prompt_tokens=9000).request
        assert "context" not in whole.metadata
        assert whole.files_context == ["a", "b"]
        cut = self.plan(given, prompt_tokens=1500).request
        rows = {row["source"]: row for row in cut.metadata["context"]}
        assert rows["file:b"]["cut"] == "shortened"
        assert rows["listing"] == {
            "source": "listing",
            "tokens": 0,
            "priority": 5,
            "from": "workspace",
            "cut": "dropped",
            "whole": 10,
        }
        assert budget.estimate_tokens(cut.prompt) <= 1500

    def test_a_file_that_is_dropped_is_not_named_as_shown(self) -> None:
        given = Given(files=(FileText("a", BIG), FileText("b", BIG)))
        assert self.plan(given, prompt_tokens=1200).request.files_context == ["a"]

    def test_of_the_last_answer_the_summary_stays(self) -> None:
        last = Last(
            sequence=2,
            phase=Phase.DOER,
            role="Worker",
            action=ExitAction.RETRY,
            summary="No luck.",
            output="x" * 9000,
        )
        found = self.plan(Given(), here=state(last=last), prompt_tokens=1000)
        assert "Worker ended with RETRY: No luck." in found.request.prompt
        assert {row.source: row.cut for row in found.table}["previous"] == "shortened"

    def test_an_answer_that_is_there_already_needs_no_room(self) -> None:
        bounds = step.RequestBounds(prompt_tokens=10)
        asked = (spec(), state(), WORKER, MODEL, Given(), bounds)
        with pytest.raises(InvalidFile, match="the prompt is too long"):
            step.plan(*asked, phase=Phase.DOER, free=True)
        assert isinstance(step.plan(*asked, phase=Phase.DOER, free=True, sent=False), step.StepPlan)
