"""A role's own template: rendered to the byte, cut into rules and what was given, nothing of the task lost."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest

from logist.core.machine.limits import Halt
from logist.core.model import ContextPart, EffectiveSpec, Phase, Request, Role, Step, Workflow
from logist.core.prompt import context, prompt_parts, role_template
from logist.core.prompt.prompt import FileText, Given, Relevant
from logist.core.secrets.redact import redact
from logist.core.step import step, step_instructions
from tests.core.builders import MODEL, spec, state

IMPLEMENT = """\
You are implementing a feature in a software project.

## Task
{{.Title}}

{{if .Description}}
## Description
{{.Description}}
{{end}}

{{if .AcceptanceCriteria}}
## Acceptance Criteria
{{range .AcceptanceCriteria}}
- {{.}}
{{end}}
{{end}}

## Repository Context
{{.RepoContext}}

## Guidelines
- Write clean, maintainable code
- Include unit tests for new functionality
- Follow existing patterns in the codebase

{{if .CustomInstructions}}
## Project-Specific Instructions
{{.CustomInstructions}}
{{end}}
"""
"""That of the document which the roles by task follow."""
WHOLE = """\
You are implementing a feature in a software project.

## Task
Say {{hello}}


## Description
Longer words.



## Acceptance Criteria

- It is there.

- It says hello.



## Repository Context
src/
  a.py

## Guidelines
- Write clean, maintainable code
- Include unit tests for new functionality
- Follow existing patterns in the codebase


## Project-Specific Instructions
Be kind.

"""
BARE = """\
You are implementing a feature in a software project.

## Task
Say {{hello}}





## Repository Context
src/
  a.py

## Guidelines
- Write clean, maintainable code
- Include unit tests for new functionality
- Follow existing patterns in the codebase


"""
EVERY: tuple[ContextPart, ...] = tuple(context.VARIABLES)
SURROUNDED = Given(
    listing=("a.py",),
    structure="src/\n  a.py",
    relevant=(
        Relevant(FileText("src/a.py", "x = 1\n"), "named in the task"),
        Relevant(FileText("b.bin", None, "binary file"), "contains hello"),
    ),
    attempts=("Worker: RETRY\nno luck",),
    others=("j2: parse dates",),
    related=("j0: say goodbye",),
    job="j1",
)


LISTED = """\
- src/a.py: named in the task
- b.bin: contains hello (binary file)

## File: src/a.py

