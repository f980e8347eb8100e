"""`logist role validate`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from logist.cli.current_job import get_current_directory
from logist.cli.options import json_option
from logist.cli.shell_values import complete_role_or_file
from logist.cli.show.output import Diagnostic, Output
from logist.config.environment import Environment, require_utf8
from logist.errors import InvalidFile, UsageError

if TYPE_CHECKING:
    from logist.core.model import Role
    from logist.roles import LoadedRole, RoleProblem, Roles


@click.command("validate")
@click.argument("names", metavar="[FILE|NAME]...", nargs=-1, shell_complete=complete_role_or_file)
@json_option
@click.pass_obj
def validate(environment: Environment, names: tuple[str, ...]) -> Output:
    """Check role files.

    Pass files, directories or names of roles; by default, all roles are checked. Each message has the file, the line
    and the field. Unknown models and unknown placeholders in templates are warnings. Exit code 5 if a role is invalid.
    """
    from logist.cli.context import list_role_directories
    from logist.roles import load_roles

    known = list_role_directories(environment)
    places = [_find_role_place(environment, name) for name in names]
    others = [place for place in places if _find_in_known(place, known) is None]
    roles = load_roles([*known, *others])
    wanted = _list_role_files([_find_in_known(place, known) or place for place in places]) if names else None
    every_problem = [*roles.problems, *_check_models(environment, roles)]
    problems = [problem for problem in every_problem if wanted is None or _is_problem_of(problem, wanted)]
    bad = any(problem.severity == "error" for problem in problems)
    valid = sorted({one.role.name for one in _list_sound_roles(roles, wanted)})
    data = {"ok": not bad, "roles": valid, "problems": [asdict(problem) for problem in problems]}
    told = tuple(Diagnostic(p.severity, InvalidFile.code, p.message, p.where, p.fix) for p in problems)
    lines = () if bad else (f"{_format_count(valid)} valid: {', '.join(valid)}",)
    return Output(data, lines, told, InvalidFile.exit_code if bad else 0)


def _format_count(names: Sequence[str]) -> str:
    return "1 role is" if len(names) == 1 else f"{len(names)} roles are"


def _find_role_place(environment: Environment, name: str) -> Path:
    """Return the file or directory of that path, else the file of the role of that name."""
    from logist.cli.context import load_known_roles

    path = Path(require_utf8(name, "the file name", "use UTF-8 characters"))
    if name and path.exists():
        return path
    roles = load_known_roles(environment)
    if name in roles.by_name:
        return roles.by_name[name].path
    if name in roles.broken:
        return Path(str(roles.broken[name].where).partition(":")[0])
    raise UsageError(f"no file, directory or role named `{name}`", fix="to see all roles: logist role list")


def _find_in_known(place: Path, known: Sequence[Path]) -> Path | None:
    """Return the path below a known directory of roles, if it is one of them or in one."""
    for directory in known:
        for inside, outer in ((directory, place), (directory / place.name, place.parent)):
            if directory.exists() and outer.resolve() == directory.resolve():
                return inside
    return None


def _list_role_files(places: Sequence[Path]) -> set[str]:
    from logist.roles.files import list_role_files

    role_paths: set[str] = set()
    for place in places:
        files = list_role_files(place)
        if not files:
            raise UsageError("no role files found", where=str(place))
        role_paths.update(map(str, files))
    return role_paths


def _is_problem_of(problem: RoleProblem, files: Collection[str]) -> bool:
    return any(problem.where == file or problem.where.startswith(f"{file}:") for file in files)


def _list_sound_roles(roles: Roles, files: Collection[str] | None) -> Iterator[LoadedRole]:
    if files is None:
        yield from roles.by_name.values()
        return
    yield from (one for one in (*roles.by_name.values(), *roles.hidden) if str(one.path) in files)


def _check_models(environment: Environment, roles: Roles) -> Iterator[RoleProblem]:
    """Yield roles whose model can't be used with the current settings."""
    from logist.config.settings import load_settings, resolve_model
    from logist.roles import RoleProblem

    try:
        home = environment.find_home(Path(get_current_directory())).path
        settings = load_settings(home, environment.user_config_dir()).settings
    except InvalidFile as error:
        yield RoleProblem("warning", f"models not checked: {error.message}", error.where or "", error.fix)
        return
    for name, found in sorted(roles.by_name.items()):
        for model in dict.fromkeys(_list_model_names(found.role)):
            try:
                resolve_model(settings, model)
            except InvalidFile as error:
                yield RoleProblem("warning", f"role `{name}`: {error.message}", str(found.path), error.fix)


def _list_model_names(role: Role) -> Iterator[str]:
    """Yield all models that the role may use."""
    yield role.llm_model
    yield from (later.llm_model for later in role.later_attempts if later.llm_model)
