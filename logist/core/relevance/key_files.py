"""Short excerpts of the files that explain a project: README, build files, settings, instructions for contributors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from logist.core.relevance import kinds
from logist.core.relevance.tree import format_name, is_key_file
from logist.core.text.fences import fence_text
from logist.lazy_patterns import compile_on_use
from logist.quick_dataclass import dataclass

MAX_BYTES = 4_500
"""The maximum size of all excerpts together: about 1,500 tokens."""
MOST_FILES = 12
LONGEST_LINE = 140
TITLE = "Excerpts of key files:"


@dataclass(frozen=True)
class KeyFile:
    """A file of which an excerpt is shown, and how much of it."""

    path: str
    most: int
    """The maximum number of bytes of the excerpt."""
    excerpt: Callable[[str], Iterable[str]]


def choose_key_files(paths: Iterable[str]) -> list[KeyFile]:
    """Return the key files among the files of a workspace, the most important first, without those that may contain keys."""
    ranked = []
    for path in paths:
        rule = _classify_key_file(path) if "/" not in path or path.startswith(_FOLDERS) else None
        if rule is not None and not kinds.classify_file(path).secret:
            rank, most, excerpt = rule
            ranked.append((rank, path.count("/"), path, KeyFile(path, most, excerpt)))
    ranked.sort(key=lambda each: each[:3])
    return [file for *_, file in ranked][:MOST_FILES]


def format_key_files(texts: Iterable[tuple[KeyFile, str]]) -> str:
    """Return the excerpts, each in a fence that its text can't close; "" if there are none."""
    room = MAX_BYTES - len(TITLE)
    shown: list[str] = []
    seen: set[str] = set()
    for file, text in texts:
        heading = f"{format_name(file.path)}:\n"
        excerpt = "\n".join(
            _take_fitting_lines(file.excerpt(text), min(file.most, room - len(heading.encode()) - 10))
        )
        if not excerpt.strip() or excerpt in seen:  # CLAUDE.md is often a copy of AGENTS.md
            continue
        seen.add(excerpt)
        shown.append(heading + fence_text(excerpt))
        room -= len(shown[-1].encode("utf-8")) + 2
    return "\n\n".join([TITLE, *shown]) if shown else ""


def _take_fitting_lines(lines: Iterable[str], room: int) -> Iterator[str]:
    """Yield lines until the room is filled, without blank lines at the beginning and several in a row."""
    is_blank = True
    for line in lines:
        line = line.rstrip()
        if is_blank and not line:
            continue
        is_blank = not line
        short = _replace_unprintable(f"{line[:LONGEST_LINE]} ..." if len(line) > LONGEST_LINE else line)
        room -= len(short.encode("utf-8")) + 1
        if room < 0:
            return
        yield short


def _replace_unprintable(line: str) -> str:
    """Replace what the escapes of JSON and TOML can contain: control characters, lone surrogates."""
    if line.isprintable():
        return line
    return "".join(each if each.isprintable() or each == "\t" else "\ufffd" for each in line)


_FOLDERS = (".github/", ".circleci/", "docs/c", "docs/C")
"""Where key files are besides the top directory."""
_WORKFLOW = compile_on_use(r"\.github/workflows/([^/]+)\.ya?ml|\.(gitlab-ci)\.yml|\.circleci/(config)\.yml")
_LIKELY_WORKFLOW = compile_on_use(
    r"(?:ci|tests?|testing|build|check|main|gitlab-ci|config|python|node|go|rust)", re.IGNORECASE
)
"""Of many workflows, those that build and test mostly have such a name."""
_BUILDING = """\
package.json composer.json pyproject.toml cargo.toml go.mod gemfile pom.xml build.gradle build.gradle.kts build.sbt
mix.exs pubspec.yaml cmakelists.txt meson.build deno.json project.clj"""
_MANIFESTS = frozenset(_BUILDING.split())
_INSTRUCTIONS = frozenset(("agents.md", "claude.md"))
_TARGETS = frozenset(("makefile", "justfile"))
_UNLIKELY = frozenset(("manifest.in", "requirements.txt", "flake.nix", "workspace"))


