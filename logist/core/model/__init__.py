"""The data types of Logist: frozen values, with the same names as in the files.

Names are loaded on first use: commands that only read JSON need none of the models, or only the words.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from logist.core.text.json_object import JsonObject

if TYPE_CHECKING:
    from logist.core.model.base import Frozen, Open, Recorded
    from logist.core.model.flow import MAX_DEPTH, MAX_ITEMS, Edge, Step, Workflow
    from logist.core.model.limits import ConfiguredLimits, ItemLimits, Limits, PartialLimits
    from logist.core.model.permissions import EVERYTHING, Permission, Permissions
    from logist.core.model.record import (
        Call,
        Change,
        CheckResult,
        Evidence,
        Interaction,
        Observed,
        Part,
        Place,
        Refusal,
        Reply,
        Request,
        Response,
        Steward,
        Stuck,
        Totals,
        TransportError,
        Usage,
    )
    from logist.core.model.spec import (
        CHECK_MINUTES,
        CHECKS,
        Check,
        ConfiguredCheck,
        ContextPart,
        Doer,
        EffectiveSpec,
        JobId,
        JobSpec,
        Model,
        PriceTier,
        Provider,
        Role,
    )
    from logist.core.model.state import Forked, Head, Last, Plan, Spawned, State
    from logist.core.model.words import (
        END,
        FORMAT,
        HALTED,
        TERMINAL,
        Actor,
        Approval,
        ErrorKind,
        Execution,
        ExitAction,
        Kind,
        Phase,
        Status,
        StepType,
        StuckKind,
        Word,
    )

__all__ = [
    "CHECKS",
    "CHECK_MINUTES",
    "END",
    "EVERYTHING",
    "FORMAT",
    "HALTED",
    "MAX_DEPTH",
    "MAX_ITEMS",
    "TERMINAL",
    "Actor",
    "Approval",
    "Call",
    "Change",
    "Check",
    "CheckResult",
    "ConfiguredCheck",
    "ConfiguredLimits",
    "ContextPart",
    "Doer",
    "Edge",
    "EffectiveSpec",
    "ErrorKind",
    "Evidence",
    "Execution",
    "ExitAction",
    "Forked",
    "Frozen",
    "Head",
    "Interaction",
    "ItemLimits",
    "JobId",
    "JobSpec",
    "JsonObject",
    "Kind",
    "Last",
    "Limits",
    "Model",
    "Observed",
    "Open",
    "Part",
    "PartialLimits",
    "Permission",
    "Permissions",
    "Phase",
    "Place",
    "Plan",
    "PriceTier",
    "Provider",
    "Recorded",
    "Refusal",
    "Reply",
    "Request",
    "Response",
    "Role",
    "Spawned",
    "State",
    "Status",
    "Step",
    "StepType",
    "Steward",
    "Stuck",
    "StuckKind",
    "Totals",
    "TransportError",
    "Usage",
    "Word",
    "Workflow",
]

_MODULES = {
    "base": ("Frozen", "Open", "Recorded"),
    "flow": ("MAX_DEPTH", "MAX_ITEMS", "Edge", "Step", "Workflow"),
    "limits": ("ConfiguredLimits", "ItemLimits", "Limits", "PartialLimits"),
    "permissions": ("EVERYTHING", "Permission", "Permissions"),
    "record": (
        "Call",
        "Change",
        "CheckResult",
        "Evidence",
        "Interaction",
        "Observed",
        "Part",
        "Place",
        "Refusal",
        "Reply",
        "Request",
        "Response",
        "Steward",
        "Stuck",
        "Totals",
        "TransportError",
        "Usage",
    ),
    "spec": (
        "CHECK_MINUTES",
        "CHECKS",
        "Check",
        "ConfiguredCheck",
        "ContextPart",
        "Doer",
        "EffectiveSpec",
        "JobId",
        "JobSpec",
        "Model",
        "PriceTier",
        "Provider",
        "Role",
    ),
    "state": ("Forked", "Head", "Last", "Plan", "Spawned", "State"),
    "words": (
        "END",
        "FORMAT",
        "HALTED",
        "TERMINAL",
        "Actor",
        "Approval",
        "ErrorKind",
        "Execution",
        "ExitAction",
        "Kind",
        "Phase",
        "Status",
        "StepType",
        "StuckKind",
        "Word",
    ),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _HOMES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return value
