"""What sends work back: the verdict, the findings and the results of checks, by the mode of the review."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from logist.core.answer.findings import NOT_RUN, format_check_result, is_failed_check, merge_check_results
from logist.core.model import (
    CHECKS,
    Approval,
    Check,
    CheckResult,
    EffectiveSpec,
    ExitAction,
    JsonObject,
    Observed,
    Phase,
    State,
)
from logist.core.review.verdict import (
    ERROR,
    FAIL,
    PASS,
    SUGGESTION,
    WARNING,
    ReviewVerdict,
    parse_text_output,
    read_verdict,
)

if TYPE_CHECKING:  # who only folds a history has no use for what reads answers
    from logist.core.answer.exit_command import ExitCommand

Mode = Literal["strict", "normal", "yolo"]


@dataclass(frozen=True)
class Gate:
    """What a reviewer's answer comes to, the checks included."""

    blocked: bool
    """The work goes back."""
    verdict: str | None
    """PASS or FAIL as it counts; None where nobody gave one and there was nothing to check."""
    findings: tuple[JsonObject, ...] = ()
    """What was found, failed checks first; also what does not block."""
    reason: str = ""
    """Why it is blocked."""
    warnings: tuple[str, ...] = ()
    """What of the review was not as it was asked for."""
    fault: str = ""
    """Why the answer can't be told from its output: then all else says nothing."""


def get_review_mode(spec: EffectiveSpec) -> Mode:
    """The mode of a job; one that only a newer Logist knows is taken for the strictest."""
    if spec.review_mode is None:
        return "normal"
    return "yolo" if spec.review_mode == "yolo" else "strict"


def get_checks(spec: EffectiveSpec) -> dict[str, Check]:
    """All checks of a job by name, the switched-off ones too."""
    return dict(CHECKS) if spec.checks is None else spec.checks


def runs_command(check: Check) -> bool:
    """Whether a command finds out, and not the reviewer."""
    return check.enabled and bool(check.command)


def select_checks_to_run(
    spec: EffectiveSpec, state: State, phase: Phase, *, touched: bool = False
) -> dict[str, Check]:
    """The checks whose commands are run when an agent has completed its part.

    After the doer that is all of them; after the reviewer those that were not run before, as when a steward has sent
    work to the review that no doer has completed, or has set the job aside. `touched`: somebody has changed the
    workspace since, so that none of them says anything of it any more.
    """
    commands = {name: check for name, check in get_checks(spec).items() if runs_command(check)}
    if phase is not Phase.REVIEWER or touched:
        return commands
    run_before = {result.check for result in state.checks or () if result.outcome != NOT_RUN}
    return {name: check for name, check in commands.items() if name not in run_before}


def is_blocking(mode: Mode, severity: Any) -> bool:
    """Whether a finding of this severity sends work back; in strict all do but suggestions."""
    return severity == ERROR or (mode == "strict" and severity != SUGGESTION)


def judge_review(spec: EffectiveSpec, state: State, observed: Observed, command: ExitCommand) -> Gate | None:
    """What a reviewer's answer and the results of the checks come to together; None where nobody judged the work.

    FAIL and RETRY send the work back in every mode; PASS, or COMPLETED without any output where a person comes after
    it, does not outweigh a finding or a check that blocks. What can't be told for a verdict is a fault where the
    reviewer was told which there are: what was meant as FAIL must not pass.
    """
    if observed.phase is not Phase.REVIEWER or command.action is ExitAction.STUCK:
        return None
    mode, checks = get_review_mode(spec), get_checks(spec)
    review = _read_review(spec, observed, command)
    if review.fault:
        return Gate(blocked=True, verdict=None, fault=review.fault)
    results = merge_check_results(state.checks or (), observed.checks)
    findings = (
        *(_build_finding(each, checks) for each in results if is_failed_check(each.outcome)),
        *review.findings,
    )
    blocking = [found for found in findings if is_blocking(mode, found["severity"])]
    is_rejected = command.action is ExitAction.RETRY or review.verdict == FAIL
    blocked = is_rejected or bool(blocking)
    verdict = (FAIL if blocked else PASS) if review.verdict or results else None
    reason = _build_reason(command.summary, blocking, back=is_rejected) if blocked else ""
    return Gate(blocked, verdict, findings, reason, review.warnings)


def _read_review(spec: EffectiveSpec, observed: Observed, command: ExitCommand) -> ReviewVerdict:
    """The review in an answer; without a verdict where it gives none, and need not."""
    asked = bool(observed.asks_verdict)
    output = parse_text_output(command.output) if asked else command.output
    review = read_verdict(output, get_checks(spec))
    if not asked or command.action is not ExitAction.COMPLETED:
        return ReviewVerdict("") if review is None or review.fault else review
    if review is not None:
        return review
    if output:
        return ReviewVerdict("", fault="`output` holds no `verdict`")
    if _is_merged_unseen(spec):
        return ReviewVerdict("", fault="it gives no verdict, and what it accepts would be merged unseen")
    needs_warning = spec.approval is Approval.NONE
    return ReviewVerdict(
        "", warnings=("it gives no verdict: nothing but the checks was judged",) if needs_warning else ()
    )


def _is_merged_unseen(spec: EffectiveSpec) -> bool:
    """Whether no person comes after the review: then silence is no word."""
    return get_review_mode(spec) == "yolo" or (bool(spec.auto_merge) and spec.approval is Approval.NONE)


def _build_finding(result: CheckResult, checks: Mapping[str, Check]) -> JsonObject:
    check = checks.get(result.check)
    severity = WARNING if (check or result).severity == WARNING else ERROR
    message = format_check_result(result.outcome, result.exit_code, result.reason)
    return {"check": result.check, "severity": severity, "message": message}


def _build_reason(summary: str, stops: list[JsonObject], *, back: bool) -> str:
    """Why work goes back, in words for a steward."""
    check_names = list(dict.fromkeys(str(found.get("check") or "a finding") for found in stops))
    blocked_by = f"blocked by {', '.join(check_names[:5])}" + (
        f" and {len(check_names) - 5} more" if len(check_names) > 5 else ""
    )
    if not back:
        return blocked_by
    summary_or_default = summary or "the review failed"
    return f"{summary_or_default} ({blocked_by})" if check_names else summary_or_default


def has_rejected_work(state: State) -> bool:
    """Whether the last word on the work is a review that sent it back."""
    last = state.last
    if last is None or last.phase is not Phase.REVIEWER:
        return False
    if state.workflow is not None and state.output_of != state.step:
        return False  # a steward has accepted it all the same, and another step is at hand
    return last.action is ExitAction.RETRY or last.verdict == FAIL
