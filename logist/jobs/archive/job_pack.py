"""Packs a job into one file, and unpacks it: a gzip-compressed tar that is verified after writing and after reading.

A file may come from a stranger, so unpacking trusts nothing in it: it creates the job in a hidden directory, opens
every path component by component without following links, limits sizes, and verifies the history before the job gets
its name.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import stat
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import IO, Any, BinaryIO

from logist import __version__, systems
from logist.core.history import newer_versions
from logist.core.model import JsonObject, State
from logist.core.text.ids import is_job_id
from logist.errors import Damaged, NewerFormat, Refused, StorageError
from logist.formats import PACK, UPGRADE, describe_newer, is_newer
from logist.jobs.base import cleaned_files, family, job_reader, project_home
from logist.jobs.base.project import ProjectContext
from logist.jobs.base.session import Session, load_session, open_session
from logist.quick_dataclass import dataclass
from logist.regular_files import open_regular
from logist.store import JobDir, files
from logist.workspace import readable_history
from logist.workspace.checkpoint.repository import build_config
from logist.workspace.files import safe_open

FIRST, LAST = "logist-pack.json", "logist-pack.sha256"
"""The first member names the job, the last one is the digest of everything between them."""
MOST_BYTES = 20_000_000_000
"""How many bytes a file may unpack to, unless the user allows more."""
MOST_MEMBERS = 2_000_000
MOST_DEPTH = 500
_MOST_AT_ONCE = 1 << 22
"""tarfile reads headers of any size and number into memory before it returns a member; real ones are small."""
_CHUNK = 1 << 20
_MOST_FIRST = 4096

_LEFT_OUT = frozenset({"lock", "inflight", "restoring", "provider-wait.json"})
"""What belongs to commands at work, and not to the job."""
AGENT_GIT = "workspace/.git"
_GIT = re.compile(
    r"git(/(HEAD|config|shallow|packed-refs|objects|refs|objects/pack|objects/[0-9a-f]{2}(/[0-9a-f]{38,62})?"
    r"|objects/pack/pack-[0-9a-f]{40,64}\.(pack|idx|rev)|refs/[A-Za-z0-9/_-]+))?"
)
"""The files of the repository of checkpoints. No others: git reads programs and other places from some of them."""
_LINK, _DIRECTORY, _FILE = "link", "directory", "file"


@dataclass(frozen=True)
class PackedJob:
    """A file with a job."""

    job_id: str
    path: Path
    size: int
    files: int
    content_bytes: int
    revision: int
    left_out: tuple[str, ...]
    """What can't be packed, such as sockets in the workspace."""


@dataclass(frozen=True)
class UnpackedJob:
    """A job that was created from a file."""

    job: JobDir
    state: State
    files: int
    content_bytes: int
    left_out: tuple[str, ...]
    """Links that lead out of the workspace."""


@dataclass
class _Digest:
    """Counts entries, and computes the digest of their names, kinds, modes and contents."""

    files: int = 0
    content_bytes: int = 0
    hash: Any = field(default_factory=hashlib.sha256)

    def add(self, kind: str, name: str, value: str) -> None:
        """Add an entry; `value`: its mode, or where a link leads."""
        self.files += kind == _FILE
        line = json.dumps(
            [kind, name, value]
        )  # surrogates, as in a name that is not valid UTF-8, are escaped
        self.hash.update(line.encode("ascii") + b"\n")

    def add_content(self, data: bytes) -> bytes:
        """Add a piece of the content of the file that was added last."""
        self.content_bytes += len(data)
        self.hash.update(data)
        return data


