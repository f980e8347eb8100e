"""What interactions record of what was asked for or decided: one class a kind, named in `core.machine.kinds`.

An interaction keeps its `command` as the JSON that it is, so that what this Logist can't read is written again as it
was. These classes read it, and write it. A value of a wrong type is read as if it were not there; what only
a newer Logist knows is kept, and has no say. None is what a command does not say.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, Self, TypeVar

from pydantic import ConfigDict, Field, ValidationError, field_serializer

from logist.core.model.base import Recorded
from logist.core.model.record import Totals
from logist.core.model.words import Status
from logist.core.text.json_object import JsonObject


class _Strict(Recorded):
    """A value that takes no other types than it names: "3" is no number of an interaction."""

    # Built at the first use: most commands of the command line need two of these classes.
    model_config = ConfigDict(strict=True, defer_build=True, populate_by_name=True)


_Command = TypeVar("_Command", bound="RecordedCommand")


class RecordedCommand(_Strict):
    """What any interaction may record; of a kind that only a newer Logist knows, nothing is known."""

    @classmethod
    def read(cls, recorded: JsonObject) -> Self:
        """The command that an interaction holds; a history may come from anywhere, so what does not fit is left out."""
        if not recorded:
            nothing: Self = _nothing_said(cls)
            return nothing
        try:
            return cls.model_validate(recorded)
        except ValidationError as error:
            wrong: dict[Any, Any] = {}
            for problem in error.errors(include_url=False, include_context=False, include_input=False):
                node: Any = wrong
                for part in problem["loc"]:
                    node = node.setdefault(part, {})
            return cls.model_validate(_leave_out(recorded, wrong))

    def write(self) -> JsonObject:
        """The command as the interaction holds it: what was said, in the order of the fields."""
        said = self.model_dump(exclude_unset=True, by_alias=True)
        return {name: value for name, value in said.items() if value is not None}


def _leave_out(value: Any, wrong: dict[Any, Any]) -> Any:
    """The object or list without the members that `wrong` leads to, by their names or numbers."""
    if isinstance(value, list):
        members = dict(enumerate(value))
        return list(_leave_out(members, wrong).values())
    return {
        key: _leave_out(member, wrong[key]) if key in wrong else member
        for key, member in value.items()
        if wrong.get(key) != {}
    }


@cache
def _nothing_said(of: type[_Command]) -> _Command:
    """The command of most interactions; a history has a hundred thousand of them."""
    return of()


class AskCommand(RecordedCommand):
    """What an answer came to beside where it leads."""

    released_microcents: int | None = None
    """Of an answer given by hand, whose cost the steward knows: see `ResubmitCommand`."""
    released_of: int | None = None
    turns_kept: int | None = None
    """Turns before one that brought no answer, which a later step may take up."""
    unsure: bool | None = None
    """A steward is to confirm the answer."""
    why_unsure: str | None = None
    plan: bool | None = None
    """The output is a plan, which another role carries out."""
    verdict: str | None = None
    """Of a reviewer, checks included: PASS or FAIL."""
    findings: list[JsonObject] | None = None
    results: list[Any] | None = None
    """Of an answer given by hand for a step that other jobs do: what these would have given."""


class RecoverCommand(RecordedCommand):
    """What was booked of a call whose answer is lost."""

    in_doubt_microcents: int | None = None
    given_up: bool | None = None
    """The agent was ended between two turns: nothing is in doubt."""
    turns_kept: int | None = None
    """As in `AskCommand`."""


class CreateCommand(RecordedCommand):
    draft: bool | None = None
    source: str | None = None
    """The repository that the workspace began from; an absolute path."""
    rebuilt: bool | None = None
    """The job was made up for a history of another program."""
    imported: str | None = None
    """SHA-256 of the file that the history was imported from."""
    notes: list[str] | None = None
    """What had to be made up for that."""


class SpecCommand(RecordedCommand):
    changed: list[str] | None = None
    """Fields of job.yaml that `job config` set: `limits.max_attempts`, ..."""


class ForkCommand(RecordedCommand):
    from_job: str | None = Field(None, validation_alias="from", serialization_alias="from")
    at: int | None = None
    """The last interaction that both have."""
    head: str | None = None
    """Its checksum."""
    note: str | None = None


class RoleCommand(RecordedCommand):
    """Who takes over from whom, and all that listings show of the new role."""

    from_role: str | None = Field(None, validation_alias="from", serialization_alias="from")
    to: str | None = None
    source: str | None = None
    badge: str | None = None
    color: str | None = None
    sha256: str | None = None
    """Of the new role."""


class NoteCommand(RecordedCommand):
    """A decision that needs no more than a note: activate, reject, suspend, resume."""

    note: str | None = None


class ApproveCommand(RecordedCommand):
    output: Any = None
    """What a person gives as the result of the step; an interaction without one gives none (see `gives_output`)."""
    override: bool | None = None
    """The work is accepted against its review, or before one."""
    note: str | None = None
    results: list[Any] | None = None
    """As in `AskCommand`."""
    carried_out_by: str | None = None
    """The role that carries out the plan that is approved."""

    @property
    def gives_output(self) -> bool:
        """Whether it gives an output, which may be null."""
        return "output" in self.model_fields_set

    def write(self) -> JsonObject:
        """The same, with an output that is null."""
        return {**({"output": self.output} if self.gives_output else {}), **super().write()}


class BookingCommand(RecordedCommand):
    """What the children of a job have used since the last interaction that booked it."""

    spawn: int | None = None
    """The interaction that made the children."""
    runs: int | None = None
    """Runs of agents that are booked with this."""
    used: dict[str, Totals] | None = None
    """All that each child has used so far, so that the next one books nothing twice."""

    @field_serializer("used")
    def _write_whole(self, used: dict[str, Totals] | None) -> JsonObject | None:
        return None if used is None else {name: each.model_dump(mode="json") for name, each in used.items()}


class ResubmitCommand(BookingCommand):
    review: bool | None = None
    """The reviewer is asked next."""
    step: str | None = None
    """The step to go on at."""
    doubt: str | None = None
    """Of a call in doubt: `assume_paid` or `retry`."""
    allow: list[str] | None = None
    """Tools that the agent may use until the job gets stuck again."""
    force: bool | None = None
    """The job goes on with what there is of its children."""
    note: str | None = None
    released_microcents: int | None = None
    """What is taken back of the booking of a call that was in doubt."""
    released_of: int | None = None
    """The interaction that booked it."""


class EndCommand(BookingCommand):
    """Cancel and fail."""

    note: str | None = None


class RestepCommand(BookingCommand):
    to: int | None = None
    """The interaction to go back before."""
    note: str | None = None


class RerunCommand(BookingCommand):
    clean_git: bool | None = None
    """The workspace is put back to what it was at the start."""
    keep_files: bool | None = None
    """The artefacts are copied to `attachments/` first."""
    note: str | None = None


class HaltCommand(BookingCommand):
    limit: str | None = None
    """The limit that was reached, as a `Status`."""
    needed: int | None = None
    """The least that the next call could have cost, in microcents."""
    needed_runs: int | None = None
    """The runs that were needed, where that is more than one."""


class PlannedChild(_Strict):
    """All that a child is made from, so that it can be made again."""

    id: str = ""
    title: str = ""
    prompt: str = ""
    input: Any = None
    limits: JsonObject = {}
    shares_limits: bool | None = None
    role: str = ""


class SpawnCommand(RecordedCommand):
    tag: str = ""
    single: bool | None = None
    """The step is a workflow of its own, done by one child."""
    given: JsonObject | None = None
    """What every child is given beside its own input."""
    children: list[PlannedChild] = []
    fault: str | None = None
    """Why the step can be given to none."""


class GatheredChild(_Strict):
    """What is kept of a child, so that the job replays without it."""

    id: str = ""
    status: str = ""
    """A `Status`; `missing` of a child that is not there any more."""
    output: Any = None
    summary: str = ""
    checkpoint: str | None = None
    evidence_files: list[str] = []
    missing: list[str] | None = None
    """Files that it named as evidence, and that are not there."""
    item: Any = None
    """Of a foreach: what it was given, and the number of that; a collect of an earlier version has neither."""
    index: int | None = None

    @property
    def succeeded(self) -> bool:
        return self.status == Status.SUCCESS


class CollectCommand(BookingCommand):
    gathered: Literal["reached", "share", "conflict"] | None = None
    """Enough of the children succeeded, too few did, or their work does not fit together."""
    single: bool | None = None
    lack: str | None = None
    """Why it is not enough, in words."""
    left_out: dict[str, list[str]] | None = None
    """By child: the files by which its work does not fit to the rest."""
    lost: dict[str, list[str]] | None = None
    """By child: files that no checkpoint holds."""
    children: list[GatheredChild] = []


class MergeCommand(RecordedCommand):
    merge: str | None = None
    """How the work went into the repository: `fast_forward`, `merge`, ..."""
    repository: str | None = None
    into: str | None = None
    """The branch it went into."""
    branch: str | None = None
    """The branch that has the work of the job."""
    commit: str | None = None
    before: str | None = None
    after: str | None = None
    files: list[str] | None = None
    left_out: list[str] | None = None
    conflicts: list[str] | None = None
    """Files in which the work does not fit to what the repository has become."""
    lack: str | None = None
    revert: str | None = None
    """The command that takes it back."""
