"""`scripts/messages` lists what people and models read, so that it can be read in one go."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

SCRIPT = ROOT / "scripts" / "messages"
MESSAGES = runpy.run_path(str(SCRIPT))
ODD = re.compile(r"\b(mend\w*|somebody|nobody|dear|beside|what it comes to)\b", re.IGNORECASE)
"""Words that say too little or that nobody says."""
QUOTED = (
    "logist/core/review/verdict.py",
    "logist/core/answer/findings.py",
    "logist/core/replay/old_shapes.py",
    "logist/core/share/words.py",
)
"""Modules with the words of recorded histories, which must stay, and with lists of words."""

MODULE = '''"""Doc."""
import re

import click

PATTERN = re.compile("not a text at all")


@click.command("x")
@click.option("--y", help="Choose a y.")
def command(name: "str | None") -> None:
    """Do it."""
    raise Refused(f"can't do {name!r}: " "it is late", fix="try again tomorrow")


def inner() -> str:
    """Not seen."""
    key = "key"
    return f"two words {key} {1 + 1}" + "one"
'''


def test_texts_are_listed_with_kind_place_and_placeholders(tmp_path: Path) -> None:
    (tmp_path / "logist").mkdir()
    (tmp_path / "roles").mkdir()
    (tmp_path / "logist" / "a.py").write_text(MODULE, "utf-8")
    (tmp_path / "roles" / "R.yaml").write_text(
        "# a comment here\nname: R\ninstructions: |\n  Do the work.\n", "utf-8"
    )
    listed = [(each.file, each.line, each.kind, each.text) for each in MESSAGES["list_texts"](tmp_path)]
    assert sorted(listed) == [
        ("logist/a.py", 10, "help", "Choose a y."),
        ("logist/a.py", 12, "help", "Do it."),
        ("logist/a.py", 13, "error", "can't do {name}: it is late"),
        ("logist/a.py", 13, "error", "try again tomorrow"),
        ("logist/a.py", 19, "text", "two words {key} {1 + 1}"),
        ("roles/R.yaml", 4, "prompt", "Do the work."),
    ]


@pytest.mark.parametrize("kind", ["error", "help", "prompt", "text"])
def test_the_whole_list_can_be_read_by_kind(kind: str) -> None:
    ran = subprocess.run(
        [sys.executable, SCRIPT, "--kind", kind, "--json"], capture_output=True, text=True, check=True
    )
    texts = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(texts) > 200
    assert {each["kind"] for each in texts} == {kind}


def test_no_text_has_words_that_say_too_little() -> None:
    odd = [each for each in MESSAGES["list_texts"]() if ODD.search(each.text) and each.file not in QUOTED]
    assert [f"{each.file}:{each.line}: {each.text}" for each in odd] == []
