"""Reads a reviewer's `output`: `{"verdict", "issues", "suggestions"}`, without guessing what matters.

A verdict is PASS or FAIL, and nothing else; issues and suggestions are lists. An issue needs only a message:
anything missing or misspelled in it counts as the more severe reading, with a warning, because a finding must
not get lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from logist.core.answer.findings import to_printable_line
from logist.core.model import Check, JsonObject
from logist.lazy_patterns import compile_on_use
from logist.quick_dataclass import dataclass

PASS, FAIL = "PASS", "FAIL"
ERROR, WARNING, SUGGESTION = "error", "warning", "suggestion"
MOST_FINDINGS = 200
"""The most findings to keep of one review; a warning says how many there were."""
MOST_CHARACTERS = 2000
"""The most characters to keep of the text of one finding."""
FINDINGS = "findings"
"""Another name for `issues`, which some models use."""
OUTPUT_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "issues": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "check": {"type": "string"},
                    "severity": {"type": "string", "enum": [ERROR, WARNING]},
                    "file": {"type": ["string", "null"]},
                    "line": {"type": ["integer", "null"]},
                    "message": {"type": "string"},
                },
                "required": ["check", "severity", "file", "line", "message"],
                "additionalProperties": False,
            },
        },
        "suggestions": {"type": "array", "items": {"type": "string"}},
        "verdict": {"type": "string", "enum": [PASS, FAIL]},
    },
    "required": ["issues", "suggestions", "verdict"],
    "additionalProperties": False,
}
"""What a provider that enforces forms is asked for; `read_verdict` reads more."""
_READ = frozenset({"verdict", "issues", FINDINGS, "suggestions"})
_NAME = 300
_NAMED = 5
_FENCED = compile_on_use(r"\s*(`{3,})[a-z]*\n(.*)\n\1\s*", re.DOTALL)


@dataclass(frozen=True)
class ReviewVerdict:
    """The verdict and the findings of a reviewer."""

    verdict: str
    """PASS or FAIL; empty if `fault` says why it can't be read."""
    findings: tuple[JsonObject, ...] = ()
    """Issues and suggestions: `{check, severity, file, line, message}`, without the fields that the reviewer left out."""
    warnings: tuple[str, ...] = ()
    """Where the output doesn't have the requested form."""
    fault: str = ""
    """Why the output is not a valid review; empty if it is one."""


def parse_text_output(output: Any) -> Any:
    """Parse the object that a reviewer wrote as text, fenced or not; anything else is returned unchanged."""
    if not isinstance(output, str):
        return output
    fenced = _FENCED.fullmatch(output)
    try:
        parsed = json.loads(fenced[2] if fenced else output)
    except (ValueError, RecursionError):
        return output
    return parsed if isinstance(parsed, dict) else output


def read_verdict(output: Any, checks: Mapping[str, Check]) -> ReviewVerdict | None:
    """Read the review in the `output` of an answer; None if it has no `verdict`.

    Never raises, whatever the output.

    `checks` are all known checks by name, including disabled ones.
    """
    if not isinstance(output, dict) or "verdict" not in output:
        return None
    verdict_value = output["verdict"]
    verdict = verdict_value.strip().upper() if isinstance(verdict_value, str) else ""
    if verdict not in (PASS, FAIL):
        return ReviewVerdict("", fault="`output.verdict` is neither PASS nor FAIL")
    for name in ("issues", FINDINGS, "suggestions"):
        if not isinstance(output.get(name, []), list | None):
            return ReviewVerdict("", fault=f"`output.{name}` is no list")
    warnings = _warn_of_unread_keys(output)
    findings = [
        *_read_issues("issues", output, checks, warnings),
        *_read_issues(FINDINGS, output, checks, warnings),
        *_read_suggestions(output.get("suggestions") or [], warnings),
    ]
    if len(findings) > MOST_FINDINGS:
        warnings.append(f"the review has {len(findings)} findings; the first {MOST_FINDINGS} are kept")
        findings = _keep_gravest(findings)
    return ReviewVerdict(verdict, tuple(findings), tuple(warnings))


