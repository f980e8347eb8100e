"""A module as units, its functions and methods: what differs between two versions, and marked code to run."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from types import CodeType
from typing import NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef

LEVEL = "<module>"
"""The unit of what runs at import: all of a module but the bodies of its functions."""

_DOTTED = re.compile(r"\b(?:logist|tests)(?:\.\w+)+")
_MARKS = "__near__"


class Import(NamedTuple):
    """A name that a module may import, and how."""

    name: str
    """Dotted; ends with `*` where only the beginning is known."""
    how: str
    """`top` runs with the module, `inner` with a function, `typing` never; `text` and `guess` are read from strings."""
    unit: str = ""
    """The function of an inner one."""


@dataclass(frozen=True)
class Outline:
    """What the rest of this package needs to know of a module."""

    units: dict[str, str]
    """Digests by name: of LEVEL, then of each function and method, in the order of the source."""
    imports: frozenset[Import]


class Difference(NamedTuple):
    """What differs between two versions of a module."""

    units: frozenset[str] = frozenset()
    """Functions whose bodies differ, that only one of the two has, or that use a name that differs."""
    level: bool = False
    """Whether something differs that any code could depend on that needs the module, a class say."""
    loading: bool = False
    """Whether loading it is different, an import or a constant, although nothing but `units` depends on that."""


class _Statement(NamedTuple):
    """A statement of a module, without the bodies of functions."""

    dump: str
    binds: frozenset[str]
    """The names that it binds; none if it does more, or if Python itself looks them up."""
    uses: frozenset[str]
    is_function: bool


def digest(content: bytes) -> str:
    """A short name for this content."""
    return sha256(content).hexdigest()[:16]


def outline(source: str, name: str) -> Outline:
    """The outline of the module `name`; without units if it can't be parsed."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return Outline({LEVEL: digest(source.encode())}, frozenset())
    lines = source.splitlines(keepends=True)
    texts: dict[str, list[str]] = {LEVEL: []}
    rest = 0
    for unit, node in _functions(tree.body):
        first = min([node.lineno, *(each.lineno for each in node.decorator_list)]) - 1
        body = node.body[0].lineno - 1
        texts[LEVEL] += lines[rest:body]
        texts.setdefault(unit, []).extend(lines[first : node.end_lineno])
        rest = node.end_lineno or body
    texts[LEVEL] += lines[rest:]
    units = {unit: digest("".join(text).encode()) for unit, text in texts.items()}
    return Outline(units, frozenset(_imports(tree, name)))


def compare(old: str | None, new: str | None, is_used_elsewhere: Callable[[str], bool]) -> Difference:
    """What differs; None is a module that is not there. `is_used_elsewhere`: whether other modules use a name of it."""
    try:
        before, after = ast.parse(old or ""), ast.parse(new or "")
    except (SyntaxError, ValueError):
        known = (outline(old or "", "").units.keys() | outline(new or "", "").units.keys()) - {LEVEL}
        return Difference(frozenset(known), level=True)
    bodies, new_bodies = _bodies(before), _bodies(after)
    changed = {unit for unit in bodies.keys() | new_bodies.keys() if bodies.get(unit) != new_bodies.get(unit)}
    if old is None or new is None:
        return Difference(frozenset(changed), level=True)
    users = [(unit, _used(node)) for tree in (before, after) for unit, node in _functions(tree.body)]
    known = {name for node in ast.walk(before) for name in (*_bound(node), *_used(node))}
    statements = _changed_statements(_level(before), _level(after))
    names = {name for each in statements for name in each.binds}
    # Nothing else can use a name yet that was not there before.
    if not all(each.binds for each in statements) or any(is_used_elsewhere(name) for name in names & known):
        return Difference(frozenset(changed), level=True)
    changed |= {unit for unit, uses in users if uses & names}
    return Difference(frozenset(changed), loading=any(not each.is_function for each in statements))


def _changed_statements(before: list[_Statement], after: list[_Statement]) -> list[_Statement]:
    """The statements that differ, and those that use what these bind, and so on; all if their order differs."""
    every = [*before, *after]
    counts, new_counts = (Counter(each.dump for each in statements) for statements in (before, after))
    common = {dump for dump in counts if counts[dump] == new_counts[dump]}
    if [each.dump for each in before if each.dump in common] != [
        each.dump for each in after if each.dump in common
    ]:
        return every
    changed = [each for each in every if each.dump not in common]
    while True:
        names = {name for each in changed for name in each.binds}
        using = [each for each in every if each not in changed and each.uses & names]
        if not using:
            return changed
        changed += using


