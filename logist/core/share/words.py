"""The words of the format, which are never treated as names of people."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum

from logist.core.model import limits, record, spec, words
from logist.core.model.flow import Edge, Step, Workflow
from logist.quick_model import BaseModel

_LISTED = re.compile(r"\S+")
_MODELS: tuple[type[BaseModel], ...] = (
    *(record.Interaction, record.Request, record.Part, record.Response, record.TransportError),
    *(record.Usage, record.Observed, record.Evidence, record.Change, record.Place, record.Stuck),
    *(
        record.Steward,
        spec.EffectiveSpec,
        limits.Limits,
        limits.ItemLimits,
        spec.Check,
        spec.Doer,
        Workflow,
        Step,
        Edge,
    ),
)
_WORDS: tuple[type[StrEnum], ...] = (
    *(words.Status, words.Kind, words.Actor, words.Phase, words.StepType, words.Execution),
    *(words.ExitAction, words.StuckKind, words.ErrorKind, words.Approval),
)
_COMMANDS = _LISTED.findall(
    "action allow children conflicts doubt draft fault findings force gathered given given_up keep_files lack "
    "left_out limit lost needed needed_runs note output override released released_of results review runs single "
    "source spawn step tag to unsure why_unsure verdict used from at head id index item items input role phase model "
    "temperature user_start logist schema options path severity message check name decision branch values error "
    "skipped line suggestion confidence suggested_next_stage suggested_tags status next_action aggregatedResults "
    "steps parentId total PASS FAIL rule given none provider worst_case SUCCESS ERROR TIMEOUT created modified "
    "deleted mode JOB_DIR redacted dataset job outcome completed retry unanswered"
)
_GENERIC = _LISTED.findall(
    "you your user users username somebody someone nobody people person home shared public guest index default "
    "root admin administrator runner ubuntu debian node git www app api web main test tests src the and for all "
    "null true false work workspace file files data code daemon bin sys www systemd staff wheel docker jenkins vagrant "
    "postgres mysql redis nginx apache nonroot appuser"
)
"""Generic account names and words after `/home/` that identify nobody."""


def _names() -> Iterator[str]:
    for model in _MODELS:
        yield from model.model_fields
    for enumeration in _WORDS:
        yield from enumeration
    yield from _COMMANDS


KEPT = frozenset(map(str, _names()))
"""A key or a complete value that is one of these is not changed."""

NO_NAMES = frozenset(
    part.lower() for name in (*KEPT, *_GENERIC) for part in (name, *name.replace("-", "_").split("_"))
)
"""Words in text that are not names of people, in lowercase."""
