"""An archived request: its prompt in blocks, what was cut from it, and what it says about its surroundings.

What the prompt took from the workspace and from other jobs can't be produced again: its text exists only in
the archive. So to rebuild a prompt, stand-ins are used for these texts (`build_stand_ins`), as many as the
archive has texts, and the archived texts are then put in their place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from logist.core.prompt.budget import LEFT_OUT
from logist.core.prompt.prompt import FileText, Given, Relevant
from logist.core.prompt.prompt_parts import SEPARATOR, UnplacedPart
from logist.core.prompt.redaction_marks import read_redaction_marks
from logist.core.secrets.redact import REDACTED
from logist.quick_tuple import NamedTuple

if TYPE_CHECKING:
    from logist.core.model import Request

SURROUNDINGS = frozenset(
    {
        *("listing", "file", "changes", "diff", "repo_structure", "relevant_files", "relevant"),
        *("prior_attempts", "session_context", "related_tasks", "custom_instructions", "answer", LEFT_OUT),
    }
)
"""By the first word of the source: what only the archive knows."""
STAND_IN = "?"
MOST_GUESSES = 16
"""Of how many files seemed to matter."""
MOST_ITEMS = 200
"""Of such a list."""
_LISTS = ("prior_attempts", "session_context", "related_tasks", "relevant_files")
MOST_HIDDEN = 20
"""Lines with secrets that are looked for in another text."""
_STEP = "## Workflow Step: "
_CUT = re.compile(r"\n\n\(([0-9,]{1,20}) more characters are left out: the prompt has no room for them\)\Z")
_FENCE = re.compile(r"\n`{3,}\Z")


class PromptBlock(NamedTuple):
    """A part of a prompt; for a role's template, all of its pieces together with the values filled in."""

    source: str
    pieces: tuple[UnplacedPart, ...]
    start: int = 0
    """Where it begins in the prompt; of one that is made today 0."""

    @property
    def text(self) -> str:
        """The text as in the prompt."""
        pieces = self.pieces
        return pieces[0].text if len(pieces) == 1 else "".join(piece.text for piece in pieces)

    @property
    def is_given(self) -> bool:
        """Whether only the archive has this text."""
        return len(self.pieces) == 1 and is_surrounding(self.source)


@lru_cache(maxsize=256)
def is_surrounding(source: str) -> bool:
    """Whether only the archive has what comes from this source."""
    return source.partition(":")[0] in SURROUNDINGS


def read_blocks(request: Request) -> list[PromptBlock]:
    """Return the parts of an archived prompt in order, those of a template together.

    Empty if the archive lists no parts.
    """
    runs: list[list[UnplacedPart]] = []
    starts: list[int] = []
    before = -1
    masked_parts = read_redaction_marks(request.metadata)
    prompt = request.prompt
    for number, part in enumerate(request.parts):
        start, end = part.start, part.end
        text = prompt[start if start > 0 else 0 : end if end > 0 else 0]
        kind: Literal["rule", "given"] = "rule" if part.kind == "rule" else "given"
        piece = UnplacedPart(part.source, kind, text, False, 0, "", number in masked_parts)
        if start == before and runs:
            runs[-1].append(piece)
        else:
            runs.append([piece])
            starts.append(start)
        before = end
    return [_build_block(run, start) for run, start in zip(runs, starts, strict=True)]


def group_blocks(pieces: Iterable[UnplacedPart]) -> list[PromptBlock]:
    """Group parts that have no place yet into blocks: parts of a template together."""
    runs: list[list[UnplacedPart]] = []
    for piece in pieces:
        if piece.glued and runs:
            runs[-1].append(piece)
        else:
            runs.append([piece])
    nonempty_runs = (run if len(run) == 1 else [piece for piece in run if piece.text] for run in runs)
    return [_build_block(run, 0) for run in nonempty_runs if run and run[0].text]


def _build_block(run: Sequence[UnplacedPart], start: int) -> PromptBlock:
    first = run[0]
    if len(run) == 1:
        source = first.source
        if source == "step" and first.text.startswith(_STEP):
            source = "workflow_step"
        return PromptBlock(source, (first,), start)
    template = (piece.source for piece in run if piece.source.startswith("template:"))
    return PromptBlock(next(template, first.source), tuple(run), start)


def key_blocks(found: Iterable[PromptBlock]) -> dict[tuple[str, int], PromptBlock]:
    """Return the blocks by their source and their number among the blocks from that source."""
    keys: dict[tuple[str, int], PromptBlock] = {}
    counts: dict[str, int] = {}
    for block in found:
        number = counts[block.source] = counts.get(block.source, -1) + 1
        keys[block.source, number] = block
    return keys


def read_cuts(request: Request) -> dict[str, str]:
    """Return what did not fit into the prompt: `shortened` or `dropped`, by source."""
    rows = request.metadata.get("context")
    context_rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return {
        str(row.get("source")): how
        for row in context_rows
        if (how := row.get("cut")) in ("shortened", "dropped")
    }


def is_shortened(text: str, whole: str) -> bool:
    """Whether `text` is the beginning of `whole` followed by the note that says how much is left out."""
    ending = _CUT.search(text)
    if ending is None:
        return False
    omitted = int(ending[1].replace(",", "") or 0)
    kept, shortened = whole[: max(0, len(whole) - omitted)].rstrip("\n"), text[: ending.start()]
    return shortened == kept or _FENCE.sub("", shortened).rstrip("\n") == kept