def mark(source: str, name: str, path: str) -> CodeType:
    """Code that does the same, and notes the module `name` and its units as they run; see `hook`."""
    tree = ast.parse(source, path)
    numbers: dict[str, int] = {}
    for unit, function in _functions(tree.body):
        number = numbers.setdefault(unit, len(numbers) + 1)
        for node in ast.walk(function):
            if isinstance(node, Function):
                start = 1 if ast.get_docstring(node, clean=False) is not None else 0
                _insert(node.body, start, f"{_MARKS}[{number}] = 1")
    start = 0
    while start < len(tree.body) and _comes_first(tree.body[start]):
        start += 1
    _insert(tree.body, start, f"{_MARKS} = __import__('sys').near.view({name!r}); {_MARKS}[0] = 1")
    return compile(tree, path, "exec", dont_inherit=True)


def _insert(body: list[ast.stmt], start: int, text: str) -> None:
    line = body[min(start, len(body) - 1)].lineno if body else 1  # a traceback shows the line of the source
    statements = ast.parse(text).body
    for statement in statements:
        for node in ast.walk(statement):
            if "lineno" in node._attributes:
                node.lineno = node.end_lineno = line  # type: ignore[attr-defined]
    body[start:start] = statements


def _comes_first(statement: ast.stmt) -> bool:
    return _is_text(statement) or (isinstance(statement, ast.ImportFrom) and statement.module == "__future__")


def _is_text(statement: ast.AST) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _functions(body: Sequence[ast.AST], prefix: str = "") -> Iterator[tuple[str, Function]]:
    """Functions and methods with their names; not those within functions."""
    for statement in body:
        if isinstance(statement, Function):
            yield prefix + statement.name, statement
        elif isinstance(statement, ast.ClassDef):
            yield from _functions(statement.body, f"{prefix}{statement.name}.")
        else:
            inner = ast.iter_child_nodes(statement)
            yield from _functions([each for each in inner if not isinstance(each, ast.expr)], prefix)


def _bodies(tree: ast.Module) -> dict[str, str]:
    bodies: dict[str, str] = defaultdict(str)
    for unit, node in _functions(tree.body):
        bodies[unit] += "".join(map(ast.dump, node.body))
    return bodies


def _level(tree: ast.Module) -> list[_Statement]:
    """What runs at import; takes the bodies of the functions of `tree` away."""
    for _, function in _functions(tree.body):
        text = ast.get_docstring(function) if function.decorator_list else None  # click's help is such a text
        function.body = [ast.Expr(ast.Constant(text))]
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef):
            first = 1 if isinstance(node, ast.ClassDef) else 0  # a class's text may be part of a schema
            node.body[first:] = [each for each in node.body[first:] if not _is_text(each)]
    return [
        _Statement(
            ast.dump(each), frozenset(_bound(each)), frozenset(_used(each)), isinstance(each, Function)
        )
        for statement in tree.body
        for each in _single(statement)
    ]


def _single(statement: ast.stmt) -> Iterator[ast.stmt]:
    """An import of several names as several statements; nothing for what only a type checker reads."""
    if isinstance(statement, ast.Import):
        yield from (ast.Import([alias]) for alias in statement.names)
    elif isinstance(statement, ast.ImportFrom):
        yield from (ast.ImportFrom(statement.module, [alias], statement.level) for alias in statement.names)
    elif not _is_for_typing(statement):
        yield statement


def _bound(statement: ast.AST) -> set[str]:
    names: set[str] = set()
    if (
        isinstance(statement, ast.Import | ast.ImportFrom)
        and getattr(statement, "module", "") != "__future__"
    ):
        names = {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
    elif isinstance(statement, Function) and not statement.decorator_list:
        names = {statement.name}
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        names = {target.id if isinstance(target, ast.Name) else "__" for target in targets}
    return names if not any(name.startswith("__") for name in names) else set()


def _used(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _is_for_typing(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _imports(tree: ast.Module, name: str) -> Iterator[Import]:
    yield from _imports_of(tree, "top")
    for unit, function in _functions(tree.body):
        yield from _imports_of(function, "inner", unit)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from (Import(f"{start}*", "guess") for start in _beginnings(node))
        elif name.startswith("tests.") and isinstance(node, ast.Constant) and isinstance(node.value, str):
            # Programs in strings, modules named in strings.
            yield from (Import(word, "text") for word in _DOTTED.findall(node.value))


def _imports_of(node: ast.AST, how: str, unit: str = "") -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, how, unit) for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module and not child.level:
            yield from (Import(f"{child.module}.{alias.name}", how, unit) for alias in child.names)
        elif _is_for_typing(child):
            yield from _imports_of(child, "typing")
        elif unit or not isinstance(child, Function):
            yield from _imports_of(child, how, unit)


def _beginnings(call: ast.Call) -> Iterator[str]:
    """What a module's name begins with, in `import_module(f"logist.cli.{name}")`."""
    if getattr(call.func, "attr", getattr(call.func, "id", "")) == "import_module" and call.args:
        argument = call.args[0]
        first = argument.values[0] if isinstance(argument, ast.JoinedStr) and argument.values else None
        if isinstance(first, ast.Constant) and isinstance(first.value, str) and _DOTTED.match(first.value):
            yield first.value
