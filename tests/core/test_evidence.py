"""Which changed files no evidence names."""

from __future__ import annotations

import pytest

from logist.core.answer.evidence import find_unnamed_changes
from logist.core.model import Change


def change(path: str, kind: str = "modified", *, cache: bool = False) -> Change:
    return Change.model_validate({"path": path, "kind": kind, "mode": "100644", "cache": cache})


@pytest.mark.parametrize(
    ("evidence", "unnamed"),
    [
        ([], ["a.py", "src/b.py", "src/c/d.py"]),
        (["a.py", "other.py"], ["src/b.py", "src/c/d.py"]),
        (["src"], ["a.py"]),
        (["src/c", "sr"], ["a.py", "src/b.py"]),
    ],
)
def test_evidence_names_files_and_directories(evidence: list[str], unnamed: list[str]) -> None:
    changes = [change("a.py"), change("src/b.py", "created"), change("src/c/d.py", "mode")]
    assert [each.path for each in find_unnamed_changes(changes, evidence)] == unnamed


def test_deleted_files_and_caches_need_no_evidence() -> None:
    changes = [change("gone.py", "deleted"), change("node_modules/x", "created", cache=True)]
    assert find_unnamed_changes(changes, []) == []
