"""spec-kit: the state of a workflow run, as its engine saves it."""

from pathlib import Path

from probing import TEXT, choose, report, tell
from specify_cli.workflows.engine import RunState


def save():
    state = RunState("one", "probe", Path.cwd())
    number = 0
    while True:
        number += 1
        state.step_results[f"step-{number}"] = {"output": TEXT}
        state.save()
        report(number)


def read():
    state = RunState.load("one", Path.cwd())
    state.save()
    tell(len(state.step_results))


choose(save=save, read=read)
