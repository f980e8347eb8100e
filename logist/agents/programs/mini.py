"""mini-swe-agent (PyPI): a model with a shell; it records its work in a trajectory file."""

from __future__ import annotations

import json

from logist.agents.programs import reach
from logist.agents.programs.litellm_names import build_environment as model_environment
from logist.agents.programs.litellm_names import build_litellm_prices, model_name
from logist.agents.programs.output import (
    dollars_to_microcents,
    get_at_path,
    list_objects,
    parse_json,
    read_count,
    text_of,
)
from logist.agents.programs.protocol import Finished, Invocation, Result, Run, Spent
from logist.agents.programs.trouble import Heard, build_result
from logist.core.model import ErrorKind

TRAJECTORY = "trajectory.json"
DONE = ("Submitted", "")
_LIMITS = ("LimitsExceeded", "TimeExceeded")

ITS_OWN = "../config/mini.yaml"
"""The config that mini ships. mini searches the workspace first; this path leads out of it to a place that agents
can't write to."""

HOW_TO_END = f"""

When you are done, submit your final answer, in the form described above under "How to answer", with one last \
command of this form:

cat <<'END_OF_ANSWER'
{"COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}
(your final answer)
END_OF_ANSWER
"""
"""The end that mini itself describes submits no text. This one does, and has the required words in the first line."""


class Mini:
    """The program `mini`."""

    name = "mini"
    executable = "mini"
    metered = True

    def invocation(self, run: Run) -> Invocation:
        """Build the `mini -y` call; it has no permission modes, so the sandbox and the comparison with the
        checkpoint limit its changes.
        """
        home = run.home
        task: dict[str, object] = {"run": {"task": run.prompt + HOW_TO_END}}
        price = (run.model.input_price, run.model.output_price)
        if run.allowance_microcents is not None and None not in price:
            task["agent"] = {"cost_limit": float(reach.format_dollars(run.allowance_microcents))}
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
        files = {"task.yaml": json.dumps(task).encode(), "prices.json": _build_prices(run, self.name)}
        return Invocation(tuple(argv), environment, files=files, results=(TRAJECTORY,))

    def read(self, finished: Finished) -> Result:
        """Return the submitted answer; the process status is 0 even if a limit is reached, so the `exit_status`
        in the trajectory decides.
        """
        run = parse_json(finished.files.get(TRAJECTORY, ""))
        if not isinstance(run, dict):
            return build_result(finished, Heard(status_counts=True))
        messages = list_objects(run.get("messages"))
        usages = [
            usage for one in messages if isinstance(usage := get_at_path(one, "extra.response.usage"), dict)
        ]
        exit_status = text_of(get_at_path(run, "info.exit_status"))
        text = text_of(get_at_path(run, "info.submission")) or _find_last_text(messages)
        failure, kind = None, None
        if exit_status in _LIMITS:
            failure, kind = f"it reached its cost or turn limit ({exit_status})", ErrorKind.BAD_REQUEST
        elif exit_status not in DONE:
            failure = f"{exit_status}: {text_of(get_at_path(run, 'info.exception_str')) or _read_last_message(messages)}"
        cut = any(
            get_at_path(one, "extra.response.choices.0.finish_reason") == "length" for one in messages[-3:]
        )
        heard = Heard(
            text=text,
            failure=failure,
            cut=failure is not None and cut and kind is None,
            kind=kind,
            spent=_read_usage(usages) if usages else None,
            reported_microcents=dollars_to_microcents(get_at_path(run, "info.model_stats.instance_cost")),
        )
        return build_result(finished, heard)


def _find_last_text(messages: list[dict[str, object]]) -> str:
    """Return the last text of the model, for a run that submitted nothing."""
    own = [text_of(one.get("content")) for one in messages if one.get("role") == "assistant"]
    return next(filter(None, reversed(own)), "")


def _read_last_message(messages: list[dict[str, object]]) -> str:
    return text_of(get_at_path(messages, "-1.content")) or "no message"


def _read_usage(usages: list[dict[str, object]]) -> Spent:
    read = sum(read_count(usage.get("prompt_tokens")) for usage in usages)
    cached = sum(read_count(get_at_path(usage, "prompt_tokens_details.cached_tokens")) for usage in usages)
    written = sum(read_count(usage.get("completion_tokens")) for usage in usages)
    return Spent(max(0, read - cached), cached, written)


def _build_prices(run: Run, program: str) -> bytes:
    """Return the model's prices, which its cost limit needs."""
    prices = build_litellm_prices(run.model)
    if prices is None:
        return b"{}"
    entry = {
        **prices,
        "max_output_tokens": run.model.max_output_tokens,
        "litellm_provider": model_name(run, program).partition("/")[0],
        "mode": "chat",
    }
    return json.dumps({model_name(run, program): entry}).encode()
