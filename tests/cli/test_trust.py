"""A cloned project's config names programs only after a person has allowed them."""

from __future__ import annotations

import json
import os
import pty
from pathlib import Path

import pytest

from logist.config import trust
from logist.config.settings import Settings
from logist.core.model import Role
from logist.documents import list_known_keys
from tests import support
from tests.cli.desk import Desk, answer, command

POWERS = [
    "on_stuck: touch pwned\n",
    "agents: {mine: {argv: [sh, -c, touch pwned], metered: false}}\nagent: mine\n",
    "sandbox: {mode: 'off'}\n",
    "agent: codex\n",
    "tools: {require_approval: []}\n".replace("[]", "[x]"),
    "workspace: {caches: [src]}\n",
    "workspace: {history: shallow}\n",
    "workspace: {history: full}\n",
    "workspace: {setup: touch pwned}\n",
    "workspace: {setup: {rerun: always}}\n",
    "models: {grok-code-fast-1: {provider_model: openai/x, endpoint: 'https://203.0.113.1/v1', api_key_env: MY_SECRET_KEY}}\n",
    "models: {grok-code-fast-1: {provider_model: xai/x, api_key_env: MY_SECRET_KEY}}\n",
    "review: {checks: {build_passes: {command: touch pwned}}}\n",
    "review: {auto_merge: true}\n",
    "review: {mode: yolo}\n",
]


POSTSTEP = ["job", "poststep", "j1", "--response-string", command()]


@pytest.fixture
def user(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path / "user")}


@pytest.mark.parametrize("text", POWERS)
def test_nothing_of_it_holds_before(desk: Desk, user: dict[str, str], text: str) -> None:
    desk.create()
    desk.settings(text)
    before = desk.tree()
    for args in (["job", "step", "j1"], ["job", "run", "j1"], ["run"], POSTSTEP):
        ran = desk(*args, env=user)
        assert (ran.code, "logist trust" in ran.err) == (5, True)
    assert desk.tree() == before
    assert not (desk.place / "pwned").exists()
    assert desk("job", "status", "j1", env=user).code == 0
    assert "logist trust" in json.dumps(desk("doctor", "--json", env=user).json)


@pytest.mark.parametrize("line", ["network: true", "agent: codex"])
def test_a_role_of_the_project_reaches_no_further_before(desk: Desk, user: dict[str, str], line: str) -> None:
    desk.create()
    (desk.home / "roles").mkdir()
    role = f"name: Worker\ndescription: d\ninstructions: i\nllm_model: grok-code-fast-1\n{line}\n"
    (desk.home / "roles" / "Worker.yaml").write_text(role, "utf-8")
    assert desk("job", "step", "j1", env=user).code == 5
    assert desk("trust", "--yes", env=user).code == 0
    assert desk("job", "step", "j1", env=user).code == 0


def test_a_project_shows_past_commits_only_after_a_person_allowed_it(
    desk: Desk, user: dict[str, str], git_repo: Path
) -> None:
    """They may hold secrets that were removed later, and a job keeps what it was created with."""
    create = ["job", "create", "--prompt", "x", "--repo", str(git_repo), "--id"]
    desk.settings("workspace: {history: full}\n")
    before = desk.tree()
    refused = desk(*create, "j1", env=user)
    assert refused.code == 5
    assert refused.err.splitlines()[-1] == (
        f"error: {desk.home / 'config.yaml'}: `workspace.history` lets agents read past commits, which may contain "
        "secrets that were removed later; you haven't allowed this yet "
        "(check it, then run: logist trust)"
    )
    assert desk.tree() == before
    assert desk("job", "create", "--prompt", "x", "--no-repo", "--id", "j0", env=user).code == 0
    assert desk("trust", "--yes", env=user).code == 0
    assert desk(*create, "j1", env=user).code == 0
    assert support.git(desk.jobs / "j1" / "workspace", "log", "--format=%s") == "second\nfirst\n"
    desk.settings("workspace: {history: shallow}\n")
    assert desk(*create, "j2", env=user).code == 5
    desk.settings("workspace: {history: none}\n")
    assert desk("trust", "--revoke", env=user).code == 0
    assert desk(*create, "j3", env=user).code == 0
    assert support.git(desk.jobs / "j3" / "workspace", "log", "--format=%s") == "second\n"


