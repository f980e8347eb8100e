"""Reads the answer that a person supplies to `job poststep` instead of an agent: from a file, a text or an interaction."""

from __future__ import annotations

import sys

from logist.core.answer import exit_command
from logist.core.model import Kind, Usage
from logist.core.text import surrogates
from logist.errors import UsageError
from logist.jobs.base import job_reader
from logist.jobs.base.project import ProjectContext
from logist.jobs.step_job import GivenAnswer

LONGEST = 16 << 20
"""Maximum bytes of an answer, the same as for a model's answer."""


def read_given_answer(
    project: ProjectContext,
    job_id: str,
    source: str | None,
    text: str | None,
    sequence: int | None,
    charge: Usage,
) -> GivenAnswer:
    """Return the answer from an interaction, a text, or a file (`-`: standard input)."""
    if sequence is not None:
        entry = job_reader.find_interaction(project.open_job(job_id), sequence)
        if entry.kind is not Kind.ASK:
            fix = f"run 'logist job history --job {job_id}' to see which interactions are answers"
            raise UsageError(f"interaction {sequence} is not an answer: its kind is {entry.kind}", fix=fix)
        return GivenAnswer(entry.response.raw_response, charge=charge)
    if text is not None:
        return GivenAnswer(surrogates.replace_surrogates(text)[0], charge=charge)
    try:
        data = sys.stdin.buffer.read(LONGEST + 1) if source == "-" else _read_content(str(source))
    except OSError as error:
        raise UsageError(f"can't read the answer: {error.strerror}", where=str(source)) from error
    if len(data) > LONGEST:
        raise UsageError(f"the answer is larger than {LONGEST:,} bytes", where=str(source))
    decoded, broken = exit_command.decode_answer(data)
    return GivenAnswer(decoded, broken=broken, charge=charge)


def _read_content(source: str) -> bytes:
    """Read a file or a pipe; a pipe is read until its writer closes it, like standard input."""
    with open(source, "rb") as file:
        return file.read(LONGEST + 1)
