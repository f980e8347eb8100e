"""Workflows by name or by file: the project's over the user's over the shipped ones."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote

from logist.core.model import Workflow
from logist.core.text.problem import WorkflowProblem
from logist.core.workflow.checking import Around, check
from logist.core.workflow.linting import lint
from logist.core.workflow.nesting import nested
from logist.core.workflow.places import Places, Read, meant
from logist.errors import UsageError
from logist.workflows.reading import SUFFIXES, readings

MAX_FILES = 1000
"""Of one directory; the rest is not looked at."""

Held = Callable[[Path], "list[LoadedWorkflow]"]
"""Every workflow of a file."""


@dataclass(frozen=True)
class LoadedWorkflow:
    """A workflow of a file, or None and why; `path` is where it was read from."""

    workflow: Workflow | None
    problems: tuple[WorkflowProblem, ...]
    """What reading it found, and what freezing it did; `problems_of` finds the rest."""
    path: Path
    places: Places = field(default_factory=Places)
    name: str = ""
    draft: Workflow | None = None
    """Of one with errors: what could be read, in which more errors may be found."""

    @property
    def errors(self) -> list[WorkflowProblem]:
        """What stops it from being used."""
        return [problem for problem in self.problems if problem.severity == "error"]


@dataclass(frozen=True)
class ListedWorkflow:
    """A workflow in a listing; `hides` is the path of one of the same name in a later directory."""

    loaded: LoadedWorkflow
    hides: Path | None = None


def directories(layers: Sequence[Path]) -> tuple[Path, ...]:
    """Where workflows are looked for by name, the first first; of `layers`, a later one wins."""
    return tuple(layer / "workflows" for layer in reversed(layers))


def load(name: str, directories: Sequence[Path], here: Path | None = None) -> LoadedWorkflow:
    """The workflow of a file, `FILE#NAME`, or of that name in the first directory that has one.

    `directories` are searched in their order, the strongest first; a file is taken relative to `here`. The body
    of a loop is named as a workflow of its file. UsageError if there is none, or if a file has several and none
    is named.
    """
    return _load(name, directories, here, _all)


def _load(name: str, directories: Sequence[Path], here: Path | None, held: Held) -> LoadedWorkflow:
    path, _, wanted = name.partition("#")
    if not path:
        raise UsageError(
            f"`{name}` names no workflow", fix="give a file or a name; FILE#NAME for one of several"
        )
    if file := _file(path, here):
        return _chosen(file, wanted, held)
    for directory in directories:
        if found := _in(directory, path, wanted, held):
            return found
    several = next((file for directory in directories for file in _alike(directory, path)), None)
    if several is not None:
        return _chosen(several, wanted, held)
    known = [one.loaded.name for one in _listed(directories, held)]
    raise UsageError(f"there is no workflow `{name}`", fix=meant(path, known) or "give the path of a file")


def listed(directories: Sequence[Path]) -> list[ListedWorkflow]:
    """Every workflow that can be named, broken ones too, by name; of two with one name, the stronger."""
    return _listed(directories, _all)


def _listed(directories: Sequence[Path], held: Held) -> list[ListedWorkflow]:
    found: dict[str, ListedWorkflow] = {}
    for directory in directories:
        here: dict[str, ListedWorkflow] = {}
        for file in _files(directory):
            for loaded in held(file):
                if _is_no_workflow(loaded):
                    continue
                if loaded.name in found:
                    stronger = found[loaded.name]
                    if stronger.hides is None:
                        found[loaded.name] = ListedWorkflow(stronger.loaded, file)
                else:
                    here.setdefault(loaded.name, ListedWorkflow(loaded))
        found |= here
    return [found[name] for name in sorted(found, key=lambda name: (name.casefold(), name))]


def frozen(loaded: LoadedWorkflow, directories: Sequence[Path]) -> LoadedWorkflow:
    """The same with every workflow that its steps name in `subflows`; with an error, none."""
    if loaded.workflow is None:
        return loaded
    found = nested(loaded.workflow, WorkflowFinder(loaded.path, directories), loaded.places)
    whole = loaded.workflow.model_copy(
        update={"subflows": {name: _bare(inner) for name, inner in found.subflows.items()}}
    )
    problems = tuple(dict.fromkeys((*loaded.problems, *found.problems)))
    workflow = None if found.problems else whole
    return LoadedWorkflow(workflow, problems, loaded.path, loaded.places, loaded.name, whole)


def problems_of(
    loaded: LoadedWorkflow, directories: Sequence[Path], around: Around | None = None
) -> list[WorkflowProblem]:
    """Everything that is wrong with a workflow, and the warnings about it, in the order of the file.

    `around` says which roles there are; other workflows are looked for in its file and on the search path.
    """
    draft = loaded.draft
    if draft is None:
        return list(loaded.problems)
    around = replace(around or Around(), find=WorkflowFinder(loaded.path, directories))
    found = [*loaded.problems, *check(draft, around, loaded.places), *lint(draft, loaded.places)]
    return sorted(dict.fromkeys(found), key=lambda problem: (problem.line or 0, problem.column or 0))


class WorkflowFinder:
    """Looks for the workflows that steps name; each file is read once.

    After the file itself and the search path come the directories of the files that were found so far, so that
    a workflow finds its neighbours.
    """

    def __init__(self, path: Path, directories: Sequence[Path]) -> None:
        self.path = path
        self.directories = [*directories]
        self._held: dict[Path, list[LoadedWorkflow]] = {}
        self._neighbours(path)

    def __call__(self, name: str) -> Workflow:
        """The workflow of that name. LookupError with the reason."""
        found = self._sibling(name)
        if found is None:
            try:
                found = _load(name, self.directories, self.path.parent, self._read)
            except UsageError as error:
                raise LookupError(f"{error.message}{f' ({error.fix})' if error.fix else ''}") from error
        if found.workflow is None or found.errors:
            first = found.errors[0]
            place = f"{found.path}:{first.line}" if first.line else str(found.path)
            raise LookupError(f"the workflow `{name}` is broken: {place}: {first.said}")
        self._neighbours(found.path)
        return found.workflow

    def _sibling(self, name: str) -> LoadedWorkflow | None:
        siblings = self._read(self.path) if os.path.isfile(self.path) else []
        return _best(siblings, name) if len(siblings) > 1 else None

    def _read(self, file: Path) -> list[LoadedWorkflow]:
        if file not in self._held:
            self._held[file] = _all(file)
        return self._held[file]

    def _neighbours(self, file: Path) -> None:
        if file.parent not in self.directories:
            self.directories.append(file.parent)


def _bare(workflow: Workflow) -> Workflow:
    """Only the outermost workflow has the others."""
    return workflow.model_copy(update={"subflows": {}})


def _file(path: str, here: Path | None) -> Path | None:
    """The file a name stands for, if it is one: it has a suffix of ours, or a slash."""
    if not path.lower().endswith(SUFFIXES) and "/" not in path:
        return None
    file = (here or Path()) / path
    if os.path.isfile(file):
        return file
    if "/" in path or os.path.exists(file):
        raise UsageError(f"there is no workflow file `{path}`", fix="check the path")
    return None


def _chosen(file: Path, wanted: str, held: Held) -> LoadedWorkflow:
    """The workflow of that name in a file, or its only one."""
    found = held(file)
    if not wanted and len(found) == 1:
        return found[0]
    names = [loaded.name for loaded in found]
    if not wanted:
        first = quote(f"{file}#{names[0]}")
        fix = f"name one, as in {first}: {', '.join(names)}"
        raise UsageError(f"{file} holds {len(found)} workflows", fix=fix)
    best = _best(found, wanted) or _body(found, lambda name: name == wanted or name.endswith(f"#{wanted}"))
    if best is None:
        bodies = [name for loaded in found if loaded.draft for name in loaded.draft.subflows]
        raise UsageError(f"{file} has no workflow `{wanted}`", fix=meant(wanted, names + bodies) or None)
    return best


def _in(directory: Path, name: str, wanted: str, held: Held) -> LoadedWorkflow | None:
    """The workflow of that name, or that file's, in one directory."""
    for file in _alike(directory, name):
        if wanted or len(held(file)) == 1:
            return _chosen(file, wanted, held)
    every = [loaded for file in _files(directory) for loaded in held(file)]
    return _body(every, f"{name}#{wanted}".__eq__) if wanted else _best(every, name)


