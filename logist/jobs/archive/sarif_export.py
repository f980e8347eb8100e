"""Exports the findings of recorded jobs as SARIF."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field

from logist.core.model import JsonObject
from logist.core.share.sarif import FindingCollector, build_log
from logist.errors import LogistError
from logist.jobs.archive.recorded_jobs import Archive, catch_read_errors, exit_code_of_errors
from logist.quick_dataclass import dataclass
from logist.store import HISTORY
from logist.version import __version__


@dataclass
class ExportedFindings:
    """The findings of recorded jobs."""

    results: list[JsonObject] = field(default_factory=list)
    histories: int = 0
    left_out: list[tuple[str, LogistError]] = field(default_factory=list)
    """Name and reason of the histories that could not be read to their end; they have no results."""

    @property
    def exit_code(self) -> int:
        """10 if a history is damaged; else that of the first one that could not be read; 0 if all were."""
        return exit_code_of_errors(error for _, error in self.left_out)

    def count_suppressed(self) -> int:
        """Return how many findings a steward overrode."""
        return sum("suppressions" in each for each in self.results)

    def count_unplaced(self) -> int:
        """Return how many findings belong to no file."""
        return sum("locations" not in each for each in self.results)

    def build_log(self) -> JsonObject:
        """Return the SARIF log."""
        return build_log(self.results, __version__, is_complete=not self.left_out)


def export_findings(
    archives: Iterable[Archive],
    each: Callable[[], None] = lambda: None,
    done: Callable[[], None] = lambda: None,
) -> ExportedFindings:
    """Collect the findings of recorded jobs; `each` is called for every interaction, and `done` for every history."""
    exported = ExportedFindings()
    for archive in archives:
        name = archive.path.parent.name if archive.path.name == HISTORY else archive.path.stem
        collector = FindingCollector(name)
        with catch_read_errors(archive) as result:
            for entry in archive.call_for_each(archive.read_interactions(), each):
                collector.read_interaction(entry)
            exported.results += collector.build_results()
        if result.error is None:
            exported.histories += 1
        else:
            exported.left_out.append((archive.name, result.error))
        done()
    return exported
