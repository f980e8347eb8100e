"""Makes a repository of checkpoints without some texts: in files, names, links and messages. For `job scrub`.

Everything that the repository has goes into one new pack, so no object with such a text is left. Objects that contain
none keep their names; the others, and those that refer to them, get new ones.
"""

from __future__ import annotations

import codecs
import hashlib
import os
import re
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import IO

from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple
from logist.regular_files import read_regular
from logist.workspace.checkpoint import objects, repository, sharing
from logist.workspace.git import Git

BLOCK = 1 << 20
"""Bytes that are searched at a time, in a file of the workspace and in its object: both must become the same."""
_TREE = b"40000"
_HEADER_END = re.compile(rb"\n(?! )")
_PERSONS = (b"author", b"committer")
_PERSON = re.compile(rb"[^<>\n]*<[^<>\n]*>")

ReplaceText = Callable[[Iterable[str], list[int]], Iterator[str]]
"""Yields a text of any length without the values, and adds the numbers of replacements to the list."""
ReplaceNames = Callable[[Sequence[bytes], list[int]], dict[bytes, bytes]]
"""Returns the new name of each entry of a directory whose name changes."""


@dataclass
class RewrittenRepository:
    """What became of the objects of a repository."""

    renames: dict[str, str] = field(default_factory=dict)
    """New names of changed objects by their old ones, and new SHA-256 digests of changed files by their old ones."""
    objects: dict[str, str] = field(default_factory=dict)
    """The same, only of objects."""
    places: list[int] = field(default_factory=list)


class _TreeRow(NamedTuple):
    mode: bytes
    name: bytes
    id: bytes


def replace_bytes(pieces: Iterable[bytes], replace: ReplaceText, counted: list[int]) -> Iterator[bytes]:
    """Yield a content of any length without the values; the sizes of the pieces make no difference."""
    for text in replace(_decode(_cut_evenly(pieces)), counted):
        yield text.encode("utf-8", "surrogateescape")


def _decode(blocks: Iterable[bytes]) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    for block in blocks:
        yield decoder.decode(block)
    yield decoder.decode(b"", final=True)


def _cut_evenly(pieces: Iterable[bytes]) -> Iterator[bytes]:
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        while len(waiting) >= BLOCK:
            yield bytes(waiting[:BLOCK])
            del waiting[:BLOCK]
    yield bytes(waiting)


def rewrite_repository(
    old: Git, new: Git, replace: ReplaceText, replace_names: ReplaceNames
) -> RewrittenRepository:
    """Create the repository `new` with everything that `old` has, without the values; nothing is flushed."""
    return _Rewriting(old, new, replace, replace_names).run()


