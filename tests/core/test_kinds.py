"""What a kind of interaction means is in one table, and the code goes by it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from logist.core.machine import kinds
from logist.core.machine.actions import Action
from logist.core.model.words import Kind
from tests.support import ROOT

TABLE = ROOT / "logist" / "core" / "machine" / "kinds.py"


def iterate_collections_of_kinds(source: str) -> Iterator[int]:
    """The lines of set, tuple and list displays that name two kinds or more: a table of their own."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Set | ast.Tuple | ast.List):
            named = [
                each
                for each in node.elts
                if isinstance(each, ast.Attribute) and ast.unparse(each.value) == "Kind"
            ]
            if len(named) > 1:
                yield node.lineno


def test_every_kind_has_its_row() -> None:
    assert set(kinds.KINDS) == set(Kind)


def test_no_module_has_a_set_of_kinds_of_its_own() -> None:
    modules = [path for path in (ROOT / "logist").rglob("*.py") if path != TABLE]
    own = [
        f"{path.relative_to(ROOT)}:{line}: add a column to core/machine/kinds.py instead"
        for path in modules
        for line in iterate_collections_of_kinds(path.read_text("utf-8"))
    ]
    assert own == []


def test_the_rule_sees_what_it_forbids(tmp_path: Path) -> None:
    source = "A = frozenset({Kind.ASK, Kind.SPEC})\nB = (Kind.ASK, *OTHERS)\nif kind in (Kind.ASK, Kind.FORK): pass\n"
    assert list(iterate_collections_of_kinds(source)) == [1, 3]


def test_an_action_has_the_name_of_its_kind() -> None:
    assert all(action.value == kind.value for kind, action in kinds.ACTIONS.items())
    assert {kind for kind in Kind if kind not in kinds.ACTIONS} == kinds.ASKS_AGENT | kinds.NOT_JUDGED
    assert Action.CREATE in kinds.ACTIONS.values()


def test_facts_that_go_together() -> None:
    for kind, facts in kinds.KINDS.items():
        assert not (facts.ends and not facts.stops), f"{kind} ends a job and leaves its agent at work"
        assert not (facts.stays and facts.returns), f"{kind} both stays and goes back"
        assert not (facts.asks_agent and facts.action), f"{kind}: an agent's answer says what happens"
        assert not (facts.is_decision and facts.action is None), f"{kind} decides nothing"