def _classify_key_file(path: str) -> tuple[int, int, Callable[[str], Iterable[str]]] | None:
    """Return how important a key file is (0 is the most), the size of its excerpt, and how that is made."""
    above, _, name = path.rpartition("/")
    low = name.lower()
    if workflow := _WORKFLOW.fullmatch(path):
        is_likely = _LIKELY_WORKFLOW.fullmatch(workflow[workflow.lastindex or 1])
        return (6, 400, _list_run_lines) if is_likely else None
    if low.startswith("contributing.") and above in ("", "docs", ".github"):
        return 5, 400, _list_commands
    if above or low in _UNLIKELY or not is_key_file(name):
        return None
    if low.startswith("readme"):
        return 0, 600, _strip_prose
    if low in _INSTRUCTIONS:
        return 1, 1_000, _keep_prose
    if low in _TARGETS:
        return 3, 500, _list_targets
    if low.endswith(".json"):
        return (2 if low in _MANIFESTS else 7), 900, _summarize_json
    if low.endswith(".toml"):
        return (2 if low in _MANIFESTS else 7), 900, _summarize_toml
    if low in _MANIFESTS or low.endswith((".csproj", ".gemspec", ".cabal")):
        return 2, 600, _strip_comments
    return 8, 300, _strip_comments


