"""`logist config set` and `unset`: comments, wrong values, two at once, a kill in the middle, and what is trusted."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from filelock import FileLock

from tests import support
from tests.cli.desk import Desk
from tests.support import RunLogist
from tests.torture.suite import Skip
from tests.torture.tracer import Action, Trace, kill_before, trace

TEXT = """\
# Ours.
limits:
  cost_threshold: 5   # cents
  # attempts are dear
  max_attempts: 2
models:
  gemini-2.5-flash: {input_price: 0.5}   # since May
on_stuck: [notify, me]
"""


@pytest.fixture
def user(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path / "user")}


def text(desk: Desk) -> str:
    return (desk.home / "config.yaml").read_text("utf-8")


def is_trusted(desk: Desk, user: dict[str, str]) -> bool:
    return desk("run", env=user).code == 0


class TestTheFile:
    def test_only_the_value_changes(self, desk: Desk, user: dict[str, str]) -> None:
        desk.settings(TEXT)
        ran = desk("config", "set", "limits.cost_threshold", "7.5", env=user)
        assert ran == (0, f"limits.cost_threshold: 5 -> 7.5\nfile: {desk.home / 'config.yaml'}\n", "")
        assert text(desk) == TEXT.replace("cost_threshold: 5 ", "cost_threshold: 7.5 ")

    def test_a_name_with_dots(self, desk: Desk, user: dict[str, str]) -> None:
        desk.settings(TEXT)
        assert desk("config", "set", "models.gemini-2.5-flash.output_price", "3", env=user).code == 0
        new = "{input_price: 0.5, output_price: 3}"
        assert text(desk) == TEXT.replace("{input_price: 0.5}", new)
        assert desk("config", "unset", "models.gemini-2.5-flash", env=user).code == 0
        assert "gemini" not in text(desk)

    @pytest.mark.parametrize(
        ("key", "value", "written"),
        [
            ("workspace.caches", "[a, b]", ["a", "b"]),
            ("workspace.caches", '["a", "b"]', ["a", "b"]),
            ("models.m", '{"provider_model": "x/y"}', {"provider_model": "x/y"}),
            ("context.custom_instructions", "Note: be #1", "Note: be #1"),
            ("context.custom_instructions", '"5"', "5"),
            ("review.auto_merge", "false", False),
            ("roles.type_mapping.bug.ui", "fix", "fix"),
        ],
    )
    def test_values(self, desk: Desk, user: dict[str, str], key: str, value: str, written: object) -> None:
        assert desk("config", "set", key, value, env=user).code == 0
        lines = desk("config", "set", key, value, "--json", env=user)
        assert lines.json["data"]["new"] == written
        assert lines.json["data"]["changed"] is False

    def test_the_default_is_named_before_and_after(self, desk: Desk, user: dict[str, str]) -> None:
        first = desk("config", "set", "limits.max_attempts", "9", env=user)
        assert first.out.startswith("limits.max_attempts: 3 (default) -> 9\n")
        assert desk("config", "unset", "limits.max_attempts", env=user).out.startswith(
            "limits.max_attempts: 9 -> 3 (default)\n"
        )
        assert "nothing to change" in desk("config", "unset", "limits.max_attempts", env=user).out

    @pytest.mark.parametrize(
        ("key", "value", "set_", "default"),
        [
            ("workspace.setup", "[npm ci]", '["npm ci"]', "[] (default)"),
            ("workspace.setup", "{commands: [npm ci], rerun: never}", None, "[] (default)"),
            ("review", "false", "false", "true (default)"),
            ("retries", "{max_tries: 2}", '{"max_tries": 2}', "default"),
        ],
    )
    def test_the_default_of_a_section_is_short(
        self, desk: Desk, user: dict[str, str], key: str, value: str, set_: str | None, default: str
    ) -> None:
        first = desk("config", "set", key, value, env=user)
        assert first.out.startswith(f"{key}: {default} -> {set_ or '{'}")
        last = desk("config", "unset", key, env=user)
        assert last.out.splitlines()[0].endswith(f" -> {default}")

    def test_turning_off_the_review_keeps_its_checks(self, desk: Desk, user: dict[str, str]) -> None:
        desk("config", "set", "review.checks.tests.command", "pytest", env=user)
        off = desk("config", "set", "review", "false", env=user)
        assert off.out.startswith("review.enabled: true (default) -> false\n")
        assert desk("config", "set", "review", "true", env=user).code == 0
        assert "review.checks.tests.command\tpytest\t" in desk("config", "show", env=user).out

    def test_what_the_users_config_sets_in_a_section_still_applies(
        self, desk: Desk, user: dict[str, str]
    ) -> None:
        desk("config", "set", "--user", "retries.max_tries", "2", env=user)
        desk("config", "set", "retries", "{max_tries: 3}", env=user)
        ran = desk("config", "unset", "retries", env=user)
        assert ran.out.startswith('retries: {"max_tries": 3} -> {"max_tries": 2} (')
        assert "still sets `retries`" in ran.err

    @pytest.mark.parametrize(
        ("args", "message"),
        [
            (["set", "limits.cost_threshold", "abc"], '`limits.cost_threshold` must be a number, not "abc"'),
            (["set", "limits.max_attempts", "0"], "`limits.max_attempts` must be at least 1, not 0"),
            (["set", "limits.cost_treshold", "5"], "did you mean `cost_threshold`?"),
            (["set", "limts.cost_threshold", "5"], "did you mean `limits`"),
            (["set", "models.m.endpont", "http://127.0.0.1"], "did you mean `endpoint`?"),
            (["set", "models.m", "x/y"], "`models.m` must be a mapping"),
            (["set", "models.m.input_price", "5"], "`models.m.provider_model` is missing"),
            (["set", "review.mode", "fast"], "`review.mode` must be one of 'normal', 'strict' or 'yolo'"),
            (
                ["set", "review.mode", "null"],
                "can't set a key to null (to remove it: logist config unset review.mode)",
            ),
            (["set", "a..b", "1"], "invalid key 'a..b'"),
            (["unset", "limits.cost_treshold"], "did you mean `cost_threshold`?"),
        ],
    )
    def test_what_is_wrong_changes_no_byte(
        self, desk: Desk, user: dict[str, str], args: list[str], message: str
    ) -> None:
        desk.settings(TEXT)
        ran = desk("config", *args, env=user)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert message in ran.err
        assert text(desk) == TEXT

    def test_an_address_with_a_password_is_not_repeated(self, desk: Desk, user: dict[str, str]) -> None:
        model = '{provider_model: x/y, endpoint: "https://me:hunter2@example.org"}'
        ran = desk("config", "set", "models.m", model, env=user)
        assert (ran.code, "hunter2" in ran.err) == (2, False)

    def test_a_file_that_is_wrong_already(self, desk: Desk, user: dict[str, str]) -> None:
        desk.settings("limits:\n  cost_treshold: 5\nagent: codex\n")
        ran = desk("config", "set", "agent", "litellm", env=user)
        assert (ran.code, "config.yaml:2: unknown key `limits.cost_treshold`" in ran.err) == (5, True)
        assert desk("config", "unset", "limits.cost_treshold", env=user).code == 0
        assert text(desk) == "agent: codex\n"

    def test_a_dry_run_writes_nothing(self, desk: Desk, user: dict[str, str]) -> None:
        desk.settings(TEXT)
        before = desk.tree()
        ran = desk("config", "set", "on_stuck", "touch x", "--dry-run", env=user)
        assert (ran.code, "dry run, file not written: " in ran.out) == (0, True)
        assert desk.tree() == before
        assert not is_trusted(desk, user)

    def test_the_users_own(self, desk: Desk, user: dict[str, str]) -> None:
        ran = desk("config", "set", "--user", "on_stuck", "touch x", env=user)
        file = Path(user["XDG_CONFIG_HOME"]) / "logist" / "config.yaml"
        assert (ran.code, file.read_text("utf-8")) == (0, "on_stuck: touch x\n")
        assert file.stat().st_mode & 0o777 == 0o600
        assert is_trusted(desk, user)
        desk.settings(TEXT)
        ran = desk("config", "set", "--user", "limits.cost_threshold", "9", env=user)
        assert f"{desk.home / 'config.yaml'} overrides `limits.cost_threshold`" in ran.err

    def test_patterns_of_the_user_hold_in_every_project(self, desk: Desk, user: dict[str, str]) -> None:
        desk.settings("redact: {patterns: [theirs]}\n")
        ran = desk("config", "set", "--user", "redact.patterns", "[mine]", env=user)
        assert (ran.code, "overrides" in ran.err) == (0, False)
        own = Path(user["XDG_CONFIG_HOME"]) / "logist" / "config.yaml"
        rows = json.loads(desk("config", "show", "--json", env=user).out)["data"]
        (row,) = (row for row in rows if row["field"] == "redact.patterns")
        assert row["value"] == ["theirs", "mine"]
        assert row["source"] == f"{own}, {desk.home / 'config.yaml'}"
        both = ", ".join(sorted(map(str, (own, desk.home / "config.yaml"))))
        assert f"config: {both}\n" in desk("doctor", env=user).out

    def test_where_there_is_no_project(self, cli: RunLogist, tmp_path: Path) -> None:
        ran = cli("config", "set", "limits.cost_threshold", "9", cwd=tmp_path)
        assert (ran.code, "logist init" in ran.err, "--user" in ran.err) == (2, True, True)

    def test_a_coven_project_gets_a_logist_directory(self, cli: RunLogist, tmp_path: Path) -> None:
        (tmp_path / ".coven").mkdir()
        (tmp_path / ".coven" / "config.json").write_text('{"review": {"mode": "strict"}}', "utf-8")
        assert cli("config", "set", "limits.cost_threshold", "9", cwd=tmp_path).code == 0
        assert (tmp_path / ".logist" / "config.yaml").read_text("utf-8") == "limits:\n  cost_threshold: 9\n"
        assert "jobs/" in (tmp_path / ".logist" / ".gitignore").read_text("utf-8")
        ran = cli("config", "unset", "review.mode", cwd=tmp_path)
        assert (ran.code, "nothing to change" in ran.out) == (0, True)
        assert f"{tmp_path / '.coven' / 'config.json'} still sets `review.mode`" in ran.err


class TestTrust:
    """What the user sets is trusted, and nothing else."""

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("on_stuck", "touch x"),
            ("agents.mine", '{argv: ["true"], metered: false}'),
            ("models.far", "{provider_model: x/y, endpoint: 'https://203.0.113.1/v1', api_key_env: K}"),
            ("review.mode", "yolo"),
            ("workspace.setup", "make deps"),
        ],
    )
    def test_no_second_question(self, desk: Desk, user: dict[str, str], key: str, value: str) -> None:
        assert desk("config", "set", key, value, env=user).code == 0
        assert is_trusted(desk, user)
        assert desk("config", "unset", key, env=user).code == 0
        assert is_trusted(desk, user)

    def test_key_by_key(self, desk: Desk, user: dict[str, str]) -> None:
        """The key is harmless while the model is on this machine, and stays trusted when it moves away."""
        for key, value in (
            ("models.m", "{provider_model: x/y, endpoint: 'http://127.0.0.1:9/v1'}"),
            ("models.m.api_key_env", "MY_KEY"),
            ("models.m.endpoint", "https://203.0.113.1/v1"),
            ("on_stuck", "touch x"),
            ("models.m.input_price", "1"),
        ):
            assert desk("config", "set", key, value, env=user).code == 0
            assert is_trusted(desk, user), key

    @pytest.mark.parametrize(
        ("planted", "key", "value"),
        [
            ("on_stuck: touch pwned\n", "limits.cost_threshold", "5"),
            ("on_stuck: touch pwned\n", "sandbox.mode", "off"),
            ("agents: {mine: {argv: [sh, pwned], metered: false}}\n", "agent", "mine"),
            ("agents: {mine: {argv: [sh, pwned], metered: false}}\n", "agents.mine.prompt", "file"),
            (
                "models: {m: {provider_model: x/y, endpoint: 'https://203.0.113.1'}}\n",
                "models.m.api_key_env",
                "K",
            ),
            (
                "models: {m: {provider_model: x/y, endpoint: 'http://127.0.0.1', api_key_env: AWS_KEY}}\n",
                "models.m.endpoint",
                "https://203.0.113.1",
            ),
            ("models: {m.x: {provider_model: x/y}}\n", "models.m", "{provider_model: x/z}"),
            ("workspace: {setup: {commands: [pwned]}}\n", "workspace.setup.rerun", "always"),
        ],
    )
    def test_what_was_in_the_file_before_is_not_trusted(
        self, desk: Desk, user: dict[str, str], planted: str, key: str, value: str
    ) -> None:
        desk.settings(planted)
        ran = desk("config", "set", key, value, env=user)
        assert ran.code in (0, 2), ran.err  # one of them is refused: {prompt_file} is missing
        assert not is_trusted(desk, user)

    def test_what_another_file_says_below_the_key_is_not_trusted(
        self, cli: RunLogist, tmp_path: Path, user: dict[str, str]
    ) -> None:
        (tmp_path / ".coven").mkdir()
        planted = {"review": {"checks": {"evil": {"command": "touch pwned"}}}}
        (tmp_path / ".coven" / "config.json").write_text(json.dumps(planted), "utf-8")
        assert cli("config", "set", "review", "{mode: yolo}", cwd=tmp_path, env=user).code == 0
        ran = cli("run", cwd=tmp_path, env=user)
        assert (ran.code, "`review.checks.evil.command`" in ran.err) == (5, True)
        assert "`review.mode`" not in ran.err

    def test_what_was_changed_behind_the_users_back(self, desk: Desk, user: dict[str, str]) -> None:
        desk.settings("on_stuck: notify\nagent: codex\n")
        assert desk("trust", "--yes", env=user).code == 0
        desk.settings(
            "on_stuck: touch pwned\nagent: codex\n"
        )  # an agent outside of a sandbox, or a `git pull`
        assert desk("config", "set", "agent", "claude", env=user).code == 0
        ran = desk("run", env=user)
        assert (ran.code, "`on_stuck` " in ran.err, "changed since" in ran.err) == (5, True, True)
        assert desk("config", "set", "on_stuck", "notify", env=user).code == 0
        assert is_trusted(desk, user)

    def test_a_value_that_was_planted_is_trusted_once_the_user_sets_it(
        self, desk: Desk, user: dict[str, str]
    ) -> None:
        desk.settings("on_stuck: notify\n")
        assert not is_trusted(desk, user)
        assert "nothing to change" in desk("config", "set", "on_stuck", "notify", env=user).out
        assert is_trusted(desk, user)


class TestHostileFiles:
    @pytest.mark.parametrize("name", ["config.yaml", "jobs/.config.lock"])
    @pytest.mark.parametrize("kind", ["pipe", "link", "directory", "huge"])
    def test_no_other_file_is_touched_and_nobody_waits(
        self, desk: Desk, user: dict[str, str], tmp_path: Path, name: str, kind: str
    ) -> None:
        place, other = desk.home / name, tmp_path / "other.yaml"
        other.write_text("on_doubt: stuck\n", "utf-8")
        if kind == "pipe":
            os.mkfifo(place)
        elif kind == "link":
            place.symlink_to(other)
        elif kind == "directory":
            place.mkdir()
        else:
            place.touch()
            os.truncate(place, 6 << 30)
        ran = desk("config", "set", "limits.cost_threshold", "5", env=user)
        assert ran.err.count("\n") <= 1
        assert ran.code == (0 if (kind, name) == ("huge", "jobs/.config.lock") else 5)
        assert other.read_text("utf-8") == "on_doubt: stuck\n"

    @pytest.mark.parametrize("content", ["a: &x 1\n", "a: 1\na: 2\n", "[1]\n", "{", "\x00"])
    def test_what_is_no_config(self, desk: Desk, user: dict[str, str], content: str) -> None:
        desk.settings(content)
        ran = desk("config", "set", "limits.cost_threshold", "5", env=user)
        assert (ran.code, text(desk)) == (5, content)


class TestProcesses:
    def test_many_at_once_lose_nothing(self, desk: Desk, user: dict[str, str]) -> None:
        desk.settings(TEXT)
        keys = [f"models.m{number}" for number in range(5)]
        model = "{provider_model: x/y, endpoint: 'https://203.0.113.1'}"
        at_work = [desk.started("config", "set", key, model, env=user) for key in keys]
        other = desk.started("config", "set", "--user", "limits.max_attempts", "8", env=user)
        assert [process.wait(support.CRASHED) for process in (*at_work, other)] == [0] * 6
        assert all(line in text(desk) for line in TEXT.splitlines())
        for key in keys:
            assert f"  {key.removeprefix('models.')}:\n" in text(desk)
        record = json.loads((Path(user["XDG_CONFIG_HOME"]) / "logist" / "trusted.json").read_text("utf-8"))
        assert {f"{key}.endpoint" for key in keys} <= set(record[str(desk.home)])

    @pytest.mark.parametrize("points", ["renames", pytest.param("more", marks=pytest.mark.deep)])
    def test_a_kill_at_any_point_leaves_the_old_file_or_the_new_one(
        self, desk: Desk, user: dict[str, str], points: str
    ) -> None:
        """One that is killed before it has recorded that the user trusts the value asks once more, and that is all."""
        old, new = "# Ours.\nagent: litellm\n", "# Ours.\nagent: litellm\non_stuck: touch x\n"
        environment = support.process_environment() | desk.env | user
        argv = [*support.logist_command(), "config", "set", "on_stuck", "touch x"]
        desk.settings(old)
        calls = traced(argv, desk, environment).calls
        assert text(desk) == new
        renames = [call.index for call in calls if call.name.startswith("rename")]
        at = renames if points == "renames" else [call.index for call in calls][::3]
        assert len(renames) == 2  # the config, then what is trusted
        for index in at:
            desk.settings(old)
            assert desk("trust", "--revoke", env=user).code == 0
            traced(argv, desk, environment, kill_before(index))
            assert text(desk) in (old, new)
            if text(desk) == old:
                assert is_trusted(desk, user)
            assert desk("config", "set", "on_stuck", "touch x", env=user).code == 0
            assert text(desk) == new
            assert is_trusted(desk, user)

    def test_it_waits_for_another_one(self, desk: Desk, user: dict[str, str]) -> None:
        desk.settings(TEXT)
        with FileLock(desk.jobs / ".config.lock"):
            waiting = desk.started("config", "set", "limits.cost_threshold", "9", env=user)
            desk.settings(TEXT.replace("max_attempts: 2", "max_attempts: 4"))
        assert waiting.wait(support.CRASHED) == 0
        assert (": 9 " in text(desk), "max_attempts: 4" in text(desk)) == (True, True)


def test_a_model_of_an_unknown_provider_is_set_with_a_warning_unless_litellm_calls_it(desk: Desk) -> None:
    assert desk("config", "set", "model", "opena/gpt-5").err == (
        "warning: unknown provider of the model `opena/gpt-5` "
        "(add it to `providers` in your user config with its base_url, or to `models`)\n"
    )
    desk("config", "set", "agent", "litellm")
    assert desk("config", "set", "model", "opena/gpt-5-mini").err == ""


@pytest.mark.parametrize(
    ("key", "unknown", "advice", "known"),
    [
        ("model", "nope", "name it with its provider: PROVIDER/nope", "openai/gpt-5"),
        ("agent", "calude", "did you mean `claude`?", "claude"),
        ("agent", "nope", "describe it in .logist/config.yaml, under `agents`", "litellm"),
        ("agent", "modle", "did you mean `model` or", "scripted:answers.jsonl"),
    ],
)
def test_a_name_that_no_step_could_use_is_set_with_a_warning(
    desk: Desk, key: str, unknown: str, advice: str, known: str
) -> None:
    ran = desk("config", "set", key, unknown)
    assert (ran.code, f"{key}: {unknown}" in text(desk)) == (0, True)
    assert ran.err.startswith(f"warning: unknown {key} `{unknown}`; known: ")
    assert advice in ran.err
    assert desk("config", "set", key, known).err == ""


def traced(argv: list[str], desk: Desk, environment: dict[str, str], act: Action | None = None) -> Trace:
    try:
        return trace(argv, cwd=desk.place, env=environment, act=act)
    except Skip as reason:
        pytest.skip(str(reason))
