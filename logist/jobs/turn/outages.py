"""Waits for a provider that is not available: nothing was charged, no attempt is used, nothing is recorded.

Only refusals that are known to be free are waited for; the table in `agents/courier/exchange.py` lists them. A
request that may have been charged is an attempt, or in doubt.
"""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from logist import event_log
from logist.agents.courier import ask_files
from logist.agents.protocol import MODEL_AGENTS
from logist.errors import Stopped
from logist.event_log import events
from logist.jobs.base import budgets
from logist.jobs.base.budgets import BudgetReached
from logist.jobs.base.call_limits import bind_call_rates
from logist.lazy_modules import load_all
from logist.store import JobDir, provider_wait
from logist.store.call_rates import PAUSED
from logist.store.progress import Activity, ActivityRecord
from logist.store.provider_wait import ProviderWait
from logist.timestamps import find_local_day, find_period_end

if TYPE_CHECKING:
    from logist.agents.courier.ask_files import RecordedAsk
    from logist.config.sections import Retries
    from logist.core.model import Model, Provider, TransportError
    from logist.jobs.base.project import Clock, ProjectContext
    from logist.jobs.base.session import Session
    from logist.store.call_rates import CallRates, CallWait

LEAST_PAUSE = 1.0
LONGEST_PAUSE = 300.0
"""Seconds between two tries, unless the provider asks for more."""
GIVEN_UP_PAUSE = 3600.0
"""Seconds between two tries of `run --watch` after `retries.max_wait_minutes`."""
NO_CONNECTION = "no connection"
"""The reason of a wait if nothing answered at the address of the provider."""
LOOK_SECONDS = 0.2
"""Seconds between two checks for a stop, or for a wait that another command ended."""


class Outage(Exception):
    """The provider of a request was not available. The turns before, if any, stay in flight."""

    def __init__(self, ask: RecordedAsk, error: TransportError) -> None:
        super().__init__(error.message)
        self.ask, self.error = ask, error


def name_provider(agent: str, model: Model, provider: Provider | None) -> str:
    """Return the name of what may be unavailable; "" for an agent that isn't called over HTTP by a courier."""
    return name_server(model, provider) if agent in MODEL_AGENTS else ""


def name_server(model: Model, provider: Provider | None) -> str:
    """Return the name of the provider that answers a model's calls, with its address if the config names one."""
    name = provider.name if provider else model.provider_model.partition("/")[0]
    return f"{name} at {_get_host(model.endpoint)}" if model.endpoint else name


def _get_host(url: str) -> str:
    """Return host and port, without a password that the address may have."""
    return urlsplit(url).netloc.rpartition("@")[2]


def raise_for_outage(session: Session, collected: ask_files.Collected) -> None:
    """Raise Outage if that is how the courier ended; a request without paid turns is removed."""
    if collected.outage is None or collected.ask is None:
        return
    if collected.kind == "unavailable":
        session.job.end_exchanges()
    if collected.outage.budget is not None:
        raise BudgetReached(collected.outage, collected.ask.role)
    raise Outage(collected.ask, collected.outage)


def find_wait(session: Session, provider: str, call_rates: CallRates | None = None) -> ProviderWait | None:
    """Return the wait of the job for this provider, if the next try is not due yet.

    A person who steps the job, and not a run over many jobs, has just started the server, or repaired the network: then no
    wait for a connection is in the way. `call_rates`: says for how long the provider accepts no calls.
    """
    breakers = session.project.breakers
    wait = session.job.read_wait(session.state.revision)
    if wait is not None and (wait.provider != provider or _is_over(session.project, wait)):
        wait = None
    tries_at_once = breakers is None and wait is not None and wait.reason == NO_CONNECTION
    if wait is not None and not tries_at_once and count_left(session.project.clock, wait) > 0:
        return wait
    pause = call_rates.find_pause() if call_rates is not None and provider else None
    if pause is not None:
        return _wait_for_pause(session, provider, wait, pause)
    seconds = breakers.claim_call(provider) if breakers is not None and provider else 0.0
    return _wait_for_breaker(session, provider, wait, seconds) if seconds else None


def _wait_for_breaker(
    session: Session, provider: str, wait: ProviderWait | None, seconds: float
) -> ProviderWait:
    """Record that the job waits because another job of the run couldn't call the provider."""
    if wait is None:
        wait = ProviderWait(provider, session.state.revision, reason="no answer for another job")
    return _continue_wait(session, wait._replace(follows=True), seconds)


