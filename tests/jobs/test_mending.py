"""job.yaml made again from a history: it leads to the very spec that was recorded."""

from __future__ import annotations

from typing import Any

import pytest

from logist.core.model import JobSpec
from logist.jobs.base import specs
from logist.jobs.doctor import repairs
from tests.jobs.conftest import MakeBench

STRICT = {"review": {"mode": "strict", "auto_merge": True}}


@pytest.mark.parametrize("settings", [{}, STRICT])
@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"review_mode": "yolo"},
        {"review_mode": "normal", "auto_merge": False},
        {"role": "Actor", "review": False, "approval": "each", "limits": {"max_attempts": 7}, "rank": 3},
        {"task_type": "bug", "tags": ["a"], "files": ["b"], "acceptance_criteria": ["c"], "title": "T"},
    ],
)
def test_it_is_the_same_spec(bench: MakeBench, settings: dict[str, Any], asked: dict[str, Any]) -> None:
    project = bench(settings=settings).project
    recorded = specs.build_effective_spec(project, JobSpec.model_validate({"prompt": "Do it.", **asked}))
    told = repairs.in_short(project, repairs.as_asked(recorded), None)
    assert specs.build_effective_spec(project, JobSpec.model_validate(told)) == recorded
    assert {name for name in asked if name in ("review_mode", "auto_merge", "role")} >= {
        name for name in told if name in ("review_mode", "auto_merge", "role")
    }
