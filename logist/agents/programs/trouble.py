"""Why a program gave no answer: classifies its output into the kinds of
error that decide what happens next.
"""

from __future__ import annotations

import re

from logist.agents.programs.output import last_lines, strip_controls
from logist.agents.programs.protocol import Finished, Result, Spent
from logist.core.model import ErrorKind, TransportError
from logist.lazy_patterns import compile_on_use
from logist.quick_dataclass import dataclass

LONGEST = 500
"""Maximum characters of a message."""

_STATUS = compile_on_use(
    r"\b(?:status(?:[ _]?code)?|http(?:/[0-9.]+)?|code|(?:api|server|client|request) error|error)"
    r"[\"':=( ]{1,4}([45][0-9]{2})\b(?! ?(?:ms|s|tokens)\b)"
    r"|\b([45][0-9]{2}) (?:unauthorized|forbidden|too many requests|internal server|bad request|bad gateway"
    r"|not found|service unavailable)",
    re.IGNORECASE,
)
_WORDS = (
    # The order matters: "cannot connect" occurs in messages of every kind, and "context" comes before "key".
    (
        ErrorKind.TRANSIENT,
        (
            "connection was closed|connection (?:was )?(?:lost|reset)|econnreset|socket hang up"
            "|stream disconnected|decoding response|peer closed"
        ),
    ),
    (
        ErrorKind.REFUSED,
        (
            "connection refused|connectionrefused|econnrefused|connect(?:ion)? ?error|connecterror|fetch failed"
            "|(?:unable|failed|cannot|could not) (?:to )?connect|error sending request|enotfound|getaddrinfo"
            "|name resolution|name or service not known|no route to host|network is unreachable"
        ),
    ),
    (
        ErrorKind.BAD_REQUEST,
        (
            "context[ _](?:length|window|limit)|contextwindow|contextlength|prompt is too long"
            "|maximum context|too many tokens|input is too long|exceeds? the (?:max|limit)|hit a token limit"
            r"|(?:reached|exceeded)\W+(?:\w+\W+){0,3}max(?:imum)?\b[^.\n]{0,30}\b(?:turns|actions|steps|iterations)\b"
        ),
    ),
    (
        ErrorKind.AUTH,
        (
            "unauthori[sz]ed|unauthenticated|authentication|api[ _-]?key|not logged in|please run /login"
            "|permission_denied|forbidden|billing|credit balance"
        ),
    ),
    (
        ErrorKind.TRANSIENT,
        (
            "rate.?limit|too many requests|resource_exhausted|resource exhausted|quota|overloaded|high demand"
            "|internal server|internalserver|bad gateway|service unavailable|server error"
        ),
    ),
    (ErrorKind.TIMEOUT, "timed out|time-?out|etimedout|deadline exceeded"),
    (
        ErrorKind.BAD_REQUEST,
        "bad ?request|invalid_request|invalid request|not found|unknown model|unsupported",
    ),
)
_KINDS = [(kind, compile_on_use(words, re.IGNORECASE)) for kind, words in _WORDS]
_CUT = compile_on_use(
    r"max_output_tokens|max_tokens|output token (?:limit|maximum)|token limit|finish.?reason\W{1,4}length"
    r"|maximum output",
    re.IGNORECASE,
)
_BROKEN = compile_on_use(
    r"^Response: status_code=200$|RemoteProtocolError|peer closed connection|IncompleteRead", re.MULTILINE
)
"""Text on standard error if a connection broke after the answer had begun."""
_ENDS = 4000
"""Characters at the start and end of the output that are searched for an error about the command line: some programs
print their options before the error, some after it."""
_REJECTED = compile_on_use(
    # The errors of argparse, click, typer, commander, yargs, clap, cobra, Go's flag and getopt.
    r"^[^\w\n]{0,20}(?:[\w./-]{1,80}: )?(?:error: ?){0,2}(?:"
    r"(?:unknown|unrecognized|unexpected|illegal|ambiguous|unsupported|no such|got unexpected extra)"
    r"(?: (?:long|short|shorthand))? (?:option|argument|parameter|flag|switch|command|subcommand)s?\b"
    r"|invalid (?:option|argument|value|choice)s?\b(?=[^\n]{0,3}['\"-]| for\b|:$)"
    r"|invalid [\w -]{1,40} \"[^\"\n]*\" \(expected\b"
    r"|(?:the )?(?:option|argument|flag) [^\n]{1,80}?(?:requires|expected|needs|missing|is invalid|invalid"
    r"|cannot be used|not specified)\b"
    r"|(?:option|flag) (?:requires|needs) an argument"
    r"|flag provided but not defined"
    r"|a value is required for"
    r"|the following (?:required )?arguments\b"
    r"|(?:missing )?required (?:option|argument|flag)s?(?:\(s\))?\W"
    r"|missing (?:option|argument|parameter)s?\b"
    r"|too many arguments\b|not enough (?:non-option )?arguments\b"
    r")[^\n]*",
    re.IGNORECASE | re.MULTILINE,
)
_HELP = compile_on_use(r"^(?:usage|options|commands):", re.IGNORECASE | re.MULTILINE)
_OPTION = compile_on_use(r"^[ \t]{1,40}(?:-\w,? {1,8})?--\w", re.MULTILINE)
_NOT_RUN = frozenset({64, 126, 127})
"""Exit statuses for a usage error (sysexits), and for a program that a shell can't run or find."""
_STUB = compile_on_use(r"postinstall|--ignore-scripts|native binary|platform package", re.IGNORECASE)


