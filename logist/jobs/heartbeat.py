"""The file of `run --heartbeat`: what a run does, in the text format of Prometheus.

node_exporter's textfile collector reads such files, and so does a script of five lines.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from logist import __version__
from logist.core.history import fold
from logist.core.model import HALTED, Status
from logist.core.money import amounts
from logist.errors import LogistError
from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple
from logist.store import listing
from logist.store.job_index import IndexUnusable, JobIndex

if TYPE_CHECKING:
    from logist.jobs.base.project import ProjectContext
    from logist.jobs.base.result import CommandResult
    from logist.jobs.job_queue import EndedJob

BEAT_SECONDS = 15.0
"""Seconds between two writes, if nothing changes."""
LEAST_SECONDS = 1.0
"""Seconds between two writes at least, however much changes."""
MICROCENTS_IN_A_DOLLAR = 100 * amounts.MICROCENTS
FOR_A_PERSON = frozenset({Status.STUCK, Status.APPROVAL_REQUIRED, *HALTED})


class JobCounts(NamedTuple):
    """How many jobs there are."""

    by_status: Mapping[str, int]
    unreadable: int


@dataclass
class RunFigures:
    """What a run has done since it began. Costs and tokens are those of the interactions that it recorded."""

    began: float
    """Seconds since 1970, like the other times."""
    last_round: float = 0.0
    """When it last looked for ready jobs."""
    last_error: float = 0.0
    errors: int = 0
    running: int = 0
    steps: int = 0
    calls: int = 0
    microcents: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


class Heartbeat:
    """Writes the file when something changes, and regularly in between; can be used from any thread.

    The regular writes come from a thread that waits for nothing else: they show that the process lives, also while it waits
    for an agent for an hour. `logist_run_last_round_timestamp_seconds` shows that it still looks for work.
    """

    def __init__(
        self,
        project: ProjectContext,
        path: str,
        *,
        seconds: float = BEAT_SECONDS,
        least: float = LEAST_SECONDS,
    ) -> None:
        self._project, self._path, self._seconds, self._least = project, os.path.abspath(path), seconds, least
        self._figures, self._counts = RunFigures(self._now()), JobCounts({}, 0)
        self._changing = threading.Lock()
        self._is_due, self._has_ended = threading.Event(), threading.Event()
        self._has_warned = False
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Write the file, and go on."""
        self._write(is_up=True)
        self._thread.start()

    def end(self) -> None:
        """Write the file for the last time: the run has ended."""
        self._has_ended.set()
        self._is_due.set()
        self._thread.join()
        self._write(is_up=False)

    def begin_round(self) -> None:
        """The run looks for ready jobs."""
        self._change(lambda figures: setattr(figures, "last_round", self._now()))

    def begin_job(self) -> None:
        """A job begins."""
        self._change(lambda figures: setattr(figures, "running", figures.running + 1))

    def add_step(self, result: CommandResult) -> None:
        """A step has recorded something."""

        def add(figures: RunFigures) -> None:
            figures.steps += 1
            for entry in result.entries:
                used = entry.usage
                figures.calls += fold.is_agent_asked(entry)
                figures.microcents += amounts.join_cents(used.cost_cents, used.cost_microcents)
                figures.input_tokens += used.input_tokens
                figures.output_tokens += used.output_tokens

        self._change(add)

    def add_end(self, ended: EndedJob) -> None:
        """A job has come to rest."""

        def add(figures: RunFigures) -> None:
            figures.running -= 1
            if ended.error is not None:
                figures.errors += 1
                figures.last_error = self._now()

        self._change(add)

    def _change(self, change: Callable[[RunFigures], None]) -> None:
        with self._changing:
            change(self._figures)
        self._is_due.set()

    def _now(self) -> float:
        return self._project.clock.now().timestamp()

    def _beat(self) -> None:
        while not self._has_ended.wait(self._least):
            self._is_due.wait(self._seconds - self._least)
            self._is_due.clear()
            if not self._has_ended.is_set():
                self._write(is_up=True)

    def _write(self, *, is_up: bool) -> None:
        """Replace the file in one step, so that no reader sees half of it."""
        with suppress(LogistError):  # the run itself reports it; the last counts stay
            self._counts = count_jobs(str(self._project.jobs_dir))
        with self._changing:
            text = format_figures(self._figures, self._counts, self._now(), os.getpid(), is_up=is_up)
        folder, name = os.path.split(self._path)
        temporary = os.path.join(folder, f".{name}.{os.getpid()}.new")
        try:
            Path(temporary).write_text(text, "utf-8")
            os.chmod(temporary, 0o644)  # monitoring is another user
            os.replace(temporary, self._path)
        except OSError as error:
            with suppress(OSError):
                os.unlink(temporary)
            if not self._has_warned:
                self._has_warned = True
                why = f"{error.strerror}; the run continues"
                self._project.say(f"warning: can't write the heartbeat file {self._path}: {why}")


