"""Prompt drift: compares an archived request with the one that Logist would send today.

Rules (the contract, the role, its permissions and template, the step) are built from the current files; parts
that depend on the history (the task, earlier answers, findings) from the spec and the state of that time.
Parts from the workspace and from other jobs are taken from the archive. So every difference is caused by a
file that has changed, or by Logist itself, and the cause says which.
"""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from logist.core.answer.exit_command import extract_text_before_command
from logist.core.model import EffectiveSpec, Interaction, Phase, Request, Role, State, Workflow
from logist.core.prompt import archived_request, prompt_parts
from logist.core.prompt.archived_request import PromptBlock
from logist.core.prompt.budget import LEFT_OUT, PRIORITIES
from logist.core.prompt.prompt_parts import UnplacedPart
from logist.core.prompt.redaction_marks import read_redaction_marks
from logist.core.replay import drift_causes
from logist.core.replay.drift_causes import Today
from logist.core.step import step
from logist.core.step.step_instructions import Instructed, build_instructions
from logist.core.text import line_diff
from logist.quick_dataclass import dataclass

__all__ = [
    "Change",
    "Comparison",
    "Drift",
    "Today",
    "compare_answers",
    "compare_prompts",
    "find_drifts",
    "find_setting_differences",
]

Change: TypeAlias = Literal["changed", "added", "gone"]
SETTINGS = (
    *("role", "phase", "step", "model", "provider_model", "endpoint", "temperature", "max_output_tokens"),
    *("agent", "permissions", "tools", "redactions", "logist", "schema"),
)
"""Metadata of a request to compare, in addition to the prompt."""
Key: TypeAlias = tuple[str, int]
_NUMBER = re.compile("[0-9]+")


@dataclass(frozen=True)
class Drift:
    """One part of a prompt that is different today."""

    sequence: int
    """The interaction of the request."""
    source: str
    """The part: `role:Worker`, `contract`, `task`, `file:src/a.py`; empty for the prompt as a whole. Or a setting
    sent with the prompt: `model`, `temperature`, `tools`."""
    change: Change
    cause: str
    """In words, for example `the role file Worker (roles/Worker.yaml) has changed`."""
    diff: tuple[str, ...] = ()
    """Lines without their breaks: `-` is the archive, `+` today."""


@dataclass(frozen=True)
class Comparison:
    """The comparison of two prompts, part by part."""

    equal: tuple[str, ...]
    """The parts that are the same, in their order."""
    drifts: tuple[Drift, ...]


def find_drifts(spec: EffectiveSpec, state: State, entry: Interaction, today: Today) -> list[Drift]:
    """Return the parts of a recorded request that would be different today.

    `spec` and `state` are those before it. The list is empty if nothing differs, or if the archive does not
    list the parts of its prompt.
    """
    if not entry.request.parts:
        return []
    drift_context = drift_causes.DriftContext(spec, state, entry, today)
    found = (
        [_build_drift(entry, drift_context, "schema", "changed", "", "")]
        if drift_context.has_schema_changed
        else []
    )
    role = today.role
    if role is None:
        return [*found, _build_drift(entry, drift_context, f"role:{drift_context.role_name}", "gone", "", "")]
    masked_names = read_redaction_marks(entry.request.metadata)
    found += [
        _build_drift(
            entry,
            drift_context,
            name,
            "changed",
            _format_setting(then),
            today.redact(_format_setting(now))[0],
        )
        for name, (then, now) in drift_context.find_changed_settings(role).items()
        if name not in masked_names
    ]
    try:
        return found + _find_prompt_drifts(
            _replace_step(spec, state, today), state, entry, role, drift_context
        )
    except RecursionError:
        return [*found, Drift(entry.sequence, "", "changed", "the history is nested too deep")]


def _find_prompt_drifts(
    spec: EffectiveSpec,
    state: State,
    entry: Interaction,
    role: Role,
    told: drift_causes.DriftContext,
) -> list[Drift]:
    phase = entry.observed.phase if entry.observed else step.find_owing_phase(state) or Phase.DOER
    if _is_equal_prompt(spec, state, entry.request, role, phase):
        return []
    return compare_part_by_part(spec, state, entry, role, phase, told)


