"""Words to the agent move out of prompts; every other byte stays."""

from __future__ import annotations

import json

import pytest

from logist.documents import parse_document
from logist.errors import InvalidFile
from logist.workflows import migrate_prompts

BEFORE = (
    "**Agent's Role:** Act as a code reviewer. Ask specific questions about the code quality.\n\n"
    "Please review the attached code and provide feedback on potential improvements."
)
AFTER = "Please review the attached code and provide feedback on potential improvements."
ROLE = "Act as a code reviewer. Ask specific questions about the code quality."


def test_the_example_of_the_specification() -> None:
    text = json.dumps({"name": "W", "steps": [{"id": "a", "prompt": BEFORE}]}, indent=2)
    found = migrate_prompts(text, "w.json")
    step = json.loads(found.text)["steps"][0]
    assert step == {"id": "a", "prompt": AFTER, "agentRole": ROLE}
    assert (found.moved, found.problems) == (("steps[0].prompt",), ())


LEAD = r"**Agent's Role:** Be a calm \"judge\" \u00e4 \ud83d\ude42.\n\nJudge \u00e9 it."
TEXTS: dict[str, tuple[str, str, str]] = {
    "json on several lines": (
        "w.json",
        '{\n  "steps": [\n    {\n\t"id" : "a",\n\t"prompt":  "' + LEAD + '",\n\t"x": [1,  2]\n    }\n  ]\n}',
        (
            '{\n  "steps": [\n    {\n\t"id" : "a",\n\t"prompt":  "Judge \\u00e9 it.",\n'
            '\t"agentRole": "Be a calm \\"judge\\" \\u00e4 \\ud83d\\ude42.",\n\t"x": [1,  2]\n    }\n  ]\n}'
        ),
    ),
    "json on one line": (
        "w.json",
        '{"steps": [{"prompt": "' + LEAD + '", "id": "a"}]}\n',
        (
            '{"steps": [{"prompt": "Judge \\u00e9 it.", "agentRole": "Be a calm \\"judge\\" \\u00e4 \\ud83d\\ude42.", '
            '"id": "a"}]}\n'
        ),
    ),
    "json with windows lines": (
        "w.json",
        '{"steps": [{\r\n  "prompt": "**Agent Role:** Be very calm.\\r\\n\\r\\nGo."}]}\r\n',
        '{"steps": [{\r\n  "prompt": "Go.",\r\n  "agentRole": "Be very calm."}]}\r\n',
    ),
    "inside a loop, and beside it": (
        "w.json",
        (
            '{"steps": [{"prompt": "**Agent\'s Role:** Be very kind.\\n\\nA.", "body": '
            '[{"prompt": "**Agent’s Role**: Be very brief.\\n\\nB."}], "id": "a"}]}'
        ),
        (
            '{"steps": [{"prompt": "A.", "agentRole": "Be very kind.", "body": '
            '[{"prompt": "B.", "agentRole": "Be very brief."}], "id": "a"}]}'
        ),
    ),
    "an export, and the diagram in it": (
        "w.json",
        json.dumps(
            {
                "workflow": {
                    "mermaidSource": 'graph TD\n  A --> B\n%% @step(A): {"prompt": "**Agent\'s Role:** Be very kind.\\n\\nä"}\n',
                    "steps": [{"id": "A", "prompt": "**Agent's Role:** Be very kind.\n\nä"}],
                }
            },
            ensure_ascii=False,
        ),
        json.dumps(
            {
                "workflow": {
                    "mermaidSource": 'graph TD\n  A --> B\n%% @step(A): {"prompt": "ä", "agentRole": "Be very kind."}\n',
                    "steps": [{"id": "A", "prompt": "ä", "agentRole": "Be very kind."}],
                }
            },
            ensure_ascii=False,
        ),
    ),
    "a config block": (
        "w.mmd",
        (
            "graph TD\n  A --> B\n%% === WORKFLOW_CONFIG ===\n%% @A: {\n"
            '%%    "prompt": "**Agent\'s Role:** Be very kind.\\n\\nDo {a}.",\n%%    "role": "x"\n%% }\n'
            '%% @B: { "prompt": "**Agent\'s Role:** Be very brief.\\n\\nDo b." }\n%% === END_CONFIG ===\n'
        ),
        (
            "graph TD\n  A --> B\n%% === WORKFLOW_CONFIG ===\n%% @A: {\n"
            '%%    "prompt": "Do {a}.",\n%%    "agentRole": "Be very kind.",\n%%    "role": "x"\n%% }\n'
            '%% @B: { "prompt": "Do b.", "agentRole": "Be very brief." }\n%% === END_CONFIG ===\n'
        ),
    ),
    "a page": (
        "w.md",
        '# Page\n\n```mermaid\ngraph TD\n  A --> B\n%% @step(A): {"prompt": "**Agent\'s Role:** Be very kind.\\n\\nA."}\n```\n',
        '# Page\n\n```mermaid\ngraph TD\n  A --> B\n%% @step(A): {"prompt": "A.", "agentRole": "Be very kind."}\n```\n',
    ),
    "yaml, quoted": (
        "w.yaml",
        '# first\nsteps:\n  - id: a   # the id\n    prompt: "**Agent\'s Role:** Be very kind.\\n\\nDo: it."  # here\n    role: x\n',
        '# first\nsteps:\n  - id: a   # the id\n    prompt: "Do: it."\n    agentRole: "Be very kind."  # here\n    role: x\n',
    ),
    "yaml, a literal block": (
        "w.yaml",
        "steps:\n- prompt: |\n    **Agent's Role:** Be very kind,\n    and brief.\n\n    Do it.\n      - so\n\n    And so.\n\n# after\n- id: b\n",
        (
            "steps:\n- prompt: |\n    Do it.\n      - so\n\n    And so.\n"
            '  agentRole: "Be very kind,\\nand brief."\n\n# after\n- id: b\n'
        ),
    ),
    "yaml, at the end of the file": (
        "w.yaml",
        "steps:\n  - id: a\n    prompt: >-\n      **Agent's Role:** Be very kind.\n\n\n      Do it.",
        'steps:\n  - id: a\n    prompt: "Do it."\n    agentRole: "Be very kind."',
    ),
    "yaml on one line": (
        "w.yaml",
        'steps: [{id: a, prompt: "**Agent\'s Role:** Be very kind.\\n\\nGo."}, {id: b}]\n',
        'steps: [{id: a, prompt: "Go.", agentRole: "Be very kind."}, {id: b}]\n',
    ),
}


