"""pydantic-graph 1 with FileStatePersistence: a node that returns itself; the file has a snapshot of each turn."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

from measuring import RECORD, TEXT, ask_model, measure_async_turns, read_arguments
from pydantic_graph import BaseNode, End, Graph, GraphRunContext
from pydantic_graph.persistence.file import FileStatePersistence

wanted = read_arguments()
FILE = Path("graph.json")


@dataclass
class State:
    """What a snapshot has: the last answer, so that the file grows with the turns, and not with their square."""

    text: str = ""


@dataclass
class Call(BaseNode[State, None, str]):
    """One turn."""

    async def run(self, ctx: GraphRunContext[State]) -> Call | End[str]:
        ctx.state.text = RECORD if wanted.what == "append" else ask_model(wanted.url)
        return Call()


async def take_turns() -> None:
    """Turns after those that the file has."""
    graph = Graph(nodes=(Call,))
    persistence = FileStatePersistence(FILE)
    persistence.set_graph_types(graph)
    if not FILE.exists():
        await graph.initialize(Call(), persistence=persistence, state=State(TEXT))
        async with graph.iter_from_persistence(persistence) as run:
            await run.next()
        first, *others = json.loads(FILE.read_bytes())
        done = [{**first, "id": f"Call:{number}"} for number in range(wanted.size - 1)]
        FILE.write_text(json.dumps([*done, first, *others], indent=2))
    if wanted.runs:
        async with graph.iter_from_persistence(persistence) as run:
            await measure_async_turns(run.next, wanted.runs)


asyncio.run(take_turns())
