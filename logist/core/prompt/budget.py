"""The budget of a prompt: the least important parts are shortened, then dropped, until the rest fits.

One token is counted as three bytes: English has four per token, code about three, most other scripts one to
three. The parts are kept in order of importance; the first that does not fit completely is shortened, and
less important parts are dropped. So a larger budget never shows less of any part, and the same parts are
always cut in the same way. A note tells the agent what was cut: with names if there is space, otherwise in
one line.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from logist.core.model import JsonObject
from logist.core.prompt.prompt_parts import (
    SEPARATOR,
    UnplacedPart,
    count_bytes,
    escape_unprintable,
    find_end_of_context,
)
from logist.errors import InvalidFile
from logist.quick_dataclass import dataclass

BYTES_PER_TOKEN = 3
NEVER = 0
"""The priority of parts that are never cut. Of the others, those with the highest number are cut first."""

PRIORITIES = {
    "custom_instructions": 1,
    "previous": 1,
    "plan": 1,
    "output": 2,
    "answer": 2,
    "results": 2,
    "file": 3,
    "changes": 3,
    "steps": 3,
    "diff": 4,
    "prior_attempts": 4,
    "relevant_files": 4,
    "repo_structure": 5,
    "listing": 5,
    "relevant": 6,
    "session_context": 7,
    "related_tasks": 8,
}
"""By the first word of the source. Parts that are not in this table are never cut: contract, role, permissions,
task, step, findings, note, the reviewer's checks."""

FROM = {
    "role": "role",
    "permissions": "role",
    "template": "role",
    "agent_role": "workflow",
    "workflow_step": "workflow",
    **dict.fromkeys(("task", "instructions", "context"), "job.yaml"),
    **dict.fromkeys(
        ("steps", "previous", "plan", "output", "answer", "results", "prior_attempts"), "history"
    ),
    **dict.fromkeys(("findings", "checks"), "review"),
    **dict.fromkeys(("checklist", "custom_instructions"), "config"),
    "note": "steward",
    **dict.fromkeys(("session_context", "related_tasks"), "other jobs"),
    **dict.fromkeys(("changes", "unchanged", "diff", "listing", "file", "relevant"), "workspace"),
    **dict.fromkeys(("repo_structure", "relevant_files"), "workspace"),
}
"""Where a part comes from; parts that are not in this table are Logist's own rules."""

LEFT_OUT = "left_out"
_BRIEFLY = "(Some context was left out to save space.)"
"""The note if there is no space for one with names."""
_NAMES_BYTES = 400
_TIGHT = 2_000
"""Bytes for all parts that may be cut; if there are no more, only the shortest note is subtracted from them."""
_FEWEST_NAMES_BYTES = 60
"""For each list of names; the number of omitted names takes 30 of them."""
_LONG_LINE = 400
"""Characters; longer lines may be cut inside."""


@dataclass(frozen=True)
class Budget:
    """The maximum number of tokens of a prompt, and the setting that defines it."""

    tokens: int
    says: str
    """The setting, such as `context.budget_tokens`."""
    fix: str
    reckoned: str = ""
    """How the number was calculated, if no setting contains it directly."""


@dataclass(frozen=True)
class BudgetRow:
    """A part of a prompt, as a row of the table."""

    source: str
    tokens: int
    """The tokens that are left in the prompt."""
    priority: int
    origin: str
    cut: str = "none"
    """`none`, `shortened` or `dropped`."""
    reason: str = ""
    whole: int = 0
    """Tokens before it was cut."""

    def to_json(self) -> JsonObject:
        """Return the row as it is stored."""
        return {
            "source": self.source,
            "tokens": self.tokens,
            "priority": self.priority,
            "from": self.origin,
            "cut": self.cut,
            **({"whole": self.whole} if self.cut != "none" else {}),
            **({"reason": self.reason} if self.reason else {}),
        }


