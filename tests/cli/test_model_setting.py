"""Which model a step uses, and where its name comes from: options, environment, job, workflow, roles, config."""

from __future__ import annotations

import pytest

from tests.cli.desk import Desk, answer, command

MINE = "{provider_model: openai/x, endpoint: 'http://127.0.0.1:9/v1', input_price: 1, output_price: 2}"
NAMES = ("opt", "env", "job", "step", "role", "review", "conf")


def _source(desk: Desk, *args: str, env: dict[str, str] | None = None) -> tuple[str, str]:
    """The model that the next step would use, and where its name comes from."""
    ran = desk("job", "preview", "j1", "--agent", "model", "--json", *args, env=env)
    assert ran.code == 0, ran.out
    return ran.json["data"]["model"], ran.json["data"]["model_source"]


def _configure(desk: Desk, text: str = "") -> None:
    models = "".join(f"  {name}: {MINE}\n" for name in NAMES)
    desk.settings(f"models:\n{models}{text}")
    assert desk("trust", "--yes").code == 0


def _role(desk: Desk, fields: str, name: str = "Worker") -> None:
    (desk.home / "roles").mkdir(exist_ok=True)
    (desk.home / "roles" / f"{name}.yaml").write_text(f"name: {name}\nbase: {name}\n{fields}", "utf-8")


@pytest.mark.parametrize(
    "words", [("job", "step", "j1"), ("job", "run", "j1"), ("job", "preview", "j1"), ("run",)]
)
def test_an_empty_option_is_refused(desk: Desk, words: tuple[str, ...]) -> None:
    desk.create()
    ran = desk(*words, "--model", "")
    assert (ran.code, ran.out) == (2, "")
    assert "'--model': must not be empty" in ran.err


def test_the_first_setting_that_names_a_model_decides(desk: Desk) -> None:
    _configure(desk)
    desk.create()
    assert _source(desk) == ("grok-code-fast-1", "shipped role Worker")
    _configure(desk, "model: conf\n")
    assert _source(desk) == ("conf", "config: model")
    _role(desk, "temperature: 1\n")  # a role file that names no model
    assert _source(desk) == ("conf", "config: model")
    _role(desk, "llm_model: role\n")
    assert _source(desk) == ("role", "role Worker")
    assert desk("job", "config", "j1", "--set", "model=job").code == 0
    assert _source(desk) == ("job", "job.yaml")
    env = {"LOGIST_MODEL": "env"}
    assert _source(desk, env=env) == ("env", "LOGIST_MODEL")
    assert _source(desk, "--model", "opt", env=env) == ("opt", "--model")


def test_a_step_names_the_model_of_who_does_it(desk: Desk) -> None:
    _configure(desk, "model: conf\n")
    (desk.place / "flow.yaml").write_text("name: flow\nsteps: [{id: a, prompt: Do it., model: step}]\n")
    desk.create("j1", "--workflow", "flow.yaml")
    assert _source(desk) == ("step", "step a of the workflow")
    desk("job", "config", "j1", "--set", "model=job")
    assert _source(desk) == ("job", "job.yaml")


def test_reviewers_have_their_own_setting(desk: Desk) -> None:
    _configure(desk, "model: conf\n")
    desk.create()
    assert desk("job", "step", "j1").code == 0
    assert _source(desk) == ("conf", "config: model")
    _configure(desk, "model: conf\nreview: {model: review}\n")
    assert _source(desk) == ("review", "config: review.model")
    _role(desk, "llm_model: role\n", "Supervisor")
    assert _source(desk) == ("role", "role Supervisor")


def test_the_later_attempts_of_a_role_file_win(desk: Desk) -> None:
    _configure(desk, "model: conf\n")
    _role(desk, "later_attempts: [{llm_model: role}]\n")
    assert desk("trust", "--yes").code == 0
    desk.script(answer(command("RETRY")))
    desk.create()
    assert _source(desk) == ("conf", "config: model")
    desk("job", "step", "j1")
    assert "attempt 2" in desk("job", "preview", "j1").err
    assert _source(desk) == ("role", "role Worker")


def test_the_option_of_create_is_in_job_yaml(desk: Desk) -> None:
    _configure(desk)
    desk.create("j1", "--model", "job")
    assert "model: job" in (desk.job() / "job.yaml").read_text("utf-8")
    assert _source(desk) == ("job", "job.yaml")


