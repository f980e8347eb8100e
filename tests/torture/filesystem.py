"""What a file system may keep: a disk that knows what is durable, and the trees a power cut may leave of the rest.

The rules are those of POSIX, read strictly: an fsync of a file makes its content durable and not its name, an
fsync of a directory the names in it, and one rename is never half done. All else may be kept or lost in any
combination. Journals (ext4, xfs) keep names in the order of the calls; those states come first.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import NamedTuple

Content = bytes | str | None
"""Of a file; the target of a link; None is a directory."""

Tree = dict[str, Content]
"""By path below the root; a directory stands before what is in it."""

PAGE, SECTOR = 4096, 512
RECENT = 5
"""So many of the latest names are tried in every combination; older ones all, none, or by chance."""


class Write(NamedTuple):
    """Bytes that were written, and may not be on disk."""

    offset: int
    data: bytes


class Resize(NamedTuple):
    """A size that was set, and may not be on disk."""

    size: int


Step = Write | Resize


@dataclass(eq=False)
class Node:
    """A file, link or directory: as processes see it, and as it surely is on disk."""

    content: Content = None
    kept: bytes = b""
    pending: list[Step] = field(default_factory=list)
    names: dict[str, Node] = field(default_factory=dict)
    kept_names: dict[str, Node] = field(default_factory=dict)


@dataclass(eq=False)
class Naming:
    """The names that one call gave or took: kept together, or lost together."""

    entries: tuple[tuple[Node, str, Node | None], ...]
    durable: bool = False
    journaled: bool = False
    """A later one is durable, so that a journal has this one too."""


class Disk:
    """A directory tree that calls change. `stale`: by a file's name, what lies on the disk where it grows."""

    def __init__(self, tree: Tree | None = None, stale: Mapping[str, bytes] | None = None) -> None:
        self.root = Node()
        self.namings: list[Naming] = []
        self.stale = stale or {}
        self.touched: str = ""
        """The name of the file that was written last: it is varied most."""
        self.last_seen: list[Naming] = []
        """The last of `namings` when `states` was called last."""
        self.adopt(tree or {})

    def adopt(self, tree: Tree) -> None:
        """Everything is as in `tree` from now on, durably: what people did between two commands."""
        self.root, self.namings = Node(), []
        for path, content in tree.items():
            parent, name = self._parent(path)
            kept = content if isinstance(content, bytes) else b""
            parent.names[name] = parent.kept_names[name] = Node(content, kept)

    def tree(self) -> Tree:
        """What processes see."""
        return {path: node.content for path, node in _walked(self.root, lambda node: node.names)}

    def find(self, path: str) -> Node | None:
        """What has this name now."""
        node: Node | None = self.root
        for name in path.split("/") if path else ():
            node = node.names.get(name) if node else None
        return node

    def _parent(self, path: str) -> tuple[Node, str]:
        folder, _, name = path.rpartition("/")
        parent = self.find(folder)
        assert parent is not None, f"nothing is known of {folder!r}"
        return parent, name

    def _at(self, path: str) -> Node:
        node = self.find(path)
        assert node is not None, f"nothing is known of {path!r}"
        return node

    def _name(self, *entries: tuple[str, Node | None]) -> None:
        placed = [(*self._parent(path), node) for path, node in entries]
        self.namings.append(Naming(tuple(placed)))
        for parent, name, node in placed:
            parent.names.pop(name, None)
            if node is not None:
                parent.names[name] = node

    def make(self, path: str, content: Content) -> None:
        """A new file (empty), link or directory."""
        self._name((path, Node(content)))

    def link(self, old: str, new: str) -> None:
        self._name((new, self._at(old)))

    def rename(self, old: str, new: str) -> None:
        self._name((old, None), (new, self._at(old)))

    def remove(self, path: str) -> None:
        self._name((path, None))

    def write(self, path: str, offset: int, data: bytes) -> None:
        self._step(path, Write(offset, data))

    def resize(self, path: str, size: int) -> None:
        self._step(path, Resize(size))

    def _step(self, path: str, step: Step) -> None:
        node = self._at(path)
        assert isinstance(node.content, bytes), path
        node.content = _done(node.content, step)
        node.pending.append(step)
        self.touched = path.rpartition("/")[2]

    def sync(self, path: str) -> None:
        """An fsync that succeeded, of a file or a directory."""
        node = self._at(path)
        if isinstance(node.content, bytes):
            node.kept, node.pending = node.content, []
        for naming in self.namings:
            naming.durable |= any(parent is node for parent, _, _ in naming.entries)
        self._settle()

    def sync_all(self) -> None:
        """sync(2)."""
        self.adopt(self.tree())

    def _settle(self) -> None:
        """What is durable, and whose names nothing before it may still change, is on disk."""
        left: list[Naming] = []
        unsure: set[tuple[Node, str]] = set()
        for naming in self.namings:
            names = {(parent, name) for parent, name, _ in naming.entries}
            if naming.durable:
                for earlier in left:
                    earlier.journaled = True
            if naming.durable and not names & unsure:
                _give(naming, lambda node: node.kept_names)
            else:
                left.append(naming)
                unsure |= names
        self.namings = left

    def states(self, chance: Random, most: int, *, anew: bool = True) -> Iterator[Tree]:
        """Trees that a power cut may leave now: the plain ones, then about `most` by chance; not all different.

        Not `anew`: those are left out that could have been there before the last call, but for a few.
        """
        grown = self.namings[-1:] != self.last_seen
        self.last_seen = self.namings[-1:]
        plans = list(_plans(self.namings, chance, anew=anew) if anew or grown else _few(self.namings, chance))
        for plan in plans:
            found = self._found(plan)
            yield {path: node.content for path, node in found}
            yield {path: _surely(node) for path, node in found}
        yield from self._versions_of_last(plans, chance, most)
        for _ in range(most // 4):
            yield self._mixed(chance.choice(plans), chance)

    def _found(self, plan: Sequence[Naming]) -> list[tuple[str, Node]]:
        """What has a name if only `plan` is kept."""
        names: dict[Node, dict[str, Node]] = {}

        def view(node: Node) -> dict[str, Node]:
            return names.get(node, node.kept_names)

        def changed(node: Node) -> dict[str, Node]:
            return names.setdefault(node, dict(node.kept_names))

        for naming in plan:
            _give(naming, changed)
        return list(_walked(self.root, view))

    def _versions_of_last(self, plans: list[list[Naming]], chance: Random, most: int) -> Iterator[Tree]:
        """The file that was written last in all its versions, with all names kept and with fewer."""
        several = [plans[0], *chance.sample(plans, min(2, len(plans)))]
        for number, plan in enumerate(several):
            found = self._found(plan)
            tree = {path: node.content for path, node in found}
            for path, node in found:
                if node.pending and path.rpartition("/")[2] == self.touched:
                    room = most if number == 0 else most // 4
                    some = list(versions(node, chance, self._stale(path), cuts=room))
                    for version in some if len(some) <= room else chance.sample(some, room):
                        yield {**tree, path: version}

    def _stale(self, path: str) -> bytes:
        return self.stale.get(path.rpartition("/")[2], b"")

    def _mixed(self, plan: list[Naming], chance: Random) -> Tree:
        """Every file in one of its versions, by chance."""
        tree: Tree = {}
        for path, node in self._found(plan):
            tree[path] = node.content
            if node.pending:
                tree[path] = _by_chance(node, chance, self._stale(path))
        return tree


def _give(naming: Naming, view: Callable[[Node], dict[str, Node]]) -> None:
    for parent, name, node in naming.entries:
        view(parent).pop(name, None)
        if node is not None:
            view(parent)[name] = node


def _walked(root: Node, view: Callable[[Node], dict[str, Node]]) -> Iterator[tuple[str, Node]]:
    pending = [("", root)]
    while pending:
        above, folder = pending.pop()
        for name, node in view(folder).items():
            yield above + name, node
            if node.content is None:
                pending.append((f"{above}{name}/", node))


def _surely(node: Node) -> Content:
    return node.kept if isinstance(node.content, bytes) else node.content


def _plans(namings: list[Naming], chance: Random, *, anew: bool) -> Iterator[list[Naming]]:
    """Which names are kept, all of them first. Those that are durable always are; not `anew`, the last one too."""
    yield list(namings)
    sure = [number for number, naming in enumerate(namings, 1) if naming.durable or naming.journaled]
    ends = range(sure[-1] if sure else 0, len(namings))
    for end in ends if anew else ends[-2:]:  # in the order of the calls, as a journal keeps them
        yield namings[:end]
    loose = [naming for naming in namings if not naming.durable]
    firm = set() if anew else set(loose[-1:])
    old, recent = loose[:-RECENT], [naming for naming in loose[-RECENT:] if naming not in firm]
    by_chance = {naming for naming in old if chance.random() < 0.5}
    for before in (set(old), set(), by_chance) if old else (set(),):
        for kept in itertools.product((False, True), repeat=len(recent)):
            chosen = firm | before | set(itertools.compress(recent, kept))
            yield [naming for naming in namings if naming.durable or naming in chosen]


def _few(namings: list[Naming], chance: Random) -> Iterator[list[Naming]]:
    yield list(namings)
    yield [naming for naming in namings if naming.durable]
    yield [naming for naming in namings if naming.durable or chance.random() < 0.7]


def _done(content: bytes, step: Step) -> bytes:
    if isinstance(step, Resize):
        return content[: step.size].ljust(step.size, b"\0")
    end = step.offset + len(step.data)
    return content[: step.offset].ljust(step.offset, b"\0") + step.data + content[end:]


def versions(node: Node, chance: Random, stale: bytes = b"", cuts: int = 64) -> Iterator[bytes]:
    """What may be on disk of a file: steps lost, cut at a byte, or short of some of their pages.

    A write longer than `cuts` is cut at both its ends, and at so many places by chance.
    """
    yield node.kept
    for number, step in enumerate(node.pending):
        before = node.kept
        for earlier in node.pending[:number]:
            before = _done(before, earlier)
        if isinstance(step, Write):
            yield from _torn(before, step, chance, stale, cuts)
        yield _done(before, step)
    for kept in _subsets(len(node.pending), chance):
        content = node.kept
        for step in itertools.compress(node.pending, kept):
            content = _done(content, step)
        yield content
        # Later writes whose pages are there although a size or an earlier write is lost.
        if kept and kept[-1] and isinstance(node.pending[-1], Write):
            yield from _torn(content, node.pending[-1], chance, stale, 2)


def _by_chance(node: Node, chance: Random, stale: bytes) -> bytes:
    """One version of a file."""
    content = node.kept
    for step in node.pending:
        if chance.random() < 0.7:
            content = _done(content, step)
        elif isinstance(step, Write) and chance.random() < 0.5:
            content = chance.choice(list(_torn(content, step, chance, stale, 2)) or [content])
    return content


def _subsets(count: int, chance: Random) -> Iterator[tuple[bool, ...]]:
    if count <= 4:
        yield from itertools.product((True, False), repeat=count)
    else:
        yield from (tuple(chance.random() < 0.7 for _ in range(count)) for _ in range(8))


def _torn(before: bytes, write: Write, chance: Random, stale: bytes, cuts: int) -> Iterator[bytes]:
    for cut in _places(len(write.data), chance, cuts):
        yield _done(before, Write(write.offset, write.data[:cut]))
        if stale:
            yield _done(before, Write(write.offset, write.data[:cut] + stale[write.offset + cut :]))
    for size in (PAGE, SECTOR):
        pieces = list(_pieces(write, size))
        for kept in _some_pieces(pieces, chance):
            yield _filled(before, write, kept, b"", grown=False)
            yield _filled(before, write, kept, b"", grown=True)
            if stale:
                yield _filled(before, write, kept, stale, grown=True)


def _places(size: int, chance: Random, most: int) -> list[int]:
    if size <= most:
        return list(range(1, size))
    ends = {1, 2, *range(3, min(9, most)), *range(max(1, size - most // 6), size)}
    return sorted(ends | {chance.randrange(1, size) for _ in range(most)})


def _pieces(write: Write, size: int) -> Iterator[Write]:
    """A write as the pages or sectors it falls into."""
    start, end = write.offset, write.offset + len(write.data)
    while start < end:
        stop = min(end, (start // size + 1) * size)
        yield Write(start, write.data[start - write.offset : stop - write.offset])
        start = stop


def _some_pieces(pieces: list[Write], chance: Random) -> Iterator[list[Write]]:
    """None of them, each missing, each alone, and a few combinations."""
    yield []
    if len(pieces) > 1:
        for piece in pieces if len(pieces) <= 8 else [pieces[0], *chance.sample(pieces[1:-1], 5), pieces[-1]]:
            yield [other for other in pieces if other is not piece]
            yield [piece]
        for _ in range(4):
            yield [piece for piece in pieces if chance.random() < 0.5]


def _filled(before: bytes, write: Write, kept: list[Write], stale: bytes, *, grown: bool) -> bytes:
    """Some pieces of a write; the rest is as before, or, where the file has `grown`, zeros or what lay there."""
    end = write.offset + len(write.data) if grown else max((p.offset + len(p.data) for p in kept), default=0)
    content = bytearray(before)
    content += (stale[len(before) : end] if stale else b"").ljust(max(0, end - len(before)), b"\0")
    for piece in kept:
        content[piece.offset : piece.offset + len(piece.data)] = piece.data
    return bytes(content)


def digest(tree: Tree) -> bytes:
    """Names one tree among all: 16 bytes."""
    whole = blake2b(digest_size=16)
    for path in sorted(tree):
        content = tree[path]
        data = content.encode() if isinstance(content, str) else content
        whole.update(b"%s\0%d\0" % (path.encode(), -1 if data is None else len(data)))
        whole.update(data or b"")
    return whole.digest()


def read(place: Path) -> Tree:
    """The tree below a real directory."""
    tree: Tree = {}
    pending = [""]
    while pending:
        above = pending.pop()
        with os.scandir(place / above) as found:
            for entry in found:
                path = above + entry.name
                if entry.is_symlink():
                    tree[path] = os.readlink(entry.path)
                elif entry.is_dir():
                    tree[path] = None
                    pending.append(path + "/")
                else:
                    tree[path] = Path(entry.path).read_bytes()
    return tree


class Shelf:
    """A real directory that is one tree after the other; only what differs is written."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.laid: Tree = {}
        self.stamps: dict[str, tuple[int, ...]] = {}
        place.mkdir(parents=True, exist_ok=True)

    def put(self, tree: Tree) -> None:
        """Lays the tree out, whatever was done to the last one."""
        self._look()
        for path in sorted(self.laid.keys() - tree.keys(), reverse=True):
            self._take(path)
        for path in sorted(tree):
            content = tree[path]
            if path not in self.laid or self.laid[path] != content:
                self._take(path)
                self._lay(path, content)

    def _look(self) -> None:
        """Finds out what has been changed since by who looked at the tree: it counts as another content."""
        seen: Tree = {}
        pending = [""]
        while pending:
            above = pending.pop()
            with os.scandir(f"{self.place}/{above}") as found:
                for entry in found:
                    path = above + entry.name
                    if entry.is_dir(follow_symlinks=False):
                        seen[path] = None
                        pending.append(path + "/")
                    else:
                        same = self.stamps.get(path) == _stamp(entry.stat(follow_symlinks=False))
                        seen[path] = self.laid.get(path, "?") if same else "?"
        self.laid = seen

    def _take(self, path: str) -> None:
        if path not in self.laid:
            return
        full = f"{self.place}/{path}"
        if self.laid.pop(path) is not None:
            os.unlink(full)
            return
        for below in sorted((name for name in self.laid if name.startswith(path + "/")), reverse=True):
            self._take(below)
        os.rmdir(full)

    def _lay(self, path: str, content: Content) -> None:
        full = f"{self.place}/{path}"
        if content is None:
            os.mkdir(full, 0o700)
        elif isinstance(content, str):
            os.symlink(content, full)
        else:
            descriptor = os.open(full, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            os.write(descriptor, content)
            # Long ago: whoever writes it again gives it another time, however quick.
            os.utime(descriptor, (1, 1))
            os.close(descriptor)
        self.laid[path] = content
        self.stamps[path] = _stamp(os.lstat(full))


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return found.st_ino, found.st_size, found.st_mtime_ns
