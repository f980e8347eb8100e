"""`logist config show`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from logist.cli.options import here, listing_options
from logist.cli.output import Output, Span, Table
from logist.config.environment import Environment


@click.command("show")
@listing_options
@click.pass_obj
def show(environment: Environment) -> Output:
    """Show every setting, its value, and where it comes from: default, or a file."""
    from pathlib import Path

    from logist.config.settings import load_settings

    loaded = load_settings(environment.find_home(Path(here())).path, environment.user_config_dir())
    values = dict(_leaves(loaded.settings.model_dump(mode="json")))
    rows = [{"field": field, "value": values[field], "source": loaded.sources[field]} for field in values]
    cells = [(row["field"], _shown(row["value"]), Span(row["source"], "dim")) for row in rows]
    return Output(rows, table=Table(("SETTING", "VALUE", "FROM"), cells))


def _leaves(data: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        field = f"{path}.{key}" if path else key
        if isinstance(value, dict) and value:
            yield from _leaves(value, field)
        else:
            yield field, value


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
