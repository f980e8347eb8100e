"""The job's lock: one stepper at a time, shared with its courier, never broken by age.

It is an flock on the job directory itself: it moves with the job, and deleting a file in the directory does
not affect it. The file `lock` only says who holds it.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from logist import systems
from logist.errors import Busy, StorageError, UsageError
from logist.quick_tuple import NamedTuple
from logist.store import SIGNATURES, files
from logist.store.filesystem import require_local
from logist.systems import read_start_time
from logist.timestamps import format_local

POLL_SECONDS = 0.05
_RESERVING_SECONDS = 0.01
_UNSURE_SECONDS = 0.25
"""How long an unsigned lock is checked again: a process that has just taken it is about to sign it."""
_RECORDING_SECONDS = 10.0
"""After a courier has ended: how long to wait for the command that records its answer."""

# The file has two slots of fixed size, so that stepper and courier each write their own with one
# pwrite and never overwrites what the other wrote. Both together are one JSON object.
_SLOT = 1024
_LONGEST_COMMAND = 80
_OPENINGS = {"stepper": b'{"stepper":', "courier": b',"courier":'}
_ENDINGS = {"stepper": b"\n", "courier": b"}\n"}
_OFFSETS = {"stepper": 0, "courier": _SLOT}
_APART = "git"
"""Where a run locks a job on macOS: a directory that each job has."""
_CLAIMED_BYTE = 2 * _SLOT
"""Behind the slots; the file need not be so long."""
_FLOCK = "hhqqi4x"
"""The kernel's `struct flock`: kind, whence, start, length, pid."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SIGNING = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class LockProcess(NamedTuple):
    """A process that signed the lock. Pids are reused; together with start time and host they are unique."""

    pid: int
    start_time: int
    """What `read_start_time` returned: on Linux, clock ticks since the machine started."""
    host: str = ""
    command: str = ""
    since: str = ""


class Holder(NamedTuple):
    """The living processes that signed a lock. Both None: a courier holds it without having signed."""

    stepper: LockProcess | None
    courier: LockProcess | None

    @property
    def is_courier_alone(self) -> bool:
        """True if the stepper is gone, but the courier still waits for the agent's answer."""
        return self.stepper is None

    def __str__(self) -> str:
        if self.stepper:
            return (
                f"{self.stepper.command} (pid {self.stepper.pid}, since {format_local(self.stepper.since)})"
            )
        if self.courier:
            return f"an agent (courier pid {self.courier.pid}, since {format_local(self.courier.since)})"
        return "a running agent"


class Lock:
    """A lock that is held until the last process with its descriptor is gone.

    `fd` is the open job directory; a courier inherits it through `pass_fds`. An flock belongs to the open
    directory, so a child that inherits it keeps it when its parent is killed.
    """

    def __init__(self, fd: int, *, waited_for_courier: bool = False) -> None:
        self.fd = fd
        self.waited_for_courier = waited_for_courier

    @classmethod
    def from_inherited_fd(cls, fd: int) -> Lock:
        """Adopt the lock in the courier: sign it, and keep the descriptor from the courier's own children."""
        os.set_inheritable(fd, False)
        lock = cls(fd)
        lock.sign_for_courier(os.getpid())
        return lock

    def sign_for_courier(self, pid: int) -> None:
        """Sign for a courier. The stepper that started it and the courier itself
        both do so, with the same result.
        """
        stepper = _parse_signatures(_read_signatures(self.fd)).get("stepper") or LockProcess(0, 0)
        _write_signature(self.fd, "courier", stepper._replace(pid=pid, start_time=read_start_time(pid) or 0))

    def is_at(self, folder: Path) -> bool:
        """True if `folder` is the job that is locked, and not another directory that replaced it."""
        return _is_still_at(folder, self.fd)

    def release(self) -> None:
        """Release the lock. Only by closing: LOCK_UN would also release it for a courier that shares it."""
        with ExitStack() as last:
            last.callback(os.close, self.fd)
            with suppress(StorageError):  # only people read it: a failure must not hide the result
                _write_signature(self.fd, "stepper", None)


