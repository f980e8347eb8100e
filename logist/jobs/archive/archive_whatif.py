"""Replays an archive of recorded jobs under changed rules, and sums up what that would have saved or cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from pathlib import Path

from referencing.exceptions import Unresolvable

from logist.core.model import JsonObject, Permissions, Workflow
from logist.core.whatif import ChangedRules, RoleCalls, WhatIfRun, WhatIfSpending, run
from logist.errors import InvalidFile, LogistError, UsageError
from logist.jobs.archive import originals
from logist.jobs.archive.recorded_jobs import Archive, catch_read_errors
from logist.quick_dataclass import dataclass
from logist.roles import load_roles, role_hash

NOTHING = WhatIfSpending()


@dataclass(frozen=True)
class Tried:
    """One recorded job under the changed rules."""

    name: str
    run: WhatIfRun | None
    """None if the history can't be read."""
    error: LogistError | None = None
    differs_anyway: bool = False
    """Today it also ends differently without the change, so it says little about the change."""

    @property
    def elsewhere(self) -> bool:
        """True if it ends in another state than recorded."""
        return self.run is not None and not self.run.same_end

    @property
    def another_way(self) -> bool:
        """True if it takes another path to the same end."""
        return self.run is not None and self.run.same_end and self.run.differs_at is not None


@dataclass(frozen=True)
class Total:
    """The sums over all jobs of an archive."""

    jobs: int = 0
    elsewhere: int = 0
    another_way: int = 0
    damaged: int = 0
    differs_anyway: int = 0
    saved: WhatIfSpending = NOTHING
    open: WhatIfSpending = NOTHING
    needs: int = 0
    """The minimum number of calls without a recorded answer."""
    estimate: int | None = None
    """What those would cost, in microcents, at the mean cost of recorded calls of the same role; None if unknown."""
    spared: int = 0
    refused_calls: int = 0
    """Recorded tool calls that the permissions would have refused."""


@dataclass
class WhatIfTotals:
    """Adds up the results one by one; keeps no run."""

    _sum: Total = field(default_factory=Total)
    _needs: Counter[str] = field(default_factory=Counter)
    _calls: dict[str, RoleCalls] = field(default_factory=dict)
    roles: set[str] = field(default_factory=set)
    """The roles that have recorded answers."""
    checks: set[str] = field(default_factory=set)
    """The checks that have recorded results."""
    follow: int = 0
    """Jobs that follow the workflow under test."""

    def add(self, tried: Tried) -> None:
        """Add one result."""
        done, found = self._sum, tried.run
        self._sum = replace(
            done,
            jobs=done.jobs + 1,
            elsewhere=done.elsewhere + tried.elsewhere,
            another_way=done.another_way + tried.another_way,
            damaged=done.damaged + (tried.error is not None),
            differs_anyway=done.differs_anyway + tried.differs_anyway,
            saved=done.saved + (found.saved if found else NOTHING),
            open=done.open + (found.open if found else NOTHING),
            needs=done.needs + (len(found.needs) if found else 0),
            spared=done.spared + (found.spared if found else 0),
            refused_calls=done.refused_calls
            + sum(call.count for call in (found.refused_calls if found else ())),
        )
        if found:
            self._needs.update(found.needs)
            self.roles |= found.roles
            self.checks |= found.checks
            self.follow += found.follows
            for role, calls in found.calls.items():
                self._calls[role] = self._calls.get(role, RoleCalls()) + calls

    def total(self) -> Total:
        """The sums so far."""
        return replace(self._sum, estimate=self._estimate())

    def _estimate(self) -> int | None:
        """Estimate from the calls of the same role, or from all calls if it has none."""
        if not self._needs:
            return None
        every = sum(self._calls.values(), RoleCalls())
        means = {role: self._calls.get(role, every).mean for role in self._needs}
        known = [mean * self._needs[role] for role, mean in means.items() if mean is not None]
        return sum(known) if len(known) == len(means) else None


def try_all(
    found: Sequence[Archive], rules: ChangedRules, each: Callable[[], None] = lambda: None
) -> Iterator[Tried]:
    """Yield one result for each history, as soon as it is done; a damaged one does not stop the others.

    `each` is called for every interaction. Raises InvalidFile for a schema that can't be applied to the
    answers.
    """
    known = originals.count_shared_interactions(found)
    for archive in found:
        tried = _tried(archive, rules, each, known.get(archive.path, 0))
        if tried.elsewhere:
            unchanged = _tried(archive, rules.unchanged(), each, 0)
            tried = replace(tried, differs_anyway=unchanged.elsewhere)
        yield tried


def _tried(archive: Archive, rules: ChangedRules, each: Callable[[], None], shared: int) -> Tried:
    with catch_read_errors(archive) as tried:
        try:
            entries = archive.call_for_each(archive.read_interactions(), each)
            found = run(entries, rules, archive.find_restep_targets(), shared=shared)
            return Tried(archive.name, replace(found, notes=(*archive.read_notes(), *found.notes)))
        except Unresolvable as error:
            unusable = error
    if tried.error:
        return Tried(archive.name, None, tried.error)
    raise InvalidFile(f"the schema can't be applied: {str(unusable)[:300]}", where="--schema") from unusable


def rules_of(
    schema: JsonObject,
    settings: JsonObject,
    workflow: Workflow | None,
    permissions: dict[str, Permissions],
    role_files: Sequence[Path],
    directories: Sequence[Path],
    today: JsonObject,
) -> ChangedRules:
    """The rules with the permissions from the role files. `directories` contain the roles that those may extend.

    Raises InvalidFile for an invalid role file, UsageError for a missing one, and for a role with two
    different sets of permissions.
    """
    may, hashes = dict(permissions), {}
    for path in role_files:
        for name, permitted, told in _roles(path, directories):
            if name in may and may[name] != permitted:
                message = f"conflicting permissions for the role {name}"
                raise UsageError(
                    message, where="--role-file", fix="use either --role-file or --permissions for this role"
                )
            may[name], hashes[name] = permitted, told
    return ChangedRules(schema, settings, workflow, may, hashes, today)


def _roles(path: Path, directories: Sequence[Path]) -> Iterator[tuple[str, Permissions, str]]:
    """The roles of a file: name, permissions and hash."""
    if not path.exists():
        raise UsageError("role file not found", where=str(path), fix="use an existing file")
    if not path.is_file():
        raise InvalidFile("is not a regular file", where=str(path), fix="use a role file")
    roles = load_roles([*(each for each in directories), path])
    for problem in roles.problems:
        if problem.severity == "error" and _is_of(problem.where, path):
            raise InvalidFile(problem.message, where=problem.where, fix=problem.fix)
    for name, loaded in roles.by_name.items():
        if loaded.path == path:
            yield name, loaded.role.permissions, role_hash(loaded.role)


def _is_of(where: str, path: Path) -> bool:
    return where == str(path) or where.startswith(f"{path}:")
