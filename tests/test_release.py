"""A release: the version has its part of the changelog, and the tag of the instructions can be checked."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from logist.version import __version__
from tests.support import ROOT

HEADING = re.compile(r"^## (?P<version>\S+) \((?P<date>\d{4}-\d\d-\d\d)\)$", re.MULTILINE)
PAGE = (ROOT / "docs" / "contributing.md").read_text("utf-8")


def test_the_changelog_has_the_version_with_a_date() -> None:
    versions = [found["version"] for found in HEADING.finditer((ROOT / "CHANGELOG.md").read_text("utf-8"))]
    assert versions
    assert versions[0] == __version__


def run(command: str, home: Path) -> subprocess.CompletedProcess[str]:
    variables = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        **{
            f"GIT_{role}_{part}": f"{part}@example.com"
            for role in ("AUTHOR", "COMMITTER")
            for part in ("NAME", "EMAIL")
        },
    }
    return subprocess.run(
        ["bash", "-c", command], cwd=home / "copy", env=variables, capture_output=True, text=True, check=False
    )


def test_the_tag_of_the_instructions_is_signed_and_another_key_is_noticed(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    (tmp_path / ".ssh").mkdir()
    prepare = """
        git init --quiet && git commit --quiet --allow-empty --message "A commit" &&
        ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519 && ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/other &&
        echo "EMAIL@example.com $(cat ~/.ssh/id_ed25519.pub)" > ~/.ssh/allowed_signers
    """
    assert run(prepare, tmp_path).returncode == 0
    commands = re.findall(r"^       (git .*)$", PAGE, re.MULTILINE)
    assert [line.split()[1] for line in commands] == ["config", "config", "config", "tag", "verify-tag"]
    assert f" v{__version__}" in commands[-1]
    for command in commands:
        done = run(command, tmp_path)
        assert done.returncode == 0, (command, done.stderr)
    swapped = 'echo "EMAIL@example.com $(cat ~/.ssh/other.pub)" > ~/.ssh/allowed_signers'
    assert run(swapped, tmp_path).returncode == 0
    assert run(commands[-1], tmp_path).returncode != 0
