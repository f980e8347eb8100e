"""Which secrets lie in a job's directory: the look of `job verify --secrets`. Writes nothing, takes no lock."""

from __future__ import annotations

import codecs
import os
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import IO, NamedTuple

from logist.core.secrets import redact
from logist.core.secrets.leaks import Leak, find_leaks
from logist.jobs.base.project import ProjectContext
from logist.store import JobDir, segments
from logist.workspace.checkpoint.scan import MAX_DEPTH
from logist.workspace.files import safe_open
from logist.workspace.git import Git

BLOCK = 1 << 18
"""Bytes that are read at a time."""
MOST = 1000
"""Leaks that are kept one by one; the rest is counted."""
WORK = (b"workspace", b"attachments", b"git")
"""What a person or an agent put there, its checkpoints too: Logist redacts nothing of it."""
OBJECTS = b"git/objects"


class FoundLeak(NamedTuple):
    """A leak, and where."""

    place: str
    """`record`: Logist wrote it. `workspace`: files of the workspace, and what checkpoints hold of them."""
    file: str
    """Below the job's directory; an object of git as `git:<id>`. Without secrets."""
    leak: Leak


@dataclass
class Scanned:
    """What a look at one job has found."""

    job: str
    files: int = 0
    objects: int = 0
    """Of the checkpoints."""
    bytes: int = 0
    found: list[FoundLeak] = field(default_factory=list)
    more: int = 0
    """Leaks beyond those in `found`."""
    recorded: int = 0
    """Leaks in what Logist wrote."""
    unread: list[str] = field(default_factory=list)
    """What could not be read, each with the reason."""

    def keep(self, found: FoundLeak) -> None:
        """Counts a leak, and keeps it if there is room."""
        self.recorded += found.place == "record"
        if len(self.found) < MOST:
            self.found.append(found)
        else:
            self.more += 1


def scan(project: ProjectContext, job: JobDir) -> Scanned:
    """Every file of the job, and every object of its checkpoints; a block of each is in memory at a time."""
    scanned = Scanned(job.id)
    secrets = known(project)
    with safe_open.open_root(job.path) as top:
        for path in sorted(_files(top, b"", scanned)):
            _file(scanned, top, path, secrets)
    _objects(scanned, job, secrets)
    scanned.unread = [redact.redact(each, list(secrets))[0] for each in scanned.unread]
    return scanned


def known(project: ProjectContext) -> dict[str, str]:
    """Each value that must not reach a file, with what it is: `value of XAI_API_KEY`."""
    named = [model.api_key_env for model in project.settings.models.values() if model.api_key_env]
    held = project.environment.map_secrets(*named)
    return {value: f"value of {name}" for value, name in held.items()}


def _files(directory: int, prefix: bytes, scanned: Scanned) -> Iterator[bytes]:
    """Every regular file below, as a path; links are not followed."""
    if prefix.count(b"/") > MAX_DEPTH:
        scanned.unread.append(f"{_shown(prefix)}: too deep")
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
                    yield from _files(below, path + b"/", scanned)
                finally:
                    os.close(below)
        except OSError as error:
            _unread(scanned, path, error)


def _file(scanned: Scanned, top: int, path: bytes, secrets: Mapping[str, str]) -> None:
    place = "workspace" if path.split(b"/")[0] in WORK else "record"
    name = redact.redact(_shown(path), list(secrets))[0]
    try:
        with safe_open.open_regular_below(top, path.split(b"/")) as descriptor:
            _text(scanned, place, name, _blocks(_reader(path, descriptor)), secrets)
            scanned.files += 1
    except (EOFError, zlib.error) as error:
        scanned.unread.append(f"{_shown(path)}: can't be unpacked: {error}")
    except OSError as error:
        _unread(scanned, path, error)
    for leak in find_leaks([os.fsdecode(path)], secrets):
        scanned.keep(FoundLeak(place, name, leak._replace(kind=f"{leak.kind}, in the name")))


def _reader(path: bytes, descriptor: int) -> partial[bytes]:
    """Gives block after block of a file; of a segment of the history what is compressed in it."""
    if b"/" not in path and segments.NAME.fullmatch(os.fsdecode(path)):
        return partial(segments.open_inflated(open(descriptor, "rb", closefd=False)).read, BLOCK)
    return partial(os.read, descriptor, BLOCK)


def _unread(scanned: Scanned, path: bytes, error: OSError) -> None:
    if error.errno not in safe_open.GONE:
        scanned.unread.append(f"{_shown(path)}: {error.strerror}")


def _text(
    scanned: Scanned, place: str, name: str, blocks: Iterable[bytes], secrets: Mapping[str, str]
) -> None:
    for leak in find_leaks(_decoded(scanned, blocks), secrets):
        scanned.keep(FoundLeak(place, name, leak))


def _blocks(read: partial[bytes]) -> Iterator[bytes]:
    while block := read():
        yield block


def _decoded(scanned: Scanned, blocks: Iterable[bytes]) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    for block in blocks:
        scanned.bytes += len(block)
        yield decoder.decode(block)
    yield decoder.decode(b"", final=True)


def _objects(scanned: Scanned, job: JobDir, secrets: Mapping[str, str]) -> None:
    """The files that checkpoints hold, unpacked by git; the names in trees too."""
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
