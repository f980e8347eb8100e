"""Decides whether work is sent back, by the verdict, the findings, the check results and the review mode."""

from __future__ import annotations

from collections.abc import Mapping
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
from logist.quick_dataclass import dataclass

if TYPE_CHECKING:  # folding a history doesn't need the code that reads answers
    from logist.core.answer.exit_command import ExitCommand

Mode = Literal["strict", "normal", "yolo"]


@dataclass(frozen=True)
class Gate:
    """The result of a review, including the checks."""

    blocked: bool
    """The work is sent back."""
    verdict: str | None
    """The final PASS or FAIL; None if the reviewer gave none and no check ran."""
    findings: tuple[JsonObject, ...] = ()
    """All findings, failed checks first, including those that don't block."""
    reason: str = ""
    """Why it is blocked."""
    warnings: tuple[str, ...] = ()
    """Where the review doesn't follow its instructions."""
    fault: str = ""
    """Why the verdict can't be read from the answer; if set, the other fields mean nothing."""


def get_review_mode(spec: EffectiveSpec) -> Mode:
    """Return the review mode of a job; a mode that only a newer Logist knows counts as strict."""
    if spec.review_mode is None:
        return "normal"
    return "yolo" if spec.review_mode == "yolo" else "strict"


def get_checks(spec: EffectiveSpec) -> dict[str, Check]:
    """Return all checks of a job by name, including disabled ones."""
    return dict(CHECKS) if spec.checks is None else spec.checks


def is_run_by_logist(check: Check) -> bool:
    """Whether a check runs a command, instead of being judged by the reviewer."""
    return check.enabled and bool(check.command)


def select_checks_to_run(
    spec: EffectiveSpec, state: State, phase: Phase, *, touched: bool = False
) -> dict[str, Check]:
    """Select the checks whose commands run when an agent has completed its part.

    After the doer, these are all checks; after the reviewer, those that did not run before, for example
    because a steward sent unfinished work to the review or suspended the job. `touched`: the workspace has
    changed since then, so earlier results don't count.
    """
    commands = {name: check for name, check in get_checks(spec).items() if is_run_by_logist(check)}
    if phase is not Phase.REVIEWER or touched:
        return commands
    run_before = {result.check for result in state.checks or () if result.outcome != NOT_RUN}
    return {name: check for name, check in commands.items() if name not in run_before}


def is_blocking(mode: Mode, severity: Any) -> bool:
    """Whether a finding of this severity sends work back: errors do, in strict mode all except suggestions."""
    return severity == ERROR or (mode == "strict" and severity != SUGGESTION)


def judge_review(spec: EffectiveSpec, state: State, observed: Observed, command: ExitCommand) -> Gate | None:
    """Combine a reviewer's answer and the results of the checks; None if nothing was judged.

    FAIL and RETRY send the work back in every mode. PASS does not override a blocking finding or check;
    neither does COMPLETED without output, which is allowed if a person decides afterwards. If the reviewer
    must give a verdict, an unreadable one is a fault: an answer that was meant as FAIL must not pass.
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
    """Read the review in an answer; without a verdict if it has none and needs none."""
    asked = bool(observed.asks_verdict)
    output = parse_text_output(command.output) if asked else command.output
    review = read_verdict(output, get_checks(spec))
    if not asked or command.action is not ExitAction.COMPLETED:
        return ReviewVerdict("") if review is None or review.fault else review
    if review is not None:
        return review
    if output:
        return ReviewVerdict("", fault="`output` has no `verdict`")
    if _is_merged_unseen(spec):
        return ReviewVerdict(
            "", fault="no verdict, but the work would be merged without approval by a person"
        )
    needs_warning = spec.approval is Approval.NONE
    return ReviewVerdict(
        "", warnings=("no verdict in the review: only the checks count",) if needs_warning else ()
    )


def _is_merged_unseen(spec: EffectiveSpec) -> bool:
    """Whether no person decides after the review, so that a missing verdict must not count as acceptance."""
    return get_review_mode(spec) == "yolo" or (bool(spec.auto_merge) and spec.approval is Approval.NONE)


def _build_finding(result: CheckResult, checks: Mapping[str, Check]) -> JsonObject:
    check = checks.get(result.check)
    severity = WARNING if (check or result).severity == WARNING else ERROR
    message = format_check_result(result.outcome, result.exit_code, result.reason)
    return {"check": result.check, "severity": severity, "message": message}


def _build_reason(summary: str, stops: list[JsonObject], *, back: bool) -> str:
    """Describe for a steward why work is sent back."""
    check_names = list(dict.fromkeys(str(found.get("check") or "a finding") for found in stops))
    blocked_by = f"blocked by {', '.join(check_names[:5])}" + (
        f" and {len(check_names) - 5} more" if len(check_names) > 5 else ""
    )
    if not back:
        return blocked_by
    summary_or_default = summary or "the review failed"
    return f"{summary_or_default} ({blocked_by})" if check_names else summary_or_default


def has_rejected_work(state: State) -> bool:
    """Whether the last judgement of the work is a review that sent it back."""
    last = state.last
    if last is None or last.phase is not Phase.REVIEWER:
        return False
    if state.workflow is not None and state.output_of != state.step:
        return False  # a steward has accepted it anyway, and the job is at another step
    return last.action is ExitAction.RETRY or last.verdict == FAIL
