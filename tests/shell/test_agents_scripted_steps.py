"""The scripted agent at the steps of a workflow: answers by step, and by item."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from logist.agents.protocol import Ask
from logist.agents.scripted import Scripted
from logist.core.model import ErrorKind, Model, Request
from logist.errors import InvalidFile


def asking(step: str | None, *, job: str = "j", index: int = 0, visit: int = 0) -> Ask:
    metadata = {} if step is None else {"step": step}
    request = Request(prompt="p", metadata=metadata, command={"action": "step", "job_id": job, "options": {}})
    model = Model(name="m", provider_model="openai/m")
    return Ask(request=request, model=model, role="Worker", index=index, visit=visit)


def texts(*names: str) -> list[dict[str, Any]]:
    return [{"text": name} for name in names]


def script(folder: Path, **content: Any) -> Scripted:
    path = folder / "script.json"
    path.write_text(json.dumps(content))
    return Scripted.load(path)


@pytest.fixture
def scripted(tmp_path: Path) -> Scripted:
    steps = {"A": texts("A0", "A1"), "C": texts("each"), "C[2]": texts("second"), "C[12]": texts("twelfth")}
    return script(tmp_path, answers=texts("first", "next"), steps=steps)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (asking("A", index=7), "A0"),
        (asking("A", index=0, visit=1), "A1"),
        (asking("B", index=1, visit=9), "next"),
        (asking(None, index=1), "next"),
        (asking("C"), "each"),
        (asking("C", job="j--5-1"), "each"),
        (asking("C", job="j--5-2"), "second"),
        (asking("C", job="j--5-12"), "twelfth"),
        (asking("C", job="j--5-2--3-1"), "each"),
        (asking("C", job="j--5-1--3-2"), "second"),
        (asking("A", job="j--5-2"), "A0"),
        (asking("C", job="j-2"), "each"),
    ],
)
def test_an_answer_is_the_next_at_its_step(scripted: Scripted, tmp_path: Path, ask: Ask, said: str) -> None:
    assert scripted.ask(ask, tmp_path).text == said


def test_no_more_answers_at_a_step_names_it(scripted: Scripted, tmp_path: Path) -> None:
    error = scripted.ask(asking("C", job="j--5-2", visit=1), tmp_path).error
    assert error is not None
    assert error.kind is ErrorKind.REFUSED
    assert " has 1 for step C[2], needed 2" in error.message


def test_a_script_of_steps_needs_no_other_answers(tmp_path: Path) -> None:
    scripted = script(tmp_path, steps={"A": texts("A0")})
    assert scripted.ask(asking("A"), tmp_path).text == "A0"
    error = scripted.ask(asking("B"), tmp_path).error
    assert error is not None
    assert " has 0, needed 1" in error.message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"steps": {"A": [{"role": "Worker"}]}}, r"steps.A\[0\]: needs `text`"),
        ({"steps": {"A": [{"text": "x"}, {"text": "x", "exit": {}}]}}, r"steps.A\[1\]: .*both"),
        ({"steps": {"A": [{"text": "x", "files": {"../x": "y"}}]}}, "is outside the workspace"),
        ({"steps": {}}, "missing `answers`"),
        ({"steps": ["A"]}, "steps"),
    ],
)
def test_what_is_wrong_with_a_script_is_told_with_its_place(tmp_path: Path, content: Any, said: str) -> None:
    with pytest.raises(InvalidFile, match=said):
        script(tmp_path, **content)
