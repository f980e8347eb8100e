"""The context around a job: its own earlier runs, other jobs in progress, and related jobs.

Each is described in a few lines, bounded, and without secrets; a job that can't be read is skipped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import nlargest
from itertools import islice

from logist.core.answer.findings import format_finding, shorten_to_line
from logist.core.history import fold
from logist.core.machine import kinds
from logist.core.model import (
    TERMINAL,
    EffectiveSpec,
    ExitAction,
    Interaction,
    JsonObject,
    Kind,
    Phase,
    Status,
)
from logist.core.model.commands import AskCommand
from logist.core.relevance.words import stem_title
from logist.errors import LogistError
from logist.jobs.base.project import ProjectContext
from logist.jobs.base.stored_records import parse_interaction, read_current_state
from logist.store import JobDir, Position
from logist.store.listing import Glance, list_job_ids, read_glances

FINDINGS = 10
"""The maximum number of findings of one review."""
OTHERS = 10
RELATED = 5
LOOKED_AT = 5_000
"""The maximum number of jobs that are read; if there are more, those that changed last."""
LONGEST_TITLE = 120
LONGEST_SUMMARY = 300

_TOLD = (Kind.ASK, *kinds.RETURNS)


def read_runs(job: JobDir, last: Position, count: int) -> Iterator[Interaction]:
    """Yield the interactions that `describe_attempts` needs for the last `count` runs; the others are not even parsed.

    `last` is the position of the last entry: a long history is read from its end, if that is enough.
    """
    recent: list[Interaction] = []
    for entry in job.iter_recent_entries(last):
        if entry.get("kind") in _TOLD:
            recent.append(parse_interaction(entry))
            count -= _is_run(recent[-1])
        if count <= 0 or entry["sequence"] == 1:
            return reversed(recent)
    return (parse_interaction(entry) for entry in job.read_entries() if entry.get("kind") in _TOLD)


def describe_attempts(
    history: Iterable[Interaction], redacted: Callable[[str], str], *, limit: int, told: int = 0
) -> list[str]:
    """Describe the last runs of agents, at most `limit`, oldest first: who ran, how it ended, what a review
    found.

    `told`: how many of the newest answers to leave out, because another part of the prompt has them.
    """
    if not limit:
        return []
    agent_runs: list[tuple[Interaction, bool]] = []
    for entry in history:
        if entry.kind in kinds.RETURNS:
            restep_target = fold.read_restep_target(entry) if entry.kind is Kind.RESTEP else 0
            agent_runs = [(run, back or run.sequence >= restep_target) for run, back in agent_runs]
        elif _is_run(entry):
            agent_runs = [*agent_runs, (entry, False)][-limit - told :]
    texts: list[str] = []
    for entry, back in reversed(agent_runs):
        if told and _list_exit_actions(entry):
            told -= 1
        elif len(texts) < limit:
            texts.append(redacted(_describe_run(entry, taken_back=back)))
    return texts[::-1]


def _list_exit_actions(entry: Interaction) -> list[str]:
    return [action for action in entry.response.actions if action in set(ExitAction)]


def _is_run(entry: Interaction) -> bool:
    """True if an agent answered. An answer without a valid action counts, a missing answer does not."""
    return entry.kind is Kind.ASK and entry.response.error is None


def _describe_run(entry: Interaction, *, taken_back: bool) -> str:
    role = entry.observed.role if entry.observed and entry.observed.role else "An agent"
    at = f" at step {entry.step}" if entry.step not in (None, "task") else ""
    reviewing = entry.observed is not None and entry.observed.phase is Phase.REVIEWER
    who = f"{role} ({'review' if reviewing else 'work'}{at})"
    suffix = " (undone since)" if taken_back else ""
    actions = _list_exit_actions(entry)
    if not actions:
        return f"{who}{suffix} returned no valid answer: {shorten_to_line(entry.reason, LONGEST_SUMMARY)}"
    review = AskCommand.read(entry.command) if reviewing else AskCommand()
    outcome = f"{actions[0]}, {review.verdict}" if review.verdict is not None else actions[0]
    lines = [
        f"{who}{suffix} ended with {outcome}: {shorten_to_line(entry.response.summary_for_supervisor, 1_000)}"
    ]
    lines += [f"  reason: {shorten_to_line(entry.response.reason, 1_000)}"] if entry.response.reason else []
    return "\n".join([*lines, *_describe_findings(review.findings or [])])


def _describe_findings(found: list[JsonObject]) -> Iterator[str]:
    for each in found[:FINDINGS]:
        yield f"  - {shorten_to_line(format_finding(each), LONGEST_TITLE + LONGEST_SUMMARY)}"
    if len(found) > FINDINGS:
        yield f"  - ... and {len(found) - FINDINGS} more"


def load_glances(project: ProjectContext) -> list[Glance]:
    """Load all jobs as a listing sees them, by id; of very many those that changed last."""
    jobs_dir = str(project.jobs_dir)
    ids = list_job_ids(jobs_dir)
    if len(ids) > LOOKED_AT:
        ids = sorted(
            nlargest(LOOKED_AT, ids, key=lambda job_id: (_read_change_time(f"{jobs_dir}/{job_id}"), job_id))
        )
    return [_bring_up_to_date(project, one) for one in read_glances(jobs_dir, ids) if one.state is not None]


def _bring_up_to_date(project: ProjectContext, one: Glance) -> Glance:
    """The glance with the state that the history gives, if state.json is behind the history."""
    if not one.behind:
        return one
    try:
        return one._replace(state=read_current_state(project.open_job(one.id)))
    except LogistError:  # removed meanwhile
        return one


def _read_change_time(folder: str) -> int:
    """When a file of the job was last replaced, in nanoseconds; 0 if the job does not exist any more."""
    try:
        return os.stat(folder, follow_symlinks=False).st_mtime_ns
    except OSError:
        return 0


def describe_other_jobs(
    project: ProjectContext, job_id: str, seen: Sequence[Glance] | None = None
) -> list[str]:
    """Describe other jobs that are in progress or whose work is not accepted yet, one line each.

    `seen`: glances that the caller has loaded already.
    """
    ranked: list[tuple[int, int, str, str]] = []
    for one in load_glances(project) if seen is None else seen:
        state = one.state or {}
        if one.id != job_id and not _is_above(one.id, job_id) and _is_in_progress(one, state):
            status = "an agent is at work" if one.asked else _read_text(state, "status")
            line = f"{one.id}: {shorten_to_line(_read_text(state, 'title'), LONGEST_TITLE)} ({status}, {_read_text(state, 'agent_role')})"
            ranked.append((not one.asked, _read_number(state, "rank"), one.id, line))
    return _limit_lines(project, [line for *_, line in sorted(ranked)], OTHERS)


def _is_in_progress(one: Glance, state: JsonObject) -> bool:
    """True if the job has work that others could interfere with; a waiting job does no work itself."""
    status = _read_text(state, "status")
    resting = status in TERMINAL or status in (Status.DRAFT, Status.WAITING)
    return one.asked or (not resting and _read_number(state, "asked") > 0)


def describe_related_jobs(
    project: ProjectContext, spec: EffectiveSpec, job_id: str, seen: Sequence[Glance] | None = None
) -> list[str]:
    """Describe jobs that share a tag or two words of the title, the closest first, one line each."""
    tags, words = {tag.casefold() for tag in spec.tags}, stem_title(spec.title)
    ranked: list[tuple[int, str, str]] = []
    for one in load_glances(project) if seen is None else seen:
        state = one.state or {}
        if one.id == job_id or _is_above(one.id, job_id) or _are_siblings(state, spec):
            continue
        own = state.get("tags")
        shared = [tag for tag in own if str(tag).casefold() in tags] if isinstance(own, list) else []
        common = len(words & stem_title(_read_text(state, "title")))
        if shared or common >= 2:
            ranked.append((-3 * len(shared) - common, one.id, _describe_related_job(one.id, state, shared)))
    return _limit_lines(project, [line for *_, line in sorted(ranked)], RELATED)


def _describe_related_job(job_id: str, state: JsonObject, shared: Sequence[object]) -> str:
    about = [_read_text(state, "status"), *([f"tags: {', '.join(map(str, shared))}"] if shared else [])]
    line = f"{job_id}: {shorten_to_line(_read_text(state, 'title'), LONGEST_TITLE)} ({shorten_to_line('; '.join(about), LONGEST_TITLE)})"
    last = state.get("last")
    summary = shorten_to_line(_read_text(last, "summary"), LONGEST_SUMMARY) if isinstance(last, dict) else ""
    return f"{line}: {summary}" if summary else line


def _is_above(job_id: str, below: str) -> bool:
    """True if `below` does a part of `job_id`."""
    return below.startswith(f"{job_id}--")


def _are_siblings(state: JsonObject, spec: EffectiveSpec) -> bool:
    """True for parts of the same job: their titles are alike, but each has its own part."""
    return spec.parent is not None and state.get("parent") == spec.parent


def _limit_lines(project: ProjectContext, lines: Sequence[str], most: int) -> list[str]:
    redacted = [project.redact_text(line) for line in islice(lines, most)]
    return [*redacted, f"... and {len(lines) - most} more"] if len(lines) > most else redacted


def _read_text(state: JsonObject, name: str) -> str:
    value = state.get(name)
    return value if isinstance(value, str) else ""


def _read_number(state: JsonObject, name: str) -> int:
    value = state.get(name)
    return value if isinstance(value, int) else 0
