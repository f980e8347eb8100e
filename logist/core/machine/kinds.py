"""What each kind of interaction means: one row per kind, one column per fact.

No other module keeps its own sets of kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from logist.core.machine.actions import Action
from logist.core.model import plain
from logist.core.model.words import Actor, Kind
from logist.quick_tuple import NamedTuple

if TYPE_CHECKING:  # commands that only read JSON need the facts without the models
    from logist.core.model.commands import RecordedCommand
    from logist.core.model.record import Interaction
    from logist.core.text.json_object import JsonObject


class KindFacts(NamedTuple):
    """The facts about a kind of interaction. All are False or None unless its row sets them."""

    command_name: str
    """The class of what its interactions record, besides the next place; in `core.model.commands`."""
    action: Action | None = None
    """The action for the state machine; None if an agent's answer decides it, or if the job doesn't move."""
    actor: Actor = Actor.STEWARD
    """Who usually causes it; the interaction records who did."""
    asks_agent: bool = False
    """An agent was asked, so it cost something, or may have."""
    is_decision: bool = False
    """A steward decides it about a waiting job, with the command of the same name."""
    must_be_signed: bool = False
    """Where the user's config requires signatures (`steward.require`), it needs one."""
    stays: bool = False
    """The job stays where it is, with the same reason."""
    starts: bool = False
    """The job starts its task or its workflow."""
    ends: bool = False
    """The work of the children is not needed any more."""
    stops: bool = False
    """It stops a running agent and doesn't read job.yaml, so that a job with an invalid one can be stopped."""
    returns: bool = False
    """The job goes back to an earlier state, including its workspace."""
    restores: bool = False
    """It replaces files of the workspace by those of a checkpoint; `find_unfinished_restore` asks for that."""
    prompts_note: bool = False
    """Its note becomes part of the next prompt."""
    leaves_files: bool = False
    """It doesn't change files: between checkpoints, only a person can have edited the workspace."""
    keeps_turns: bool = False
    """Without a note, an interrupted agent can continue from its recorded turns."""
    needs_more: bool = False
    """A history alone is not enough to repeat it: it needs other jobs, a repository, or a lost call."""


KINDS: Mapping[Kind, KindFacts] = {
    Kind.ASK: KindFacts("AskCommand", actor=Actor.AGENT, asks_agent=True),
    Kind.RECOVER: KindFacts(
        "RecoverCommand", actor=Actor.SYSTEM, asks_agent=True, restores=True, needs_more=True
    ),
    Kind.CREATE: KindFacts("CreateCommand", Action.CREATE, starts=True),
    Kind.SPEC: KindFacts("SpecCommand", actor=Actor.SYSTEM, stays=True, leaves_files=True, keeps_turns=True),
    Kind.FORK: KindFacts("ForkCommand", stays=True, prompts_note=True, needs_more=True),
    Kind.ROLE: KindFacts("RoleCommand", Action.ROLE, stays=True, leaves_files=True),
    Kind.NOTE: KindFacts("NoteCommand", stays=True, leaves_files=True, keeps_turns=True),
    Kind.ACTIVATE: KindFacts(
        "NoteCommand", Action.ACTIVATE, is_decision=True, starts=True, leaves_files=True
    ),
    Kind.APPROVE: KindFacts(
        "ApproveCommand",
        Action.APPROVE,
        is_decision=True,
        must_be_signed=True,
        prompts_note=True,
        leaves_files=True,
    ),
    Kind.REJECT: KindFacts(
        "NoteCommand", Action.REJECT, is_decision=True, prompts_note=True, leaves_files=True
    ),
    Kind.RESUBMIT: KindFacts(
        "ResubmitCommand",
        Action.RESUBMIT,
        is_decision=True,
        prompts_note=True,
        leaves_files=True,
        keeps_turns=True,
    ),
    Kind.SUSPEND: KindFacts("NoteCommand", Action.SUSPEND, is_decision=True, stops=True, leaves_files=True),
    Kind.RESUME: KindFacts(
        "NoteCommand", Action.RESUME, is_decision=True, prompts_note=True, leaves_files=True, keeps_turns=True
    ),
    Kind.CANCEL: KindFacts(
        "EndCommand",
        Action.CANCEL,
        is_decision=True,
        ends=True,
        stops=True,
        leaves_files=True,
    ),
    Kind.FAIL: KindFacts(
        "EndCommand",
        Action.FAIL,
        is_decision=True,
        ends=True,
        stops=True,
        leaves_files=True,
    ),
    Kind.RESTEP: KindFacts("RestepCommand", Action.RESTEP, returns=True, restores=True, prompts_note=True),
    Kind.RERUN: KindFacts(
        "RerunCommand", Action.RERUN, starts=True, returns=True, restores=True, prompts_note=True
    ),
    Kind.HALT: KindFacts("HaltCommand", Action.HALT, Actor.SYSTEM, leaves_files=True),
    Kind.SPAWN: KindFacts("SpawnCommand", Action.SPAWN, Actor.SYSTEM, needs_more=True),
    Kind.COLLECT: KindFacts("CollectCommand", Action.COLLECT, Actor.SYSTEM, needs_more=True),
    Kind.MERGE: KindFacts("MergeCommand", Action.MERGE, leaves_files=True, needs_more=True),
    Kind.UPDATE: KindFacts("UpdateCommand", Action.UPDATE, restores=True, prompts_note=True, needs_more=True),
    Kind.SCRUB: KindFacts(
        "ScrubCommand",
        must_be_signed=True,
        stays=True,
        leaves_files=True,
        needs_more=True,
    ),
}


