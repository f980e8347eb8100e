"""Scenarios that are recorded and then cut at every call: complete jobs, and single commands on an existing
job.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests import support
from tests.torture.lab import JOB, World, command, paid_server
from tests.torture.recording import Promise, Recorder, Recording, entries

LONG = "Make a table of all that there is, and say for each line where it comes from.\n" * 20
"""A prompt that makes an interaction longer than a page."""

PAGES = {"table.txt": "one\ntwo\n", "src/long.txt": "a line of the table\n" * 500}
CREATE = ("job", "create", "--id", JOB, "--prompt")
STEP = ("job", "step", JOB)
SUSPEND = ("job", "suspend", JOB)


def answering(world: World, *answers: dict[str, Any]) -> World:
    """The world with a scripted agent that also writes files."""
    (world.place / "answers.json").write_text(json.dumps({"answers": answers}), "utf-8")
    return world


def whole_job(place: Path, *variants: str) -> Recording:
    """Create, step, review, refusal, a supplied answer, an edit of job.yaml, and a restep."""
    later = {"text": command(), "files": {"table.txt": "three\n"}}
    world = answering(World.made(place), {"text": command(), "files": PAGES}, {"text": command()}, later)
    recorder = Recorder("a whole job", world, variants)
    recorder.run(*CREATE, LONG, "--no-repo", "--approval", "end")
    recorder.run(*STEP)
    recorder.run(*STEP)
    recorder.run("job", "reject", JOB, "--note", "The table is not whole.")
    recorder.run(*STEP)
    recorder.run("job", "poststep", JOB, "-", stdin=command(summary="Looked at."))
    with (world.folder / "job.yaml").open("a", encoding="utf-8") as spec:
        spec.write("title: Another title\n")
    recorder.run("job", "reject", JOB, "--note", "Once more.")
    recorder.run("job", "restep", JOB, "--to", "4")
    recorder.run(*SUSPEND)
    return recorder.recording


def short_job(place: Path, *variants: str) -> Recording:
    """Create, step, and a decision."""
    world = answering(World.made(place), {"text": command(), "files": PAGES})
    recorder = Recorder("a short job", world, variants)
    recorder.run(*CREATE, "Do it.", "--no-repo")
    recorder.run(*STEP)
    recorder.run(*SUSPEND)
    return recorder.recording


def from_repository(place: Path, *variants: str) -> Recording:
    """A job that starts from a repository, and is rerun."""
    world = answering(World.made(place), {"text": command(), "files": {"README.md": "# Changed\n"}})
    support.make_repository(place / "repository")
    recorder = Recorder("from a repository", world, variants)
    recorder.run(*CREATE, "Do it.", "--repo", "repository")
    recorder.run(*STEP)
    recorder.run("job", "rerun", JOB)
    recorder.run(*STEP)
    return recorder.recording


def paid_job(place: Path, *variants: str) -> Recording:
    """Two paid asks, each by a courier; the first is tried again after an error of the provider."""
    error = {"status": 503, "message": "busy"}
    with paid_server(error, {"text": command(), "usage": {"input": 10, "output": 10}}) as server:
        world = World.made(place / "world").paid_by(server.url).unconfined()
        with (world.home / "config.yaml").open("a", encoding="utf-8") as config:
            config.write("retries:\n  backoff_seconds: 0.01\n")
        recorder = Recorder("a paid job", world, variants)
        recorder.run(*CREATE, "Do it.", "--no-repo")
        recorder.run(*STEP)
        recorder.run(*STEP)
    return recorder.recording


def at_rest(place: Path, prompt: str = LONG) -> World:
    """A world with one job, ready for single commands; its creation is not recorded."""
    world = answering(World.made(place), {"text": command(), "files": PAGES})
    return world.create("--prompt", prompt, "--approval", "end")


def new_job(world: World, *variants: str) -> Recording:
    """Create a job next to an existing one."""
    shutil.rmtree(world.folder)
    recorder = Recorder("a new job", world, variants)
    recorder.run(*CREATE, LONG, "--no-repo")
    return recorder.recording


def one_decision(world: World, *variants: str) -> Recording:
    """One append."""
    return _on(world, variants, "one decision", SUSPEND)


def two_decisions(world: World, *variants: str) -> Recording:
    """Two appends; the second has two entries, because job.yaml was edited."""
    recorder = Recorder("two decisions", world, variants, _rest(world))
    recorder.run(*SUSPEND)
    with (world.folder / "job.yaml").open("a", encoding="utf-8") as spec:
        spec.write("title: Another title\n")
    recorder.run("job", "resume", JOB)
    return recorder.recording


def scripted_step(world: World, *variants: str) -> Recording:
    """A step with a checkpoint."""
    return _on(world, variants, "a step", STEP)


def paid_step(world: World, *variants: str) -> Recording:
    """A paid step, the courier inside the command."""
    with paid_server() as server:
        (world.place / "answers.json").unlink()
        return _on(world.paid_by(server.url).unconfined(), ("own_courier", *variants), "a paid step", STEP)


def made_again(world: World, *variants: str) -> Recording:
    """A decision on a job that was removed and made again, on a disk that shows the old one's history where the
    new one's did not arrive. Both are alike to the byte but for a few letters: the worst that can lie there.
    """
    other = LONG.replace("table", "chart")
    _remade(world, LONG)
    assert world.run(*SUSPEND, "--note", LONG).code == 0
    old = world.job.history_file.read_bytes()
    _remade(world, other)
    recording = _on(world, ("in_place", *variants), "a job made again", (*SUSPEND, "--note", other))
    recording.stale["jobHistory.json"] = old
    return recording


def _remade(world: World, prompt: str) -> None:
    shutil.rmtree(world.folder)
    world.create("--prompt", prompt, "--approval", "end")


def _on(world: World, variants: Sequence[str], name: str, *commands: Sequence[str]) -> Recording:
    recorder = Recorder(name, world, variants, _rest(world))
    for each in commands:
        recorder.run(*each)
    return recorder.recording


def _rest(world: World) -> Promise:
    """Return the promise for an existing job, all of it durable."""
    told = tuple(entries(world.job.history_file.read_bytes()))
    return Promise(told, frozenset(told))


JOBS: dict[str, Callable[..., Recording]] = {
    make.__name__: make for make in (whole_job, short_job, from_repository, paid_job)
}
"""Scenarios by name; each is called with a directory and variants."""
