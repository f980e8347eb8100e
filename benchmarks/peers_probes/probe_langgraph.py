"""LangGraph with its SqliteSaver: every call is a node of its own, and each checkpoint is written before the next node."""

import operator
import sqlite3
from contextlib import contextmanager
from typing import Annotated, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from probing import TEXT, call_model, choose, report, tell

CONFIG = {"configurable": {"thread_id": "one"}}


class State(TypedDict):
    answers: Annotated[list[str], operator.add]


@contextmanager
def opened(url=""):
    builder = StateGraph(State)
    builder.add_node("first", lambda state: {"answers": [call_model(url, "first")]})
    builder.add_node("second", lambda state: {"answers": [call_model(url, "second")]})
    builder.add_edge(START, "first")
    builder.add_edge("first", "second")
    builder.add_edge("second", END)
    with SqliteSaver.from_conn_string("checkpoints.sqlite") as saver:
        yield builder.compile(checkpointer=saver)


def run(url):
    with opened(url) as graph:
        graph.invoke({"answers": []}, CONFIG, durability="sync")


def resume(url):
    with opened(url) as graph:
        graph.invoke(None, CONFIG, durability="sync")


def save():
    with opened() as graph:
        number = 0
        while True:
            number += 1
            graph.update_state(CONFIG, {"answers": [TEXT]})
            report(number)


def add(number, url):
    with opened() as graph:
        graph.update_state(CONFIG, {"answers": [number]})


def count():
    with opened() as graph:
        tell(len(graph.get_state(CONFIG).values.get("answers", [])))


def read():
    with sqlite3.connect("checkpoints.sqlite") as connection:
        found = connection.execute("PRAGMA integrity_check").fetchone()[0]
    if found != "ok":
        raise SystemExit(found)
    add(TEXT, "")
    with opened() as graph:
        tell(len(graph.get_state(CONFIG).values["answers"]) - 1)


choose(run=run, resume=resume, save=save, read=read, add=add, count=count)
