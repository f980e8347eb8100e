"""The model of a role by today's files and options: for a step, its preview, `logist doctor` and replays."""

from __future__ import annotations

import importlib.util
from collections.abc import Collection

from logist.agents.clients import loading
from logist.agents.protocol import LITELLM, MODEL, MODEL_AGENTS
from logist.config.environment import Environment
from logist.config.providers import OTHER_NAMES, SHIPPED_PROVIDERS, find_entry
from logist.config.settings import Settings
from logist.core.model import EffectiveSpec, Model, Phase
from logist.core.step import model_choice
from logist.core.step.model_choice import MODEL_FIELDS, ChosenModel, ModelSettings
from logist.documents import suggest_names
from logist.errors import InvalidFile
from logist.resources import find_resource
from logist.roles import LoadedRole


def choose_model(
    settings: Settings,
    environment: Environment | None,
    loaded: LoadedRole,
    phase: Phase,
    *,
    option: str | None = None,
    attempt: int = 1,
    spec: EffectiveSpec | None = None,
    step_id: str = "",
    own_fields: Collection[str] | None = None,
) -> ChosenModel:
    """Choose the model of a role; see `core.step.model_choice.choose_model`. `option`: the value of `--model`.

    `environment` None: only files decide. `own_fields`: the result of `find_own_fields`, if it is known already.
    """
    named = ModelSettings(
        option, environment.model_name() if environment else None, settings.model, settings.review.model
    )
    return model_choice.choose_model(
        loaded.role,
        find_own_fields(loaded) if own_fields is None else own_fields,
        named,
        phase=phase,
        attempt=attempt,
        spec=spec,
        step_id=step_id,
    )


def find_own_fields(loaded: LoadedRole) -> frozenset[str]:
    """Return which fields with a model come from a file of the user or the project, not from a shipped role."""
    shipped = str(find_resource("roles"))
    paths = {name: loaded.origins[name].path for name in MODEL_FIELDS if name in loaded.origins}
    return frozenset(name for name, path in paths.items() if path and not path.startswith(f"{shipped}/"))


def require_client(settings: Settings, model: Model, agent: str) -> None:
    """Raise InvalidFile if nothing that is installed can call the model."""
    if agent not in MODEL_AGENTS or is_litellm_installed():
        return
    if agent == MODEL and find_entry(settings.providers, model.provider_model) is not None:
        return
    if agent == LITELLM:
        raise InvalidFile(
            "litellm is not installed",
            where="agent: litellm",
            fix=f"use `agent: model`, or {loading.INSTALL}",
        )
    name = model.provider_model.partition("/")[0]
    known = sorted({*settings.providers, *SHIPPED_PROVIDERS})
    advice = suggest_names(name, {*known, *OTHER_NAMES}) or ""
    begin = f"{advice} Or add" if advice.endswith("?") else "add"
    raise InvalidFile(
        f"unknown provider `{name}` of the model `{model.name}`; known: {', '.join(known)}",
        where="config: providers",
        fix=f"{begin} `providers.{name}` with its base_url to the config, or {loading.INSTALL}",
    )


def is_litellm_installed() -> bool:
    """Whether litellm can be imported; it is not imported for that."""
    return importlib.util.find_spec("litellm") is not None
