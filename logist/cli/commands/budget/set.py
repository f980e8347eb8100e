"""`logist budget set`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from logist.cli.commands.config_set import find_config_file
from logist.cli.options import Amount, json_option
from logist.cli.shell_values import complete_model
from logist.cli.show.output import Diagnostic, Line, Output, StyledText
from logist.config.environment import Environment
from logist.core.money.amounts import format_money, to_microcents
from logist.errors import InvalidFile, LogistError, UsageError

if TYPE_CHECKING:
    from logist.jobs.base.config_file import ConfigChange

SCOPES = ("provider", "model", "tag")


@click.command("set")
@click.argument("name")
@click.option("--cost", type=Amount(), metavar="CENTS", help="The most that all calls may cost, in US cents.")
@click.option("--tokens", type=click.IntRange(min=0), metavar="N", help="The most tokens, input and output.")
@click.option("--calls", type=click.IntRange(min=0), metavar="N", help="The most calls.")
@click.option(
    "--per",
    type=click.Choice(("day", "month", "run", "all")),
    help="The period  [default: all, for all time]",
)
@click.option("--provider", metavar="NAME", help="Only calls of this provider.")
@click.option("--model", metavar="NAME", shell_complete=complete_model, help="Only calls of this model.")
@click.option("--tag", metavar="TAG", help="Only calls of jobs with this tag.")
@click.option("--user", is_flag=True, help="Change your user config, which applies to all projects.")
@click.option("--dry-run", is_flag=True, help="Show what would change, without writing it.")
@json_option
@click.pass_obj
def set_(environment: Environment, /, name: str, user: bool, dry_run: bool, **options: Any) -> Output:
    """Set a budget: what all jobs of the project together may spend.

    Writes `budget.limits.NAME` in the config. Options that you don't give keep their values. A budget in your user config
    applies to each project by itself. To remove one: logist config unset budget.limits.NAME
    """
    from logist.jobs.base.config_file import change_key, read_own_value

    given = {key: value for key, value in options.items() if value is not None}
    if not given:
        raise UsageError("nothing to set", where="logist budget set", fix="use --cost, --tokens or --calls")
    file = find_config_file(environment, user=user)
    key = f"budget.limits.{name}"
    known = read_own_value(file, ("budget", "limits", name))
    value = dict(known) if isinstance(known, dict) else {}
    if given.keys() & set(SCOPES):
        value = {field: known for field, known in value.items() if field not in SCOPES}
    value |= given
    if value.get("per") == "all":
        del value["per"]
    if isinstance(value.get("cost"), float) and value["cost"].is_integer():
        value["cost"] = int(value["cost"])
    if "model" in given:
        _require_known_model(environment, given["model"])
    if "provider" in given:
        _require_known_provider(environment, given["provider"])
    change = change_key(file, key, value, dry_run=dry_run)
    data = {
        "file": str(change.file),
        "name": name,
        "old": known if isinstance(known, dict) else None,
        "new": value,
        "changed": change.changes_file,
        "dry_run": dry_run,
    }
    return Output(
        data, _format_change(change, name, value, dry_run=dry_run), _warn_used_up(environment, name)
    )


def _require_known_model(environment: Environment, name: str) -> None:
    from logist.cli import context
    from logist.config.settings import resolve_model

    try:
        resolve_model(context.load_current_settings(environment).settings, name)
    except InvalidFile as error:
        raise UsageError(error.message, where="--model", fix=error.fix) from error


def _require_known_provider(environment: Environment, name: str) -> None:
    from logist.cli import context
    from logist.jobs.base.call_limits import require_known_provider

    try:
        require_known_provider(context.load_current_settings(environment).settings, name, "--provider")
    except InvalidFile as error:
        raise UsageError(error.message, where=error.where, fix=error.fix) from error


def _format_change(change: ConfigChange, name: str, value: dict[str, Any], *, dry_run: bool) -> list[Line]:
    shown = {**value, "cost": format_money(to_microcents(value["cost"]))} if "cost" in value else value
    text = ", ".join(f"{field} {amount}" for field, amount in shown.items())
    if not change.changes_file:
        return [f"budget {name} is already: {text}"]
    place = f"dry run, file not written: {change.file}" if dry_run else f"file: {change.file}"
    return [(StyledText(f"budget {name}: ", "bold"), text), (StyledText(place, "dim"),)]


def _warn_used_up(environment: Environment, name: str) -> tuple[Diagnostic, ...]:
    """Return a warning if more than the budget is already spent: no job may make a call then."""
    from logist.cli import context
    from logist.cli.commands.budget.show import is_used_up
    from logist.jobs.base.spending import read_spending

    try:
        uses = read_spending(context.open_project(environment)).uses
    except LogistError as error:
        return (Diagnostic.from_error(error)._replace(severity="warning"),)
    use = next((use for use in uses if use.budget.name == name), None)
    if use is None or not is_used_up(use):
        return ()
    message = f"budget {name} is used up: {use.cap.describe_use(use.sums.get_total())}; jobs wait"
    return (
        Diagnostic(
            "warning", "used_up", message, None, "to see who spent it: logist budget history --by job"
        ),
    )