def pack_job(project: ProjectContext, job_id: str, target: Path, *, force: bool = False) -> PackedJob:
    """Write everything of a job to the file `target`, and read it again. The job is verified first and not changed.

    Raises Busy while an agent works, Refused for unfinished work, Damaged for a job that doesn't verify.
    """
    job = project.open_job(job_id)
    if Path(os.path.realpath(target.parent)).is_relative_to(os.path.realpath(job.path)):
        raise Refused("can't pack a job into its own directory", where=str(target), fix="choose another file")
    with open_session(project, job_id, "job pack") as session:
        cleaned_files.require_files(job, "pack")
        _require_at_rest(session)
        problems = job_reader.verify_job(project, job).problems
        if problems:
            fix = f"logist job verify --job {job_id}"
            raise Damaged(f"can't pack {job_id}: {problems[0].message}", where=str(job.path), fix=fix)
        temporary = target.with_name(f".{target.name}.{os.urandom(6).hex()}{files.TEMPORARY}")
        with files.convert_os_errors(target):
            try:
                digest, left_out = _write_pack(job, temporary, session.state)
                _verify_pack(temporary, digest)
                if not force and os.path.lexists(target):
                    raise Refused("file already exists", where=str(target), fix="use --force to replace it")
                os.replace(temporary, target)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary)
                raise
        files.sync_directory(target.parent)
        size = target.stat().st_size
        return PackedJob(
            job_id, target, size, digest.files, digest.content_bytes, session.state.revision, tuple(left_out)
        )


def _require_at_rest(session: Session) -> None:
    """Raise Refused if a command was interrupted, or if the job needs other jobs."""
    job, job_id = session.job, session.job.id
    if os.path.lexists(job.inflight) or session.find_unfinished_restore():
        message = f"can't pack {job_id}: a command was interrupted, and its work is not recorded yet"
        raise Refused(message, where=str(job.path), fix=f"logist job step --job {job_id}")
    if family.is_waiting(session.state):
        message = f"can't pack {job_id}: it waits for child jobs, which are jobs of their own"
        raise Refused(message, fix=f"when it has ended: logist job pack --job {job_id}")


def _write_pack(job: JobDir, path: Path, state: State) -> tuple[_Digest, list[str]]:
    digest, left_out = _Digest(), list[str]()
    first = {"version": PACK.version, "job": job.id, "revision": state.revision, "logist": __version__}
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w+b") as file:
        # No time and no name in the gzip header: the same job gives the same file.
        with (
            gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as zipped,
            tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
        ):
            _add_text(tar, FIRST, json.dumps(first))
            for name, entry in _walk_job(job):
                if not _add_entry(tar, f"{job.id}/{name}", entry, digest):
                    left_out.append(name)
            _add_text(tar, LAST, digest.hash.hexdigest())
        file.flush()
        systems.flush(file.fileno())
    return digest, left_out


def _walk_job(job: JobDir) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield the files of a job in order, a directory before its content.

    Past commits of the user's repository stay here: without the `.git` of the workspace, an unpacked job gets a new one.
    """
    left_out = AGENT_GIT if readable_history.has_record(job.git_dir) else None
    pending = [""]
    while pending:
        above = pending.pop()
        with os.scandir(job.path / above) as scanned:
            entries = sorted(scanned, key=lambda entry: entry.name)
        folders = []
        for entry in entries:
            name = f"{above}{entry.name}"
            if name == left_out or not _belongs_to_job(name):
                continue
            yield name, entry
            if entry.is_dir(follow_symlinks=False):
                folders.append(f"{name}/")
        pending += reversed(folders)


def _belongs_to_job(name: str) -> bool:
    """Whether a file is part of a pack: not what commands at work left, and only git's own files of checkpoints."""
    top = name.partition("/")[0]
    if top in _LEFT_OUT or (top.startswith(".")):
        return False
    return top != "git" or _GIT.fullmatch(name) is not None


def _add_entry(tar: tarfile.TarFile, name: str, entry: os.DirEntry[str], digest: _Digest) -> bool:
    """Add a file, a directory or a link; False for anything else."""
    status = entry.stat(follow_symlinks=False)
    info = tarfile.TarInfo(name)
    info.mtime, info.mode = int(status.st_mtime), stat.S_IMODE(status.st_mode) & 0o777
    if stat.S_ISDIR(status.st_mode):
        info.type, info.mode = tarfile.DIRTYPE, 0o700
        digest.add(_DIRECTORY, name, "")
        tar.addfile(info)
    elif stat.S_ISLNK(status.st_mode):
        info.type, info.mode, info.linkname = tarfile.SYMTYPE, 0o777, os.readlink(entry.path)
        digest.add(_LINK, name, info.linkname)
        tar.addfile(info)
    elif stat.S_ISREG(status.st_mode):
        descriptor, info.size = open_regular(entry.path)
        with os.fdopen(descriptor, "rb") as file:
            digest.add(_FILE, name, f"{info.mode:o}")
            tar.addfile(info, _Counted(file, digest))
    else:
        return False
    return True