def test_the_users_own_config_may_show_them(desk: Desk, user: dict[str, str], git_repo: Path) -> None:
    folder = Path(user["XDG_CONFIG_HOME"]) / "logist"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("workspace: {history: full}\n", "utf-8")
    create = ["job", "create", "--prompt", "x", "--repo", str(git_repo), "--id"]
    desk.settings("on_stuck: touch pwned\n")
    assert desk(*create, "j1", env=user).code == 0
    assert support.git(desk.jobs / "j1" / "workspace", "log", "--format=%s") == "second\nfirst\n"


def test_what_the_user_now_sets_too_is_not_removed(desk: Desk, user: dict[str, str], git_repo: Path) -> None:
    """Nothing that was allowed has changed, wherever the value comes from."""
    create = ["job", "create", "--prompt", "x", "--repo", str(git_repo), "--id"]
    desk.create()
    desk.settings("workspace: {history: full}\non_stuck: touch told\n")
    assert desk("trust", "--yes", env=user).code == 0
    folder = Path(user["XDG_CONFIG_HOME"]) / "logist"
    (folder / "config.yaml").write_text("workspace: {history: full}\n", "utf-8")
    assert desk(*create, "j2", env=user).code == 0
    assert desk("job", "step", "j2", env=user).code == 0
    desk.settings("on_stuck: touch told\n")
    assert "`workspace.history` was removed" in desk("job", "step", "j1", env=user).err
    (folder / "config.yaml").write_text("workspace: {history: shallow}\n", "utf-8")
    desk.settings("workspace: {history: shallow}\non_stuck: touch told\n")
    assert desk("job", "step", "j1", env=user).code == 5


def test_a_model_on_this_machine_needs_none(desk: Desk, user: dict[str, str]) -> None:
    desk.settings(
        "models: {mine: {provider_model: openai/x, endpoint: 'http://127.0.0.1:9/v1', api_key_env: K}}\n"
    )
    assert desk("run", env=user).code == 0


def test_it_holds_when_allowed_and_only_as_it_was(desk: Desk, user: dict[str, str]) -> None:
    desk.create()
    desk.script({"text": "?"}, {"text": "?"})
    desk.settings("on_stuck: touch told\n")
    shown = desk("trust", "--json", env=user)
    assert (shown.code, shown.json["diagnostics"][0]["fix"]) == (
        8,
        "to trust them without confirmation: logist trust --yes",
    )
    allowed = desk("trust", "--yes", env=user)
    assert allowed.code == 0
    assert 'on_stuck: "touch told"' in allowed.out
    assert desk("job", "step", "j1", env=user).code == 3
    assert (desk.place / "told").exists()
    desk.settings("# a comment\nlimits: {max_attempts: 2}\non_stuck: touch told\n")
    assert desk("trust", env=user).code == 0
    assert desk("run", env=user).code != 5
    desk.settings("on_stuck: touch pwned\n")
    assert desk("run", env=user).code == 5
    desk.settings("on_stuck: touch told\n")
    assert desk("run", env=user).code != 5
    assert desk("trust", "--revoke", env=user).code == 0
    assert desk("run", env=user).code == 5


def test_each_line_is_printed_once(desk: Desk, user: dict[str, str]) -> None:
    desk.settings(POWERS[0])
    line = 'on_stuck: "touch pwned"\n'
    trusted = f"trusted: {desk.home}\n"
    assert desk("trust", "--yes", env=user) == (0, line + trusted, "")
    assert desk("trust", env=user) == (0, line + trusted, "")
    assert desk("trust", "--revoke", env=user).code == 0
    refused = desk("trust", env=user)
    assert (refused.code, refused.out, refused.err.count(line)) == (8, "", 1)


def test_it_is_for_one_place(desk: Desk, user: dict[str, str], tmp_path: Path) -> None:
    desk.settings(POWERS[0])
    assert desk("trust", "--yes", env=user).code == 0
    other = tmp_path / "clone"
    (other / ".logist").mkdir(parents=True)
    (other / ".logist" / "config.yaml").write_text(POWERS[0], "utf-8")
    ran = support.run_as_process("run", env=user, cwd=other)
    assert ran.code == 5


