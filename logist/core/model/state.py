"""The current state of a job: state.json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator

from logist.core.model.base import FORMAT, Open, Recorded
from logist.core.model.limits import Limits
from logist.core.model.record import CheckResult, Place, Totals
from logist.core.model.spec import Doer
from logist.core.model.words import ExitAction, Phase, Status
from logist.core.text.json_object import JsonObject


class Head(Recorded):
    """The last interaction a state has seen."""

    sequence: int
    hash: str
    offset: int
    """Byte where the entry begins in jobHistory.json."""


class Last(Recorded):
    """The last valid answer of an agent, as the next prompt quotes it."""

    sequence: int
    phase: Phase
    role: str
    action: Open[ExitAction]
    summary: str
    evidence_files: list[str] = []
    missing: list[str] = []
    output: Any = None
    verdict: Open[Literal["PASS", "FAIL"]] | None = None
    """Of a reviewer: what its answer and the checks came to."""
    reason: str | None = None
    """Why the agent asks for another attempt or a person, where its answer says that apart from the summary."""

    @model_serializer(mode="wrap")
    def _dump_without_absent_reason(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out a missing reason, as earlier versions did: their state.json is compared with this one."""
        dumped: dict[str, Any] = dump(self)
        if dumped.get("reason") is None:
            dumped.pop("reason", None)
        return dumped


class Spawned(Recorded):
    """The jobs that do a step."""

    sequence: int
    """Of the interaction that made them."""
    step: str
    tag: str
    total: int
    checkpoint: str
    """What they began with."""
    output_of: str | None = None
    """The step whose output held their items, for when they are made anew."""


class Forked(Recorded):
    """The job that a fork was made from, and the last interaction they share."""

    job: str
    at: int
    """The last interaction that both have."""
    head: str
    """Its checksum."""


class Plan(Recorded):
    """What a role that may not change files has worked out."""

    sequence: int
    """Of its answer."""
    role: str
    summary: str = ""
    output: Any = None
    approved: bool = False
    """A steward has approved it, and another role carries it out."""


class State(Recorded):
    """state.json: a projection of the history."""

    version: int = FORMAT
    """The newest of the formats of the interactions it has seen, and its own."""
    revision: int = 0
    head: Head | None = None
    place: Place
    agent_role: str = "Worker"
    """Who does the next work."""
    agent_role_source: str = "default"
    """Why: `job`, `task_type ...`, `default`; `switch` is the steward's word (see core.history.fold.doer)."""
    usage: Totals = Totals()
    allowed_tools: list[str] | None = None
    """Tools that the steward has allowed since the job got stuck, of those that need it."""
    asked: int = 0
    """Requests to agents since the start, answered or not: a script gives the answer of this number."""
    limits: Limits = Limits()
    title: str = ""
    rank: int = 0
    badge: str = ""
    color: str | None = None
    tags: list[str] = []
    created_at: str = ""
    updated_at: str = ""
    reason: str = ""
    last: Last | None = None
    note: str | None = None
    """What the steward said, for the next prompt."""
    artefacts: list[str] = []
    outputs: dict[str, Any] = {}
    parent: str | None = None
    """The job that this one does a part of."""
    shares_limits: bool | None = None
    """Whether it uses what that one has left."""
    forked: Forked | None = None
    """Of a fork: what it was forked from."""
    children: list[str] = []
    """Of a job that waits: the jobs it waits for."""
    spawned: Spawned | None = None
    """Where the children come from; kept until the next ones are made."""
    results: list[Any] | None = None
    """What the children of the last foreach or subflow gave, in the order of the items."""
    result_items: list[JsonObject] | None = None
    """Of a foreach: the `item` and the `index` that each of these results belongs to."""
    output_of: str | None = None
    """The step whose output is the last one."""
    summaries: dict[str, str] | None = None
    """What was said of each step that is done, in the order they were done."""
    asked_at: dict[str, int] | None = None
    """Requests to agents at each step."""
    visits: dict[str, int] | None = None
    """How often each decision was taken."""
    forced: bool | None = None
    """The steward wants what there is of the children, however little."""
    unsure: bool | None = None
    """A steward is to confirm what the doer has done, when the reviewer has seen it."""
    why_unsure: str | None = None
    """Why; None too in a history of an earlier version."""
    workflow: str | None = None
    """Its name; None is the built-in one."""
    suggested: str | None = None
    """The successor that the last doer has named."""
    doers: dict[str, Doer] | None = None
    """Who does the steps of the workflow that have a role of their own, and by "" the others."""
    checks: list[CheckResult] | None = None
    """What the checks found after the doer's last answer, for the review."""
    unchanged: bool | None = None
    """The doer that has completed the step may change files, and changed none."""
    plan: Plan | None = None
    """Of the step: what is to be carried out, or waits for its approval."""
    findings: list[JsonObject] | None = None
    """What the last review found wrong, for the doer's next attempt."""
    merge: Open[Literal["due", "merged"]] | None = None
    """Of a job that succeeded: whether its work is to go, or went, into the source repository."""
    source: str | None = None
    """The repository that it began from; an absolute path."""
    merges: bool | None = None
    """Its work goes there by itself as soon as it has succeeded."""
    checkpoint: str | None = None
    start_checkpoint: str | None = None
    spec_hash: str = ""

    @property
    def status(self) -> Status:
        return self.place.status

    @property
    def step(self) -> str:
        return self.place.step

    if not TYPE_CHECKING:  # code of Logist names the place

        def __getattr__(self, name: str) -> Any:
            """A test of a person reads `job.state.stuck`, as state.json has it."""
            return getattr(self.place, name) if name in Place.model_fields else super().__getattr__(name)

    @model_validator(mode="before")
    @classmethod
    def _gather_place(cls, data: Any) -> Any:
        """state.json has the fields of the place among its own."""
        if not isinstance(data, dict) or isinstance(data.get("place"), Place):
            return data
        place = {name: data[name] for name in Place.model_fields if name in data}
        return {name: value for name, value in data.items() if name not in place} | {"place": place}

    @model_serializer(mode="wrap")
    def _spread_place(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        dumped: dict[str, Any] = dump(self)
        place: dict[str, Any] = dumped.pop("place", {})
        return place | dumped


STATE_FIELDS = frozenset({*State.model_fields, *Place.model_fields} - {"place"})
"""The names in state.json."""
