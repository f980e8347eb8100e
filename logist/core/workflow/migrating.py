"""Move the agent's role out of prompts, in JSON and in the config block of a diagram.

Nothing else changes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from logist.core.text.problem import WorkflowProblem
from logist.core.workflow.mixed import explain_refusal, find_leading_role
from logist.quick_dataclass import dataclass

_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[{}\[\],:]')
_UNIT = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]", re.DOTALL
)
_ENTRY = re.compile(r"^[ \t]*%%[ \t]*@(?:step\()?([^\s:(){}]+)\)?[ \t]*:[ \t]*(?=\{)", re.MULTILINE)
_SOURCE = re.compile(r'("mermaidSource"\s*:\s*)("(?:[^"\\\n]|\\.)*")')
_MARGIN = re.compile(r"^[ \t]*%%", re.MULTILINE)
_ROLES = frozenset({"agentRole", "agent_role"})


@dataclass(frozen=True)
class Migrated:
    """The new text, the steps whose prompt changed, and those that have to be fixed by hand."""

    text: str
    moved: tuple[str, ...] = ()
    problems: tuple[WorkflowProblem, ...] = ()


@dataclass(frozen=True)
class Prompt:
    """A prompt in a JSON text: where its key begins, and where its value is, between the quotes."""

    key: int
    start: int
    end: int
    path: str
    has_role: bool


def migrate_json(text: str) -> Migrated:
    """Migrate a JSON document; each object in it that has a text `prompt` counts as a step."""
    migrated = _migrate_prompts(text, list(_find_prompts(text, "")))
    return _migrate_sources(migrated)


def migrate_mermaid(text: str) -> Migrated:
    """Migrate the prompts in the config block of a diagram. Text there that is not JSON is not changed."""
    blank = _MARGIN.sub(lambda margin: " " * len(margin[0]), text)
    prompts: list[Prompt] = []
    for entry in _ENTRY.finditer(text):
        try:
            _, end = json.JSONDecoder().raw_decode(blank, entry.end())
        except (ValueError, RecursionError):
            continue
        inside = " " * entry.end() + blank[entry.end() : end]
        prompts += [
            prompt for prompt in _find_prompts(inside, f"@{entry[1]}") if prompt.path == f"@{entry[1]}.prompt"
        ]
    return _migrate_prompts(text, prompts)


def _migrate_sources(found: Migrated) -> Migrated:
    """Migrate the diagrams that an export holds as text."""
    for source in reversed(list(_SOURCE.finditer(found.text))):
        inner = migrate_mermaid(json.loads(source[2]))
        if inner.moved:
            new = json.dumps(inner.text, ensure_ascii=source[2].isascii())
            text = found.text[: source.start(2)] + new + found.text[source.end(2) :]
            found = Migrated(text, (*found.moved, *inner.moved), found.problems)
        found = Migrated(found.text, found.moved, (*found.problems, *inner.problems))
    return found


def _migrate_prompts(text: str, prompts: list[Prompt]) -> Migrated:
    """Change the prompts, the last one first, so that the offsets before it stay right."""
    moved: list[str] = []
    problems: list[WorkflowProblem] = []
    for prompt in sorted(prompts, key=lambda prompt: prompt.start, reverse=True):
        raw = text[prompt.start : prompt.end]
        value = json.loads(f'"{raw}"')
        leading_role = find_leading_role(value)
        if reason := explain_refusal(value, leading_role, prompt.has_role):
            line = text.count("\n", 0, prompt.start) + 1
            problems.append(
                WorkflowProblem(
                    "warning", "not_moved", f"`{prompt.path}` is not changed: {reason}", prompt.path, line
                )
            )
            continue
        if leading_role is None:
            continue
        cuts = _find_raw_offsets(raw, (leading_role.role_start, leading_role.role_end, leading_role.rest))
        role, rest = raw[cuts[0] : cuts[1]], raw[cuts[2] :]
        pair = f'{_find_separator(text, prompt.key)}"agentRole": "{role}"'
        text = f'{text[: prompt.start]}{rest}"{pair}{text[prompt.end + 1 :]}'
        moved.append(prompt.path)
    return Migrated(text, tuple(reversed(moved)), tuple(reversed(problems)))


def _find_separator(text: str, key: int) -> str:
    """Return the text between one pair and the next: a new line with the indent of the key, or just a space."""
    line = text.rfind("\n", 0, key) + 1
    margin = text[line:key]
    newline = "\r\n" if text[:line].endswith("\r\n") else "\n"
    return f",{newline}{margin}" if not margin.strip(" \t%") and line else ", "


def _find_raw_offsets(raw: str, places: tuple[int, ...]) -> list[int]:
    """Return where characters of the decoded text are in the text with escapes."""
    starts = [unit.start() for unit in _UNIT.finditer(raw)]
    starts.append(len(raw))
    return [starts[place] for place in places]


def _find_prompts(text: str, path: str) -> Iterator[Prompt]:
    """Yield every `prompt` with a text value, innermost objects first where one is in another."""
    reader = _JsonReader(path)
    for token in _TOKEN.finditer(text):
        yield from reader.read_token(token)


@dataclass
class _Object:
    path: str
    key: str = ""
    key_at: int = 0
    index: int = -1
    """The current item of a list; -1 in an object."""
    wants_key: bool = True
    prompt: tuple[int, int, int] | None = None
    has_role: bool = False

    def find_inner_path(self) -> str:
        """Return the path of the next value."""
        if self.index >= 0:
            return f"{self.path}[{self.index}]"
        return f"{self.path}.{self.key}" if self.path else self.key


class _JsonReader:
    """Reads the tokens of valid JSON one by one."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.open: list[_Object] = []

    def read_token(self, token: re.Match[str]) -> Iterator[Prompt]:
        sign = token[0]
        here = self.open[-1] if self.open else None
        if sign in "{[":
            inner = here.find_inner_path() if here else self.path
            self.open.append(_Object(inner, index=0 if sign == "[" else -1))
        elif sign in "}]":
            closed = self.open.pop()
            if closed.prompt:
                key, start, end = closed.prompt
                path = f"{closed.path}.prompt" if closed.path else "prompt"
                yield Prompt(key, start, end, path, closed.has_role)
        elif here is None:
            return
        elif sign == ",":
            here.index += here.index >= 0
            here.wants_key = True
        elif sign == ":":
            here.wants_key = False
        else:
            self._read_string(here, token)

    def _read_string(self, here: _Object, token: re.Match[str]) -> None:
        if here.index >= 0:
            return
        if here.wants_key:
            here.key, here.key_at = json.loads(token[0]), token.start()
            here.has_role = here.has_role or here.key in _ROLES
        elif here.key == "prompt":
            here.prompt = (here.key_at, token.start() + 1, token.end() - 1)