def compare_part_by_part(
    spec: EffectiveSpec,
    state: State,
    entry: Interaction,
    role: Role,
    phase: Phase,
    told: drift_causes.DriftContext,
) -> list[Drift]:
    """Return the parts of the prompt that differ; whoever asks only whether it differs gets an answer sooner."""
    then = archived_request.read_blocks(entry.request)
    before = archived_request.key_blocks(then)
    matching = _Matching(archived_request.read_cuts(entry.request), told.today.redact)
    nearest = _Making(spec, state, role, phase, entry.request, then, before, matching).find_nearest()
    if not nearest.wrong:
        return _compare_whole(entry, told, nearest, before)
    has_template_changed = any(key[0].startswith("template:") for key, _ in nearest.wrong)
    told = replace(told, retold=has_template_changed and not told.is_role_unchanged)
    return [
        _build_drift(
            entry, told, key[0], change, _get_text(before, key), _render_today(before, nearest.now, key, told)
        )
        for key, change in nearest.wrong
        if not (change == "changed" and told.is_unrecorded_difference(before[key], nearest.now[key]))
    ]


def _is_equal_prompt(spec: EffectiveSpec, state: State, request: Request, role: Role, phase: Phase) -> bool:
    """Whether today's prompt is certainly equal, as most are: comparing it part by part takes longer.

    For a role with a template, only the comparison part by part tells.
    """
    if role.prompt_template is not None:
        return False
    given = archived_request.build_stand_ins(request)
    today = build_instructions(spec, state, role, given, phase)
    return archived_request.is_joined_from(request, today.system, today.user, today.joint)


@dataclass(frozen=True)
class _Made:
    """A rebuilt prompt, compared with the archived one."""

    told: Instructed
    now: Mapping[Key, PromptBlock]
    wrong: Sequence[tuple[Key, Change]]
    kept: Sequence[Key]
    """The parts that the archive has too."""
    likeness: tuple[int, int] = (0, 0)
    """The larger, the more similar: by parts, then by the pieces of a template."""


@dataclass(frozen=True)
class _Making:
    """Rebuilds a prompt, with stand-ins for what only the archive knows."""

    spec: EffectiveSpec
    state: State
    role: Role
    phase: Phase
    request: Request
    then: Sequence[PromptBlock]
    before: Mapping[Key, PromptBlock]
    matching: _Matching

    def find_nearest(self) -> _Made:
        """Return the rebuilt prompt that is most similar to the archived one.

        Tries the possible lengths of the lists, and stops at an equal prompt.
        """
        choices = archived_request.list_count_options(
            self.request, self.then, counted=self.role.prompt_template is not None
        )
        chosen = [options[0] for options in choices]
        best = self._rebuild_prompt(chosen)
        for number, options in enumerate(choices):
            for option in options[1:]:
                if not best.wrong:
                    return best
                counts = [*chosen[:number], option, *chosen[number + 1 :]]
                rebuilt = self._rebuild_prompt(counts)
                if rebuilt.likeness > best.likeness:
                    best, chosen = rebuilt, counts
        return best

    def _rebuild_prompt(self, counts: Sequence[Any]) -> _Made:
        given = archived_request.build_stand_ins(self.request, archived_request.Counts(*counts))
        instructions = build_instructions(self.spec, self.state, self.role, given, self.phase)
        blocks = archived_request.group_blocks([*instructions.system, *instructions.user])
        now = archived_request.key_blocks(blocks)
        wrong, kept = self.matching.compare_blocks(self.before, now)
        if not wrong:
            return _Made(instructions, now, wrong, kept)
        before, after = (_count_pieces(found, self.matching.cut) for found in (self.then, blocks))
        return _Made(
            instructions, now, wrong, kept, (-len(wrong), 2 * (before & after).total() - after.total())
        )


def _count_pieces(found: Sequence[PromptBlock], cut: Mapping[str, str]) -> Counter[tuple[str, str]]:
    """Count what the pieces of a prompt say, or that they exist; pieces that may be missing don't count."""
    return Counter(
        (piece.source, "" if archived_request.is_surrounding(piece.source) else piece.text)
        for block in found
        for piece in block.pieces
        if piece.source not in cut
    )