def _keep_gravest(found: list[JsonObject]) -> list[JsonObject]:
    """Keep the first MOST_FINDINGS findings by severity, in their original order."""
    order = {ERROR: 0, WARNING: 1, SUGGESTION: 2}
    ranked = sorted(range(len(found)), key=lambda index: order[found[index]["severity"]])
    return [found[index] for index in sorted(ranked[:MOST_FINDINGS])]


def _warn_of_unread_keys(output: Mapping[str, Any]) -> list[str]:
    """Warn about keys that are not part of a review; they have no effect."""
    unknown = [to_printable_line(name)[:_NAME] for name in output if name not in _READ]
    more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
    return [f"not read of output: {', '.join(unknown[:_NAMED])}{more}"] if unknown else []


def _read_issues(
    name: str, output: Mapping[str, Any], checks: Mapping[str, Check], warnings: list[str]
) -> Iterator[JsonObject]:
    for index, issue in enumerate(output.get(name) or []):
        where = f"output.{name}[{index}]"
        issue_fields = issue if isinstance(issue, dict) else {"message": issue}
        check = _find_check(_read_name(issue_fields.get("check")), checks)
        severity, remark = _read_severity(issue_fields.get("severity"), checks.get(check))
        if remark:
            warnings.append(f"{where}: {remark}")
        message = _read_message(issue_fields.get("message"))
        if not message:
            message = "(the reviewer gave no words for it)"
            warnings.append(f"{where} has no message")
        yield {
            **({"check": check} if check else {}),
            "severity": severity,
            **_read_place(issue_fields),
            "message": message,
        }


def _find_check(name: str, checks: Mapping[str, Check]) -> str:
    """Return the check that is meant: `Build-Passes` is `build_passes`.

    Of several similar ones, it is the one with the most severe effect.
    """
    if not name or name in checks:
        return name
    alike = [each for each in checks if _normalize_name(each) == _normalize_name(name)]
    ranked = sorted(alike, key=lambda each: (not checks[each].enabled, checks[each].severity != ERROR))
    return ranked[0] if ranked else name


def _normalize_name(name: str) -> str:
    return re.sub(r"[\s_-]+", "_", name.casefold())


def _read_severity(said: Any, check: Check | None) -> tuple[str, str]:
    """Return the severity of an issue, and a remark if it was odd.

    The more severe of the reviewer's word and the config of its check counts. An issue of a disabled check
    has no effect.
    """
    if check is not None and not check.enabled:
        return SUGGESTION, "its check is switched off, so it decides nothing"
    stated = said.strip().lower() if isinstance(said, str) else None
    if stated in (ERROR, WARNING):
        is_error = ERROR in (stated, check.severity if check else None)
        return (ERROR if is_error else WARNING), ""
    if said is None and check is not None:
        return (WARNING if check.severity == WARNING else ERROR), ""
    return ERROR, "its severity is neither error nor warning, so it counts as an error"


def _read_place(issue: Mapping[str, Any]) -> JsonObject:
    """Read file and line, as far as they are valid."""
    file, line = _read_name(issue.get("file")), issue.get("line")
    if not isinstance(line, int | str) or isinstance(line, bool) or not str(line).strip():
        line = None
    if isinstance(line, str):
        line = int(line) if line.isascii() and line.isdigit() and len(line) < 10 else _read_name(line)
    return {**({"file": file} if file else {}), **({"line": line} if line is not None else {})}


def _read_suggestions(suggestions: list[Any], warnings: list[str]) -> Iterator[JsonObject]:
    for index, suggestion in enumerate(suggestions):
        message = suggestion.get("message") if isinstance(suggestion, dict) else suggestion
        words = _read_message(message)
        if words:
            yield {"severity": SUGGESTION, "message": words}
        else:
            warnings.append(f"output.suggestions[{index}] has no words")


def _read_message(value: Any) -> str:
    if value is None or isinstance(value, dict | list):
        return ""
    text = str(value).strip()
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}..."


def _read_name(value: Any) -> str:
    return " ".join(value.split())[:_NAME] if isinstance(value, str) else ""
