"""The commands that interactions record: one class per kind of interaction, assigned in `core.machine.kinds`.

An interaction keeps its `command` as plain JSON, so that values that this Logist can't read are preserved. These
classes read and write it. A value of the wrong type is ignored; fields of a newer Logist are kept but have no
effect. None means that the command doesn't set the field.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, Self, TypeVar

from logist.core.model.base import Recorded
from logist.core.model.record import Totals
from logist.core.model.words import Status
from logist.core.text.json_object import JsonObject
from logist.quick_model import ConfigDict, Field, ValidationError, field_serializer


class _Strict(Recorded):
    """A value without type conversion: the text "3" is not accepted as a number."""

    # Built on first use: most commands need only two of these classes.
    model_config = ConfigDict(strict=True, defer_build=True, populate_by_name=True)


_Command = TypeVar("_Command", bound="RecordedCommand")


class Signature(_Strict):
    """A steward's signature of a decision. What is signed: `jobs.steward.signed_decisions.build_signed_text`."""

    job: str = ""
    """The id of the job that was decided about; a fork keeps the signatures of its origin."""
    revision: int = 0
    """The revision of the job before the decision."""
    checkpoint: str = ""
    """The commit of the files that an approval accepts, which is signed too; "" in earlier versions."""
    ssh: str = ""
    """The armored signature by `ssh-keygen -Y sign`."""


class RecordedCommand(_Strict):
    """The base class, also used for kinds that only a newer Logist knows."""

    signature: Signature | None = None
    """For a decision of a steward; None if it was not signed."""

    @classmethod
    def read(cls, recorded: JsonObject) -> Self:
        """Read the command of an interaction; invalid values are left out, because a history may be untrusted."""
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
        """Return the command as an interaction records it: the fields that are set, in their order."""
        said = self.model_dump(exclude_unset=True, by_alias=True)
        return {name: value for name, value in said.items() if value is not None}


def _leave_out(value: Any, wrong: dict[Any, Any]) -> Any:
    """Return the object or list without the members in `wrong`, a tree of names or indices."""
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
    """Return an empty command. Cached: a history may have a hundred thousand of them."""
    return of()


class AskCommand(RecordedCommand):
    """The result of an answer, besides the next place."""

    released_microcents: int | None = None
    """For an answer supplied by hand whose cost is known: see `ResubmitCommand`."""
    released_of: int | None = None
    turns_kept: int | None = None
    """The number of completed turns before one without an answer; a later step can continue from them."""
    unsure: bool | None = None
    """A steward must confirm the answer."""
    why_unsure: str | None = None
    plan: bool | None = None
    """The output is a plan, which another role carries out."""
    verdict: str | None = None
    """For a reviewer: PASS or FAIL, including the checks."""
    findings: list[JsonObject] | None = None
    results: list[Any] | None = None
    """For an answer supplied by hand for a step of child jobs: the results that replace theirs."""
    calls: list[JsonObject] | None = None
    """For an adopted session: its tool calls in order, as `core.adoption.building` writes them."""


class RecoverCommand(RecordedCommand):
    """The cost that was recorded for a call whose answer is lost."""

    in_doubt_microcents: int | None = None
    given_up: bool | None = None
    """The agent was stopped between two turns, so nothing is in doubt."""
    turns_kept: int | None = None
    """As in `AskCommand`."""


class CreateCommand(RecordedCommand):
    draft: bool | None = None
    source: str | None = None
    """The git repository that the workspace was created from; an absolute path."""
    rebuilt: bool | None = None
    """The interaction was rebuilt for an imported history of another program."""
    imported: str | None = None
    """SHA-256 of the file that the history was imported from."""
    notes: list[str] | None = None
    """What had to be rebuilt for the import."""
    adopted: str | None = None
    """The program whose session the job was adopted from, with its version."""
    session: str | None = None
    """The id of that session."""


class SpecCommand(RecordedCommand):
    changed: list[str] | None = None
    """Fields of job.yaml that `job config` set: `limits.max_attempts`, ..."""


class ForkCommand(RecordedCommand):
    from_job: str | None = Field(default=None, validation_alias="from", serialization_alias="from")
    at: int | None = None
    """The last interaction that both jobs share."""
    head: str | None = None
    """Its checksum."""
    note: str | None = None


class RoleCommand(RecordedCommand):
    """The old and the new role, and how listings show the new one."""

    from_role: str | None = Field(default=None, validation_alias="from", serialization_alias="from")
    to: str | None = None
    source: str | None = None
    badge: str | None = None
    color: str | None = None
    sha256: str | None = None
    """The hash of the new role's file."""


class NoteCommand(RecordedCommand):
    """A decision with only a note: activate, reject, suspend, resume; or a note without a decision."""

    note: str | None = None


class ApproveCommand(RecordedCommand):
    output: Any = None
    """The result of the step, supplied by a person; may be null (see `gives_output`)."""
    override: bool | None = None
    """The work is accepted although its review failed or is missing."""
    note: str | None = None
    results: list[Any] | None = None
    """As in `AskCommand`."""
    carried_out_by: str | None = None
    """The role that carries out the approved plan."""
    review_hash: str | None = None
    """Names the approved work: revision, files, check results and evidence. None in earlier versions."""
    seen: bool | None = None
    """The steward passed that hash, so what was approved is what was seen."""

    @property
    def gives_output(self) -> bool:
        """Whether an output is supplied; it may be null."""
        return "output" in self.model_fields_set

    def write(self) -> JsonObject:
        """Return the same as the base class, but keep an output that is null."""
        return {**({"output": self.output} if self.gives_output else {}), **super().write()}


