"""Turns the findings of reviews and the failed checks of a job into results of SARIF 2.1.0.

Source of the names: OASIS, Static Analysis Results Interchange Format (SARIF) 2.1.0.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from logist.core.answer.findings import format_check_result, is_failed_check
from logist.core.model import Interaction, JsonObject, Kind, Phase
from logist.core.model.commands import ApproveCommand, AskCommand
from logist.core.secrets.redact import redact
from logist.digests import compute_sha256
from logist.quick_dataclass import dataclass

LEVELS = {"error": "error", "warning": "warning", "suggestion": "note"}
"""The level in SARIF by the severity of a finding."""
GENERAL = "review"
"""The rule of findings that belong to no check."""
LONGEST_NAME = 200
ROOT = "%SRCROOT%"
"""How SARIF names the directory of the repository, which the reader knows."""


@dataclass
class _StepFindings:
    """What the last review of a step found."""

    findings: list[JsonObject] = field(default_factory=list)
    sequence: int = 0
    files: tuple[str, ...] = ()
    """The files that the last doer of the step changed; or else, those that it named as evidence."""
    override: Interaction | None = None
    """The approval of a steward in spite of them."""


class FindingCollector:
    """Collects the findings of one job that are not superseded by a later review of the same step."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._steps: dict[str, _StepFindings] = {}

    def read_interaction(self, entry: Interaction) -> None:
        """Take the next interaction of the job."""
        step = self._steps.setdefault(entry.step or entry.after.step, _StepFindings())
        if entry.kind == Kind.APPROVE and ApproveCommand.read(entry.command).override:
            step.override = entry
        if entry.kind != Kind.ASK or entry.observed is None:
            return
        if entry.observed.phase is Phase.REVIEWER:
            command = AskCommand.read(entry.command)
            if command.verdict is None and command.findings is None:
                return  # no review: the findings of the one before still hold
            step.findings, step.sequence = list(command.findings or ()), entry.sequence
            step.override = None
            return
        changed = tuple(
            change.path
            for change in entry.observed.changes
            if change.kind != "deleted" and not change.cache and change.mode.startswith("100")
        )
        # Of an answer that was supplied by hand, no changes are observed, but it names its files.
        step.files = changed or tuple(each.path for each in entry.observed.evidence if each.sha256)
        failed = [
            {
                "check": each.check,
                "severity": each.severity,
                "message": format_check_result(each.outcome, each.exit_code, each.reason),
            }
            for each in entry.observed.checks
            if is_failed_check(each.outcome)
        ]
        if entry.observed.checks:
            ran = {each.check for each in entry.observed.checks}
            # A check that ran again replaces its result, not what the reviewer wrote about some file.
            reviewed = [each for each in step.findings if each.get("check") not in ran or each.get("file")]
            step.findings = [*failed, *reviewed]
            step.sequence, step.override = entry.sequence, None

    def build_results(self) -> list[JsonObject]:
        """Return the results of SARIF, in the order of the steps and their findings."""
        return [
            self._build_result(name, step, finding)
            for name, step in self._steps.items()
            for finding in step.findings
        ]

    def _build_result(self, step_name: str, step: _StepFindings, finding: JsonObject) -> JsonObject:
        rule = find_rule(finding)
        level = LEVELS.get(str(finding.get("severity")), "warning")
        text = redact(str(finding.get("message") or "(no message)"), ())[0]
        file = read_file(finding.get("file"))
        # A failed check belongs to no file: readers that need one get the first file of the work.
        place = file or next(filter(None, map(read_file, step.files)), None)
        line = finding.get("line") if file else None
        fingerprint = compute_sha256(json.dumps([rule, file, " ".join(text.split())]).encode())
        return {
            "ruleId": rule,
            "level": level,
            "message": {"text": text},
            **({"locations": [_build_location(place, line)]} if place else {}),
            # The second is the only one that GitHub reads; neither has the line, which moves with other changes.
            "partialFingerprints": {
                "logistFinding/v1": fingerprint,
                "primaryLocationLineHash": f"{fingerprint[:16]}:1",
            },
            **_build_suppressions(step, level),
            "properties": {"job": self._job, "step": step_name, "sequence": step.sequence},
        }


def find_rule(finding: Mapping[str, Any]) -> str:
    """Return the rule that a finding belongs to: its check."""
    check = finding.get("check")
    return check[:LONGEST_NAME] if isinstance(check, str) and check else GENERAL


def read_file(name: Any) -> str | None:
    """Return a file that a reviewer named, relative to the repository; None if it can't be one of its files."""
    if not isinstance(name, str) or not name or "\0" in name or "\\" in name or ":" in name:
        return None
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return None if name.startswith("/") or ".." in parts or not parts else "/".join(parts)


def build_log(results: Iterable[JsonObject], version: str, *, is_complete: bool) -> JsonObject:
    """Return the SARIF log of all results. `is_complete`: every history could be read to its end."""
    listed = list(results)
    names = sorted({str(each["ruleId"]) for each in listed})
    places = {name: index for index, name in enumerate(names)}
    driver = {
        "name": "logist",
        "version": version,
        "rules": [_build_rule(name) for name in names],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": is_complete}],
        "columnKind": "unicodeCodePoints",
        "results": [{**each, "ruleIndex": places[str(each["ruleId"])]} for each in listed],
    }
    return {
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }


def _build_rule(name: str) -> JsonObject:
    text = "Findings of a review that belong to no check" if name == GENERAL else f"Review check: {name}"
    return {"id": name, "shortDescription": {"text": text}}


def _build_location(file: str, line: Any) -> JsonObject:
    place: JsonObject = {"artifactLocation": {"uri": _quote(file), "uriBaseId": ROOT}}
    if isinstance(line, int) and not isinstance(line, bool) and 0 < line < 2**31:
        place["region"] = {"startLine": line}
    return {"physicalLocation": place}


def _quote(file: str) -> str:
    """Return the address of a file: bytes that an address can't have are escaped."""
    return "".join(
        chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in file.encode("utf-8", "surrogateescape")
    )


_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")


def _build_suppressions(step: _StepFindings, level: str) -> JsonObject:
    """Return that a steward approved the work in spite of a finding; readers then list it as dismissed."""
    if step.override is None or level == "note":
        return {}
    note = step.override.steward.note if step.override.steward is not None else None
    reason = f": {redact(note, ())[0]}" if note else ""
    justification = f"approved by a steward{reason}"
    return {"suppressions": [{"kind": "external", "status": "accepted", "justification": justification}]}
