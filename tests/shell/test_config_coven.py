"""A project made for Coven: where it is found, what its config.json says, and what is refused in it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from logist.config import trust
from logist.config.environment import Environment, Home, list_config_directories
from logist.config.settings import Settings, load_settings
from logist.core.model import ConfiguredCheck
from logist.errors import InvalidFile

# As Coven's design gives it.
CONFIG: dict[str, Any] = {
    "orchestration": {"max_concurrent_agents": 4, "agent_timeout_minutes": 20, "poll_interval_seconds": 1},
    "review": {
        "mode": "strict",
        "checks": {
            "test_coverage": {"enabled": True, "severity": "error"},
            "lint_passes": {"enabled": False, "severity": "warning"},
        },
        "auto_merge": False,
    },
    "context": {
        "custom_instructions": "As we do.",
        "excluded_paths": ["out"],
        "relevant_files_limit": 3,
    },
    "roles": {"default": "implement", "type_mapping": {"feature": "implement", "bug": "fix"}},
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "p" / ".coven").mkdir(parents=True)
    return tmp_path / "p"


@pytest.fixture
def user(tmp_path: Path) -> Path:
    (tmp_path / "user").mkdir()
    return tmp_path / "user"


def said(root: Path, data: Any) -> Path:
    file = root / ".coven" / "config.json"
    file.write_text(data if isinstance(data, str) else json.dumps(data, indent=1), "utf-8")
    return file


def refused(root: Path, user: Path) -> InvalidFile:
    with pytest.raises(InvalidFile) as caught:
        load_settings(root / ".logist", user)
    return caught.value


@pytest.mark.parametrize(
    ("made", "cwd", "found"),
    [
        ([".coven"], "", ""),
        ([".coven"], "a/b", ""),
        ([".coven", ".logist"], "a", ""),
        ([".coven", "a/.logist"], "a/b", "a"),
        ([".logist", "a/.coven"], "a/b", "a"),
        ([".logist", "a/.coven"], "", ""),
        ([".coven", "a/.coven"], "a/b", "a"),
    ],
)
def test_the_nearest_directory_with_either(tmp_path: Path, made: list[str], cwd: str, found: str) -> None:
    for name in (*made, "a/b"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    environment = Environment({"LOGIST_HOME": "/elsewhere", "HOME": "/h"})
    wanted = tmp_path / found / ".logist"
    assert environment.find_home(tmp_path / cwd) == Home(wanted, "project")
    assert environment.jobs_dir(None, tmp_path / cwd) == wanted / "jobs"


def test_a_file_of_that_name_is_no_project(tmp_path: Path, user: Path) -> None:
    (tmp_path / ".coven").write_text("", "utf-8")
    assert Environment({"HOME": "/h"}).find_home(tmp_path).source == "user"
    assert list_config_directories(tmp_path / ".logist", user) == (user, tmp_path / ".logist")


def test_what_lies_over_what(root: Path, user: Path) -> None:
    assert list_config_directories(root / ".logist", user) == (user, root / ".coven", root / ".logist")
    assert list_config_directories(root / "home", user) == (user, root / "home")


def test_its_config_in_our_terms(root: Path, user: Path) -> None:
    file = str(said(root, CONFIG))
    loaded = load_settings(root / ".logist", user)
    found, sources = loaded.settings, loaded.sources
    assert (found.max_concurrent_agents, found.agent_timeout_minutes, found.poll_interval_seconds) == (
        4,
        20,
        1,
    )
    assert found.review.mode == "strict"
    assert found.review.checks["test_coverage"] == ConfiguredCheck(severity="error")
    assert not found.review.checks["lint_passes"].enabled
    assert found.review.checks["security"] == Settings().review.checks["security"]
    assert found.context.excluded_paths == ("out",)
    assert (found.context.custom_instructions, found.context.relevant_files_limit) == ("As we do.", 3)
    assert (found.roles.default, found.roles.type_mapping["bug"]) == ("implement", "fix")
    assert {sources[name] for name in ("poll_interval_seconds", "review.mode", "roles.default")} == {file}
    assert sources["review.checks.test_coverage.severity"] == file
    assert sources["review.checks.security.severity"] == sources["limits.max_attempts"] == "default"
    assert loaded.unused == ()


def test_it_lies_over_the_user_and_under_logist(root: Path, user: Path) -> None:
    file = said(root, CONFIG)
    (user / "config.yaml").write_text(
        "max_concurrent_agents: 9\nmin_output_tokens: 5\nreview: {role: Auditor}\n"
        "roles: {type_mapping: {docs: Writer}}\n",
        "utf-8",
    )
    (root / ".logist").mkdir()
    (root / ".logist" / "config.yaml").write_text(
        "agent_timeout_minutes: 7\nreview: {mode: yolo}\nroles: {type_mapping: {bug: implement}}\n", "utf-8"
    )
    loaded = load_settings(root / ".logist", user)
    found, sources = loaded.settings, loaded.sources
    assert (found.max_concurrent_agents, found.agent_timeout_minutes, found.min_output_tokens) == (4, 7, 5)
    assert (found.review.role, found.review.mode) == ("Auditor", "yolo")
    assert found.roles.type_mapping == {"docs": "Writer", "feature": "implement", "bug": "implement"}
    assert sources["max_concurrent_agents"] == sources["roles.type_mapping.feature"] == str(file)
    assert sources["review.mode"] == str(root / ".logist" / "config.yaml")
    assert sources["review.role"] == str(user / "config.yaml")


@pytest.mark.parametrize("text", ["{}", '{"orchestration": {}}', '{"review": {}, "roles": {}}'])
def test_nothing_in_it_changes_nothing(root: Path, user: Path, text: str) -> None:
    said(root, text)
    assert load_settings(root / ".logist", user).settings == Settings()


def test_a_directory_without_a_config_changes_nothing(root: Path, user: Path) -> None:
    assert load_settings(root / ".logist", user).settings == Settings()


WRONG = [
    ({"orchestration": {"max_concurrent_agents": 0}}, 3, "`orchestration.max_concurrent_agents` must be at least 1, not 0"),
    ({"orchestration": {"max_concurrent_agent": 1}}, 3, "unknown key `orchestration.max_concurrent_agent`"),
    ({"orchestration": {"agent_timeout_minutes": "x"}}, 3, '`orchestration.agent_timeout_minutes` must be a number, not "x"'),
    ({"orchestration": {"poll_interval_seconds": -1}}, 3, "`orchestration.poll_interval_seconds` must be more than 0, not -1"),
    ({"orchestration": 5}, 2, "`orchestration` must be a mapping, not 5"),
    ({"orchestration": None}, 2, "`orchestration` must be a mapping, not empty"),
    ({"review": {"mode": "lax"}}, 3, "`review.mode` must be one of 'normal', 'strict' or 'yolo', not \"lax\""),
    ({"review": {"checks": {"lint": {"severity": "x"}}}}, 5, "`review.checks.lint.severity` must be one of"),
    ({"review": {"checks": {"lint": {"enabled": "yes"}}}}, 5, '`review.checks.lint.enabled` must be true or false, not "yes"'),
    ({"review": {"auto_merge": 1}}, 3, "`review.auto_merge` must be true or false, not 1"),
    ({"context": {"excluded_paths": "dist"}}, 3, '`context.excluded_paths` must be a list, not "dist"'),
    ({"context": {"relevant_file_limit": 1}}, 3, "unknown key `context.relevant_file_limit`"),
    ({"roles": {"type_mapping": {"bug": 1}}}, 4, "`roles.type_mapping.bug` must be text, not 1"),
    ({"revew": {}}, 2, "unknown key `revew`"),
    ({"limits": {}}, 2, "unknown key `limits`"),
    ({"max_concurrent_agents": 0}, 2, "`orchestration.max_concurrent_agents` must be at least 1, not 0"),
    ({"orchestration": 5, "max_concurrent_agents": 1}, 3, "unknown key `max_concurrent_agents`"),
    ("{", 1, "invalid JSON"),
    ("[]", 1, "must be a mapping"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "line", "message"), WRONG)
def test_what_is_wrong_is_told_in_its_own_terms(
    root: Path, user: Path, data: Any, line: int, message: str
) -> None:
    file = said(root, data)
    error = refused(root, user)
    assert error.message.startswith(message)
    assert re.fullmatch(rf"{re.escape(str(file))}:{line}(:\d+)?", str(error.where))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"review": ' * 70 + "1" + "}" * 70, "{" + " " * (1 << 20)])
def test_a_hostile_one_is_refused(root: Path, user: Path, text: str) -> None:
    file = said(root, text)
    assert str(refused(root, user).where).startswith(str(file))


@pytest.mark.parametrize(
    ("data", "fix"),
    [
        ({"revew": {}}, "did you mean `review`?"),
        ({"models": {}}, "move it to .logist/config.yaml; this file can have"),
        (
            {"agent_timeout_minutes": 5},
            "move it under `orchestration`: orchestration.agent_timeout_minutes",
        ),
        ({"orchestration": {"max_agents": 1}}, "did you mean `max_concurrent_agents`?"),
    ],
)
def test_the_advice(root: Path, user: Path, data: Any, fix: str) -> None:
    said(root, data)
    assert str(refused(root, user).fix).startswith(fix)


def test_what_is_about_its_daemon_is_left_to_it(root: Path, user: Path) -> None:
    file = said(root, {"maxConcurrentAgents": 9, "logging": {"level": "info"}, "review": {"mode": "yolo"}})
    loaded = load_settings(root / ".logist", user)
    assert loaded.settings.review.mode == "yolo"
    assert loaded.settings.max_concurrent_agents == 3
    assert loaded.unused == ((f"{file}:2", "maxConcurrentAgents"), (f"{file}:3", "logging"))


def test_its_own_default_configs_are_read(root: Path, user: Path) -> None:
    """As the two generations of Coven write the file where nobody has changed anything."""
    first = {
        "maxConcurrentAgents": 3,
        "worktreeBasePath": ".coven/worktrees",
        "beadsSyncIntervalMs": 30000,
        "agentTimeoutMs": 600000,
        "mergeConflictMaxRetries": 2,
        "preMergeChecks": {"enabled": False, "commands": []},
        "agentPermissions": {"allowedTools": ["Read", "Write", "Bash(git:*)"]},
        "logging": {"level": "info", "retentionDays": 7},
        "outputRetentionDays": 7,
        "notifications": {"questions": "modal", "errors": "toast"},
    }
    said(root, first)
    loaded = load_settings(root / ".logist", user)
    assert loaded.settings == Settings()
    assert [each.key for each in loaded.unused] == list(first)
    file = said(
        root,
        {"poll_interval": 1, "agent_command": "claude", "max_concurrent_agents": 5, "log_level": "info"},
    )
    loaded = load_settings(root / ".logist", user)
    assert loaded.settings == Settings(max_concurrent_agents=5)
    assert loaded.sources["max_concurrent_agents"] == str(file)
    assert [each.key for each in loaded.unused] == ["poll_interval", "agent_command", "log_level"]
    said(root, {"max_concurrent_agents": 5, "orchestration": {"max_concurrent_agents": 2}})
    assert load_settings(root / ".logist", user).settings.max_concurrent_agents == 2


def test_a_key_that_nobody_has_heard_of_is_left_to_it(root: Path, user: Path) -> None:
    file = said(root, {"telemetry": {"enabled": True}, "review": {"mode": "strict"}})
    loaded = load_settings(root / ".logist", user)
    assert loaded.settings.review.mode == "strict"
    assert loaded.unused == ((f"{file}:2", "telemetry"),)


def test_it_may_not_be_another_users(root: Path, user: Path) -> None:
    file = said(root, {})
    if os.geteuid() == 0:  # nobody else may give a file away
        os.chown(file, 54321, -1)
        assert "another user" in refused(root, user).message


def test_a_dangling_link_is_not_taken_for_missing(root: Path, user: Path) -> None:
    (root / ".coven" / "config.json").symlink_to("gone.json")
    assert "can't read the file" in refused(root, user).message


POWERS: list[tuple[dict[str, Any], list[str]]] = [
    ({"review": {"checks": {"build_passes": {"command": ["make"]}}}}, ["review.checks.build_passes.command"]),
    ({"review": {"checks": {"x": {"enabled": False, "command": "sh x"}}}}, ["review.checks.x.command"]),
    ({"review": {"auto_merge": True}}, ["review.auto_merge"]),
    ({"review": {"mode": "yolo"}}, ["review.mode"]),
    ({"review": {"mode": "strict", "auto_merge": False, "checks": {"x": {"enabled": False}}}}, []),
    ({"orchestration": {"max_concurrent_agents": 9}, "context": {"custom_instructions": "x"}}, []),
    (CONFIG, []),
]


def powers(root: Path) -> list[str]:
    """The keys that the files of the project have to be allowed for."""
    home, user = root / ".logist", root / "user"
    return list(trust.read_trust(user, home, load_settings(home, user)).powers)


@pytest.mark.parametrize(("data", "keys"), POWERS)
@pytest.mark.parametrize("place", [".coven/config.json", ".logist/config.yaml"])
def test_what_has_to_be_allowed(root: Path, place: str, data: dict[str, Any], keys: list[str]) -> None:
    (root / ".logist").mkdir()
    if place == ".logist/config.yaml" and "orchestration" in data:
        data = {key: value for key, value in data.items() if key != "orchestration"} | data["orchestration"]
    (root / place).write_text(json.dumps(data), "utf-8")
    assert powers(root) == keys


def test_what_logist_takes_back_needs_no_leave(root: Path) -> None:
    said(root, {"review": {"mode": "yolo", "checks": {"x": {"command": "sh x"}}}})
    assert powers(root) == ["review.mode", "review.checks.x.command"]
    (root / ".logist").mkdir()
    (root / ".logist" / "config.yaml").write_text(
        "review: {mode: normal, checks: {x: {command: null}}}", "utf-8"
    )
    assert powers(root) == []
