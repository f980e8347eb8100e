"""mini-swe-agent: a turn of its agent without a command, and the trajectory saved as its `run` does after each turn."""

import os
from pathlib import Path

os.environ["MSWEA_SILENT_STARTUP"] = "1"
os.environ["MSWEA_GLOBAL_CONFIG_DIR"] = str(Path.cwd() / "config")

from measuring import RECORD, TEXT, ask_model, measure_turns, read_arguments
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.test_models import DeterministicModel, make_output

wanted = read_arguments()


class Model(DeterministicModel):
    """Calls the model over HTTP, or has the record at once."""

    def query(self, messages: list, **_: object) -> dict:
        return make_output(RECORD if wanted.what == "append" else ask_model(wanted.url), [], 0.0)


file = Path("trajectory.json")
agent = DefaultAgent(
    Model(outputs=[]), LocalEnvironment(), system_template="s", instance_template="i", output_path=file
)
agent.add_messages(*(make_output(TEXT, [], 0.0) for _ in range(wanted.size)))


def take_turn() -> None:
    """As in `DefaultAgent.run`."""
    agent.step()
    agent.save(file)


measure_turns(take_turn, wanted.runs)
