"""Talks to the MCP server with the SDK's own client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters

from logist.config.environment import Environment
from logist.mcp_server.served_jobs import ServedJobs
from logist.mcp_server.server import build_server
from tests import support
from tests.cli.desk import Desk

Json = dict[str, Any]


class ToolFailed(Exception):
    """The server refused a call."""


class Agent:
    """An agent that calls tools."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> Any:
        """Return the data of a call. Raises ToolFailed with the text of an error."""
        result = await self.client.call_tool(tool, arguments)
        text: str = result.content[0].text  # type: ignore[union-attr]
        if result.is_error:
            raise ToolFailed(text)
        return json.loads(text)


def talk(
    desk: Desk, act: Callable[[Agent], Awaitable[Any]], *, read_only: bool = False, **options: Any
) -> Any:
    """Let an agent act, with the server in this process."""
    jobs = ServedJobs(Environment.from_process(), desk.place)
    return talk_to(build_server(jobs, read_only=read_only), act, **options)


def talk_to(server: Any, act: Callable[[Agent], Awaitable[Any]], **options: Any) -> Any:
    """Let an agent act, with a server elsewhere. Raises ToolFailed as `act` does."""

    async def run() -> Any:
        async with Client(server, **options) as client:
            try:
                return await act(Agent(client))
            except ToolFailed as error:  # outside, it would be in groups of exceptions
                return error

    done = asyncio.run(run())
    if isinstance(done, ToolFailed):
        raise done
    return done


def as_process(desk: Desk, *options: str) -> StdioServerParameters:
    """The server as a process, over standard input and output."""
    command = [*support.logist_command(), "mcp", *options]
    return StdioServerParameters(
        command=command[0], args=command[1:], env=support.process_environment() | desk.env, cwd=desk.place
    )


def read(desk: Desk, *words: str) -> Any:
    """Return the data of a command's --json."""
    return json.loads(desk(*words, "--json").out)["data"]