def create_signatures(folder: Path) -> None:
    """Create the file of signatures, with neither slot signed."""
    files.replace_file(folder / SIGNATURES, _format_slot("stepper", None) + _format_slot("courier", None))


def acquire_lock(
    folder: Path,
    *,
    command: str,
    since: str,
    wait: float = 0.0,
    wait_for_courier: bool = False,
    on_wait: Callable[[Holder], None] | None = None,
    on_poll: Callable[[], None] | None = None,
) -> Lock:
    """Take the lock of the job in `folder` for `command`, begun at `since` (UTC).

    While a live stepper holds it: Busy after `wait` seconds. While only a courier does: the same, or with
    `wait_for_courier` wait without limit, and then a little longer for the command that records the answer.
    `on_wait` is called once for each holder; `on_poll` is called at every attempt, and may raise to give up.
    """
    require_local(folder)
    began = time.monotonic()
    last_reported: Holder | None = None
    waited = False
    deadline = began
    unsigned_since: float | None = None
    while (fd := _try_lock_folder(folder)) is None:
        if on_poll:
            on_poll()
        current_holder = _read_live_signers(folder, held=True)
        now = time.monotonic()
        unsigned_since = (unsigned_since or now) if current_holder == (None, None) else None
        # In the moment between taking the lock and signing it, it looks like the lock of a courier that did
        # not sign.
        if unsigned_since is not None and now - unsigned_since < _UNSURE_SECONDS:
            time.sleep(POLL_SECONDS)
            continue
        if wait_for_courier and current_holder.is_courier_alone:
            deadline = now + _RECORDING_SECONDS
        if now - began >= wait and now >= deadline:
            raise _busy_error(folder, current_holder)
        if current_holder != last_reported and on_wait:
            on_wait(current_holder)
        last_reported, waited = (
            current_holder,
            waited or (current_holder.is_courier_alone and current_holder.courier is not None),
        )
        time.sleep(POLL_SECONDS)
    return _sign_new_lock(
        fd,
        LockProcess(os.getpid(), read_start_time(os.getpid()) or 0, read_host_name(), command, since),
        waited,
    )


def _sign_new_lock(fd: int, stepper: LockProcess, waited: bool) -> Lock:
    try:
        _write_signature(fd, "courier", None)
        _write_signature(fd, "stepper", stepper)
    except BaseException:
        os.close(fd)
        raise
    return Lock(fd, waited_for_courier=waited)


