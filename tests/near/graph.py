"""Who imports whom, read from the sources."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from tests.near.sources import Import
from tests.near.tree import Tree, module_name

_ALWAYS = frozenset({"top", "text"})
_ALL = frozenset({"top", "text", "inner", "typing", "guess"})


class Graph:
    """The modules of a tree by path, and what each imports. `gone` are paths of modules that were deleted."""

    def __init__(self, tree: Tree, gone: Iterable[str] = ()) -> None:
        modules = list(tree.modules())
        self._paths = {name: path for path, name, _ in modules}
        self._paths |= {path.removesuffix(".py").replace("/", "."): path for path in gone}
        self._imports = {path: tuple(outline.imports) for path, _, outline in modules}
        self._lazy = {path for path, _, outline in modules if "__getattr__" in outline.units}
        self._edges: dict[str, dict[str, set[str]]] = {}
        self._loaded: dict[str, frozenset[str]] = {}
        for path in self._imports:
            self._edges[path] = self._targets(path)

    def loaded_by(self, module: str) -> frozenset[str]:
        """The modules that run when this one is imported, itself included."""
        if module not in self._loaded:
            self._loaded[module] = frozenset(self._reached([module], self._runs_at_import))
        return self._loaded[module]

    def imported_later(self, module: str) -> dict[str, set[str]]:
        """The modules that each of its functions imports when it runs."""
        later: dict[str, set[str]] = {}
        for each in self._imports.get(module, ()):
            if each.how == "inner":
                later.setdefault(each.unit, set()).update(self._find(each))
        return later

    def uses_of(self, module: str) -> tuple[set[str], set[str]]:
        """The names that other modules import from this one, and the paths of those that import the module itself."""
        name = module_name(module)
        names, importers = set(), set()
        for path, imports in self._imports.items():
            for each in imports if path != module else ():
                if each.name == name or (each.name.endswith("*") and name.startswith(each.name[:-1])):
                    importers.add(path)
                elif each.name.startswith(f"{name}."):
                    names.add(each.name.removeprefix(f"{name}.").partition(".")[0])
        return names, importers

    def importers(self, modules: Iterable[str]) -> set[str]:
        """Those that could reach one of `modules` by any chain of imports, these included."""
        return self._reached(modules, self._reverse(self._all))

    def helpers(self, path: str) -> set[str]:
        """The modules below tests/ that a test file imports, through others too, itself included."""
        return {each for each in self._reached([path], self._within_tests) if each.startswith("tests/")}

    def _within_tests(self, path: str) -> set[str]:
        return {each for each in self._all(path) if each.startswith("tests/")}

    def _all(self, path: str) -> set[str]:
        edges = self._edges.get(path, {})
        return set().union(*(edges.get(how, ()) for how in _ALL))

    def _runs_at_import(self, path: str) -> set[str]:
        edges = self._edges.get(path, {})
        return set().union(*(edges.get(how, ()) for how in _ALWAYS))

    def _reverse(self, forward: Callable[[str], set[str]]) -> Callable[[str], set[str]]:
        reverse: dict[str, set[str]] = defaultdict(set)
        for path in self._edges:
            for target in forward(path):
                reverse[target].add(path)
        return lambda path: reverse[path]

    def _reached(self, start: Iterable[str], step: Callable[[str], set[str]]) -> set[str]:
        reached, waiting = set(start), list(start)
        while waiting:
            new = step(waiting.pop()) - reached
            reached |= new
            waiting += new
        return reached

    def _targets(self, path: str) -> dict[str, set[str]]:
        targets: dict[str, set[str]] = {how: set() for how in _ALL}
        for each in self._imports[path]:
            targets[each.how].update(self._find(each))
        if path.startswith("tests/"):
            targets["text"] |= targets["guess"]
            folders = path.split("/")[:-1]
            conftests = ("/".join([*folders[: n + 1], "conftest.py"]) for n in range(len(folders)))
            targets["top"].update(each for each in conftests if each in self._imports)
        for paths in targets.values():
            paths.discard(path)
        return targets

    def _find(self, each: Import) -> Iterator[str]:
        if each.name.endswith("*"):
            yield from (path for name, path in self._paths.items() if name.startswith(each.name[:-1]))
            return
        # Importing a.b.c runs a and a.b first.
        parts = each.name.split(".")
        places = [self._paths.get(".".join(parts[:end])) for end in range(1, len(parts) + 1)]
        yield from (place for place in places if place)
        if len(parts) > 1 and places[-1] is None and places[-2] in self._lazy:
            yield from self._loaded_for(str(places[-2]), parts[-1])

    def _loaded_for(self, package: str, name: str) -> Iterator[str]:
        """The module that a package with lazy names imports for this one."""
        later = [each for each in self._imports[package] if each.how != "top"]
        named = [each for each in later if each.name.endswith(f".{name}")]
        for each in named or later:
            if path := self._paths.get(each.name.rpartition(".")[0] if named else each.name):
                yield path
