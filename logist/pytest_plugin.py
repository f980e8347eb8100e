"""The pytest plugin `logist`: recorded histories as tests, and jobs with scripted answers for users' tests.

Every pytest of an environment with Logist loads it, so it imports nothing of Logist before that is needed.
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
"""As logist.store has it, which is not to be loaded with every pytest."""
_ASKED = pytest.StashKey[bool]()
"""Set where histories are looked for; else none of the hooks below imports anything."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("logist", "recorded jobs as tests (Logist)")
    group.addoption(
        "--logist-fixtures",
        action="append",
        default=[],
        metavar="PATH",
        help="replay every history below PATH, a test for each: a job directory, a history file, a folder of them"
        " or a glob; may be given more than once",
    )
    group.addoption(
        "--logist-prompts",
        choices=PROMPTS,
        default="warn",
        help="what it is when an agent would be told something else today than it was told then: a failure,"
        " a warning (the default), or nothing",
    )
    group.addoption(
        "--logist-strict",
        action="store_true",
        help="fail also where a rule that a newer Logist has changed is the only cause",
    )
    group.addoption(
        "--logist-record",
        choices=RECORD,
        default="none",
        help="rewrite: ask the configured agent again, which may cost money and uses the network, and put"
        " new histories in the place of the old ones; never by default",
    )
    parser.addini(
        "logist_fixtures",
        type="linelist",
        help="like --logist-fixtures, a line each, relative to the rootdir; part of a run without arguments,"
        " and of one whose arguments lead there",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "logist: the replay of a recorded history, made by --logist-fixtures")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, None, None]:
    """Keep pytest from running the conftest.py of a fixture that is an
    argument, or whose name begins with `test`.
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
        raise pytest.UsageError("--logist-record: no history is named (--logist-fixtures PATH)")


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
    """The history that an argument names, without the test id."""
    path = argument.split("::")[0]
    return path if os.path.basename(path) == HISTORY and os.path.isfile(path) else None


def _visits_listed_places(config: pytest.Config, listed: list[str]) -> bool:
    """True if a run visits the places listed in the ini file: other runs collect no histories."""
    if config.args_source is not config.ArgsSource.ARGS:
        return True
    here = config.invocation_params.dir
    visited = [os.path.abspath(here / argument.split("::")[0]) for argument in config.args]
    places = [os.path.abspath(config.rootpath / _strip_glob(place)) for place in listed]
    return any(os.path.commonpath([one, other]) in (one, other) for one in visited for other in places)


def _strip_glob(place: str) -> str:
    """The leading part of a glob, which is a plain directory."""
    return re.split(r"[*?\[]", place, maxsplit=1)[0]


def _require_pytest() -> None:
    if not hasattr(pytest, "Directory"):
        raise pytest.UsageError(
            f"logist: histories are replayed by pytest 8 or newer, this is {pytest.__version__}"
        )


def _require_no_xdist(config: pytest.Config) -> None:
    """Raise UsageError under xdist: histories are recorded one by one, so
    that a stopped run leaves complete ones.
    """
    if config.getoption("dist", "no") != "no" or hasattr(config, "workerinput"):
        raise pytest.UsageError(
            "logist: --logist-record rewrite works without xdist: add -p no:xdist or -n 0"
        )


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print what was recorded again, and its cost."""
    if config.getoption("--logist-record") == "none":
        return
    from logist.testing.recording import TOLD

    terminalreporter.section("Logist")
    for line in config.stash.get(TOLD, ["no history was recorded again"]):
        terminalreporter.line(line)


@pytest.fixture
def logist_job(tmp_path: Path) -> Callable[..., LogistJob]:
    """Create a job whose answers come from the test; everything else is real, and no model is called.

        def test_the_worker_needs_evidence(logist_job):
            job = logist_job(prompt="Write notes.md.", answers=[answer(files={"notes.md": "..."})])
            job.run()
            assert job.status == "REVIEW_REQUIRED"

    `answers` are texts, exit commands, or answers as in a script file, in the order of the requests; `steps`
    those at the steps of a workflow. `files` are in the workspace before the first step; `roles` are role
    files by name (fields, a text or a path), `config` is the content of config.yaml, `workflow` a file, a
    name or the content of a file, `project` a directory whose .logist the test takes its config, roles and
    workflows from. All other arguments are fields of job.yaml.
    """
    from logist.testing.job import make_job

    made: list[LogistJob] = []

    def logist_job(**given: Any) -> LogistJob:
        place = tmp_path / f"logist-{len(made) + 1}"
        made.append(make_job(place, **given))
        return made[-1]

    return logist_job
