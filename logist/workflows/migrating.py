"""Moves the role instruction out of the prompts of a workflow file; every other byte is unchanged."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from logist.core.text.problem import WorkflowProblem
from logist.core.workflow.migrating import Migrated, migrate_json, migrate_mermaid
from logist.core.workflow.mixed import explain_refusal, find_leading_role
from logist.documents import parse_document
from logist.errors import InvalidFile

_ROLES = frozenset({"agentRole", "agent_role"})


def migrate_prompts(text: str, name: str) -> Migrated:
    """Return the text with each leading `**Agent's Role:** ...` moved to the agentRole of its step.

    The suffix of `name` determines the format. A role that can't be moved stays where it is and is reported.
    Raises InvalidFile if the file is not a valid document.
    """
    suffix = os.path.splitext(name)[1].lower()
    if suffix == ".json":
        parse_document(text, name)
        return migrate_json(text)
    if suffix in {".yaml", ".yml"}:
        return _migrate_yaml(text, name)
    return migrate_mermaid(text)


def _migrate_yaml(text: str, name: str) -> Migrated:
    expected = copy.deepcopy(parse_document(text, name).data)
    mark = text[: len(text) - len(text.removeprefix("\ufeff"))]
    body = text.removeprefix("\ufeff")
    moved: list[str] = []
    problems: list[WorkflowProblem] = []
    for path, prompt in reversed(list(_find_prompts(YAML(typ="safe", pure=True).compose(body), ""))):
        step = _get_at_path(expected, path)
        mixed_prompt = find_leading_role(step["prompt"])
        line = prompt.start_mark.line + 1
        field = f"{path}.prompt"
        if reason := explain_refusal(step["prompt"], mixed_prompt, bool(_ROLES & step.keys())):
            problems.append(
                WorkflowProblem("warning", "not_moved", f"`{field}` is not changed: {reason}", field, line)
            )
            continue
        if mixed_prompt is None:
            continue
        step["agentRole"] = step["prompt"][mixed_prompt.role_start : mixed_prompt.role_end]
        step["prompt"] = step["prompt"][mixed_prompt.rest :]
        changed = _replace_prompt(body, prompt, step["prompt"], step["agentRole"])
        moved.append(field)
        body = changed
    if parse_document(body, name).data != expected:
        raise InvalidFile("can't change the prompts safely because of how the file is formatted", where=name)
    return Migrated(mark + body, tuple(reversed(moved)), tuple(reversed(problems)))


def _find_prompts(node: Node | None, path: str) -> Iterator[tuple[str, ScalarNode]]:
    """Yield every prompt in the order of the text, with the path of its step."""
    if isinstance(node, SequenceNode):
        for number, item in enumerate(node.value):
            yield from _find_prompts(item, f"{path}[{number}]")
    elif isinstance(node, MappingNode):
        for key, value in node.value:
            if key.value == "prompt" and isinstance(value, ScalarNode) and "[" in path:
                if value.tag == "tag:yaml.org,2002:str":
                    yield path, value
            elif not isinstance(value, ScalarNode):
                yield from _find_prompts(value, f"{path}.{key.value}" if path else str(key.value))


def _get_at_path(data: Any, path: str) -> Any:
    """Return the mapping at a path such as `steps[2]` or `workflow.steps[0].body[1]`."""
    for part in path.split("."):
        name, *indices = part.split("[")
        data = data[name]
        for index in indices:
            data = data[int(index.rstrip("]"))]
    return data


def _replace_prompt(text: str, prompt: ScalarNode, rest: str, role: str) -> str:
    """Return the text with the prompt shortened, and the role as a key after it, on the next or the same line."""
    start, end = prompt.start_mark.index, prompt.end_mark.index
    line = text.rfind("\n", 0, start) + 1
    newline = "\r\n" if "\r\n" in text else "\n"
    quoted = json.dumps(role, ensure_ascii=False)
    key = text.rfind("prompt", line, start)
    margin = text[line:key]
    if margin.strip(" -"):  # in a mapping on one line
        return f"{text[:start]}{json.dumps(rest, ensure_ascii=False)}, agentRole: {quoted}{text[end:]}"
    inside = " " * len(margin)
    if prompt.style == "|" and (shortened := _shorten_literal(text[start:end], rest)) is not None:
        return f"{text[:start]}{_append_role(shortened, f'{inside}agentRole: {quoted}{newline}')}{text[end:]}"
    after = text[end:]
    tail = text[start:end].rstrip()
    ending = newline if text[start:end] != tail and not after.startswith("\n") else ""
    new = json.dumps(rest, ensure_ascii=False)
    return f"{text[:start]}{new}{newline}{inside}agentRole: {quoted}{ending}{after}"


def _shorten_literal(scalar: str, rest: str) -> str | None:
    """Return a literal block with only the lines of `rest`, unchanged; None if they can't be identified."""
    lines = scalar.splitlines(keepends=True)
    count = len(rest.rstrip("\n").split("\n"))
    body = [number for number, line in enumerate(lines) if number and line.strip()]
    if not body:
        return None
    last = body[-1]
    first = last - count + 1
    if first < 1 or [line.strip() for line in lines[first : last + 1]] != [
        line.strip() for line in rest.rstrip("\n").split("\n")
    ]:
        return None
    return lines[0] + "".join(lines[first:])


def _append_role(literal: str, role: str) -> str:
    """Return the block with the role below its last line of text."""
    lines = literal.splitlines(keepends=True)
    end = len(lines)
    while end > 1 and not lines[end - 1].strip():
        end -= 1
    head = "".join(lines[:end])
    newline = "" if head.endswith("\n") else "\n"
    return head + newline + role + "".join(lines[end:])
