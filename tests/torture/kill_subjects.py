"""The commands that are killed, each in the world that it needs, and what the same command does without a
kill.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from logist.store import IN_THE_MAKING, history, segments
from logist.store.entries import read_header
from tests import support
from tests.torture import kill_source
from tests.torture.lab import JOB, Json, World, command
from tests.torture.tracer import Action, Call, Trace, trace

DOER = {"src/app.py": "print('changed')\n", "src/new/deep/data.txt": "hello\n", "run.sh": None} | {
    f"docs/page{n}.md": f"page {n}\n" for n in range(12)
}
"""What the agent does to the files of the repository."""
AGAIN = ("job", "step", JOB)
CODES = (0, 3, 4, 7, 11)
"""The exit codes of a command that succeeded."""


class Subject(NamedTuple):
    """A command that changes something."""

    name: str
    args: tuple[str, ...]
    prepare: Callable[[World], None]
    """Creates the world before the command."""
    then: tuple[str, ...] = AGAIN
    """A command that must work after it, whatever happened."""
    instead: tuple[str, ...] = ()
    """A different command; after it, the files must be as if this one had not been started."""


class Reference(NamedTuple):
    """What the command and the next one do without a kill."""

    calls: list[Call]
    out: bytes
    code: int
    before: list[Json]
    history: list[Json]
    then_code: int
    end: list[Json]
    """The history after both."""
    state: Json
    files: dict[str, bytes]
    files_before: dict[str, bytes]
    spec_before: bytes
    spec: bytes
    source: tuple[Json, Json] | None = None
    """For a command that changes the user's repository: the repository before and after."""


def doer_first(world: World) -> None:
    """A job with files from a repository; a worker will change them, and a reviewer will accept the changes."""
    _script(world, {"text": command(evidence_files=["src/app.py"]), "files": DOER}, {"text": command()})
    repository = support.make_repository(world.place / "repo")
    ran = world.run("job", "create", "--id", JOB, "--prompt", "Do it.", "--repo", str(repository))
    assert ran.code == 0, ran


def doer_who_may_not(world: World) -> None:
    """The same, and the worker may change nothing."""
    roles = world.home / "roles"
    roles.mkdir()
    text = "name: Worker\ndescription: Reads.\nllm_model: grok-code-fast-1\ninstructions: Read.\n"
    (roles / "Worker.yaml").write_text(f"{text}permissions: [read_files]\n", "utf-8")
    doer_first(world)


def reviewer_next(world: World) -> None:
    """The same after the worker has finished."""
    doer_first(world)
    _run(world, "job", "step", JOB)


def rotated(world: World) -> None:
    """The same, with a history that is closed and compressed at every change."""
    _rotating(world)
    reviewer_next(world)


def rotated_first(world: World) -> None:
    """The job of `doer_first`, with such a history."""
    _rotating(world)
    doer_first(world)


def _rotating(world: World) -> None:
    (world.home / "config.yaml").write_text("history: {rotate_at: 1}\n", "utf-8")


def stuck(world: World) -> None:
    """The same after the worker changed files and got stuck, and a person changed one file."""
    doer_first(world)
    _script(world, {"text": command("STUCK"), "files": DOER}, {"text": command()})
    _run(world, "job", "step", JOB)
    (world.folder / "workspace" / "by-hand.txt").write_text("mine\n", "utf-8")


def no_job(world: World) -> None:
    """No job yet, and a repository to start one from."""
    _script(world, {"text": command()})
    support.make_repository(world.place / "repo")


def no_job_nor_repository(world: World) -> None:
    """No job yet, and nothing to start one from."""
    _script(world, {"text": command()})


def another_job(world: World) -> None:
    """A job to fork: a worker has changed files from a repository, and a reviewer has accepted them. The fork
    does not exist yet.
    """
    _script(world, {"text": command(evidence_files=["src/app.py"]), "files": DOER}, {"text": command()})
    repository = support.make_repository(world.place / "repo")
    made = ("job", "create", "--id", "another", "--prompt", "Do it.", "--repo", str(repository))
    assert world.run(*made).code == 0
    _run(world, "job", "step", "another")


FAN_OUT = """\
graph TD
    A[List them] --> C[[Each: Do it]]
    C --> D[Join]
%% === WORKFLOW_CONFIG ===
%% @C: {"stepType": "foreach", "itemsPath": "output.items", "prompt": "Do {{item}}."}
%% @D: {"stepType": "join", "prompt": "Sum up."}
%% === END_CONFIG ===
"""


