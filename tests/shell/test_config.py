"""The environment, and config.yaml: what holds, where it comes from, and what is refused."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

import logist
from logist.config.environment import Environment, Home
from logist.config.layering import find_foreign_owner
from logist.config.providers import SHIPPED_PROVIDERS
from logist.config.sections import (
    _ORDINARY_ENDPOINT,
    SHIPPED_MODELS,
    Mode,
    ModelEntry,
    Review,
    endpoint_fault,
)
from logist.config.settings import (
    Settings,
    can_merge_automatically,
    can_merge_unchecked,
    choose_approval,
    load_settings,
    resolve_model,
)
from logist.core.model import CHECKS, Approval, ConfiguredCheck, ConfiguredLimits, JobSpec, Model, PriceTier
from logist.core.text import cache_patterns
from logist.errors import InvalidFile

PACKAGE = Path(logist.__file__).parent


def account() -> tuple[str, str]:
    """Name and home of who runs the tests, as far as this machine knows them."""
    try:
        known = pwd.getpwuid(os.getuid())
    except KeyError:
        return str(os.getuid()), "/"
    return known.pw_name, known.pw_dir


class TestHome:
    def test_the_nearest_project_upward(self, tmp_path: Path) -> None:
        (tmp_path / ".logist").mkdir()
        (tmp_path / "a" / ".logist").mkdir(parents=True)
        (tmp_path / "a" / "b").mkdir()
        environment = Environment({"LOGIST_HOME": "/elsewhere", "HOME": "/h"})
        assert environment.find_home(tmp_path / "a" / "b") == Home(tmp_path / "a" / ".logist", "project")
        assert environment.find_home(tmp_path / "a") == Home(tmp_path / "a" / ".logist", "project")
        assert environment.find_home(tmp_path) == Home(tmp_path / ".logist", "project")

    def test_a_file_of_that_name_is_no_project(self, tmp_path: Path) -> None:
        (tmp_path / ".logist").write_text("", "utf-8")
        assert Environment({"HOME": "/h"}).find_home(tmp_path).source == "user"

    @pytest.mark.parametrize(
        ("values", "path", "source"),
        [
            ({"LOGIST_HOME": "/l", "XDG_DATA_HOME": "/x", "HOME": "/h"}, "/l", "LOGIST_HOME"),
            ({"LOGIST_HOME": "rel", "HOME": "/h"}, "{cwd}/rel", "LOGIST_HOME"),
            ({"LOGIST_HOME": "", "XDG_DATA_HOME": "/x", "HOME": "/h"}, "/x/logist", "user"),
            ({"XDG_DATA_HOME": "", "HOME": "/h"}, "/h/.local/share/logist", "user"),
            ({"XDG_DATA_HOME": "relative", "HOME": "/h"}, "/h/.local/share/logist", "user"),
        ],
    )
    def test_without_a_project(self, values: dict[str, str], path: str, source: str, tmp_path: Path) -> None:
        wanted = Home(Path(path.format(cwd=tmp_path)), source)  # type: ignore[arg-type]
        assert Environment(values).find_home(tmp_path) == wanted

    def test_without_a_home_variable_the_account_says(self, tmp_path: Path) -> None:
        assert Environment({}).find_home(tmp_path).path == Path(account()[1], ".local/share/logist")

    def test_the_search_ends_at_the_root(self) -> None:
        assert Environment({"HOME": "/h"}).find_home(Path("/")).source == "user"

    def test_the_jobs_directory(self, tmp_path: Path) -> None:
        (tmp_path / ".logist").mkdir()
        named = Environment({"LOGIST_JOBS_DIR": "mine"})
        assert named.jobs_dir("/option", tmp_path) == Path("/option")
        assert named.jobs_dir("a/../b", tmp_path) == tmp_path / "b"
        assert named.jobs_dir(None, tmp_path) == tmp_path / "mine"
        assert Environment({}).jobs_dir(None, tmp_path) == tmp_path / ".logist" / "jobs"
        outside = Environment({"LOGIST_HOME": "/l"}).jobs_dir(None, Path("/"))
        assert outside == Path("/l/jobs")

    def test_the_users_own_config(self) -> None:
        assert Environment({"XDG_CONFIG_HOME": "/x", "HOME": "/h"}).user_config_dir() == Path("/x/logist")
        assert Environment({"HOME": "/h"}).user_config_dir() == Path("/h/.config/logist")


class TestVariables:
    def test_empty_means_unset(self) -> None:
        environment = Environment({"LOGIST_JOB_ID": "", "LOGIST_AGENT": "", "LOGIST_DEBUG": "", "K": " "})
        assert environment.job_id() is None
        assert environment.agent_name() is None
        assert environment.is_debugging() is False
        assert environment.get_key("K") is None
        assert environment.get_key("UNSET") is None

    def test_what_is_set(self) -> None:
        environment = Environment(
            {"LOGIST_JOB_ID": "j", "LOGIST_AGENT": "scripted:x", "LOGIST_DEBUG": "1", "K": "v\n"}
        )
        assert environment.job_id() == "j"
        assert environment.agent_name() == "scripted:x"
        assert environment.is_debugging() is True
        assert environment.get_key("K") == "v"

    def test_it_is_read_from_the_process_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LOGIST_JOB_ID", "first")
        environment = Environment.from_process()
        monkeypatch.setenv("LOGIST_JOB_ID", "second")
        assert environment.job_id() == "first"

    @pytest.mark.parametrize(
        ("values", "name"),
        [
            ({"LOGIST_STEWARD": "s", "USER": "u", "LOGNAME": "l"}, "s"),
            ({"USER": "u", "LOGNAME": "l"}, "u"),
            ({"USER": "", "LOGNAME": "l"}, "l"),
            ({}, account()[0]),
            ({"USER": "J\udcf6rg"}, "J?rg"),
        ],
    )
    def test_the_steward(self, values: dict[str, str], name: str) -> None:
        assert Environment(values).user_name() == name

    @pytest.mark.parametrize(
        ("values", "tty", "colored"),
        [
            ({}, True, True),
            ({}, False, False),
            ({"TERM": "dumb"}, True, False),
            ({"TERM": "xterm"}, True, True),
            ({"NO_COLOR": "1"}, True, False),
            ({"NO_COLOR": ""}, True, True),
            ({"FORCE_COLOR": "1"}, False, True),
            ({"FORCE_COLOR": "1", "TERM": "dumb"}, False, True),
            ({"FORCE_COLOR": "0"}, True, False),
            ({"FORCE_COLOR": ""}, False, False),
            ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
        ],
    )
    def test_color(self, values: dict[str, str], tty: bool, colored: bool) -> None:
        assert Environment(values).has_color(tty) is colored


class TestSecrets:
    SECRET = "0123456789"

    @pytest.mark.parametrize(
        "name",
        ["XAI_API_KEY", "gh_token", "MY_SECRET_1", "PGPASSWORD", "GOOGLE_CREDENTIALS", "db_password_old"],
    )
    def test_names_that_sound_secret(self, name: str) -> None:
        environment = Environment({name: self.SECRET})
        assert environment.list_secrets() == (self.SECRET,)
        assert environment.build_child_environment() == {}

    @pytest.mark.parametrize("name", ["PATH", "KEYBOARD", "TOKENS", "AWS_ACCESS_KEY_ID", "MONKEY"])
    def test_names_that_do_not(self, name: str) -> None:
        assert Environment({name: self.SECRET}).list_secrets() == ()

    def test_short_ones_are_no_secret(self) -> None:
        assert Environment({"A_KEY": "1234567", "B_KEY": "12345678", "C_KEY": ""}).list_secrets() == (
            "12345678",
        )

    def test_the_longest_first_without_spaces_around_and_each_once(self) -> None:
        values = {"A_KEY": "short-one", "B_KEY": "short-one-longer\n", "C_TOKEN": "short-one"}
        assert Environment(values).list_secrets() == ("short-one-longer", "short-one")

    def test_a_variable_that_a_model_names_is_one(self) -> None:
        assert Environment({"MY_LLM": self.SECRET}).list_secrets("MY_LLM") == (self.SECRET,)

    def test_a_child_sees_only_what_it_needs(self) -> None:
        kept = dict.fromkeys(
            (
                *("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR"),
                *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
                *("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"),
            ),
            "v",
        )
        others = (
            "LD_PRELOAD",
            "PYTHONPATH",
            "GIT_DIR",
            "XAI_API_KEY",
            "LOGIST_AGENT",
            "path",
            "SSH_AUTH_SOCK",
        )
        environment = Environment({**kept, "https_proxy": "p", **dict.fromkeys(others, "v")})
        assert environment.build_child_environment() == {**kept, "https_proxy": "p"}


class TestLayers:
    def test_the_environment_is_cheap_to_import(self) -> None:
        heavy = ("pydantic", "ruamel", "jsonschema", "click", "logist.core.model", "logist.config.settings")
        code = (
            f"import sys, logist.config.environment; print([name for name in {heavy} if name in sys.modules])"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == "[]"

    def test_nothing_else_reads_the_environment(self) -> None:
        reading = re.compile(r"os\.environ(?!\.update\()|getenv")
        found = [
            path.relative_to(PACKAGE)
            for path in PACKAGE.rglob("*.py")
            if reading.search(path.read_text("utf-8"))
        ]
        assert found == [Path("config/environment.py")]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def user(tmp_path: Path) -> Path:
    (tmp_path / "user").mkdir()
    return tmp_path / "user"


def configured(home: Path, text: str) -> Settings:
    (home / "config.yaml").write_text(text, "utf-8")
    return load_settings(home, home / "no-user").settings


class TestDefaults:
    def test_everything_works_without_a_file(self, tmp_path: Path) -> None:
        loaded = load_settings(tmp_path / "none", tmp_path / "none either")
        assert loaded.settings == Settings()
        assert set(loaded.sources.values()) == {"default"}

    def test_the_values_that_hold(self) -> None:
        found = Settings()
        assert found.limits == ConfiguredLimits(
            cost_threshold=1000, time_threshold_minutes=60, max_allowed_iterations=50, max_attempts=3
        )
        assert (found.review.enabled, found.review.role, found.review.mode) == (True, "Supervisor", "normal")
        assert (choose_approval(found), found.on_doubt, found.on_stuck) == (Approval.END, "stuck", None)
        assert (found.review.auto_merge, found.review.check_timeout_minutes) == (None, 10)
        assert {name: check.severity for name, check in found.review.checks.items() if check.enabled} == {
            "test_coverage": "warning",
            "e2e_tests": "warning",
            "code_quality": "warning",
            "security": "error",
            "build_passes": "error",
            "lint_passes": "warning",
        }
        assert (found.roles.default, found.roles.type_mapping) == ("Worker", {})
        assert (found.agent, found.max_concurrent_agents) == ("model", 3)
        assert (found.agent_timeout_minutes, found.poll_interval_seconds) == (30, 5)
        assert (found.min_output_tokens, found.allow_unknown_price) == (2048, False)
        assert (found.retries.max_tries, found.retries.backoff_seconds) == (4, 1.0)
        assert found.context.model_dump() == {
            "max_file_bytes": 65536,
            "max_total_bytes": 262144,
            "listing_limit": 500,
            "budget_tokens": 100_000,
            "relevant_files_limit": 10,
            "relevant_files_tokens": 20_000,
            "prior_attempts_limit": 3,
            "excluded_paths": ("node_modules", "dist", ".git"),
            "custom_instructions": None,
        }

    def test_caches_are_those_of_the_workspace(self) -> None:
        assert Settings().workspace.caches == cache_patterns.DEFAULT_CACHES

    def test_an_empty_file_changes_nothing(self, home: Path) -> None:
        assert configured(home, "# nothing yet\n") == Settings()
        assert configured(home, "limits:\n  # cost_threshold: 5\nmodels:\nreview:\n") == Settings()


class TestMerging:
    def test_the_project_over_the_user_over_the_defaults(self, home: Path, user: Path) -> None:
        (user / "config.yaml").write_text(
            "limits: {cost_threshold: 5, max_attempts: 7}\nagent_timeout_minutes: 1\n"
            "roles: {type_mapping: {bug: fix}}\non_stuck: [notify, me]\n",
            "utf-8",
        )
        (home / "config.yaml").write_text(
            "limits:\n  cost_threshold: 9\nroles:\n  type_mapping: {docs: Writer}\non_stuck: echo\n", "utf-8"
        )
        loaded = load_settings(home, user)
        found, sources = loaded.settings, loaded.sources
        assert found.limits == ConfiguredLimits(cost_threshold=9, max_attempts=7)
        assert found.roles.type_mapping == {"bug": "fix", "docs": "Writer"}
        assert found.on_stuck == "echo"
        assert sources["limits.cost_threshold"] == str(home / "config.yaml")
        assert sources["limits.max_attempts"] == str(user / "config.yaml")
        assert sources["limits.max_allowed_iterations"] == "default"
        assert sources["roles.type_mapping.bug"] == str(user / "config.yaml")
        assert sources["roles.type_mapping.docs"] == str(home / "config.yaml")
        assert sources["on_stuck"] == str(home / "config.yaml")
        assert sources["agent_timeout_minutes"] == str(user / "config.yaml")

    def test_a_type_of_tasks_is_one_in_whatever_case(self, home: Path, user: Path) -> None:
        (user / "config.yaml").write_text("roles: {type_mapping: {BUG: Worker, Docs: Writer}}\n", "utf-8")
        (home / "config.yaml").write_text("roles: {type_mapping: {Bug: test}}\n", "utf-8")
        loaded = load_settings(home, user)
        assert loaded.settings.roles.type_mapping == {"Docs": "Writer", "Bug": "test"}
        assert loaded.sources["roles.type_mapping.Bug"] == str(home / "config.yaml")

    @pytest.mark.parametrize(
        ("project", "patterns", "files"),
        [
            ("redact: {patterns: []}", ("mine", "both"), ["user"]),
            ("redact: {patterns: [theirs, both]}", ("theirs", "both", "mine"), ["user", "project"]),
            ("redact: {}", ("mine", "both"), ["user"]),
            ("redact:", ("mine", "both"), ["user"]),
            ("", ("mine", "both"), ["user"]),
        ],
    )
    def test_a_project_takes_no_pattern_of_the_user_away(
        self, home: Path, user: Path, project: str, patterns: tuple[str, ...], files: list[str]
    ) -> None:
        (user / "config.yaml").write_text("redact: {patterns: [mine, both]}\n", "utf-8")
        (home / "config.yaml").write_text(f"{project}\n", "utf-8")
        loaded = load_settings(home, user)
        assert loaded.settings.redact.patterns == patterns
        places = {"user": user / "config.yaml", "project": home / "config.yaml"}
        assert loaded.sources["redact.patterns"] == ", ".join(str(places[name]) for name in files)

    def test_one_directory_for_both_is_read_once(self, home: Path) -> None:
        (home / "config.yaml").write_text("min_output_tokens: 1\n", "utf-8")
        assert load_settings(home, home).settings.min_output_tokens == 1

    def test_a_shipped_model_is_changed_by_key(self, home: Path) -> None:
        found = configured(home, "models:\n  grok-code-fast-1:\n    endpoint: http://127.0.0.1:1/v1\n")
        assert found.models["grok-code-fast-1"].endpoint == "http://127.0.0.1:1/v1"
        assert found.models["grok-code-fast-1"].provider_model == "xai/grok-code-fast-1"
        assert set(found.models) == {"grok-code-fast-1", "gemini-2.5-flash"}

    @pytest.mark.parametrize(
        ("text", "enabled", "approval"),
        [
            ("review: false", False, "end"),
            ("review: true", True, "end"),
            ("review: {mode: strict}", True, "each"),
            ("approval: false", True, "none"),
            ("approval: true", True, "end"),
            ("approval: each", True, "each"),
            ("{approval: none, review: {mode: strict}}", True, "none"),
            ("{approval: false, review: {mode: normal}}", True, "none"),
            ("review: {mode: yolo}", True, "none"),
            ("{review: {mode: yolo}, approval: true}", True, "end"),
        ],
    )
    def test_short_forms(self, home: Path, text: str, enabled: bool, approval: str) -> None:
        found = configured(home, text)
        assert found.review.enabled is enabled
        assert choose_approval(found) == approval

    @pytest.mark.parametrize(
        ("config", "asked", "mode", "approval"),
        [
            ("{}", "none", "strict", "none"),
            ("{}", True, "yolo", "end"),
            ("{}", False, "strict", "none"),
            ("{}", None, "strict", "each"),
            ("approval: none", None, "strict", "none"),
            ("approval: none", None, "normal", "none"),
            ("approval: each", None, "yolo", "each"),
            ("{approval: each, review: {mode: yolo}}", None, None, "each"),
            ("review: {mode: strict}", None, "normal", "end"),
        ],
    )
    def test_an_explicit_approval_wins_over_the_mode(
        self, home: Path, config: str, asked: Approval | bool | None, mode: Mode | None, approval: str
    ) -> None:
        assert choose_approval(configured(home, config), asked, mode) == approval

    @pytest.mark.parametrize(
        ("config", "asked", "mode", "merges"),
        [
            ("{}", None, None, False),
            ("{}", None, "yolo", True),
            ("review: {mode: yolo}", None, None, True),
            ("review: {mode: yolo, auto_merge: false}", None, None, False),
            ("review: {mode: yolo, auto_merge: false}", True, None, True),
            ("review: {auto_merge: false}", None, "yolo", False),
            ("review: {auto_merge: true}", None, "normal", True),
            ("review: {auto_merge: true}", False, "yolo", False),
            ("review: {mode: yolo, auto_merge: null}", None, None, True),
        ],
    )
    def test_an_explicit_auto_merge_wins_over_the_mode(
        self, home: Path, config: str, asked: bool | None, mode: Mode | None, merges: bool
    ) -> None:
        assert can_merge_automatically(configured(home, config), asked, mode) is merges

    def test_an_explicit_auto_merge_of_the_user_wins_over_the_mode_of_a_project(
        self, home: Path, user: Path
    ) -> None:
        (user / "config.yaml").write_text("review: {auto_merge: false}\n", "utf-8")
        (home / "config.yaml").write_text("review: {mode: yolo}\n", "utf-8")
        assert not can_merge_automatically(load_settings(home, user).settings)

    @pytest.mark.parametrize(
        ("config", "job", "unchecked"),
        [
            ("{}", {}, False),
            ("{}", {"review_mode": "yolo"}, True),
            ("{}", {"review_mode": "yolo", "review": False}, False),
            ("{}", {"review_mode": "yolo", "auto_merge": False}, False),
            ("{}", {"review_mode": "yolo", "approval": "end"}, False),
            ("{}", {"approval": "none", "auto_merge": True}, True),
            ("review: {mode: yolo}", {}, True),
            ("review: {mode: yolo}", {"review_mode": "normal"}, False),
            ("review: {mode: yolo, checks: {build_passes: {command: make}}}", {}, False),
            ("review: {mode: yolo, checks: {build_passes: {command: make, enabled: false}}}", {}, True),
            ("review: {mode: yolo, checks: {lint_passes: {command: make}}}", {}, True),
        ],
    )
    def test_merging_on_the_words_of_agents_alone(
        self, home: Path, config: str, job: dict[str, Any], unchecked: bool
    ) -> None:
        assert can_merge_unchecked(configured(home, config), JobSpec.model_validate(job)) is unchecked

    def test_a_check_is_changed_by_key(self, home: Path, user: Path) -> None:
        (user / "config.yaml").write_text(
            "review: {checks: {lint_passes: {severity: error, command: [ruff, check]}}}", "utf-8"
        )
        (home / "config.yaml").write_text(
            "review: {checks: {lint_passes: {enabled: false}, style: {}}}", "utf-8"
        )
        loaded = load_settings(home, user)
        checks = loaded.settings.review.checks
        assert checks["lint_passes"] == ConfiguredCheck(
            enabled=False, severity="error", command=("ruff", "check")
        )
        assert checks["style"] == ConfiguredCheck()
        assert set(checks) == {*CHECKS, "style"}
        assert loaded.sources["review.checks.lint_passes.enabled"] == str(home / "config.yaml")
        assert loaded.sources["review.checks.lint_passes.severity"] == str(user / "config.yaml")
        assert loaded.sources["review.checks.security.severity"] == "default"

    def test_a_short_form_keeps_the_rest_of_the_layer_below(self, home: Path, user: Path) -> None:
        (user / "config.yaml").write_text("review: {role: Auditor}", "utf-8")
        (home / "config.yaml").write_text("review: false", "utf-8")
        loaded = load_settings(home, user)
        assert loaded.settings.review == Review(enabled=False, role="Auditor")
        assert loaded.sources["review.enabled"] == str(home / "config.yaml")
        assert loaded.sources["review.role"] == str(user / "config.yaml")

    def test_a_path_of_the_agent_starts_at_its_config_file(self, home: Path) -> None:
        assert configured(home, "agent: scripted:answers/a.json").agent == f"scripted:{home}/answers/a.json"
        assert configured(home, "agent: scripted:../a.json").agent == f"scripted:{home.parent}/a.json"
        assert configured(home, "agent: scripted:/a.json").agent == "scripted:/a.json"


WRONG = [
    ("cost_treshold: 1", 1, "unknown key `cost_treshold`"),
    ("limits:\n  cost_treshold: 1", 2, "unknown key `limits.cost_treshold`"),
    ("limits:\n  cost_threshold: lots", 2, '`limits.cost_threshold` must be a number, not "lots"'),
    ("limits:\n  cost_threshold: -1", 2, "`limits.cost_threshold` must be at least 0, not -1"),
    ("limits:\n  max_attempts: 0", 2, "`limits.max_attempts` must be at least 1, not 0"),
    ("limits: 5", 1, "`limits` must be a mapping, not 5"),
    ("review: maybe", 1, '`review` must be a mapping, not "maybe"'),
    ("review:\n  mode: lax", 2, "`review.mode` must be one of 'normal', 'strict' or 'yolo', not \"lax\""),
    ("review:\n  role: ''", 2, '`review.role` must be text of at least 1 character, not ""'),
    ("approval: 5", 1, "`approval` must be one of 'none', 'end' or 'each', not 5"),
    ("review:\n  auto_merge: 1", 2, "`review.auto_merge` must be true or false, not 1"),
    ("review:\n  check_timeout_minutes: 0", 2, "`review.check_timeout_minutes` must be more than 0, not 0"),
    ("review:\n  checks:\n    lint:\n      severity: bad", 4, "`review.checks.lint.severity` must be one of 'error' or 'warning', not \"bad\""),
    ("review:\n  checks:\n    lint:\n      command: []", 4, "`review.checks.lint.command` must be a list of at least 1 item or text, not a list"),
    ("review:\n  checks:\n    lint:\n      command: ''", 4, "`review.checks.lint.command` must be a list or text of at least 1 character, not \"\""),
    ("review:\n  checks:\n    lint:\n      command: [make, 1]", 4, "`review.checks.lint.command[1]` must be text, not 1"),
    ("review:\n  checks:\n    lint:\n      comand: make", 4, "unknown key `review.checks.lint.comand`"),
    ("review:\n  checks:\n    lint:\n      timeout_minutes: -1", 4, "`review.checks.lint.timeout_minutes` must be more than 0, not -1"),
    ("review:\n  checks: [lint]", 2, "`review.checks` must be a mapping, not a list"),
    ("context:\n  budget_tokens: 0", 2, "`context.budget_tokens` must be at least 1, not 0"),
    ("context:\n  relevant_files_limit: -1", 2, "`context.relevant_files_limit` must be at least 0, not -1"),
    ("context:\n  excluded_paths: dist", 2, '`context.excluded_paths` must be a list, not "dist"'),
    ("context:\n  excluded_paths: ['']", 2, '`context.excluded_paths[0]` must be text of at least 1 character, not ""'),
    ("context:\n  custom_instructions: 5", 2, "`context.custom_instructions` must be text, not 5"),
    ("max_concurrent_agents: 0", 1, "`max_concurrent_agents` must be at least 1, not 0"),
    ("max_concurrent_agents: 1.5", 1, "`max_concurrent_agents` must be an integer, not 1.5"),
    ("agent_timeout_minutes: 0", 1, "`agent_timeout_minutes` must be more than 0, not 0"),
    ("poll_interval_seconds: 0", 1, "`poll_interval_seconds` must be more than 0, not 0"),
    ("min_output_tokens: 0", 1, "`min_output_tokens` must be at least 1, not 0"),
    ("allow_unknown_price: yes", 1, '`allow_unknown_price` must be true or false, not "yes"'),
    ("on_doubt: pay", 1, "`on_doubt` must be one of 'stuck' or 'retry', not \"pay\""),
    ("agent: G 5", 1, '`agent` must be text that matches ^(scripted:.+|[a-z][a-z0-9_-]*)$, not "G 5"'),
    ("agent: 'scripted:'", 1, '`agent` must be text that matches ^(scripted:.+|[a-z][a-z0-9_-]*)$, not "scripted:"'),
    ("workspace:\n  caches: [a/b]", 2, '`workspace.caches[0]` must be text that matches ^[^/\\x00]+$, not "a/b"'),
    ("workspace:\n  max_checkpoint_bytes: 0", 2, "`workspace.max_checkpoint_bytes` must be at least 1, not 0"),
    ("context:\n  listing_limit: -1", 2, "`context.listing_limit` must be at least 0, not -1"),
    ("redact:\n  patterns: ['(']", 2, "`redact.patterns[0]` "),
    ("retries:\n  max_tries: 0", 2, "`retries.max_tries` must be at least 1, not 0"),
    ("retries:\n  backoff_seconds: -1", 2, "`retries.backoff_seconds` must be at least 0, not -1"),
    ("roles:\n  type_mapping: {bug: 1}", 2, "`roles.type_mapping.bug` must be text, not 1"),
    ("models:\n  m:\n    endpoint: http://x", 2, "`models.m.provider_model` is missing"),
    ("models:\n  m:\n    provider_model: a/b\n    input_price: -1", 4, "`models.m.input_price` must be at least 0, not -1"),
    ("models:\n  gpt-4.1:\n    provider_modle: a/b", 3, "unknown key `models.gpt-4.1.provider_modle`"),
    ("on_stuck: []", 1, "`on_stuck` must be a list of at least 1 item or text, not a list"),
    ("on_stuck: [1]", 1, "`on_stuck[0]` must be text, not 1"),
    ("budget:\n  limits:\n    d: {costs: 1}", 3, "unknown key `budget.limits.d.costs`"),
    ("budget:\n  limits:\n    d: {per: day}", 3, "`budget.limits.d` limits nothing; set `cost`"),
    ("budget:\n  limits:\n    d: {calls: 1, tag: a, model: m}", 3, "`budget.limits.d` can't be about `model` and `tag`"),
    ("budget:\n  limits:\n    d: {calls: 1, per: run, tag: a}", 3, "`budget.limits.d` `per: run` can't be combined"),
    ("budget:\n  limits:\n    d: {calls: 1, per: week}", 3, "`budget.limits.d.per` must be one of"),
    ("budget:\n  limits:\n    d: {cost: -1}", 3, "`budget.limits.d.cost` must be at least 0, not -1"),
    ("rate_limits:\n  openai: {concurent: 4}", 2, "unknown key `rate_limits.openai.concurent`"),
    ("rate_limits:\n  openai: {concurrent: 0}", 2, "`rate_limits.openai.concurrent` must be at least 1, not 0"),
    ("rate_limits:\n  openai: {calls_per_minute: 1.5}", 2, "`rate_limits.openai.calls_per_minute` must be"),
    ("rate_limits:\n  openai: {}", 2, "`rate_limits.openai` limits nothing; set `concurrent` or `calls_per_minute`"),
    ("rate_limits:\n  openai: 4", 2, "`rate_limits.openai` must be"),
    ("budget:\n  timezone: Mars/One", 2, "`budget.timezone` must be the name of a time zone, such as Europe/Berlin"),
    ("a: b: c", 1, "invalid YAML"),
    ("- a", 1, "must be a mapping"),
]  # fmt: skip


class TestRefusals:
    @pytest.mark.parametrize(("text", "line", "message"), WRONG)
    def test_file_line_and_key_path(self, home: Path, text: str, line: int, message: str) -> None:
        with pytest.raises(InvalidFile) as caught:
            configured(home, text)
        assert caught.value.message.startswith(message)
        assert re.fullmatch(rf"{re.escape(str(home / 'config.yaml'))}:{line}(:\d+)?", str(caught.value.where))

    def test_the_users_file_is_named_when_it_is_the_wrong_one(self, home: Path, user: Path) -> None:
        (user / "config.yaml").write_text("agentx: x\n", "utf-8")
        (home / "config.yaml").write_text("agent: litellm\n", "utf-8")
        with pytest.raises(InvalidFile) as caught:
            load_settings(home, user)
        assert caught.value.where == f"{user / 'config.yaml'}:1"
        assert caught.value.fix == "did you mean `agent` or `agents`?"

    @pytest.mark.parametrize(
        ("patterns", "message"),
        [
            ("[fine, '(']", "`redact.patterns[1]` must be a valid regular expression"),
            ("null", "`redact.patterns` must be a list"),
            ("mine", "`redact.patterns` must be a list"),
        ],
    )
    def test_a_wrong_pattern_of_a_project_has_its_own_place(
        self, home: Path, user: Path, patterns: str, message: str
    ) -> None:
        (user / "config.yaml").write_text("redact: {patterns: [mine, more]}\n", "utf-8")
        (home / "config.yaml").write_text(f"agent: litellm\nredact:\n  patterns: {patterns}\n", "utf-8")
        with pytest.raises(InvalidFile, match=re.escape(message)) as caught:
            load_settings(home, user)
        assert caught.value.where == f"{home / 'config.yaml'}:3"

    def test_a_file_that_cannot_be_read_is_not_taken_for_missing(self, home: Path) -> None:
        (home / "config.yaml").mkdir()
        with pytest.raises(InvalidFile, match="can't read the file"):
            load_settings(home, home)

    def test_a_dangling_link_is_not_taken_for_missing(self, home: Path) -> None:
        (home / "config.yaml").symlink_to("gone.yaml")
        with pytest.raises(InvalidFile, match="can't read the file"):
            load_settings(home, home)


class TestModels:
    def test_the_shipped_table(self) -> None:
        assert resolve_model(Settings(), "grok-code-fast-1") == Model(
            name="grok-code-fast-1",
            provider_model="xai/grok-code-fast-1",
            api_key_env="XAI_API_KEY",
            input_price=1.00,
            cached_price=0.20,
            output_price=2.00,
            tiers=(PriceTier(above=200_000, input_price=2, cached_price=0.4, output_price=4),),
            context_window=256_000,
        )
        assert resolve_model(Settings(), "gemini-2.5-flash") == Model(
            name="gemini-2.5-flash",
            provider_model="gemini/gemini-2.5-flash",
            api_key_env="GEMINI_API_KEY",
            input_price=0.30,
            cached_price=0.03,
            output_price=2.50,
            context_window=1_048_576,
        )

    @pytest.mark.parametrize(
        "endpoint",
        [
            "https://user:hunter2@example.org/v1",
            "http://hunter2@127.0.0.1:1/v1",
            "ftp://u:hunter2@example.org",
            "//u:hunter2@x",
        ],
    )
    def test_a_key_in_an_address_is_refused_and_not_repeated(self, home: Path, endpoint: str) -> None:
        with pytest.raises(InvalidFile) as caught:
            configured(home, f"models:\n  gpt-4.1:\n    provider_model: a/b\n    endpoint: {endpoint}\n")
        assert caught.value.message == "`models.gpt-4.1.endpoint` must not contain a user name or password"
        assert caught.value.where == f"{home / 'config.yaml'}:4"
        assert "api_key_env" in str(caught.value.fix)
        assert "hunter2" not in str(caught.value)

    @pytest.mark.parametrize(
        ("endpoint", "fault"),
        [
            ("127.0.0.1:8000/v1", "must start with http:// or https:// and a host"),
            ("localhost", "must start with http:// or https:// and a host"),
            ("file:///etc/passwd", "must start with http:// or https:// and a host"),
            ("http://", "must start with http:// or https:// and a host"),
            ("http://127.0.0.1:8000/v 1", "must not contain spaces or control characters"),
            (" http://127.0.0.1:8000/v1", "must not contain spaces or control characters"),
            ("http://[::1/v1", "must be a URL"),
            ("http://x:port/v1", "must be a URL"),
        ],
    )
    def test_an_endpoint_is_the_address_of_a_web_server(self, home: Path, endpoint: str, fault: str) -> None:
        with pytest.raises(InvalidFile) as caught:
            configured(home, f"models: {{m: {{provider_model: a/b, endpoint: '{endpoint}'}}}}")
        assert caught.value.message == f"`models.m.endpoint` {fault}"
        with pytest.raises(ValueError, match=re.escape(fault)):
            ModelEntry(provider_model="a/b", endpoint=endpoint)

    def test_one_of_the_config(self, home: Path) -> None:
        found = configured(
            home, "models:\n  mine: {provider_model: openai/m, max_output_tokens: 9, input_price: 1}\n"
        )
        assert resolve_model(found, "mine") == Model(
            name="mine",
            provider_model="openai/m",
            api_key_env="OPENAI_API_KEY",
            max_output_tokens=9,
            input_price=1,
        )

    def test_provider_and_model_are_taken_as_written(self) -> None:
        found = resolve_model(Settings(), "openrouter/meta/llama")
        assert found == Model(
            name="openrouter/meta/llama",
            provider_model="openrouter/meta/llama",
            api_key_env="OPENROUTER_API_KEY",
        )
        assert found.input_price is None
        assert found.output_price is None

    def test_the_table_comes_before_the_slash(self, home: Path) -> None:
        found = configured(home, "models:\n  a/b: {provider_model: openai/c}\n")
        assert resolve_model(found, "a/b").provider_model == "openai/c"

    @pytest.mark.parametrize("name", ["gpt-9", "/gpt-9", "gpt-9/", "Grok-code-fast-1"])
    def test_an_unknown_name(self, name: str) -> None:
        with pytest.raises(InvalidFile) as caught:
            resolve_model(Settings(), name)
        assert caught.value.message == f"unknown model `{name}`; known: gemini-2.5-flash, grok-code-fast-1"

    def test_the_advice_can_be_pasted(self, home: Path) -> None:
        with pytest.raises(InvalidFile) as caught:
            resolve_model(Settings(), "gpt-9")
        snippet = re.search(r"models: \{.*\}\}", str(caught.value.fix))
        assert snippet
        assert resolve_model(configured(home, snippet[0]), "gpt-9").provider_model == "PROVIDER/gpt-9"

    def test_the_defaults_are_not_shared(self, home: Path) -> None:
        configured(home, "models: {mine: {provider_model: a/b}}\n")
        assert set(SHIPPED_MODELS) == {"grok-code-fast-1", "gemini-2.5-flash"}
        assert set(Settings().models) == {"grok-code-fast-1", "gemini-2.5-flash"}


class TestForeign:
    USER = """models:
  m: {provider_model: p/m, endpoint: "https://good.example", api_key_env: M_KEY, input_price: 1.0, output_price: 2.0}
