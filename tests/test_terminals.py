"""The drawn terminals of the docs: the script that draws them runs, and the drawings show what it runs."""

from __future__ import annotations

import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

from tests.support import ROOT, process_environment

DRAWINGS = sorted((ROOT / "docs" / "terminals").glob("*.svg"))


def read_text(drawing: Path) -> str:
    """The text of a drawing, one line after the other."""
    lines = re.findall(r"<text[^>]*>(.*?)</text>", drawing.read_text("utf-8"))
    return unescape(" ".join(lines)).replace("\xa0", " ")


@pytest.mark.deep
def test_the_drawings_show_what_the_commands_print_today(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "record-terminals"), "--to", str(tmp_path)],
        env=process_environment(),
        check=True,
    )
    assert [path.name for path in sorted(tmp_path.iterdir())] == [path.name for path in DRAWINGS]
    changing = re.compile(r"\d+s\b|\d+-[0-9a-f]{40}-[0-9a-f]{12}|\d+\.\d s|-{3,}|\s+|─+")
    for kept in DRAWINGS:
        assert changing.sub("", read_text(tmp_path / kept.name)) == changing.sub("", read_text(kept))


@pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda path: path.name)
def test_a_drawing_loads_nothing_and_names_no_machine(drawing: Path) -> None:
    text = drawing.read_text("utf-8")
    assert set(re.findall(r"https?://[^\s\"']+", text)) == {"http://www.w3.org/2000/svg"}
    assert "/tmp" not in text
