"""mini-swe-agent (PyPI): a model with a shell; what it did stands in a trajectory file."""

from __future__ import annotations

import json

from logist.agents.programs import reach
from logist.agents.programs.litellm_names import environment as model_environment
from logist.agents.programs.litellm_names import model_name
from logist.agents.programs.output import at, count, listed, microcents, parsed, text_of
from logist.agents.programs.protocol import Finished, Invocation, Result, Run, Spent
from logist.agents.programs.trouble import Heard, concluded
from logist.core.model import ErrorKind

TRAJECTORY = "trajectory.json"
DONE = ("Submitted", "")
_LIMITS = ("LimitsExceeded", "TimeExceeded")

ITS_OWN = "../config/mini.yaml"
"""The settings that it ships. It looks in the workspace first, where this leads out to what nobody can write."""

HOW_TO_END = f"""

When you are done, give your final answer, as asked for above, with one last command of this form:

cat <<'END_OF_ANSWER'
{"COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}
(your final answer)
END_OF_ANSWER
"""
"""Its own way to end submits nothing; this one keeps to its rule that the words stand in the first line."""


class Mini:
    """The program `mini`."""

    name = "mini"
    executable = "mini"
    metered = True

    def invocation(self, run: Run) -> Invocation:
        """`mini -y`; it has no modes, so what it may change is for the sandbox and the comparison to say."""
        home = run.home
        task: dict[str, object] = {"run": {"task": run.prompt + HOW_TO_END}}
        price = (run.model.input_price, run.model.output_price)
        if run.allowance_microcents is not None and None not in price:
            task["agent"] = {"cost_limit": float(reach.dollars(run.allowance_microcents))}
        else:
            task["agent"] = {"cost_limit": 0.0}
        argv = ["mini", "-m", model_name(run, self.name), "-y", "--exit-immediately"]
        argv += ["-o", str(home / TRAJECTORY), "-c", ITS_OWN, "-c", str(home / "task.yaml")]
        environment = model_environment(run, self.name) | {
            "MSWEA_CONFIGURED": "true",
            "MSWEA_SILENT_STARTUP": "1",
            "MSWEA_COST_TRACKING": "ignore_errors",
            "MSWEA_GLOBAL_CONFIG_DIR": str(home / "mini"),
            "MSWEA_CONFIG_DIR": str(home / "mini"),
            "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "1",
            "LITELLM_MODEL_REGISTRY_PATH": str(home / "prices.json"),
            "_TYPER_STANDARD_TRACEBACK": "1",
        }
        files = {"task.yaml": json.dumps(task).encode(), "prices.json": _prices(run, self.name)}
        return Invocation(tuple(argv), environment, files=files, results=(TRAJECTORY,))

    def read(self, finished: Finished) -> Result:
        """What was submitted; its exit status is 0 at its limits too, so `exit_status` counts."""
        run = parsed(finished.files.get(TRAJECTORY, ""))
        if not isinstance(run, dict):
            return concluded(finished, Heard(status_counts=True))
        messages = listed(run.get("messages"))
        usages = [usage for one in messages if isinstance(usage := at(one, "extra.response.usage"), dict)]
        ended = text_of(at(run, "info.exit_status"))
        text = text_of(at(run, "info.submission")) or _last_words(messages)
        failure, kind = None, None
        if ended in _LIMITS:
            failure, kind = f"it reached its limit of cost or turns ({ended})", ErrorKind.BAD_REQUEST
        elif ended not in DONE:
            failure = f"{ended}: {text_of(at(run, 'info.exception_str')) or _words(messages)}"
        cut = any(at(one, "extra.response.choices.0.finish_reason") == "length" for one in messages[-3:])
        heard = Heard(
            text=text,
            failure=failure,
            cut=failure is not None and cut and kind is None,
            kind=kind,
            spent=_spent(usages) if usages else None,
            reported_microcents=microcents(at(run, "info.model_stats.instance_cost")),
        )
        return concluded(finished, heard)


def _last_words(messages: list[dict[str, object]]) -> str:
    """The last text of the model, for one that submitted nothing."""
    own = [text_of(one.get("content")) for one in messages if one.get("role") == "assistant"]
    return next(filter(None, reversed(own)), "")


def _words(messages: list[dict[str, object]]) -> str:
    return text_of(at(messages, "-1.content")) or "without a word"


def _spent(usages: list[dict[str, object]]) -> Spent:
    read = sum(count(usage.get("prompt_tokens")) for usage in usages)
    cached = sum(count(at(usage, "prompt_tokens_details.cached_tokens")) for usage in usages)
    written = sum(count(usage.get("completion_tokens")) for usage in usages)
    return Spent(max(0, read - cached), cached, written)


def _prices(run: Run, program: str) -> bytes:
    """The model's prices, for its limit of cost; without them it would not know."""
    model = run.model
    if model.input_price is None or model.output_price is None:
        return b"{}"
    cached = model.input_price if model.cached_price is None else model.cached_price
    entry = {
        "input_cost_per_token": model.input_price / 1_000_000,
        "cache_read_input_token_cost": cached / 1_000_000,
        "output_cost_per_token": model.output_price / 1_000_000,
        "max_output_tokens": model.max_output_tokens,
        "litellm_provider": model_name(run, program).partition("/")[0],
        "mode": "chat",
    }
    return json.dumps({model_name(run, program): entry}).encode()
