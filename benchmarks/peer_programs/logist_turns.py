"""Logist: a job whose model answers RETRY, so that each turn is the next attempt; notes; replay of a recorded job.

The model is called by the built-in client, in a process that survives this one, as in every `logist run`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from measuring import RECORD, Wanted, measure_turns, read_arguments

from logist import Project
from logist.jobs.base.session import open_session
from logist.jobs.base.stored_records import dump_interaction

ROLE = """
name: Clerk
description: Answers without tools.
llm_model: benchmark
instructions: Do the task.
permissions: {can_read_files: false, can_write_files: false, can_delete_files: false, can_execute_commands: false}
"""
CONFIG = """
models: {{benchmark: {{provider_model: openai/benchmark, endpoint: '{url}', api_key_env: BENCHMARK_KEY}}}}
allow_unknown_price: true
limits: {{max_attempts: 1000000, max_allowed_iterations: 1000000}}
"""


def main() -> None:
    wanted = read_arguments()
    if wanted.what == "replay":
        return measure_replay(wanted)
    if not Path(".logist").exists():
        prepare(wanted)
    project = Project.open(".", environment={"BENCHMARK_KEY": "dummy-key"})
    job = project.open_job("j")
    if wanted.what == "append":
        measure_turns(lambda: job.add_note(RECORD), wanted.runs)
    elif wanted.what == "allow":
        allow_steps(project, wanted.runs)
    else:
        measure_turns(job.step, wanted.runs)
    return None


def prepare(wanted: Wanted) -> None:
    """A job with so many turns."""
    project = Project.create(".")
    Path(".logist/config.yaml").write_text(CONFIG.format(url=wanted.url), "utf-8")
    Path(".logist/roles/Clerk.yaml").write_text(ROLE, "utf-8")
    project = Project.open(".", environment={"BENCHMARK_KEY": "dummy-key"})
    job = project.create_job(
        "Say that it is done.", job_id="j", role="Clerk", repo=False, review=False, approval="none"
    )
    job.step()
    with open_session(project._context, "j", "benchmark") as session:
        entry = session.load_history()[-1]
        block = [dump_interaction(entry)] * (wanted.size - session.state.revision)
        session.position = session.job.append_entries(session.position, block).position
        session.state = session.state.model_copy(update={"revision": session.position.sequence})
        session.write_state()


def allow_steps(project: Project, runs: int) -> None:
    """Let the next `logist job run` take so many turns; then it is at the limit of its iterations again."""
    job = project.open_job("j")
    job.configure(limits={"max_allowed_iterations": job.state.usage.current_action_count + runs})
    if runs and job.status == "HALTED_ITERATION":
        job.resume()


def measure_replay(wanted: Wanted) -> None:
    """A recorded job is replayed, its prompts too."""
    from replay import make_history

    if not Path("project").exists():
        Path("project").mkdir()
        make_history(Path("project"), wanted.size)
    job = Project.open("project", environment={}).open_job("j")
    measure_turns(lambda: job.replay(prompts=True), wanted.runs)


if __name__ == "__main__":
    main()
