"""Finds the commits of a project that changed how an archive replays: the search of `logist bisect`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from logist.core.replay.drift import Drift
from logist.errors import Damaged, InvalidFile, LogistError, Stopped, UsageError
from logist.jobs.archive.archive_drift import build_drift_finder
from logist.jobs.archive.archive_replay import Replayed, replay_archive
from logist.jobs.archive.recorded_jobs import Archive
from logist.jobs.base.project import ProjectContext
from logist.quick_dataclass import dataclass
from logist.workspace.commit_search import Commit, CommitSearch, UntestableCommit, Verdict

Key: TypeAlias = tuple[int, str]
"""One finding, without how it differs: the interaction, and the part of its prompt."""
OpenProject: TypeAlias = Callable[[Path], ProjectContext]


@dataclass(frozen=True)
class Culprit:
    """The commit since which some prompts of the archive are different."""

    candidates: tuple[Commit, ...]
    """One, or several if the commits between them can't be tested."""
    files: tuple[str, ...]
    """The files of the project that the candidates changed."""
    drifts: tuple[Drift, ...]
    """What is different at the end of the search because of it."""
    skipped: tuple[Commit, ...]


@dataclass(frozen=True)
class Bisected:
    """The result for one history."""

    name: str
    good: str
    bad: str
    replayed: Replayed
    """The replay at the bad commit."""
    culprits: tuple[Culprit, ...]
    earlier: int
    """Findings that are there at the good commit too."""

    @property
    def is_different(self) -> bool:
        """Whether it replays differently at the bad commit; a prompt that can't be compared is no difference."""
        return self.replayed.has_failed(prompts=bool(self.replayed.drifts))


class _Bisection:
    """The replays of one history with the files of several commits; each commit once."""

    def __init__(
        self,
        search: CommitSearch,
        archive: Archive,
        open_project: OpenProject,
        get_stop_code: Callable[[], int],
    ) -> None:
        self._search = search
        self._archive = archive
        self._open_project = open_project
        self._get_stop_code = get_stop_code
        self._replays: dict[str, Replayed | UntestableCommit] = {}
        self._judges_broken_roles = False

    def replay_at(self, commit: str) -> Replayed:
        """Replay the history with the files of a commit. Raises UntestableCommit."""
        if code := self._get_stop_code():
            raise Stopped("stopped; nothing was changed", exit_code=code)
        if commit not in self._replays:
            self._replays[commit] = self._try_replay(commit)
        result = self._replays[commit]
        if isinstance(result, UntestableCommit):
            raise result
        return result

    def _try_replay(self, commit: str) -> Replayed | UntestableCommit:
        with TemporaryDirectory(prefix="logist-bisect-") as folder:
            root = Path(folder, "project")
            try:
                self._search.write_files(commit, root)
                project = self._open_project(root)
                replayed = replay_archive(self._archive, project.schema, prompts=build_drift_finder(project))
            except UntestableCommit as error:
                return error
            except InvalidFile as error:
                return UntestableCommit(str(error).replace(f"{root}/", ""))
        if replayed.error:  # the archive is the same at each commit
            raise replayed.error
        if not self._judges_broken_roles and (name := _find_broken_role(project, replayed)):
            return UntestableCommit(f"the role file of {name} is invalid")
        return replayed

    def replay_bad_end(self, commit: str) -> Replayed:
        """Replay at the end of the search. If a role is invalid there, the search is for the commit that broke it."""
        try:
            return self.replay_at(commit)
        except UntestableCommit:
            self._judges_broken_roles = True
            self._replays.clear()
            return self.replay_at(commit)

    def find_culprit(self, good: str, bad: str, keys: set[Key]) -> Culprit:
        """Find the first commit with any of the findings."""

        def judge(commit: str) -> Verdict:
            try:
                return "bad" if keys & list_keys(self.replay_at(commit)) else "good"
            except UntestableCommit:
                return "skip"

        result = self._search.search(good, bad, judge)
        present = keys
        if len(result.candidates) == 1:
            present = keys & list_keys(self.replay_at(result.candidates[0]))
        changed = {file for commit in result.candidates for file in self._search.list_changed_files(commit)}
        return Culprit(
            tuple(map(self._search.describe_commit, result.candidates)),
            tuple(sorted(changed)),
            tuple(each for each in self.replay_at(bad).drifts if (each.sequence, each.source) in present),
            tuple(map(self._search.describe_commit, result.skipped)),
        )


