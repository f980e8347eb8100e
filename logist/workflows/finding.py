"""Finds workflows by name or by file: the project's first, then the user's, then the shipped ones."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from pathlib import Path
from shlex import quote

from logist.core.model import Workflow
from logist.core.text.problem import WorkflowProblem
from logist.core.workflow.checking import Around, check_workflow
from logist.core.workflow.linting import lint_workflow
from logist.core.workflow.nesting import find_nested_workflows
from logist.core.workflow.places import Places, Read, suggest_name
from logist.errors import UsageError
from logist.quick_dataclass import dataclass
from logist.workflows.reading import SUFFIXES, read_workflow_file

MAX_FILES = 1000
"""The most files to read in one directory; the rest is ignored."""

Held = Callable[[Path], "list[LoadedWorkflow]"]
"""Returns every workflow of a file."""


@dataclass(frozen=True)
class LoadedWorkflow:
    """A workflow of a file, or None and the reasons; `path` is where it was read from."""

    workflow: Workflow | None
    problems: tuple[WorkflowProblem, ...]
    """Problems found while reading and freezing it; `find_workflow_problems` finds the rest."""
    path: Path
    places: Places = field(default_factory=Places)
    name: str = ""
    draft: Workflow | None = None
    """The valid parts of a workflow with errors, used to find more errors."""

    @property
    def errors(self) -> list[WorkflowProblem]:
        """The problems that make it unusable."""
        return [problem for problem in self.problems if problem.severity == "error"]


@dataclass(frozen=True)
class ListedWorkflow:
    """A workflow in a listing; `hides` is the path of one of the same name in a later directory."""

    loaded: LoadedWorkflow
    hides: Path | None = None


def list_workflow_search_path(layers: Sequence[Path]) -> tuple[Path, ...]:
    """Return the directories to search for workflows, strongest first.

    In `layers`, a later one is stronger.
    """
    return tuple(layer / "workflows" for layer in reversed(layers))


def load_workflow(name: str, directories: Sequence[Path], here: Path | None = None) -> LoadedWorkflow:
    """Load the workflow of a file, `FILE#NAME`, or of that name in the first directory that has one.

    `directories` are searched in order, the strongest first; a file path is relative to `here`. The body of a
    loop is named like a workflow of its file. Raises UsageError if there is none, or if a file has several
    and none is named.
    """
    return _find_workflow(name, directories, here, _read_all)


def _find_workflow(name: str, directories: Sequence[Path], here: Path | None, held: Held) -> LoadedWorkflow:
    path, _, inner_name = name.partition("#")
    if not path:
        raise UsageError(
            f"missing file or workflow name in `{name}`",
            fix="use a file or a name; FILE#NAME for one of several",
        )
    if file := _resolve_file(path, here):
        return _choose_workflow(file, inner_name, held)
    for directory in directories:
        if found := _find_in_directory(directory, path, inner_name, held):
            return found
    several_file = next(
        (file for directory in directories for file in _find_similar_files(directory, path)), None
    )
    if several_file is not None:
        return _choose_workflow(several_file, inner_name, held)
    known_names = [one.loaded.name for one in _list_workflows(directories, held)]
    raise UsageError(
        f"workflow `{name}` not found", fix=suggest_name(path, known_names) or "use the path of a file"
    )


def list_workflows(directories: Sequence[Path]) -> list[ListedWorkflow]:
    """Return every workflow that can be named, including broken ones, by name.

    Of two with the same name, the stronger is listed.
    """
    return _list_workflows(directories, _read_all)


def _list_workflows(directories: Sequence[Path], held: Held) -> list[ListedWorkflow]:
    by_name: dict[str, ListedWorkflow] = {}
    for directory in directories:
        of_directory: dict[str, ListedWorkflow] = {}
        for file in _list_files(directory):
            for loaded in held(file):
                if _has_no_diagram(loaded):
                    continue
                if loaded.name in by_name:
                    stronger = by_name[loaded.name]
                    if stronger.hides is None:
                        by_name[loaded.name] = ListedWorkflow(stronger.loaded, file)
                else:
                    of_directory.setdefault(loaded.name, ListedWorkflow(loaded))
        by_name |= of_directory
    return [by_name[name] for name in sorted(by_name, key=lambda name: (name.casefold(), name))]


def freeze_subflows(loaded: LoadedWorkflow, directories: Sequence[Path]) -> LoadedWorkflow:
    """Return the workflow with every workflow that its steps name in `subflows`.

    If there is an error, its `workflow` is None.
    """
    if loaded.workflow is None:
        return loaded
    nested_result = find_nested_workflows(
        loaded.workflow, WorkflowFinder(loaded.path, directories), loaded.places
    )
    complete = loaded.workflow.model_copy(
        update={"subflows": {name: _remove_subflows(inner) for name, inner in nested_result.subflows.items()}}
    )
    problems = tuple(dict.fromkeys((*loaded.problems, *nested_result.problems)))
    workflow = None if nested_result.problems else complete
    return LoadedWorkflow(workflow, problems, loaded.path, loaded.places, loaded.name, complete)


def find_workflow_problems(
    loaded: LoadedWorkflow, directories: Sequence[Path], around: Around | None = None
) -> list[WorkflowProblem]:
    """Return all problems of a workflow, warnings included, in the order of the file.

    `around` says which roles exist; other workflows are searched in its file and on the search path.
    """
    draft = loaded.draft
    if draft is None:
        return list(loaded.problems)
    around = replace(around or Around(), find=WorkflowFinder(loaded.path, directories))
    problems = [
        *loaded.problems,
        *check_workflow(draft, around, loaded.places),
        *lint_workflow(draft, loaded.places),
    ]
    return sorted(dict.fromkeys(problems), key=lambda problem: (problem.line or 0, problem.column or 0))


class WorkflowFinder:
    """Finds the workflows that steps name; each file is read once.

    After the file itself and the search path, the directories of the files found so far are searched, so that
    a workflow finds the workflows next to it.
    """

    def __init__(self, path: Path, directories: Sequence[Path]) -> None:
        self.path = path
        self.directories = [*directories]
        self._held: dict[Path, list[LoadedWorkflow]] = {}
        self._add_neighbours(path)

    def __call__(self, name: str) -> Workflow:
        """Return the workflow of that name. Raises LookupError with the reason."""
        loaded = self._find_sibling(name)
        if loaded is None:
            try:
                loaded = _find_workflow(name, self.directories, self.path.parent, self._read_file)
            except UsageError as error:
                raise LookupError(f"{error.message}{f' ({error.fix})' if error.fix else ''}") from error
        if loaded.workflow is None or loaded.errors:
            first = loaded.errors[0]
            place = f"{loaded.path}:{first.line}" if first.line else str(loaded.path)
            raise LookupError(f"the workflow `{name}` is invalid: {place}: {first.full_message}")
        self._add_neighbours(loaded.path)
        return loaded.workflow

    def _find_sibling(self, name: str) -> LoadedWorkflow | None:
        siblings = self._read_file(self.path) if os.path.isfile(self.path) else []
        return _find_best_match(siblings, name) if len(siblings) > 1 else None

    def _read_file(self, file: Path) -> list[LoadedWorkflow]:
        if file not in self._held:
            self._held[file] = _read_all(file)
        return self._held[file]

    def _add_neighbours(self, file: Path) -> None:
        if file.parent not in self.directories:
            self.directories.append(file.parent)


def _remove_subflows(workflow: Workflow) -> Workflow:
    """Remove the subflows: only the outermost workflow keeps them."""
    return workflow.model_copy(update={"subflows": {}})


def _resolve_file(path: str, here: Path | None) -> Path | None:
    """Return the file if the name is one: it has a workflow suffix or a slash."""
    if not path.lower().endswith(SUFFIXES) and "/" not in path:
        return None
    file = (here or Path()) / path
    if os.path.isfile(file):
        return file
    if "/" in path or os.path.exists(file):
        raise UsageError(f"workflow file `{path}` not found", fix="check the path")
    return None


def _choose_workflow(file: Path, wanted: str, held: Held) -> LoadedWorkflow:
    """Return the workflow of that name in a file, or its only one."""
    workflows = held(file)
    if not wanted and len(workflows) == 1:
        return workflows[0]
    names = [loaded.name for loaded in workflows]
    if not wanted:
        first = quote(f"{file}#{names[0]}")
        fix = f"choose one, for example {first}: {', '.join(names)}"
        raise UsageError(f"{file} contains {len(workflows)} workflows", fix=fix)
    best = _find_best_match(workflows, wanted) or _find_loop_body(
        workflows, lambda name: name == wanted or name.endswith(f"#{wanted}")
    )
    if best is None:
        bodies = [name for loaded in workflows if loaded.draft for name in loaded.draft.subflows]
        raise UsageError(
            f"{file} has no workflow `{wanted}`", fix=suggest_name(wanted, names + bodies) or None
        )
    return best


def _find_in_directory(directory: Path, name: str, wanted: str, held: Held) -> LoadedWorkflow | None:
    """Return the workflow of that name, or of the file of that name, in one directory."""
    for file in _find_similar_files(directory, name):
        if wanted or len(held(file)) == 1:
            return _choose_workflow(file, wanted, held)
    workflows = [loaded for file in _list_files(directory) for loaded in held(file)]
    return (
        _find_loop_body(workflows, f"{name}#{wanted}".__eq__) if wanted else _find_best_match(workflows, name)
    )


def _find_similar_files(directory: Path, name: str) -> list[Path]:
    """Return the files of a directory that a name may mean, exact matches first."""
    files = _list_files(directory)
    exact = [file for file in files if name in (file.stem, file.name)]
    return exact + [file for file in files if file not in exact and _is_similar_name(file.stem, name)]


def _find_loop_body(
    found: Sequence[LoadedWorkflow], is_meant: Callable[[str], bool]
) -> LoadedWorkflow | None:
    """Return the body of a loop as a separate workflow, with the others that its steps may name."""
    for loaded in found:
        bodies = loaded.draft.subflows if loaded.draft else {}
        for name in filter(is_meant, bodies):
            body = bodies[name].model_copy(update={"subflows": bodies})
            if loaded.workflow is None:
                return LoadedWorkflow(None, loaded.problems, loaded.path, loaded.places, name, body)
            return LoadedWorkflow(body, (), loaded.path, Places(), name, body)
    return None


def _find_best_match(found: Sequence[LoadedWorkflow], name: str) -> LoadedWorkflow | None:
    for alike in (_is_same_name, _is_similar_name):
        for loaded in found:
            if alike(loaded.name, name):
                return loaded
    return None


def _is_same_name(one: str, other: str) -> bool:
    return one == other


def _is_similar_name(one: str, other: str) -> bool:
    """True for names of the same words: `Security Scan` matches `security-scan`."""
    return bool(_split_words(one)) and _split_words(one) == _split_words(other)


def _split_words(name: str) -> list[str]:
    return re.findall(r"[^\W_]+", name.casefold())


def _list_files(directory: Path) -> list[Path]:
    """Return the workflow files of a directory; none if it does not exist."""
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return []
    paths = [directory / name for name in names if not name.startswith(".")]
    return [path for path in paths if path.suffix.lower() in SUFFIXES and not os.path.isdir(path)][:MAX_FILES]


def _read_all(file: Path) -> list[LoadedWorkflow]:
    return [_make_loaded(read, file) for read in read_workflow_file(file)]


def _has_no_diagram(loaded: LoadedWorkflow) -> bool:
    """True for a page without a diagram: it is not a broken workflow, only text."""
    return any(problem.code == "no_diagram" for problem in loaded.problems)


def _make_loaded(read: Read, file: Path) -> LoadedWorkflow:
    workflow = None if read.is_broken else read.workflow
    return LoadedWorkflow(workflow, read.problems, file, read.places, read.name, read.workflow)
