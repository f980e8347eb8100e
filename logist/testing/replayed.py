"""The replay of one history as a test: an error if it can't be read, a failure if the result is different."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from logist.cli.replayed import load_prompts
from logist.cli.show.render import clean_for_terminal
from logist.config.environment import Environment
from logist.core.model import JsonObject
from logist.core.replay.replay import Prompts
from logist.errors import LogistError
from logist.jobs.archive.archive_replay import Replayed, replay_archive
from logist.jobs.archive.recorded_jobs import Archive
from logist.jobs.archive.replay_report import format_replay_lines, format_replay_verdict
from logist.resources import load_schema
from logist.testing.offline import forbid_network


class PromptDrift(UserWarning):
    """A prompt would now be different from the recorded one."""


class DiffersError(Exception):
    """The replay gives a different result, or the history doesn't match its manifest; the message says where."""


_PROMPTS = pytest.StashKey["Prompts | None"]()


def load_drift_finder(config: pytest.Config) -> Prompts | None:
    """Return the function that compares prompts with those of the current project; the same for the entire run."""
    if _PROMPTS not in config.stash:
        config.stash[_PROMPTS] = load_prompts(
            Environment.from_process(), None, config.getoption("--logist-prompts")
        )
    return config.stash[_PROMPTS]


class Replay(pytest.Item):
    """One history, replayed with the current rules as by `logist replay`: no model, no network, no writing."""

    def __init__(self, *, archive: Archive, prompts: Prompts | None, **rest: Any) -> None:
        super().__init__(**rest)
        self.archive = archive
        self.prompts = prompts
        self.found: Replayed | None = None
        self.add_marker("logist")
        self.extra_keyword_matches.add(archive.name)

    def setup(self) -> None:
        """Read and replay the history: a damaged one is an error, because nothing was tested."""
        with forbid_network():
            result = replay_archive(self.archive, _load_schema(), prompts=self.prompts)
        self.found = replace(result, name=self.archive.name)
        if result.error:
            report = [*format_replay_lines(replace(self.found, drifts=())), f"  {self.path}"]
            pytest.fail(
                clean_for_terminal("\n".join(report)), pytrace=False
            )  # no other exception in a setup is printed without a traceback

    def runtest(self) -> None:
        """Fail if the result is different, or if the history doesn't match its manifest."""
        assert self.found
        prompts, strict = map(self.config.getoption, ("--logist-prompts", "--logist-strict"))
        if self.found.has_failed(prompts=prompts == "fail", rules=strict):
            raise DiffersError("\n".join(format_replay_lines(self.found)))
        if self.found.drifts:
            drift = PromptDrift(clean_for_terminal("\n".join(_summarize_drifts(self.found))))
            warnings.warn_explicit(drift, None, str(self.path), 0)  # without a source line: it would not help
        if self.found.changed_rules:
            self.add_report_section(
                "call",
                "logist",
                clean_for_terminal("\n".join(format_replay_lines(replace(self.found, drifts=())))),
            )
        for note in (*self.found.notes, *self.found.skipped):
            self.add_report_section("call", "logist", clean_for_terminal(note))

    def teardown(self) -> None:
        self.found = None

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the output of `logist replay`, without a traceback."""
        if isinstance(excinfo.value, DiffersError | LogistError | PromptDrift):
            return clean_for_terminal(str(excinfo.value))
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, 0, f"logist::{self.archive.name}"


def _summarize_drifts(found: Replayed) -> Iterator[str]:
    """Yield each drift and its cause once, without diffs."""
    yield f"{found.name}: {format_replay_verdict(found)}"
    yield from dict.fromkeys(f"  {each.source} {each.change}: {each.cause}" for each in found.drifts)
    yield "  run `logist replay` to see the diffs; --logist-prompts=accept turns this comparison off"


@cache
def _load_schema() -> JsonObject:
    """Return the schema, shared by all histories so that it is compiled once."""
    return load_schema("llm-chat-schema")
