"""The address of a page with changes: what to compare, how to show it, and the line that a comment is written for."""

from __future__ import annotations

import shlex
from typing import get_args
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from logist.errors import UsageError
from logist.jobs.steward.job_diff import Scope, Since
from logist.quick_tuple import NamedTuple
from logist.web.diff_view import LineKey, parse_line_key

UNIFIED = "unified"
START = "start"


class ChangesQuery(NamedTuple):
    """What a page of changes shows, as its address says it."""

    since: str = START
    first: str = ""
    """Compare the states after two interactions, and not `since`; the second one may be missing."""
    last: str = ""
    path: str = ""
    """Only this file."""
    view: str = ""
    form: LineKey | None = None
    """The line that a comment is written for."""

    def build_scope(self) -> Scope:
        """Return what to compare. Raises UsageError if the address makes no sense."""
        if "\0" in self.path:
            raise UsageError("not a path", where="path")
        paths = (self.path,) if self.path else ()
        if self.first:
            last = _read_number(self.last) if self.last else None
            return Scope(between=(_read_number(self.first), last), paths=paths)
        if self.since not in get_args(Since):
            raise UsageError("expected start, review or approval", where=f"since={self.since[:60]}")
        return Scope(since=self.since, paths=paths)  # type: ignore[arg-type]  # just checked

    def list_parameters(self) -> dict[str, str]:
        """Return the parameters of the address, without the comment."""
        since = "" if self.first or self.since == START else self.since
        values = {"since": since, "from": self.first, "to": self.last, "path": self.path, "view": self.view}
        return {name: value for name, value in values.items() if value}

    def build_link(self, **changed: str) -> str:
        """Return the end of an address that differs in some fields."""
        parameters = urlencode(self._replace(**changed).list_parameters(), errors="replace")  # type: ignore[arg-type]
        return f"?{parameters}"

    def build_command(self, job_id: str, *paths: str) -> str:
        """Return the command that shows all of these changes, or those of some files."""
        words = ["logist", "job", "diff", "--job", job_id]
        if self.first:
            words.append(f"{self.first}..{self.last}")
        elif self.since != START:
            words += ["--since", self.since]
        for path in paths or filter(None, [self.path]):
            words += ["--path", path]
        return shlex.join(words)


def read_query(parameters: QueryParams) -> ChangesQuery:
    """Read the parameters of an address; unknown ones are ignored."""
    form = parse_line_key(parameters.get("comment", ""))
    if form is None and parameters.get("file"):
        form = parse_line_key(f"{parameters['file']}:{parameters.get('line', '').strip()}")
    return ChangesQuery(
        since=parameters.get("since", START),
        first=parameters.get("from", ""),
        last=parameters.get("to", ""),
        path=parameters.get("path", ""),
        view=UNIFIED if parameters.get("view") == UNIFIED else "",
        form=form,
    )


def _read_number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UsageError("expected the number of an interaction", where=text[:60])
    return int(text)