class _Rewriting:
    def __init__(self, old: Git, new: Git, replace: ReplaceText, replace_names: ReplaceNames) -> None:
        self.old, self.new = old, new
        self.replace, self.replace_names = replace, replace_names
        self.done = RewrittenRepository()
        self.made = self.done.objects
        by_kind: dict[str, list[str]] = {"blob": [], "tree": [], "commit": []}
        every = (
            "cat-file",
            "--batch-all-objects",
            "--unordered",
            "--batch-check=%(objectname) %(objecttype)",
        )
        for line in old.run(*every).decode("ascii").splitlines():
            name, kind = line.split()
            if kind in by_kind:  # Logist makes no tags
                by_kind[kind].append(name)
        self.blobs, self.trees, self.commits = by_kind["blob"], by_kind["tree"], by_kind["commit"]
        self.hash = "sha256" if self.commits and len(self.commits[0]) == 64 else "sha1"

    def run(self) -> RewrittenRepository:
        repository.create_repository(self.new.git_dir, bare=True, long_names=self.hash == "sha256")
        self._rewrite_blobs()
        self._rewrite_trees()
        self._rewrite_commits()
        self.done.renames |= self.made
        self._pack_everything()
        self._copy_references()
        return self.done

    def _rewrite_blobs(self) -> None:
        changed = []
        with objects.open_contents(self.old, self.blobs) as contents:
            for name, pieces in zip(self.blobs, contents, strict=True):
                counted: list[int] = []
                for _ in replace_bytes(pieces, self.replace, counted):
                    pass
                if counted:
                    changed.append(name)
        with objects.open_contents(self.old, changed) as contents:
            for name, pieces in zip(changed, contents, strict=True):
                self._rewrite_blob(name, pieces)

    def _rewrite_blob(self, name: str, pieces: Iterator[bytes]) -> None:
        before, after = hashlib.sha256(), hashlib.sha256()
        with tempfile.TemporaryFile(dir=self.new.git_dir) as spool:
            for piece in replace_bytes(_look_at(pieces, before.update), self.replace, self.done.places):
                after.update(piece)
                spool.write(piece)
            size = spool.tell()
            spool.seek(0)
            self.made[name] = self._write_object("blob", size, spool)
        self.done.renames[before.hexdigest()] = after.hexdigest()

    def _rewrite_trees(self) -> None:
        """Change the trees with such a name, with a changed file, or with a changed tree below."""
        above: dict[bytes, list[bytes]] = {}
        changed: set[bytes] = set()
        made = {bytes.fromhex(name) for name in self.made}
        with objects.open_contents(self.old, self.trees) as contents:
            for name, pieces in zip(self.trees, contents, strict=True):
                raw = bytes.fromhex(name)
                rows = _parse_tree(b"".join(pieces), len(raw))
                for row in rows:
                    if row.mode == _TREE:
                        above.setdefault(row.id, []).append(raw)
                if any(row.id in made for row in rows) or self.replace_names([row.name for row in rows], []):
                    changed.add(raw)
        order = _sort_by_dependency(changed, above)
        with objects.open_contents(self.old, [raw.hex() for raw in order]) as contents:
            for raw, pieces in zip(order, contents, strict=True):
                self.made[raw.hex()] = self._rewrite_tree(_parse_tree(b"".join(pieces), len(raw)))

    def _rewrite_tree(self, rows: Sequence[_TreeRow]) -> str:
        names = self.replace_names([row.name for row in rows], self.done.places)
        new = [
            row._replace(
                name=names.get(row.name, row.name),
                id=bytes.fromhex(self.made.get(row.id.hex(), row.id.hex())),
            )
            for row in rows
        ]
        # git sorts a directory as if its name ended with a slash.
        new.sort(key=lambda row: row.name + b"/" if row.mode == _TREE else row.name)
        return self._write_data("tree", b"".join(b"%b %b\0%b" % row for row in new))

    def _rewrite_commits(self) -> None:
        children: dict[bytes, list[bytes]] = {}
        changed: set[bytes] = set()
        with objects.open_contents(self.old, self.commits) as contents:
            for name, pieces in zip(self.commits, contents, strict=True):
                raw = bytes.fromhex(name)
                tree, parents, rest = _parse_commit(b"".join(pieces))
                for parent in parents:
                    children.setdefault(bytes.fromhex(parent), []).append(raw)
                counted: list[int] = []
                _replace_in_commit(rest, self.replace, counted)
                if tree in self.made or counted:
                    changed.add(raw)
        order = _sort_by_dependency(changed, children)
        with objects.open_contents(self.old, [raw.hex() for raw in order]) as contents:
            for raw, pieces in zip(order, contents, strict=True):
                tree, parents, rest = _parse_commit(b"".join(pieces))
                lines = [f"tree {self.made.get(tree, tree)}\n"]
                lines += [f"parent {self.made.get(parent, parent)}\n" for parent in parents]
                text = _replace_in_commit(rest, self.replace, self.done.places)
                self.made[raw.hex()] = self._write_data("commit", "".join(lines).encode("ascii") + text)

    def _write_data(self, kind: str, data: bytes) -> str:
        with tempfile.TemporaryFile(dir=self.new.git_dir) as spool:
            spool.write(data)
            spool.seek(0)
            return self._write_object(kind, len(data), spool)

    def _write_object(self, kind: str, size: int, content: IO[bytes]) -> str:
        """Write an object as a file, as git does; `_pack_everything` replaces these files by a pack."""
        digest, press = hashlib.new(self.hash, usedforsecurity=False), zlib.compressobj(1)
        temporary = self.new.git_dir / "objects" / "logist-object"
        with open(temporary, "xb") as file:
            for piece in (f"{kind} {size}\0".encode("ascii"), *iter(lambda: content.read(BLOCK), b"")):
                digest.update(piece)
                file.write(press.compress(piece))
            file.write(press.flush())
        name = digest.hexdigest()
        folder = temporary.with_name(name[:2])
        folder.mkdir(mode=0o700, exist_ok=True)
        temporary.replace(folder / name[2:])
        return name

    def _pack_everything(self) -> None:
        kept = [name for name in (*self.blobs, *self.trees, *self.commits) if name not in self.made]
        wanted = dict.fromkeys((*kept, *self.made.values()))
        if wanted:
            folder = self.new.git_dir / sharing.PACKS
            sharing.pack_objects(self.new, self.old.git_dir / "objects", folder, list(wanted))
        for name in os.listdir(self.new.git_dir / "objects"):
            if len(name) == 2:
                shutil.rmtree(self.new.git_dir / "objects" / name)

    def _copy_references(self) -> None:
        lines = self.old.run("for-each-ref", "--format=%(objectname) %(refname)").decode("utf-8").splitlines()
        commands = []
        for commit, name in (line.split(" ", 1) for line in lines):
            new = self.made.get(commit, commit)
            # A checkpoint that is kept has its own name in that of its reference.
            commands.append(f"create {name.replace(commit, new)} {new}\n")
        if commands:
            self.new.run_with_input("".join(commands).encode("utf-8"), "update-ref", "--stdin")
        if (self.old.git_dir / sharing.SHALLOW).exists():
            cut_off = read_regular(self.old.git_dir / sharing.SHALLOW).decode("ascii").split()
            lines = [f"{self.made.get(commit, commit)}\n" for commit in cut_off]
            repository.write_file(self.new.git_dir / sharing.SHALLOW, "".join(lines).encode("ascii"))


