"""Runs the tools that a model calls; each result is on disk before the next tool runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import takewhile

from logist.agents import tools
from logist.agents.courier.ask_files import Ending
from logist.agents.protocol import Ask, ToolTurn
from logist.agents.workplace import Workplace
from logist.core.model import Call, JsonObject
from logist.quick_dataclass import dataclass

INTERRUPTED = (
    "Interrupted: Logist stopped while this tool ran, so it may be done, partly done or not done. "
    "Check before you repeat it."
)
NOT_RUN = "Not run: the step ends here."
MOST_CALLS = 64
"""Maximum calls of one answer that are run; after each call, all earlier results are written again."""
TOO_MANY = f"Not run: too many calls in one answer; the limit is {MOST_CALLS}."

NOTHING: JsonObject = {"results": [], "refusals": [], "seconds": 0.0, "redactions": 0}

Save = Callable[[JsonObject], None]


@dataclass(frozen=True)
class Toolbox:
    """The tools of one ask, and the workplace they run in."""

    ask: Ask
    place: Workplace
    redact: Callable[[str], tuple[str, int]]
    run: Callable[[Call, tools.Context], tools.ToolOutcome] = tools.run_tool

    def run_calls(
        self,
        calls: Sequence[Call],
        done: JsonObject | None,
        deadline: float,
        stopped: Callable[[], bool],
        save: Save,
    ) -> JsonObject | None:
        """Run the calls that are not `done` yet, in order; return None if stopped.

        After a refusal or the deadline (`time.monotonic`) no more calls are run; neither are calls above
        `MOST_CALLS`. `save` is called after each tool, and before a tool that changes something; other tools can
        run again after a kill. The last result is not saved: the caller adds how the ask continues (`end`).
        """
        work = _resume_work(calls, done)
        while len(work["results"]) < len(calls):
            if stopped():
                return None
            call = calls[len(work["results"])]
            if reason := _explain_not_run(work, deadline):
                work["results"] = [*work["results"], _make_result(call, reason, error=True)]
                continue
            if tools.may_change(call.name):
                save(work | {"running": call.id})
            work = self._run_call(call, work, deadline, stopped)
            save(work)
        return work | {"end": _end_by_refusal(work)}

    def _run_call(
        self, call: Call, work: JsonObject, deadline: float, stopped: Callable[[], bool]
    ) -> JsonObject:
        began = time.monotonic()
        outcome = self.run(call, self._build_context(deadline, stopped))
        return {
            "results": [
                *work["results"],
                _make_result(call, outcome.content, error=outcome.error or bool(outcome.refusal)),
            ],
            "refusals": [
                *work["refusals"],
                *([outcome.refusal.model_dump(mode="json")] if outcome.refusal else []),
            ],
            "seconds": round(work["seconds"] + time.monotonic() - began, 3),
            "redactions": work["redactions"] + outcome.redactions,
        }

    def _build_context(self, deadline: float, stopped: Callable[[], bool]) -> tools.Context:
        work = self.ask.work
        return tools.Context(
            workspace=self.place.workspace,
            role=self.ask.role,
            permissions=work.permissions,
            rules=work.rules,
            approved=frozenset(work.approved),
            confine=lambda: self.place.confine_command(work),
            deadline=deadline,
            stop=stopped,
            scratch=self.place.scratch,
            marker=work.marker,
            redact=self.redact,
            mcp_servers=work.mcp_servers,
            confine_server=lambda: self.place.confine_server(work),
        )


def end_out_of_turns(ask: Ask, calls: Sequence[Call]) -> JsonObject:
    """Return the tool results for a model that calls tools in its last turn: no tool runs, and the ask ends."""
    message = f"the agent used all its {ask.work.rules.max_turns} turns"
    return _skip_rest(calls, NOTHING) | {"end": {"kind": Ending.TURNS.value, "message": message}}


def end_for_unknown_tools(ask: Ask, turns: Sequence[ToolTurn]) -> JsonObject | None:
    """Return the end of the ask if the model keeps calling tools that don't exist; None while it may continue.

    The calls of a single answer don't end it, unless the limit is one call, because the model has not seen the
    error yet.
    """
    answers = 0
    count = 0
    for turn in reversed(turns):
        names = [call.name for call in reversed(turn.calls)]
        unknown = list(takewhile(lambda name: ask.work.find_tool(name) is None, names))
        answers += bool(unknown)
        count += len(unknown)
        if len(unknown) < len(names):
            break
    if answers < min(2, ask.work.rules.max_unknown_calls) or count < ask.work.rules.max_unknown_calls:
        return None
    message = f"the agent called unknown tools {count} times in a row"
    return {"kind": Ending.UNKNOWN_TOOLS.value, "message": message}


def end_by_fault(calls: Sequence[Call], done: JsonObject | None, message: str) -> JsonObject:
    """Return the tool results if the courier itself failed while tools ran; results in `done` are kept."""
    work = _skip_rest(calls, _resume_work(calls, done))
    return work | {"end": {"kind": Ending.FAULT.value, "message": message}}


def _resume_work(calls: Sequence[Call], done: JsonObject | None) -> JsonObject:
    """Return the results so far; an interrupted tool gets a result that
    says so.
    """
    work = {**NOTHING, **(done or {})}
    if work.pop("running", None) is not None:
        interrupted = _make_result(calls[len(work["results"])], INTERRUPTED, error=True)
        work["results"] = [*work["results"], interrupted]
    return work


def _explain_not_run(work: JsonObject, deadline: float) -> str | None:
    """Return why the next call is not run; None if it is run."""
    if work["refusals"] or time.monotonic() >= deadline:
        return NOT_RUN
    return TOO_MANY if len(work["results"]) >= MOST_CALLS else None


def _skip_rest(calls: Sequence[Call], work: JsonObject) -> JsonObject:
    rest = [_make_result(call, NOT_RUN, error=True) for call in calls[len(work["results"]) :]]
    return work | {"results": [*work["results"], *rest]}


def _end_by_refusal(work: JsonObject) -> JsonObject | None:
    if not work["refusals"]:
        return None
    return {"kind": Ending.REFUSED.value, "message": str(work["refusals"][0].get("message", ""))}


def _make_result(call: Call, content: str, *, error: bool) -> JsonObject:
    return {"id": call.id, "name": call.name, "content": content, "error": error}