class BookingCommand(RecordedCommand):
    """The usage of child jobs since the last interaction that recorded it."""

    spawn: int | None = None
    """The interaction that created the children."""
    runs: int | None = None
    """The number of agent runs that this interaction adds."""
    used: dict[str, Totals] | None = None
    """The total usage of each child so far, so that nothing is counted twice."""

    @field_serializer("used")
    def _write_whole(self, used: dict[str, Totals] | None) -> JsonObject | None:
        return None if used is None else {name: each.model_dump(mode="json") for name, each in used.items()}


class ResubmitCommand(BookingCommand):
    review: bool | None = None
    """The reviewer is asked next."""
    step: str | None = None
    """The step at which the job continues."""
    doubt: str | None = None
    """For a call in doubt: `assume_paid` or `retry`."""
    allow: list[str] | None = None
    """Tools that the agent may use until the job gets stuck again."""
    force: bool | None = None
    """The job continues with the results that its children have so far."""
    note: str | None = None
    released_microcents: int | None = None
    """The part of the recorded cost of a call in doubt that is released."""
    released_of: int | None = None
    """The interaction that recorded the cost."""


class EndCommand(BookingCommand):
    """A cancel or fail decision."""

    note: str | None = None


class RestepCommand(BookingCommand):
    to: int | None = None
    """The interaction before which the job returns."""
    note: str | None = None


class RerunCommand(BookingCommand):
    clean_git: bool | None = None
    """The workspace is reset to its state at the start."""
    keep_files: bool | None = None
    """The artefacts are copied to `attachments/` first."""
    note: str | None = None


class HaltCommand(BookingCommand):
    limit: str | None = None
    """The limit that was reached, as a `Status`."""
    needed: int | None = None
    """The minimum cost of the next call, in microcents."""
    needed_runs: int | None = None
    """The number of runs that were needed, if more than one."""


class PlannedChild(_Strict):
    """Everything that is needed to create a child, so that it can be created again."""

    id: str = ""
    title: str = ""
    name: str | None = None
    """What names the item, for people; not set by earlier versions, and if nothing names it."""
    prompt: str = ""
    input: Any = None
    limits: JsonObject = {}
    shares_limits: bool | None = None
    role: str = ""


class SpawnCommand(RecordedCommand):
    tag: str = ""
    single: bool | None = None
    """The step is a subflow, done by a single child."""
    given: JsonObject | None = None
    """The data that every child gets in addition to its own input."""
    children: list[PlannedChild] = []
    fault: str | None = None
    """Why no child jobs can be created."""


class GatheredChild(_Strict):
    """The recorded result of a child, so that the job can be replayed without it."""

    id: str = ""
    status: str = ""
    """A `Status`, or `missing` for a child that no longer exists."""
    output: Any = None
    summary: str = ""
    checkpoint: str | None = None
    evidence_files: list[str] = []
    missing: list[str] | None = None
    """Evidence files that were not found."""
    item: Any = None
    """For a foreach: the item of the child; `index` is its number. Earlier versions recorded neither."""
    index: int | None = None

    @property
    def succeeded(self) -> bool:
        return self.status == Status.SUCCESS


class CollectCommand(BookingCommand):
    gathered: Literal["reached", "share", "conflict"] | None = None
    """Enough of the children succeeded, too few did, or their work conflicts."""
    single: bool | None = None
    lack: str | None = None
    """Why the result is not enough, in words."""
    left_out: dict[str, list[str]] | None = None
    """By child: the files in which its work conflicts with other work."""
    lost: dict[str, list[str]] | None = None
    """By child: files that are not in any checkpoint."""
    children: list[GatheredChild] = []


class MergeCommand(RecordedCommand):
    merge: str | None = None
    """How the work was merged: `fast_forward`, `merge`, ..."""
    repository: str | None = None
    into: str | None = None
    """The branch that it was merged into."""
    branch: str | None = None
    """The branch that contains the work of the job."""
    commit: str | None = None
    before: str | None = None
    after: str | None = None
    files: list[str] | None = None
    left_out: list[str] | None = None
    conflicts: list[str] | None = None
    """Files in which the work conflicts with the repository."""
    lack: str | None = None
    revert: str | None = None
    """The command that undoes the merge."""


class UpdateCommand(RecordedCommand):
    """How the workspace moved onto a later commit of the source repository."""

    before: str | None = None
    """The commit of the source that the work was based on."""
    after: str | None = None
    """The commit that it is based on now; the job's own changes are the difference from it."""
    repository: str | None = None
    branch: str | None = None
    """The branch of the repository, or the name that the steward chose with `--onto`."""
    commits: int | None = None
    """How many commits of the repository are new; None if its history was rewritten."""
    files: list[str] | None = None
    """The files of the workspace that changed, at most 100."""
    conflicts: list[str] | None = None
    """The conflicts that an agent resolves next, each as `path (kind)`."""
    note: str | None = None


class SignedBefore(_Strict):
    """A decision whose signature was valid before a scrub changed what it covers."""

    sequence: int = 0
    signer: str | None = None
    """Who had signed; None if that was not checked, because no allowed signers were set."""


class ScrubCommand(RecordedCommand):
    """A text was replaced everywhere in the job, and all interactions before this one are in a new chain."""

    reason: str | None = None
    places: int | None = None
    """How often it was replaced: in the history, in other files, and in objects of the checkpoints."""
    history: int | None = None
    files: int | None = None
    checkpoints: int | None = None
    old_head: str | None = None
    """The checksum of the last interaction in the old chain."""
    head: str | None = None
    """Its checksum in the new chain. A signature of the scrub covers it, and so all interactions before."""
    signed: list[SignedBefore] | None = None
    """Decisions that no longer have a valid signature."""
    differs: list[int] | None = None
    """Interactions that replay with another result because of the scrub."""