@dataclass(frozen=True)
class Fitted:
    """Both halves of a prompt, cut to the budget."""

    system: list[UnplacedPart]
    user: list[UnplacedPart]
    rows: list[BudgetRow]
    cut: bool


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text as a third of its bytes, which is the same everywhere."""
    return -(-count_bytes(text) // BYTES_PER_TOKEN)


def get_priority(piece: UnplacedPart) -> int:
    """Return how soon a part is cut: the higher, the sooner; NEVER is 0."""
    return PRIORITIES.get(piece.source.partition(":")[0], NEVER)


def fit_to_budget(
    system: Sequence[UnplacedPart],
    user: Sequence[UnplacedPart],
    joint: str,
    budget: Budget | None,
    *,
    strict: bool = True,
) -> Fitted:
    """Cut the parts until the prompt has at most as many tokens as the budget; None means no budget.

    Raises InvalidFile if the parts that are never cut are too long; unless `strict`, they are returned as
    they are. The parts must be redacted already, because the cut is measured on what will be sent.
    """
    whole = [*system, *user]
    costs = [count_bytes(piece.text) + (0 if piece.glued else count_bytes(joint)) for piece in whole]
    if budget is None or count_bytes(SEPARATOR) + sum(costs) <= budget.tokens * BYTES_PER_TOKEN:
        return Fitted([*system], [*user], _build_rows(whole, whole), cut=False)
    shortest_parts = [_shorten_to_least(piece) for piece in whole]
    floors = [_cost_in_bytes(piece, joint) for piece in shortest_parts]
    room = budget.tokens * BYTES_PER_TOKEN - count_bytes(SEPARATOR) - sum(floors)
    if room < 0 and strict:
        raise _build_too_long_error(shortest_parts, budget)
    kept = (
        _fill_room(whole, shortest_parts, costs, floors, _subtract_note(room, joint))
        if room >= 0
        else shortest_parts
    )
    room_for_note = (
        room + sum(floors) - sum(_cost_in_bytes(piece, joint) for piece in kept) - count_bytes(joint)
    )
    note = (
        [UnplacedPart(LEFT_OUT, "given", _choose_note(whole, kept, room_for_note))]
        if room_for_note >= count_bytes(_BRIEFLY)
        else []
    )
    cut_system, cut_user = kept[: len(system)], kept[len(system) :]
    halves = [[piece for piece in half if piece is not None] for half in (cut_system, cut_user)]
    end = find_end_of_context([piece.source for piece in halves[1]])
    user_with_note = [*halves[1][:end], *note, *halves[1][end:]]
    return Fitted(halves[0], user_with_note, [*_build_rows(whole, kept), *_build_rows(note, note)], cut=True)


def _subtract_note(room: int, joint: str) -> int:
    """Return how many of these bytes are left for the parts next to the note.

    Never decreases as `room` grows.
    """
    shortest = count_bytes(joint) + count_bytes(_BRIEFLY)
    longest = count_bytes(joint) + count_bytes(_render_note([], [])) + _NAMES_BYTES
    return max(room - longest, min(room, _TIGHT) - shortest, min(room, shortest - 1))


def _fill_room(
    whole: Sequence[UnplacedPart],
    least: Sequence[UnplacedPart | None],
    costs: Sequence[int],
    floors: Sequence[int],
    room: int,
) -> list[UnplacedPart | None]:
    """Keep the parts for which there is room above the floors, the most important first.

    The last of them may be shortened.
    """
    parts = [*least]
    order = sorted(range(len(whole)), key=lambda number: (get_priority(whole[number]), number))
    for number in order:
        needed = costs[number] - floors[number]
        if needed > room:
            joint = costs[number] - count_bytes(whole[number].text)
            parts[number] = shorten_part(whole[number], floors[number] + room - joint) or least[number]
            break
        parts[number], room = whole[number], room - needed
    return parts


def _shorten_to_least(piece: UnplacedPart) -> UnplacedPart | None:
    """Return the shortest form of a part; None if it can be dropped."""
    if get_priority(piece) == NEVER or not piece.least:
        return piece if get_priority(piece) == NEVER else None
    short = _cut_at(piece, piece.least)
    return short if count_bytes(short.text) < count_bytes(piece.text) else piece


def _cost_in_bytes(piece: UnplacedPart | None, joint: str) -> int:
    return 0 if piece is None else count_bytes(piece.text) + (0 if piece.glued else count_bytes(joint))


def shorten_part(piece: UnplacedPart, room: int) -> UnplacedPart | None:
    """Cut a part to at most `room` bytes, including a note that it is cut;
    None if there is too little room.
    """
    last_cut, fence, characters, has_text = None, "", 0, False
    chunks = _split_into_chunks(piece.text)
    for chunk, total in zip(chunks, accumulate(map(count_bytes, chunks)), strict=True):
        if total > room:
            break
        characters, has_text, fence = (
            characters + len(chunk),
            has_text or bool(chunk.strip()),
            _fence_after(fence, chunk),
        )
        ending = count_bytes(_render_ending(len(piece.text) - characters, fence))
        if has_text and piece.least <= characters < len(piece.text) and total + ending <= room:
            last_cut = characters, fence
    return _cut_at(piece, *last_cut) if last_cut else None


def _split_into_chunks(text: str) -> list[str]:
    """Split a text where it may be cut: into lines with their ends, long ones into several chunks."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1].removesuffix("\n")
    return [line[start : start + _LONG_LINE] for line in lines for start in range(0, len(line), _LONG_LINE)]


