"""Finds the roles that wrote a value in the data of a job, also through the job's input or its children.

An agent that names the role of an item must not delegate work to a role that its own role may not delegate
to. So the role that wrote the name counts, whichever steps and jobs passed it on. A person, who writes the
input of a job, may name any role.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from logist.core.history import fold
from logist.core.machine import kinds
from logist.core.model import Interaction, Kind, Phase, Step, StepType, Workflow
from logist.core.model.commands import ApproveCommand, CollectCommand, SpawnCommand
from logist.core.template import data
from logist.core.text import paths
from logist.errors import LogistError
from logist.jobs.base.project import ProjectContext
from logist.jobs.base.session import Session, load_session

NOBODY: frozenset[str] = frozenset()


def find_writers(session: Session, path: Sequence[str | int]) -> frozenset[str]:
    """The roles of the agents that wrote the value at a path of the job's data."""
    return _Job(session).find_value_writers(path)


class _Job:
    """A job whose data are traced: its state, its workflow, and its effective interactions."""

    def __init__(self, session: Session) -> None:
        entries = session.load_history()
        self.id, self.project, self.state = session.job.id, session.project, session.state
        self.flow = next((entry.spec.workflow for entry in reversed(entries) if entry.spec), None)
        self.entries = _select_effective(entries)

    def find_value_writers(self, path: Sequence[str | int]) -> frozenset[str]:
        """The roles that wrote a value in the data; several if its parts are by different roles."""
        root, *inside = path or ("",)
        outputs = self.state.outputs
        if root == "output":
            return self._find_output_writers([data.find_step_before(self.state)])
        if root == "steps":
            return self._find_output_writers([str(inside[0])] if inside else outputs)
        if root == "aggregatedResults":
            return self._find_output_writers([name for name in outputs if _is_delegated(self.flow, name)])
        if root == "":
            return self._find_output_writers(outputs) | self._find_input_writers(())
        if root != "input":
            return self._find_input_writers(path)
        overlaid = [name for name in self._list_overlaid_steps() if isinstance(outputs.get(name), dict)]
        if not inside:
            return self._find_output_writers(overlaid) | self._find_input_writers(())
        providers = [name for name in overlaid if str(inside[0]) in outputs[name]]
        return self._find_output_writers(providers[-1:]) if providers else self._find_input_writers(inside)

    def _list_overlaid_steps(self) -> list[str]:
        """The steps whose output overrides the input; later ones override earlier ones (see core.template.data)."""
        all_stay = self.flow is not None and self.flow.foreign
        last = data.find_step_before(self.state)
        return [*(self.state.outputs if all_stay else ()), *([last] if last else [])]

    def _find_output_writers(self, steps: Iterable[str | None]) -> frozenset[str]:
        return NOBODY.union(*(self._find_step_writers(name) for name in steps if name))

    def _find_step_writers(self, step_id: str) -> frozenset[str]:
        """The roles that wrote the output of a step; none if a person did."""
        for entry in reversed(self.entries):
            if entry.step != step_id:
                continue
            command = kinds.command_of(entry)
            if isinstance(command, ApproveCommand) and command.gives_output:
                return NOBODY
            if isinstance(command, CollectCommand) and command.gathered == "reached":
                return NOBODY.union(*(self._find_child_writers(child.id) for child in command.children))
            observed = entry.observed
            if (
                entry.kind is Kind.ASK
                and observed
                and observed.phase is Phase.DOER
                and entry.response.output is not None
            ):
                return frozenset({observed.role})
        return NOBODY

    def _find_child_writers(self, job_id: str) -> frozenset[str]:
        """The roles that wrote the output of a child; the role planned for it if
        the child can't be read any more.
        """
        try:
            child = _Job(load_session(self.project, self.project.open_job(job_id)))
        except LogistError:
            spawns = (each for each in map(kinds.command_of, self.entries) if isinstance(each, SpawnCommand))
            return frozenset(each.role for spawn in spawns for each in spawn.children if each.id == job_id)
        return child._find_output_writers([child.state.output_of or child.state.step])

    def _find_input_writers(self, path: Sequence[str | int]) -> frozenset[str]:
        """The roles that wrote a value of the job's input: none, unless it is a child job."""
        above = _load_parent(self.project, self.state.parent)
        spawned = above.state.spawned if above else None
        step = above.flow.find_step(spawned.step) if above and above.flow and spawned else None
        if above is None or step is None or self.id not in above.state.children:
            return NOBODY
        return NOBODY.union(*(above.find_value_writers(source) for source in _find_source_paths(step, path)))


def _find_source_paths(step: Step, path: Sequence[str | int]) -> list[Sequence[str | int]]:
    """The paths in a job's data that its children got at a path of their input."""
    mapped = {name: paths.parse(source) for name, source in step.input_mapping.items()}
    if step.step_type is StepType.FOREACH and step.items_path:
        mapped[step.item_variable] = paths.parse(step.items_path)
    if not path:
        return [*mapped.values(), *([] if step.input_mapping else [("input",)])]
    name = str(path[0])
    if name in mapped:
        return [mapped[name]]
    return [] if step.input_mapping else [("input", *path)]


def _load_parent(project: ProjectContext, parent: str | None) -> _Job | None:
    return _Job(load_session(project, project.open_job(parent))) if parent else None


def _is_delegated(flow: Workflow | None, step_id: str) -> bool:
    step = flow.find_step(step_id) if flow else None
    return step is not None and step.step_type in (StepType.FOREACH, StepType.SUBFLOW)


def _select_effective(entries: Sequence[Interaction]) -> list[Interaction]:
    """The interactions that the state results from: without those that a restep or a rerun has reverted."""
    targets = {fold.read_restep_target(entry) for entry in entries if entry.kind is Kind.RESTEP}
    effective: list[Interaction] = []
    effective_before: dict[int, list[Interaction]] = {}
    for entry in entries:
        if entry.sequence in targets:
            effective_before[entry.sequence] = list(effective)
        if entry.kind is Kind.RESTEP:
            effective = list(effective_before.get(fold.read_restep_target(entry), effective))
        elif entry.kind is Kind.RERUN:
            effective = []
        effective.append(entry)
    return effective
