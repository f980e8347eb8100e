"""pydantic-graph 1.x with its FileStatePersistence: every call is a node of its own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from probing import TEXT, call_model, choose, report, tell
from pydantic_graph import BaseNode, End, Graph, GraphRunContext
from pydantic_graph.persistence.file import FileStatePersistence

FILE = Path("run.json")


@dataclass
class State:
    url: str = ""
    saved: list[str] = field(default_factory=list)


@dataclass
class First(BaseNode[State, None, int]):
    async def run(self, ctx: GraphRunContext[State]) -> Second:
        call_model(ctx.state.url, "first")
        return Second()


@dataclass
class Second(BaseNode[State, None, int]):
    async def run(self, ctx: GraphRunContext[State]) -> End[int]:
        call_model(ctx.state.url, "second")
        return End(2)


@dataclass
class Keep(BaseNode[State, None, int]):
    """Saves its state once more each time; what ran before is saved when it begins."""

    number: int = 0

    async def run(self, ctx: GraphRunContext[State]) -> Keep | End[int]:
        if self.number:
            report(self.number)
        ctx.state.saved.append(TEXT)
        return Keep(self.number + 1)


GRAPH = Graph(nodes=[First, Second, Keep])


def persistence():
    stored = FileStatePersistence(FILE)
    stored.set_graph_types(GRAPH)
    return stored


async def go_on():
    async with GRAPH.iter_from_persistence(persistence()) as run:
        async for _ in run:
            pass


def run(url):
    asyncio.run(GRAPH.run(First(), state=State(url), persistence=persistence()))


def resume(url):
    asyncio.run(go_on())


def save():
    asyncio.run(GRAPH.run(Keep(), state=State(), persistence=persistence()))


async def one_more():
    async with GRAPH.iter_from_persistence(persistence()) as run:
        tell(len(run.state.saved))
        await run.next()


def read():
    asyncio.run(one_more())


def add(number, url):
    asyncio.run(persistence().snapshot_node(State(), Keep(int(number))))


def count():
    tell(len(asyncio.run(persistence().load_all())))


choose(run=run, resume=resume, save=save, read=read, add=add, count=count)
