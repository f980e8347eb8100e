"""Finds secrets in the files of a job, for `job verify --secrets`. Writes nothing, takes no lock."""

from __future__ import annotations

import codecs
import os
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from functools import partial
from typing import IO

from logist.core.secrets import redact
from logist.core.secrets.leaks import Leak, find_leaks
from logist.jobs.base.project import ProjectContext
from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple
from logist.store import JobDir, segments
from logist.workspace.checkpoint.scan import MAX_DEPTH
from logist.workspace.files import safe_open
from logist.workspace.git import Git

BLOCK = 1 << 18
"""Bytes that are read at a time."""
MOST = 1000
"""The maximum number of leaks that are listed; the rest are counted."""
WORK = (b"workspace", b"attachments", b"git")
"""Files of people and agents, and their checkpoints: Logist does not redact these."""
OBJECTS = b"git/objects"


class FoundLeak(NamedTuple):
    """A leak and its place."""

    place: str
    """`record`: a file that Logist wrote. `workspace`: a file of the workspace, or its copy in a checkpoint."""
    file: str
    """Path relative to the job's directory, or `git:<id>` for an object of git. Without secrets."""
    leak: Leak


@dataclass
class Scanned:
    """The result of scanning one job."""

    job: str
    files: int = 0
    objects: int = 0
    """Objects of the checkpoints that were read."""
    bytes: int = 0
    found: list[FoundLeak] = field(default_factory=list)
    more: int = 0
    """Leaks beyond those in `found`."""
    recorded: int = 0
    """Leaks in what Logist wrote."""
    unread: list[str] = field(default_factory=list)
    """Files that could not be read, each with the reason."""

    def keep(self, found: FoundLeak) -> None:
        """Count a leak, and add it to the list if there is room."""
        self.recorded += found.place == "record"
        if len(self.found) < MOST:
            self.found.append(found)
        else:
            self.more += 1


def scan(project: ProjectContext, job: JobDir) -> Scanned:
    """Scan every file of the job, and every object of its checkpoints; one block is in memory at a time."""
    scanned = Scanned(job.id)
    secrets = known(project)
    with safe_open.open_root(job.path) as top:
        for path in sorted(list_files(top, b"", scanned)):
            _file(scanned, top, path, secrets)
    _objects(scanned, job, secrets)
    scanned.unread = [redact.redact(each, list(secrets))[0] for each in scanned.unread]
    return scanned


def known(project: ProjectContext) -> dict[str, str]:
    """Map each value that must not be in a file to its description: `value of XAI_API_KEY`."""
    held = project.environment.map_secrets(*project.key_names)
    return {value: f"value of {name}" for value, name in held.items()}


def list_files(directory: int, prefix: bytes, scanned: Scanned) -> Iterator[bytes]:
    """Yield the path of every regular file in the directory; links are not followed."""
    if prefix.count(b"/") > MAX_DEPTH:
        scanned.unread.append(f"{_shown(prefix)}: nested too deeply")
        return
    for name in sorted(map(os.fsencode, os.listdir(directory))):
        path = prefix + name
        try:
            mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
            if stat.S_ISREG(mode):
                yield path
            elif stat.S_ISDIR(mode) and path != OBJECTS:
                below = safe_open.open_directory(directory, name)
                try:
                    yield from list_files(below, path + b"/", scanned)
                finally:
                    os.close(below)
        except OSError as error:
            _unread(scanned, path, error)


def _file(scanned: Scanned, top: int, path: bytes, secrets: Mapping[str, str]) -> None:
    place = "workspace" if path.split(b"/")[0] in WORK else "record"
    name = redact.redact(_shown(path), list(secrets))[0]
    try:
        with safe_open.open_regular_below(top, path.split(b"/")) as descriptor:
            _text(scanned, place, name, read_blocks(open_reader(path, descriptor)), secrets)
            scanned.files += 1
    except (EOFError, zlib.error) as error:
        scanned.unread.append(f"{_shown(path)}: can't decompress: {error}")
    except OSError as error:
        _unread(scanned, path, error)
    for leak in find_leaks([os.fsdecode(path)], secrets):
        scanned.keep(FoundLeak(place, name, leak._replace(kind=f"{leak.kind}, in the name")))


def open_reader(path: bytes, descriptor: int) -> partial[bytes]:
    """Return a function that reads the next block of a file; segments of the history are decompressed."""
    if b"/" not in path and segments.NAME.fullmatch(os.fsdecode(path)):
        return partial(segments.open_inflated(open(descriptor, "rb", closefd=False)).read, BLOCK)
    return partial(os.read, descriptor, BLOCK)


def _unread(scanned: Scanned, path: bytes, error: OSError) -> None:
    if error.errno not in safe_open.GONE:
        scanned.unread.append(f"{_shown(path)}: {error.strerror}")


def _text(
    scanned: Scanned, place: str, name: str, blocks: Iterable[bytes], secrets: Mapping[str, str]
) -> None:
    for leak in find_leaks(decode_blocks(scanned, blocks), secrets):
        scanned.keep(FoundLeak(place, name, leak))


def read_blocks(read: partial[bytes]) -> Iterator[bytes]:
    """Yield the blocks that a function returns, until there are no more."""
    while block := read():
        yield block


def decode_blocks(scanned: Scanned, blocks: Iterable[bytes]) -> Iterator[str]:
    """Yield the text of blocks; bytes that are not UTF-8 become surrogates."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    for block in blocks:
        scanned.bytes += len(block)
        yield decoder.decode(block)
    yield decoder.decode(b"", final=True)


def _objects(scanned: Scanned, job: JobDir, secrets: Mapping[str, str]) -> None:
    """Scan the files in the checkpoints, unpacked by git, and the names in their trees."""
    if not (job.git_dir / "HEAD").is_file():
        return
    every = ("cat-file", "--batch-all-objects", "--batch", "--buffer", "--unordered")
    with Git(job.git_dir, of_job=True).open_stream(*every) as process:
        assert process.stdout is not None
        while header := process.stdout.readline():
            name, _, size = header.decode("ascii").split()
            _text(scanned, "workspace", f"git:{name[:12]}", _part(process.stdout, int(size)), secrets)
            process.stdout.read(1)
            scanned.objects += 1


def _part(file: IO[bytes], size: int) -> Iterator[bytes]:
    """The next `size` bytes."""
    while size > 0 and (block := file.read(min(size, BLOCK))):
        size -= len(block)
        yield block


def _shown(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace")
