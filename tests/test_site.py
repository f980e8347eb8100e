"""The site of the docs: it is built without the network, its links lead somewhere, and every page is in its navigation."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

NAMED = re.compile(r"^\s+- ([\w-]+\.md)$", re.MULTILINE)
LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=[\"']?(?:https?:)?//", re.IGNORECASE)
"""An element with which a browser loads something from another host."""


def test_every_page_is_in_the_navigation_once() -> None:
    assert sorted(NAMED.findall((ROOT / "mkdocs.yml").read_text("utf-8"))) == sorted(
        path.name for path in (ROOT / "docs").glob("*.md")
    )


def build(place: Path) -> subprocess.CompletedProcess[str]:
    for name in ("docs", "scripts", "logist"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "mkdocs.yml", place)
    return run_script(place)


def run_script(place: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(place / "scripts" / "docs"), "--site"]
    # No way out: every address of this machine but the loopback is out of reach for a build that follows its proxy.
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(place), "https_proxy": "http://127.0.0.1:9"}
    return subprocess.run(
        command, cwd=place, env=variables, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_site_has_all_pages_a_search_and_nothing_from_other_hosts(tmp_path: Path) -> None:
    done = build(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {path.name: path.read_text("utf-8") for path in (tmp_path / "site").glob("*.html")}
    assert {f"{path.stem}.html" for path in (ROOT / "docs").glob("*.md")} <= set(pages)
    assert [
        name for name, text in pages.items() if LOADED.search(text.replace("https://zensical.org", ""))
    ] == []
    assert "foreach" in json.dumps(json.loads((tmp_path / "site" / "search.json").read_text("utf-8")))
    assert (tmp_path / "site" / "terminals" / "fix.svg").is_file()

    (tmp_path / "docs" / "concepts.md").write_text("# Concepts\n\n[gone](nowhere.md)\n", "utf-8")
    broken = run_script(tmp_path)
    assert broken.returncode == 1
    assert "nowhere.md" in broken.stderr
    assert "Traceback" not in broken.stderr


@pytest.mark.parametrize(
    "element", ["<script src='https://host/x.js'>", '<link rel="x" href="//host/x.css">']
)
def test_an_element_that_loads_from_another_host_is_noticed(element: str) -> None:
    assert LOADED.search(element)