def is_redacted(text: str, whole: str) -> bool:
    """Whether `text` is `whole` with secrets removed whose values are not known any more."""
    literals = text.split(REDACTED)
    if len(literals) == 1 or not (whole.startswith(literals[0]) and whole.endswith(literals[-1])):
        return False
    place, end = len(literals[0]), len(whole) - len(literals[-1])
    for literal in literals[1:-1]:
        position = whole.find(literal, place, end)
        if position < 0:
            return False
        place = position + len(literal)
    return place <= end


def mask_like_archive(text: str, whole: str) -> str:
    """Return `whole` with those lines of `text` that differ only by redacted
    secrets, so that these stay hidden.
    """
    if REDACTED not in text:
        return whole
    lines = text.split("\n")
    masked_lines = [line for line in lines if REDACTED in line and line.replace(REDACTED, "").strip()][
        :MOST_HIDDEN
    ]
    known = frozenset(lines)
    return "\n".join(
        line if line in known else next((mask for mask in masked_lines if is_redacted(mask, line)), line)
        for line in whole.split("\n")
    )


class Counts(NamedTuple):
    """How many items the lists had that a role's template may loop over."""

    attempts: int
    others: int
    related: int
    relevant: tuple[int, int]
    """Files, and of how many the text was there."""


def list_count_options(request: Request, found: Sequence[PromptBlock], *, counted: bool) -> list[list[Any]]:
    """List the possible values of each field of `Counts`, the most likely first.

    `found` are the blocks of the prompt.

    `counted`: a template may have looped over the lists, and the archive does not always say how many items
    they had.
    """
    cuts = read_cuts(request) if counted else {}
    shown = len(_list_paths(found, "relevant:"))
    lists = [_guess_counts(found, name, counted=counted, cut=name in cuts) for name in _LISTS]
    known_pairs = [(max(count, shown), shown) for count in lists[-1]]
    guessed_pairs = (
        [(count, texts) for count in lists[-1] for texts in range(count, shown, -1)] if counted else []
    )
    return [*lists[:-1], [*dict.fromkeys([*known_pairs, *guessed_pairs])][:MOST_GUESSES]]


def build_stand_ins(request: Request, counts: Counts | None = None) -> Given:
    """Build stand-ins for the surroundings of a prompt.

    Without `counts`, the lists have the most likely number of items for a role without a template.
    """
    job = (request.command or {}).get("job_id")
    sources = dict.fromkeys(part.source for part in request.parts)
    shown = _select_paths(sources, "relevant:")
    if counts is None:
        attempts, others, related, relevant = (int(name in sources) for name in _LISTS)
        counts = Counts(attempts, others, related, (max(relevant, len(shown)), len(shown)))
    return Given(
        listing=(STAND_IN,) if "listing" in sources else (),
        files=[FileText(path, STAND_IN) for path in _select_paths(sources, "file:")],
        structure=STAND_IN,
        relevant=_build_relevant(shown, *counts.relevant),
        attempts=(STAND_IN,) * counts.attempts,
        others=(STAND_IN,) * counts.others,
        related=(STAND_IN,) * counts.related,
        instructions=STAND_IN if "custom_instructions" in sources else "",
        diff=STAND_IN if "diff" in sources else "",
        answer=STAND_IN if "answer" in sources else "",
        partial="partial" in sources,
        job=job if isinstance(job, str) else "",
    )


def is_joined_from(
    request: Request, system: Sequence[UnplacedPart], user: Sequence[UnplacedPart], joint: str
) -> bool:
    """Whether exactly these pieces, joined, are the archived prompt; texts of the surroundings are the archived ones.

    False also for a prompt with glued pieces or redacted parts, which have to be compared one by one.
    """
    prompt, parts = request.prompt, request.parts
    if len(parts) != len(system) + len(user) or read_redaction_marks(request.metadata):
        return False
    texts = []
    for part, piece in zip(parts, (*system, *user), strict=True):
        source, start, end = piece.source, part.start, part.end
        text = prompt[start if start > 0 else 0 : end if end > 0 else 0]
        if source != part.source or piece.glued or not (text == piece.text or is_surrounding(source)):
            return False
        texts.append(text)
    return joint.join(texts[: len(system)]) + SEPARATOR + joint.join(texts[len(system) :]) == prompt


def _list_paths(found: Sequence[PromptBlock], prefix: str) -> list[str]:
    """Return what follows a prefix in the sources, each once."""
    return _select_paths((piece.source for block in found for piece in block.pieces), prefix)


def _select_paths(sources: Iterable[str], prefix: str) -> list[str]:
    chosen = dict.fromkeys(source for source in sources if source.startswith(prefix))
    return [source.removeprefix(prefix) for source in chosen]


def _build_relevant(shown: Sequence[str], count: int, with_text: int) -> list[Relevant]:
    paths = [*shown, *[STAND_IN] * (count - len(shown))]
    files = [FileText(path, STAND_IN if number < with_text else None) for number, path in enumerate(paths)]
    return [Relevant(file, STAND_IN) for file in files]


def _guess_counts(found: Sequence[PromptBlock], name: str, *, counted: bool, cut: bool) -> list[int]:
    """Return how many items a list can have had, the most likely number first."""
    texts = [(block, piece.text) for block in found for piece in block.pieces if piece.source == name]
    if not counted or not (texts or cut):
        return [1 if texts else 0]
    whole = next((text for block, text in texts if len(block.pieces) == 1), texts[0][1] if texts else "")
    lines = sum(line.startswith("- ") for line in whole.split("\n"))
    guesses = (lines, len(texts), len(texts) - 1, len(texts) // 2, *((1, 2, 3, 4, 5) if cut else (1,)))
    return [*dict.fromkeys(min(guess, MOST_ITEMS) for guess in guesses if guess > 0)]
