"""What if: a whole archive of recorded jobs through changed rules, and what that would have saved or cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from referencing.exceptions import Unresolvable

from logist.core.model import JsonObject, Permissions, Workflow
from logist.core.whatif import ChangedRules, RoleCalls, WhatIfRun, WhatIfSpending, run
from logist.errors import InvalidFile, LogistError, UsageError
from logist.jobs.archive import originals
from logist.jobs.archive.recorded_jobs import Archive, catch_read_errors
from logist.roles import load_roles, role_hash

NOTHING = WhatIfSpending()


@dataclass(frozen=True)
class Tried:
    """One recorded job under the changed rules."""

    name: str
    run: WhatIfRun | None
    """None where the history can't be read."""
    error: LogistError | None = None
    differs_anyway: bool = False
    """It ends elsewhere today without the change too: then it says little of the change."""

    @property
    def elsewhere(self) -> bool:
        """Whether it ends elsewhere than it was recorded to."""
        return self.run is not None and not self.run.same_end

    @property
    def another_way(self) -> bool:
        """Whether it goes another way to the same end."""
        return self.run is not None and self.run.same_end and self.run.differs_at is not None


@dataclass(frozen=True)
class Total:
    """All jobs of an archive together."""

    jobs: int = 0
    elsewhere: int = 0
    another_way: int = 0
    damaged: int = 0
    differs_anyway: int = 0
    saved: WhatIfSpending = NOTHING
    open: WhatIfSpending = NOTHING
    needs: int = 0
    """Calls that the archive has no answer for, at least."""
    estimate: int | None = None
    """What those would cost, in microcents, by the mean of the recorded calls of the same role; None is unknown."""
    spared: int = 0


@dataclass
class WhatIfTotals:
    """Adds up what is tried, one by one; keeps no run."""

    _sum: Total = field(default_factory=Total)
    _needs: Counter[str] = field(default_factory=Counter)
    _calls: dict[str, RoleCalls] = field(default_factory=dict)
    roles: set[str] = field(default_factory=set)
    """Whose answers there are."""
    checks: set[str] = field(default_factory=set)
    """The checks that there are."""
    follow: int = 0
    """Jobs that follow the workflow that is tried out."""

    def add(self, tried: Tried) -> None:
        """Takes one more."""
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
        )
        if found:
            self._needs.update(found.needs)
            self.roles |= found.roles
            self.checks |= found.checks
            self.follow += found.follows
            for role, calls in found.calls.items():
                self._calls[role] = self._calls.get(role, RoleCalls()) + calls

    def total(self) -> Total:
        """What it comes to so far."""
        return replace(self._sum, estimate=self._estimate())

    def _estimate(self) -> int | None:
        """By the role's own calls, or by all where it has none."""
        if not self._needs:
            return None
        every = sum(self._calls.values(), RoleCalls())
        means = {role: self._calls.get(role, every).mean for role in self._needs}
        known = [mean * self._needs[role] for role, mean in means.items() if mean is not None]
        return sum(known) if len(known) == len(means) else None


def try_all(
    found: Sequence[Archive], rules: ChangedRules, each: Callable[[], None] = lambda: None
) -> Iterator[Tried]:
    """One result a history, as each is done; a damaged one stops no other. `each` hears of every interaction.

    Raises InvalidFile for a schema that can't be applied to what was answered.
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
    """The rules with what the role files say of permissions. `directories` hold the roles that they may build on.

    Raises InvalidFile for a role file that does not validate, UsageError for one that is not there and for a role that is given permissions twice.
    """
    may, hashes = dict(permissions), {}
    for path in role_files:
        for name, permitted, told in _roles(path, directories):
            if name in may and may[name] != permitted:
                message = f"the permissions of {name} are given twice"
                raise UsageError(message, where="--role-file", fix="give the file or --permissions")
            may[name], hashes[name] = permitted, told
    return ChangedRules(schema, settings, workflow, may, hashes, today)


def _roles(path: Path, directories: Sequence[Path]) -> Iterator[tuple[str, Permissions, str]]:
    """The roles of a file: name, permissions and hash."""
    if not path.exists():
        raise UsageError("there is no such role file", where=str(path), fix="name a file")
    if not path.is_file():
        raise InvalidFile("is not a regular file", where=str(path), fix="name a file")
    roles = load_roles([*(each for each in directories), path])
    for problem in roles.problems:
        if problem.severity == "error" and _is_of(problem.where, path):
            raise InvalidFile(problem.message, where=problem.where, fix=problem.fix)
    for name, loaded in roles.by_name.items():
        if loaded.path == path:
            yield name, loaded.role.permissions, role_hash(loaded.role)


def _is_of(where: str, path: Path) -> bool:
    return where == str(path) or where.startswith(f"{path}:")
