"""The pytest plugin `logist`: recorded histories as tests, and jobs with scripted answers for users' tests.

Every pytest run in an environment with Logist loads this plugin, so it imports Logist only when needed.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from logist.testing import LogistJob

PROMPTS = ("fail", "warn", "accept")
RECORD = ("none", "rewrite")
HISTORY = "jobHistory.json"
"""Same as in logist.store, which is not imported here: that would slow down every pytest run."""
_ASKED = pytest.StashKey[bool]()
"""Set if this run collects histories; otherwise none of the hooks below imports anything."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("logist", "recorded jobs as tests (Logist)")
    group.addoption(
        "--logist-fixtures",
        action="append",
        default=[],
        metavar="PATH",
        help="replay every history below PATH, one test per history; PATH is a job directory, a history file,"
        " a folder that contains them, or a glob; can be used several times",
    )
    group.addoption(
        "--logist-prompts",
        choices=PROMPTS,
        default="warn",
        help="what to do if a prompt would now differ from the recorded one: fail, warn (default),"
        " or accept (don't compare)",
    )
    group.addoption(
        "--logist-strict",
        action="store_true",
        help="also fail if the only cause is a rule that changed in a newer Logist",
    )
    group.addoption(
        "--logist-record",
        choices=RECORD,
        default="none",
        help="rewrite: call the configured agent again and replace the recorded histories; this uses"
        " the network and can cost money (default: none)",
    )
    parser.addini(
        "logist_fixtures",
        type="linelist",
        help="like --logist-fixtures, one path per line, relative to the rootdir; used in runs without arguments,"
        " and in runs whose arguments include these paths",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "logist: replay of a recorded history, added by --logist-fixtures")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, None, None]:
    """Keep pytest from running the conftest.py of a fixture that is an argument, or whose name starts with
    `test`.
    """
    known = early_config.known_args_namespace
    before, asked = (
        known.file_or_dir,
        getattr(known, "logist_fixtures", None) or early_config.getini("logist_fixtures"),
    )
    if asked or any(map(_find_named_history, before)):
        here = early_config.invocation_params.dir
        listed = [] if here != early_config.rootpath else early_config.getini("testpaths")
        from logist.testing.conftests import find_anchors

        anchors = [*find_anchors([str(here / each) for each in before or listed or ["."]])]
        if anchors:
            known.file_or_dir = anchors
    try:
        return (yield)
    finally:
        known.file_or_dir = before


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Find the requested histories before collection starts."""
    config = session.config
    given, listed = config.getoption("--logist-fixtures"), config.getini("logist_fixtures")
    if config.getoption("--logist-record") != "none":
        _require_no_xdist(config)
    named = [
        str(config.invocation_params.dir / path)
        for path in filter(None, map(_find_named_history, config.args))
    ]
    if given or named or (listed and _visits_listed_places(config, listed)):
        _require_pytest()
        from logist.testing import collecting

        collecting.find_requested_histories(config, given, listed, named)
        config.stash[_ASKED] = True
    elif config.getoption("--logist-record") != "none":
        raise pytest.UsageError("--logist-record: no histories selected (use --logist-fixtures PATH)")


@pytest.hookimpl(tryfirst=True)
def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if _ASKED not in config.stash:
        return None
    from logist.testing import collecting

    plugins = config.pluginmanager
    others = plugins.subset_hook_caller("pytest_ignore_collect", [sys.modules[__name__]])
    return collecting.decide_ignored(collection_path, config, others)


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if _ASKED not in parent.config.stash:
        return None
    from logist.testing import collecting

    return collecting.make_folder(path, parent)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a history that was requested or is an argument, so that a test can be run again by its id."""
    if _ASKED not in parent.config.stash:
        return None
    from logist.testing import collecting

    return collecting.make_history_file(file_path, parent)


def _find_named_history(argument: str) -> str | None:
    """The path of the history in an argument, without the test id."""
    path = argument.split("::")[0]
    return path if os.path.basename(path) == HISTORY and os.path.isfile(path) else None


def _visits_listed_places(config: pytest.Config, listed: list[str]) -> bool:
    """True if a run visits the paths listed in the ini file: other runs collect no histories."""
    if config.args_source is not config.ArgsSource.ARGS:
        return True
    here = config.invocation_params.dir
    visited = [os.path.abspath(here / argument.split("::")[0]) for argument in config.args]
    places = [os.path.abspath(config.rootpath / _strip_glob(place)) for place in listed]
    return any(os.path.commonpath([one, other]) in (one, other) for one in visited for other in places)


def _strip_glob(place: str) -> str:
    """The first part of a glob, up to its first wildcard."""
    return re.split(r"[*?\[]", place, maxsplit=1)[0]


def _require_pytest() -> None:
    if not hasattr(pytest, "Directory"):
        raise pytest.UsageError(
            f"logist: replaying histories needs pytest 8 or newer; this is pytest {pytest.__version__}"
        )


def _require_no_xdist(config: pytest.Config) -> None:
    """Raise UsageError under xdist: histories are recorded one after the other, so that an interrupted run leaves
    complete ones.
    """
    if config.getoption("dist", "no") != "no" or hasattr(config, "workerinput"):
        raise pytest.UsageError(
            "logist: --logist-record rewrite doesn't work with xdist: add -p no:xdist or -n 0"
        )


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print what was recorded again, and its cost."""
    if config.getoption("--logist-record") == "none":
        return
    from logist.testing.recording import TOLD

    terminalreporter.section("Logist")
    for line in config.stash.get(TOLD, ["no histories were recorded again"]):
        terminalreporter.line(line)


@pytest.fixture
def logist_job(tmp_path: Path) -> Callable[..., LogistJob]:
    """Create a job whose answers come from the test. Everything else is real; no model is called.

        def test_the_worker_needs_evidence(logist_job):
            job = logist_job(prompt="Write notes.md.", answers=[answer(files={"notes.md": "..."})])
            job.run()
            assert job.status == "REVIEW_REQUIRED"

    `answers`: texts, exit commands, or answers as in a script file, in the order of the requests.
    `steps`: the answers for each step of a workflow.
    `files`: files in the workspace before the first step.
    `roles`: role files by name (fields, text or path).
    `config`: the content of config.yaml.
    `workflow`: a file, a name, or the content of a file.
    `project`: a directory with a .logist directory to copy config, roles and workflows from.
    All other arguments are fields of job.yaml.
    """
    from logist.testing.job import make_job

    made: list[LogistJob] = []

    def logist_job(**given: Any) -> LogistJob:
        place = tmp_path / f"logist-{len(made) + 1}"
        made.append(make_job(place, **given))
        return made[-1]

    return logist_job
