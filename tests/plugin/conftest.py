"""Histories for the tests of the plugin, and pytest run with it in this process."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

# Loaded here, so that a run inside a run finds them loaded.
from logist import pytest_plugin
from logist.store.entries import format_header, seal_entry
from logist.testing import collecting, job, recording, replayed
from tests.support import ROOT

__all__ = ["collecting", "job", "recording", "replayed"]

MAIN = "main-job"
Json: TypeAlias = dict[str, Any]
Run: TypeAlias = Callable[..., pytest.RunResult]


def recorded(place: Path, name: str = MAIN) -> Path:
    """A shipped history, in a folder of its own below `place`."""
    folder = place / name
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / "fixtures" / "jobs" / name / "jobHistory.json", folder / "jobHistory.json")
    return folder / "jobHistory.json"


def changed(path: Path, change: Callable[[list[Json]], None]) -> None:
    """Writes the history anew, with a chain that verifies: whoever recorded it meant what stands there now."""
    entries = json.loads(path.read_bytes())["interactions"]
    change(entries)
    lines, previous = [], None
    for number, entry in enumerate(entries, 1):
        complete, line = seal_entry(entry, number, previous)
        previous = complete["checksum"]
        lines.append(line)
    path.write_bytes(format_header() + b"\n,".join(lines) + b"\n]}\n")


def other_end(entries: list[Json]) -> None:
    """The first answer was read in another way then."""
    ask = next(entry for entry in entries if entry["kind"] == "ask")
    ask["response"]["summary_for_supervisor"] = "Another summary."


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs pytest in this process, with this plugin alone: to look for those of others costs more than a run."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(*arguments: object, quiet: bool = True) -> pytest.RunResult:
        # Not the errors that the run around this one makes of warnings, and no directory of a cache.
        always = ["-pno:cacheprovider", "-Walways::UserWarning", *(["-q"] if quiet else [])]
        return pytester.runpytest_inprocess(
            *always, *map(str, arguments), plugins=[pytest_plugin], no_reraise_ctrlc=True
        )

    return run
