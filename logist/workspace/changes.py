"""The differences between two checkpoints, as the history records them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from logist.core.model import Change
from logist.workspace import names, objects
from logist.workspace.git import Git
from logist.workspace.objects import FILE_MODE, PROGRAM_MODE
from logist.workspace.scan import DIRECTORY_MODE, Unstored

ABSENT = "000000"

Kind = Literal["created", "modified", "deleted", "mode"]


class Difference(NamedTuple):
    """A path on both sides; ABSENT as a mode is: not there. The ids are only compared."""

    path: bytes
    mode_before: str
    mode_after: str
    id_before: str
    id_after: str

    def kind(self) -> Kind:
        if self.mode_before == ABSENT:
            return "created"
        if self.mode_after == ABSENT:
            return "deleted"
        plain = {self.mode_before, self.mode_after} == {FILE_MODE, PROGRAM_MODE}
        return "mode" if plain and self.id_before == self.id_after else "modified"

    def change(self) -> Change:
        mode = self.mode_before if self.mode_after == ABSENT else self.mode_after
        return Change(path=names.shown(self.path), kind=self.kind(), mode=mode)


def between(git: Git, before: str, after: str, limit: int) -> tuple[list[Change], int]:
    """At most `limit` changes, sorted by path, and how many more there are. What is not stored is compared by digest.

    A directory appears as `<path>/`, with the mode 040000: a cache, or one that is empty on one side and has nothing
    on the other.
    """
    if before == after:
        return [], 0
    unstored = objects.unstored(git, before, after)
    in_tree = {found.path: found for found in _in_trees(git, before, after)}
    found = sorted(_with_unstored(in_tree, *unstored))
    return [difference.change() for difference in found[:limit]], max(0, len(found) - limit)


def _in_trees(git: Git, before: str, after: str) -> Iterator[Difference]:
    fields = git.run(
        "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", before, after, "--"
    ).split(b"\0")
    stored = list(_parsed(fields))
    # What else is under a directory with a placeholder on one side came or went with it: that says it all.
    peopled = names.parents(each.path for each in stored if not names.is_placeholder(each.path))
    for each in stored:
        raw = names.unstored(each.path)
        if not names.is_placeholder(each.path):
            yield each._replace(path=raw)
        elif each.path.rpartition(b"/")[0] not in peopled:
            yield each._replace(path=raw, **_as_directory(each))


def _parsed(fields: list[bytes]) -> Iterator[Difference]:
    for described, path in zip(fields[0::2], fields[1::2], strict=False):
        mode_before, mode_after, id_before, id_after, _ = (
            described.decode("ascii").removeprefix(":").split(" ")
        )
        yield Difference(path, mode_before, mode_after, id_before, id_after)


def _as_directory(each: Difference) -> dict[str, str]:
    return {
        name: mode if mode == ABSENT else DIRECTORY_MODE
        for name, mode in (("mode_before", each.mode_before), ("mode_after", each.mode_after))
    }


def _with_unstored(
    in_tree: dict[bytes, Difference], before: dict[bytes, Unstored], after: dict[bytes, Unstored]
) -> Iterator[Difference]:
    """A file that is stored on one side only appears once, as modified."""
    for path in before.keys() | after.keys():
        old, new = before.get(path), after.get(path)
        stored = in_tree.pop(path, Difference(path, ABSENT, ABSENT, "", ""))
        if old != new:
            yield Difference(
                path + b"/" if DIRECTORY_MODE in (old and old.mode, new and new.mode) else path,
                old.mode if old else stored.mode_before,
                new.mode if new else stored.mode_after,
                old.digest if old else stored.id_before,
                new.digest if new else stored.id_after,
            )
    yield from in_tree.values()
