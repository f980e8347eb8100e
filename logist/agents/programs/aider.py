"""aider (PyPI): the model edits files by blocks in its answer; aider's output is written for people."""

from __future__ import annotations

import itertools
import json
import re

from logist.agents.programs.litellm_names import ADDRESSES, build_litellm_prices, model_name
from logist.agents.programs.litellm_names import build_environment as model_environment
from logist.agents.programs.output import strip_controls
from logist.agents.programs.protocol import Finished, Invocation, Result, Run, Spent
from logist.agents.programs.trouble import Heard, build_result
from logist.agents.workplace import PROXIES

_SWITCHES = [
    "--yes-always",
    "--no-stream",
    "--no-pretty",
    "--no-auto-commits",
    "--no-dirty-commits",
    "--no-check-update",
    "--no-show-model-warnings",
    "--no-show-release-notes",
    "--no-git",
    "--no-gitignore",
    "--no-suggest-shell-commands",
    "--no-detect-urls",
    "--no-fancy-input",
    "--no-notifications",
    "--analytics-disable",
    "--no-auto-lint",
    "--no-auto-test",
    "--map-tokens",
    "0",
]
"""Linting, testing and loading are off, because a file of the workspace may contain commands for them.

git is off, because aider would create a repository if there is none, and write a user name to its config."""

SPOKEN = "llm.history"
_ANSWERED = re.compile(r"LLM RESPONSE [0-9]{4}-")

_TOKENS = re.compile(
    r"^Tokens: (?P<read>[0-9.,]+[kM]?) sent(?:, (?P<write>[0-9.,]+[kM]?) cache write)?"
    r"(?:, (?P<hit>[0-9.,]+[kM]?) cache hit)?, (?P<out>[0-9.,]+[kM]?) received\."
    r"(?: Cost: \$(?P<last>[0-9.,]+) message, \$(?P<cost>[0-9.,]+) session\.)?$",
    re.MULTILINE,
)
_BANNER_END = re.compile(r"^Repo-map: .*$", re.MULTILINE)
_OWN = re.compile(
    r"^(?:Applied edit to |Commit |Add file to the chat\?|Create new file\?|Did not apply edit).*$"
)
_FULL = "has hit a token limit"
_FAILURE = re.compile(
    r"^(?:litellm\.\w+|The API provider|.*Error: |Retrying in|.*Empty response received).*$",
    re.MULTILINE,
)


class Aider:
    """The program `aider`."""

    name = "aider"
    executable = "aider"
    metered = True

    def invocation(self, run: Run) -> Invocation:
        """Build the `aider --message-file` call; all its data and
        settings are in its home.
        """
        home, model = run.home, model_name(run, self.name)
        form = "ask" if run.profile == "read" else "diff"
        argv = ["aider", "--model", model, "--weak-model", model, "--edit-format", form]
        argv += ["--message-file", str(home / "prompt.txt"), *_SWITCHES]
        argv += ["--model-metadata-file", str(home / "prices.json")]
        for name in ("config", "env-file", "model-settings-file", "load"):
            argv += [f"--{name}", str(home / f"aider.{name}")]
        for name in ("input", "chat", "llm"):
            argv += [f"--{name}-history-file", str(home / f"{name}.history")]
        own = model_environment(run, self.name)
        variables = {**own, **run.proxies}
        for variable in (*ADDRESSES, *PROXIES):
            argv += ["--set-env", f"{variable}={variables.get(variable, '')}"]
        environment = own | {
            "AIDER_ANALYTICS_DISABLE": "true",
            "COLUMNS": "1000",  # otherwise it wraps its output
            "NO_COLOR": "1",
        }
        files = {
            "prompt.txt": run.prompt.encode("utf-8", "replace"),
            "prices.json": _build_prices(run, model),
            "aider.config": b"{}\n",
            "aider.env-file": b"",
            "aider.model-settings-file": _build_settings(run, model),
            "aider.load": b"",
        }
        return Invocation(tuple(argv), environment, files=files, results=(SPOKEN,))

    def read(self, finished: Finished) -> Result:
        """Return the model's last answer, from the log of the exchanges; the exit status is always 0."""
        text, log = strip_controls(finished.stdout), finished.files.get(SPOKEN)
        answer = _extract_answer(text) if log is None else _read_last_answer(log)
        full = _FULL in text  # the limit of the context, or of the answer; only the latter leaves some text
        failure = f"the model {_FULL}" if full and not answer else None if full else _find_failure(text)
        token_lines = list(_TOKENS.finditer(text)) if answer or not full else []
        spent, cost = (_read_usage(token_lines), _read_cost(token_lines)) if token_lines else (None, None)
        heard = Heard(answer, failure, cut=full and bool(answer), spent=spent, reported_microcents=cost)
        return build_result(finished, heard)


