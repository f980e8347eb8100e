"""Makes the example project, and lets one of its agents work for as long as it is needed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread

from logist.config.environment import Environment
from logist.errors import LogistError, Stopped
from logist.jobs.base.project import ProjectContext
from logist.jobs.base.project_home import create_project
from logist.jobs.base.project_opening import open_project
from logist.jobs.step_job import do_step
from logist.jobs.steward.snoozing import snooze_job
from logist.jobs.turn.agent_calls import INTERRUPTED
from logist.jobs.turn.next_request import Choice
from logist.quick_dataclass import dataclass
from logist.web.examples.making import ExampleJob
from logist.web.examples.shop import FILES, WORKFLOWS
from logist.web.examples.slow_model import SlowModel
from logist.web.examples.stories import STORIES, follow_others, merge_and_conflict

RUNNING, SNOOZED, DAMAGED = "faster-search", "new-logo", "damaged-disk"
MERGED, LATE = "mention-tea", "what-we-sell"
STOPPED, AFTER = "receipt-logo", "announce-discounts"
STEWARD = "alex"
_KEY = "LOGIST_EXAMPLE_KEY"
_AT_ONCE = 3
_BUDGET = """\
budget:
  limits:
    daily:
      per: day
      cost: 500
"""
"""One of the jobs waits for it."""
_MODELS = """\
models:
  example-model:
    provider_model: openai/example-model
    endpoint: {url}
    api_key_env: {key}
    input_price: 0.5
    output_price: 2.0
"""


@dataclass(frozen=True)
class ExampleProject:
    """A project with jobs in every state."""

    directory: Path
    """The repository of the shop."""
    environment: Environment
    """With a user's config directory beside it, so that the real one is neither read nor written."""
    began: datetime

    def open(
        self, *, stopping: Callable[[], int] = lambda: 0, say: Callable[[str], None] = lambda text: None
    ) -> ProjectContext:
        """Open the project, for example to serve it."""
        return open_project(self.environment, self.directory, say=say, stopping=stopping)

    def make_job(self, job_id: str) -> None:
        """Make one of the example jobs."""
        hours_ago, story = STORIES[job_id]
        story(self.start_job(job_id, hours_ago))

    def start_job(self, job_id: str, hours_ago: float) -> ExampleJob:
        """Return a job that is not created yet."""
        return ExampleJob(self.open(), job_id, self.began - timedelta(hours=hours_ago))


def create_example_project(
    folder: Path, variables: Mapping[str, str], *, now: datetime | None = None
) -> ExampleProject:
    """Create the project without jobs in an empty folder.

    `variables`: the environment of this process. `now`: when the examples end; by default, now.
    """
    inherited = {name: value for name, value in variables.items() if not name.startswith("LOGIST_")}
    own = {"XDG_CONFIG_HOME": str(folder / "config"), "LOGIST_STEWARD": STEWARD, _KEY: "example-key-0001"}
    directory = folder / "shop"
    project = ExampleProject(directory, Environment(inherited | own), now or datetime.now(UTC))
    _create_repository(directory, project.environment)
    create_project(directory / ".logist")
    for name, text in WORKFLOWS.items():
        _write(directory / ".logist" / "workflows" / name, text)
    _write(project.environment.user_config_dir() / "config.yaml", _BUDGET)
    return project


def make_example_project(
    folder: Path,
    variables: Mapping[str, str],
    *,
    now: datetime | None = None,
    stopping: Callable[[], int] = lambda: 0,
) -> ExampleProject:
    """Create the project with all its jobs; see `create_example_project`. Takes some seconds, and calls no model.

    Raises Stopped as soon as `stopping` returns an exit code.
    """
    project = create_example_project(folder, variables, now=now)

    def make(job_id: str) -> None:
        if stopping():
            raise Stopped("stopped", exit_code=stopping())
        project.make_job(job_id)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for made in [pool.submit(make, job_id) for job_id in STORIES]:
            made.result()
    merge_and_conflict(project.start_job(MERGED, 25), project.start_job(LATE, 25.5))
    follow_others(project.start_job(STOPPED, 90), project.start_job(AFTER, 1.5))
    project.start_job(RUNNING, 0.1).create(
        "Make the search faster: it reads every article again for each word.",
        title="Faster search",
        model="example-model",
    )
    until = (project.began + timedelta(days=3)).timestamp()
    snooze_job(str(project.open().jobs_dir), SNOOZED, until, project.began.timestamp())
    _damage(project)
    return project


def _create_repository(directory: Path, environment: Environment) -> None:
    for name, text in FILES.items():
        _write(directory / name, text)
    identity = (
        "-c",
        "user.name=Logist demo",
        "-c",
        "user.email=demo@localhost",
        "-c",
        "commit.gpgsign=false",
    )
    git = ("git", "-C", str(directory), *identity)
    for command in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-q", "-m", "A small shop")):
        subprocess.run(
            [*git, *command], env=environment.build_child_environment(), check=True, stdin=subprocess.DEVNULL
        )


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def _damage(project: ExampleProject) -> None:
    """Make a job whose files are damaged, as after a fault of the disk."""
    project.start_job(DAMAGED, 60).create("Show the price of postage.", title="Postage")
    job = project.open().open_job(DAMAGED)
    os.truncate(job.history_file, job.history_file.stat().st_size // 2)
    job.state_file.write_text("{", "utf-8")


@contextmanager
def run_slow_agent(project: ExampleProject) -> Iterator[None]:
    """Let an agent work on one of the jobs meanwhile: a model on 127.0.0.1 that answers a word at a time."""
    with SlowModel() as model:
        models = _MODELS.format(url=model.url, key=_KEY)
        _write(project.environment.user_config_dir() / "config.yaml", _BUDGET + models)
        stop = Event()
        context = replace(project.open(stopping=lambda: INTERRUPTED if stop.is_set() else 0), quiet=True)
        working = Thread(target=_step, args=(context,))
        working.start()
        try:
            model.wait_for_request()
            yield
        finally:
            stop.set()
            working.join()


def _step(context: ProjectContext) -> None:
    # A person who tries the page may have suspended the job, or ended its agent: then it has a reason to fail.
    with suppress(LogistError):
        do_step(context, RUNNING, Choice())