class _Counted(io.RawIOBase):
    """A file whose content is added to a digest while it is read."""

    def __init__(self, file: IO[bytes], digest: _Digest) -> None:
        self._file, self._digest = file, digest

    def read(self, size: int = -1, /) -> bytes:
        """Read the next bytes."""
        return self._digest.add_content(self._file.read(size))


def _add_text(tar: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode("ascii") + b"\n"
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o600
    tar.addfile(info, io.BytesIO(data))


def _verify_pack(path: Path, written: _Digest) -> None:
    """Raise StorageError if the file doesn't contain what was written to it."""
    with _open_pack(path, MOST_BYTES + written.content_bytes * 2) as pack:
        for _, content in pack.read_entries():
            for _ in content:
                pass
    if pack.digest.hash.digest() != written.hash.digest():
        fix = "check the disk, then run the command again"
        raise StorageError("the file differs from what was written to it", where=str(path), fix=fix)


class _Unzipped(io.RawIOBase):
    """The decompressed bytes, read once from the start; limits how many there are."""

    def __init__(self, file: BinaryIO, most: int, where: str) -> None:
        self._zipped = gzip.GzipFile(fileobj=file, mode="rb")
        self._most, self._where, self._at = most, where, 0
        self.headers_end: int | None = None
        """Where the headers that are being read must have ended; None while content is read."""

    def readable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return how many bytes were read."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Skip bytes; tarfile does this at the end of a member that was not read."""
        while self._at < offset and self.read(min(_CHUNK, offset - self._at)):
            pass
        return self._at

    def is_at_end(self) -> bool:
        """Read the rest, which also checks gzip's checksum; return whether it is only padding."""
        while data := self.read(_CHUNK):
            if data.strip(b"\0"):
                return False
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Read the next bytes. Raises Damaged, Refused above the limit."""
        is_past_headers = self.headers_end is not None and self._at + size > self.headers_end
        if is_past_headers or not 0 <= size <= _MOST_AT_ONCE:
            raise _damaged_error("a header is too large", self._where)
        try:
            data = self._zipped.read(size)
        except gzip.BadGzipFile as error:
            message = "it was changed, or a part of it was lost" if self._at else "not a packed job"
            raise _damaged_error(message, self._where) from error
        except (OSError, EOFError, zlib.error) as error:
            raise _damaged_error(f"can't be decompressed: {error}", self._where) from error
        self._at += len(data)
        if self._at > self._most:
            fix = f"if you trust it, allow more: --max-bytes {self._most * 10}"
            message = f"the file unpacks to more than {self._most:,} bytes"
            raise Refused(message, where=self._where, fix=fix)
        return data


@dataclass
class _Pack:
    """A file with a job, that is being read."""

    tar: tarfile.TarFile
    unzipped: _Unzipped
    where: str
    first: JsonObject
    digest: _Digest = field(default_factory=_Digest)

    @property
    def job_id(self) -> str:
        """The id of the job."""
        return str(self.first["job"])

    def read_entries(self) -> Iterator[tuple[tarfile.TarInfo, Iterator[bytes]]]:
        """Yield each entry, its name without the id of the job, and its content.

        Raises Damaged for a name or a kind that no job has, and at the end if the digest differs.
        """
        count = 0
        while (info := self._read_next()) is not None:
            self.tar.members = []  # type: ignore[attr-defined]  # tarfile keeps them all
            if info.name == LAST:
                recorded = _read_text(self.tar, info, self.where).strip()
                if recorded != self.digest.hash.hexdigest():
                    raise _damaged_error("it was changed, or a part of it was lost", self.where)
                if self._read_next() is not None or not self.unzipped.is_at_end():
                    raise _damaged_error("it continues after its end", self.where)
                return
            count += 1
            if count > MOST_MEMBERS:
                raise _damaged_error(f"it has more than {MOST_MEMBERS:,} files", self.where)
            kind = self._require_usable(info)
            value = {_FILE: f"{info.mode:o}", _LINK: info.linkname, _DIRECTORY: ""}[kind]
            self.digest.add(kind, info.name, value)
            info.name = info.name.partition("/")[2]
            yield info, self._read_content(info)
        raise _damaged_error("its end is missing", self.where)

    def _read_next(self) -> tarfile.TarInfo | None:
        return _read_next(self.tar, self.unzipped, self.where)

    def _require_usable(self, info: tarfile.TarInfo) -> str:
        parts = info.name.split("/")
        name = info.name.partition("/")[2]
        is_plain = len(parts) <= MOST_DEPTH and "\0" not in info.name and not {"", ".", ".."} & set(parts)
        if not is_plain or parts[0] != self.job_id or not name or not _belongs_to_job(name):
            raise _damaged_error(f"unexpected path {info.name[:200]!r}", self.where)
        is_in_workspace = name.startswith("workspace/")
        if info.isreg() and not info.issparse() and info.size >= 0:
            return _FILE
        if info.isdir():
            return _DIRECTORY
        if info.issym() and is_in_workspace and info.linkname and "\0" not in info.linkname:
            return _LINK
        raise _damaged_error(
            f"not a file, a directory or a link of the workspace: {info.name[:200]!r}", self.where
        )

    def _read_content(self, info: tarfile.TarInfo) -> Iterator[bytes]:
        content = self.tar.extractfile(info) if info.isreg() else None
        left = info.size if content else 0
        while content and left:
            try:
                data = content.read(min(_CHUNK, left))
            except tarfile.ReadError:
                data = b""
            if not data:
                raise _damaged_error(f"{info.name} is incomplete", self.where)
            left -= len(data)
            yield self.digest.add_content(data)


class _open_pack:  # noqa: N801 - a context manager, used like a function
    """Open a file with a job, and read its first member. Raises Damaged for another file."""

    def __init__(self, path: Path, most: int) -> None:
        self._path, self._most = path, most

    def __enter__(self) -> _Pack:
        where = str(self._path)
        descriptor, _ = open_regular(os.path.realpath(self._path))
        self._file = os.fdopen(descriptor, "rb")
        try:
            unzipped = _Unzipped(self._file, self._most, where)
            tar = tarfile.TarFile(fileobj=unzipped, mode="r")
            info = _read_next(tar, unzipped, where)
            if info is None or info.name != FIRST:
                raise _damaged_error("not a packed job", where)
            return _Pack(tar, unzipped, where, _parse_first(_read_text(tar, info, where), where))
        except (tarfile.TarError, ValueError) as error:
            self._file.close()
            raise _damaged_error("not a packed job", where) from error
        except BaseException:
            self._file.close()
            raise

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _read_next(tar: tarfile.TarFile, unzipped: _Unzipped, where: str) -> tarfile.TarInfo | None:
    unzipped.headers_end = unzipped.tell() + _MOST_AT_ONCE
    try:
        return tar.next()
    except RecursionError as error:  # tarfile calls itself for each header that another header precedes
        raise _damaged_error("a file has too many headers", where) from error
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise _damaged_error(f"it was changed, or a part of it was lost: {error}", where) from error
    finally:
        unzipped.headers_end = None


def _read_text(tar: tarfile.TarFile, info: tarfile.TarInfo, where: str) -> str:
    content = tar.extractfile(info) if info.isreg() and 0 <= info.size <= _MOST_FIRST else None
    if content is None:
        raise _damaged_error(f"{info.name} is not a small file", where)
    try:
        return content.read().decode("utf-8", "replace")
    except tarfile.ReadError as error:
        raise _damaged_error(f"{info.name} is incomplete", where) from error


def _parse_first(text: str, where: str) -> JsonObject:
    try:
        first = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _damaged_error("not a packed job", where) from error
    if not isinstance(first, dict):
        raise _damaged_error("not a packed job", where)
    job_id = first.get("job")
    if not isinstance(job_id, str) or not is_job_id(job_id):
        raise _damaged_error("not a packed job", where)
    if is_newer(version := first.get("version", 0), PACK):
        message = describe_newer(f"job {job_id}", version, first.get("logist"), PACK)
        raise NewerFormat(message, where=where, fix=UPGRADE)
    return first


def _damaged_error(message: str, where: str) -> Damaged:
    return Damaged(message, where=where, fix="choose a file of `logist job pack`, or copy it again")


def unpack_job(project: ProjectContext, path: Path, *, max_bytes: int = MOST_BYTES) -> UnpackedJob:
    """Create the job that the file `path` contains. It appears complete and verified, or not at all.

    Raises Refused if there is a job with its id, or if the file unpacks to more than `max_bytes`; Damaged for a file
    that is not a packed job, or whose job doesn't verify.
    """
    with files.convert_os_errors(path), _open_pack(path, max_bytes) as pack:
        _require_free_id(project, pack.job_id)
        if project.jobs_dir.is_relative_to(project.home):
            project_home.ensure_project_home(project.home)
        with JobDir.create_job(project.jobs_dir, pack.job_id) as job:
            os.unlink(job.history_file)  # the new job has an empty one
            left_out = _extract(pack, job)
            state = _verify_unpacked(project, job, str(path))
    made = project.open_job(pack.job_id)
    return UnpackedJob(made, state, pack.digest.files, pack.digest.content_bytes, tuple(left_out))


def _require_free_id(project: ProjectContext, job_id: str) -> None:
    path = project.jobs_dir / job_id
    if os.path.lexists(path):
        fix = f"to unpack a second copy, use --jobs-dir DIR; to replace it: logist job delete --job {job_id}"
        raise Refused(f"job {job_id!r} already exists", where=str(path), fix=fix)


def _extract(pack: _Pack, job: JobDir) -> list[str]:
    """Write the entries below the job's directory, never through a link; return the links that lead out of it."""
    left_out = []
    with safe_open.open_root(job.path) as top:
        for info, content in pack.read_entries():
            parts = [os.fsencode(part) for part in info.name.split("/")]
            try:
                with safe_open.open_below(top, parts[:-1]) as parent:
                    if not _extract_entry(info, content, parent, parts[-1]):
                        left_out.append(info.name)
            except (FileExistsError, FileNotFoundError, NotADirectoryError) as error:
                raise _damaged_error(f"unexpected path {info.name[:200]!r}", pack.where) from error
            except OSError as error:
                if error.errno in safe_open.GONE:
                    raise _damaged_error(f"unexpected path {info.name[:200]!r}", pack.where) from error
                raise
    return left_out


def _extract_entry(info: tarfile.TarInfo, content: Iterator[bytes], parent: int, name: bytes) -> bool:
    """Create one entry in the directory `parent`; False for a link that is left out."""
    if info.isdir():
        if info.name != "logs":  # every new job has one
            os.mkdir(name, 0o700, dir_fd=parent)
        return True
    if info.issym():
        if _leads_out(info.name, info.linkname):
            return False
        os.symlink(os.fsencode(info.linkname), name, dir_fd=parent)
        return True
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o600, dir_fd=parent), "wb") as file:
        for data in content:
            file.write(data)
        file.flush()
        is_in_workspace = info.name.startswith("workspace/")
        os.fchmod(file.fileno(), info.mode & 0o777 | 0o600 if is_in_workspace else 0o600)
        with suppress(OSError, OverflowError, ValueError):  # a time that this file system can't keep, or NaN
            os.utime(file.fileno(), (info.mtime, info.mtime))
    return True


def _leads_out(name: str, target: str) -> bool:
    """Whether a link leads out of the workspace; where it passes other links is not followed."""
    path = os.path.normpath(os.path.join(os.path.dirname(name), target))
    return not f"{path}/".startswith("workspace/")


def _verify_unpacked(project: ProjectContext, job: JobDir, where: str) -> State:
    """Return the state of a job that is complete, and whose history verifies."""
    config = files.read_bytes(job.git_dir / "config", _MOST_FIRST)
    known = {build_config(bare=True, long_names=each).encode("ascii") for each in (True, False)}
    if config is not None and config not in known:
        raise _damaged_error("its repository of checkpoints has unknown settings", where)
    problems = job_reader.verify_job(project, job).problems
    if problems:
        raise _damaged_error(f"the job doesn't verify: {problems[0].message}", where)
    state = load_session(project, job).state
    newer_versions.refuse_to_move(state)
    if job.workspace.is_dir():
        project.open_workspace(job).disarm_git()  # its .git may name programs that git would run
    return state
