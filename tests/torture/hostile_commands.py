"""What a hostile program tries, as shell scripts: a table for the ordinary tests and for the torture suite.

A script runs in the workspace. It prints OUT if the attack succeeded, or the world shows it: a
canary in its output, a change outside, a word that reached a server, a dead victim, a process that is left
(`tests.torture.hostile_stage` looks). Names in the environment: OUTSIDE (a directory with `secret`), JOB (a job's
directory), USERHOME, VICTIM and LOGIST (process numbers), TCP and UDP (ports), SOCK and ABSTRACT (unix sockets),
NAME (an unused file name), NAP (seconds that only a process left behind sleeps), SEGMENT and QUEUE (the
numbers of a shared memory segment and a message queue), MQUEUE (the name of a POSIX message queue).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

LANDLOCK = frozenset({"landlock"})
NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Attempt:
    """One script, and how its run must end."""

    name: str
    script: str
    how: str = "exited"
    gaps: frozenset[str] = NONE
    """Kinds of sandbox that are known not to prevent it (docs/sandbox.md)."""
    control: bool = False
    """Without a sandbox it succeeds for every user, and harms nothing: this shows that the attack is real."""
    quick: bool = False
    """Part of the slice in the ordinary tests."""
    writable: bool = True
    deadline: float = 20.0
    idle: float | None = None
    limits: Mapping[str, int] = field(default_factory=dict)


def _python(*lines: str) -> str:
    return (
        "python3 - <<'END'\nimport ctypes, os, socket, sys, time\nE = os.environ\n"
        + "\n".join(lines)
        + "\nEND"
    )


def _calls(*numbers: tuple[int, int]) -> str:
    return _python(
        "libc = ctypes.CDLL(None, use_errno=True)",
        "row = {'x86_64': 0, 'aarch64': 1}.get(os.uname().machine)",
        f"for numbers in {numbers!r}:",
        "    if row is not None and libc.syscall(numbers[row], 0, 0, 0, 0, 0) >= 0: print('OUT')",
        "    elif row is not None and ctypes.get_errno() not in (1, 38): print('OUT', ctypes.get_errno())",
    )


READING = (
    Attempt("read-absolute", 'cat "$OUTSIDE/secret"', control=True, quick=True),
    Attempt("read-dotdot", "cat ../outside/secret", control=True),
    Attempt("read-symlink", 'ln -s "$OUTSIDE/secret" l && cat l', control=True, quick=True),
    Attempt("read-symlinked-directory", 'ln -s "$OUTSIDE" d && cat d/secret', control=True),
    Attempt("read-hard-link", 'ln "$OUTSIDE/secret" h && cat h', control=True),
    Attempt("read-user-key", 'cat "$USERHOME/.ssh/id_key" "$USERHOME/.netrc"', control=True, quick=True),
    Attempt("read-copy", 'cp -r "$USERHOME/." copied', control=True),
    Attempt("read-archive", 'tar -cf all.tar -C "$OUTSIDE" .', control=True),
    Attempt("read-own-account", 'test -n "$(ls -A "$(getent passwd "$(id -u)" | cut -d: -f6)")" && echo OUT'),
    Attempt("read-names", 'ls "$OUTSIDE"', control=True, quick=True),
    Attempt("read-metadata", 'stat "$OUTSIDE/secret" && echo OUT', control=True, gaps=LANDLOCK),
    Attempt("read-job", 'cat "$JOB/state.json" "$JOB/jobHistory.json"', control=True, quick=True),
    Attempt("read-job-inflight", 'find "$JOB" -type f -exec cat {} +', control=True),
    Attempt("proc-root", 'cat "/proc/$VICTIM/root$OUTSIDE/secret"', control=True, quick=True),
    Attempt("proc-1-root", 'cat "/proc/1/root$OUTSIDE/secret"'),
    Attempt("proc-any-root", 'cat /proc/[0-9]*/root"$OUTSIDE/secret"', control=True),
    Attempt("proc-cwd", 'cat "/proc/$VICTIM/cwd/secret"', control=True),
    Attempt("proc-descriptor", 'cat "/proc/$VICTIM/fd/0"', control=True),
    Attempt("proc-environment", 'cat "/proc/$VICTIM/environ"', control=True, quick=True),
    Attempt(
        "proc-parents",
        "cat /proc/$PPID/environ /proc/$LOGIST/environ /proc/1/environ",
        control=True,
        quick=True,
    ),
    Attempt("proc-everybody", "cat /proc/[0-9]*/environ /proc/[0-9]*/task/*/environ", control=True),
    Attempt("proc-memory", _python("print('OUT', open(f'/proc/{E[\"VICTIM\"]}/mem', 'rb'))")),
    Attempt("proc-maps", 'grep -q . "/proc/$VICTIM/maps" && echo OUT', control=True),
    Attempt(
        "proc-command-line", 'grep -q sleep "/proc/$VICTIM/cmdline" && echo OUT', control=True, gaps=LANDLOCK
    ),
    Attempt("own-environment", "env; cat /proc/self/environ", quick=True),
    Attempt(
        "inherited-descriptors",
        _python(
            "for n in range(3, 1000):",
            "    try: place = os.readlink(f'/proc/self/fd/{n}')",
            "    except OSError: continue",
            "    if '/hostile' not in place and place.startswith('/') and '/proc/' not in place: print('OUT', n, place)",
        ),
    ),
    Attempt(
        "disk",
        "for d in /dev/vd? /dev/sd? /dev/nvme?n1 /dev/mem; do dd if=$d count=1 of=disk && echo OUT; done",
    ),
    Attempt("kernel-log", "dmesg | grep -q . && echo OUT; dd if=/dev/kmsg of=log count=1 && echo OUT"),
    Attempt("kernel-memory", "dd if=/proc/kcore of=core bs=64 count=1 && test -s core && echo OUT"),
)

WRITING = (
    Attempt("write-absolute", 'echo x > "$OUTSIDE/new"', control=True, quick=True),
    Attempt("append", 'echo x >> "$OUTSIDE/secret"', control=True),
    Attempt("write-dotdot", "echo x > ../outside/new", control=True, quick=True),
    Attempt("write-symlink", 'ln -s "$OUTSIDE/new" l && echo x > l', control=True, quick=True),
    Attempt("write-symlinked-directory", 'ln -s "$OUTSIDE" d && echo x > d/new', control=True),
    Attempt("write-hard-link", 'ln "$OUTSIDE/secret" h && echo x >> h', control=True),
    Attempt("hard-link", 'ln "$OUTSIDE/secret" h', control=True, quick=True),
    Attempt("hard-link-out", 'echo x > f; ln f "$OUTSIDE/f"', control=True),
    Attempt("delete", 'rm -f "$OUTSIDE/secret"', control=True, quick=True),
    Attempt("move-out", 'echo x > f; mv f "$OUTSIDE/f"', control=True),
    Attempt("move-in", 'mv "$OUTSIDE/secret" .', control=True),
    Attempt("make-directory", 'mkdir "$OUTSIDE/d"', control=True),
    Attempt("truncate", _python("os.truncate(E['OUTSIDE'] + '/secret', 1)"), control=True),
    Attempt("mode", 'chmod 777 "$OUTSIDE/secret"', control=True, gaps=LANDLOCK),
    Attempt("mode-of-parent", "chmod 777 ..", control=True, gaps=LANDLOCK, quick=True),
    Attempt("times", 'touch -c -d 2001-01-01 "$OUTSIDE/secret"', control=True, gaps=LANDLOCK),
    Attempt("attributes", _python("os.setxattr(E['OUTSIDE'] + '/secret', 'user.x', b'1')"), gaps=LANDLOCK),
    Attempt("job-state", 'echo "{}" > "$JOB/state.json"', control=True, quick=True),
    Attempt("job-history", 'echo x >> "$JOB/jobHistory.json"', control=True),
    Attempt("job-hook", 'printf "#!/bin/sh\\n" > "$JOB/git/hooks/post-commit"', control=True),
    Attempt("job-lock", 'rm -rf "$JOB/inflight" "$JOB/lock"', control=True),
    Attempt("swap-workspace", "cd .. && mv workspace gone && ln -s outside workspace"),
    Attempt("shell-profile", 'echo evil >> "$USERHOME/.bashrc"', control=True),
    Attempt(
        "temporary",
        "for d in /tmp /var/tmp /dev/shm /run; do echo x > $d/$NAME; done",
        control=True,
        quick=True,
    ),
    Attempt("system", "for d in /usr/lib /usr/local/bin /etc /opt /; do echo x > $d/$NAME; done"),
    Attempt(
        "loader",
        _python(
            "for name in ('/etc/ld.so.cache', '/etc/passwd', '/usr/bin/env', '/etc'):",
            "    try: print('OUT', os.open(name, os.O_WRONLY) if name != '/etc' else os.mkdir(name + '/' + E['NAME']))",
            "    except OSError as error: print(error)",
        ),
    ),
    Attempt(
        "kernel-settings",
        _python(
            "for name in ('sys/kernel/core_pattern', 'sys/kernel/modprobe', 'sysrq-trigger', 'sys/vm/overcommit_memory'):",
            "    try: print('OUT', os.open('/proc/' + name, os.O_WRONLY))",
            "    except OSError as error: print(error)",
        ),
        quick=True,
    ),
    Attempt(
        "kernel-files",
        "find /proc -path '/proc/[0-9]*' -prune -o -type f -writable -print 2>/dev/null | grep . && echo OUT",
        gaps=LANDLOCK,
    ),
    Attempt("oom-score", "echo -900 > /proc/self/oom_score_adj && echo OUT"),
    Attempt("read-only-workspace", "echo x > f && echo OUT", writable=False, quick=True),
    Attempt("read-only-existing", "echo x >> README && echo OUT; rm README && echo OUT", writable=False),
    Attempt("read-only-mode", "chmod 777 README && echo OUT", writable=False, gaps=LANDLOCK),
    Attempt("read-only-remount", 'mount -o remount,rw,bind "$PWD" && echo OUT', writable=False),
)

RIGHTS = (
    Attempt("remount-root", "mount -o remount,rw,bind / && echo OUT", quick=True),
    Attempt("mount-memory", "mkdir m; mount -t tmpfs none m && echo OUT"),
    Attempt("mount-bind", "mkdir m; mount --bind /usr m && echo OUT"),
    Attempt("mount-proc", "mount -t proc none /proc && echo OUT"),
    Attempt("unmount", 'umount -l "$PWD" /tmp /proc && echo OUT'),
    Attempt("user-namespace", "unshare -Ur true && echo OUT", gaps=LANDLOCK),
    Attempt("user-namespace-mount", "unshare -Urm sh -c 'mkdir m; mount --bind /usr m && echo OUT'"),
    Attempt("user-namespace-read", 'unshare -Urm cat "$OUTSIDE/secret"', quick=True),
    Attempt(
        "enter-namespace",
        'nsenter -t "$VICTIM" -m cat "$OUTSIDE/secret"; nsenter -t 1 -m -p true && echo OUT',
    ),
    Attempt("chroot", _python("os.chroot('.')", "print('OUT')")),
    Attempt("other-user", _python("os.setresuid(12345, 12345, 12345)", "print('OUT')")),
    Attempt("owner", "touch f; chown 12345 f && echo OUT"),
    Attempt(
        "capabilities", "grep -E 'Cap(Eff|Prm|Amb):.*[1-9a-f]' /proc/self/status && echo OUT", quick=True
    ),
    Attempt(
        "new-privileges", "grep -E 'NoNewPrivs:.*0' /proc/self/status && echo OUT", control=True, quick=True
    ),
    Attempt("set-user-id", "su -c true </dev/null && echo OUT; sudo -n true && echo OUT"),
    Attempt("device-file", "mknod b b 8 0 && echo OUT; mknod c c 1 1 && echo OUT", quick=True),
    Attempt("host-name", 'hostname "$(hostname)" && echo OUT'),
    Attempt("priority", "renice -n -10 -p $$ && echo OUT"),
    Attempt("limits", "ulimit -f unlimited && echo OUT; ulimit -n 1000000 && echo OUT", quick=True),
    Attempt(
        "type-into-terminal",
        _python(
            "import fcntl, pty",
            "for number in (0, 1, 2, pty.openpty()[1]):",
            "    try: fcntl.ioctl(number, 0x5412, b'x'); print('OUT')",
            "    except OSError as error: print(error)",
        ),
    ),
    Attempt("terminal", "exec 3<>/dev/tty && echo OUT"),
    Attempt("kernel-keys", _calls((248, 217), (250, 219))),
    Attempt("kernel-code", _calls((175, 105), (321, 280), (298, 241), (246, 104))),
    Attempt("kernel-rings", _calls((425, 425))),
)

OTHERS = (
    Attempt("kill", 'kill -9 "$VICTIM"', control=True, quick=True),
    Attempt("kill-group", 'kill -9 "-$VICTIM"', control=True),
    Attempt("stop-others", 'kill -STOP "$VICTIM"', control=True),
    Attempt("signal-logist", 'kill -0 "$LOGIST" && echo OUT', control=True, quick=True),
    Attempt(
        "trace",
        _python(
            "if ctypes.CDLL(None).ptrace(16, int(E['VICTIM']), 0, 0) == 0: print('OUT')",
        ),
        quick=True,
    ),
    Attempt(
        "tcp",
        _python("socket.create_connection(('127.0.0.1', int(E['TCP'])), 3).sendall(b'hello')"),
        control=True,
        quick=True,
    ),
    Attempt("tcp-shell", "bash -c 'echo hello > /dev/tcp/127.0.0.1/$TCP'"),
    Attempt(
        "udp",
        _python("socket.socket(2, 2).sendto(b'hello', ('127.0.0.1', int(E['UDP'])))"),
        control=True,
        quick=True,
    ),
    Attempt(
        "unix-socket",
        _python("s = socket.socket(1); s.connect(E['SOCK']); s.sendall(b'hello')"),
        control=True,
        quick=True,
    ),
    Attempt("unix-socket-linked", 'ln -s "$SOCK" s\n' + _python("s = socket.socket(1); s.connect('s')")),
    Attempt(
        "abstract-socket",
        _python("s = socket.socket(1); s.connect('\\0' + E['ABSTRACT']); s.sendall(b'hello')"),
        control=True,
        quick=True,
    ),
    Attempt("raw-socket", _python("socket.socket(17, 3, 768)", "print('OUT')")),
    Attempt("hypervisor-socket", _python("socket.socket(40, 1)", "print('OUT')"), quick=True),
    Attempt("crypto-socket", _python("socket.socket(38, 5)", "print('OUT')")),
)

TUNING = (
    Attempt(
        "renice", _python("os.setpriority(0, int(E['VICTIM']), 19)", "print('OUT')"), control=True, quick=True
    ),
    Attempt(
        "renice-logist",
        _python("os.setpriority(0, int(E['LOGIST']), os.getpriority(0, int(E['LOGIST'])))", "print('OUT')"),
        control=True,
    ),
    Attempt(
        "pin",
        _python("os.sched_setaffinity(int(E['VICTIM']), list(os.sched_getaffinity(0))[:1])", "print('OUT')"),
        control=True,
    ),
    Attempt(
        "make-idle",
        _python("os.sched_setscheduler(int(E['VICTIM']), os.SCHED_IDLE, os.sched_param(0))", "print('OUT')"),
        control=True,
    ),
    Attempt("make-disk-idle", 'ionice -c 3 -p "$VICTIM" && echo OUT', control=True),
    Attempt(
        "limits-of-others",
        _python(
            "import resource",
            "resource.prlimit(int(E['VICTIM']), resource.RLIMIT_NOFILE, (3, 3))",
            "print('OUT')",
        ),
        control=True,
        quick=True,
    ),
)
"""Attacks that make other processes useless without a signal."""

SHARING = (
    Attempt(
        "shared-memory",
        _python("if ctypes.CDLL(None).shmctl(int(E['SEGMENT']), 0, None) == 0: print('OUT')"),
        control=True,
        quick=True,
    ),
    Attempt(
        "message-queue",
        _python("if ctypes.CDLL(None).msgctl(int(E['QUEUE']), 0, None) == 0: print('OUT')"),
        control=True,
    ),
    Attempt(
        "posix-queue",
        _python("if ctypes.CDLL('librt.so.1').mq_unlink(E['MQUEUE'].encode()) == 0: print('OUT')"),
        control=True,
    ),
)
"""Attacks that remove objects which the machine knows by a number or a name, not by a path."""

_BOMB = {"processes": 40}

EXHAUSTING = (
    Attempt("left-in-group", "sleep $NAP >/dev/null 2>&1 &"),
    Attempt("left-with-output", "sleep $NAP & setsid sleep $NAP & exit 0"),
    Attempt("left-in-session", "setsid sleep $NAP >/dev/null 2>&1 &", quick=True),
    Attempt(
        "left-twice-forked", "(setsid sh -c 'sleep $NAP & exec sleep $NAP' &) >/dev/null 2>&1", quick=True
    ),
    Attempt("left-nameless", 'env -i setsid sh -c "sleep $NAP & " >/dev/null 2>&1 &', quick=True),
    Attempt("left-deaf", "(trap '' TERM HUP INT; setsid sleep $NAP) >/dev/null 2>&1 & sleep 0.2"),
    Attempt("loop", "while :; do :; done", how="timeout", deadline=0.5, quick=True),
    Attempt("deaf", "trap '' TERM INT HUP; while :; do sleep 1; done", how="timeout", deadline=0.3),
    Attempt("stopped", "kill -STOP $$; echo OUT", how="timeout", deadline=0.3),
    Attempt("silent", "exec >&- 2>&-; sleep $NAP", how="timeout", deadline=0.5),
    Attempt("idle", "echo once; sleep $NAP", how="idle", idle=0.5, quick=True),
    Attempt("fork-slowly", "b() { sleep 0.05; b & b & wait; }; b", how="limit", limits=_BOMB, quick=True),
    Attempt("fork-bomb", "b() { b | b & }; b; sleep 9", how="limit", limits=_BOMB),
    Attempt(
        "fork-sessions",
        _python(
            "for n in range(300):",
            "    if os.fork() == 0: os.setsid(); time.sleep(20); os._exit(0)",
            "time.sleep(20)",
        ),
        how="limit",
        limits=_BOMB,
    ),
    Attempt(
        "memory",
        _python("kept = []", "while True: kept.append(bytearray(os.urandom(1 << 16) * 64))"),
        how="limit",
        limits={"memory_bytes": 200 << 20},
        quick=True,
    ),
    Attempt(
        "memory-shared-out",
        _python(
            "for n in range(3): os.fork()",
            "kept = bytearray(b'x' * (60 << 20))",
            "time.sleep(15)",
        ),
        how="limit",
        limits={"memory_bytes": 300 << 20},
    ),
    Attempt(
        "memory-in-files",
        "for d in /tmp /run /dev /dev/shm / /var; do for n in 1 2 3 4 5 6 7 8; do head -c 50000000 /dev/zero > $d/$NAME$n;"
        " done; test $(cat $d/$NAME? | wc -c) -gt 268435456 && echo OUT; rm -f $d/$NAME?; done",
        limits={"memory_bytes": 256 << 20},
    ),
    Attempt("output", "head -c 10000000000 /dev/zero", how="limit", quick=True),
    Attempt("output-of-errors", "yes >&2", how="limit"),
    Attempt("output-of-many", "for n in 1 2 3 4; do yes & done; wait", how="limit"),
    Attempt(
        "file", "head -c 100000000 /dev/zero > f; test $(stat -c %s f) -gt 70000000 && echo OUT", quick=True
    ),
    Attempt("file-sparse", "truncate -s 10G f && echo OUT", how="limit"),
    Attempt("file-allocated", "fallocate -l 10G f && echo OUT", how="limit"),
    Attempt(
        "first-process",
        _python(
            "libc = ctypes.CDLL(None)",
            "for request in (0x4206, 0x4207, 16):",
            "    if libc.ptrace(request, 1, 0, 0) == 0: print('OUT')",
        ),
        quick=True,
    ),
    Attempt(
        "first-process-pipe",
        _python(
            "for number in range(20):",
            "    if ctypes.CDLL(None).syscall(438, os.pidfd_open(1), number, 0) >= 0: print('OUT')",
        ),
    ),
    Attempt("stop-all", "kill -STOP -1; kill -STOP $$; echo OUT", how="timeout", deadline=0.5),
    Attempt(
        "end-first-thread",
        _python(
            "import threading",
            "def work():",
            "    while True: time.sleep(1)",
            "threading.Thread(target=work).start()",
            "ctypes.CDLL(None).syscall({'x86_64': 60, 'aarch64': 93}[os.uname().machine], 0)",
        ),
        how="timeout",
        deadline=0.5,
    ),
    Attempt(
        "nice",
        '[ "$(nice)" -ge 10 ] && [ "$(cat /proc/self/oom_score_adj)" -ge 500 ] || echo OUT',
        quick=True,
    ),
    Attempt("core", "ulimit -c unlimited; sh -c 'kill -SEGV $$'; ls core* && echo OUT"),
    Attempt("descriptors", _python("kept = [os.dup(0) for _ in range(17000)]", "print('OUT')")),
)

ATTEMPTS = (*READING, *WRITING, *RIGHTS, *OTHERS, *TUNING, *SHARING, *EXHAUSTING)