@pytest.mark.parametrize(("name", "before", "after"), TEXTS.values(), ids=TEXTS)
def test_only_the_role_moves(name: str, before: str, after: str) -> None:
    found = migrate_prompts(before, name)
    assert found.text == after
    assert found.moved
    assert not found.problems
    assert migrate_prompts(after, name).text == after


STAYS = {
    "too short": ("**Agent's Role:** Be kind\n\nGo.", {}, "the role has 7 characters"),
    "too long": (f"**Agent's Role:** {'ä' * 1025}\n\nGo.", {}, "the role has 1025 characters"),
    "in the middle": (
        "Judge it.\n\n**Agent's Role:** Be very kind.",
        {},
        "not at the beginning of the prompt",
    ),
    "nothing left": ("**Agent's Role:** Be very kind.", {}, "is not changed: the prompt would be empty"),
    "one there already": (
        "**Agent's Role:** Be very kind.\n\nGo.",
        {"agent_role": "Be brief, please."},
        "has an agentRole",
    ),
}


@pytest.mark.parametrize(("prompt", "more", "reason"), STAYS.values(), ids=STAYS)
@pytest.mark.parametrize("name", ["w.json", "w.yaml"])
def test_what_cannot_be_moved_stays_and_is_reported(
    name: str, prompt: str, more: dict[str, str], reason: str
) -> None:
    text = json.dumps({"steps": [{"id": "a"}, {"id": "b", "prompt": prompt, **more}]}, indent=1)
    found = migrate_prompts(text, name)
    assert found.text == text
    assert [(problem.path, problem.severity) for problem in found.problems] == [
        ("steps[1].prompt", "warning")
    ]
    assert reason in found.problems[0].message
    assert found.problems[0].line == 8


@pytest.mark.parametrize(
    "prompt",
    ["Agent's Role: no stars\n\nGo.", "", "**Role:** x\n\nGo."],
)
def test_a_prompt_that_begins_with_no_role_stays(prompt: str) -> None:
    text = json.dumps({"steps": [{"id": "b", "prompt": prompt}]})
    assert (
        migrate_prompts(text, "w.json")
        == migrate_prompts(text, "w.yaml")
        == type(migrate_prompts(text, "w.json"))(text)
    )


@pytest.mark.parametrize(("name", "text"), [("w.json", "{,}"), ("w.yaml", "a: [")])
def test_a_file_that_is_no_document_is_refused(name: str, text: str) -> None:
    with pytest.raises(InvalidFile):
        migrate_prompts(text, name)


def test_broken_json_in_a_config_block_is_left_alone() -> None:
    text = 'graph TD\n  A --> B\n%% @step(A): {"prompt": "**Agent\'s Role:** Be very kind.\\n\\nA.",}\n'
    assert migrate_prompts(text, "w.mmd").text == text


def test_every_document_says_the_same_afterwards_but_for_the_role() -> None:
    name, before, _ = TEXTS["yaml, a literal block"]
    after = parse_document(migrate_prompts(before, name).text, name).data
    assert after["steps"][0] == {
        "prompt": "Do it.\n  - so\n\nAnd so.\n",
        "agentRole": "Be very kind,\nand brief.",
    }
