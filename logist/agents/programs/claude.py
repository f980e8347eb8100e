"""Claude Code (Anthropic): speaks Anthropic's format only, and prints one JSON object at the end."""

from __future__ import annotations

from logist.agents.programs import reach
from logist.agents.programs.output import Json, at, count, document, last_lines, listed, microcents, text_of
from logist.agents.programs.protocol import Finished, Invocation, Result, Run, Spent
from logist.agents.programs.trouble import Heard, concluded, stub, was_cut
from logist.core.model import ErrorKind

PACKAGE = "@anthropic-ai/claude-code"

_PROFILES = {
    "read": ("--tools=Read,Grep,Glob", "--permission-mode", "dontAsk"),
    "edit": ("--tools=Read,Grep,Glob,Edit,Write,NotebookEdit", "--permission-mode", "acceptEdits"),
    "full": ("--dangerously-skip-permissions",),
}
_STOPS = {
    "error_max_budget_usd": "it reached the budget that this step has",
    "error_max_turns": "it reached its limit of turns",
}


class Claude:
    """The program `claude`."""

    name = "claude"
    executable = "claude"
    metered = True

    def invocation(self, run: Run) -> Invocation:
        """`claude -p`, with the settings of nobody: those of a workspace could send the key elsewhere."""
        base = reach.without_version(reach.address(run, self.name, reach.ANTHROPIC))
        argv = ["claude", "-p", "--output-format", "json", "--model", reach.bare(run.model)]
        argv += [*_PROFILES[run.profile], "--setting-sources", "user", "--strict-mcp-config"]
        if run.allowance_microcents is not None:
            argv += ["--max-budget-usd", reach.dollars(run.allowance_microcents)]
        environment = {
            "ANTHROPIC_BASE_URL": base,
            "ANTHROPIC_API_KEY": reach.key(run, self.name),
            "CLAUDE_CONFIG_DIR": str(run.home / ".claude"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "1",
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(run.model.max_output_tokens),
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            "API_TIMEOUT_MS": str(max(1, int(run.deadline_seconds * 1000))),
            "IS_SANDBOX": "1",  # else it refuses to run as root
        }
        return Invocation(tuple(argv), environment, stdin=run.prompt.encode("utf-8", "replace"))

    def read(self, finished: Finished) -> Result:
        """The result object; `is_error` counts, not its `subtype`, which says success all the same."""
        said = document(finished.stdout)
        if isinstance(said, list):
            said = at(said, "-1")
        if not isinstance(said, dict) or "type" not in said:
            return concluded(finished, stub(finished, PACKAGE) or _unreadable(finished))
        text, subtype = text_of(said.get("result")), text_of(said.get("subtype"))
        failure, kind = None, None
        if said.get("is_error") or subtype.startswith("error"):
            failure = _STOPS.get(subtype) or text or text_of(at(said, "errors.0")) or subtype
            kind = ErrorKind.BAD_REQUEST if subtype in _STOPS else None
        status = said.get("api_error_status")
        heard = Heard(
            text=text if failure is None else "",
            failure=failure,
            status=status if isinstance(status, int) else None,
            cut=failure is not None and was_cut(failure),
            kind=kind,
            spent=_spent(said),
            reported_microcents=microcents(said.get("total_cost_usd")),
            session=text_of(said.get("session_id")),
            denials=tuple(_denial(one) for one in listed(said.get("permission_denials"))),
        )
        return concluded(finished, heard)


def _unreadable(finished: Finished) -> Heard:
    """A run without a result object; what it printed instead is what went wrong."""
    said = last_lines(finished.stdout)
    return Heard(failure=said) if said else Heard()


def _spent(said: Json) -> Spent | None:
    """What the result says, or if it stopped before that was added up, what is known by model."""
    usage, models = said.get("usage"), said.get("modelUsage")
    if not isinstance(usage, dict):
        return None
    fresh = count(usage.get("input_tokens")) + count(usage.get("cache_creation_input_tokens"))
    spent = Spent(fresh, count(usage.get("cache_read_input_tokens")), count(usage.get("output_tokens")))
    told = list(models.values()) if isinstance(models, dict) else []
    if spent != Spent() or not told:
        return spent
    fresh = sum(count(at(one, "inputTokens")) + count(at(one, "cacheCreationInputTokens")) for one in told)
    cached = sum(count(at(one, "cacheReadInputTokens")) for one in told)
    return Spent(fresh, cached, sum(count(at(one, "outputTokens")) for one in told))


def _denial(one: Json) -> str:
    path = text_of(at(one, "tool_input.file_path")) or text_of(at(one, "tool_input.command"))
    return f"{text_of(one.get('tool_name')) or 'a tool'} {path}".strip()[:200]
