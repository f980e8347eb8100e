"""Read a step from a mapping in a file: strictly in our own formats, leniently in those of other programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from logist.core.model import Execution, ItemLimits, JsonObject, Step, StepType
from logist.core.text.field_problems import show_value
from logist.core.text.problem import WorkflowProblem
from logist.core.workflow.faults import validate_form
from logist.core.workflow.form import StepForm
from logist.core.workflow.places import Place, make_problem, suggest_name
from logist.core.workflow.spelling import BRANCH_SPELLINGS, FIELDS, Spelled, normalize_keys
from logist.quick_dataclass import dataclass

STRICT = frozenset({"id", "agentRole", "guidance"})
"""Fields that must be valid in any format; in foreign formats, other invalid fields are kept and reported."""

_ONLY: Mapping[str, frozenset[str]] = {
    "execution": frozenset({"task"}),
    "model": frozenset({"task", "foreach"}),
    "external": frozenset({"task"}),
    "branches": frozenset({"decision"}),
    "defaultBranch": frozenset({"decision"}),
    "maxVisits": frozenset({"decision"}),
    "asksAfter": frozenset({"decision"}),
    "itemsPath": frozenset({"foreach"}),
    "itemVariable": frozenset({"foreach"}),
    "indexVariable": frozenset({"foreach"}),
    "numberVariable": frozenset({"foreach"}),
    "maxItems": frozenset({"foreach"}),
    "itemLimits": frozenset({"foreach"}),
    "minSuccessPercent": frozenset({"foreach", "join"}),
    "awaitTag": frozenset({"join"}),
    "subflowId": frozenset({"subflow", "foreach"}),
    "inputMapping": frozenset({"subflow", "foreach"}),
}
"""The types of step that may have a field; fields that are not listed are allowed in all types."""
_ASKED = (
    "prompt",
    "agentRole",
    "guidance",
    "role",
    "review",
    "reviewRole",
    "confirm",
    "confidence",
    "responseFormat",
)
"""Fields about the work of an agent or a person: a decision has none."""
KEPT = "kept"
"""Where an export puts kept keys whose names have a meaning in our format."""
_QUIET = frozenset({"config", "hitlPhase"})
"""Keys of the older format that are kept without a warning."""
_EXECUTIONS = frozenset({"automated", "manual"})
_TYPES = frozenset({"task", "decision", "foreach", "join", "subflow", "flow"})


@dataclass(frozen=True)
class StepRead:
    """A step and the form it was written in, or None, and its problems."""

    step: Step | None
    form: StepForm | None
    problems: tuple[WorkflowProblem, ...]


def read_step(
    raw: object,
    path: str,
    lines: Mapping[str, int],
    *,
    lenient: bool = False,
    given: Mapping[str, Any] | None = None,
) -> StepRead:
    """Return the step at `path`. `given` are fields from a diagram; the step's own fields override them."""
    if not isinstance(raw, dict):
        place = (path, lines.get(path))
        wrong = make_problem("error", "invalid", f"`{path}` must be a mapping, not {show_value(raw)}", place)
        return StepRead(None, None, (wrong,))
    return _StepReader(path, lines, lenient).read_fields(raw, given or {})


