"""Values for shell completion: jobs, roles, models, files and so on.

The shell waits for the result, so files are read directly: no models, no YAML parser, no package metadata.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from logist.cli.current_job import find_selected_job, get_current_directory
from logist.config.environment import Environment, find_coven_directory
from logist.errors import UsageError
from logist.lazy_patterns import compile_on_use
from logist.regular_files import read_regular
from logist.store import HISTORY
from logist.store.listing import find_job_id, list_job_ids, read_glances

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

ENDED = frozenset({"SUCCESS", "FAILED", "CANCELED"})
RESTING = frozenset(
    {"DRAFT", "PENDING", "REVIEW_REQUIRED", "WAITING", "APPROVAL_REQUIRED", "STUCK", "SUSPENDED"}
    | {"HALTED_COST", "HALTED_TIME", "HALTED_ITERATION"}
)
WORKING = frozenset({"PENDING", "REVIEW_REQUIRED", "WAITING"})

TAKEN_BY = {
    "activate": frozenset({"DRAFT"}),
    "approve": frozenset({"APPROVAL_REQUIRED"}),
    "reject": frozenset({"APPROVAL_REQUIRED"}),
    "resubmit": frozenset({"STUCK"}),
    "resume": frozenset({"SUSPENDED", "HALTED_COST", "HALTED_TIME", "HALTED_ITERATION"}),
    "suspend": RESTING - {"SUSPENDED"},
    "cancel": RESTING,
    "fail": RESTING,
    "role": RESTING,
    "step": WORKING,
    "run": WORKING,
    "preview": frozenset({"PENDING", "REVIEW_REQUIRED"}),
    "poststep": frozenset({"PENDING", "REVIEW_REQUIRED", "STUCK"}),
    "merge": frozenset({"SUCCESS", "STUCK"}),
    "update": RESTING - {"WAITING"} | {"SUCCESS"},
    "delete": ENDED,
}
"""The states in which a job accepts a command, as in the state machine; the other commands accept all jobs."""

OVERRIDDEN = frozenset({"PENDING", "REVIEW_REQUIRED", "STUCK"})
"""The states in which `approve --override` is allowed."""
ANSWERABLE = ("agent", "attempts", "in_doubt")
"""Kinds of STUCK in which the job still needs an answer."""

PROGRAMS = ("aider", "claude", "cline", "codex", "gemini", "goose", "llm", "mini", "opencode")
MODELS = ("gemini-2.5-flash", "grok-code-fast-1")
"""Shipped with Logist; same as in logist.config.sections."""
SETTINGS = (
    "agent",
    "agent_timeout_minutes",
    "agents",
    "allow_unknown_price",
    "answers.constrain",
    "answers.reask",
    "approval",
    "budget.limits",
    "budget.timezone",
    "context.budget_tokens",
    "context.custom_instructions",
    "context.excluded_paths",
    "context.listing_limit",
    "context.max_file_bytes",
    "context.max_total_bytes",
    "context.prior_attempts_limit",
    "context.relevant_files_limit",
    "context.relevant_files_tokens",
    "gate",
    "history.rotate_at",
    "limits.cost_threshold",
    "limits.max_allowed_iterations",
    "limits.max_attempts",
    "limits.time_threshold_minutes",
    "max_concurrent_agents",
    "min_free_bytes",
    "min_output_tokens",
    "model",
    "models",
    "notify.approval",
    "notify.done",
    "notify.environment",
    "notify.halted",
    "notify.merged",
    "notify.queue_empty",
    "notify.stuck",
    "notify.timeout_seconds",
    "on_doubt",
    "on_stuck",
    "poll_interval_seconds",
    "projects",
    "providers",
    "rate_limits",
    "redact.patterns",
    "response_format",
    "retries.backoff_seconds",
    "retries.max_tries",
    "retries.max_wait_minutes",
    "review.auto_merge",
    "review.check_timeout_minutes",
    "review.checks",
    "review.enabled",
    "review.mode",
    "review.model",
    "review.role",
    "roles.default",
    "roles.type_mapping",
    "sandbox.file_bytes",
    "sandbox.memory_bytes",
    "sandbox.mode",
    "sandbox.output_bytes",
    "sandbox.processes",
    "sandbox.readable",
    "steward.allowed_signers",
    "steward.key",
    "steward.require",
    "steward.sign",
    "tools.command_seconds",
    "tools.disabled",
    "tools.max_result_chars",
    "tools.max_turns",
    "tools.max_unknown_calls",
    "tools.require_approval",
    "workflow.max_steps",
    "workspace.caches",
    "workspace.history",
    "workspace.max_checkpoint_bytes",
    "workspace.setup.commands",
    "workspace.setup.environment",
    "workspace.setup.lock_files",
    "workspace.setup.rerun",
    "workspace.setup.timeout_minutes",
)
"""The keys of a config; same as in logist.config.settings."""

MODEL_FIELDS = (
    *("provider_model", "endpoint", "api_key_env", "price", "input_price", "output_price", "cached_price"),
    *("cache_write_price", "reasoning_price", "tiers", "max_output_tokens", "context_window"),
)

_LONGEST_CONFIG = 1 << 20
_ENTRY = compile_on_use(rb'^,?\{"sequence":(\d+),[^\n]{0,100}?"kind":"(\w+)"', re.MULTILINE)
"""The start of an entry in a history that Logist wrote."""
_PLACEHOLDER = compile_on_use(r"\{\{-?\s*\.?([A-Za-z_][A-Za-z0-9_]*)[^{}]*\}\}")
_KEY = compile_on_use(r"""(?P<indent> +)(?P<quote>["']?)(?P<key>[^\s"'#:]+)(?P=quote):(\s|$)""")


def complete_job(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the jobs that the command accepts."""
    folder = _find_jobs_dir(ctx)
    ids = [job_id for job_id in list_job_ids(folder) if job_id.startswith(incomplete)]
    command = ctx.command.name or ""
    if command not in TAKEN_BY:
        return ids
    states = ((each.id, each.state) for each in read_glances(folder, ids))
    return [job_id for job_id, state in states if state and _is_taken(state, command, ctx.params)]


def _is_taken(state: dict[str, Any], command: str, options: dict[str, Any]) -> bool:
    status, stuck = state.get("status"), state.get("stuck")
    kind = stuck.get("kind") if isinstance(stuck, dict) else None
    if command == "approve" and options.get("override"):
        return status in OVERRIDDEN
    if command == "poststep" and status == "STUCK":
        return kind in ANSWERABLE
    if command in ("merge", "update"):
        unmerged = state.get("parent") is None and state.get("merge") != "merged"
        if not unmerged or not (state.get("source") or options.get("repo")):
            return False
    if command == "merge":
        return status == "SUCCESS" or kind == "merge"
    return status in TAKEN_BY[command]


def complete_job_or_file(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[str] | list[CompletionItem]:
    """Complete jobs; if none matches, any file."""
    return complete_job(ctx, param, incomplete) or complete_file(ctx, param, incomplete)


def complete_role(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete names of roles, from their file names."""
    from logist.resources import find_resource

    folders = (str(find_resource("roles")), *(f"{layer}/roles" for layer in _list_layers()))
    return _filter_by_prefix(
        (name.rpartition(".")[0] for folder in folders for name in _list_names(folder)), incomplete
    )


def complete_schema(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the names of the schemas for editors."""
    from logist.jobs.base.editor_schemas import SCHEMAS

    return _filter_by_prefix(SCHEMAS, incomplete)


def complete_role_or_file(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[str] | list[CompletionItem]:
    """Complete names of roles; if none matches, any file."""
    return complete_role(ctx, param, incomplete) or complete_file(ctx, param, incomplete)


def complete_workflow(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[str] | list[CompletionItem]:
    """Complete names of workflows, from their file names; if none matches, any file."""
    names = (
        name.rpartition(".")[0] for layer in _list_layers() for name in _list_names(f"{layer}/workflows")
    )
    return _filter_by_prefix(names, incomplete) or complete_file(ctx, param, incomplete)


def complete_template(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[str] | list[CompletionItem]:
    """Complete names of job templates, from their file names; if none matches, any file."""
    files = (name.rpartition(".") for layer in _list_layers() for name in _list_names(f"{layer}/templates"))
    names = (stem for stem, _, suffix in files if suffix in ("yaml", "yml", "json"))
    return _filter_by_prefix(names, incomplete) or complete_file(ctx, param, incomplete)


def complete_template_value(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete names of values of the job template that --from names; it is only searched for simple placeholders."""
    name = ctx.params.get("template") or ""
    suffixes = (".yaml", ".yml", ".json")
    places = [f"{layer}/templates/{name}{end}" for layer in reversed(_list_layers()) for end in suffixes]
    text = next(filter(None, map(_read_text, [name, *places] if name else [])), "")
    names = {each for each in _PLACEHOLDER.findall(text) if each not in ("if", "else", "end", "range")}
    return [f"{each}=" for each in _filter_by_prefix(names, incomplete)]


def complete_file(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete any file; the shell itself does this best."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def complete_directory(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete any directory."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="dir")]


def complete_model(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete names of models: shipped ones and those in the config files."""
    return _filter_by_prefix((*MODELS, *_list_configured("models")), incomplete)


def complete_setting(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete keys of a config, including the fields of known models."""
    models = [
        f"models.{name}.{field}" for name in (*MODELS, *_list_configured("models")) for field in MODEL_FIELDS
    ]
    return _filter_by_prefix([*SETTINGS, *models], incomplete)


def complete_agent(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete agents: models, archived answers, known programs, and those in the config files."""
    return _filter_by_prefix(
        ("model", "litellm", "scripted:", *PROGRAMS, *_list_configured("agents")), incomplete
    )


def complete_tag(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete tags of existing jobs."""
    states = (each.state or {} for each in read_glances(_find_jobs_dir(ctx)))
    lists = (state.get("tags") for state in states)
    return _filter_by_prefix(
        (str(tag) for tags in lists if isinstance(tags, list) for tag in tags), incomplete
    )


def complete_run(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete ids of runs, the latest first."""
    from logist.store.run_records import find_runs_folder, list_run_ids

    home = Environment.from_process().home_name(get_current_directory())[0]
    ids = list_run_ids(find_runs_folder(home, _find_jobs_dir(ctx)))
    return [each for each in ids if each.startswith(incomplete)]


def complete_assignee(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete assignees of manual steps that jobs wait for."""
    from logist.core.machine.waiting import find_assignee

    names = (find_assignee(each.state or {}) for each in read_glances(_find_jobs_dir(ctx)))
    return _filter_by_prefix((name for name in names if name), incomplete)


def complete_interaction(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[str] | list[CompletionItem]:
    """Complete the numbers of all interactions of the job."""
    return _complete_numbers(ctx, incomplete, lambda number, kind: True)


def complete_earlier_interaction(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[str] | list[CompletionItem]:
    """Complete the numbers of interactions that a job can go back to: all except the one that created it."""
    return _complete_numbers(ctx, incomplete, lambda number, kind: number > 1)


def complete_answered_interaction(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[str] | list[CompletionItem]:
    """Complete the numbers of interactions that are answers of an agent."""
    return _complete_numbers(ctx, incomplete, lambda number, kind: kind == "ask")


def complete_step(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the step ids of the job's workflow."""
    try:
        flow = json.loads(_read_job_file(ctx, "workflow.json"))
        return [step["id"] for step in flow["steps"] if step["id"].startswith(incomplete)]
    except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return []


def _complete_numbers(
    ctx: click.Context, incomplete: str, is_wanted: Callable[[int, str], bool]
) -> list[str] | list[CompletionItem]:
    """Complete numbers from the current history file; numbers in closed segments have to be typed."""
    from click.shell_completion import CompletionItem

    try:
        history = _read_job_file(ctx, HISTORY)
    except OSError:
        return []
    entries = [(number.decode(), kind.decode()) for number, kind in _ENTRY.findall(history)]
    return [
        CompletionItem(number, help=kind)
        for number, kind in entries
        if number.startswith(incomplete) and is_wanted(int(number), kind)
    ]


def _read_job_file(ctx: click.Context, name: str) -> bytes:
    """Return the content of a file of the job that the command is about. Raises OSError if it can't be read."""
    environment = Environment.from_process()
    # While an option has no value yet, click has not parsed the arguments: they are still in `args`.
    argument = ctx.params.get("job_argument") or next(iter(ctx.args), None)
    chosen = (
        argument or ctx.params.get("job_option") or environment.job_id() or find_selected_job(environment)
    )
    if not chosen:
        raise FileNotFoundError
    folder = _find_jobs_dir(ctx)
    try:
        chosen = find_job_id(folder, chosen)
    except UsageError as error:
        raise FileNotFoundError from error
    return read_regular(os.path.join(folder, chosen, name))


def _find_jobs_dir(ctx: click.Context) -> str:
    return Environment.from_process().jobs_dir_name(ctx.params.get("jobs_dir"), get_current_directory())


def _list_layers() -> list[str]:
    """Return the user's and the project's directories, as strings: creating Path objects is slow."""
    environment = Environment.from_process()
    home = environment.home_name(get_current_directory())[0]
    return [str(environment.user_config_dir()), *filter(None, [find_coven_directory(home)]), home]


def _list_configured(section: str) -> list[str]:
    """Return the keys below a section of the config files, in YAML block style or JSON."""
    names: list[str] = []
    for layer in _list_layers():
        names += _read_yaml_keys(_read_text(f"{layer}/config.yaml"), section)
        names += _read_json_keys(_read_text(f"{layer}/config.json"), section)
    return names


def _read_yaml_keys(text: str, section: str) -> list[str]:
    """Return the keys one level below a top-level key of a YAML text. A YAML parser would be too slow here."""
    lines = iter(text.splitlines())
    names: list[tuple[int, str]] = []
    if not any(re.match(rf"{section}:\s*(#|$)", line) for line in lines):
        return []
    for line in lines:
        if line[:1] not in ("", " ", "#"):
            break
        if match := _KEY.match(line):
            names.append((len(match["indent"]), match["key"]))
    return [name for indent, name in names if indent == names[0][0]]


def _read_json_keys(text: str, section: str) -> list[str]:
    try:
        content = json.loads(text)[section]
    except (ValueError, RecursionError, LookupError, TypeError):
        return []
    return list(content) if isinstance(content, dict) else []


def _read_text(path: str) -> str:
    try:
        return read_regular(path, _LONGEST_CONFIG).decode("utf-8", "replace")
    except OSError:
        return ""


def _filter_by_prefix(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted({name for name in names if name and name.startswith(incomplete)})


def _list_names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
