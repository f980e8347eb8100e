"""Which system calls change something outside of a process, and what their arguments mean."""

from __future__ import annotations

import os
from typing import NamedTuple

CLONE_THREAD = 0x10000
CREATING = os.O_CREAT | os.O_TRUNC | (os.O_TMPFILE & ~os.O_DIRECTORY)
"""Flags with which an open changes the disk."""


class Kind(NamedTuple):
    """A system call: its numbers, what it needs, and one word for each argument.

    `needs`: "space" on a disk, or only a "disk" that can be changed, or "-" neither.
    The words: `fd` a descriptor, `at` the directory of the next path, `path` a path, `text` where a link
    leads, `data` what is written and `count` its length, `vector` and `pieces` the same in pieces, `how`
    and `args` a struct that begins with flags, `-` nothing of interest; any other is the name of a number.
    """

    name: str
    x86_64: int | None
    aarch64: int | None
    needs: str
    words: tuple[str, ...]


_TABLE = """
open                2    -  space path flags mode
openat            257   56  space at path flags mode
openat2           437  437  space at path how
creat              85    -  space path mode
write               1   64  space fd data count
pwrite64           18   68  space fd data count offset
writev             20   66  space fd vector pieces
pwritev           296   70  space fd vector pieces offset
pwritev2          328  287  space fd vector pieces offset
sendfile           40   71  space fd fd - count
copy_file_range   326  285  space fd - fd - count
splice            275   76  -     fd - fd - count
vmsplice          278   75  -     fd vector pieces
rename             82    -  space path path
renameat          264   38  space at path at path
renameat2         316  276  space at path at path flags
unlink             87    -  disk  path
unlinkat          263   35  disk  at path flags
rmdir              84    -  disk  path
mkdir              83    -  space path mode
mkdirat           258   34  space at path mode
link               86    -  space path path
linkat            265   37  space at path at path flags
symlink            88    -  space text path
symlinkat         266   36  space text at path
truncate           76   45  space path size
ftruncate          77   46  space fd size
fallocate         285   47  space fd mode offset size
fsync              74   82  space fd
fdatasync          75   83  space fd
sync_file_range   277   84  space fd offset size flags
sync              162   81  -
syncfs            306  267  space fd
chmod              90    -  disk  path mode
fchmod             91   52  disk  fd mode
fchmodat          268   53  disk  at path mode
fchmodat2         452  452  disk  at path mode flags
chown              92    -  disk  path
fchown             93   55  disk  fd
lchown             94    -  disk  path
fchownat          260   54  disk  at path
utime             132    -  disk  path
utimes            235    -  disk  path
futimesat         261    -  disk  at path
utimensat         280   88  disk  at path
flock              73   32  -     fd operation
clone              56  220  -     flags
clone3            435  435  -     args
fork               57    -  -
vfork              58    -  -
execve             59  221  -     path
execveat          322  281  -     at path
connect            42  203  -     fd
sendto             44  206  -     fd data count
sendmsg            46  211  -     fd
sendmmsg          307  269  -     fd
kill               62  129  -     target signal
tkill             200  130  -     target signal
tgkill            234  131  -     target - signal
pidfd_send_signal 424  424  -     fd signal
mknod             133    -  space path mode
mknodat           259   33  space at path mode
setxattr          188    5  space path
lsetxattr         189    6  space path
fsetxattr         190    7  space fd
removexattr       197   14  disk  path
lremovexattr      198   15  disk  path
fremovexattr      199   16  disk  fd
"""


def _kind(line: str) -> Kind:
    name, x86_64, aarch64, needs, *words = line.split()
    return Kind(name, _number(x86_64), _number(aarch64), needs, tuple(words))


def _number(text: str) -> int | None:
    return None if text == "-" else int(text)


KINDS = tuple(_kind(line) for line in _TABLE.strip().splitlines())


def numbered(machine: str) -> dict[int, Kind]:
    """The calls of a machine (`os.uname().machine`) by number; KeyError for one that is not known."""
    column = {"x86_64": 1, "aarch64": 2}[machine]
    numbers = {kind[column]: kind for kind in KINDS}
    return {number: kind for number, kind in numbers.items() if isinstance(number, int)}
