"""`logist init`."""

from __future__ import annotations

from pathlib import Path

import click

from logist.cli.current_job import get_current_directory
from logist.cli.options import json_option
from logist.cli.show.output import Output
from logist.config.environment import IGNORED, PROJECT_DIRECTORY, Environment, find_coven_directory
from logist.store import require_local

CONFIG = """\
# Logist settings of this project. Every line is optional; `logist config show` lists them all.
#
# limits:
#   cost_threshold: 1000          # US cents a job
#   time_threshold_minutes: 60
#   max_allowed_iterations: 50
# review:
#   mode: normal                  # strict, normal or yolo
# context:
#   custom_instructions: Follow the conventions in CONTRIBUTING.md.
# models:
#   my-model:
#     provider_model: openai/my-model
#     endpoint: http://127.0.0.1:8000/v1
#     api_key_env: MY_MODEL_KEY
#     input_price: 0.20           # US dollars a million tokens
#     output_price: 1.50
"""


@click.command("init")
@json_option
@click.pass_obj
def init(environment: Environment) -> Output:
    """Make a .logist directory here: settings, roles, jobs. What is there already stays as it is."""
    home = Path(get_current_directory()) / PROJECT_DIRECTORY
    require_local(Path(environment.chosen_jobs_dir(None, get_current_directory()) or home))
    created = [name for name in ("", "roles", "jobs") if _create_folder(home / name)]
    files = {".gitignore": IGNORED, "config.yaml": CONFIG}
    created += [name for name, text in files.items() if _write_file(home / name, text)]
    what = "made" if created else "already there"
    below = find_coven_directory(str(home))
    more = (f"{below} stays in force, under what is said in .logist",) if below else ()
    return Output({"home": str(home), "made": [name or "." for name in created]}, (f"{what}: {home}", *more))


def _create_folder(folder: Path) -> bool:
    if folder.is_dir():
        return False
    folder.mkdir(mode=0o700, parents=True)
    return True


def _write_file(file: Path, text: str) -> bool:
    if file.exists():
        return False
    file.write_text(text, "utf-8")
    return True
