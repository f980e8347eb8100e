"""The fork servers of a command. Most commands start none, and then `fork_server` is not loaded."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from logist import systems
from logist.agents.courier import fork_server

if TYPE_CHECKING:
    from logist.agents.courier.fork_server import ForkServer, Kind


class ForkServers:
    """The fork servers of a command: at most one for each kind of client, started when first needed."""

    def __init__(self, *, enabled: bool = True) -> None:
        self._enabled = (
            enabled and systems.HAS_PIDFD
        )  # only then is it safe to signal a process that is not a child
        self.servers: dict[Kind, ForkServer] = {}
        self._one_at_a_time = threading.Lock()

    def get(self, kind: Kind, environment: dict[str, str]) -> ForkServer | None:
        """Return the server, which may still be loading; None without one."""
        with self._one_at_a_time:
            server = self.servers.get(kind)
            if self._enabled and (server is None or server.is_closed):
                with suppress(OSError):
                    server = self.servers[kind] = fork_server.ForkServer.start(kind, environment)
            return server

    def close(self) -> None:
        """End the servers; couriers that work go on. A later call starts a server again."""
        with self._one_at_a_time:
            for server in self.servers.values():
                server.close()
            self.servers.clear()
