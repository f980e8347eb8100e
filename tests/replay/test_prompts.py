"""What an archived doer was told it would be told today, to the byte: nothing that came later is in its prompt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from logist.core import fold, instructing, pieces
from logist.core.model import EffectiveSpec, Interaction, Kind, Phase, Request, Role
from logist.core.prompt import FileText, Given
from logist.jobs import looking
from tests.replay.test_fixtures import RECORDED


def asks() -> Iterator[Any]:
    """What doers were asked, each with the history before it and the spec it was asked under."""
    for path in RECORDED:
        entries = [*looking.interactions(looking.archived(path))]
        for number, entry in enumerate(entries):
            if entry.kind is Kind.ASK and entry.observed and entry.observed.phase is Phase.DOER:
                spec = next(before.spec for before in entries[number::-1] if before.spec)
                yield pytest.param(entries[:number], spec, entry.request, id=f"{path.name}-{entry.sequence}")


def given(request: Request) -> Given:
    """What the workspace held, read back from the prompt."""
    listing: list[str] = []
    files: list[FileText] = []
    for part in request.parts:
        lines = request.prompt[part.start : part.end].split("\n")
        if part.source == "listing" and lines[2].startswith("- "):
            listing = [line.removeprefix("- ") for line in lines[2:]]
        elif part.source.startswith("file:"):
            files.append(FileText(part.source.removeprefix("file:"), "\n".join([*lines[3:-1], ""])))
    return Given(listing=listing, files=files)


@pytest.mark.parametrize(("before", "spec", "request_then"), [*asks()])
def test_an_old_prompt_is_made_again(
    before: list[Interaction], spec: EffectiveSpec, request_then: Request
) -> None:
    name = request_then.metadata["role"]
    role = Role(name=name, description="d", instructions="As it was.", llm_model="m")
    told = instructing.instructed(spec, fold.fold(before), role, given(request_then), Phase.DOER)
    prompt, _, start, _ = pieces.assemble(told.system, told.user, lambda text: (text, 0), told.joint)
    assert prompt[start:] == request_then.prompt[request_then.metadata["user_start"] :]
