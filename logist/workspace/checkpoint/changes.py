"""The differences between two checkpoints, or between a checkpoint and the workspace, as the history records them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Literal

from logist.core.model.plain import make_plain
from logist.digests import compute_sha256
from logist.quick_tuple import NamedTuple
from logist.workspace.checkpoint import objects
from logist.workspace.checkpoint.objects import FILE_MODE, PROGRAM_MODE, Tree, TreeEntry
from logist.workspace.checkpoint.scan import CACHE, DIRECTORY_MODE, UNREADABLE, Unstored
from logist.workspace.checkpoint.snapshot import Snapshot
from logist.workspace.files import file_names
from logist.workspace.git import Git

if TYPE_CHECKING:
    from logist.core.model import Change

ABSENT = "000000"

Kind = Literal["created", "modified", "deleted", "mode"]


class PathDifference(NamedTuple):
    """A path on both sides; a mode of ABSENT means that it does not exist
    there. The ids are only compared.
    """

    path: bytes
    mode_before: str
    mode_after: str
    id_before: str
    id_after: str

    def get_kind(self) -> Kind:
        if self.mode_before == ABSENT:
            return "created"
        if self.mode_after == ABSENT:
            return "deleted"
        plain = {self.mode_before, self.mode_after} == {FILE_MODE, PROGRAM_MODE}
        return "mode" if plain and self.id_before == self.id_after else "modified"

    def to_change(self, *, cache: bool = False) -> Change:
        """Return the change as a plain record."""
        mode = self.mode_before if self.mode_after == ABSENT else self.mode_after
        change: Change = make_plain(
            "Change", path=file_names.to_display(self.path), kind=self.get_kind(), mode=mode, cache=cache
        )
        return change


def list_changes_between(
    git: Git,
    before: str,
    after: str,
    limit: int,
    matters: Callable[[Change], bool] = lambda change: True,
) -> tuple[list[Change], int]:
    """Return at most `limit` changes that matter, sorted by path, and how many more.

    Files that are not stored are compared by digest. New files are left out first, so that they don't hide
    changes of existing files. A directory appears as `<path>/` with the mode 040000: a cache, or a directory that
    is empty on one side and missing on the other.
    """
    if before == after:
        return [], 0
    old, new = objects.read_unstored(git, before, after)
    fields = git.run(
        "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", before, after, "--"
    ).split(b"\0")
    found, more = _select_changes(_parse_differences(fields), old, new, limit, matters)
    return _load_models(found), more


def list_changes_since(
    git: Git,
    before: str,
    now: Snapshot,
    limit: int,
    matters: Callable[[Change], bool] = lambda change: True,
    *,
    tree: Tree | None = None,
    plain: bool = False,
) -> tuple[list[Change], int]:
    """Return the same for the current workspace, as if it were a checkpoint.

    Except for directories that can't be read: they appear as modified, regardless of their content. `tree`: that of
    `before`, if it was read already. `plain`: return plain records, without loading the models.
    """
    (unstored,) = objects.read_unstored(git, before)
    tree = objects.read_tree(git, before) if tree is None else tree
    locked = {path for path, thing in now.unstored.items() if thing.why == UNREADABLE}
    if locked:
        tree, unstored = _leave_out_hidden(tree, unstored, locked)
    found, more = _select_changes(compare_trees(tree, now.tree), unstored, now.unstored, limit, matters)
    return found if plain else _load_models(found), more


def _load_models(changes: list[Change]) -> list[Change]:
    """Return plain records as models."""
    if not changes:
        return []
    from logist.core.model import Change  # noqa: PLC0415 - a workspace without changes needs no models

    return [Change(**change.model_dump()) for change in changes]


def _leave_out_hidden(
    tree: Tree, unstored: dict[bytes, Unstored], locked: set[bytes]
) -> tuple[Tree, dict[bytes, Unstored]]:
    """Leave out what was below a directory that is locked now: it is not deleted, so only the directory itself
    is reported.
    """
    hidden = {path for path in tree if file_names.list_parents([file_names.from_stored(path)]) & locked}
    hidden_unstored = {path for path in unstored if file_names.list_parents([path]) & locked}
    was_open = locked & (
        file_names.list_parents(map(file_names.from_stored, hidden))
        | file_names.list_parents(hidden_unstored)
    )
    return (
        {path: entry for path, entry in tree.items() if path not in hidden},
        {path: thing for path, thing in unstored.items() if path not in hidden_unstored}
        | dict.fromkeys(was_open, Unstored("", DIRECTORY_MODE, "")),
    )


def compute_digest(tree: Tree, unstored: dict[bytes, Unstored]) -> str:
    """Return the SHA-256 of everything in a workspace or a checkpoint, except caches."""
    lines = [
        *(b"%s %s %s" % (entry.mode.encode(), entry.id.encode(), path) for path, entry in tree.items()),
        *(
            b"%s %s %s" % (thing.mode.encode(), thing.digest.encode(), path)
            for path, thing in unstored.items()
            if thing.why != CACHE
        ),
    ]
    return compute_sha256(b"\0".join(sorted(lines)))


def compute_checkpoint_digest(git: Git, commit: str) -> str:
    """Return the same for a checkpoint."""
    (unstored,) = objects.read_unstored(git, commit)
    return compute_digest(objects.read_tree(git, commit), unstored)


def compare_trees(before: Tree, after: Tree) -> Iterator[PathDifference]:
    """Yield every difference of two trees, by stored path."""
    absent = TreeEntry(ABSENT, "")
    for path in before.keys() | after.keys():
        old, new = before.get(path, absent), after.get(path, absent)
        if old != new:
            yield PathDifference(path, old.mode, new.mode, old.id, new.id)


def _select_changes(
    stored: Iterable[PathDifference],
    before: dict[bytes, Unstored],
    after: dict[bytes, Unstored],
    limit: int,
    matters: Callable[[Change], bool] = lambda change: True,
) -> tuple[list[Change], int]:
    in_tree = {found.path: found for found in _merge_placeholders(list(stored))}
    found = (
        difference.to_change(cache=_is_cache(difference, before, after))
        for difference in sorted(_add_unstored(in_tree, before, after))
    )
    relevant_changes = list(filter(matters, found))
    if len(relevant_changes) <= limit:
        return relevant_changes, 0
    first = sorted(relevant_changes, key=lambda change: change.kind == "created")[:limit]
    kept = {id(change) for change in first}
    return [change for change in relevant_changes if id(change) in kept], len(relevant_changes) - limit


def _is_cache(each: PathDifference, *sides: dict[bytes, Unstored]) -> bool:
    things = [side.get(each.path.removesuffix(b"/")) for side in sides]
    return any(thing is not None and thing.why == CACHE for thing in things)


def _merge_placeholders(stored: list[PathDifference]) -> Iterator[PathDifference]:
    # If a directory has a placeholder on one side, the files on the other side already show the change.
    peopled = file_names.list_parents(
        each.path for each in stored if not file_names.is_placeholder(each.path)
    )
    for each in stored:
        raw = file_names.from_stored(each.path)
        if not file_names.is_placeholder(each.path):
            yield each._replace(path=raw)
        elif each.path.rpartition(b"/")[0] not in peopled:
            yield each._replace(path=raw, **_as_directory(each))


def _parse_differences(fields: list[bytes]) -> Iterator[PathDifference]:
    for described, path in zip(fields[0::2], fields[1::2], strict=False):
        mode_before, mode_after, id_before, id_after, _ = (
            described.decode("ascii").removeprefix(":").split(" ")
        )
        yield PathDifference(path, mode_before, mode_after, id_before, id_after)


def _as_directory(each: PathDifference) -> dict[str, str]:
    return {
        name: mode if mode == ABSENT else DIRECTORY_MODE
        for name, mode in (("mode_before", each.mode_before), ("mode_after", each.mode_after))
    }


def _add_unstored(
    in_tree: dict[bytes, PathDifference], before: dict[bytes, Unstored], after: dict[bytes, Unstored]
) -> Iterator[PathDifference]:
    """Add what is not stored; a file that is stored on only one side appears once, as modified."""
    for path in before.keys() | after.keys():
        old, new = before.get(path), after.get(path)
        stored = in_tree.pop(path, PathDifference(path, ABSENT, ABSENT, "", ""))
        if old != new:
            yield PathDifference(
                path + b"/" if DIRECTORY_MODE in (old and old.mode, new and new.mode) else path,
                old.mode if old else stored.mode_before,
                new.mode if new else stored.mode_after,
                old.digest if old else stored.id_before,
                new.digest if new else stored.id_after,
            )
    yield from in_tree.values()