def count_jobs(jobs_dir: str) -> JobCounts:
    """Count the jobs of a directory by status: from its index, if there is one, else from their files."""
    counted: Counter[str] = Counter()
    ids: list[str] | None = None
    with suppress(IndexUnusable):
        index = JobIndex.open(jobs_dir)
        if index is not None and index.is_complete():
            counted.update(index.count_by_status())
            ids = [each for each in sorted(index.find_unsettled()) if os.path.isdir(f"{jobs_dir}/{each}")]
    unreadable = 0
    for glance in listing.read_glances(jobs_dir, ids):
        if glance.state is None:
            unreadable += 1
        else:
            counted[str(glance.state.get("status"))] += 1
    return JobCounts(counted, unreadable)


class _Family(NamedTuple):
    """One metric, with its samples."""

    name: str
    kind: str
    help: str
    value: float | Mapping[str, float]
    """Its value; or the values by label, written as in the file."""

    def format_lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {self.kind}"
        if isinstance(self.value, Mapping):
            yield from (f"{self.name}{{{labels}}} {_format(value)}" for labels, value in self.value.items())
        else:
            yield f"{self.name} {_format(self.value)}"


def format_figures(figures: RunFigures, counts: JobCounts, now: float, pid: int, *, is_up: bool) -> str:
    """Return the text of the file."""
    run = f'pid="{pid}",version="{__version__}"'
    families = (
        _Family("logist_heartbeat_timestamp_seconds", "gauge", "When this file was written.", now),
        _Family("logist_run_info", "gauge", "The process and its version of Logist; always 1.", {run: 1}),
        _Family("logist_run_up", "gauge", "1 while the run works, 0 once it has ended.", int(is_up)),
        *_list_run_families(figures),
        *_list_job_families(counts),
    )
    return "".join(line + "\n" for family in families for line in family.format_lines())


def _list_run_families(figures: RunFigures) -> Iterator[_Family]:
    cost = figures.microcents / MICROCENTS_IN_A_DOLLAR
    tokens = {'direction="input"': figures.input_tokens, 'direction="output"': figures.output_tokens}
    for name, kind, text, value in (
        ("started_timestamp_seconds", "gauge", "When the run began.", figures.began),
        ("last_round_timestamp_seconds", "gauge", "When it last looked for ready jobs.", figures.last_round),
        ("jobs_running", "gauge", "Jobs that it works on now.", figures.running),
        ("steps_total", "counter", "Steps that it has done.", figures.steps),
        ("calls_total", "counter", "Answers of agents that it has recorded.", figures.calls),
        ("cost_total", "counter", "Cost that it has recorded, by currency.", {'currency="USD"': cost}),
        ("tokens_total", "counter", "Tokens that it has recorded.", tokens),
        ("errors_total", "counter", "Jobs that it could not continue because of an error.", figures.errors),
        ("last_error_timestamp_seconds", "gauge", "When that last happened; 0: never.", figures.last_error),
    ):
        yield _Family(f"logist_run_{name}", kind, text, value)


def _list_job_families(counts: JobCounts) -> Iterator[_Family]:
    known = {status.value: counts.by_status.get(status.value, 0) for status in Status}
    by_label = {f'status="{status}"': count for status, count in known.items()}
    other = counts.unreadable + sum(counts.by_status.values()) - sum(known.values())
    waiting = sum(known[status.value] for status in FOR_A_PERSON)
    yield _Family("logist_jobs", "gauge", "All jobs of the directory, by status.", by_label)
    yield _Family("logist_jobs_unreadable", "gauge", "Jobs whose state is not readable.", other)
    yield _Family("logist_jobs_waiting_for_person", "gauge", "Jobs that only a person can continue.", waiting)


def _format(value: float) -> str:
    """Never with an exponent, so that the simplest scripts can compare it."""
    return str(value) if isinstance(value, int) else f"{value:.8f}".rstrip("0").rstrip(".")
