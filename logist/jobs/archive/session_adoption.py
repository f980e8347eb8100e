"""Adopts sessions of other agent programs: creates a job with a history from each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path

from logist import documents
from logist.config import prices, settings
from logist.core.adoption.building import AdoptedHistory, AdoptionFacts, list_models
from logist.core.adoption.session import REDACTED, AgentSession, NotASessionError
from logist.core.model import JobSpec, JsonObject, Model
from logist.core.model.commands import CreateCommand
from logist.core.money.money import has_known_price
from logist.core.text.counts import format_count
from logist.errors import Damaged, LogistError, Refused
from logist.jobs.archive import session_files
from logist.jobs.base import job_names, project_home
from logist.jobs.base.job_reader import read_interactions
from logist.jobs.base.project import ProjectContext
from logist.jobs.base.stored_records import dump_interaction, dump_state
from logist.jobs.doctor import repairs
from logist.quick_dataclass import dataclass
from logist.store import JobDir, history_copy, replace_file
from logist.timestamps import format_utc

MOST_NAMES = 100
_ID_CHARACTERS = re.compile(r"[^a-zA-Z0-9_-]+")


@dataclass(frozen=True)
class Adopted:
    """What became of one session file."""

    path: Path
    program: str = ""
    session: str = ""
    job: str | None = None
    """The id of the job; None if the session was refused."""
    is_new: bool = False
    """False if an earlier command has adopted the same session."""
    interactions: int = 0
    calls: int = 0
    """The tool calls of the session."""
    redacted: int = 0
    """The interactions from which secrets were removed."""
    notes: tuple[str, ...] = ()
    error: LogistError | None = None


def adopt_sessions(project: ProjectContext, paths: list[Path]) -> Iterator[Adopted]:
    """Adopt each session, and yield what became of it; one that is refused doesn't stop the others."""
    elsewhere: set[str] = set()
    for path in paths:
        try:
            found = session_files.read_session_file(path, elsewhere, project.redact)
            yield _adopt(project, path, _redact_names(found.session), found.sha256)
        except NotASessionError as error:
            message = project.redact_text(f"can't adopt the session: {error}")
            yield Adopted(
                path,
                error=Damaged(
                    message, where=str(path), fix="the file was not changed; see 'logist adopt --help'"
                ),
            )
        except LogistError as error:
            yield Adopted(path, error=error)


def _adopt(project: ProjectContext, path: Path, session: AgentSession, sha256: str) -> Adopted:
    calls = sum(sum(turn.counts.values()) for turn in session.turns)
    result = Adopted(path, session.program, session.id[:200], calls=calls)
    if (job := _find_adopted(project, session, sha256, path)) is not None:
        return replace(result, job=job, notes=(f"already adopted as {job}; nothing was changed",))
    return job_names.create_under_free_name(
        project, None, _suggest_ids(session), lambda name: _create_job(project, session, sha256, name, result)
    )


def _suggest_ids(session: AgentSession) -> Iterator[str]:
    """Yield the id that names the session, and then the same with numbers: another job may have it."""
    words = _ID_CHARACTERS.sub("-", session.id[:60]).strip("-") or "session"
    return job_names.generate_ids(
        f"{session.prefix}-{words}", chain([""], (f"-{n}" for n in range(2, MOST_NAMES)))
    )


def _find_adopted(project: ProjectContext, session: AgentSession, sha256: str, path: Path) -> str | None:
    """Return the job that was adopted from this file.

    Raises Refused if a job was adopted from the same session, which has changed since then.
    """
    for name in _suggest_ids(session):
        if not (project.jobs_dir / name).is_dir():
            return None
        created = _read_create(project, name)
        if created is None or created.adopted is None or created.session != session.id[:200]:
            continue
        if created.imported == sha256:
            return name
        raise Refused(
            f"the session has changed since it was adopted as {name}",
            where=str(path),
            fix=f"to adopt it again, delete that job first: logist job delete --job {name}",
        )
    return None


def _read_create(project: ProjectContext, name: str) -> CreateCommand | None:
    try:
        first = next(iter(read_interactions(project.open_job(name))), None)
    except (LogistError, OSError):
        return None
    return CreateCommand.read(first.command) if first is not None else None


def _create_job(
    project: ProjectContext, session: AgentSession, sha256: str, name: str, result: Adopted
) -> Adopted:
    if project.jobs_dir.is_relative_to(project.home):
        project_home.ensure_project_home(project.home)
    with JobDir.create_job(project.jobs_dir, name) as job:
        start = project.open_workspace(job).populate(None)
        facts = AdoptionFacts(
            sha256, project.steward, project.clock.timestamp(), str(job.workspace), start, format_utc
        )
        building = AdoptedHistory(session, find_models(project, session), project.schema, facts)

        def dump_entries() -> Iterator[JsonObject]:
            for entry in building.build_interactions():
                yield dump_interaction(entry)

        end = history_copy.rechain_history(job.history_file, dump_entries(), lambda _: None)
        spec = repairs.in_short(project, repairs.as_asked(building.spec), None)
        JobSpec.model_validate(spec)
        replace_file(job.spec_file, documents.dump_yaml({"id": name, **spec}).encode("utf-8"))
        job.write_state(dump_state(building.state, end))
    notes = [*building.list_notes(), "the workspace is empty: a session does not contain the files"]
    redacted = session.notes[REDACTED]
    return replace(
        result, job=name, is_new=True, interactions=end.sequence, redacted=redacted, notes=tuple(notes)
    )


def _redact_names(session: AgentSession) -> AgentSession:
    """Remove the secrets that Logist knows from what is not a text: the readers have removed them from all texts."""
    session.id, session.version = session.redact_text(session.id), session.redact_text(session.version)
    for turn in session.turns:
        for key, (model, tokens, copied) in turn.requests.items():
            turn.requests[key] = (session.redact_text(model), tokens, copied)
    return session


def find_models(project: ProjectContext, session: AgentSession) -> Mapping[str, Model]:
    """Find the models of a session whose prices are known: in the settings, else in the price tables."""
    found: dict[str, Model] = {}
    for name in list_models(session):
        model = _find_model(project, session.provider, name)
        if model is not None and has_known_price(model):
            found[name] = model
    return found


def _find_model(project: ProjectContext, provider: str, name: str) -> Model | None:
    for entry in (name, f"{provider}/{name}"):
        if entry in project.settings.models:
            return settings.resolve_model(project.settings, entry)
    for own, model in project.settings.models.items():
        if model.provider_model.partition("/")[2] == name and model.provider_model.startswith(f"{provider}/"):
            return settings.resolve_model(project.settings, own)
    known = prices.find_known_model(f"{provider}/{name}") if provider else None
    if known is None:
        return None
    return Model(name=name, provider_model=f"{provider}/{name}").model_copy(update=known._asdict())


def describe_count(adopted: Adopted) -> str:
    """Describe what a new job has, on one line."""
    return f"{format_count(adopted.interactions, 'interaction')}, {format_count(adopted.calls, 'tool call')}"
