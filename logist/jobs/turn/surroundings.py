"""What is around a job: its own earlier runs, the jobs under way beside it, and those it has to do with.

Everything is one line or a few, bounded, and without secrets; a job that can't be read is passed over.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import nlargest
from itertools import islice

from logist.core.answer.findings import line, one_line
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
from logist.core.relevance.words import of_title
from logist.errors import LogistError
from logist.jobs.base.project import Project
from logist.jobs.base.session import interaction_of, read_current_state
from logist.store import JobDir
from logist.store.listing import Glance, glances, job_ids

FINDINGS = 10
"""Of one review."""
OTHERS = 10
RELATED = 5
LOOKED_AT = 5_000
"""Jobs, of more those that changed last."""
LONGEST_TITLE = 120
LONGEST_SUMMARY = 300

_TOLD = (Kind.ASK, *kinds.RETURNS)


def runs(job: JobDir) -> Iterator[Interaction]:
    """What `attempts` needs of a history: the rest of it is not even turned into values."""
    return (interaction_of(entry) for entry in job.entries() if entry.get("kind") in _TOLD)


def attempts(
    history: Iterable[Interaction], redacted: Callable[[str], str], *, limit: int, told: int = 0
) -> list[str]:
    """The last runs of agents, at most `limit`, oldest first, a text each: who, how it ended, what a review found.

    `told`: how many of the newest answers are left out, for they are told elsewhere.
    """
    if not limit:
        return []
    found: list[tuple[Interaction, bool]] = []
    for entry in history:
        if entry.kind in kinds.RETURNS:
            since = fold.restep_target(entry) if entry.kind is Kind.RESTEP else 0
            found = [(run, back or run.sequence >= since) for run, back in found]
        elif _is_run(entry):
            found = [*found, (entry, False)][-limit - told :]
    chosen: list[str] = []
    for entry, back in reversed(found):
        if told and _actions(entry):
            told -= 1
        elif len(chosen) < limit:
            chosen.append(redacted(_run(entry, taken_back=back)))
    return chosen[::-1]


def _actions(entry: Interaction) -> list[str]:
    return [action for action in entry.response.actions if action in set(ExitAction)]


def _is_run(entry: Interaction) -> bool:
    """Whether an agent answered here; an answer that decides nothing counts, none at all does not."""
    return entry.kind is Kind.ASK and entry.response.error is None


def _run(entry: Interaction, *, taken_back: bool) -> str:
    role = entry.observed.role if entry.observed and entry.observed.role else "An agent"
    at = f" at step {entry.step}" if entry.step not in (None, "task") else ""
    reviewing = entry.observed is not None and entry.observed.phase is Phase.REVIEWER
    who = f"{role} ({'review' if reviewing else 'work'}{at})"
    back = " (taken back since)" if taken_back else ""
    actions = _actions(entry)
    if not actions:
        return f"{who}{back} gave no valid answer: {one_line(entry.reason, LONGEST_SUMMARY)}"
    review = AskCommand.read(entry.command) if reviewing else AskCommand()
    ended = f"{actions[0]}, {review.verdict}" if review.verdict is not None else actions[0]
    lines = [f"{who}{back} ended with {ended}: {one_line(entry.response.summary_for_supervisor, 1_000)}"]
    lines += [f"  reason: {one_line(entry.response.reason, 1_000)}"] if entry.response.reason else []
    return "\n".join([*lines, *_findings(review.findings or [])])


def _findings(found: list[JsonObject]) -> Iterator[str]:
    for each in found[:FINDINGS]:
        yield f"  - {one_line(line(each), LONGEST_TITLE + LONGEST_SUMMARY)}"
    if len(found) > FINDINGS:
        yield f"  - ... and {len(found) - FINDINGS} more"


def look(project: Project) -> list[Glance]:
    """All jobs as they lie, by id; of very many those that changed last."""
    jobs_dir = str(project.jobs_dir)
    ids = job_ids(jobs_dir)
    if len(ids) > LOOKED_AT:
        ids = sorted(nlargest(LOOKED_AT, ids, key=lambda job_id: (_changed(f"{jobs_dir}/{job_id}"), job_id)))
    return [_bring_up_to_date(project, one) for one in glances(jobs_dir, ids) if one.state is not None]


def _bring_up_to_date(project: Project, one: Glance) -> Glance:
    """The same with the state that its history gives, where state.json is behind that."""
    if not one.behind:
        return one
    try:
        return one._replace(state=read_current_state(project.job(one.id)))
    except LogistError:  # removed meanwhile
        return one


def _changed(folder: str) -> int:
    """When a file of the job was last replaced, in nanoseconds; 0 for one that is gone."""
    try:
        return os.stat(folder, follow_symlinks=False).st_mtime_ns
    except OSError:
        return 0


def others(project: Project, job_id: str, seen: Sequence[Glance] | None = None) -> list[str]:
    """Other jobs that are at work or have work that is not accepted yet, a line each; `seen` spares a look."""
    found: list[tuple[int, int, str, str]] = []
    for one in look(project) if seen is None else seen:
        state = one.state or {}
        if one.id != job_id and not _is_above(one.id, job_id) and _is_under_way(one, state):
            status = "an agent is at work" if one.asked else _text(state, "status")
            line = f"{one.id}: {one_line(_text(state, 'title'), LONGEST_TITLE)} ({status}, {_text(state, 'agent_role')})"
            found.append((not one.asked, _number(state, "rank"), one.id, line))
    return _listed(project, [line for *_, line in sorted(found)], OTHERS)


def _is_under_way(one: Glance, state: JsonObject) -> bool:
    """Whether there is work of it that others could get in the way of; a job that waits does none itself."""
    status = _text(state, "status")
    resting = status in TERMINAL or status in (Status.DRAFT, Status.WAITING)
    return one.asked or (not resting and _number(state, "asked") > 0)


def related(
    project: Project, spec: EffectiveSpec, job_id: str, seen: Sequence[Glance] | None = None
) -> list[str]:
    """Jobs with a tag or two words of the title in common, the closest first, a line each."""
    tags, words = {tag.casefold() for tag in spec.tags}, of_title(spec.title)
    found: list[tuple[int, str, str]] = []
    for one in look(project) if seen is None else seen:
        state = one.state or {}
        if one.id == job_id or _is_above(one.id, job_id) or _are_of_one(state, spec):
            continue
        own = state.get("tags")
        shared = [tag for tag in own if str(tag).casefold() in tags] if isinstance(own, list) else []
        common = len(words & of_title(_text(state, "title")))
        if shared or common >= 2:
            found.append((-3 * len(shared) - common, one.id, _related(one.id, state, shared)))
    return _listed(project, [line for *_, line in sorted(found)], RELATED)


def _related(job_id: str, state: JsonObject, shared: Sequence[object]) -> str:
    about = [_text(state, "status"), *([f"tags: {', '.join(map(str, shared))}"] if shared else [])]
    line = f"{job_id}: {one_line(_text(state, 'title'), LONGEST_TITLE)} ({one_line('; '.join(about), LONGEST_TITLE)})"
    last = state.get("last")
    summary = one_line(_text(last, "summary"), LONGEST_SUMMARY) if isinstance(last, dict) else ""
    return f"{line}: {summary}" if summary else line


def _is_above(job_id: str, below: str) -> bool:
    """Whether `below` does a part of it."""
    return below.startswith(f"{job_id}--")


def _are_of_one(state: JsonObject, spec: EffectiveSpec) -> bool:
    """Parts of one job: their titles are alike, and each has its own part."""
    return spec.parent is not None and state.get("parent") == spec.parent


def _listed(project: Project, lines: Sequence[str], most: int) -> list[str]:
    told = [project.redacted(line) for line in islice(lines, most)]
    return [*told, f"... and {len(lines) - most} more"] if len(lines) > most else told


def _text(state: JsonObject, name: str) -> str:
    value = state.get(name)
    return value if isinstance(value, str) else ""


def _number(state: JsonObject, name: str) -> int:
    value = state.get(name)
    return value if isinstance(value, int) else 0
