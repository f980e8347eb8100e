"""Settings and roles that are listed without pydantic and YAML are those that are used."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from logist.config.plain_settings import load_plain_settings
from logist.config.settings import DEFAULT, load_settings
from logist.errors import InvalidFile
from logist.roles import load_roles
from logist.roles.shipped_roles import list_shipped_roles
from tests import support

PLAIN = [
    "",
    "# limits:\n",
    "limits:\n  cost_threshold: 5\nmodel: openai/x\nworkspace:\n  caches: [a, b]\nagent_timeout_minutes: 3\n",
    "limits:\n  max_attempts: 1\nnotify:\n  done: [say, hi]\n  environment:\n  - A\n",
    'response_format: sections\nhistory:\n  rotate_at: 0\non_stuck: "x"\ntools:\n  disabled:\n  - bash\n',
    "context:\n  custom_instructions: |\n    Be\n    brief.\nsandbox:\n  mode: off\nallow_unknown_price: true\n",
]
NOT_PLAIN = [
    *("review: false\n", "approval: none\n", "roles:\n  default: x\n", "agent: goose\n", "limits:\n"),
    *("projects: [/a]\n", "redact:\n  patterns: [a]\n", "models:\n  x:\n    provider_model: a/b\n"),
    *("workspace:\n  setup: make\n", "max_concurrent_agents: true\n"),
]
"""Settings from which others follow, and values that are converted."""
INVALID = [
    *("limits:\n  cost_threshold: -5\n", "foo: 3\n", 'model: ""\n', "sandbox:\n  mode: maybe\n", "a: [\n"),
    *("limits: {}\nlimits: {}\n", "min_output_tokens: 0\n", "workspace:\n  caches: [a/b]\n", "- a\n"),
]


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """The home of a project, and the directory of the user's own config."""
    home, user = tmp_path / "p" / ".logist", tmp_path / "user"
    home.mkdir(parents=True)
    user.mkdir()
    return home, user


def load_both(folders: tuple[Path, Path]) -> tuple[Any, Any]:
    home, user = folders
    plain = load_plain_settings(str(home), str(user))
    loaded = load_settings(home, user)
    sources = {field: source for field, source in loaded.sources.items() if source != DEFAULT}
    return plain, (loaded.settings.model_dump(mode="json"), sources)


@pytest.mark.parametrize("project", PLAIN)
@pytest.mark.parametrize("user", PLAIN)
def test_plain_settings_are_the_same(folders: tuple[Path, Path], project: str, user: str) -> None:
    for folder, text in zip(folders, (project, user), strict=True):
        if text:
            (folder / "config.yaml").write_text(text, "utf-8")
    plain, full = load_both(folders)
    assert plain == full
    assert repr(plain.data) == repr(full[0])  # 5.0 is not 5


@pytest.mark.parametrize("text", NOT_PLAIN)
@pytest.mark.parametrize("side", [0, 1])
def test_other_settings_are_left_to_the_models(folders: tuple[Path, Path], side: int, text: str) -> None:
    (folders[side] / "config.yaml").write_text(text, "utf-8")
    assert load_plain_settings(*map(str, folders)) is None


@pytest.mark.parametrize("text", INVALID)
def test_errors_are_reported_by_the_models(folders: tuple[Path, Path], text: str) -> None:
    (folders[0] / "config.yaml").write_text(text, "utf-8")
    assert load_plain_settings(*map(str, folders)) is None
    with pytest.raises(InvalidFile):
        load_settings(*folders)


def test_files_that_are_no_plain_files_are_left_to_the_models(folders: tuple[Path, Path]) -> None:
    config = folders[0] / "config.yaml"
    (folders[1] / "real.yaml").write_text("model: a/b\n", "utf-8")
    config.symlink_to(folders[1] / "real.yaml")
    assert load_plain_settings(*map(str, folders)) is None
    config.unlink()
    os.mkfifo(config)
    assert load_plain_settings(*map(str, folders)) is None
    config.unlink()
    (folders[0].parent / ".coven").mkdir()
    assert load_plain_settings(*map(str, folders)) is None


class TestShippedRoles:
    def test_they_are_those_that_are_loaded(self) -> None:
        rows = list_shipped_roles(["/nowhere"])
        loaded = load_roles([support.ROOT / "roles"]).by_name
        assert rows is not None
        assert [row["name"] for row in rows] == sorted(loaded)
        for row in rows:
            assert row["description"] == loaded[row["name"]].role.description
            assert row["file"] == str(loaded[row["name"]].path)

    def test_other_roles_are_left_to_the_loader(self, tmp_path: Path) -> None:
        layers = [str(tmp_path)]
        (tmp_path / "roles").mkdir()
        assert list_shipped_roles(layers) is not None
        (tmp_path / "roles" / "a.yaml").write_text("", "utf-8")
        assert list_shipped_roles(layers) is None
        (tmp_path / "roles" / "a.yaml").unlink()
        (tmp_path / "roles").rmdir()
        (tmp_path / "roles").write_text("", "utf-8")
        assert list_shipped_roles(layers) is None

    def test_a_changed_file_is_noticed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("logist.roles.shipped_roles.DIGEST", "0" * 64)
        assert list_shipped_roles([str(tmp_path)]) is None