def _alike(directory: Path, name: str) -> list[Path]:
    """The files of a directory that a name may stand for, those that are called exactly so first."""
    files = _files(directory)
    exact = [file for file in files if name in (file.stem, file.name)]
    return exact + [file for file in files if file not in exact and _similar(file.stem, name)]


def _body(found: Sequence[LoadedWorkflow], is_meant: Callable[[str], bool]) -> LoadedWorkflow | None:
    """The body of a loop as a workflow of its own, with the others that its steps may name."""
    for loaded in found:
        held = loaded.draft.subflows if loaded.draft else {}
        for name in filter(is_meant, held):
            body = held[name].model_copy(update={"subflows": held})
            if loaded.workflow is None:
                return LoadedWorkflow(None, loaded.problems, loaded.path, loaded.places, name, body)
            return LoadedWorkflow(body, (), loaded.path, Places(), name, body)
    return None


def _best(found: Sequence[LoadedWorkflow], name: str) -> LoadedWorkflow | None:
    for alike in (_same, _similar):
        for loaded in found:
            if alike(loaded.name, name):
                return loaded
    return None


def _same(one: str, other: str) -> bool:
    return one == other


def _similar(one: str, other: str) -> bool:
    """`Security Scan` is as good as `security-scan`."""
    return bool(_words(one)) and _words(one) == _words(other)


def _words(name: str) -> list[str]:
    return re.findall(r"[^\W_]+", name.casefold())


def _files(directory: Path) -> list[Path]:
    """The workflow files of a directory, which need not be there."""
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return []
    paths = [directory / name for name in names if not name.startswith(".")]
    return [path for path in paths if path.suffix.lower() in SUFFIXES and not os.path.isdir(path)][:MAX_FILES]


def _all(file: Path) -> list[LoadedWorkflow]:
    return [_loaded(read, file) for read in readings(file)]


def _is_no_workflow(loaded: LoadedWorkflow) -> bool:
    """A page without a diagram is no broken workflow: it lies there to be read."""
    return any(problem.code == "no_diagram" for problem in loaded.problems)


def _loaded(read: Read, file: Path) -> LoadedWorkflow:
    workflow = None if read.broken else read.workflow
    return LoadedWorkflow(workflow, read.problems, file, read.places, read.name, read.workflow)
