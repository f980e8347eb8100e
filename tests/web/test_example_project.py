"""The example project has a job in every state, and each of them is intact."""

from __future__ import annotations

import os
import time
from pathlib import Path

from logist.api import Project
from logist.core.machine import waiting
from logist.core.model import Status
from logist.jobs.steward.inbox import list_inbox
from logist.web.examples.project import DAMAGED, RUNNING, make_example_project, run_slow_agent
from logist.web.served_project import ServedProject


def test_there_is_a_job_for_each_thing_to_wait_for_and_in_each_state(tmp_path: Path) -> None:
    example = make_example_project(tmp_path, os.environ)
    items = list_inbox(str(example.open().jobs_dir), time.time())
    assert {item.kind for item in items} == set(waiting.KINDS)
    assert [item.job for item in items if item.snoozed_until] == ["new-logo"]
    with run_slow_agent(example):
        rows = ServedProject(example.open).look().rows
        assert rows[RUNNING]["status"] == "RUNNING"
    assert set(Status) - {row["status"] for row in rows.values()} == set()
    assert {row["merged"] for row in rows.values()} == {True, False, None}
    assert rows["notes-15"]["status"] == "WAITING"
    assert example.open().open_job(RUNNING).find_lock_holder() is None
    project = Project(example.open())
    for job in project.list_jobs():
        if job.id not in (DAMAGED, RUNNING):
            assert not job.verify().problems, job.id
    differing = [replayed for replayed in project.replay() if replayed.differences]
    assert differing == []
    assert os.listdir(tmp_path / "config" / "logist") == ["config.yaml"]
