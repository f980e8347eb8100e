"""The rate limits of a project: how many calls of a provider or a model its jobs make at a time and in a minute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logist.config import prices
from logist.config.providers import OTHER_NAMES, SHIPPED_PROVIDERS
from logist.config.settings import resolve_model
from logist.documents import suggest_names
from logist.errors import InvalidFile
from logist.store.call_rates import FOLDER, CallRate, CallRates

if TYPE_CHECKING:
    from logist.config.settings import Settings
    from logist.core.model import Model
    from logist.jobs.base.project import ProjectContext


def bind_call_rates(project: ProjectContext, model: Model, server: str) -> CallRates:
    """Return the limits for the calls of a model; `server`: who answers them, as people read it.

    Raises InvalidFile for a limit of an unknown model or provider.
    """
    names = {_find_provider(model.provider_model), model.provider_model}
    rates = [rate for rate in list_call_rates(project.budget_settings) if rate.of in names]
    return CallRates(project.home / FOLDER, server, rates)


def list_call_rates(settings: Settings) -> list[CallRate]:
    """Return all limits of a config, one for each provider and model: of two names for the same, the lowest numbers count.

    Raises InvalidFile for a limit of an unknown model or provider.
    """
    rates: dict[str, CallRate] = {}
    for name, limit in settings.rate_limits.items():
        of = _resolve_name(settings, name)
        known = rates.get(of, CallRate(of))
        concurrent = _find_lowest(known.concurrent, limit.concurrent)
        rates[of] = CallRate(of, concurrent, _find_lowest(known.calls_per_minute, limit.calls_per_minute))
    return list(rates.values())


def _find_lowest(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


def _resolve_name(settings: Settings, name: str) -> str:
    """Return the provider or the PROVIDER/MODEL that a limit is about.

    A provider comes before a model with the same name: else a project that adds such a model could end a limit of its user.
    """
    providers = _list_providers(settings)
    is_provider = OTHER_NAMES.get(name, name) in providers
    if "/" not in name and (is_provider or (name not in settings.models and prices.has_provider(name))):
        return OTHER_NAMES.get(name, name)
    if "/" in name or name in settings.models:
        return resolve_model(settings, name).provider_model
    advice = suggest_names(name, {*providers, *settings.models}) or ""
    raise InvalidFile(
        f"unknown provider or model `{name}`",
        where=f"rate_limits.{name}",
        fix=f"{advice} Or write PROVIDER/MODEL".strip(),
    )


def require_known_provider(settings: Settings, name: str, where: str) -> None:
    """Raise InvalidFile for a provider that neither the config, nor Logist, nor the price list knows: such a limit limits nothing."""
    providers = _list_providers(settings)
    if OTHER_NAMES.get(name, name) in providers or prices.has_provider(name):
        return
    known = ", ".join(sorted(providers))
    advice = suggest_names(name, providers) or "the provider is the first part of PROVIDER/MODEL"
    raise InvalidFile(f"unknown provider `{name}`; known: {known}", where=where, fix=advice)


def _list_providers(settings: Settings) -> set[str]:
    named = (_find_provider(entry.provider_model) for entry in settings.models.values())
    return {*SHIPPED_PROVIDERS, *settings.providers, *named}


def _find_provider(provider_model: str) -> str:
    name = provider_model.partition("/")[0]
    return OTHER_NAMES.get(name, name)
