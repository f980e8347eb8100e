"""One interaction as a line of a data set: request, answer, outcome and cost."""

from __future__ import annotations

from logist.core.history.runs import AgentRun, RunHistory
from logist.core.model.words import Status
from logist.core.text.json_object import JsonObject
from logist.formats import DATASET

RECORDED = (
    *("sequence", "timestamp", "kind", "actor", "step", "attempt", "state_before", "state_after", "reason"),
    *("simulated", "request", "response", "usage", "observed", "route", "steward", "command"),
)
"""Fields that are copied unchanged from the history to a line. Left out are paths and hashes of one machine, and the
spec, which is long and repeated."""
LINE = (
    *(
        "dataset",
        "job",
        "workflow",
        "sequence",
        "timestamp",
        "kind",
        "actor",
        "role",
        "model",
        "phase",
        "step",
    ),
    *(
        "attempt",
        "state_before",
        "state_after",
        "outcome",
        "stuck",
        "reason",
        "simulated",
        "request",
        "response",
    ),
    *("usage", "observed", "route", "steward", "command"),
)
"""The fields of a line, in order. Every line has all of them."""


def read_workflow_name(entry: JsonObject) -> str | None:
    """Return the name of the workflow that the job follows from this interaction on.

    None if the interaction names none.
    """
    spec = entry.get("spec")
    workflow = spec.get("workflow") if isinstance(spec, dict) else None
    name = workflow.get("name") if isinstance(workflow, dict) else None
    return name if isinstance(name, str) else None


def select_fields(entry: JsonObject, workflow: str | None) -> JsonObject:
    """Select the fields of an interaction for a line. Private values are not removed yet.

    Request and response are None if no agent was asked.
    """
    after = entry.get("after")
    stuck = after.get("stuck") if isinstance(after, dict) else None
    return {
        **{name: entry.get(name) for name in RECORDED},
        **({} if _find_run(entry) else {"request": None, "response": None}),
        "workflow": workflow,
        "stuck": stuck if entry.get("state_after") == Status.STUCK else None,
    }


def build_dataset_line(job: str, chosen: JsonObject) -> JsonObject:
    """Build the line from the fields that `select_fields` returned."""
    run = _find_run(chosen)
    names = run.names if run else {}
    fields = {
        **chosen,
        "dataset": DATASET.version,
        "job": job,
        "outcome": str(run.ended) if run else None,
        **{name: names.get(name) for name in ("role", "model", "phase")},
    }
    return {name: fields.get(name) for name in LINE}


def _find_run(entry: JsonObject) -> AgentRun | None:
    """Return the run that an interaction is, as statistics count it; None if it is not a run."""
    return next((run for run in RunHistory().read_interaction(entry) if run.ended), None)