@contextmanager
def lock_limits(folder: Path, on_poll: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Keep others from reserving a part of the limits of the job in `folder`, inside the block.

    It is an flock on the file of signatures, because a command may hold the job's own lock, on its directory,
    meanwhile. The kernel frees it when its holder dies. `on_poll` is called at every attempt, and may raise.
    """
    while (fd := _try_lock_limits(folder)) is None:
        on_poll()
        time.sleep(_RESERVING_SECONDS)
    try:
        yield
    finally:
        os.close(fd)


def _try_lock_limits(folder: Path) -> int | None:
    """Return the locked file; None if another process holds it or has
    removed it: then the next attempt creates it.
    """
    with files.convert_os_errors(folder):
        fd = os.open(folder / SIGNATURES, _SIGNING, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The file may have been removed and created again by another process: then two processes would
            # each hold the lock of "the" file.
            if os.path.samestat(os.stat(folder / SIGNATURES), os.fstat(fd)):
                return fd
        except (BlockingIOError, FileNotFoundError):
            pass
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        return None


class RunClaim:
    """A job that a run over many jobs works on until it rests. Between two of its steps, the job's lock is free."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd

    def release(self) -> None:
        """Let other runs have the job."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def claim_for_run(folder: Path) -> RunClaim | None:
    """Claim the job in `folder` for this run; None if another run has it. Never waits, creates no file.

    It keeps runs apart, and protects nothing: the job's lock does. So a job whose file of signatures can't be locked is
    claimed without a lock: the step reports what is wrong with it.

    It is a lock of the open file description on a byte behind the signatures. An flock on this file means that limits are
    reserved (`lock_limits`), and a POSIX lock would be lost whenever this process signs the file and closes it. On macOS, such a
    lock and an flock of the same file exclude each other, so there it is an flock of another directory of the job.
    """
    try:
        if systems.IS_LINUX:
            fd = os.open(folder / SIGNATURES, _SIGNING & ~os.O_CREAT)
        else:
            fd = os.open(folder / _APART, _DIRECTORY)
    except OSError:
        return RunClaim(None)
    try:
        if systems.IS_LINUX:
            byte = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, _CLAIMED_BYTE, 1, 0)
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, byte)
        else:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        return None if error.errno in (errno.EAGAIN, errno.EACCES) else RunClaim(None)
    return RunClaim(fd)


@contextmanager
def claim_unfinished_job(folder: Path) -> Iterator[bool]:
    """Hold the lock of a job that is being created.

    Yields False if another process has it, or the directory is gone. The creator holds the lock from the
    start until the job has its name, and the kernel releases it when the creator dies. So any other process
    that can claim such a directory knows that its creator is gone.
    """
    try:
        fd = _try_lock_folder(folder)
    except UsageError:
        fd = None
    try:
        yield fd is not None
    finally:
        if fd is not None:
            os.close(fd)


def _try_lock_folder(folder: Path) -> int | None:
    """Return the locked directory, None if another process holds it.
    UsageError if it is gone or was moved.
    """
    with files.convert_os_errors(folder):
        try:
            fd = os.open(folder, _DIRECTORY)
        except FileNotFoundError:
            raise _job_gone_error(folder) from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The directory may have been moved between open and flock: the lock is then that of a job
            # elsewhere.
            if not _is_still_at(folder, fd):
                raise _job_gone_error(folder)
        except BlockingIOError:
            os.close(fd)
            return None
        except BaseException:
            os.close(fd)
            raise
        return fd


def _is_still_at(folder: Path, fd: int) -> bool:
    try:
        return os.path.samestat(os.stat(folder), os.fstat(fd))
    except FileNotFoundError:
        return False


def _job_gone_error(folder: Path) -> UsageError:
    fix = "to see all jobs, run: logist job list"
    return UsageError("the job no longer exists", where=str(folder), fix=fix)


def _busy_error(folder: Path, found: Holder) -> Busy:
    fix = f"wait until it finishes, or use --wait SECONDS; to watch it: logist job tail --job {folder.name}"
    if found.is_courier_alone:
        fix = f"to wait for the answer and record it, run: logist job step --job {folder.name}"
    return Busy(f"the job is busy: {found}", where=str(folder), fix=fix)


def find_lock_holder(folder: Path) -> Holder | None:
    """Find out who holds the lock now, None if it is free. Touches nothing, so it can't make a stepper fail.

    Taking the lock for a moment to see whether it is free would make a stepper that starts in that moment
    fail as busy; flock has no query. So the kernel's list of locks is read. It has gaps: a container does not
    see locks taken by processes that are gone or outside, and some file systems (btrfs, overlay) show other
    device numbers there. Hence the second source: living processes that signed the file; they withdraw the
    signature on release.
    """
    is_listed = _is_listed(folder)
    signers = _read_live_signers(folder, held=is_listed)
    return signers if is_listed or signers != (None, None) else None


def _read_live_signers(folder: Path, *, held: bool) -> Holder:
    """The processes that signed the file and are alive."""
    record = _parse_signatures(files.read_start(folder / SIGNATURES, 2 * _SLOT))
    return Holder(*(_keep_if_alive(record.get(role), folder, held) for role in ("stepper", "courier")))


def _is_listed(folder: Path) -> bool:
    """True if the kernel says that the directory is locked. On Linux, that is a line of /proc/locks: `1: FLOCK ADVISORY WRITE <pid>
    <major>:<minor>:<inode> 0 EOF`.
    """
    try:
        if not systems.IS_LINUX:
            return systems.is_locked_on_macos(folder)
        file = os.stat(folder, follow_symlinks=False)
        with open("/proc/locks", encoding="utf-8") as locks:
            held = [line.split() for line in locks]
    except OSError:
        return False
    name = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
    return any(words[1] == "FLOCK" and words[5] == name for words in held if len(words) > 5)


def _keep_if_alive(process: LockProcess | None, folder: Path, held: bool) -> LockProcess | None:
    """Return the process if it is at work, else None.

    A process of another host (a container) can't be checked: it counts as alive while the lock is `held`.
    """
    if process is None:
        return None
    alive = is_at_work(process, folder) if process.host == read_host_name() else held
    return process if alive else None


def is_at_work(process: LockProcess, folder: Path) -> bool:
    """True if a process of this machine lives, is not another one with its reused pid, and has the job open.

    A process that does not have it open has signed the file of another job, of which this one is a copy.
    """
    return read_start_time(process.pid) == process.start_time and _has_open(process.pid, folder)


def _has_open(pid: int, folder: Path) -> bool:
    """True if a process has the directory open; also if it belongs to another user and can't be checked."""
    if (
        not systems.IS_LINUX
    ):  # the signature is of this process and start; it left it only if it still holds the lock
        return _is_listed(folder)
    try:
        wanted = os.stat(folder)
        links = [f"/proc/{pid}/fd/{name}" for name in os.listdir(f"/proc/{pid}/fd")]
    except PermissionError:
        return True
    except OSError:
        return False
    return any(_is_same_file(link, wanted) for link in links)


def _is_same_file(link: str, wanted: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(link), wanted)
    except OSError:
        return False


def read_host_name() -> str:
    """The name of this machine, as in signatures."""
    return os.uname().nodename


def _format_slot(role: str, process: LockProcess | None) -> bytes:
    # A slot has a fixed size; a long command line is cut so that the rest still fits.
    short = process and process._replace(command=process.command[:_LONGEST_COMMAND])
    value = files.dump_json(short and short._asdict())
    opening, ending = _OPENINGS[role], _ENDINGS[role]
    return opening + value.ljust(_SLOT - len(opening) - len(ending)) + ending


def _write_signature(fd: int, role: str, process: LockProcess | None) -> None:
    # Not flushed: after a crash of the machine, no process that signed is alive.
    with files.convert_os_errors(_signature_path(fd)), _open_signatures(fd) as file:
        files.write_all(file, _format_slot(role, process), _OFFSETS[role])


def _read_signatures(fd: int) -> bytes:
    with files.convert_os_errors(_signature_path(fd)), _open_signatures(fd) as file:
        return os.pread(file, 2 * _SLOT, 0)


def _signature_path(fd: int) -> Path:
    """The path of the file of signatures, for a message."""
    try:
        return Path(systems.find_path(fd), SIGNATURES)
    except OSError:
        return Path(SIGNATURES)


@contextmanager
def _open_signatures(fd: int) -> Iterator[int]:
    """Open the file of signatures in the job directory `fd`; create it if it was removed."""
    file = os.open(SIGNATURES, _SIGNING, 0o600, dir_fd=fd)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise files.damaged_file_error(_signature_path(fd), "not a regular file")
        os.fchmod(file, 0o600)
        yield file
    finally:
        os.close(file)


def _parse_signatures(data: bytes) -> dict[str, LockProcess | None]:
    """Parse the signatures; empty if the file is incomplete, as just after it was created."""
    try:
        return {role: value and LockProcess(**value) for role, value in json.loads(data).items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}