def _read_last_answer(log: str) -> str:
    """Return the last answer in the log, where each line of an answer begins with ASSISTANT."""
    lines = log.split("\n")
    start = max((index for index, line in enumerate(lines) if _ANSWERED.match(line)), default=len(lines))
    answer_lines = itertools.takewhile(lambda line: line.startswith("ASSISTANT"), lines[start + 1 :])
    return strip_controls("\n".join(line[len("ASSISTANT ") :] for line in answer_lines)).strip()


def _extract_answer(text: str) -> str:
    """Return the lines of the model: after the banner, without those of aider itself."""
    banner = _BANNER_END.search(text)
    lines = text[banner.end() if banner else 0 :].split("\n")
    kept = [line for line in lines if not _TOKENS.match(line) and not _OWN.match(line)]
    return "\n".join(kept).strip()


def _find_failure(text: str) -> str | None:
    """Return the last error line of a run whose last exchange did not complete."""
    errors = list(_FAILURE.finditer(text))
    if not errors:
        return None
    ends = [match.end() for match in _TOKENS.finditer(text)]
    last = errors[-1]
    if ends and ends[-1] > last.start():
        return None
    first = next((match[0] for match in reversed(errors) if "Error" in match[0]), last[0])
    return first.strip()


def _read_usage(told: list[re.Match[str]]) -> Spent:
    """Read the tokens, rounded as aider prints them."""
    cached = sum(_parse_number(one["hit"]) for one in told)
    read = sum(_parse_number(one["read"]) for one in told)
    return Spent(max(0, read - cached), cached, sum(_parse_number(one["out"]) for one in told))


def _read_cost(told: list[re.Match[str]]) -> int | None:
    last = told[-1]["cost"]
    try:
        return round(float(last.replace(",", "")) * 100_000_000) if last else None
    except (ValueError, OverflowError):
        return None


def _parse_number(text: str | None) -> int:
    if not text:
        return 0
    factor = {"k": 1_000, "M": 1_000_000}.get(text[-1], 1)
    try:
        return int(float(text.rstrip("kM").replace(",", "")) * factor)
    except (ValueError, OverflowError):
        return 0


def _build_settings(run: Run, model: str) -> bytes:
    """Set the model's address here, because aider uses the last setting, and a
    file of the workspace could set another address.
    """
    base = run.model.endpoint.rstrip("/") if run.model.endpoint else None
    params = {"api_base": base} if base else {}
    return json.dumps(
        [{"name": name, "extra_params": params} for name in (model, "aider/extra_params")]
    ).encode()


def _build_prices(run: Run, model: str) -> bytes:
    prices = build_litellm_prices(run.model)
    if prices is None:
        return b"{}"
    entry = {
        **prices,
        "max_input_tokens": 128_000,
        "max_output_tokens": run.model.max_output_tokens,
        "litellm_provider": model.partition("/")[0],
        "mode": "chat",
    }
    return json.dumps({model: entry}).encode()