def test_a_project_without_programs_needs_none(desk: Desk, user: dict[str, str]) -> None:
    desk.settings("limits: {max_attempts: 2}\nsandbox:\n")
    ran = desk("trust", env=user)
    assert (ran.code, "nothing to do: no settings in " in ran.out) == (0, True)
    assert desk("run", env=user).code == 0


@pytest.mark.parametrize("text", ["{", "[]", '"x"', "{}", '{"/elsewhere": "1"}'])
def test_what_is_remembered_may_be_broken(desk: Desk, user: dict[str, str], text: str) -> None:
    desk.settings(POWERS[0])
    folder = Path(user["XDG_CONFIG_HOME"]) / "logist"
    folder.mkdir(parents=True)
    (folder / "trusted.json").write_text(text, "utf-8")
    assert desk("run", env=user).code == 5
    assert desk("trust", "--yes", env=user).code == 0
    assert desk("run", env=user).code == 0
    assert len(json.loads((folder / "trusted.json").read_text())) >= 1


def test_the_users_own_config_needs_none(desk: Desk, user: dict[str, str]) -> None:
    folder = Path(user["XDG_CONFIG_HOME"]) / "logist"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(POWERS[0], "utf-8")
    assert desk("run", env=user).code == 0


@pytest.mark.parametrize("text", [POWERS[0], POWERS[3], POWERS[-1]])
def test_what_runs_nothing_needs_none(desk: Desk, user: dict[str, str], text: str) -> None:
    desk.create()
    desk.settings(text)
    made = desk("job", "create", "--id", "j2", "--prompt", "x", env=user)
    assert (made.code, "steps will be refused until you trust this project" in made.err) == (0, True)
    shown = desk("job", "preview", "j1", env=user | {"LOGIST_AGENT": "scripted:answers.json"})
    assert (shown.code, "steps will be refused until you trust this project" in shown.err) == (0, True)
    changed = [
        ["job", "rank", "j1", "3"],
        ["job", "role", "j1", "Designer"],
        ["job", "config", "j1", "--set", "rank=2"],
        ["job", "suspend", "j1"],
        ["job", "resume", "j1"],
        ["job", "poststep", "j1", "--response-string", command(), "--dry-run"],
        ["job", "fork", "j1", "--id", "j3"],
        ["job", "export", "j1", "--fixture", "exported"],
        ["job", "cancel", "j1"],
    ]
    for args in changed:
        ran = desk(*args, env=user)
        assert ran.code == 0, (args, ran.err)