class _StepReader:
    def __init__(self, path: str, lines: Mapping[str, int], lenient: bool) -> None:
        self.path = path
        self.lines = lines
        self.lenient = lenient
        self.written: dict[str, str] = {}
        self.problems: list[WorkflowProblem] = []
        self.faulty: set[str] = set()
        """Fields with an invalid value; the step is read without them, so that the rest is checked too."""

    def read_fields(self, raw: Mapping[str, Any], given: Mapping[str, Any]) -> StepRead:
        kept = raw.get(KEPT)
        own = self._normalize_step(
            {key: value for key, value in raw.items() if key != KEPT or not isinstance(kept, dict)}
        )
        self.written = own.written
        for name in own.twice:
            self._report_problem("error", "twice", f"duplicate field `{name}` in two spellings", name)
        known = {**given, **own.known}
        form, others = self._validate_step(known, own.others)
        if form is None:
            return StepRead(None, None, tuple(self.problems))
        self._check_fields_of_type(form, own.known)
        self._report_unknown_fields(others)
        others |= kept if isinstance(kept, dict) else {}
        return StepRead(
            _make_step(form, others, self._invert_input_mapping(form)), form, tuple(self.problems)
        )

    def _normalize_step(self, raw: Mapping[str, Any]) -> Spelled:
        """Return the step in our spelling; `type` keeps its old meaning, an execution or a step type."""
        own = normalize_keys({key: value for key, value in raw.items() if key != "type"})
        if "type" not in raw:
            return own
        kind = raw["type"]
        field = "execution" if kind in _EXECUTIONS else "stepType" if kind in _TYPES else ""
        if not field:
            if self.lenient:
                return replace(own, others={**own.others, "type": kind})
            wanted = ", ".join(sorted(_TYPES - {"flow"}))
            message = f"`{self.path}.type` must be one of {wanted}, not {show_value(kind)}"
            self.problems.append(make_problem("error", "invalid", message, self._locate_field(("type",))))
            return own
        if field == "execution":
            fix = f"write `execution: {kind}`"
            self._report_problem("warning", "deprecated", f"`type: {kind}` is deprecated", "type", fix)
        if field in own.known and own.known[field] != kind:
            self._report_problem("warning", "twice", f"`{field}` overrides `type: {kind}`", "type")
        return replace(own, known={field: kind, **own.known}, written={field: "type", **own.written})

    def _validate_step(self, known: JsonObject, others: JsonObject) -> tuple[StepForm | None, JsonObject]:
        known, others = self._normalize_branches(known), dict(others)
        form, faults = validate_form(StepForm, known, self._locate_field)
        self.faulty = {name for name, _ in faults}
        soft = {name for name in self.faulty if self.lenient and name in known and name not in STRICT}
        for name in sorted(soft):
            others[self.written.get(name, name)] = known[name]
            if known[name] is not None:
                message = (
                    f"`{self._locate_field((name,))[0]}` can't be {show_value(known[name])}: it has no effect"
                )
                self._report_problem("warning", "odd_value", message, name)
        self.problems.extend(found for name, found in faults if name not in soft)
        if form is None:
            sound = {key: value for key, value in known.items() if key not in self.faulty}
            form, _ = validate_form(StepForm, sound, self._locate_field)
        return form, others

    def _normalize_branches(self, known: JsonObject) -> JsonObject:
        """Return the step with its branches in our spelling too."""
        branches = known.get("branches")
        if not isinstance(branches, list):
            return known
        own = [
            normalize_keys(branch, BRANCH_SPELLINGS).known if isinstance(branch, dict) else branch
            for branch in branches
        ]
        return {**known, "branches": own}

    def _check_fields_of_type(self, form: StepForm, known: Mapping[str, Any]) -> None:
        """Report fields that only another type of step has, and fields that have no effect on a decision."""
        kind = _get_step_type(form)
        for name in known:
            allowed = _ONLY.get(name) if "stepType" not in self.faulty else None
            if allowed and kind not in allowed and known[name] is not None:
                severity: Literal["error", "warning"] = "warning" if self.lenient else "error"
                message = f"`{self._locate_field((name,))[0]}` is only allowed in {_join_types(allowed)}, but this is a {kind}"
                fix = f"remove it, or set stepType to {' or '.join(sorted(allowed))}"
                self._report_problem(severity, "other_type", message, name, fix)
            elif kind == "decision" and name in _ASKED and known[name]:
                message = f"`{self._locate_field((name,))[0]}` has no effect: a decision runs no agent"
                self._report_problem(
                    "warning", "no_effect", message, name, "set it in a task before the decision"
                )

    def _invert_input_mapping(self, form: StepForm) -> dict[str, str]:
        """Return the input mapping by name in the child's input, the reverse of how it is written."""
        mapping: dict[str, str] = {}
        for source, target in (form.input_mapping or {}).items():
            if target in mapping:
                message = f"`{target}` is set twice: from `{mapping[target]}` and from `{source}`"
                self._report_problem("error", "twice", message, "inputMapping")
            mapping[target] = source
        return mapping

    def _report_unknown_fields(self, others: Mapping[str, Any]) -> None:
        for key in others:
            path = f"{self.path}.{key}"
            if key in _QUIET or any(path == found.path for found in self.problems):
                continue
            message = f"unknown field `{path}`: it is kept but has no effect"
            place = (path, self.lines.get(path, self.lines.get(self.path)))
            near = suggest_name(key, FIELDS)
            fix = near if near.startswith("did") and not self.lenient else ""
            self.problems.append(make_problem("warning", "unknown_field", message, place, fix))

    def _locate_field(self, path: tuple[str | int, ...]) -> Place:
        """Return the path of a field as spelled in the file, and its line, or that of the nearest part around
        it.
        """
        shown_path = self.path
        for part in path:
            if isinstance(part, int):
                shown_path += f"[{part}]"
            else:
                shown_path += f".{self._find_spelling(part, shown_path)}"
        around = shown_path
        while around not in self.lines and len(around) > len(self.path):
            around = around[: max(around.rfind("."), around.rfind("["))]
        return shown_path, self.lines.get(around)

    def _find_spelling(self, name: str, around: str) -> str:
        if around == self.path:
            return self.written.get(name, name)
        spellings = [other for other, meaning in BRANCH_SPELLINGS.items() if meaning == name] or [name]
        return next((other for other in spellings if f"{around}.{other}" in self.lines), name)

    def _report_problem(
        self, severity: Literal["error", "warning"], code: str, message: str, name: str, fix: str = ""
    ) -> None:
        self.problems.append(make_problem(severity, code, message, self._locate_field((name,)), fix))


def _get_step_type(form: StepForm) -> str:
    kind = form.step_type or "task"
    return "subflow" if kind == "flow" else kind


def _join_types(kinds: frozenset[str]) -> str:
    return " or ".join(f"a {kind}" for kind in sorted(kinds))


def _make_step(form: StepForm, others: JsonObject, mapping: dict[str, str]) -> Step:
    return Step(
        id=form.id,
        name=form.name or form.id,
        step_type=StepType(_get_step_type(form)),
        execution=Execution(form.execution or "automated"),
        agent_role=form.agent_role or None,
        guidance=tuple(form.guidance),
        subflow=form.subflow_id or None,
        input_mapping=mapping,
        item_limits=_make_item_limits(form),
        config={**({"description": form.description} if form.description else {}), **others},
        **dict(_copy_fields(form)),
    )


def _make_item_limits(form: StepForm) -> ItemLimits | None:
    own = form.item_limits.model_dump(exclude_none=True) if form.item_limits else {}
    return ItemLimits.model_validate(own) if own else None


def _copy_fields(form: StepForm) -> Iterator[tuple[str, Any]]:
    """Yield the fields that are the same in a form and a step, if they were written."""
    for name in (
        "prompt",
        "role",
        "model",
        "review",
        "review_role",
        "confirm",
        "items_path",
        "item_variable",
        "index_variable",
        "number_variable",
        "max_items",
        "min_success_percent",
        "await_tag",
        "response_format",
        "confidence",
        "when",
        "max_visits",
        "rounds",
        "asks_after",
        "external",
    ):
        value = getattr(form, name)
        if value is not None:
            yield name, value
