"""DBOS on SQLite: a workflow with one step for each turn; for the replay, one workflow with all steps, forked after the last."""

import logging

from dbos import DBOS, DBOSConfig
from measuring import RECORD, TEXT, ask_model, measure_turns, read_arguments

wanted = read_arguments()
config: DBOSConfig = {
    "name": "peer",
    "system_database_url": "sqlite:///dbos.sqlite",
    "run_admin_server": False,
    "log_level": "ERROR",
    "application_version": "1",
}
DBOS(config=config)
logging.disable(logging.WARNING)


@DBOS.step()
def call_model() -> str:
    """The recorded step."""
    if wanted.what == "replay":
        return TEXT
    return RECORD if wanted.what == "append" else ask_model(wanted.url)


@DBOS.workflow()
def take_turns(count: int) -> int:
    """As many steps as wanted."""
    return sum(len(call_model()) for _ in range(count))


DBOS.launch()
if wanted.what == "replay":
    done = DBOS.list_workflows(name="take_turns", limit=1)
    first = done[0].workflow_id if done else DBOS.start_workflow(take_turns, wanted.size).get_workflow_id()
    DBOS.retrieve_workflow(first).get_result()
    measure_turns(lambda: DBOS.fork_workflow(first, wanted.size + 1).get_result(), wanted.runs)
else:
    if not DBOS.list_workflows(limit=1):
        for _ in range(wanted.size):
            take_turns(0)
    measure_turns(lambda: take_turns(1), wanted.runs)
DBOS.destroy()
