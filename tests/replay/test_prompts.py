"""What the archived agents would be told today, to the byte: what differs is what has come since, and nothing else."""

from __future__ import annotations

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
        *(("step", "changed"), ("role:Supervisor", "changed")),
    },
}
"""What these prompts did not have when they were recorded."""
REWORDED = ("- named as evidence, but not there: ", "## The review sent it back")
"""Lines about the last answer that have other words today."""


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_old_prompts_are_made_again(path: Path) -> None:
    roles = load_roles([find_resource("roles")])
    history = [*recorded_jobs.find_history(path).read_interactions()]
    found: dict[int, set[tuple[str, str]]] = {}
    phases = {
        entry.sequence: entry.observed.phase for entry in history if entry.kind is Kind.ASK and entry.observed
    }

    def asked(spec: EffectiveSpec, state: State, entry: Interaction) -> list[Drift]:
        assert entry.request.parts
        role = roles.get(entry.request.metadata["role"])
        found[entry.sequence] = {
            (drift.source, drift.change) for drift in find_drifts(spec, state, entry, Today("0", role=role))
        }
        return []

    assert [*replay(history, SCHEMA, collect_restep_targets(history), prompts=asked)] == []
    reworded = {
        entry.sequence: {("previous", "changed")}
        if any(line in entry.request.prompt for line in REWORDED)
        else set()
        for entry in history
    }
    assert found == {number: SINCE[phase] | reworded[number] for number, phase in phases.items()}
    assert found
