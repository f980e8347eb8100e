"""How often a small real model ends with a valid exit command, with the form enforced by its server and without.

The model is SmolLM2 with 135 million parameters, served by llama.cpp on 127.0.0.1 at temperature 0; each of the prompts is a task
for a Worker without tools, exactly as a step would send it.

Run: scripts/environment .venv-model requirements/model.txt --bare; python benchmarks/answers.py [--answers 30]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from measure import clean_environment, table  # noqa: E402  the path comes first

from logist import Project  # noqa: E402
from tests.model_server import KEY, ModelServer  # noqa: E402

THINGS = ("a cat", "rain", "a train", "bread", "the sea", "a tree")
TASKS = (
    "Describe {} in one sentence.",
    "Write a question about {}.",
    "Name two words for {}.",
    "Say what {} is for.",
    "Greet {}.",
)
CONFIG = """\
models: {{small: {{provider_model: llamacpp/smollm2, price: free, max_output_tokens: 400}}}}
model: small
providers: {{llamacpp: {{base_url: '{url}', api_key_env: BENCHMARK_KEY}}}}
answers: {{constrain: {constrain}}}
"""
ROLE = """\
name: Clerk
description: Answers without tools.
llm_model: small
temperature: 0
instructions: You do small writing tasks. Do exactly what the task says.
permissions: {can_read_files: false, can_write_files: false, can_delete_files: false, can_execute_commands: false}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=30)
    options = parser.parse_args()
    prompts = [task.format(thing) for thing in THINGS for task in TASKS][: options.answers]
    rows: list[list[object]] = [["constrain", "answers", "valid", "share", "s an answer"]]
    with ModelServer() as server:
        for constrain in ("never", "auto"):
            began = time.perf_counter()
            valid = sum(is_valid(server.url, constrain, prompt) for prompt in prompts)
            seconds = (time.perf_counter() - began) / len(prompts)
            rows.append([constrain, str(len(prompts)), str(valid), f"{valid / len(prompts):.0%}", seconds])
    table(rows)


def is_valid(url: str, constrain: str, prompt: str) -> bool:
    """Whether the answer to one prompt has a valid exit command."""
    with tempfile.TemporaryDirectory(prefix="logist-answers-") as folder:
        own = Path(folder) / "own" / "logist"
        (own / "roles").mkdir(parents=True)
        (own / "config.yaml").write_text(CONFIG.format(url=url, constrain=constrain), "utf-8")
        (own / "roles" / "Clerk.yaml").write_text(ROLE, "utf-8")
        (Path(folder) / ".logist").mkdir()
        environment = {
            **clean_environment(Path(folder)),
            "BENCHMARK_KEY": KEY,
            "XDG_CONFIG_HOME": str(own.parent),
        }
        project = Project.open(folder, environment=environment)
        job = project.create_job(prompt, role="Clerk", repo=False, review=False, approval="none")
        return job.step().entries[-1].response.actions != []


if __name__ == "__main__":
    main()
