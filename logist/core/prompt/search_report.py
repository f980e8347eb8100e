"""What a search for relevant files found out, for people who ask why a file is in a prompt or not."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from logist.core.relevance.ranking_report import RankingReport
from logist.quick_dataclass import dataclass

if TYPE_CHECKING:
    from logist.core.prompt.shown_files import Relevant
    from logist.core.text.patterns import Patterns

    class Survey(Protocol):
        """What a search can choose from: `FileSurvey` of the workspace."""

        directories: list[str]
        noted: dict[str, str]
        hidden: Patterns
        partial: bool

        @property
        def files(self) -> dict[str, int]: ...


@dataclass
class SearchReport:
    """What a search for relevant files found out; filled by `find_relevant_files`."""

    survey: Survey | None = None
    """All files that the search could choose from; None: the role of the step requires no relevant files."""
    known: Collection[str] = ()
    """Files that the prompt contains anyway."""
    limit: int = 0
    ranking: RankingReport = field(default_factory=RankingReport)
    searched: Collection[str] = ()
    """The files whose texts were read."""
    named: Sequence[str] = ()
    """The files that the task names: they come first, whatever their score."""
    chosen: Sequence[Relevant] = ()

    @cached_property
    def ranks(self) -> dict[str, int]:
        """The rank of every file that the task names or that has a word of it, from 1."""
        scores = self.ranking.scores
        named = frozenset(self.named)
        others = sorted(scores.keys() - named, key=lambda path: (-scores[path], path))
        return {path: rank for rank, path in enumerate((*self.named, *others), 1)}

    def list_files_in_parts(self) -> list[str]:
        """List the chosen files of which the prompt has only parts."""
        return [each.file.path for each in self.chosen if each.file.text is not None and each.file.note]

    def count_below_limit(self) -> int:
        """Return how many files are worth listing, but are more than the limit."""
        return self.ranking.count_from_floor(self._list_chosen_paths())

    def count_below_floor(self) -> int:
        """Return how many files have a word of the task, but a score that is too low."""
        chosen = self._list_chosen_paths()
        scored = self.ranking.exact_scores
        return len(scored) - len(chosen & scored.keys()) - self.ranking.count_from_floor(chosen)

    def _list_chosen_paths(self) -> set[str]:
        return {each.file.path for each in self.chosen}
