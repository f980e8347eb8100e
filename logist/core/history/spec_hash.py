"""The hash of a spec. A step uses it to detect a changed spec, and `job verify` to compare state.json with the history."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from logist.core.model.plain import PlainRecord, get_model_name, list_defaults
from logist.digests import compute_sha256

if TYPE_CHECKING:
    from logist.core.model import EffectiveSpec

_ALWAYS_COUNTED: dict[str, str] = {
    "EffectiveSpec": """
        title prompt description acceptance_criteria task_type tags files review approval limits rank
        doer doer_source reviewer reviewer_source on_doubt roles
    """,
    "Limits": "cost_threshold time_threshold_minutes max_allowed_iterations max_attempts",
    "ItemLimits": "cost_threshold time_threshold_minutes max_allowed_iterations max_attempts",
    "Check": "enabled severity command timeout_minutes",
    "Doer": "role source badge color",
    "Workflow": "name description steps edges start subflows foreign mermaid",
    "Step": """
        id name step_type execution prompt agent_role guidance role review review_role confirm response_format
        confidence when max_visits items_path item_variable max_items min_success_percent await_tag subflow
        input_mapping rendered external config
    """,
    "Edge": "source target label condition",
}
"""The fields that are always part of the hash, because recorded hashes contain them. Don't add fields here.

Any other field is part of the hash only if it differs from its default, so that a new field doesn't change the hash of
a spec that doesn't use it. Don't change the default of such a field: that would change the hashes of recorded specs.
"""


_COUNTED_NAMES = {model: frozenset(names.split()) for model, names in _ALWAYS_COUNTED.items()}


def spec_hash(spec: EffectiveSpec) -> str:
    """Return the sha256 of the spec's canonical JSON, without the fields that don't count (see above)."""
    counted_fields = _select_counted_fields(spec, spec.model_dump(mode="json"))
    text = json.dumps(counted_fields, sort_keys=True, separators=(",", ":"))
    return compute_sha256(text.encode("utf-8", "surrogatepass"))


def _select_counted_fields(value: Any, dumped: Any) -> Any:
    """Return the part of a dumped value that counts, including nested records."""
    if isinstance(value, PlainRecord) or hasattr(value, "model_fields"):
        always = _COUNTED_NAMES.get(get_model_name(value), frozenset())
        defaults = list_defaults(value)
        return {
            name: _select_counted_fields(getattr(value, name), field)
            for name, field in dumped.items()
            if name in always or name not in defaults or getattr(value, name) != defaults[name]
        }
    if isinstance(value, tuple):
        return [_select_counted_fields(item, field) for item, field in zip(value, dumped, strict=True)]
    if isinstance(value, dict):
        return {name: _select_counted_fields(value.get(name), field) for name, field in dumped.items()}
    return dumped
