"""Loads all roles of some directories: resolves equal names and inheritance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path

from logist.documents import suggest_names
from logist.errors import InvalidFile
from logist.roles.checking import Fallback, build_role, error_to_problem, make_fallback
from logist.roles.files import RoleEntry, guess_role_names, list_role_files, read_role_entries
from logist.roles.loaded import FALLBACK, LoadedRole, RoleProblem, Roles, find_claimants

MOST_ADVICE = 50
"""The most unknown bases to suggest a name for: among many roles, the search is slow."""

MOST_BASES = 20
"""The longest chain of bases; a longer one is a mistake or malicious."""


def load_roles(directories: Sequence[Path]) -> Roles:
    """Load the roles of all directories; of two with the same name, the one in the later directory applies.

    A missing directory is empty; a path may be a single file too. A broken file becomes a problem and does
    not stop the others.
    """
    loaded_directories = [_RoleDirectory(place, strength) for strength, place in enumerate(directories)]
    builder = _RoleBuilder(loaded_directories)
    by_name: dict[str, LoadedRole] = {}
    roles = Roles(by_name, [], {})
    for directory in loaded_directories:
        loaded = builder.build_roles(directory)
        for name in {*directory.broken, *loaded}:
            if name in by_name:
                roles.hidden.append(by_name.pop(name))
            roles.broken.pop(name, None)
        roles.problems.extend([*directory.problems, *_find_other_spellings(loaded, by_name)])
        by_name.update(loaded)
        roles.broken.update(directory.broken)
    roles.problems.extend([*_find_unknown_delegates(roles), *_find_rivals(roles)])
    return roles


def read_roles_on_use(files: Mapping[str, Path]) -> Roles:
    """Return the shipped roles, which have no problems and no bases; `files`: of each, by name.

    Most commands use two of them, and reading all takes a tenth of their time.
    """
    return Roles(_RolesOnUse(files), [], {}, are_shipped=True)


class _RolesOnUse(Mapping[str, LoadedRole]):
    """Roles by name, each read when it is first used."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files
        self._loaded: dict[str, LoadedRole] = {}

    def __getitem__(self, name: str) -> LoadedRole:
        if name not in self._loaded:
            roles = load_roles([self._files[name]])
            roles.get(name)  # raises the error of a file that was changed meanwhile
            self._loaded[name] = roles.by_name[name]
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __contains__(self, name: object) -> bool:
        return name in self._files


class _RoleDirectory:
    """The roles in the files of one directory; a name may occur only once, ignoring case."""

    def __init__(self, place: Path, strength: int) -> None:
        self.strength = strength
        self.entries: dict[str, RoleEntry] = {}
        self.broken: dict[str, InvalidFile] = {}
        self.problems: list[RoleProblem] = []
        self._seen: dict[str, RoleEntry] = {}
        for path in list_role_files(place):
            self._add_file(path)

    def _add_file(self, path: Path) -> None:
        try:
            role_entries = read_role_entries(path, self.strength)
        except InvalidFile as error:
            self._refuse_roles(guess_role_names(path), error)
            return
        for entry in role_entries:
            twin = self._seen.setdefault(entry.name.casefold(), entry)
            if twin is entry:
                self.entries[entry.name] = entry
            else:
                self._refuse_roles([entry.name, twin.name], _duplicate_error(entry, twin))

    def _refuse_roles(self, names: Sequence[str], error: InvalidFile) -> None:
        self.problems.append(error_to_problem(error))
        self.mark_broken(names, error)

    def mark_broken(self, names: Sequence[str], error: InvalidFile) -> None:
        """Mark the roles of these names as broken; the first reason is kept."""
        for name in names:
            self.broken.setdefault(name, error)