@dataclass(frozen=True)
class Heard:
    """What a program's own output says, before it is classified."""

    text: str = ""
    failure: str | None = None
    """Its error message; "" for a failure without one."""
    status: int | None = None
    """The HTTP status, if it prints one."""
    cut: bool = False
    """The model's answer ended at the limit of its output."""
    kind: ErrorKind | None = None
    """The kind of the failure, if the output is clear."""
    spent: Spent | None = None
    reported_microcents: int | None = None
    session: str | None = None
    denials: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    status_counts: bool = False
    """An exit status other than 0 always means a failure, because the output doesn't show one."""


def build_result(finished: Finished, heard: Heard) -> Result:
    """Return the result of a run: how it ended decides first, then its output, then its exit status."""
    error = explain_end(finished) or _find_error(finished, heard)
    cut = (
        heard.cut
        and (error is None or error.kind not in (ErrorKind.TIMEOUT,))
        and explain_end(finished) is None
    )
    if cut:
        error = None
    return Result(
        text="" if error else heard.text,
        error=error,
        spent=heard.spent,
        reported_microcents=heard.reported_microcents,
        session=heard.session or None,
        denials=heard.denials,
        finish="length" if cut else None if error else "stop",
        warnings=heard.warnings + _list_warnings(finished, error),
    )


def explain_end(finished: Finished) -> TransportError | None:
    """Return the error of a run that Logist or a signal ended; None for one that exited."""
    match finished.how:
        case "timeout":
            return _make_error(ErrorKind.TIMEOUT, "timed out: not finished by the deadline")
        case "idle":
            return _make_error(ErrorKind.TIMEOUT, "timed out: no output for too long")
        case "limit":
            return _make_error(
                ErrorKind.BAD_REQUEST, "stopped: it exceeded its memory, process or output limit"
            )
        case "stopped":
            return _make_error(ErrorKind.TRANSIENT, "stopped before it finished")
        case "killed":
            return _make_error(ErrorKind.TRANSIENT, f"killed by signal {finished.signal} before it finished")
        case _:
            return None


def make_failure(message: str, status: int | None = None, kind: ErrorKind | None = None) -> TransportError:
    """Return a failure with the program's message; its kind is derived from
    the message unless it is known.
    """
    message = strip_controls(message).strip() or "it failed without a message"
    status = status if status is not None and 400 <= status <= 599 else _find_status(message)
    return _make_error(kind or classify_message(message, status), message, status)


