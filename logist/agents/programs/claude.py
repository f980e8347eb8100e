"""Claude Code (Anthropic): uses Anthropic's format only, and prints one JSON object at the end."""

from __future__ import annotations

from logist.agents.programs import reach
from logist.agents.programs.output import (
    Json,
    dollars_to_microcents,
    find_document,
    get_at_path,
    last_lines,
    list_objects,
    read_count,
    text_of,
)
from logist.agents.programs.protocol import Finished, Invocation, Result, Run, Spent
from logist.agents.programs.trouble import Heard, build_result, detect_stub, was_cut
from logist.core.model import ErrorKind

PACKAGE = "@anthropic-ai/claude-code"

_PROFILES = {
    "read": ("--tools=Read,Grep,Glob", "--permission-mode", "dontAsk"),
    "edit": ("--tools=Read,Grep,Glob,Edit,Write,NotebookEdit", "--permission-mode", "acceptEdits"),
    "full": ("--dangerously-skip-permissions",),
}
_OTHER_MODELS = (
    *(f"ANTHROPIC_DEFAULT_{name}_MODEL" for name in ("HAIKU", "SONNET", "OPUS", "FABLE")),
    "ANTHROPIC_SMALL_FAST_MODEL",
    "CLAUDE_CODE_SUBAGENT_MODEL",
)
"""The models that it chooses for subagents, plans, titles and fetched pages: the prices of the step's model apply, and
a gate lets no other model pass."""
_STOPS = {
    "error_max_budget_usd": "it reached the budget of this step",
    "error_max_turns": "it reached its turn limit",
}


class Claude:
    """The program `claude`."""

    name = "claude"
    executable = "claude"
    metered = True

    def invocation(self, run: Run) -> Invocation:
        """Build the `claude -p` call, without settings of users or projects: settings in a workspace could
        send the key elsewhere.
        """
        base = reach.strip_version(reach.resolve_address(run, self.name, reach.ANTHROPIC))
        model = reach.strip_provider(run.model)
        argv = ["claude", "-p", "--output-format", "json", "--model", model]
        argv += [*_PROFILES[run.profile], "--setting-sources", "user", "--strict-mcp-config"]
        if run.allowance_microcents is not None:
            argv += ["--max-budget-usd", reach.format_dollars(run.allowance_microcents)]
        environment = {
            "ANTHROPIC_BASE_URL": base,
            "ANTHROPIC_API_KEY": reach.resolve_key(run, self.name),
            "CLAUDE_CONFIG_DIR": str(run.home / ".claude"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "1",
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(run.model.max_output_tokens),
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            "API_TIMEOUT_MS": str(max(1, int(run.deadline_seconds * 1000))),
            "IS_SANDBOX": "1",  # otherwise it refuses to run as root
            **dict.fromkeys(_OTHER_MODELS, model),
        }
        return Invocation(tuple(argv), environment, stdin=run.prompt.encode("utf-8", "replace"))

    def read(self, finished: Finished) -> Result:
        """Read the result object; `is_error` decides, because `subtype` can
        be `success` for an error.
        """
        output = find_document(finished.stdout)
        if isinstance(output, list):
            output = get_at_path(output, "-1")
        if not isinstance(output, dict) or "type" not in output:
            return build_result(finished, detect_stub(finished, PACKAGE) or _read_unstructured(finished))
        text, subtype = text_of(output.get("result")), text_of(output.get("subtype"))
        failure, kind = None, None
        if output.get("is_error") or subtype.startswith("error"):
            failure = _STOPS.get(subtype) or text or text_of(get_at_path(output, "errors.0")) or subtype
            kind = ErrorKind.BAD_REQUEST if subtype in _STOPS else None
        status = output.get("api_error_status")
        heard = Heard(
            text=text if failure is None else "",
            failure=failure,
            status=status if isinstance(status, int) else None,
            cut=failure is not None and was_cut(failure),
            kind=kind,
            spent=_read_usage(output),
            reported_microcents=dollars_to_microcents(output.get("total_cost_usd")),
            session=text_of(output.get("session_id")),
            denials=tuple(_describe_denial(one) for one in list_objects(output.get("permission_denials"))),
        )
        return build_result(finished, heard)


def _read_unstructured(finished: Finished) -> Heard:
    """Read a run without a result object: its last output is the error message."""
    message = last_lines(finished.stdout)
    return Heard(failure=message) if message else Heard()


def _read_usage(said: Json) -> Spent | None:
    """Read the total usage; if the run stopped before it was summed, the usage by model."""
    usage, models = said.get("usage"), said.get("modelUsage")
    if not isinstance(usage, dict):
        return None
    stored = read_count(usage.get("cache_creation_input_tokens"))
    spent = Spent(
        read_count(usage.get("input_tokens")) + stored,
        read_count(usage.get("cache_read_input_tokens")),
        read_count(usage.get("output_tokens")),
        cache_write=stored,
    )
    by_model = list(models.values()) if isinstance(models, dict) else []
    if spent != Spent() or not by_model:
        return spent
    fresh, stored, cached, written = (
        sum(read_count(get_at_path(one, name)) for one in by_model)
        for name in ("inputTokens", "cacheCreationInputTokens", "cacheReadInputTokens", "outputTokens")
    )
    return Spent(fresh + stored, cached, written, cache_write=stored)


def _describe_denial(one: Json) -> str:
    path = text_of(get_at_path(one, "tool_input.file_path")) or text_of(
        get_at_path(one, "tool_input.command")
    )
    return f"{text_of(one.get('tool_name')) or 'a tool'} {path}".strip()[:200]