def _fence_after(fence: str, chunk: str) -> str:
    """Return the fence that is open after a line.

    Our fences are on lines of their own, and only the same fence closes one.
    """
    line = chunk.strip("\n")
    mark = line.rstrip("abcdefghijklmnopqrstuvwxyz")
    if fence:
        return "" if line == fence else fence
    return mark if len(mark) >= 3 and set(mark) == {"`"} else ""


def _cut_at(piece: UnplacedPart, end: int, fence: str = "") -> UnplacedPart:
    return piece._replace(text=piece.text[:end].rstrip("\n") + _render_ending(len(piece.text) - end, fence))


def _render_ending(left: int, fence: str) -> str:
    """Render the end of a part that is cut; `fence` is the one that is open there."""
    closing = f"\n{fence}" if fence else ""
    return f"{closing}\n\n({left:,} more characters are left out: the prompt has no room for them)"


def _choose_note(whole: Sequence[UnplacedPart], kept: Sequence[UnplacedPart | None], room: int) -> str:
    """Render the note about what was cut in at most `room` bytes."""
    names = min(_NAMES_BYTES, room - count_bytes(_render_note([], []))) // 2
    if names < _FEWEST_NAMES_BYTES:
        return _BRIEFLY
    pairs = [*zip(whole, kept, strict=True)]
    short = [piece.source for piece, now in pairs if now is not None and now.text != piece.text]
    dropped = [piece.source for piece, now in pairs if now is None and piece.text]
    return _render_note(short, dropped, names)


def _render_note(short: Sequence[str], gone: Sequence[str], room: int = 0) -> str:
    return (
        "## Left out\n\nThe prompt has no space for the complete context. "
        f"Shortened: {_join_names(short, room)}. Left out: {_join_names(gone, room)}. "
        "If you need these parts, look for them in the workspace."
    )


def _join_names(sources: Sequence[str], room: int) -> str:
    """Join as many names as fit into this many bytes, and say how many more there are."""
    names = [*dict.fromkeys(escape_unprintable(source) for source in sources)]
    fitting: list[str] = []
    for name in names:
        if count_bytes(", ".join([*fitting, name])) > room - 30:
            break
        fitting.append(name)
    more = [f"{len(names) - len(fitting):,} more"] if len(fitting) < len(names) else []
    return ", ".join([*fitting, *more]) or "nothing"


def _build_rows(whole: Sequence[UnplacedPart], kept: Sequence[UnplacedPart | None]) -> list[BudgetRow]:
    """Build one row per source, in the order of the prompt.

    Parts of a template with the same source share a row.
    """
    rows: dict[str, BudgetRow] = {}
    for piece, now in zip(whole, kept, strict=True):
        before, after = count_bytes(piece.text), count_bytes(now.text) if now else 0
        origin = FROM.get(piece.source.partition(":")[0], "logist")
        row = rows.get(piece.source) or BudgetRow(
            piece.source, 0, get_priority(piece), origin, reason=piece.reason
        )
        rows[piece.source] = replace(row, tokens=row.tokens + after, whole=row.whole + before)
    return [_to_token_row(row) for row in rows.values() if row.whole]


def _to_token_row(row: BudgetRow) -> BudgetRow:
    """Convert a row from bytes to tokens, and set whether the part was cut."""
    cut = "none" if row.tokens == row.whole else "shortened" if row.tokens else "dropped"
    now, whole = (-(-amount // BYTES_PER_TOKEN) for amount in (row.tokens, row.whole))
    return replace(row, tokens=now, whole=whole, cut=cut)


def _build_too_long_error(least: Sequence[UnplacedPart | None], budget: Budget) -> InvalidFile:
    rows = _build_rows(*([[piece for piece in least if piece]] * 2))
    largest = heapq.nlargest(3, rows, key=lambda row: row.tokens)
    parts = ", ".join(f"{row.source} {row.tokens:,}" for row in largest)
    message = f"the prompt is too long: the parts that can't be cut have more than {budget.tokens:,} tokens ({parts})"
    if not budget.tokens:
        message = "no tokens left for a prompt"
    reckoned = f": {budget.reckoned}" if budget.reckoned else ""
    return InvalidFile(f"{message}{reckoned}", where=budget.says, fix=budget.fix)