def read_command(kind: Kind, recorded: JsonObject) -> RecordedCommand:
    """Read the command of an interaction of this kind from its JSON."""
    return _find_command_class(get_command_name(kind)).read(recorded)


@cache
def _find_command_class(name: str) -> type[RecordedCommand]:
    from logist.core.model import commands  # noqa: PLC0415 - see above

    command_class: type[RecordedCommand] = getattr(commands, name)
    return command_class


def get_command_name(kind: Kind) -> str:
    """Return the name of the class of the commands of this kind."""
    facts = KINDS.get(kind)
    return facts.command_name if facts else "RecordedCommand"


def command_of(entry: Interaction) -> RecordedCommand:
    """Return the command of an interaction, in the class of its kind."""
    return read_command(entry.kind, entry.command)


def plain_command_of(entry: Interaction) -> RecordedCommand:
    """Return the same to be shown: with the attributes of the class of its kind, without the models if possible."""
    return plain.read_command(get_command_name(entry.kind), entry.command) or command_of(entry)


def same_command_of(entry: Interaction) -> RecordedCommand:
    """Return the command, plain if the interaction is plain.

    Raises UnexpectedError for a plain interaction whose command only the model can read.
    """
    record: object = entry
    if not isinstance(record, plain.PlainRecord):
        return command_of(entry)
    command = plain.read_command(get_command_name(entry.kind), entry.command)
    if command is None:
        raise plain.UnexpectedError
    return command


def select_kinds(has_fact: Callable[[KindFacts], object]) -> frozenset[Kind]:
    """Return the kinds for which `has_fact` is true."""
    return frozenset(kind for kind, facts in KINDS.items() if has_fact(facts))


# A kind that only a newer Logist knows is in none of these.
ASKS_AGENT = select_kinds(lambda facts: facts.asks_agent)
DECISIONS = select_kinds(lambda facts: facts.is_decision)
MUST_BE_SIGNED = select_kinds(lambda facts: facts.must_be_signed)
MAY_BE_SIGNED = select_kinds(lambda facts: facts.is_decision or facts.must_be_signed)
STAYS = select_kinds(lambda facts: facts.stays)
STARTS = select_kinds(lambda facts: facts.starts)
ENDS = select_kinds(lambda facts: facts.ends)
STOPS = select_kinds(lambda facts: facts.stops)
RETURNS = select_kinds(lambda facts: facts.returns)
RESTORES = select_kinds(lambda facts: facts.restores)
PROMPTS_NOTE = select_kinds(lambda facts: facts.prompts_note)
LEAVES_FILES = select_kinds(lambda facts: facts.leaves_files)
KEEPS_TURNS = select_kinds(lambda facts: facts.keeps_turns)
NEEDS_MORE = select_kinds(lambda facts: facts.needs_more)
BY_SYSTEM = select_kinds(lambda facts: facts.action is not None and facts.actor is Actor.SYSTEM)
"""Kinds for which the state machine is asked with the system as the actor."""
NOT_JUDGED = select_kinds(lambda facts: facts.action is None and not facts.asks_agent)
"""Kinds for which the state machine is not asked: the job stays where it was."""
ACTIONS: Mapping[Kind, Action] = {
    kind: facts.action for kind, facts in KINDS.items() if facts.action is not None
}
