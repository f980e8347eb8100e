"""The MCP server: its tools, resources and prompts, over standard input and output or over HTTP.

The descriptions are short because every client puts them into the prompt of every request.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable
from typing import Any, Literal, ParamSpec

import anyio
import anyio.to_thread
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ToolError
from mcp.types import ToolAnnotations

from logist.errors import LogistError
from logist.mcp_server.served_jobs import ServedJobs
from logist.version import __version__

MOST_AT_ONCE = 4
MOST_WAITING = 200
"""Calls that wait for their turn; more are refused at once."""
INSTRUCTIONS = (
    "Logist runs jobs of agents with limits, reviews and a history. create_job, preview_job (worst price), run_job, then "
    "show_job until it stops. Only a person approves, merges and resolves: ask_steward says what to tell them."
)
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
Group = Literal["role", "model", "phase", "step", "workflow", "day", "job"]
P = ParamSpec("P")


class TooManyCalls(Exception):
    """More calls wait than the server keeps."""


def build_server(jobs: ServedJobs, *, read_only: bool = False) -> MCPServer[Any]:
    """Return the server; with `read_only`, without the tools that create and run jobs."""
    server: MCPServer[Any] = MCPServer(
        "logist", instructions=INSTRUCTIONS, version=__version__, log_level="CRITICAL"
    )
    turns = _Turns()
    _add_reading_tools(server, jobs, turns)
    if not read_only:
        _add_working_tools(server, jobs, turns)
    _add_resources(server, jobs, turns)
    _add_prompts(server)
    for tool in server._tool_manager.list_tools():  # there is no other way to shorten a schema
        _remove_titles(tool.parameters)
    return server


class _Turns:
    """Does the work of calls in threads, a few at a time."""

    def __init__(self) -> None:
        self._limiter: anyio.CapacityLimiter | None = None
        self._waiting = 0

    async def do(self, work: Callable[[], Any]) -> Any:
        if self._limiter is None:  # it belongs to the event loop
            self._limiter = anyio.CapacityLimiter(MOST_AT_ONCE)
        if self._waiting >= MOST_WAITING:
            raise TooManyCalls("too many calls at once (try again in a few seconds)")
        self._waiting += 1
        try:
            return await anyio.to_thread.run_sync(work, limiter=self._limiter)
        finally:
            self._waiting -= 1

    def make_tool(self, function: Callable[P, Any]) -> Callable[P, Awaitable[str]]:
        """Return a function as a tool: its result as JSON, its errors as text for the agent."""

        @functools.wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> str:
            try:
                return json.dumps(await self.do(functools.partial(function, *args, **kwargs)))
            except (LogistError, TooManyCalls) as error:
                raise ToolError(str(error)) from None
            except OSError as error:
                raise ToolError(f"{error.filename or 'logist'}: {error.strerror}") from None

        call.__annotations__ = function.__annotations__ | {"return": "str"}
        return call

    async def read(self, function: Callable[[str], str], job: str) -> str:
        """Return a resource of a job."""
        try:
            return str(await self.do(lambda: function(job)))
        except (LogistError, TooManyCalls) as error:
            raise ResourceError(str(error)) from None


def _add_reading_tools(server: MCPServer[Any], jobs: ServedJobs, turns: _Turns) -> None:
    def list_jobs(status: str | None = None, limit: int = 20) -> Any:
        return jobs.list_jobs(status, limit)

    def show_job(job: str, diff: bool = False, tail: bool = False) -> Any:
        return jobs.show_job(job, diff=diff, tail=tail)

    def preview_job(job: str) -> Any:
        return jobs.preview_job(job)

    def job_statistics(by: Group = "role") -> Any:
        return jobs.gather_statistics(by)

    def replay_job(job: str) -> Any:
        return jobs.replay_job(job)

    def ask_steward(job: str) -> Any:
        return jobs.ask_steward(job)

    def workflow_next(
        workflow: str | None = None,
        mermaid: str | None = None,
        completed: list[str] | None = None,
        context: dict[str, Any] | None = None,
    ) -> Any:
        return jobs.follow_workflow(workflow, mermaid, completed or (), context)

    descriptions: dict[Callable[..., Any], str] = {
        list_jobs: "List jobs, the last changed first; status such as STUCK.",
        show_job: "Status, cost, question and last answer of a job; diff: also its changes as a patch; tail: what its agent does now.",
        preview_job: "Role, model and worst price of the next step. Sends nothing.",
        job_statistics: "Success, STUCK, cost and time of agents over all jobs.",
        replay_job: "Replay the history of a job with the current rules: free, no model.",
        ask_steward: "What a person is asked about a job, and the page where they decide. Give it to the person.",
        workflow_next: "Next step of a workflow that you follow yourself, without a job. workflow: a name.",
    }
    for function, description in descriptions.items():
        server.add_tool(
            turns.make_tool(function), description=description, annotations=READS, structured_output=False
        )


def _add_working_tools(server: MCPServer[Any], jobs: ServedJobs, turns: _Turns) -> None:
    def create_job(
        prompt: str | None = None,
        job: str | None = None,
        title: str | None = None,
        acceptance_criteria: list[str] | None = None,
        role: str | None = None,
        workflow: str | None = None,
        mermaid: str | None = None,
        input: dict[str, Any] | None = None,  # noqa: A002 - the name in job.yaml
    ) -> Any:
        return jobs.create_job(
            prompt,
            job=job,
            title=title,
            acceptance_criteria=acceptance_criteria,
            role=role,
            workflow=workflow,
            mermaid=mermaid,
            job_input=input,
        )

    def run_job(job: str, one_step: bool = False) -> Any:
        return jobs.run_job(job, one_step=one_step)

    create = (
        "Create a job from a prompt, or a workflow: its name, or a mermaid diagram. Reviewed, approved by a person at the "
        "end, never merged by itself. job: the new id."
    )
    run = "Run a job until it waits for a person or ends, or one step. Costs money. Returns at once; then use show_job."
    changes = ToolAnnotations(read_only_hint=False, destructive_hint=False)
    server.add_tool(
        turns.make_tool(create_job), description=create, annotations=changes, structured_output=False
    )
    server.add_tool(turns.make_tool(run_job), description=run, annotations=changes, structured_output=False)


def _add_resources(server: MCPServer[Any], jobs: ServedJobs, turns: _Turns) -> None:
    @server.resource("logist://job/{job}/history", mime_type="application/json")
    async def history(job: str) -> str:
        """All interactions of a job."""
        return await turns.read(jobs.read_history, job)

    @server.resource("logist://job/{job}/diff", mime_type="text/x-diff")
    async def diff(job: str) -> str:
        """What agents have changed."""
        return await turns.read(jobs.read_diff, job)

    @server.resource("logist://job/{job}/prompt", mime_type="text/markdown")
    async def prompt(job: str) -> str:
        """What the next step would send."""
        return await turns.read(jobs.read_prompt, job)


def _add_prompts(server: MCPServer[Any]) -> None:
    @server.prompt()
    def write_workflow(task: str) -> str:
        """Write a workflow for a task."""
        return (
            "Write a Logist workflow as a mermaid flowchart for the task below. Each node is a step; a block at the end such as\n"
            '%% === WORKFLOW_CONFIG ===\n%% @build: {"prompt": "Build it.", "review": true}\n%% === END_CONFIG ===\n'
            "gives it a prompt and a review, which every step of an agent needs. Pass the text to create_job as `mermaid`; "
            f"fix what it reports.\n\nTask: {task}"
        )

    @server.prompt()
    def resolve_stuck_job(job: str) -> str:
        """Explain to a person why a job is STUCK."""
        return (
            f"The job {job} is STUCK. Read show_job with diff, and logist://job/{job}/history. Explain in a few sentences what "
            "happened and what the person can choose. Then call ask_steward and give the person its page. Don't decide it "
            "yourself: a person resolves the job."
        )


def _remove_titles(schema: Any) -> None:
    """Remove the titles of a schema in place: they repeat the names of the fields."""
    if isinstance(schema, dict):
        if isinstance(schema.get("title"), str):
            del schema["title"]
        for each in schema.values():
            _remove_titles(each)
    elif isinstance(schema, list):
        for each in schema:
            _remove_titles(each)
