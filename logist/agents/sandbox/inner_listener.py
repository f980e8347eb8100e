"""Opens a listening socket in the network namespace of another process, and hands it to its parent.

Run as `python -I -S inner_listener.py PID PORT CHANNEL`: the process, the port on its 127.0.0.1, and a unix socket for
the result. It is a separate program because only a process with a single thread can join a user namespace.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import sys

_GET_OWNER = 0xB701
"""NS_GET_USERNS: the user namespace that a namespace belongs to."""
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_FREE_BIND = 15
_BACKLOG = 1024


def main(pid: int, port: int, channel: int) -> None:
    _join_network(pid)
    listener = socket.socket()
    # Bubblewrap may not have given the loopback device its address yet; it will have before the program starts.
    listener.setsockopt(socket.IPPROTO_IP, _FREE_BIND, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(_BACKLOG)
    socket.send_fds(socket.socket(fileno=channel), [b"."], [listener.fileno()])


def _join_network(pid: int) -> None:
    network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    # The process may have entered a second user namespace since, which has no rights over this network.
    owner = fcntl.ioctl(network, _GET_OWNER)
    _join(owner, _NEW_USER)
    _join(network, _NEW_NETWORK)


def _join(namespace: int, kind: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, kind) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    try:
        main(*map(int, sys.argv[1:]))
    except OSError as problem:
        sys.exit(str(problem))