def _compare_whole(
    entry: Interaction, told: drift_causes.DriftContext, made: _Made, before: Mapping[Key, PromptBlock]
) -> list[Drift]:
    """Check whether the parts, which are all equal, are also in the same order and joined in the same way."""
    notes = [key for key in before if key[0] == LEFT_OUT]
    end = prompt_parts.find_end_of_context([key[0] for key in made.kept])
    keys = [*made.kept[:end], *notes, *made.kept[end:]]
    texts = [before[key].text for key in keys]
    user, joint = len(archived_request.group_blocks(made.told.system)), made.told.joint
    prompt = joint.join(texts[:user]) + prompt_parts.SEPARATOR + joint.join(texts[user:])
    then = entry.request.prompt
    return [] if prompt == then else [_build_drift(entry, told, "", "changed", then, prompt)]


@dataclass(frozen=True)
class _Matching:
    """Compares an archived prompt with a rebuilt one, given what was cut from the archived one."""

    cut: Mapping[str, str]
    redact: Callable[[str], tuple[str, int]]

    def compare_blocks(
        self, before: Mapping[Key, PromptBlock], now: Mapping[Key, PromptBlock]
    ) -> tuple[list[tuple[Key, Change]], list[Key]]:
        """Return the parts that differ, and those that both prompts have."""
        common_keys = [key for key in now if key in before]
        changes: list[tuple[Key, Change]] = []
        for key, block in now.items():
            if key in before:
                changes += [] if self._is_same(before[key], block) else [(key, "changed")]
            elif not (self._can_be_cut(block.source) and self.cut[block.source] == "dropped"):
                changes.append((key, "added"))
        changes += [(key, "gone") for key in before if key not in now and key[0] != LEFT_OUT]
        return changes, common_keys

    def _can_be_cut(self, source: str) -> bool:
        return source in self.cut and source.partition(":")[0] in PRIORITIES

    def _is_same(self, then: PromptBlock, now: PromptBlock) -> bool:
        if len(then.pieces) == len(now.pieces) == 1:
            one, other = then.pieces[0], now.pieces[0]
            if one.text == other.text:  # nearly all are equal
                return True
            return (then.is_given and now.is_given) or self._is_same_piece(one, other)
        return self._is_same_template(then.pieces, now.pieces) or self._is_same_template(
            then.pieces, prompt_parts.redact_pieces(now.pieces, self.redact)[0]
        )

    def _is_same_template(self, then: Sequence[UnplacedPart], now: Sequence[UnplacedPart]) -> bool:
        """Whether the pieces of a template match in order; pieces that may have been cut can be missing."""
        remaining = iter(now)
        for piece in then:
            for today in remaining:
                if today.source == piece.source and self._is_same_piece(piece, today):
                    break
                if not self._can_be_cut(today.source):
                    return False
            else:
                return False
        return all(self._can_be_cut(left.source) for left in remaining)

    def _is_same_piece(self, then: UnplacedPart, now: UnplacedPart) -> bool:
        if then.is_masked and then.source == now.source:
            return True
        if then.text == now.text or (
            then.source == now.source and archived_request.is_surrounding(now.source)
        ):
            return True
        if now.source == "limits" and _NUMBER.sub("", then.text) == _NUMBER.sub("", now.text):
            return True  # a request that continues after a failed turn has the prompt of the attempt before
        text = self.redact(now.text)[0]
        if then.text == text or archived_request.is_redacted(then.text, text):
            return True
        return self._can_be_cut(now.source) and archived_request.is_shortened(then.text, text)


def _replace_step(spec: EffectiveSpec, state: State, today: Today) -> EffectiveSpec:
    """Return the spec with the step as the workflow file defines it today."""
    flow, step = spec.workflow, today.step
    if flow is None or step is None:
        return spec
    steps = tuple(step if each.id == state.step else each for each in flow.steps)
    return spec.model_copy(update={"workflow": Workflow.model_copy(flow, update={"steps": steps})})


def _get_text(found: Mapping[Key, PromptBlock], key: Key) -> str:
    return found[key].text if key in found else ""


