"""The job template that `job create --from` names, and its values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from logist.cli import context
from logist.config.environment import Environment
from logist.errors import UsageError
from logist.jobs.base import job_templates
from logist.quick_dataclass import dataclass

if TYPE_CHECKING:
    from logist.documents import Document
    from logist.jobs.base.job_templates import JobTemplate
    from logist.jobs.base.project import ProjectContext


@dataclass(frozen=True)
class GivenTemplate:
    """A template, and the values of --set."""

    template: JobTemplate
    typed: Mapping[str, str]

    def fill(self, values: Mapping[str, Any] = {}) -> Document:
        """Return the job.yaml with these values, and those of --set. Raises UsageError, InvalidFile."""
        return job_templates.fill_template(self.template, values, self.typed)


def open_template(
    environment: Environment, project: ProjectContext, options: Mapping[str, Any]
) -> GivenTemplate | None:
    """Return the template of --from; None without one. Raises InvalidFile if it is invalid, or the user has to trust it."""
    name, typed = options["template"], _parse_values(options["settings"])
    if name is None:
        if typed:
            fix = "use --from TEMPLATE; a limit has an option, such as --cost-threshold CENTS"
            raise UsageError("--set is only for a template", where="--set", fix=fix)
        return None
    if options["spec_file"] is not None:
        raise UsageError("can't use SPEC and --from together", where="--from", fix="use only one of them")
    template = job_templates.load_template(job_templates.find_template(name, project.layers))
    project.trust.require_template(context.find_template_claims(environment, template))
    return GivenTemplate(template, typed)


def _parse_values(settings: tuple[str, ...]) -> dict[str, str]:
    values: dict[str, str] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise UsageError(f"missing '=' in {setting!r}", where="--set", fix="use --set NAME=VALUE")
        if name in values:
            raise UsageError(f"two values for `{name}`", where="--set", fix="use --set once for each name")
        values[name] = text
    return values