class _RoleBuilder:
    """Builds roles from the entries of all directories."""

    def __init__(self, directories: Sequence[_RoleDirectory]) -> None:
        self._directories = directories
        self._fallback: Fallback | None = None
        self._unknown = 0
        for directory in directories:  # one without a model gets that of the one it overrides
            entry = directory.entries.get(FALLBACK)
            worker = self._build_role(entry)[0] if entry and FALLBACK not in directory.broken else None
            self._fallback = make_fallback(worker) if worker else self._fallback

    def build_roles(self, directory: _RoleDirectory) -> dict[str, LoadedRole]:
        """Return the valid roles of a directory; the others become its problems."""
        loaded: dict[str, LoadedRole] = {}
        for name, entry in directory.entries.items():
            role, problems = self._build_role(entry)
            directory.problems.extend(problems)
            if role:
                loaded[name] = role
            else:
                directory.mark_broken([name], _first_error(problems))
        return {name: role for name, role in loaded.items() if name not in directory.broken}

    def _build_role(self, entry: RoleEntry) -> tuple[LoadedRole | None, list[RoleProblem]]:
        """Return the role of an entry, or None, and all its problems."""
        data = entry.data if isinstance(entry.data, dict) else {}
        if "base" not in data:
            return build_role(entry, None, self._fallback)
        try:
            if entry.base is None or not entry.base.strip():
                raise entry.invalid_error("`base` must be the name of a role", "base")
            self._require_end(entry)
            base = self._load_base(entry, entry.base)
        except InvalidFile as error:
            return build_role(entry, error, self._fallback)
        return build_role(entry, base, self._fallback)

    def _require_end(self, entry: RoleEntry) -> None:
        """Raise InvalidFile if the chain of bases is a cycle, or is too long."""
        chain = [entry]
        while (base := self._find_base_entry(chain[-1])) is not None:
            names = " -> ".join(f"`{each.name}`" for each in [*chain, base])
            if any(base is each for each in chain):
                raise entry.invalid_error(
                    f"the bases form a cycle: {names}", "base", "remove `base` from one of them"
                )
            chain.append(base)
            if len(chain) > MOST_BASES + 1:
                message = f"the chain of bases is longer than {MOST_BASES}"
                raise entry.invalid_error(
                    message, "base", "copy fields from a base instead of inheriting them"
                )

    def _find_chain_end(self, entry: RoleEntry) -> RoleEntry | None:
        """Return the entry at the end of its chain of bases.

        None if a base is missing or the chain is too long.
        """
        for _ in range(MOST_BASES):
            if not isinstance(entry.data, dict) or "base" not in entry.data:
                return entry
            base = self._find_base_entry(entry)
            if base is None:
                return None
            entry = base
        return None

    def _find_base_entry(self, entry: RoleEntry) -> RoleEntry | None:
        """Return the entry that a base names: the strongest role of that name.

        For its own name, the next weaker one.
        """
        name = entry.base
        for directory in reversed(self._directories):
            if name is None or (name == entry.name and directory.strength >= entry.strength):
                continue
            if name in directory.entries:
                return directory.entries[name]
            if name in directory.broken:
                return None
        return None

    def _load_base(self, entry: RoleEntry, name: str) -> LoadedRole:
        """Return the base of an entry, with the fields that the base inherits."""
        for directory in reversed(self._directories):
            if name == entry.name and directory.strength >= entry.strength:
                continue
            if name in directory.broken:
                raise _broken_base_error(entry, name, directory.broken[name])
            if name in directory.entries:
                return self._require_valid_base(entry, directory.entries[name])
        self._unknown += 1
        suggestion = (
            suggest_names(name, self._usable_base_names - {entry.name})
            if self._unknown <= MOST_ADVICE
            else None
        )
        raise entry.invalid_error(f"base `{name}` not found{_except_itself(entry, name)}", "base", suggestion)

    def _require_valid_base(self, entry: RoleEntry, base: RoleEntry) -> LoadedRole:
        role, problems = self._build_role(base)
        if role is None:
            raise _broken_base_error(entry, base.name, _first_error(problems))
        return role

    @cached_property
    def _usable_base_names(self) -> set[str]:
        """Return the names to suggest for an unknown base: roles whose chain of bases ends in a valid role."""
        holding = {name: (each, entry) for each in self._directories for name, entry in each.entries.items()}
        return {
            name
            for name, (each, entry) in holding.items()
            if name not in each.broken
            and (chain_end := self._find_chain_end(entry)) is not None
            and build_role(chain_end, None, self._fallback)[0]
        }


def _first_error(told: Sequence[RoleProblem]) -> InvalidFile:
    first = next(each for each in told if each.severity == "error")
    return InvalidFile(first.message, where=first.where, fix=first.fix)


def _except_itself(entry: RoleEntry, name: str) -> str:
    return " except this role itself" if name == entry.name else ""


def _broken_base_error(entry: RoleEntry, name: str, error: InvalidFile) -> InvalidFile:
    return entry.invalid_error(
        f"the base `{name}` is invalid: {error.where}: {error.message}", "base", error.fix
    )


def _duplicate_error(entry: RoleEntry, twin: RoleEntry) -> InvalidFile:
    names = f"`{twin.name}`" if entry.name == twin.name else f"`{twin.name}` and `{entry.name}`"
    return InvalidFile(
        f"duplicate role {names} in one directory: in {twin.path} and in {entry.path}",
        where=str(entry.path),
        fix="rename or remove one of the two",
    )


def _find_unknown_delegates(roles: Roles) -> Iterator[RoleProblem]:
    """Find roles that may delegate work to a role that does not exist."""
    for name, loaded in sorted(roles.by_name.items()):
        for other in loaded.role.can_delegate_to_roles:
            if other not in roles.by_name and other not in roles.broken:
                advice = suggest_names(other, roles.by_name)
                message = f"role `{name}` may delegate to the unknown role `{other}`"
                yield RoleProblem("warning", message, str(loaded.path), advice)


def _find_rivals(roles: Roles) -> Iterator[RoleProblem]:
    """Find task types that several roles of one directory claim."""
    types = {one.casefold() for found in roles.by_name.values() for one in found.role.applicable_task_types}
    for task_type in sorted(types):
        claiming = [
            one for one in find_claimants(roles.by_name.values(), task_type) if one.has_own_task_types
        ]
        for _, group in groupby(claiming, key=lambda one: one.strength):
            first, *others = group
            for other in others:
                message = (
                    f"`{first.role.name}` and `{other.role.name}` both apply to tasks of type `{task_type}`"
                )
                fix = f"choose one in the config: roles.type_mapping.{task_type}"
                yield RoleProblem("warning", f"{message}; `{first.role.name}` is used", str(other.path), fix)


def _find_other_spellings(
    found: dict[str, LoadedRole], earlier: dict[str, LoadedRole]
) -> Iterator[RoleProblem]:
    """Find roles whose name differs only in case from one in an earlier directory, and so don't override it."""
    spelled = {name.casefold(): name for name in earlier if name not in found}
    for name, role in found.items():
        if other := spelled.get(name.casefold()):
            message = f"`{name}` does not override `{other}`: upper and lower case differ"
            yield RoleProblem(
                "warning", message, str(role.path), f"rename it to `{other}` to override that role"
            )
