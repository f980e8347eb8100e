"""Builds a role from its entry in a file and its base; every error names the line and the field."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import field
from typing import Any

from logist.core import template
from logist.core.answer import output_schema
from logist.core.model import Permission, Role
from logist.core.prompt import role_template
from logist.core.template import data
from logist.documents import Document, find_document_faults, suggest_names, validate_document
from logist.errors import InvalidFile
from logist.lazy_patterns import compile_on_use
from logist.quick_dataclass import dataclass
from logist.resources import load_schema
from logist.roles.files import RoleEntry
from logist.roles.loaded import FALLBACK, INTERNAL, LoadedRole, Origin, RoleProblem
from logist.roles.markdown import AGENT_PROMPT
from logist.roles.tool_servers import find_server_faults

MANDATORY = ("name", "description", "instructions", "llm_model")
KEYS = (*Role.model_fields, "base")
"""The keys of a role file."""
OUTPUT_SCHEMAS = ("plan", "assignments", "feedback", "test-report")
"""The output schemas that ship with Logist; a role file can use their names."""
MAX_BADGE = 2
"""The maximum number of characters of a badge: an emoji, or two letters."""

_DELEGATES = "can_delegate_to_roles"
_PERMISSIONS = "permissions"
_FOR_ALL = "custom_instructions"
"""Allowed in `context_requirements` but without effect: every role gets these."""
_LITERAL = compile_on_use(r":\s*\|[-+0-9]*\s*(#.*)?$")


@dataclass(frozen=True)
class Fallback:
    """The model of a role that has a template but no model."""

    model: str
    origin: Origin


def build_role(
    entry: RoleEntry, base: LoadedRole | InvalidFile | None, fallback: Fallback | None
) -> tuple[LoadedRole | None, list[RoleProblem]]:
    """Build the role of an entry over its base; return it, or None, and the problems, all errors before
    warnings.

    `base` may be the error that explains why there is none: the other problems of the entry are still reported.
    """
    if not isinstance(entry.data, dict):
        return None, [error_to_problem(entry.invalid_error("must be a mapping of fields"))]
    baseless = isinstance(base, InvalidFile)
    errors_found = _Found([base] if isinstance(base, InvalidFile) else [])
    base = None if isinstance(base, InvalidFile) else base
    own_fields, lines = _read_own_fields(entry, errors_found)
    inherited = base.role.model_dump(mode="json", exclude_defaults=True, exclude={"name"}) if base else {}
    data = {**inherited, **own_fields}
    origins = {name: _find_origin(name, entry, own_fields, base) for name in Role.model_fields}
    if _has_template(data):
        data.setdefault("instructions", "")
        if "llm_model" not in data and fallback:
            data["llm_model"] = fallback.model
            origins["llm_model"] = fallback.origin
    _require_mandatory(entry, data, errors_found, baseless=baseless)
    _check_fields(entry, data, lines, errors_found)
    if "mcp_servers" not in errors_found.fields:
        for path, fault in find_server_faults(data.get("mcp_servers")):
            errors_found.add_error(path, entry.invalid_error(f"`{path}` {fault}", path))
    other_problems = [
        *_check_template(entry, own_fields.get("prompt_template")),
        *_find_unknown_keys(entry),
        *_warn_about_servers(entry, data),
    ]
    errors = [
        *map(error_to_problem, errors_found.errors),
        *(each for each in other_problems if each.severity == "error"),
    ]
    other_problems = [each for each in other_problems if each.severity != "error"]
    if entry.name == INTERNAL and data.get("applicable_task_types"):
        message = f"the role `{INTERNAL}` is never chosen by task type"
        other_problems.append(
            RoleProblem("warning", message, f"{entry.path}:{entry.find_line('applicable_task_types')}")
        )
    if errors:
        return None, [*errors, *other_problems]
    role = validate_document(Role, Document(str(entry.path), data, lines))
    return LoadedRole(
        role, entry.path, base.role.name if base else None, origins, entry.strength
    ), other_problems


@dataclass
class _Found:
    """The errors of an entry so far, one per field."""

    errors: list[InvalidFile]
    fields: set[str] = field(default_factory=set)

    def add_error(self, name: str, error: InvalidFile) -> None:
        if name not in self.fields:
            self.fields.add(name)
            self.errors.append(error)


def error_to_problem(error: InvalidFile) -> RoleProblem:
    """Convert an error to a problem of the directory."""
    return RoleProblem("error", error.message, str(error.where), error.fix)


def _read_own_fields(entry: RoleEntry, found: _Found) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the fields that the entry sets itself, as the model expects them, and their lines."""
    own_fields = {key: value for key, value in entry.data.items() if key in Role.model_fields}
    if AGENT_PROMPT in entry.data:
        message = f"`{AGENT_PROMPT}` and `instructions` are the same field"
        found.add_error("instructions", entry.invalid_error(message, AGENT_PROMPT, "remove one of them"))
    requirements = own_fields.get("context_requirements")
    if isinstance(requirements, list):
        own_fields["context_requirements"] = [part for part in requirements if part != _FOR_ALL]
    if isinstance(schema_name := own_fields.get("output_schema"), str):
        if schema_name not in OUTPUT_SCHEMAS:
            schema_message = f"unknown `output_schema` {schema_name!r}: expected a schema or one of {', '.join(OUTPUT_SCHEMAS)}"
            found.add_error("output_schema", entry.invalid_error(schema_message, "output_schema"))
            del own_fields["output_schema"]
        else:
            own_fields["output_schema"] = load_schema(f"output/{schema_name}")
    if "permissions" in own_fields:
        try:
            return _normalize_permissions(entry, own_fields)
        except InvalidFile as error:
            found.add_error("permissions", error)
            del own_fields["permissions"]
    return own_fields, entry.lines