```
x = 1
```"""


def role(template: str | None = IMPLEMENT, *asked: ContextPart, **fields: Any) -> Role:
    wanted = asked or ("repo_structure", "relevant_files", "related_tasks")
    data = {"name": "implement", "description": "d", "instructions": "", "llm_model": "m", **fields}
    return Role(**{"context_requirements": wanted, **data}, prompt_template=template)


def asked(
    one: Role, given: Given = SURROUNDED, redacted: Any = lambda text: (text, 0), **job: Any
) -> Request:
    fields = {"title": "Say {{hello}}", "prompt": "Say {{hello}}", **job}
    bounds = step.RequestBounds(redact=redacted)
    plan = step.plan(spec(**fields), state(), one, MODEL, given, bounds, phase=Phase.DOER, free=True)
    assert not isinstance(plan, Halt)
    return plan.request


def parts(request: Request) -> list[tuple[str, str, str]]:
    return [(part.source, part.kind, request.prompt[part.start : part.end]) for part in request.parts]


class TestTheRoleOfTheSeed:
    @pytest.mark.parametrize(
        ("job", "instructions", "whole"),
        [
            (
                {"description": "Longer words.", "acceptance_criteria": ("It is there.", "It says hello.")},
                "Be kind.",
                WHOLE,
            ),
            ({}, "", BARE),
        ],
    )
    def test_renders_to_the_byte(self, job: dict[str, Any], instructions: str, whole: str) -> None:
        given = Given(structure="src/\n  a.py", instructions=instructions)
        request = asked(role(), given, **job)
        user = request.prompt[request.metadata["user_start"] :]
        assert user.startswith(f"{whole}\n\n## Your part: do the task")
        assert "role:implement" not in [source for source, _, _ in parts(request)]

    def test_its_words_are_rules_and_what_came_in_is_given(self) -> None:
        given = Given(structure="tree", instructions="Be kind.")
        found = parts(asked(role(), given, description="Why", acceptance_criteria=("one", "two")))
        rendered = [part for part in found if part[1] == "given" or part[0].startswith("template:")]
        assert [(source, text) for source, kind, text in rendered if kind == "given"] == [
            ("task", "Say {{hello}}"),
            ("task", "Why"),
            ("task", "one"),
            ("task", "two"),
            ("repo_structure", "tree"),
            ("custom_instructions", "Be kind."),
        ]
        assert [text for source, kind, text in rendered if kind == "rule"][1] == "\n\n\n## Description\n"
        assert {source for source, kind, _ in rendered if kind == "rule"} == {"template:implement"}

    def test_every_part_is_where_it_says(self) -> None:
        request = asked(role())
        end = 0
        for part in request.parts:
            text = request.prompt[part.start : part.end]
            assert hashlib.sha256(text.encode()).hexdigest() == part.sha256
            assert request.prompt[end : part.start] in ("", "\n\n", "\n\n---\n\n")
            end = part.end
        assert end == len(request.prompt)

    def test_where_the_answer_is_in_sections_it_stands_whole_too(self) -> None:
        request = asked(role(), Given(structure="src/\n  a.py"), response_format="sections")
        assert request.prompt[request.metadata["user_start"] :].startswith(f"{BARE}\n\n---\n\n## Your part")
        assert "## Agent Context" not in request.prompt

    def test_the_step_of_a_workflow_follows_it(self) -> None:
        step_of = Step(id="a", name="Look", prompt="Read {{input.file}} ({{title}}).")
        flow = Workflow(name="w", steps=(step_of,), start="a")
        one = spec(workflow=flow, title="T", prompt="", input={"file": "a.py"})
        told = step_instructions.build_instructions(
            one, state(step="a"), role("{{.Title}}|{{input.file}}"), Given(), Phase.DOER
        )
        assert [(piece.source, piece.text) for piece in told.user][1:5] == [
            ("task", "T"),
            ("template:implement", "|"),
            ("task", "a.py"),
            ("workflow_step", "## Workflow Step: Look\n\nRead a.py (T)."),
        ]


class TestNames:
    def test_every_name_of_ours_may_be_absent(self) -> None:
        template = "".join(f"{{{{.{name}}}}}" for name in role_template.NAMES)
        bare = spec(title="", prompt="")
        found = role_template.fill_template(bare, state(), role(template, *EVERY), Given())
        assert isinstance(found, role_template.Filled)
        assert "".join(piece.text for piece in found.pieces) == "The workspace is empty."
        assert (found.said, found.warnings) == (frozenset({"RepoContext"}), ())

    @pytest.mark.parametrize(
        ("template", "shown"),
        [
            ("{{.ID}} {{.Type}} {{.Tags}} {{Prompt}}", "j1 bug a, b Do it."),
            ("{{.AcceptanceCriteria}}", "- one\n- two"),
            ("{{title}} {{acceptance_criteria.length}} {{input.n}}", "T 2 7"),
            (
                "{{range .RelevantFiles}}{{.}} ({{.Reason}}) {{end}}",
                "src/a.py (named in the task) b.bin (contains hello (binary file)) ",
            ),
            ("{{range .RelevantFiles}}{{.Path}}:{{.Content}}{{end}}", "src/a.py:x = 1\nb.bin:"),
            (
                "{{.RelevantFiles}}",
                LISTED,
            ),
            (
                "{{.PriorAttempts}}|{{range PriorAttempts}}{{.}}{{end}}",
                "- Worker: RETRY\n  no luck|Worker: RETRY\nno luck",
            ),
            ("{{.SessionContext}} {{.RelatedTasks}}", "- j2: parse dates - j0: say goodbye"),
            ("<{{.Description}}{{.CustomInstructions}}>", "<>"),
        ],
    )
    def test_what_each_shows(self, template: str, shown: str) -> None:
        job = {"title": "T", "prompt": "Do it.", "task_type": "bug", "tags": ("a", "b"), "input": {"n": 7}}
        found = role_template.fill_template(
            spec(**job, acceptance_criteria=("one", "two")), state(), role(template, *EVERY), SURROUNDED
        )
        assert isinstance(found, role_template.Filled)
        assert "".join(piece.text for piece in found.pieces) == shown
        assert found.warnings == ()

    @pytest.mark.parametrize("part", EVERY)
    def test_a_role_is_told_no_more_than_it_asks_for(self, part: ContextPart) -> None:
        template = "".join(f"{name}={{{{.{name}}}}};" for name in context.VARIABLES.values())
        text = asked(role(template, part)).prompt
        said = [name for name in context.VARIABLES.values() if f"{name}=;" not in text]
        assert said == [context.VARIABLES[part]]

    def test_without_a_wish_the_context_is_the_list_of_files(self) -> None:
        plain = role("[{{.RepoContext}}]", context_requirements=None)
        assert "[- a.py]" in asked(plain).prompt
        assert "## Files in the workspace" not in asked(plain).prompt
        assert "## Files in the workspace\n\n- a.py" in asked(role("x", context_requirements=None)).prompt


class TestWhatATemplateLeavesOut:
    @pytest.mark.parametrize(
        ("template", "rest"),
        [
            ("{{.Title}}{{.Prompt}}{{.Description}}{{.AcceptanceCriteria}}", ""),
            ("{{title}}{{prompt}}{{description}}{{range acceptance_criteria}}{{.}}{{end}}", ""),
            (
                "{{.Title}}",
                "## What was asked\n\nDo it.\n\n### Description\n\nD\n\n### Acceptance criteria\n\n- one",
            ),
            (
                "{{.Title}}{{.Prompt}}{{.Description}}",
                "## What was asked\n\n### Acceptance criteria\n\n- one",
            ),
            ("{{.Prompt}}{{.Description}}{{.AcceptanceCriteria}}", "## Task: T"),
            (
                "{{.Title}}{{range .Tags}}{{.Prompt}}{{end}}{{.Description}}{{.AcceptanceCriteria}}",
                "## What was asked\n\nDo it.",
            ),
            (
                "{{.Title}}{{if .Description}}{{.Description}}{{else}}{{.Prompt}}{{end}}{{if .AcceptanceCriteria}}!{{end}}",
                "## What was asked\n\nDo it.\n\n### Acceptance criteria\n\n- one",
            ),
            (
                "{{.Title}}{{.Prompt}}{{.Description.length}}{{acceptance_criteria.length}}",
                "## What was asked\n\n### Description\n\nD\n\n### Acceptance criteria\n\n- one",
            ),
            ("{{.Title}}{{.Prompt}}{{.Description}}{{.AcceptanceCriteria[0]}}", ""),
            (
                '{{.Title}}{{.Prompt}}{{.Description}}{{range .AcceptanceCriteria}}{{if eq . "x"}}{{.}}{{end}}{{end}}',
                "## What was asked\n\n### Acceptance criteria\n\n- one",
            ),
            ("{{.}}", ""),
        ],
    )
    def test_of_the_task_follows_it(self, template: str, rest: str) -> None:
        one = spec(title="T", prompt="Do it.", description="D", acceptance_criteria=("one",))
        assert rest_of(template, one) == rest

    @pytest.mark.parametrize(
        ("template", "rest"),
        [
            ("{{.Prompt}}{{.Title}}", "## What was asked\n\nType: bug. Tags: a, b."),
            ("{{.Prompt}}{{.Title}}{{.Type}}{{tags}}", ""),
            ("{{.Prompt}}{{.Title}}{{if .Type}}!{{end}}{{.Tags}}", "## What was asked\n\nType: bug."),
            (
                '{{.Prompt}}{{.Title}}{{task_type}}{{range .Tags}}{{if eq . "a"}}{{.}}{{end}}{{end}}',
                "## What was asked\n\nTags: b.",
            ),
        ],
    )
    def test_of_type_and_tags_follows_it(self, template: str, rest: str) -> None:
        assert rest_of(template, spec(title="T", prompt="Do it.", task_type="bug", tags=("a", "b"))) == rest

    @pytest.mark.parametrize(
        ("template", "said"),
        [
            ("{{if .CustomInstructions}}Keep them.{{end}}{{if .PriorAttempts}}Not the first.{{end}}", []),
            (
                "{{.CustomInstructions}}{{range .PriorAttempts}}{{.}}{{end}}",
                ["CustomInstructions", "PriorAttempts"],
            ),
            ("{{PriorAttempts.length}}{{if .RepoContext}}x{{else}}{{.RepoContext}}{{end}}", []),
            ("{{range .RelevantFiles}}{{.Reason}}{{end}}", []),
            ("{{range .RelevantFiles}}{{.Path}}{{end}}{{$.RepoContext}}", ["RelevantFiles", "RepoContext"]),
        ],
    )
    def test_only_what_it_shows_is_told_nowhere_else(self, template: str, said: list[str]) -> None:
        given = replace(SURROUNDED, instructions="Be kind.")
        found = role_template.fill_template(spec(), state(), role(template, *EVERY), given)
        assert isinstance(found, role_template.Filled)
        assert sorted(found.said) == said
        prompt = asked(role(template, *EVERY), given).prompt
        assert ("## Instructions of the project\n\nBe kind." in prompt) is ("CustomInstructions" not in said)
        assert ("## Earlier attempts" in prompt) is ("PriorAttempts" not in said)

    def test_of_its_surroundings_follows_it(self) -> None:
        sources = [source for source, _, _ in parts(asked(role("{{.Title}} {{.RepoContext}}", *EVERY)))]
        context_parts = ["prior_attempts", "related_tasks", "session_context", "relevant_files"]
        assert sources[sources.index("limits") + 1 :] == [*context_parts, "relevant:src/a.py", "contract"]

    def test_the_instructions_of_the_project_are_told_once(self) -> None:
        given = Given(instructions="Be kind.")
        assert "## Instructions of the project\n\nBe kind." in asked(role("{{.Title}}"), given).prompt
        assert asked(role(), given).prompt.count("Be kind.") == 1

    @pytest.mark.parametrize("template", [None, IMPLEMENT])
    def test_blank_instructions_have_no_heading(self, template: str | None) -> None:
        one = role(template, instructions="Work.")
        assert "nstructions" not in asked(one, Given(instructions=" \n\t")).prompt


class TestSecretsAndFaults:
    @pytest.mark.parametrize(
        ("template", "job", "shown"),
        [
            (
                "Say token-of-{{.Title}} now {{.Type}}.",
                {"title": "the-house", "task_type": "bug"},
                [
                    ("task", "Say [redacted]"),
                    ("template:implement", " now "),
                    ("task", "bug"),
                    ("template:implement", "."),
                ],
            ),
            (
                "{{.Title}}-of-{{.Type}}!",
                {"title": "token", "task_type": "the-house"},
                [("template:implement", "[redacted]!")],
            ),
        ],
    )
    def test_a_secret_that_shows_only_where_parts_meet_is_taken_out(
        self, template: str, job: dict[str, Any], shown: list[tuple[str, str]]
    ) -> None:
        def hide(text: str) -> tuple[str, int]:
            return redact(text, ["token-of-the-house"])

        request = asked(role(template), redacted=hide, **job)
        found = [(source, text) for source, _, text in parts(request) if text]
        first = next(number for number, (_, text) in enumerate(found) if "[redacted]" in text)
        assert found[first : first + len(shown)] == shown
        assert request.metadata["redactions"] == 1

    def test_the_items_of_a_long_list_are_one_part_and_the_context_stays_its_own(self) -> None:
        many = role(
            "{{range .AcceptanceCriteria}}- {{.}}\n{{end}}# Here\n{{.RepoContext}}\n{{.RelevantFiles}}"
        )
        one = asked(many, acceptance_criteria=tuple(f"c{n}" for n in range(300)))
        found = parts(one)
        first = next(number for number, (source, _, _) in enumerate(found) if source == "template:implement")
        listed = "\n- ".join(f"c{n}" for n in range(300))
        assert found[first : first + 7] == [
            ("template:implement", "rule", "- "),
            ("task", "given", listed),
            ("template:implement", "rule", "\n# Here\n"),
            ("repo_structure", "given", "src/\n  a.py"),
            ("template:implement", "rule", "\n"),
            (
                "relevant_files",
                "given",
                "- src/a.py: named in the task\n- b.bin: contains hello (binary file)",
            ),
            ("relevant:src/a.py", "given", "\n\n## File: src/a.py\n\n```\nx = 1\n```"),
        ]
        assert {"repo_structure", "relevant:src/a.py"} <= {row["source"] for row in one.metadata["context"]}

    def test_too_many_parts_of_several_sources_give_way_to_the_ordinary_prompt(self) -> None:
        wild = role("{{range .Tags}}{{.}}{{$.RepoContext}}{{end}}")
        told = step_instructions.build_instructions(
            spec(tags=("a",) * 300), state(), wild, SURROUNDED, Phase.DOER
        )
        assert told.warnings == (
            "role 'implement': prompt_template: it has more than 500 parts; the task is described without the template",
        )
        assert told.user[0].text.startswith("## Task: Say hello")

    @pytest.mark.parametrize(
        "template", ["{{.RelevantFiles}}", "{{range .RelevantFiles}}{{.Content}}{{end}}"]
    )
    def test_the_table_says_why_a_file_is_there(self, template: str) -> None:
        rows = {row["source"]: row for row in asked(role(template)).metadata["context"]}
        assert rows["relevant:src/a.py"]["reason"] == "named in the task"

    def test_data_that_looks_like_a_template_stays_data(self) -> None:
        assert "{{.ID}}" in asked(role("{{.Title}}"), title="{{.ID}}").prompt

    def test_a_value_that_is_nowhere_is_told(self) -> None:
        told = step_instructions.build_instructions(
            spec(), state(), role("{{.Titel}} {{.Title}}"), Given(), Phase.DOER
        )
        assert told.warnings[0].startswith(
            "role 'implement': prompt_template: line 1, column 1: `{{.Titel}}`"
        )

    def test_one_that_grows_too_long_gives_way_to_the_ordinary_prompt(self) -> None:
        wild = role("{{range .Tags}}{{Prompt}}{{end}}")
        told = step_instructions.build_instructions(
            spec(prompt="x" * 20_000, tags=("a",) * 100), state(), wild, Given(), Phase.DOER
        )
        assert "the rendered text is too long: more than 1,000,000 characters" in told.warnings[0]
        assert told.user[0].text.startswith("## Task: Say hello")

    def test_an_empty_template_leaves_no_trace(self) -> None:
        found = prompt_parts.assemble(
            [], role_template_pieces("{{if .Gone}}x{{end}}"), lambda text: (text, 0)
        )
        assert found[1] == []


def rest_of(template: str, one: EffectiveSpec) -> str:
    found = role_template.fill_template(one, state(), role(template), Given())
    assert isinstance(found, role_template.Filled)
    return found.rest


def role_template_pieces(template: str) -> list[prompt_parts.UnplacedPart]:
    found = role_template.fill_template(spec(), state(), role(template), Given())
    assert isinstance(found, role_template.Filled)
    return found.pieces