def foreach_next(world: World) -> None:
    """A job whose next step has two child jobs, which change files from a repository."""
    listed = command(output={"items": ["one", "two"]})
    steps = {
        "A": [{"text": listed}],
        "C[1]": [{"text": command(output=1), "files": DOER}],
        "C[2]": [{"text": command(output=2), "files": {"two.txt": "2\n", "src/lib.py": "two\n"}}],
        "D": [{"text": command("STUCK")}],
    }
    (world.place / "answers.json").write_text(json.dumps({"answers": [], "steps": steps}), "utf-8")
    (world.place / "flow.mmd").write_text(FAN_OUT, "utf-8")
    repository = support.make_repository(world.place / "repo")
    made = ("job", "create", "--id", JOB, "--workflow", "flow.mmd", "--repo", str(repository))
    assert world.run(*made).code == 0
    _run(world, *AGAIN)


def children_done(world: World) -> None:
    """The same after both children have finished."""
    foreach_next(world)
    _run(world, *AGAIN)
    for child in world.state()["children"]:
        _run(world, "job", "run", child)


def no_room_for_a_child(world: World) -> None:
    """The same after one of them has used the rest of the parent's limit of runs."""
    foreach_next(world)
    _run(world, *AGAIN)
    first, _ = world.state()["children"]
    _run(world, "job", "run", first)
    _run(world, "job", "config", JOB, "--set", "limits.max_allowed_iterations=2")


def finished(world: World) -> None:
    """A job that has succeeded; its source repository contains uncommitted changes."""
    doer_first(world)
    _run(world, "job", "run", JOB)
    _run(world, "job", "approve", JOB)
    (world.place / "repo" / "README.md").write_text("mine\n", "utf-8")


def finished_late(world: World) -> None:
    """The same, but the repository has new commits."""
    finished(world)
    (world.place / "repo" / "theirs.txt").write_text("theirs\n", "utf-8")
    support.git(world.place / "repo", "add", "theirs.txt")
    support.git(world.place / "repo", "commit", "--quiet", "--message", "theirs")


def behind(world: World) -> None:
    """The job of `stuck`, whose repository has new commits: files that are changed, added and deleted."""
    stuck(world)
    repository = world.place / "repo"
    (repository / "theirs.txt").write_text("theirs\n", "utf-8")
    (repository / "src" / "lib.py").write_text("theirs\n", "utf-8")
    (repository / "README.md").unlink()
    support.git(repository, "add", "--all")
    support.git(repository, "commit", "--quiet", "--message", "theirs")


_MERGE = ("job", "merge", JOB, "--repo", "repo")
_CREATE = ("job", "create", "--id", JOB, "--prompt", "Do it.")
_ANSWER = ("--response-string", command("RETRY", "Again."))

_RESUBMIT = ("job", "resubmit", JOB, "--note", "Try again.")

SUBJECTS = {
    subject.name: subject
    for subject in (
        Subject("create", (*_CREATE, "--no-repo"), no_job_nor_repository),
        Subject("create from a repository", (*_CREATE, "--repo", "repo"), no_job),
        Subject("fork", ("job", "fork", "another", "--id", JOB), another_job),
        Subject("import", ("job", "import", ".logist/jobs/another", "--id", JOB), another_job),
        Subject("step of a worker", AGAIN, doer_first),
        Subject(
            "step that is undone",
            AGAIN,
            doer_who_may_not,
            ("job", "resubmit", JOB, "--note", "Try again."),
            instead=("job", "suspend", JOB),
        ),
        Subject("step of a reviewer", AGAIN, reviewer_next, ("job", "approve", JOB)),
        Subject("poststep", ("job", "poststep", JOB, *_ANSWER), doer_first),
        Subject("resubmit", _RESUBMIT, stuck),
        Subject("restep", ("job", "restep", JOB, "--to", "2"), stuck, instead=_RESUBMIT),
        Subject("rerun", ("job", "rerun", JOB), stuck, instead=_RESUBMIT),
        Subject("update", ("job", "update", JOB), behind, _RESUBMIT, instead=_RESUBMIT),
        Subject("cancel", ("job", "cancel", JOB), reviewer_next, ("job", "rerun", JOB)),
        Subject(
            "paid answer that rotates", ("job", "poststep", JOB, *_ANSWER, "--charge", "7"), rotated_first
        ),
        Subject("suspend that rotates", ("job", "suspend", JOB), rotated, ("job", "resume", JOB)),
        Subject("step that is given away", AGAIN, foreach_next, ("job", "run", JOB)),
        Subject("step that gathers", AGAIN, children_done, AGAIN, instead=("job", "suspend", JOB)),
        Subject(
            "step of a child at a shared limit",
            ("job", "step", f"{JOB}--3-2"),
            no_room_for_a_child,
            ("job", "run", JOB),
        ),
        Subject("merge", _MERGE, finished, ("job", "rerun", JOB)),
        Subject("merge into what moved on", _MERGE, finished_late, ("job", "rerun", JOB)),
        Subject("config", ("job", "config", JOB, "--set", "limits.cost_threshold=2000"), doer_first),
    )
}


