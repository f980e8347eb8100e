"""Finds recorded histories and makes pytest collect them as tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import pytest

from logist.errors import UsageError
from logist.jobs.archive import recorded_jobs
from logist.jobs.archive.recorded_jobs import Archive
from logist.quick_dataclass import dataclass
from logist.store import HISTORY
from logist.testing.replayed import Replay, load_drift_finder


@dataclass
class Histories:
    """The requested histories, and the folders that contain them."""

    by_file: dict[Path, Archive] = field(default_factory=dict)
    """Their names are the names of the tests: the path below the requested place."""
    jobs: set[Path] = field(default_factory=set)
    """Folders in which only the history is collected; agents made the rest."""
    below: dict[Path, list[Path]] = field(default_factory=dict)
    """For each folder: the histories in it, and its subfolders that contain histories."""
    shut: set[Path] = field(default_factory=set)
    """Folders that pytest would skip; only histories are collected in them."""
    arguments: set[Path] = field(default_factory=set)
    """The paths on the command line."""
    places: list[str] = field(default_factory=list)
    """The requested paths that pytest visits; absolute."""

    def add_place(self, place: str) -> None:
        """Add all histories at `place`, an absolute path or a glob. Raises UsageError if there are none."""
        is_glob = not os.path.lexists(place)
        if not is_glob:
            self.places.append(place)
        for archive in recorded_jobs.find_histories([place]):
            path = archive.path
            if is_glob:
                self.places.append(str(path.parent if path.name == HISTORY else path))
            if path not in self.by_file:
                self.by_file[path] = Archive(_make_name(path, Path(place)), path)
                self._record_parents(path)

    def _record_parents(self, path: Path) -> None:
        if path.name == HISTORY:
            self.jobs.add(path.parent)
        for parent in path.parents:
            self.below.setdefault(parent, []).append(path)
            if len(self.below[parent]) > 1:
                return
            path = parent

    def is_on_the_way(self, path: Path) -> bool:
        """True for a history, or a folder that contains one at any depth."""
        return path in self.below or path in self.by_file


def _make_name(path: Path, place: Path) -> str:
    """Return the name of a test: the path of the job below the requested place."""
    named_path = path.parent if path.name == HISTORY else path
    return (
        str(named_path.relative_to(place))
        if named_path != place and named_path.is_relative_to(place)
        else named_path.name
    )


KEY = pytest.StashKey[Histories]()


def find_requested_histories(
    config: pytest.Config, given: Sequence[str], listed: Sequence[str], named: Sequence[str] = ()
) -> None:
    """Find the requested histories and make pytest visit them: `given` on the command line, `listed` in the
    ini file.

    `named` are histories among the arguments, which pytest visits anyway. Listed paths are visited in a run
    without arguments, otherwise only if an argument includes them. Raises pytest.UsageError for a path without
    a history.
    """
    histories = config.stash[KEY] = Histories()
    runs_everything = config.args_source is not config.ArgsSource.ARGS
    for base, places in ((config.rootpath, listed), (config.invocation_params.dir, given)):
        visited = runs_everything or places is given
        for place in places:
            _add_requested(histories, os.path.abspath(base / os.path.expanduser(place)), visited)
    for place in named:
        _add_requested(histories, os.path.abspath(place), visited=False)
    here = config.invocation_params.dir
    histories.arguments.update(Path(os.path.abspath(here / each.split("::")[0])) for each in config.args)
    config.args = [*config.args, *histories.places]


def _add_requested(histories: Histories, place: str, visited: bool) -> None:
    before = [*histories.places]
    try:
        histories.add_place(place)
    except UsageError as error:
        if visited:
            raise pytest.UsageError(f"logist: {error.message} ({error.fix})") from error
    if not visited:
        histories.places = before
    for each in histories.places[len(before) :]:
        if "[" in each or "::" in each:
            raise pytest.UsageError(
                f"logist: pytest doesn't support paths with `[` or `::`: {each} (use a parent folder)"
            )


def decide_ignored(path: Path, config: pytest.Config, by_others: Callable[..., object]) -> bool | None:
    """Return whether pytest skips `path`; None leaves that to other plugins, which `by_others` calls."""
    histories = config.stash[KEY]
    if not histories.is_on_the_way(path):
        return None
    if path in {Path(os.path.abspath(each)) for each in config.getoption("ignore") or ()}:
        return True
    if path not in histories.jobs and by_others(collection_path=path, config=config):
        histories.shut.add(path)
    return False


def make_folder(path: Path, parent: pytest.Collector) -> Folder | None:
    """Return a collector for only the histories of a folder; None for an ordinary folder."""
    histories = parent.config.stash[KEY]
    if path not in histories.jobs and path not in histories.shut:
        return None
    others = (each for each in histories.arguments if path in each.parents and each not in histories.by_file)
    return None if any(others) else Folder.from_parent(parent, path=path)


def make_history_file(path: Path, parent: pytest.Collector) -> HistoryFile | None:
    """Return a collector for the replay of a file, if it was requested or is an argument."""
    archive = parent.config.stash[KEY].by_file.get(path)
    return HistoryFile.from_parent(parent, path=path, archive=archive) if archive else None


class Folder(pytest.File):
    """A folder in which pytest collects only histories.

    It is a pytest.File, because pytest would run the conftest.py of a Directory, and code of a job must never run.
    """

    def collect(self) -> Iterator[pytest.Collector]:
        histories = self.config.stash[KEY]
        for path in sorted(histories.below[self.path]):
            archive = histories.by_file.get(path)
            if archive:
                yield HistoryFile.from_parent(self, path=path, archive=archive)
            else:
                yield Folder.from_parent(self, path=path)


class HistoryFile(pytest.File):
    """A history file; its only test is its replay."""

    def __init__(self, *, archive: Archive, parent: pytest.Collector, **rest: Any) -> None:
        root = parent.config.rootpath
        if not archive.path.is_relative_to(
            root
        ):  # else pytest would use the argument as its id, and not find it again
            rest["nodeid"] = os.path.relpath(archive.path, root)
        super().__init__(parent=parent, **rest)
        self.archive = archive

    def collect(self) -> Iterator[pytest.Item]:
        kind = Replay
        if self.config.getoption("--logist-record") == "rewrite":
            from logist.testing.recording import Rewrite  # noqa: PLC0415 - it needs most of Logist

            kind = Rewrite
        yield kind.from_parent(
            self, name="replay", archive=self.archive, prompts=load_drift_finder(self.config)
        )
