"""C10 to C12: who does a job that names no role, and why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from logist.core.model import JobSpec
from logist.documents import dump_yaml
from logist.errors import InvalidFile, UsageError
from logist.jobs.base import specs
from logist.jobs.steward import job_edits
from logist.jobs.steward.role_switch import switch_role
from logist.roles import load_roles
from tests.jobs.bench import Bench
from tests.jobs.conftest import MakeBench

MAPPED = {"type_mapping": {"bug": "Tester", "Docs": "Designer"}}
OTHER = {"default": "Actor"}


def chosen(b: Bench, **spec: Any) -> tuple[str, str]:
    name, source = specs.choose_doer(b.project, JobSpec(prompt="x", **spec))
    return name, specs.describe_doer_source(source)


@pytest.mark.parametrize(
    ("roles", "spec", "name", "why"),
    [
        ({}, {}, "Worker", "it is the default (roles.default)"),
        ({}, {"task_type": " "}, "Worker", "it is the default (roles.default)"),
        ({}, {"task_type": " bug"}, "fix", "task_type is bug"),
        ({}, {"task_type": "bug"}, "fix", "task_type is bug"),
        ({}, {"task_type": "Feature"}, "implement", "task_type is Feature"),
        ({}, {"task_type": "task"}, "implement", "task_type is task"),
        ({}, {"task_type": "refactor"}, "refactor", "task_type is refactor"),
        ({}, {"task_type": "test"}, "test", "task_type is test"),
        ({}, {"task_type": "chore"}, "implement", "task_type is chore, which no role is for"),
        ({}, {"task_type": "review"}, "implement", "task_type is review, which no role is for"),
        ({}, {"task_type": "bug", "role": "Planner"}, "Planner", "the job names it"),
        (MAPPED, {"task_type": "bug"}, "Tester", "task_type is bug"),
        (MAPPED, {"task_type": "docs"}, "Designer", "task_type is docs"),
        (MAPPED, {"task_type": "feature"}, "implement", "task_type is feature"),
        (OTHER, {}, "Actor", "it is the default (roles.default)"),
        (OTHER, {"task_type": "bug"}, "fix", "task_type is bug"),
        (OTHER, {"task_type": "chore"}, "Actor", "it is the default (roles.default)"),
    ],
)
def test_the_order(
    bench: MakeBench, roles: dict[str, Any], spec: dict[str, Any], name: str, why: str
) -> None:
    assert chosen(bench(settings={"roles": roles}), **spec) == (name, why)


def test_a_role_of_the_project_comes_before_the_shipped_one_and_the_config_before_both(
    bench: MakeBench,
) -> None:
    b = bench(settings={"roles": {"type_mapping": {"test": "Tester"}}})
    folder = b.project.home / "roles"
    folder.mkdir()
    mine = {"name": "mine", "base": "fix", "applicable_task_types": ["bug", "test"]}
    (folder / "mine.yaml").write_text(dump_yaml(mine), "utf-8")
    found = load_roles([*{one.path.parent for one in b.project.roles.by_name.values()}, folder])
    b.change(roles=found)
    assert [chosen(b, task_type=one)[0] for one in ("bug", "test")] == ["mine", "Tester"]


def test_the_config_may_not_send_tasks_to_the_role_that_reviews(bench: MakeBench) -> None:
    b = bench(settings={"roles": {"type_mapping": {"audit": "review"}}})
    with pytest.raises(InvalidFile, match="only reviews"):
        chosen(b, task_type="audit")
    assert chosen(b, role="review")[0] == "review"


def test_c10_nor_by_the_default_role(bench: MakeBench) -> None:
    b = bench(settings={"roles": {"default": "review"}})
    with pytest.raises(InvalidFile, match=r"`roles.default` assigns tasks of type 'chore' to `review`"):
        chosen(b, task_type="chore")
    assert (chosen(b, task_type="bug")[0], chosen(b)[0]) == ("fix", "review")


def test_it_is_recorded_and_shown(bench: MakeBench) -> None:
    b = bench()
    state = b.create(task_type="bug")
    assert (state.agent_role, state.agent_role_source) == ("fix", "task_type bug")
    switch_role(b.project, "j", "Planner")
    assert specs.describe_doer_source(b.state().agent_role_source) == "a steward switched to it"
    switch_role(b.project, "j", None)
    job_edits.configure_job(b.project, "j", {("task_type",): "chore"})
    assert (b.state().agent_role, b.state().agent_role_source) == (
        "implement",
        "task_type chore, which no role is for",
    )


def test_the_reason_holds_no_secret(bench: MakeBench) -> None:
    key = "sk-" + "a1B2" * 8
    b = bench()
    assert key not in str(chosen(b, task_type=key))
    assert key not in str(b.create(task_type=key))


def test_the_reason_is_a_line_however_long_the_type(bench: MakeBench) -> None:
    assert (
        chosen(bench(), task_type="a\nb " * 100)[1] == f"task_type is {'a b ' * 14}a..., which no role is for"
    )


def test_c12_an_unknown_override_is_an_error(bench: MakeBench) -> None:
    with pytest.raises(UsageError, match="unknown role `implment`"):
        bench().create(role="implment", task_type="bug")


def test_a_broken_role_is_not_replaced_by_another(bench: MakeBench) -> None:
    b = bench()
    folder = b.project.home / "roles"
    folder.mkdir()
    (folder / "fix.yaml").write_text("name: fix\nllm_model: m\n", "utf-8")
    shipped = {one.path.parent for one in b.project.roles.by_name.values()}
    b.project = replace(b.project, roles=load_roles([*shipped, folder]))
    assert chosen(b, task_type="bug")[0] == "fix"
    with pytest.raises(InvalidFile, match="`description` is missing"):
        b.create(task_type="bug")
    assert not (b.project.jobs_dir / "j").exists()
    b.create(task_type="feature")
    with pytest.raises(InvalidFile, match="`description` is missing"):
        job_edits.configure_job(b.project, "j", {("task_type",): "bug"})
