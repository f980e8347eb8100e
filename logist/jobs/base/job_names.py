"""Generates ids for jobs without a chosen one, and creates the job with the first free id."""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from logist.core.model import JobSpec
from logist.core.text.ids import LONGEST_ID
from logist.errors import Refused
from logist.jobs.base.project import ProjectContext

Made = TypeVar("Made")


def generate_ids(stem: str, endings: Iterable[str]) -> Iterator[str]:
    """Yield the stem with each of the endings; a stem that is too long is shortened."""
    return (stem[: LONGEST_ID - len(ending)] + ending for ending in endings)


def create_under_free_name(
    project: ProjectContext, chosen: str | None, names: Iterable[str], make: Callable[[str], Made]
) -> Made:
    """Call `make` with the chosen name, or else with the first of the other names that no job has.

    Raises what `make` raises, and Refused if the chosen name, or each of the others, is taken.
    """
    if chosen:
        return make(chosen)
    tried = 0
    for name in names:
        tried += 1
        try:
            return make(name)
        except Refused:
            if not (project.jobs_dir / name).exists():
                raise
    raise Refused(f"all {tried:,} generated ids are taken", fix="choose one with --id")


def create_job_id(spec: JobSpec) -> str:
    """Return words of the title, and a few random characters, so that two jobs never get the same id."""
    title = spec.title or spec.prompt or _get_stem(spec.workflow) or "job"
    words = re.findall(r"[a-z0-9]+", _remove_accents(title.casefold()))
    return "-".join([*words[:5], secrets.token_hex(3)])[-LONGEST_ID:]


def _remove_accents(text: str) -> str:
    return "".join(each for each in unicodedata.normalize("NFKD", text) if not unicodedata.combining(each))


def _get_stem(workflow: str | None) -> str:
    return re.split(r"[/#.]", Path(workflow).name)[0] if workflow else ""