def _require_mandatory(entry: RoleEntry, data: dict[str, Any], found: _Found, *, baseless: bool) -> None:
    """Report mandatory fields that are missing or empty. With a template, the instructions may be empty.

    `baseless`: the base can't be loaded, and a missing field may be in it.
    """
    for attribute in MANDATORY:
        if attribute not in data:
            suggestion = suggest_names(attribute, [key for key in entry.data if key not in KEYS])
            fix = (
                f"is `{_extract_suggestion(suggestion)}` a typo?"
                if suggestion and suggestion.startswith("did")
                else None
            )
            if not baseless or attribute == "name":
                found.add_error(attribute, entry.invalid_error(f"`{attribute}` is missing", fix=fix))
            found.fields.add(attribute)
        elif data[attribute] is None or (isinstance(data[attribute], str) and not data[attribute].strip()):
            template_owner = data if attribute not in entry.data else entry.data
            if attribute == "instructions" and _has_template(template_owner):
                data[attribute] = ""
            else:
                found.add_error(attribute, entry.invalid_error(f"`{attribute}` is empty", attribute))


def list_template_names() -> frozenset[str]:
    """Return the names that a role's template may begin with."""
    return frozenset(
        {*role_template.NAMES, *data.FIELDS, "input", "output", "steps", "parentId", "aggregatedResults"}
    )


def _has_template(data: dict[str, Any]) -> bool:
    template = data.get("prompt_template")
    return bool(template.strip()) if isinstance(template, str) else template is not None


def _extract_suggestion(advice: str) -> str:
    return advice.split("`")[1]


def _check_fields(entry: RoleEntry, data: dict[str, Any], lines: dict[str, int], found: _Found) -> None:
    """Report what the model rejects, and violations of the other requirements of a role."""
    for path, error in find_document_faults(Role, Document(str(entry.path), data, lines)).items():
        if path or not found.errors:  # errors of the role as a whole only if no field has one
            found.add_error(
                path, InvalidFile(entry.add_label(error.message), where=error.where, fix=error.fix)
            )
    name, badge = data.get("name"), data.get("badge")
    if isinstance(name, str):
        if not name.isprintable() or name != name.strip():
            message = "`name` must be one line of printable text without leading or trailing spaces"
            found.add_error("name", entry.invalid_error(message, "name"))
        if entry.key is not None and name != entry.key:
            found.add_error("name", entry.invalid_error(f"the key and the `name` differ: `{name}`", "name"))
    if isinstance(badge, str) and not _is_badge(badge):
        found.add_error(
            "badge", entry.invalid_error(f"`badge` must be an emoji, or at most {MAX_BADGE} letters", "badge")
        )
    schema = data.get("output_schema")
    if isinstance(entry.data.get("output_schema"), dict) and (fault := output_schema.schema_fault(schema)):
        found.add_error("output_schema", entry.invalid_error(f"`output_schema` {fault}", "output_schema"))
    types = data.get("applicable_task_types")
    for number, task_type in enumerate(types if isinstance(types, list) else ()):
        if isinstance(task_type, str) and not task_type.strip():
            path = f"applicable_task_types[{number}]"
            found.add_error(path, entry.invalid_error(f"`{path}` is empty", path))


def _find_origin(name: str, entry: RoleEntry, known: dict[str, Any], base: LoadedRole | None) -> Origin:
    if name in known:
        return Origin("file", str(entry.path), entry.find_line(_find_written_path(name, entry)))
    base_origin = base.origins.get(name) if base else None
    if base is None or base_origin is None or base_origin.kind == "default":
        return Origin("default")
    return (
        Origin("base", base_origin.path, base_origin.line, base.role.name)
        if base_origin.kind == "file"
        else base_origin
    )


def _find_written_path(name: str, entry: RoleEntry) -> str:
    inside = f"permissions.{name}"
    return inside if name == _DELEGATES and inside in entry.lines else name


