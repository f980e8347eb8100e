"""mini-swe-agent: the save of its trajectory, which it makes after each step."""

import json
from pathlib import Path

from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.test_models import DeterministicModel
from probing import TEXT, choose, report, tell

FILE = Path("trajectory.json")


def save():
    agent = DefaultAgent(
        DeterministicModel(outputs=[]), LocalEnvironment(), system_template="s", instance_template="i"
    )
    number = 0
    while True:
        number += 1
        agent.add_messages({"role": "user", "content": TEXT})
        agent.save(FILE)
        report(number)


def read():
    tell(len(json.loads(FILE.read_text())["messages"]))


choose(save=save, read=read)