def list_keys(replayed: Replayed) -> set[Key]:
    """The findings of a replay that files of a project can cause."""
    return {(each.sequence, each.source) for each in replayed.drifts}


def _find_broken_role(project: ProjectContext, replayed: Replayed) -> str | None:
    """The first missing role whose file is there, but invalid: then nobody knows its prompt."""
    broken = {name.casefold() for name in project.roles.broken}
    for each in replayed.drifts:
        name = each.source.removeprefix("role:")
        if each.change == "gone" and each.source.startswith("role:") and name.casefold() in broken:
            return name
    return None


def bisect_archive(
    search: CommitSearch,
    archive: Archive,
    open_project: OpenProject,
    *,
    good: str | None,
    bad: str,
    get_stop_code: Callable[[], int] = lambda: 0,
) -> Bisected:
    """Find the commits after `good` (default: when the archive was recorded) up to `bad` that changed its replay.

    Raises UsageError if the good commit replays with all the same findings, or can't be tested.
    """
    bisection = _Bisection(search, archive, open_project, get_stop_code)
    try:
        replayed = bisection.replay_bad_end(bad)
    except UntestableCommit as error:
        raise InvalidFile(
            f"can't test the bad commit {bad[:12]}: {error}", fix="use another with --bad"
        ) from None
    if not replayed.has_failed(prompts=True) or replayed.nothing_compared or not replayed.drifts:
        return Bisected(archive.name, good or "", bad, replayed, (), 0)
    start = good or _find_good_commit(search, archive, bad)
    keys, earlier = _compare_ends(search, bisection, start, bad)
    culprits: list[Culprit] = []
    remaining = set(keys)
    while remaining:
        culprit = bisection.find_culprit(start, bad, remaining)
        culprits.append(culprit)
        remaining -= {(each.sequence, each.source) for each in culprit.drifts}
    return Bisected(archive.name, start, bad, replayed, tuple(culprits), earlier)


def _compare_ends(search: CommitSearch, bisection: _Bisection, good: str, bad: str) -> tuple[set[Key], int]:
    """The findings that are new since the good commit, and the number of the others."""
    if good == bad or not search.is_ancestor(good, bad):
        fix = search.describe_shallow() or "use an earlier commit of the same branch with --good"
        raise UsageError(f"the good commit {good[:12]} is not before the bad commit {bad[:12]}", fix=fix)
    try:
        before = list_keys(bisection.replay_at(good))
    except UntestableCommit as error:
        fix = "use another with --good"
        raise UsageError(f"can't test the good commit {good[:12]}: {error}", fix=fix) from None
    after = list_keys(bisection.replay_at(bad))
    if not after - before:
        fix = search.describe_shallow() or (
            "use an earlier one with --good; if there is none, the cause is Logist itself, your own settings, "
            "or files that were not committed when the job ran"
        )
        raise UsageError(f"the history replays differently at the good commit {good[:12]} too", fix=fix)
    return after - before, len(after & before)


def _find_good_commit(search: CommitSearch, archive: Archive, bad: str) -> str:
    first = next(iter(archive.read_interactions()), None)
    if first is None:
        raise Damaged("the history is empty", where=str(archive.path))
    found = search.find_commit_before(bad, first.timestamp)
    if found is None:
        fix = search.describe_shallow() or "say with --good at which commit it replayed with the same result"
        raise UsageError("no commit is older than the history", where=archive.name, fix=fix)
    return found


def bisect_all(
    archives: Iterable[Archive], bisect_one: Callable[[Archive], Bisected]
) -> tuple[list[Bisected], list[tuple[str, LogistError]]]:
    """Bisect each history; the error of one stops no other. Stopped is raised."""
    results: list[Bisected] = []
    errors: list[tuple[str, LogistError]] = []
    for archive in archives:
        try:
            results.append(bisect_one(archive))
        except Stopped:
            raise
        except LogistError as error:
            errors.append((archive.name, error))
    return results, errors
