"""Decides whether a provider is asked to enforce the form of an answer, and remembers which ones refuse that.

The file `.refused-answer-forms.json` beside the jobs names the models whose server refused it; deleting it is
harmless: the next call finds out again, at no cost.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from logist.agents.courier.ask_files import RecordedAsk
from logist.agents.protocol import MODEL_AGENTS
from logist.config.providers import enforces_answer_forms, find_provider, is_local_server
from logist.core.answer.answer_form import build_answer_form
from logist.core.model import EffectiveSpec, JsonObject, Model, Phase, Role
from logist.core.review import verdict
from logist.core.step import step_instructions
from logist.errors import LogistError
from logist.jobs.base.project import ProjectContext
from logist.regular_files import read_regular
from logist.store import Exchange, files

NAME = ".refused-answer-forms.json"
_MOST_BYTES = 1 << 16
_MOST = 200
"""Models that are remembered."""


def choose_answer_form(
    project: ProjectContext,
    spec: EffectiveSpec,
    step_id: str,
    role: Role,
    model: Model,
    agent: str,
    phase: Phase,
) -> JsonObject | None:
    """Return the form that the provider is asked to enforce; None if it isn't asked to."""
    setting = project.settings.answers.constrain
    is_called = agent in MODEL_AGENTS and not project.has_local_agent
    if setting == "never" or not is_called or step_instructions.is_in_sections(spec, step_id):
        return None
    if setting == "auto" and not enforces_answer_forms(project.settings.providers, model, agent):
        return None
    if _describe_model(project, model, agent) in read_refusals(project.jobs_dir):
        return None
    has_bounds = is_local_server(model.provider_model)
    if phase is Phase.REVIEWER:
        return build_answer_form(
            project.schema, verdict.OUTPUT_SCHEMA, is_output_required=True, has_bounds=has_bounds
        )
    is_free = spec.workflow is not None or spec.parent is not None
    return build_answer_form(project.schema, role.output_schema, is_free=is_free, has_bounds=has_bounds)


def _describe_model(project: ProjectContext, model: Model, agent: str) -> str:
    provider = find_provider(project.settings.providers, model)
    return f"{agent}: {model.provider_model} at {provider.base_url if provider else model.endpoint or 'its provider'}"


def read_refusals(jobs_dir: Path) -> list[str]:
    """Return the models whose server refused a form."""
    try:
        data = json.loads(read_regular(jobs_dir / NAME, _MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return []
    return [each for each in data if isinstance(each, str)] if isinstance(data, list) else []


def remember_refusal(project: ProjectContext, ask: RecordedAsk, exchanges: list[Exchange]) -> None:
    """Remember that the server of a model refused the form, if the same request without it was answered."""
    if ask.form is None or not was_form_refused(exchanges):
        return
    name = _describe_model(project, ask.model, ask.agent)
    known = [each for each in read_refusals(project.jobs_dir) if each != name]
    with suppress(LogistError, OSError):
        files.replace_file(project.jobs_dir / NAME, files.dump_json([*known[-_MOST + 1 :], name]))


def was_form_refused(exchanges: list[Exchange]) -> bool:
    """Whether a request without the form was answered after one with it was refused."""
    return any(
        (each.request or {}).get("form") is False
        and each.response is not None
        and not each.response.get("error")
        for each in exchanges
    )