# A comment without its end extends to the end of the text, so that no text takes long.
_COMMENT = compile_on_use(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_BLOCK_COMMENT = compile_on_use(r"^[ \t]*/\*.*?(?:\*/|\Z)", re.DOTALL | re.MULTILINE)
_IMAGE = compile_on_use(r"!\[[^\]]{0,200}\](?:\([^)]{0,500}\)|\[[^\]]{0,200}\])")
_TAG = compile_on_use(r"</?[a-zA-Z][^<>]{0,1000}>")
_EMPTY_LINK = compile_on_use(r"\[\s*\](?:\([^)]{0,500}\)|\[[^\]]{0,200}\])")
_WITHOUT_WORDS = compile_on_use(r"[\W_]*$|\s*\[[^\]]{1,200}\]:|\s*\.\. ")
"""Lines under headings, definitions of links, and directives of reStructuredText."""
_FORMALITY = compile_on_use(r"// indirect|<\?xml|\bxmlns=")
_REMARK = compile_on_use(r"\s*(?:#(?!\[)|//|;|--)")


def _strip_prose(text: str) -> Iterator[str]:
    """Yield the title and the first section of a text for people, without badges, images, HTML and examples."""
    plain = _EMPTY_LINK.sub("", _IMAGE.sub("", _TAG.sub("", _COMMENT.sub("", text))))
    has_words = False
    for line in plain.split("\n"):
        is_heading = line.startswith("#")
        if line.lstrip().startswith(("```", "~~~")) or (is_heading and has_words):
            return
        if not line.strip() or not _WITHOUT_WORDS.match(line):
            has_words = has_words or (bool(line.strip()) and not is_heading)
            yield line


def _keep_prose(text: str) -> list[str]:
    """Return the lines of instructions for agents."""
    return _COMMENT.sub("", text).split("\n")


def _strip_comments(text: str) -> Iterator[str]:
    """Yield the lines that are not blank and no comments, such as a license at the beginning."""
    for line in _BLOCK_COMMENT.sub("", _COMMENT.sub("", text)).split("\n"):
        if not (line.strip() in ("", ")", "require (") or _REMARK.match(line) or _FORMALITY.search(line)):
            yield line


_SHELL_FENCE = compile_on_use(
    r"\s*(?:```|~~~)\s*(?:(?:ba|z)?sh|shell|console|shell-session|terminal|text)?\s*$"
)


def _list_commands(text: str) -> Iterator[str]:
    """Yield the lines in the code blocks of a text for people: how to build and test."""
    fence = ""
    for line in text.split("\n"):
        if line.lstrip().startswith(("```", "~~~")):
            fence = "" if fence else "shell" if _SHELL_FENCE.match(line) else "other"
        elif (fence == "shell" or line.startswith("$ ")) and line.strip() and not _REMARK.match(line):
            yield line.strip()


_RUN = compile_on_use(r"( *)(- )?run: *(.*)")
_SHELL = compile_on_use(
    r"#|(?:echo|if|then|fi|else|elif|exit|for|do|done|mkdir|curl|set|cd)\b|.*\$\{?GITHUB_"
)
"""Lines of scripts that don't say how a project is built."""


def _list_run_lines(text: str) -> Iterator[str]:
    """Yield the commands of a workflow of continuous integration, each once."""
    seen: set[str] = set()
    indent: int | None = None
    for line in text.split("\n"):
        command = line.strip()
        if indent is not None and command and len(line) - len(line.lstrip()) <= indent:
            indent = None
        if match := _RUN.match(line):
            is_block = match[3].startswith(("|", ">"))
            indent = len(match[1]) + len(match[2] or "") if is_block else None
            command = "" if is_block else match[3]
        elif indent is None:
            continue
        if command and command not in seen and not _SHELL.match(command):
            seen.add(command)
            yield command


_TARGET = compile_on_use(r"([A-Za-z0-9_][\w./ -]{0,100}?)\s*:(?![=:])")


def _list_targets(text: str) -> Iterator[str]:
    """Yield each target of a makefile with its first command."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        match = _TARGET.match(line)
        if match and not line.startswith((" ", "\t")):
            following = lines[number + 1] if number + 1 < len(lines) else ""
            command = following.strip().lstrip("@-") if following.startswith(("\t", "  ")) else ""
            yield f"{match[1]}: {command}" if command else match[1]


_SAYING_LITTLE = """\
authors author maintainers contributors keywords classifiers categories license license-files licenses urls repository
homepage documentation bugs funding files readme $schema private version sideEffects include exclude lint profile
resolutions overrides pnpm packageManager publishConfig badges metadata dynamic"""
_DULL = frozenset(_SAYING_LITTLE.split())
_FIRST = (
    "name",
    "description",
    "package",
    "project",
    "scripts",
    "workspaces",
    "workspace",
    "engines",
    "dependencies",
)


def _summarize_json(text: str) -> Iterable[str]:
    try:
        tree = json.loads(text)
        return [*_summarize_tree(tree)] if isinstance(tree, dict) else []
    except (ValueError, RecursionError):
        return _strip_comments(text)


def _summarize_toml(text: str) -> Iterable[str]:
    import tomllib  # noqa: PLC0415 - takes long to load, and many repositories have no such file

    # The time for a key such as `a.b.c` grows with the square of its length.
    if any(line.count(".") > _MOST_DOTS for line in text.split("\n")):
        return _strip_comments(text)
    try:
        # Not only reading can fail: a number can be too long to be written in decimal.
        return [*_summarize_tree(tomllib.loads(text))]
    except (ValueError, RecursionError):
        return _strip_comments(text)


_MOST_DOTS = 300
_WORTH_KNOWING = compile_on_use(r"test|lint|build|check|type|format|start|dev")


def _summarize_tree(tree: dict[str, Any], above: str = "") -> Iterator[str]:
    """Yield the values of a settings file, one line each: of dependencies and tools the names, of deep values the keys."""
    depth = above.count(".")
    for key in sorted(tree, key=lambda key: _FIRST.index(key) if key in _FIRST else len(_FIRST)):
        value, path = tree[key], f"{above}{key}"
        if key in _DULL or value in ({}, [], "", None, {"workspace": True}):
            continue
        if not isinstance(value, dict):
            yield f"{path}: {_format_value(value)}"
        elif "scripts" in key:
            names = sorted(value, key=lambda name: not _WORTH_KNOWING.search(name))
            yield from (f"{path}.{name}: {_format_value(value[name])}" for name in names)
        elif "dependenc" in key.lower() or key in ("features", "tool") or depth >= 2:
            yield f"{path}: {', '.join(value)}"
        else:
            yield from _summarize_tree(value, f"{path}.")


def _format_value(value: object) -> str:
    texts = value if isinstance(value, list) else [value]
    return ", ".join(
        " ".join(each.split()) if isinstance(each, str) else json.dumps(each, default=str) for each in texts
    )
