"""What a file system may keep: a disk that knows what is durable, and the trees a power cut may leave of the rest.

The rules are those of POSIX, read strictly: an fsync of a file makes its content durable and not its name, an
fsync of a directory the names in it, and one rename is never half done. All else may be kept or lost in any
combination. Journals (ext4, xfs) keep names in the order of the calls; those states come first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from tests.torture.versions import Resize, Step, Write, by_chance, done, versions

Content = bytes | str | None
"""The content of a file, or the target of a link; None for a directory."""

Tree = dict[str, Content]
"""By path below the root; a directory comes before its content."""

RECENT = 5
"""This many of the latest names are tried in every combination; older ones all, none, or at random."""


@dataclass(eq=False)
class Node:
    """A file, link or directory: as processes see it, and as it is guaranteed to be on disk."""

    content: Content = None
    kept: bytes = b""
    pending: list[Step] = field(default_factory=list)
    names: dict[str, Node] = field(default_factory=dict)
    kept_names: dict[str, Node] = field(default_factory=dict)


@dataclass(eq=False)
class Naming:
    """The names that one call added or removed: they are kept together, or lost together."""

    entries: tuple[tuple[Node, str, Node | None], ...]
    durable: bool = False
    journaled: bool = False
    """A later change is durable, so a journal also has this one."""


class Disk:
    """A directory tree that calls change. `stale`: by file name, the old bytes on the disk where the file
    grows.
    """

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
        """Set everything durably to `tree`: what people did between two commands."""
        self.root, self.namings = Node(), []
        for path, content in tree.items():
            parent, name = self._parent(path)
            kept = content if isinstance(content, bytes) else b""
            parent.names[name] = parent.kept_names[name] = Node(content, kept)

    def tree(self) -> Tree:
        """Return the tree that processes see."""
        return {path: node.content for path, node in _walked(self.root, lambda node: node.names)}

    def find(self, path: str) -> Node | None:
        """Return the object that has this name now."""
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
        node.content = done(node.content, step)
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
        """Drop the durable changes whose names no earlier change can still affect: they are on disk."""
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
        """Yield the trees that a power cut may leave now: the plain ones, then about `most` random ones; some may be equal.

        If not `anew`: leave out most of those that were possible before the last call.
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
        """Return the names and their objects if only `plan` is kept."""
        names: dict[Node, dict[str, Node]] = {}

        def view(node: Node) -> dict[str, Node]:
            return names.get(node, node.kept_names)

        def changed(node: Node) -> dict[str, Node]:
            return names.setdefault(node, dict(node.kept_names))

        for naming in plan:
            _give(naming, changed)
        return list(_walked(self.root, view))

    def _versions_of_last(self, plans: list[list[Naming]], chance: Random, most: int) -> Iterator[Tree]:
        """Yield all versions of the file that was written last, with all names kept and with fewer."""
        several = [plans[0], *chance.sample(plans, min(2, len(plans)))]
        for number, plan in enumerate(several):
            found = self._found(plan)
            tree = {path: node.content for path, node in found}
            for path, node in found:
                if node.pending and path.rpartition("/")[2] == self.touched:
                    room = most if number == 0 else most // 4
                    some = list(versions(node.kept, node.pending, chance, self._stale(path), cuts=room))
                    first, rest = some[: room // 4], some[room // 4 :]
                    for version in first + chance.sample(rest, min(len(rest), room - len(first))):
                        yield {**tree, path: version}

    def _stale(self, path: str) -> bytes:
        return self.stale.get(path.rpartition("/")[2], b"")

    def _mixed(self, plan: list[Naming], chance: Random) -> Tree:
        """Choose a random version of every file."""
        tree: Tree = {}
        for path, node in self._found(plan):
            tree[path] = node.content
            if node.pending:
                tree[path] = by_chance(node.kept, node.pending, chance, self._stale(path))
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
    """Yield which names are kept, beginning with all. Durable ones are always kept; if not `anew`, also the
    last one.
    """
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