"""

    def entry(self, tmp_path: Path, project: str) -> ModelEntry:
        for folder, text in (("user", self.USER), ("home", f"models: {{m: {{{project}}}}}")):
            (tmp_path / folder).mkdir()
            (tmp_path / folder / "config.yaml").write_text(text, "utf-8")
        return load_settings(tmp_path / "home", tmp_path / "user").settings.models["m"]

    @pytest.mark.parametrize(
        ("project", "key", "price"),
        [
            ("endpoint: 'https://evil.example'", None, 1.0),
            ("endpoint: null", None, 1.0),
            ("provider_model: evil/m", None, None),
            ("endpoint: 'https://evil.example', api_key_env: OWN", "OWN", 1.0),
            ("provider_model: p/m2, input_price: 3.0", None, 3.0),
            ("endpoint: 'https://good.example', provider_model: p/m", "M_KEY", 1.0),
            ("max_output_tokens: 5", "M_KEY", 1.0),
        ],
    )
    def test_a_key_does_not_go_where_its_owner_did_not_send_it(
        self, tmp_path: Path, project: str, key: str | None, price: float | None
    ) -> None:
        entry = self.entry(tmp_path, project)
        assert (entry.api_key_env, entry.input_price) == (key, price)

    def test_a_shipped_model_does_not_bring_its_key_either(self, tmp_path: Path) -> None:
        text = "models: {grok-code-fast-1: {endpoint: 'https://evil.example'}}"
        (tmp_path / "config.yaml").write_text(text, "utf-8")
        loaded = load_settings(tmp_path, tmp_path / "none")
        assert loaded.settings.models["grok-code-fast-1"].api_key_env is None
        assert loaded.sources["models.grok-code-fast-1.api_key_env"] == str(tmp_path / "config.yaml")

    def test_a_file_of_another_user_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "config.yaml"
        path.write_text("review: false\n", "utf-8")
        assert not load_settings(tmp_path, tmp_path).settings.review.enabled
        if os.geteuid() == 0:  # nobody else may give a file away
            os.chown(path, 54321, -1)
            with pytest.raises(InvalidFile, match="another user, uid 54321") as caught:
                load_settings(tmp_path, tmp_path)
            assert caught.value.where == str(path)
            assert f"chown 0 {path}" in (caught.value.fix or "")
        assert find_foreign_owner(0, 1000) is None
        assert find_foreign_owner(1000, 1000) is None
        assert find_foreign_owner(54321, 1000) == "uid 54321"
        assert find_foreign_owner(54321, 0) == "uid 54321"


@given(st.from_regex(_ORDINARY_ENDPOINT.pattern, fullmatch=True))
def test_an_ordinary_endpoint_is_a_valid_url(endpoint: str) -> None:
    """So it needs no closer look."""
    parts = urlsplit(endpoint)
    assert parts.hostname
    assert parts.port is None or 0 <= parts.port < 1 << 16
    assert "@" not in parts.netloc
    assert endpoint_fault(endpoint) is None


def test_the_shipped_endpoints_are_ordinary() -> None:
    for provider in SHIPPED_PROVIDERS.values():
        assert _ORDINARY_ENDPOINT.fullmatch(provider.base_url)
