"""What macOS does not have: the list is that of typeshed, and code that runs there does not use it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import mypy

from tests.support import ROOT

TYPESHED = Path(mypy.__file__).parent / "typeshed" / "stdlib"
VERSIONS = ((3, 11), (3, 12), (3, 13), (3, 14))
ABSENT_UNTIL_3_13 = {"waitid", "waitid_result"}
"""typeshed has them for macOS in all versions."""

SYSTEMS = "systems.py"
ONLY_LINUX = ("agents/sandbox/", "agents/courier/fork_server.py", "workspace/prepared.py")
"""Refused or not used on macOS: programs and commands, fork servers, the files of `workspace.setup`."""
CHECKED = {
    "agents/courier/process.py": {"pidfd_open", "pidfd_send_signal", "/proc/self/fd/"},
    "documents/reading.py": {"/proc/self/fd"},
    "store/filesystem.py": {"/proc/self/mountinfo"},
    "store/flushing.py": {"/proc/meminfo"},
    "store/job_index.py": {"/proc/locks"},
    "store/lock.py": {"/proc/locks", "/proc/", "F_OFD_SETLK"},
    "workspace/files/clones.py": {"copy_file_range"},
    "workspace/git.py": {"memfd_create"},
}
"""What other modules use after they have checked that it is there, or that this is Linux."""


def read_list() -> dict[str, set[str]]:
    names: dict[str, set[str]] = {}
    module = ""
    for line in (Path(__file__).parent / "linux_only.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            module = line.strip("[]")
        elif module:
            names.setdefault(module, set()).update(line.split())
    return names


def list_names(body: list[ast.stmt], platform: str, version: tuple[int, int]) -> Iterator[str]:
    """The names that a stub defines for a system and a version of Python."""
    for statement in body:
        match statement:
            case ast.If():
                holds = is_true(statement.test, platform, version)
                yield from list_names(statement.body if holds else statement.orelse, platform, version)
            case ast.FunctionDef() | ast.ClassDef():
                yield statement.name
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                yield name
            case ast.ImportFrom(module=str(module), names=[ast.alias(name="*")]):
                path = TYPESHED / f"{module}.pyi"
                yield from list_names(ast.parse(path.read_text("utf-8")).body, platform, version)
            case ast.ImportFrom(names=names):
                yield from (name.asname or name.name for name in names)


def is_true(condition: ast.expr, platform: str, version: tuple[int, int]) -> bool:
    sys = ast.parse(
        f"type('sys', (), {{'platform': {platform!r}, 'version_info': {version!r}}})", mode="eval"
    )
    scope = {"sys": eval(compile(sys, "", "eval"))}
    return bool(eval(compile(ast.Expression(condition), "", "eval"), scope))


def test_the_list_is_that_of_typeshed() -> None:
    for module, names in read_list().items():
        if module == "libc":
            continue
        path = TYPESHED / module / "__init__.pyi"
        stub = ast.parse((path if path.exists() else TYPESHED / f"{module}.pyi").read_text("utf-8")).body
        expected = {
            name
            for version in VERSIONS
            for name in {*list_names(stub, "linux", version)} - {*list_names(stub, "darwin", version)}
        }
        assert names - ABSENT_UNTIL_3_13 == expected - ABSENT_UNTIL_3_13, module


def list_uses(tree: ast.Module, names: dict[str, set[str]]) -> Iterator[str]:
    """What a module uses of the names, of locks of parts of files, and of /proc."""
    libc = names["libc"]
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=module), attr=name) if name in names.get(module, ()):
                yield name
            case ast.Attribute(attr=name) if name in libc or name.startswith("F_OFD_"):
                yield name
            case ast.Constant(value=str() | bytes() as value):
                text = value if isinstance(value, str) else value.decode("latin-1")
                if text.startswith("/proc") or text in libc:
                    yield text


def test_no_other_code_uses_what_only_linux_has() -> None:
    names = read_list()
    every_name = "|".join(name for group in names.values() for name in group)
    any_name = re.compile(rf"""/proc|F_OFD_|[."']({every_name})\b""")
    used: dict[str, set[str]] = {}
    for path in sorted((ROOT / "logist").rglob("*.py")):
        module = path.relative_to(ROOT / "logist").as_posix()
        text = path.read_text("utf-8")
        if module != SYSTEMS and not module.startswith(ONLY_LINUX) and any_name.search(text):
            used[module] = set(list_uses(ast.parse(text), names))
    assert {module: uses for module, uses in used.items() if uses} == CHECKED
