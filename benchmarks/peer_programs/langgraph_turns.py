"""LangGraph with its SqliteSaver: a graph of one node, whose thread keeps all messages."""

from operator import add
from typing import Annotated, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from measuring import PROMPT, RECORD, TEXT, ask_model, measure_turns, read_arguments

wanted = read_arguments()
THREAD = {"configurable": {"thread_id": "j"}}


class State(TypedDict):
    """All messages of the thread."""

    messages: Annotated[list, add]


def call_model(state: State) -> State:
    """The node."""
    return {"messages": [RECORD if wanted.what == "append" else ask_model(wanted.url)]}


graph = StateGraph(State)
graph.add_node("call", call_model)
graph.add_edge(START, "call")
graph.add_edge("call", END)
with SqliteSaver.from_conn_string("thread.sqlite") as saver:
    app = graph.compile(checkpointer=saver)
    if wanted.what == "replay":
        if not app.get_state(THREAD).values:
            for _ in range(wanted.size):
                app.update_state(THREAD, {"messages": [TEXT]}, as_node="call")
        measure_turns(lambda: sum(1 for _ in app.get_state_history(THREAD)), wanted.runs)
    else:
        if not app.get_state(THREAD).values:
            app.update_state(THREAD, {"messages": [TEXT] * wanted.size}, as_node="call")
        measure_turns(lambda: app.invoke({"messages": [PROMPT]}, THREAD, durability="sync"), wanted.runs)
