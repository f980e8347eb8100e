"""Calls an agent: in place if it costs nothing, else through the courier."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from logist.agents import function, scripted
from logist.agents.clients import answers
from logist.agents.courier import ending
from logist.agents.courier import process as courier
from logist.agents.courier.ask_files import RecordedAsk
from logist.agents.protocol import FUNCTION, MODEL, MODEL_AGENTS, Agent, AgentWork, CodePaths
from logist.config.prices import find_known_model
from logist.config.providers import find_provider
from logist.core.machine import limits
from logist.core.model import (
    EffectiveSpec,
    JsonObject,
    Model,
    Permissions,
    Phase,
    Provider,
    Reply,
    Role,
)
from logist.core.permissions.tools import SEPARATOR
from logist.core.text import surrogates
from logist.errors import LogistError, ProviderError, Refused, Stopped
from logist.jobs.base import budgets
from logist.jobs.base.call_limits import bind_call_rates
from logist.jobs.base.progress_watch import ProgressWatch
from logist.jobs.base.session import Session, make_process_marker
from logist.jobs.setup import workspace_code
from logist.jobs.setup.command_host import JobHost
from logist.jobs.turn import errands, outages, stop_costs
from logist.lazy_modules import load_all
from logist.store import inflight

if TYPE_CHECKING:
    from logist.agents.courier.fork_server import ForkServer, Kind
    from logist.agents.courier.process import CourierProcess
    from logist.core.machine.limits import Shared
    from logist.core.permissions.tools import Tool
    from logist.core.step.step import StepPlan
    from logist.jobs.base.project import ProjectContext
    from logist.store.call_rates import CallRates

POLL_SECONDS = 0.25
"""Seconds between two checks for Ctrl-C, and for new progress, while an agent works."""
IN_PLACE = ("scripted", "given", FUNCTION)
"""Agents that need no courier."""
INTERRUPTED = 130
"""What `project.stopping()` returns after Ctrl-C."""
LEFT_AT_WORK: list[CourierProcess] = []
"""Couriers that no command waits for. Kept, because Python warns when a Popen with a running child is deleted."""


def build_ask(
    session: Session,
    spec: EffectiveSpec,
    plan: StepPlan,
    checkpoint: str,
    shared: Sequence[Shared] = (),
    gate: Provider | None = None,
) -> RecordedAsk:
    """Build what is written to disk before anything is spent: enough to judge the answer without planning again.

    `shared`: the limits of jobs above, which a courier looks up again before each of its exchanges. `gate`: where the
    gate sends the requests of an agent program.
    """
    settings = session.project.settings
    reserved, allowance = plan.reserved_microcents, None
    if reserved is not None:
        allowance = limits.remaining_microcents(spec, session.state.usage)
    if gate is not None and reserved is not None:
        reserved = 0  # each request of the program reserves its own cost
    elif reserved is not None and plan.agent not in (*MODEL_AGENTS, *IN_PLACE):
        room = limits.remaining_microcents(spec, session.state.usage, shared)
        allowance = limits.program_allowance(room, shared, settings.max_concurrent_agents, reserved)
        reserved = allowance
    errand = None
    if session.project.workers is not None and plan.agent not in IN_PLACE:
        errand = errands.size_errand(session, spec, plan, shared)
    return RecordedAsk(
        sequence=session.state.revision + 1,
        after=session.position.hash,
        started=session.project.clock.timestamp(),
        agent=plan.agent,
        provider=gate or _find_provider(session.project, plan.agent, plan.model),
        phase=plan.phase,
        role=plan.role.name,
        output_schema=plan.role.output_schema if plan.phase is Phase.DOER else None,
        step=session.state.step,
        attempt=plan.attempt,
        checkpoint_before=checkpoint,
        request=plan.request,
        model=plan.model,
        temperature=plan.role.temperature,
        max_output_tokens=plan.max_output_tokens,
        deadline_seconds=settings.agent_timeout_minutes * 60,
        max_tries=settings.retries.max_tries,
        backoff_seconds=settings.retries.backoff_seconds,
        reserved_microcents=reserved,
        allowance_microcents=allowance,
        shares_limits_of=spec.limits_above,
        min_output_tokens=settings.min_output_tokens,
        index=session.state.asked,
        visit=(session.state.asked_at or {}).get(session.state.step, 0),
        form=plan.form,
        reask=settings.answers.reask if plan.agent in MODEL_AGENTS else 0,
        longest_output_tokens=_find_longest_output(plan) if settings.answers.reask else None,
        work=describe_agent_work(session, plan.agent, plan.role, plan.tools, gate),
        spec=spec,
        errand=errand,
    )


def _find_longest_output(plan: StepPlan) -> int | None:
    """Return how many output tokens the provider allows; None if that is unknown, or no more than are asked for."""
    known = find_known_model(plan.model.provider_model)
    longest = known.max_output_tokens if known else None
    return longest if longest and longest > plan.max_output_tokens else None


def _find_provider(project: ProjectContext, agent: str, model: Model) -> Provider | None:
    """Return where the built-in client calls the model; None if litellm is asked for, or only litellm knows it."""
    return find_provider(project.settings.providers, model) if agent == MODEL else None


def require_key(project: ProjectContext, agent: str, model: Model) -> None:
    """Raise ProviderError if the key of the model is missing, which is known before a request is sent."""
    if project.has_local_agent or agent not in MODEL_AGENTS:
        return
    key = project.environment.get_key(model.api_key_env) if model.api_key_env else None
    if missing := answers.describe_missing_key(model, key):
        raise ProviderError(missing, fix="then run the command again; nothing was sent or recorded")


def name_provider_of(project: ProjectContext, agent: str, model: Model) -> str:
    """Return the name of the provider that answers; "" for a local agent or an agent program."""
    if project.has_local_agent:
        return ""
    return outages.name_provider(agent, model, _find_provider(project, agent, model))


def bind_rates_of(project: ProjectContext, agent: str, model: Model) -> CallRates | None:
    """Return the rate limits of the next call; None for a local agent. Raises InvalidFile for an unknown provider or model."""
    if project.has_local_agent:
        return None
    return bind_call_rates(project, model, outages.name_server(model, _find_provider(project, agent, model)))


def may_use_network(agent: str, role: Role, gate: Provider | None) -> bool:
    """Whether an agent has network access: also a program without a gate, because it has to reach its model."""
    return role.network or (agent not in MODEL_AGENTS and gate is None)


def describe_agent_work(
    session: Session, agent: str, role: Role, tools: Sequence[Tool], gate: Provider | None = None
) -> AgentWork:
    """What the agent may do in the workspace, as the envelope has it (read as agents.protocol.AgentWork)."""
    settings = session.project.settings
    program = settings.agents.get(agent)
    return AgentWork(
        permissions=role.permissions,
        network=may_use_network(agent, role, gate),
        tools=tuple(tool.name for tool in tools),
        approved=tuple(session.state.allowed_tools or ()),
        rules=settings.tools,
        sandbox=settings.sandbox,
        marker=make_process_marker(session),
        program=program.model_dump(mode="json") if program else None,
        code=workspace_code.find_agent_code(JobHost(session))
        if may_run_programs(agent, role.permissions) and session.project.workers is None
        else CodePaths(),  # the machine of the worker finds its own
        mcp_servers={
            name: server
            for name, server in role.mcp_servers.items()
            if any(tool.name.startswith(f"{name}{SEPARATOR}") for tool in tools)
        },
    )


def may_run_programs(agent: str, permissions: Permissions) -> bool:
    """True if the courier of this agent may start programs in the workspace."""
    return agent not in IN_PLACE and (agent not in MODEL_AGENTS or permissions.can_execute_commands)


def ask_in_place(session: Session, ask: RecordedAsk) -> Reply:
    """Call the scripted agent; it costs nothing, so nothing is written before it has answered."""
    return _call_agent(session, _find_script(session), ask)


def may_change_files_in_place(session: Session, ask: RecordedAsk) -> bool:
    """True if the scripted agent changes the workspace when it is asked this."""
    return _find_script(session).changes_files(ask)


def _find_script(session: Session) -> scripted.Scripted:
    script = session.project.local_agent
    assert isinstance(script, scripted.Scripted)
    return script


def ask_function(
    session: Session, ask: RecordedAsk, agent: function.FunctionAgent, *, begun: bool = False
) -> None:
    """Call a Python function as the agent; its answer is on disk before it is judged.

    It may call a paid service. If this process dies meanwhile, the request on disk says that it may have
    been paid: the job is STUCK then, and a steward decides whether to send it again. `begun`: the request
    is on disk already.
    """
    raise_if_stopping(session)
    session.project.open_workspace(
        session.job
    ).complete_git()  # it may run programs, for example in a container
    if not begun:
        session.job.begin_exchange(1, ask.data())
    load_all()  # as while a courier works
    session.job.mark_sent(1)
    reply = _call_agent(session, agent, ask)
    session.job.save_response(1, reply.model_dump(mode="json"))
    if ledger := budgets.bind_recorded(session, ask):
        ledger.settle(1, reply)


def raise_if_stopping(session: Session) -> None:
    """Raise Stopped at a stop, before a request was sent; what is reserved for it can be used by other jobs at once."""
    if status := session.project.stopping():
        with suppress(LogistError):  # the next step releases it, and reports what is wrong
            budgets.settle_calls(session)
        raise Stopped("stopped before anything was sent", exit_code=status)


def _call_agent(session: Session, agent: Agent, ask: RecordedAsk) -> Reply:
    """Call an agent in this process, measure its time, and remove secrets from what it returned."""
    clock = session.project.clock
    began = clock.monotonic()
    with session.project.turns.pause():
        reply = agent.ask(ask, session.job.workspace)
    text, redactions = session.project.redact(surrogates.replace_surrogates(reply.text)[0])
    error = reply.error
    if error:
        error = error.model_copy(update={"message": session.project.redact_text(error.message)})
    seconds = round(reply.usage.seconds or clock.monotonic() - began, 3)
    usage = reply.usage.model_copy(update={"seconds": seconds})
    return reply.model_copy(
        update={
            "text": text,
            "finish": session.project.redact_text(reply.finish) if reply.finish else None,
            "redactions": reply.redactions + redactions,
            "usage": usage,
            "error": error,
        }
    )


class Detached(Exception):
    """The courier works on, and nothing waits for it, because the person wants that."""


def ask_by_courier(session: Session, ask: RecordedAsk, *, begun: bool = False) -> None:
    """Launch the courier and wait for it.

    `begun`: the request is on disk already, also if from a courier that was killed. With
    `project.detach`, raises Detached as soon as the courier works.
    Ctrl-C stops the courier; its results so far are then on disk. After SIGTERM it keeps working, and the next
    command records its answer: Stopped. Raises Stopped also before a request was sent.
    """
    project, job = session.project, session.job
    project.trust.require_to_run()  # also when another command than a step continues unfinished work
    raise_if_stopping(session)
    if project.workers is not None and ask.errand is not None:
        errands.send_errand(session, ask, project.workers)
        return
    workspace = project.open_workspace(job)
    workspace.disarm_git(for_programs=may_run_programs(ask.agent, ask.work.permissions))
    if workspace.why_history_is_missing:
        project.say(f"warning: {workspace.why_history_is_missing}")
    if not begun:
        job.begin_exchange(1, ask.data())
    assert session.lock is not None
    name = ask.model.api_key_env
    key = project.environment.get_key(name) if name else None
    limits = _CourierLimits(session, ask)
    private = {"api_key": key, "secrets": list(project.secrets), **limits.sent}
    inflight.remove_limits(job.inflight)
    watch = ProgressWatch(project, job)
    watch.skip_existing()
    process = courier.launch_courier(
        job,
        session.lock,
        private,
        project.environment.build_child_environment(),
        _find_fork_server(project, ask.agent, ask.provider),
    )
    try:
        with project.turns.pause():
            _wait_for_courier(session, process, watch, limits)
    finally:
        watch.end()


class _CourierLimits:
    """Sends the budgets and rate limits to a courier, and again if the config changes while it works."""

    def __init__(self, session: Session, ask: RecordedAsk) -> None:
        self._session, self._ask = session, ask
        self._settings = session.project.budget_settings
        self.sent = self._build()
        """What the courier knows."""

    def send_changes(self) -> None:
        """Write the limits to a file for the courier if they have changed."""
        settings = self._session.project.budget_settings
        if settings is self._settings:
            return
        self._settings = settings
        with suppress(
            LogistError
        ):  # the next step reports what is wrong; until then, the limits of before apply
            current = self._build()
            if current != self.sent:
                inflight.save_limits(self._session.job.inflight, current)
                self.sent = current

    def _build(self) -> JsonObject:
        ask = self._ask
        ledger = budgets.bind_recorded(self._session, ask)
        server = outages.name_server(ask.model, ask.provider)
        return {
            "ledger": ledger.to_json() if ledger is not None else None,
            "rates": bind_call_rates(self._session.project, ask.model, server).to_json(),
        }


def _wait_for_courier(
    session: Session, process: CourierProcess, watch: ProgressWatch, limits: _CourierLimits
) -> None:
    project, job = session.project, session.job
    while not process.has_ended(POLL_SECONDS):
        if project.was_upgraded():
            LEFT_AT_WORK.append(process)
            raise build_upgraded_error(project, job.id)
        load_all()  # an agent may take hours, and Logist be upgraded meanwhile: its modules must fit each other
        watch.show_new()
        limits.send_changes()
        if project.stopping() == INTERRUPTED:
            watch.end()
            _interrupt_courier(session, process)
        elif project.stopping() or project.detach:
            LEFT_AT_WORK.append(process)
            raise _still_at_work_error(project, job.id) if project.stopping() else Detached
    if project.was_upgraded(at_once=True):
        raise build_upgraded_error(project, job.id)


def prepare_courier(project: ProjectContext, agent: str, model: Model) -> None:
    """Begin to load what the courier needs, while the request is planned."""
    if not project.has_local_agent:
        _find_fork_server(project, agent, _find_provider(project, agent, model))


def _find_fork_server(project: ProjectContext, agent: str, provider: Provider | None) -> ForkServer | None:
    kind: Kind = "litellm" if agent in MODEL_AGENTS and provider is None else "direct"
    return project.couriers.get(kind, project.environment.build_child_environment())


def _interrupt_courier(session: Session, process: CourierProcess) -> None:
    """Ask our courier to end, and kill it if it does not."""
    project = session.project
    costs = stop_costs.describe_stop_costs(session.job)
    process.send_signal(signal.SIGTERM)  # before the messages: who reads them may press Ctrl-C again at once
    project.say("stopping the agent and recording its results so far; press Ctrl-C again to stop immediately")
    project.say(costs)
    if not process.has_ended(ending.LEAVE_SECONDS):
        process.send_signal(signal.SIGKILL)
        process.has_ended(ending.LEAVE_SECONDS)


def build_upgraded_error(project: ProjectContext, job_id: str) -> Refused:
    """The answer is on disk, or will be: the new version records it, and this one loads no more of its own modules."""
    assert project.installed is not None
    message = f"{project.installed.describe_change()}; an agent's answer is kept for the next command"
    return Refused(message, fix=f"to continue, run: logist job step --job {job_id}")


def _still_at_work_error(project: ProjectContext, job_id: str) -> Stopped:
    fix = f"to wait for its answer and record it, run: logist job step --job {job_id}"
    return Stopped("stopped waiting; the agent is still running", exit_code=project.stopping(), fix=fix)
