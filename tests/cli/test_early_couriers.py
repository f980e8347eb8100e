"""The couriers' client begins to load at the start of a command that may ask a model, and only then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest

from logist.agents.courier.fork_servers import ForkServers
from logist.cli import early_couriers
from logist.config.environment import Environment
from tests.cli.desk import Desk


@contextmanager
def loading(desk: Desk, agent: str | None, job_id: str | None = None) -> Iterator[ForkServers]:
    environment = Environment({"PATH": "/usr/bin:/bin", "HOME": str(desk.place)})
    with click.Context(click.Command("run")):
        yield early_couriers.begin_to_load(environment, str(desk.jobs), agent, job_id)


def test_the_client_loads_if_a_job_is_ready_and_ends_with_the_command(desk: Desk) -> None:
    desk.create("j1")
    with loading(desk, None) as couriers:
        server = couriers.servers.get("direct")
        assert server is not None
        assert Path(f"/proc/{server.pid}").exists()
    assert not Path(f"/proc/{server.pid}").exists()


@pytest.mark.parametrize("agent", ["scripted:answers.json", "litellm"])
def test_an_agent_that_does_not_use_the_client_loads_none(desk: Desk, agent: str) -> None:
    desk.create("j1")
    with loading(desk, agent) as couriers:
        assert not couriers.servers


def test_a_command_without_a_ready_job_loads_none(desk: Desk) -> None:
    desk.create("j1", "--draft")
    desk.create("j2")
    with loading(desk, None, "j1") as draft, loading(desk, None, "missing") as missing:
        assert not draft.servers
        assert not missing.servers