def _render_today(
    before: Mapping[Key, PromptBlock],
    now: Mapping[Key, PromptBlock],
    key: Key,
    told: drift_causes.DriftContext,
) -> str:
    """Render a part as it would be sent today, with the archived texts of the surroundings."""
    if key not in now or now[key].is_given:
        return ""
    archived_texts: dict[str, deque[str]] = {}
    for piece in before[key].pieces if key in before else ():
        archived_texts.setdefault(piece.source, deque()).append(piece.text)
    text = "".join(
        (archived_texts[piece.source].popleft() if archived_texts.get(piece.source) else "...")
        if archived_request.is_surrounding(piece.source)
        else piece.text
        for piece in now[key].pieces
    )
    clean = told.today.redact(text)[0]
    return archived_request.mask_like_archive(before[key].text, clean) if key in before else clean


def _format_setting(value: Any) -> str:
    """Format a setting on one line; an archive may contain any type."""
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else json.dumps(value)


def _build_drift(
    entry: Interaction, told: drift_causes.DriftContext, source: str, change: Change, then: str, now: str
) -> Drift:
    cause = told.find_cause(source, change)
    return Drift(entry.sequence, source, change, cause, _build_diff(change, then, now))


def _build_diff(change: Change, then: str, now: str) -> tuple[str, ...]:
    if change == "changed":
        return line_diff.diff_lines(then, now)
    return line_diff.mark_all_lines("-", then) if then else line_diff.mark_all_lines("+", now) if now else ()


def compare_prompts(then: Interaction, now: Interaction, names: tuple[str, str] | None = None) -> Comparison:
    """Compare the prompts of two asks, part by part: what is different in the second.

    `names` label the two in the causes.
    """
    before, after = (
        {
            key: block.text
            for key, block in archived_request.key_blocks(_read_blocks_or_whole(entry.request)).items()
        }
        for entry in (then, now)
    )
    return _compare_parts(before, after, now.sequence, names or (f"#{then.sequence}", f"#{now.sequence}"))


def compare_answers(then: Interaction, now: Interaction, names: tuple[str, str] | None = None) -> Comparison:
    """Compare the answers of two asks: the exit command, the text before it, and the resulting state."""
    names = names or (f"#{then.sequence}", f"#{now.sequence}")
    return _compare_parts(_split_answer(then), _split_answer(now), now.sequence, names)


def _compare_parts(
    before: Mapping[Key, str], after: Mapping[Key, str], sequence: int, names: tuple[str, str]
) -> Comparison:
    equal = tuple(key[0] for key, text in after.items() if before.get(key) == text)
    changes: list[tuple[Key, Change]] = [
        (key, "changed" if key in before else "added")
        for key, text in after.items()
        if before.get(key) != text
    ]
    changes += [(key, "gone") for key in before if key not in after]
    return Comparison(
        equal,
        tuple(
            Drift(
                sequence,
                key[0],
                change,
                drift_causes.describe_part_change(key[0], change, *names),
                _build_diff(change, before.get(key, ""), after.get(key, "")),
            )
            for key, change in changes
        ),
    )


def _split_answer(entry: Interaction) -> dict[Key, str]:
    """Split an answer into its parts; parts that it does not have are left out."""
    response = entry.response
    command = {
        "action": ", ".join(response.actions),
        "evidence_files": response.evidence_files,
        "summary_for_supervisor": response.summary_for_supervisor,
        "reason": response.reason,
        "output": response.output,
        "metadata": response.metadata,
        "error": response.error and response.error.model_dump(),
    }
    fields = {name: value for name, value in command.items() if value not in (None, "", [])}
    try:
        command_text = json.dumps(fields, ensure_ascii=False, indent=2) if fields else ""
    except RecursionError:
        command_text = response.raw_response
    parts = {
        "exit_command": command_text,
        "text": extract_text_before_command(response.raw_response),
        "outcome": "\n".join(filter(None, (f"{entry.state_before} -> {entry.state_after}", entry.reason))),
    }
    return {(source, 0): text for source, text in parts.items() if text}


def find_setting_differences(then: Request, now: Request) -> dict[str, tuple[object, object]]:
    """Return what else differs between two requests: who was asked, with which model, by which Logist."""
    pairs = {name: (then.metadata.get(name), now.metadata.get(name)) for name in SETTINGS}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _read_blocks_or_whole(request: Request) -> list[PromptBlock]:
    """Return the blocks of a request, or the whole prompt as one block if the archive lists no parts."""
    return archived_request.read_blocks(request) or [
        PromptBlock("prompt", (UnplacedPart("prompt", "given", request.prompt),))
    ]
