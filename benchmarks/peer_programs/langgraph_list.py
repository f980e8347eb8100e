"""LangGraph has no command that lists threads: the ids of the threads of a SqliteSaver, by its own `list`."""

from langgraph.checkpoint.sqlite import SqliteSaver

with SqliteSaver.from_conn_string("thread.sqlite") as saver:
    for thread in {each.config["configurable"]["thread_id"] for each in saver.list(None)}:
        print(thread)