def base(place: Path, subject: Subject) -> World:
    """The world before the command."""
    world = World.made(place)
    (place / "tmp").mkdir()
    subject.prepare(world)
    return world


def traced(world: World, args: Sequence[str], act: Action | None = None) -> Trace:
    """Run `logist ARGS` in a world, with or without a kill, until all its processes have ended."""
    env = world.env | {"TMPDIR": str(world.place / "tmp")}
    return trace(world.argv(*args), cwd=world.place, env=env, act=act)


def reference(subject: Subject, base: World, place: Path) -> Reference:
    """Run the command without a kill, on a copy of the world before it."""
    before = base.history() if base.folder.exists() else []
    spec_before = (base.folder / "job.yaml").read_bytes() if base.folder.exists() else b""
    world = base.copied(place)
    ran = traced(world, subject.args)
    assert ran.code in CODES, ran
    history = world.history()
    then = world.run(*subject.then)
    assert then.code in CODES, then
    found = Reference(
        ran.calls,
        ran.out,
        ran.code,
        before,
        history,
        then.code,
        world.history(),
        world.state(),
        files(world),
        files(base),
        spec_before,
        (world.folder / "job.yaml").read_bytes(),
        (kill_source.source(base), kill_source.source(world)) if subject.args == _MERGE else None,
    )
    shutil.rmtree(place)
    return found


def files(world: World) -> dict[str, bytes]:
    """Return the workspace without its temporary `.git`: contents by path."""
    found = {}
    for place, folders, names in os.walk(world.folder / "workspace"):
        folders[:] = [name for name in folders if name != ".git"]
        for name in names:
            path = Path(place, name)
            found[str(path.relative_to(world.folder))] = path.read_bytes()
    return found


def stable(entries: Sequence[Json]) -> list[Any]:
    """Return the parts of a history that are the same in every run of the same commands."""
    return [
        (
            entry["sequence"],
            entry["kind"],
            entry["actor"],
            entry["state_before"],
            entry["state_after"],
            entry.get("attempt"),
            entry.get("response", {}).get("raw_response"),
            entry.get("observed", {}).get("refusals"),
            entry.get("usage", {}).get("cost_cents"),
            # Without the changes of the workspace: those of a killed agent exist already.
        )
        for entry in entries
    ]


def stable_state(state: Json) -> Json:
    """The same of a state."""
    varying = (
        *("head", "checksum", "created_at", "updated_at", "usage", "checkpoint", "start_checkpoint"),
        "spawned",  # it contains the time that its children took
        "source",  # it contains the path of the world
        "unchanged",  # the changes of a killed agent exist already
    )
    return {key: value for key, value in state.items() if key not in varying} | {
        "asked": state["asked"],
        "used": state["usage"]["current_action_count"],
        "paid": state["usage"]["cumulative_cost"],
    }


def checkpoints_missing(world: World) -> list[str]:
    """Return checkpoints that the history names, and that are missing or incomplete in the repository."""
    named = {entry.get(key) for entry in world.history() for key in ("checkpoint_before", "checkpoint_after")}
    git = ["git", f"--git-dir={world.folder / 'git'}", "fsck", "--full", "--no-dangling", "--no-progress"]
    done = subprocess.run(
        [*git, *sorted(filter(None, named))], capture_output=True, text=True, env=world.env, check=False
    )
    return [f"git fsck: {done.stdout}{done.stderr}"] if done.returncode else []


def leftovers(world: World) -> list[str]:
    """Return half-written files and half-created jobs that remain after the command that follows the killed
    one.
    """
    places = [world.folder, world.folder / "inflight", world.folder / "logs"]
    names = [path for place in places if place.is_dir() for path in place.iterdir()]
    stale = [path for path in names if path.name.startswith(".") and ".new" in path.name]
    with history.open_history(world.job.history_file) as file:
        live = read_header(file, world.job.history_file).segment
    stale += [path for n, path in segments.find_segments(world.job.history_file).items() if n >= live]
    stale += world.jobs.glob(f"{IN_THE_MAKING}*")
    return [f"{path.relative_to(world.home)} is left" for path in stale]


def _script(world: World, *answers: Json) -> None:
    (world.place / "answers.json").write_text(json.dumps({"answers": answers}), "utf-8")


def _run(world: World, *args: str) -> None:
    ran = world.run(*args)
    assert ran.code in (0, 3, 4, 11), ran
