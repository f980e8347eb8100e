"""Logist as a later version might be: `python with_later_fields.py MODULE:CLASS ...` adds two optional fields to models.

The source of each class gets two more lines before it is compiled, so all that is made of it (subclasses, dumps, what
a config may say) is as if they stood there. Then it verifies and replays the jobs of the project in the working
directory, steps some, and verifies and replays again. Prints each command with its exit code and what it wrote, as
JSON. Without arguments it does the same with the models as they are.
"""

from __future__ import annotations

import ast
import json
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from tests.support import run_in_process

FIELDS = "    later_word: str | None = None\n    later_count: int = 0\n"
STEPPED = ("checked", "doubtful", "flow", "halted")


class Finder(MetaPathFinder):
    """Finds these modules, and loads each with more fields in some of its classes."""

    def __init__(self, owners: dict[str, list[str]]) -> None:
        self.owners = owners

    def find_spec(
        self, name: str, path: object = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name in self.owners else None  # type: ignore[arg-type]
        if spec is not None and spec.origin is not None:
            spec.loader = Loader(name, spec.origin, self.owners[name])
        return spec


class Loader(SourceFileLoader):
    """Compiles the source anew: what is cached is that of the file."""

    def __init__(self, module: str, path: str, owners: list[str]) -> None:
        super().__init__(module, path)
        self.owners = owners

    def get_code(self, fullname: str) -> CodeType:
        source = Path(self.path).read_text("utf-8")
        for owner in self.owners:
            source = add_fields(source, owner)
        return self.source_to_code(source.encode("utf-8"), self.path)


def add_fields(source: str, owner: str) -> str:
    """The source with FIELDS behind the last field of the class."""
    found = next(
        node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == owner
    )
    last = [node for node in found.body if isinstance(node, ast.AnnAssign)][-1]
    lines = source.splitlines(keepends=True)
    return "".join([*lines[: last.end_lineno], FIELDS, *lines[last.end_lineno :]])


def work() -> list[tuple[str, int, str]]:
    """What each command came to."""
    jobs = sorted(path.parent.name for path in Path(".logist/jobs").glob("*/jobHistory.json"))
    histories = [f".logist/jobs/{job}" for job in jobs]
    replay, drift = ["replay", "--prompts", "accept", *histories], ["replay", "--prompts", "warn", *histories]
    commands = [
        ["trust", "--yes"],
        *(["job", "verify", job] for job in jobs),
        replay,
        drift,
        *(["job", "step", job] for job in STEPPED),
        *(["job", "verify", job] for job in STEPPED),
        replay,
        drift,
    ]
    done = []
    for command in commands:
        ran = run_in_process(*command)
        done.append((" ".join(command[:3]), ran.code, ran.out + ran.err))
    return done


def main(*classes: str) -> None:
    owners: dict[str, list[str]] = {}
    for module, _, owner in (each.partition(":") for each in classes):
        owners.setdefault(module, []).append(owner)
    sys.meta_path.insert(0, Finder(owners))
    done = work()
    for module, names in owners.items():
        for name in names:
            assert {"later_word", "later_count"} <= set(getattr(sys.modules[module], name).model_fields)
    sys.stdout.write(json.dumps(done))


if __name__ == "__main__":
    main(*sys.argv[1:])