def _normalize_permissions(entry: RoleEntry, known: dict[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the fields with `permissions` as a mapping of booleans, and the delegates as a separate field."""
    permissions, lines = known["permissions"], entry.lines
    if isinstance(permissions, list):
        return {**known, "permissions": _parse_permission_list(entry, permissions)}, lines
    if not isinstance(permissions, dict):
        raise entry.invalid_error(
            "`permissions` must be a mapping to true or false, or a list of names", "permissions"
        )
    if _DELEGATES not in permissions:
        return known, lines
    inside = f"permissions.{_DELEGATES}"
    if _DELEGATES in known:
        raise entry.invalid_error(f"duplicate `{_DELEGATES}`: outside and inside `permissions`", inside)
    others = {name: value for name, value in permissions.items() if name != _DELEGATES}
    moved = {path.replace(inside, _DELEGATES, 1): line for path, line in lines.items()}
    return {**known, "permissions": others, _DELEGATES: permissions[_DELEGATES]}, moved


def _parse_permission_list(entry: RoleEntry, names: list[Any]) -> dict[str, bool]:
    """Return the mapping for a list of permission names; `can_read_files` is accepted for `read_files`."""
    allowed: dict[str, bool] = {}
    for number, name in enumerate(names):
        permission = name.removeprefix("can_") if isinstance(name, str) else None
        if permission not in set(Permission):
            field = f"permissions[{number}]"
            raise entry.invalid_error(
                f"`{field}` must be one of {', '.join(Permission)}, not {name!r}", field
            )
        allowed[f"can_{permission}"] = True
    return allowed


def _is_badge(badge: str) -> bool:
    """True if a badge is short, printable, and has the same width on every terminal."""
    marks = any(unicodedata.category(character) in ("Mn", "Me") for character in badge)
    return len(badge) <= MAX_BADGE and badge.isprintable() and badge == badge.strip() and not marks


def _check_template(entry: RoleEntry, text: object) -> Iterator[RoleProblem]:
    """Yield the problems of the role's own template, each with its line in the file if that is known."""
    if not isinstance(text, str):
        return
    first = _find_template_line(entry)
    for problem in template.find_template_problems(text, list_template_names()):
        inside = problem.line or 1
        line = first + inside - 1 if first else entry.find_line("prompt_template")
        where = "" if first else f" (line {inside} of the template)"
        message = entry.add_label(f"`prompt_template`{where}: {problem.message}")
        yield RoleProblem(problem.severity, message, f"{entry.path}:{line}", problem.fix or None)


def _find_template_line(entry: RoleEntry) -> int | None:
    """Return the line of the file on which the template begins.

    None if its lines are not lines of the file.
    """
    line = entry.find_line("prompt_template")
    try:
        written = entry.path.read_text("utf-8").splitlines()[line - 1]
    except (OSError, ValueError, IndexError):
        return None
    if _LITERAL.search(written):
        return line + 1
    return None if re.match(r"""\s*[{,-]?\s*["']?prompt_template\b""", written) else line


def _find_unknown_keys(entry: RoleEntry) -> Iterator[RoleProblem]:
    """Yield keys without effect.

    A misspelled `permissions` is an error: a role without permissions may do everything.
    """
    for key in entry.data:
        if key not in (*KEYS, AGENT_PROMPT):
            advice = suggest_names(key, KEYS)
            hint = advice if advice and advice.startswith("did") else None
            lacks = hint is not None and f"`{_PERMISSIONS}`" in hint and _PERMISSIONS not in entry.data
            wider = ", so the role would have all permissions" if lacks else ""
            yield RoleProblem(
                "error" if lacks else "warning",
                entry.add_label(f"unknown field `{key}` has no effect{wider}"),
                f"{entry.path}:{entry.lines.get(key, 1)}",
                hint,
            )


def _warn_about_servers(entry: RoleEntry, data: dict[str, Any]) -> Iterator[RoleProblem]:
    """Yield the MCP servers that have no effect."""
    servers, permissions = entry.data.get("mcp_servers"), data.get(_PERMISSIONS)
    if not isinstance(servers, dict):
        return
    if isinstance(permissions, dict) and not permissions.get("can_execute_commands"):
        message = "`mcp_servers` has no effect: a server is a program, and the role may not run programs"
        where = f"{entry.path}:{entry.find_line('mcp_servers')}"
        yield RoleProblem(
            "warning", entry.add_label(message), where, "add execute_commands to its permissions"
        )
    for name, server in servers.items():
        if isinstance(server, dict) and not server.get("tools"):
            path = f"mcp_servers.{name}"
            message = entry.add_label(f"`{path}` has no tools, so no model is offered any")
            fix = f"logist role tools {entry.name}"
            yield RoleProblem("warning", message, f"{entry.path}:{entry.find_line(path)}", fix)


def make_fallback(worker: LoadedRole) -> Fallback:
    """Return the model of the loaded role FALLBACK, wherever its value comes from."""
    origin = worker.origins["llm_model"]
    return Fallback(worker.role.llm_model, Origin("fallback", origin.path, origin.line, FALLBACK))
