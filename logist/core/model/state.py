"""The current state of a job: state.json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from logist.core.model.base import Open, Recorded, Sparse
from logist.core.model.limits import Limits
from logist.core.model.record import CheckResult, Place, Totals
from logist.core.model.spec import Doer
from logist.core.model.words import ExitAction, Phase, Status
from logist.core.text.json_object import JsonObject
from logist.formats import JOB
from logist.quick_model import SerializerFunctionWrapHandler, model_serializer, model_validator


class Head(Recorded):
    """The last interaction that a state includes."""

    sequence: int
    hash: str
    offset: int
    """The byte offset of the entry in jobHistory.json."""


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
    """For a reviewer: the result of its answer and the checks."""
    reason: str | None = None
    """Why the agent wants another attempt or a person, if its answer says so separately from the summary."""

    @model_serializer(mode="wrap")
    def _dump_without_absent_reason(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out a missing reason like earlier versions, because their state.json is compared with this one."""
        dumped: dict[str, Any] = dump(self)
        if dumped.get("reason") is None:
            dumped.pop("reason", None)
        return dumped


class Spawned(Recorded):
    """The child jobs that do a step."""

    sequence: int
    """The number of the interaction that created them."""
    step: str
    tag: str
    total: int
    checkpoint: str
    """The checkpoint from which they started."""
    output_of: str | None = None
    """The step whose output contained their items, in case they are created again."""


class StepStart(Sparse):
    """The outputs that a step began with, recorded when its own output replaces them."""

    output_of: str | None = None
    """The step whose output was the last one; None for the first step."""
    own_output: Any = None
    """The output of an earlier visit to this step."""


class Forked(Recorded):
    """The job that a fork was made from, and the last interaction they share."""

    job: str
    at: int
    """The last interaction that both jobs share."""
    head: str
    """Its checksum."""


class Plan(Recorded):
    """A plan by a role that may not change files."""

    sequence: int
    """The number of the interaction with the plan."""
    role: str
    summary: str = ""
    output: Any = None
    approved: bool = False
    """A steward approved it, and another role carries it out."""


class State(Recorded):
    """state.json: computed from the history."""

    version: int = JOB.version
    """The newest format version of its interactions and of this Logist."""
    revision: int = 0
    head: Head | None = None
    place: Place
    agent_role: str = "Worker"
    """The role that does the next work."""
    agent_role_source: str = "default"
    """Where the role comes from: `job`, `task_type ...`, `default`; `switch`: the steward (see fold.find_doer)."""
    usage: Totals = Totals()
    allowed_tools: list[str] | None = None
    """Tools that the steward allowed after the job got stuck, of those that need approval."""
    asked: int = 0
    """The number of requests to agents since the start; a scripted agent gives the answer with this number."""
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
    """The steward's note for the next prompt."""
    artefacts: list[str] = []
    outputs: dict[str, Any] = {}
    parent: str | None = None
    """The parent job, of which this job does a part."""
    shares_limits: bool | None = None
    """Whether the job uses what its parent has left."""
    after: list[str] | None = None
    """The predecessors: jobs that must have succeeded before this one begins."""
    forked: Forked | None = None
    """For a fork: what it was forked from."""
    adopted: str | None = None
    """For a job that was adopted from a session: the program. Such a job can't continue."""
    children: list[str] = []
    """For a waiting job: the jobs for which it waits."""
    spawned: Spawned | None = None
    """Where the children come from; kept until the next ones are created."""
    results: list[Any] | None = None
    """The outputs of the children of the last foreach or subflow, in the order of the items."""
    result_items: list[JsonObject] | None = None
    """For a foreach: the `item` and `index` of each of these results."""
    output_of: str | None = None
    """The step whose output is the last one."""
    step_starts: dict[str, StepStart] | None = None
    """What each step began with, for the steps that have an output since: they may be reviewed and done again."""
    summaries: dict[str, str] | None = None
    """The summary of each completed step, in the order of completion."""
    asked_at: dict[str, int] | None = None
    """The number of requests to agents at each step."""
    visits: dict[str, int] | None = None
    """How often each decision was taken."""
    forced: bool | None = None
    """The steward accepts the results of the children so far, however few."""
    unsure: bool | None = None
    """A steward must confirm the doer's work after the review."""
    why_unsure: str | None = None
    """Why a steward must confirm it; None also in histories of earlier versions."""
    workflow: str | None = None
    """The name of the workflow; None: the built-in one."""
    suggested: str | None = None
    """The next step that the last doer suggested."""
    doers: dict[str, Doer] | None = None
    """Who does each step that sets its own role; the key "" is for all other steps."""
    checks: list[CheckResult] | None = None
    """The results of the checks after the doer's last answer, for the review."""
    unchanged: bool | None = None
    """The doer of the completed step may change files, but changed none."""
    plan: Plan | None = None
    """The plan of the step, approved or waiting for approval."""
    findings: list[JsonObject] | None = None
    """The findings of the last review, for the doer's next attempt."""
    merge: Open[Literal["due", "merged"]] | None = None
    """For a successful job: whether its work must be, or was, merged into the source repository."""
    source: str | None = None
    """The git repository that the workspace was created from; an absolute path."""
    merges: bool | None = None
    """The work is merged automatically as soon as the job succeeds."""
    checkpoint: str | None = None
    start_checkpoint: str | None = None
    spec_hash: str = ""

    @property
    def status(self) -> Status:
        return self.place.status

    @property
    def step(self) -> str:
        return self.place.step

    if not TYPE_CHECKING:  # Logist's own code uses `state.place`

        def __getattr__(self, name: str) -> Any:
            """Allow `job.state.stuck` in tests by users, like in state.json."""
            if name in Place.model_fields:
                return getattr(self.place, name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @model_validator(mode="before")
    @classmethod
    def _gather_place(cls, data: Any) -> Any:
        """Collect the fields of the place, which are top-level fields in state.json."""
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
"""The field names in state.json."""