MODEL = "models: {far: {provider_model: openai/x, endpoint: 'https://203.0.113.1/v1', api_key_env: K, %s}}\n"
CHANGES = {
    "a price": ("input_price: 1", "input_price: 2"),
    "the window": ("context_window: 1000", "context_window: 2000"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_what_is_harmless_asks_nothing(desk: Desk, user: dict[str, str], change: str) -> None:
    old, new = CHANGES[change]
    desk.create()
    desk.settings(MODEL % old)
    assert desk("trust", "--yes", env=user).code == 0
    desk.settings(MODEL % new + "limits: {cost_threshold: 5}\nreview: {mode: strict}\non_doubt: stuck\n")
    assert desk("job", "step", "j1", env=user).code == 0


@pytest.mark.parametrize(
    ("text", "key", "reason"),
    [
        (MODEL.replace("203.0.113.1", "203.0.113.2"), "models.far.endpoint", "changed since"),
        (MODEL.replace("api_key_env: K", "api_key_env: AWS_KEY"), "models.far.api_key_env", "changed since"),
        (MODEL.replace("openai/x", "huggingface/x"), "models.far.provider_model", "changed since"),
        (MODEL.replace("endpoint: 'https://203.0.113.1/v1', ", ""), "models.far.endpoint", "was removed"),
        (MODEL + "on_stuck: touch pwned\n", "on_stuck", "you haven't allowed this yet"),
        (MODEL + "on_doubt: retry\n", "on_doubt", "you haven't allowed this yet"),
        (MODEL + "gate: off\n", "gate", "you haven't allowed this yet"),
    ],
)
def test_a_change_of_what_is_not_names_the_key_and_why(
    desk: Desk, user: dict[str, str], text: str, key: str, reason: str
) -> None:
    desk.create()
    desk.settings(MODEL % "input_price: 1")
    assert desk("trust", "--yes", env=user).code == 0
    desk.settings(text % "input_price: 1")
    ran = desk("job", "step", "j1", env=user)
    assert ran.code == 5
    assert f"`{key}` " in ran.err
    assert reason in ran.err
    assert "input_price" not in ran.err


def test_a_model_whose_name_holds_an_address_is_not_on_this_machine(desk: Desk, user: dict[str, str]) -> None:
    desk.settings(
        "models: {m: {provider_model: 'x/https://203.0.113.1', endpoint: 'http://127.0.0.1:9/v1'}}\n"
    )
    assert desk("run", env=user).code == 5
    desk.settings("models: {m: {provider_model: x/y}}\n")
    assert desk("run", env=user).code == 5


def test_a_role_of_the_project_with_a_model_of_its_own(desk: Desk, user: dict[str, str]) -> None:
    (desk.home / "roles").mkdir()
    role = "name: Worker\ndescription: d\ninstructions: i\nllm_model: faraway/far\n"
    (desk.home / "roles" / "Worker.yaml").write_text(role, "utf-8")
    ran = desk("run", env=user)
    assert (ran.code, "`roles/Worker.llm_model`" in ran.err) == (5, True)


def test_a_record_of_an_earlier_version_is_asked_again_with_the_reason(
    desk: Desk, user: dict[str, str]
) -> None:
    desk.settings(POWERS[0])
    folder = Path(user["XDG_CONFIG_HOME"]) / "logist"
    folder.mkdir(parents=True)
    other = {"/elsewhere": "ab" * 32}
    (folder / "trusted.json").write_text(json.dumps({str(desk.home): "cd" * 32, **other}), "utf-8")
    ran = desk("run", env=user)
    assert (ran.code, "earlier version of Logist" in ran.err) == (5, True)
    assert desk("trust", "--yes", env=user).code == 0
    assert desk("run", env=user).code == 0
    assert json.loads((folder / "trusted.json").read_text("utf-8")).items() >= other.items()


@pytest.mark.parametrize(
    "text",
    [
        "approval: none\n",
        "approval: null\n",
        "review: {checks: {security: {enabled: false}}}\n",
        "review: {checks: {security: {severity: warning}}}\n",
        "review: {checks: {security: {command: null}}}\n",
    ],
)
def test_who_merges_without_a_person_is_not_weakened_by_a_project(
    desk: Desk, user: dict[str, str], text: str
) -> None:
    folder = Path(user["XDG_CONFIG_HOME"]) / "logist"
    folder.mkdir(parents=True)
    own = "review: {mode: yolo, checks: {security: {command: 'true'}}}\napproval: end\n"
    (folder / "config.yaml").write_text(own, "utf-8")
    desk.create()
    desk.settings(text)
    assert desk("job", "step", "j1", env=user).code == 5
    (folder / "config.yaml").write_text("approval: end\n", "utf-8")  # a person merges
    assert desk("job", "step", "j1", env=user).code == 0


def test_a_job_that_merges_by_itself_is_merged_only_with_trust(desk: Desk, user: dict[str, str]) -> None:
    """The config merges nothing by itself here; the job does, and the project's config takes the approval away."""
    repository = support.make_repository(desk.place / "repo")
    desk.script(answer(files={"new.txt": "x"}), answer(command(output={"verdict": "PASS"})))
    desk.create("j1", "--repo", "repo")
    assert desk("job", "config", "j1", "--set", "auto_merge=true", env=user).code == 0
    desk.settings("approval: none\n")
    ran = desk("job", "run", "j1", env=user)
    assert (ran.code, "not merged yet" in ran.err, "`approval`" in ran.err) == (5, True, True)
    assert not (repository / "new.txt").exists()
    assert desk("trust", "--yes", env=user).code == 0
    assert desk("job", "step", "j1", env=user).code == 0
    assert (repository / "new.txt").exists()


def test_a_hook_that_is_not_allowed_does_not_run(desk: Desk, user: dict[str, str]) -> None:
    """The config changes while the job waits for its approval, which then makes it STUCK."""
    repository = support.make_repository(desk.place / "repo")
    desk.script(answer(files={"README.md": "of the agent"}), answer())
    desk.create("j1", "--repo", "repo")
    assert desk("job", "config", "j1", "--set", "auto_merge=true", env=user).code == 0
    assert desk("job", "run", "j1", env=user).code == 11
    (repository / "README.md").write_text("of a person", "utf-8")
    support.git(repository, "commit", "--quiet", "--all", "--message", "meanwhile")
    desk.settings("on_stuck: touch pwned\n")
    ran = desk("job", "approve", "j1", env=user)
    assert (ran.code, "the on_stuck command did not run: " in ran.err) == (3, True)
    assert not (desk.place / "pwned").exists()
    desk("trust", "--yes", env=user)
    desk("job", "resubmit", "j1", env=user)
    desk.script(answer("?"), answer("?"), answer("?"))
    assert desk("job", "run", "j1", env=user).code == 3
    assert (desk.place / "pwned").exists()


def test_what_is_allowed_is_what_was_shown(desk: Desk, user: dict[str, str]) -> None:
    """The config changes between the question and the answer."""
    desk.settings("on_stuck: touch one\n")
    master, slave = pty.openpty()
    asking = desk.started("trust", env=user | {"TERM": "xterm"}, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    shown = b""
    while b"[y/N]" not in shown:
        shown += os.read(master, 1000)
    desk.settings("on_stuck: touch pwned\n")
    os.write(master, b"y\n")
    assert asking.wait(support.CRASHED) == 0
    os.close(master)
    assert desk("run", env=user).code == 5
    desk.settings("on_stuck: touch one\n")
    assert desk("run", env=user).code == 0


@pytest.mark.parametrize("name", ["trusted.json", ".trusted.lock"])
def test_a_pipe_in_the_place_of_what_is_remembered_keeps_nobody_waiting(
    desk: Desk, user: dict[str, str], name: str
) -> None:
    desk.settings(POWERS[0])
    folder = Path(user["XDG_CONFIG_HOME"]) / "logist"
    folder.mkdir(parents=True)
    os.mkfifo(folder / name)
    assert desk("run", env=user).code == 5
    assert desk("trust", "--yes", env=user).code == (0 if name == "trusted.json" else 5)


@pytest.mark.parametrize(
    ("text", "needs_trust"),
    [
        ("{limits: {daily: {cost: 499}}}", ""),
        ("{limits: {daily: {calls: 3}}}", ""),
        ("{limits: {more: {per: month, cost: 99999}}}", ""),
        ("{limits: {daily: {cost: 501}}}", "budget.limits.daily.cost"),
        ("{limits: {daily: {cost: null, calls: 3}}}", "budget.limits.daily.cost"),
        ("{limits: {daily: {per: month}}}", "budget.limits.daily.per"),
        ("{limits: {daily: {tag: none}}}", "budget.limits.daily.tag"),
        ("{timezone: Pacific/Kiritimati}", "budget.timezone"),
    ],
)
def test_a_project_may_only_lower_the_budgets_of_the_user(
    desk: Desk, user: dict[str, str], text: str, needs_trust: str
) -> None:
    own = Path(user["XDG_CONFIG_HOME"]) / "logist" / "config.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("budget: {limits: {daily: {per: day, cost: 500}}}\n")
    desk.settings(f"budget: {text}\n")
    ran = desk("run", env=user)
    if not needs_trust:
        assert (ran.code, "trust" in ran.err) == (0, False)
        return
    assert ran.code == 5
    assert f"`{needs_trust}` allows to spend more than your own config does" in ran.err
    assert desk("trust", "--yes", env=user).code == 0
    assert desk("run", env=user).code == 0


@pytest.mark.parametrize("has_budget", [True, False])
@pytest.mark.parametrize(
    ("text", "needs_trust"),
    [
        ("allow_unknown_price: true", "allow_unknown_price"),
        ("models: {m: {input_price: 0.01}}", "models.m.input_price"),
        ("models: {m: {price: free}}", "price"),
        ("models: {m: {output_price: 9.0}}", ""),
    ],
)
def test_a_project_may_not_make_calls_look_cheaper_to_the_budgets_of_the_user(
    desk: Desk, user: dict[str, str], text: str, needs_trust: str, *, has_budget: bool
) -> None:
    own = Path(user["XDG_CONFIG_HOME"]) / "logist" / "config.yaml"
    own.parent.mkdir(parents=True)
    budget = "budget: {limits: {daily: {per: day, cost: 500}}}\n" if has_budget else ""
    own.write_text(f"models: {{m: {{provider_model: openai/m, input_price: 1, output_price: 8}}}}\n{budget}")
    desk.settings(f"{text}\n")
    ran = desk("run", env=user)
    assert ran.code == (5 if has_budget and needs_trust else 0)
    assert not ran.code or f"{needs_trust}` allows to spend more than your own config does" in ran.err


def test_without_budgets_of_the_user_those_of_a_project_need_no_trust(
    desk: Desk, user: dict[str, str]
) -> None:
    desk.settings("budget: {timezone: Europe/Berlin, limits: {daily: {per: day, cost: 500}}}\n")
    assert desk("run", env=user).code == 0


@pytest.mark.parametrize(
    ("text", "needs_trust"),
    [
        ("{openai: {concurrent: 4}}", ""),
        ("{openai: {concurrent: 1, calls_per_minute: 5}}", ""),
        ("{anthropic: {concurrent: 99}}", ""),
        ("{openai/gpt-5: {calls_per_minute: 999}}", ""),
        ("{openai: {concurrent: 5}}", "rate_limits.openai.concurrent"),
        ("{openai: {concurrent: null, calls_per_minute: 5}}", "rate_limits.openai.concurrent"),
    ],
)
def test_a_project_may_only_lower_the_rate_limits_of_the_user(
    desk: Desk, user: dict[str, str], text: str, needs_trust: str
) -> None:
    own = Path(user["XDG_CONFIG_HOME"]) / "logist" / "config.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("rate_limits: {openai: {concurrent: 4}}\n")
    desk.settings(f"rate_limits: {text}\n")
    ran = desk("run", env=user)
    assert ran.code == (5 if needs_trust else 0)
    if needs_trust:
        assert f"`{needs_trust}` allows more calls than your own config does" in ran.err
        assert desk("trust", "--yes", env=user).code == 0
        assert desk("run", env=user).code == 0


def test_each_setting_is_judged() -> None:
    """A new setting needs trust until it is put into the table; here it has to be put into one of the two lists."""
    sensitive = {
        *(
            "review.checks",
            "review.mode",
            "review.auto_merge",
            "approval",
            "on_doubt",
            "gate",
            "on_stuck",
            "models",
        ),
        *("providers", "model", "review.model"),
        *("notify.stuck", "notify.approval", "notify.halted", "notify.done", "notify.merged"),
        *("notify.queue_empty", "notify.environment"),
        *(
            "agent",
            "agents",
            "workspace.caches",
            "workspace.history",
            "workspace.setup.commands",
            "workspace.setup.lock_files",
        ),
        *("workspace.setup.environment", "workspace.setup.rerun", "tools.require_approval", "tools.disabled"),
        *("sandbox.mode", "sandbox.memory_bytes", "sandbox.processes", "sandbox.file_bytes"),
        *("sandbox.output_bytes", "sandbox.readable"),
        *("budget.limits", "budget.timezone", "rate_limits"),
        # Refused in a project's config, with and without trust.
        *("steward.sign", "steward.key", "steward.require", "steward.allowed_signers", "projects"),
    }
    harmless = {".".join(path).removesuffix(".*") for path in trust.HARMLESS}
    assert set(list_known_keys(Settings)) == sensitive | {key for key in harmless if "*" not in key}
    roles = {"agent", "network", "llm_model", "later_attempts", "mcp_servers"}
    assert set(Role.model_fields) == roles | trust.HARMLESS_IN_ROLES


@pytest.mark.parametrize("text", POWERS)
def test_the_environment_trusts_exactly_the_settings_whose_digest_it_has(
    desk: Desk, user: dict[str, str], text: str
) -> None:
    desk.settings(text)
    printed = desk("trust", "--print", env=user)
    assert (printed.code, printed.err) == (0, "")
    assert desk("trust", "--print", "--json", env=user).json["data"]["digest"] == printed.out.strip()
    trusting = user | {"LOGIST_TRUST": printed.out.strip()}
    desk.create()
    assert json.loads(desk("trust", "--json", env=trusting).out)["data"]["trusted"] is True
    assert "logist trust" not in json.dumps(desk("doctor", "--json", env=trusting).json)
    assert not Path(user["XDG_CONFIG_HOME"]).exists()
    desk.settings(text + "notify: {stuck: touch pwned}\n")
    ran = desk("run", env=trusting)
    assert ran.code == 5
    changed = desk("trust", "--print", env=user).out.strip()
    assert (
        f"LOGIST_TRUST is set, but for other settings; check them, then set LOGIST_TRUST={changed})"
        in ran.err
    )


def test_one_digest_trusts_the_config_and_the_templates(desk: Desk, user: dict[str, str]) -> None:
    desk.settings("on_stuck: touch told\n")
    template = desk.home / "templates" / "fix.yaml"
    template.parent.mkdir()
    template.write_text("prompt: Do it.\nauto_merge: true\n")
    digest = desk("trust", "--print", env=user).out.strip()
    trusting = user | {"LOGIST_TRUST": digest}
    ran = desk("job", "create", "--from", "fix", "--id", "a", "--draft", env=trusting)
    assert ran.code == 0, ran.err
    ran = desk("run", env=trusting)
    assert ran.code == 0, ran.err
    template.write_text("prompt: Do it.\nauto_merge: true\napproval: none\n")
    changed = desk("trust", "--print", env=user).out.strip()
    for words in (("run",), ("job", "create", "--from", "fix")):
        ran = desk(*words, env=trusting)
        assert ran.code == 5
        assert f"set LOGIST_TRUST={changed})" in ran.err
    other = template.with_suffix(".yml")  # of two files with a name, the digest has the last one
    other.write_text("prompt: Do it.\nauto_merge: true\n")
    trusting = user | {"LOGIST_TRUST": desk("trust", "--print", env=user).out.strip()}
    assert desk("job", "create", "--from", str(other), "--id", "b", env=trusting).code == 0
    other.write_text("prompt: Do it.\nauto_merge: true\nreview_mode: yolo\n")
    assert desk("job", "create", "--from", str(other), "--id", "c", env=trusting).code == 5


def test_a_digest_does_not_depend_on_the_place_and_changes_with_roles_and_removed_keys(
    desk: Desk, user: dict[str, str], tmp_path: Path
) -> None:
    desk.settings("on_stuck: touch told\nsandbox: {mode: 'off'}\n")
    digests = [desk("trust", "--print", env=user).out]
    moved = tmp_path / "elsewhere"
    desk.place.rename(moved)
    assert support.run_in_process("trust", "--print", env=user, cwd=moved).out == digests[0]
    (moved / ".logist" / "roles").mkdir()
    role = "name: R\ndescription: d\ninstructions: i\nllm_model: grok-code-fast-1\nnetwork: true\n"
    (moved / ".logist" / "roles" / "R.yaml").write_text(role)
    digests.append(support.run_in_process("trust", "--print", env=user, cwd=moved).out)
    (moved / ".logist" / "config.yaml").write_text("on_stuck: touch told\n")
    digests.append(support.run_in_process("trust", "--print", env=user, cwd=moved).out)
    assert len(set(digests)) == 3


def test_without_input_nothing_is_asked_at_a_terminal(desk: Desk, user: dict[str, str]) -> None:
    desk.create()
    assert desk("job", "cancel", "j1").code == 0
    desk.settings(POWERS[0])
    without = user | {"LOGIST_NO_INPUT": "1"}
    for words, said in (
        (("trust",), "settings not trusted"),
        (("job", "delete", "j1"), "nothing was deleted: it was not confirmed"),
        (("inbox", "-i"), "can't ask: --no-input or LOGIST_NO_INPUT is set"),
    ):
        assert said in desk.on_terminal(*words, env=without, stdin_too=True)
        assert said in desk.on_terminal(*words, "--no-input", env=user, stdin_too=True)
        assert said in desk.on_terminal("--no-input", *words, env=user, stdin_too=True)
    assert desk.state()["status"] == "CANCELED"
    assert str(desk.job()) in desk.on_terminal(
        "job", "open", "j1", env=without | {"EDITOR": "false"}, stdin_too=True
    )
