"""What the archived agents would be told today, to the byte: what differs is what has come since, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from logist.core.model import EffectiveSpec, Interaction, Kind, Phase, State
from logist.core.replay.drift import Drift, find_drifts
from logist.core.replay.drift_causes import Today
from logist.core.replay.replay import collect_restep_targets, replay
from logist.jobs.archive import recorded_jobs
from logist.resources import find_resource
from logist.roles import load_roles
from tests.replay.test_fixtures import RECORDED, SCHEMA

SINCE = {
    Phase.DOER: {
        *(("contract", "changed"), ("permissions", "added")),
        *(("step", "changed"), ("role:Worker", "changed")),
    },
    Phase.REVIEWER: {
        *(("contract", "changed"), ("permissions", "added"), ("verdict", "added"), ("checklist", "added")),
        *(("step", "changed"), ("role:Supervisor", "changed"), ("limits", "changed")),
    },
}
"""What these prompts did not have when they were recorded."""
REWORDED = (
    (
        "previous",
        re.compile("^- named as evidence, but not there: |^## The review sent it back", re.MULTILINE),
    ),
    ("note", re.compile("^## Note from the steward$", re.MULTILINE)),
    ("task", re.compile(r"^## Task: (.+?)(?:\.\.\.)?\n\n\1", re.MULTILINE)),
)
"""Lines that only some prompts have, and that have other words today, by part."""
OWN = re.compile(
    r"Logist's own text has changed \(.+\): (it was \S+, now it is 0|now 0, the archive does not record the old version)"
)
ROLE_FILE = re.compile(r"the role file (Worker|Supervisor) has changed")


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_old_prompts_are_made_again(path: Path) -> None:
    roles = load_roles([find_resource("roles")])
    history = [*recorded_jobs.find_history(path).read_interactions()]
    found: dict[int, set[tuple[str, str]]] = {}
    causes: dict[str, set[str]] = {}
    phases = {
        entry.sequence: entry.observed.phase for entry in history if entry.kind is Kind.ASK and entry.observed
    }

    def asked(spec: EffectiveSpec, state: State, entry: Interaction) -> list[Drift]:
        assert entry.request.parts
        role = roles.get(entry.request.metadata["role"])
        drifts = find_drifts(spec, state, entry, Today("0", role=role))
        found[entry.sequence] = {(drift.source, drift.change) for drift in drifts}
        for drift in drifts:
            causes.setdefault(drift.source, set()).add(drift.cause)
        return []

    assert [*replay(history, SCHEMA, collect_restep_targets(history), prompts=asked)] == []
    reworded = {
        entry.sequence: {
            (source, "changed") for source, line in REWORDED if line.search(entry.request.prompt)
        }
        for entry in history
    }
    assert found == {number: SINCE[phase] | reworded[number] for number, phase in phases.items()}
    assert found
    for source, explained in causes.items():
        expected = ROLE_FILE if source.startswith("role:") else OWN
        assert all(expected.fullmatch(cause) for cause in explained), explained