def classify_message(message: str, status: int | None = None) -> ErrorKind:
    """Return the kind of error for a message and, if known, an HTTP status; TRANSIENT if
    nothing is known.
    """
    first = _find_kind(message)
    if first == ErrorKind.REFUSED and status is None:
        return first
    if status in (401, 402, 403):
        return ErrorKind.AUTH
    if status in (408, 504, 524):
        return ErrorKind.TIMEOUT
    if status in (425, 429) or (status is not None and status >= 500):
        return ErrorKind.TRANSIENT
    if status is not None and status >= 400:
        return ErrorKind.AUTH if first == ErrorKind.AUTH else ErrorKind.BAD_REQUEST
    return first or ErrorKind.TRANSIENT


def was_cut(message: str) -> bool:
    """Whether a failure is only that the answer ended at the output limit."""
    return bool(_CUT.search(message))


def detect_stub(finished: Finished, package: str) -> Heard | None:
    """Return the failure of a package whose program was left out by `npm
    install --ignore-scripts`; else None.
    """
    output = last_lines(finished.stderr) + last_lines(finished.stdout)
    if finished.how != "exited" or not finished.status or not _STUB.search(output):
        return None
    fix = f"the package is installed without its program; run: npm install -g --allow-scripts={package} {package}"
    return Heard(failure=f"{fix} ({last_lines(output, 200)})", kind=ErrorKind.BAD_REQUEST)


def _find_error(finished: Finished, heard: Heard) -> TransportError | None:
    has_failed = finished.how == "exited" and finished.status not in (0, None)
    words = last_lines(finished.stderr) or last_lines(finished.stdout)
    if has_failed and (complaint := _find_usage_complaint(finished, heard)):
        message = f"it rejected its command line: {complaint}"
        return _make_error(ErrorKind.BAD_REQUEST, message)
    if heard.failure is not None:
        return _correct_refused(make_failure(heard.failure or words, heard.status, heard.kind), finished)
    if has_failed and (heard.status_counts or not heard.text):
        kind = ErrorKind.BAD_REQUEST if finished.status in _NOT_RUN and not _find_kind(words) else None
        words = words or f"it exited with status {finished.status} and no message"
        return _correct_refused(make_failure(words, heard.status, kind), finished)
    if not heard.text:
        why = last_lines(finished.stderr, 200).rpartition("\n")[2]
        return _make_error(ErrorKind.TRANSIENT, "it ended without an answer" + (f" ({why})" if why else ""))
    return None


def _find_usage_complaint(finished: Finished, heard: Heard) -> str:
    """Return the error with which a program rejects its command line; "" if it doesn't.

    Such a program fails at once: it has no usage, and has written to only one of its outputs.
    """
    if heard.spent is not None or (finished.stdout.strip() and finished.stderr.strip()):
        return ""
    text = finished.stderr if finished.stderr.strip() else finished.stdout
    begin, end = strip_controls(text[:_ENDS]), strip_controls(text[-_ENDS:])
    if complaint := _REJECTED.search(begin) or _REJECTED.search(end):
        return complaint[0].strip(" \t│")
    if _HELP.search(begin) and len(_OPTION.findall(begin)) > 1:
        return "it printed its help and exited"
    return ""


def _correct_refused(error: TransportError, finished: Finished) -> TransportError:
    """Turn REFUSED into TRANSIENT for a connection that broke after the answer had begun, even if the
    program reports it differently.
    """
    if error.kind == ErrorKind.REFUSED and _BROKEN.search(finished.stderr):
        return error.model_copy(update={"kind": ErrorKind.TRANSIENT})
    return error


def _list_warnings(finished: Finished, error: TransportError | None) -> tuple[str, ...]:
    warnings: tuple[str, ...] = ()
    if finished.cut:
        warnings += ("the output of the program was too long: part of it was not kept",)
    if error is None and finished.how == "exited" and finished.status:
        warnings += (f"the program answered, but exited with status {finished.status}",)
    return warnings


def _find_kind(message: str) -> ErrorKind | None:
    return next((kind for kind, words in _KINDS if words.search(message)), None)


def _find_status(message: str) -> int | None:
    match = _STATUS.search(message)
    return int(match[1] or match[2]) if match else None


def _make_error(kind: ErrorKind, message: str, status: int | None = None) -> TransportError:
    return TransportError(kind=kind, message=message[:LONGEST], http_status=status)
