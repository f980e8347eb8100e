"""Which roles wrote a value in the data of a job, also where it came through the input of the job or from its children.

An agent that names the role of an item must not get work done by a role that its own may give none. So what counts is
who wrote the name, whatever steps and jobs handed it on. A person, who gives a job its input, may name any role.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from logist.core.history import fold
from logist.core.machine import kinds
from logist.core.model import Interaction, Kind, Phase, Step, StepType, Workflow
from logist.core.model.commands import ApproveCommand, CollectCommand, SpawnCommand
from logist.core.text import paths
from logist.errors import LogistError
from logist.jobs.base.project import Project
from logist.jobs.base.session import Session, load

NOBODY: frozenset[str] = frozenset()


def find_writers(session: Session, path: Sequence[str | int]) -> frozenset[str]:
    """The roles of the agents that wrote the value at a path of the job's data."""
    return _Job(session).writers(path)


class _Job:
    """A job whose data are looked at: its state, its workflow, and the interactions that led there."""

    def __init__(self, session: Session) -> None:
        entries = session.history()
        self.id, self.project, self.state = session.job.id, session.project, session.state
        self.flow = next((entry.spec.workflow for entry in reversed(entries) if entry.spec), None)
        self.entries = _leading_here(entries)

    def writers(self, path: Sequence[str | int]) -> frozenset[str]:
        """Of a value in the data; several where it has parts by different roles."""
        root, *inside = path or ("",)
        outputs = self.state.outputs
        if root == "output":
            return self._of_outputs([self.state.output_of])
        if root == "steps":
            return self._of_outputs([str(inside[0])] if inside else outputs)
        if root == "aggregatedResults":
            return self._of_outputs([name for name in outputs if _is_given_away(self.flow, name)])
        if root == "":
            return self._of_outputs(outputs) | self._of_given(())
        if root != "input":
            return self._of_given(path)
        laid_over = [name for name in self._laid_over_input() if isinstance(outputs.get(name), dict)]
        if not inside:
            return self._of_outputs(laid_over) | self._of_given(())
        having = [name for name in laid_over if str(inside[0]) in outputs[name]]
        return self._of_outputs(having[-1:]) if having else self._of_given(inside)

    def _laid_over_input(self) -> list[str]:
        """The steps whose output the input shows, the later over the earlier (see core.template.data)."""
        all_stay = self.flow is not None and self.flow.foreign
        last = self.state.output_of
        return [*(self.state.outputs if all_stay else ()), *([last] if last else [])]

    def _of_outputs(self, steps: Iterable[str | None]) -> frozenset[str]:
        return NOBODY.union(*(self._of_output(name) for name in steps if name))

    def _of_output(self, step_id: str) -> frozenset[str]:
        """The roles that wrote the output of a step; nobody where a person did."""
        for entry in reversed(self.entries):
            if entry.step != step_id:
                continue
            command = kinds.command_of(entry)
            if isinstance(command, ApproveCommand) and command.gives_output:
                return NOBODY
            if isinstance(command, CollectCommand) and command.gathered == "reached":
                return NOBODY.union(*(self._of_child(child.id) for child in command.children))
            seen = entry.observed
            if (
                entry.kind is Kind.ASK
                and seen
                and seen.phase is Phase.DOER
                and entry.response.output is not None
            ):
                return frozenset({seen.role})
        return NOBODY

    def _of_child(self, job_id: str) -> frozenset[str]:
        """The roles that wrote the output of a child; the one it was given to where it can't be read any more."""
        try:
            child = _Job(load(self.project, self.project.job(job_id)))
        except LogistError:
            spawns = (each for each in map(kinds.command_of, self.entries) if isinstance(each, SpawnCommand))
            return frozenset(each.role for spawn in spawns for each in spawn.children if each.id == job_id)
        return child._of_outputs([child.state.output_of or child.state.step])

    def _of_given(self, path: Sequence[str | int]) -> frozenset[str]:
        """The roles that wrote a value of what the job was given: nobody, unless it does a part of another job."""
        above = _above(self.project, self.state.parent)
        spawned = above.state.spawned if above else None
        step = above.flow.step(spawned.step) if above and above.flow and spawned else None
        if above is None or step is None or self.id not in above.state.children:
            return NOBODY
        return NOBODY.union(*(above.writers(source) for source in _sources(step, path)))


def _sources(step: Step, path: Sequence[str | int]) -> list[Sequence[str | int]]:
    """Where in the data of a job stands what the jobs of a step were given at a path of their input."""
    mapped = {name: paths.parse(source) for name, source in step.input_mapping.items()}
    if step.step_type is StepType.FOREACH and step.items_path:
        mapped[step.item_variable] = paths.parse(step.items_path)
    if not path:
        return [*mapped.values(), *([] if step.input_mapping else [("input",)])]
    name = str(path[0])
    if name in mapped:
        return [mapped[name]]
    return [] if step.input_mapping else [("input", *path)]


def _above(project: Project, parent: str | None) -> _Job | None:
    return _Job(load(project, project.job(parent))) if parent else None


def _is_given_away(flow: Workflow | None, step_id: str) -> bool:
    step = flow.step(step_id) if flow else None
    return step is not None and step.step_type in (StepType.FOREACH, StepType.SUBFLOW)


def _leading_here(entries: Sequence[Interaction]) -> list[Interaction]:
    """The interactions that the state is made of: without those that a restep or a rerun has taken back."""
    targets = {fold.restep_target(entry) for entry in entries if entry.kind is Kind.RESTEP}
    kept: list[Interaction] = []
    before: dict[int, list[Interaction]] = {}
    for entry in entries:
        if entry.sequence in targets:
            before[entry.sequence] = list(kept)
        if entry.kind is Kind.RESTEP:
            kept = list(before.get(fold.restep_target(entry), kept))
        elif entry.kind is Kind.RERUN:
            kept = []
        kept.append(entry)
    return kept