def _look_at(pieces: Iterable[bytes], look: Callable[[bytes], None]) -> Iterator[bytes]:
    for piece in pieces:
        look(piece)
        yield piece


def _parse_tree(content: bytes, size: int) -> list[_TreeRow]:
    rows, at = [], 0
    while at < len(content):
        space, zero = content.index(b" ", at), content.index(b"\0", at)
        rows.append(
            _TreeRow(content[at:space], content[space + 1 : zero], content[zero + 1 : zero + 1 + size])
        )
        at = zero + 1 + size
    return rows


def _parse_commit(content: bytes) -> tuple[str, list[str], bytes]:
    """Return the tree, the parents, and the rest: author, committer and message."""
    parents: list[str] = []
    line, _, rest = content.partition(b"\n")
    tree = line.removeprefix(b"tree ").decode("ascii")
    while rest.startswith(b"parent "):
        line, _, rest = rest.partition(b"\n")
        parents.append(line.removeprefix(b"parent ").decode("ascii"))
    return tree, parents, rest


def _replace_in_commit(rest: bytes, replace: ReplaceText, counted: list[int]) -> bytes:
    """Return what `_parse_commit` calls the rest without the values. The names of headers and the times are kept: without
    them, git can't read the commit, and a value that is a part of them is there by chance.
    """
    head, blank, message = rest.partition(b"\n\n")
    headers = []
    for header in _HEADER_END.split(head):
        name, space, value = header.partition(b" ")
        person, end, time = value.rpartition(b"> ") if name in _PERSONS else (value, b"", b"")
        if end:
            value = b"".join(replace_bytes([person + b">"], replace, counted))
            if _PERSON.fullmatch(value) is None:  # the address was a part of the text
                value = value.translate(None, b"<>") + b" <>"
            headers.append(b"%b %b %b" % (name, value, time))
        else:
            headers.append(name + space + b"".join(replace_bytes([value], replace, counted)))
    return b"\n".join(headers) + blank + b"".join(replace_bytes([message], replace, counted))


def _sort_by_dependency(changed: set[bytes], users: dict[bytes, list[bytes]]) -> list[bytes]:
    """Return the changed objects and all that refer to them, each after those that it refers to."""
    waiting, reached = list(changed), set(changed)
    while waiting:
        for user in users.get(waiting.pop(), ()):
            if user not in reached:
                reached.add(user)
                waiting.append(user)
    needs = dict.fromkeys(reached, 0)
    for each in reached:
        for user in users.get(each, ()):
            needs[user] += 1
    order = [each for each in reached if not needs[each]]
    for each in order:  # it grows
        for user in users.get(each, ()):
            needs[user] -= 1
            if not needs[user]:
                order.append(user)
    return order


def find_held(git_dir: Path, names: Iterable[str]) -> set[str]:
    """Return those of these objects that a repository has."""
    from logist.workspace.checkpoint import packs  # noqa: PLC0415

    wanted = set(names)
    return wanted - packs.find_lacking(git_dir, wanted)