def _wait_for_pause(
    session: Session, provider: str, wait: ProviderWait | None, pause: CallWait
) -> ProviderWait:
    """Record that the job waits because the provider has asked another call of the project to wait."""
    if wait is None:
        wait = ProviderWait(provider, session.state.revision)
    wait = wait._replace(reason=pause.asked_by, message=PAUSED, follows=False)
    return _continue_wait(session, wait, pause.seconds)


def _continue_wait(session: Session, wait: ProviderWait, seconds: float) -> ProviderWait:
    """Record one more pause of a wait, before which nothing was sent."""
    clock = session.project.clock
    wait = wait._replace(
        waited=wait.waited + wait.pause,
        began=clock.now().timestamp(),
        began_monotonic=clock.monotonic(),
        pause=seconds,
    )
    session.job.write_wait(wait)
    return wait


def find_unfinished_wait(session: Session) -> ProviderWait | None:
    """Return the wait of a job whose paid turns are in flight, if its next try is not due yet."""
    if session.job.read_wait(session.state.revision) is None:
        return None
    collected = ask_files.collect_ask(session.job.read_exchanges())
    if collected.outage is None or collected.ask is None:
        return None
    if collected.outage.budget is not None:
        return find_budget_wait(session)
    ask = collected.ask
    server = name_server(ask.model, ask.provider)
    provider = name_provider(ask.agent, ask.model, ask.provider)
    return find_wait(session, provider, bind_call_rates(session.project, ask.model, server))


def find_budget_wait(session: Session) -> ProviderWait | None:
    """Return the wait of the job for a budget, if the next try is not due yet."""
    wait = session.job.read_wait(session.state.revision)
    if wait is None or not wait.budget or is_due(session.project, wait):
        return None
    return wait


def begin_budget_wait(session: Session, reached: BudgetReached) -> ProviderWait:
    """Record that the job waits for a budget: until its period is over, or it is raised.

    If only reservations of other calls prevent the next one, only for a moment.
    """
    project, error = session.project, reached.error
    name = error.budget or ""
    now = project.clock.now().timestamp()
    earlier = session.job.read_wait(session.state.revision)
    tries = earlier.tries + 1 if earlier is not None and earlier.budget == name else 1
    if error.retry_after is not None:
        pause = min(error.retry_after * 2 ** min(tries - 1, 10), LONGEST_PAUSE)
        reason = provider_wait.RESERVED
    else:
        pause = _count_until_next_period(project, name, error.budget_period or "", now)
        reason = provider_wait.USED_UP
    wait = ProviderWait(
        provider=f"budget {name}",
        revision=session.state.revision,
        tries=tries,
        reason=reason,
        message=project.redact_text(error.message),
        role=reached.role,
        began=now,
        began_monotonic=project.clock.monotonic(),
        pause=pause,
        budget=name,
        budgets=budgets.compute_fingerprint(project),
    )
    session.job.write_wait(wait)
    if event_log.is_on():
        event_log.report(events.ProviderUnavailable(wait.provider, error.message, tries, round(pause, 1)))
    return wait


def _count_until_next_period(project: ProjectContext, name: str, period: str, now: float) -> float:
    """Return the seconds until a budget that was used up in a period begins again; 0 if that period is over already."""
    timezone = project.budget_settings.budget.timezone
    if not find_local_day(now, timezone).startswith(period):
        return 0.0
    per = next((budget.per for budget in budgets.list_budgets(project) if budget.name == name), "")
    if not per:
        return provider_wait.LONGEST_PAUSE
    length = len("2026-11-26") if per == "day" else len("2026-11")
    return find_period_end(now, length, timezone) - now


def begin_wait(session: Session, outage: Outage) -> ProviderWait:
    """Record, in a file that every command reads, until when the job waits."""
    ask, clock = outage.ask, session.project.clock
    provider = name_provider(ask.agent, ask.model, ask.provider) or ask.agent
    earlier = session.job.read_wait(session.state.revision)
    breakers = session.project.breakers
    if earlier is not None and (earlier.provider != provider or _is_over(session.project, earlier)):
        earlier = None
    error = outage.error
    tries = earlier.tries + 1 if earlier else 1
    waited = earlier.waited + earlier.pause if earlier else 0.0
    chance = random.random()  # noqa: S311  no secret: it only spreads retries in time
    pause, gave_up = choose_pause(session.project.settings.retries, tries, waited, error.retry_after, chance)
    wait = ProviderWait(
        provider=provider,
        revision=session.state.revision,
        tries=tries,
        reason=str(error.http_status or NO_CONNECTION),
        message=session.project.redact_text(error.message),
        role=ask.role,
        began=clock.now().timestamp(),
        began_monotonic=clock.monotonic(),
        pause=pause,
        waited=waited,
        gave_up=gave_up,
    )
    session.job.write_wait(wait)
    if event_log.is_on():
        reason = f"{wait.reason}: {wait.message}" if wait.message else wait.reason
        event_log.report(events.ProviderUnavailable(provider, reason, tries, round(pause, 1)))
    if breakers is not None:
        breakers.open(provider, min(pause, LONGEST_PAUSE))
    return wait