def test_a_run_uses_the_model_of_the_option_for_all_steps(desk: Desk) -> None:
    desk.create()
    desk("job", "run", "j1", "--model", "opt")
    desk.create("j2")
    desk("run", "--model", "opt")
    desk.create("j3")
    desk("job", "step", "j3", env={"LOGIST_MODEL": "env"})
    for job, model, count in (("j1", "opt", 2), ("j2", "opt", 2), ("j3", "env", 1)):
        asked = [entry["request"] for entry in desk.history(job) if entry["kind"] == "ask"]
        assert [each["metadata"]["model"] for each in asked] == [model] * count
        assert {each["command"]["options"]["model"] for each in asked} == {model}
    # A model that a person chose for one command is no difference to today.
    same = desk("job", "replay", "j3", "--prompts", "warn", env={"LOGIST_MODEL": "other"})
    assert (same.code, "the model" in same.out + same.err) == (0, False)


def test_a_replay_compares_with_the_model_that_would_be_used_today(desk: Desk) -> None:
    _configure(desk, "model: conf\n")
    desk.create()
    desk("job", "step", "j1")
    same = desk("job", "replay", "j1", "--prompts", "warn")
    assert (same.code, "the model" in same.out + same.err) == (0, False)
    _configure(desk, "model: opt\n")
    changed = desk("job", "replay", "j1", "--prompts", "warn")
    assert "the model is chosen by config: model" in changed.out + changed.err
    _configure(desk)
    changed = desk("job", "replay", "j1", "--prompts", "warn")
    assert "the model was chosen by another setting than the role file" in changed.out + changed.err


@pytest.mark.parametrize(
    ("setting", "needs_trust"),
    [
        ("model: anthropic/claude-sonnet-4-5", False),
        ("review: {model: openai/gpt-5}", False),
        ("model: gemini-2.5-flash", False),
        ("model: elsewhere/x", True),
        ("model: openai/http://example.org/x", True),
        ("providers: {mine: {base_url: 'http://127.0.0.1:9/v1'}}\nmodel: mine/x", False),
        ("providers: {mine: {base_url: 'http://127.0.0.1:9/v1', api_key_env: AWS_SECRET}}", True),
        ("providers: {mine: {base_url: 'https://example.org/v1'}}\nmodel: mine/x", True),
        ("providers: {openai: {base_url: 'https://example.org/v1', api_key_env: OPENAI_API_KEY}}", True),
    ],
)
def test_a_project_may_choose_among_known_providers_without_trust(
    desk: Desk, setting: str, needs_trust: bool
) -> None:
    desk.settings(setting)
    assert (desk("trust").code != 0) is needs_trust
    desk.create()
    assert (desk("job", "step", "j1").code == 5) is needs_trust


def test_a_role_may_name_a_model_of_a_known_provider_without_trust(desk: Desk) -> None:
    _role(desk, "llm_model: anthropic/claude-sonnet-4-5\n")
    assert desk("trust").code == 0
    _role(desk, "llm_model: elsewhere/x\n")
    assert desk("trust").code != 0


def test_a_job_or_a_workflow_chooses_no_unknown_address(desk: Desk) -> None:
    desk.settings("allow_unknown_price: true\n")
    desk.create("j1", "--model", "elsewhere/x")
    ran = desk("job", "preview", "j1", "--agent", "model")
    assert ran.code == 5
    assert "unknown provider of the model `elsewhere/x`" in ran.err
    assert "job.yaml" in ran.err


def test_a_changed_address_of_a_provider_does_not_get_its_key(desk: Desk) -> None:
    user = desk.place / "xdg" / "logist"
    user.mkdir(parents=True)
    text = "providers: {corp: {base_url: 'https://example.org/v1', api_key_env: CORP_KEY}}\n"
    (user / "config.yaml").write_text(text, "utf-8")
    desk.settings("providers: {corp: {base_url: 'https://example.net/v1'}}\n")
    ran = desk("config", "show", "--json", env={"XDG_CONFIG_HOME": str(desk.place / "xdg")})
    assert '"CORP_KEY"' not in ran.out


def test_an_invalid_address_of_a_provider_is_not_printed(desk: Desk) -> None:
    desk.settings("providers: {mine: {base_url: 'https://me:hunter2@example.org/v1'}}\n")
    ran = desk("config", "show")
    assert ran.code == 5
    assert "`providers.mine.base_url` must not contain a user name or password" in ran.err
    assert "hunter2" not in ran.err


def test_an_unknown_name_says_which_setting_has_it(desk: Desk) -> None:
    desk.settings("model: gpt-5\n")
    desk.create()
    ran = desk("job", "preview", "j1", "--agent", "model")
    assert ran.code == 5
    assert "config: model: unknown model `gpt-5`" in ran.err
    assert "PROVIDER/gpt-5" in ran.err