def is_waiting(project: ProjectContext, job: JobDir, revision: object) -> bool:
    """Whether the job waits for a provider, and its next try is not due yet."""
    wait = provider_wait.read_wait(str(job.path), revision)
    return wait is not None and not is_due(project, wait)


def is_due(project: ProjectContext, wait: ProviderWait) -> bool:
    """Whether a job that waits for a provider may try again now."""
    return _is_over(project, wait) or count_left(project.clock, wait) <= 0


def _is_over(project: ProjectContext, wait: ProviderWait) -> bool:
    """Whether the job need not wait longer: the provider has answered the job that it follows; or it gave up, and a
    person who runs it now wants another try.
    """
    if wait.budget:
        return wait.budgets != budgets.compute_fingerprint(project)
    breakers = project.breakers
    if (
        wait.follows
        and breakers is not None
        and breakers.has_answered_since(wait.provider, wait.began_monotonic)
    ):
        return True
    return wait.gave_up and not (breakers is not None and breakers.is_watching)


def show_wait(project: ProjectContext, job_id: str, wait: ProviderWait, seconds: float) -> None:
    """Show on the display that a job waits; `seconds`: for how long so far."""
    now = project.clock.now().timestamp()
    record = ActivityRecord(
        Activity.WAITING,
        run="wait",
        at=now,
        seconds=round(seconds, 3),
        role=wait.role,
        words=describe_with_message(wait),
    )
    project.progress.update(job_id, [record])


def choose_pause(
    retries: Retries, tries: int, waited: float, retry_after: float | None, chance: float
) -> tuple[float, bool]:
    """Return the seconds to the next try, and whether the job has waited as long as it may.

    The pauses continue those of the courier. `waited`: seconds of the earlier pauses. `chance`: 0 to 1, so that jobs
    that failed together don't try together.
    """
    room = retries.max_wait_minutes * 60 - waited
    if room <= 0:
        return GIVEN_UP_PAUSE, True
    growing = retries.backoff_seconds * 2 ** min(retries.max_tries + tries - 2, 30)
    pause = min(max(growing * (0.75 + chance / 4), LEAST_PAUSE), LONGEST_PAUSE)
    return min(max(pause, retry_after or 0.0), max(room, LEAST_PAUSE)), False


def count_left(clock: Clock, wait: ProviderWait) -> float:
    """Return the seconds until the next try."""
    return wait.count_left(clock.now().timestamp(), clock.monotonic())


def sleep_until_next_try(project: ProjectContext, job: JobDir, wait: ProviderWait, deadline: float) -> bool:
    """Wait for the next try, or until the file of the wait is removed; False if that is after `deadline`.

    `deadline` is a time of the monotonic clock. Raises Stopped.
    """
    clock = project.clock
    due = clock.monotonic() + count_left(clock, wait)
    if wait.gave_up or due > deadline:
        return False
    began = clock.monotonic()
    load_all()  # Logist may be upgraded meanwhile: its modules must fit each other
    try:
        while (
            clock.monotonic() < due and job.read_wait(wait.revision) == wait and count_left(clock, wait) > 0
        ):
            show_wait(project, job.id, wait, clock.monotonic() - began)
            if project.stopping():
                raise Stopped(
                    f"stopped waiting for {wait.provider}; nothing was charged",
                    exit_code=project.stopping(),
                    fix=f"to try again, run: logist job step --job {job.id}",
                )
            threading.Event().wait(LOOK_SECONDS)
    finally:
        project.progress.remove(job.id)
    return True


def describe_wait(wait: ProviderWait) -> str:
    """Return a note for the result of a step that waits."""
    if wait.budget:
        return f"waiting for {describe_with_message(wait)}; nothing was sent"
    return f"waiting for {describe_with_message(wait)}; no attempt was used, the call without an answer costs nothing"


def describe_with_message(wait: ProviderWait) -> str:
    """Return what the job waits for, with the last message: if an address is wrong, waiting doesn't help."""
    return f"{wait.describe()} ({wait.message})" if wait.message else wait.describe()
