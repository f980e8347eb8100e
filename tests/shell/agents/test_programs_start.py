"""How agent programs are started: what is on the command line, in the environment, and in their home."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from logist.agents.programs.finding import PRESETS
from logist.agents.programs.protocol import Invocation, Profile, Run
from logist.core.model import Model
from logist.errors import InvalidFile

KEY = "dummy-key-for-tests-0001"
ENDPOINT = "http://127.0.0.1:8000/v1"
NAMES = sorted(PRESETS)


def run_of(home: Path = Path("/home"), **more: Any) -> Run:
    model = more.pop("model", None) or model_of(**more.pop("of", {}))
    values: dict[str, Any] = {
        "prompt": "Say it.",
        "workspace": Path("/workspace"),
        "home": home,
        "api_key": KEY,
        "profile": "full",
        "deadline_seconds": 60.0,
        "name": "the-job",
        "role": "Worker",
    }
    return Run(model=model, **{**values, **more})


def model_of(**more: Any) -> Model:
    values: dict[str, Any] = {
        "name": "m",
        "provider_model": "openai/scripted",
        "endpoint": ENDPOINT,
        "api_key_env": "MY_KEY",
        "input_price": 2.0,
        "output_price": 10.0,
    }
    return Model(**{**values, **more})


def started(name: str, **more: Any) -> Invocation:
    return PRESETS[name].invocation(run_of(**more))


def everything(made: Invocation) -> str:
    files = b"\n".join(made.files.values()).decode()
    return "\n".join([*made.argv, *made.environment.values(), files])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("profile", get_args(Profile))
def test_the_key_is_never_on_a_command_line(name: str, profile: Profile) -> None:
    made = started(name, profile=profile)
    assert not any(KEY in word for word in made.argv)
    assert KEY in everything(made)


@pytest.mark.parametrize("name", NAMES)
def test_the_address_reaches_the_program(name: str) -> None:
    assert "127.0.0.1:8000" in everything(started(name))


@pytest.mark.parametrize("name", NAMES)
def test_the_prompt_reaches_it_whole(name: str) -> None:
    prompt = "Ünder the «bridge» \ud800 " + "x" * 300_000
    made = started(name, prompt=prompt)
    assert all(len(word) < 100_000 for word in made.argv)
    sent = made.stdin + b"".join(
        json.dumps(json.loads(data)).encode() if data[:1] == b"{" else data for data in made.files.values()
    )
    assert b"x" * 300_000 in sent


@pytest.mark.parametrize("name", NAMES)
def test_everything_of_it_lies_in_its_home(name: str, tmp_path: Path) -> None:
    made = started(name, home=tmp_path)
    for path in (*made.files, *made.results):
        assert not path.startswith("/")
        assert ".." not in Path(path).parts
    outside = [
        value for value in made.environment.values() if value.startswith("/") and str(tmp_path) not in value
    ]
    assert outside == []
    assert not {"PATH", "HOME", "TMPDIR", "LANG"} & set(made.environment), "those are the caller's"
    assert not any(tmp_path.iterdir()), "it only says what is to be written"


@pytest.mark.parametrize("name", NAMES)
def test_the_same_run_is_started_in_the_same_way(name: str) -> None:
    assert started(name) == started(name)


MODES: list[tuple[str, Profile, str, bool]] = [
    ("codex", "read", "-s read-only", True),
    ("codex", "edit", "-s workspace-write", True),
    ("codex", "full", "--dangerously-bypass-approvals-and-sandbox", True),
    ("codex", "edit", "--dangerously", False),
    ("claude", "read", "--tools=Read,Grep,Glob --permission-mode dontAsk", True),
    ("claude", "edit", "--permission-mode acceptEdits", True),
    ("claude", "edit", "Bash", False),
    ("claude", "edit", "--dangerously", False),
    ("claude", "full", "--dangerously-skip-permissions", True),
    ("gemini", "read", "--approval-mode plan", True),
    ("gemini", "edit", "--approval-mode auto_edit", True),
    ("gemini", "full", "--approval-mode yolo", True),
    ("opencode", "read", '"edit": "deny", "bash": "deny"', True),
    ("opencode", "edit", '"edit": "allow", "bash": "deny"', True),
    ("opencode", "full", '"bash": "allow", "external_directory": "deny"', True),
    ("goose", "read", "GOOSE_MODE=chat", True),
    ("goose", "full", "GOOSE_MODE=auto", True),
    ("cline", "read", " -p ", True),
    ("cline", "full", " -p ", False),
    ("aider", "read", "--edit-format ask", True),
    ("aider", "edit", "--edit-format diff", True),
    ("llm", "full", "-T", False),
]


@pytest.mark.parametrize(("name", "profile", "words", "there"), MODES)
def test_its_own_mode_is_what_the_role_may_do(name: str, profile: Profile, words: str, there: bool) -> None:
    made = started(name, profile=profile)
    said = " ".join([*made.argv, *(f"{key}={value}" for key, value in made.environment.items())])
    assert (words in said) == there


QUIET = [
    ("codex", "--disable unbounded_connection_retries"),
    ("codex", "-c analytics.enabled=false"),
    ("codex", '-c web_search="disabled"'),
    ("codex", "-c check_for_update_on_startup=false"),
    ("codex", "-c sandbox_workspace_write.exclude_slash_tmp=true"),
    ("codex", '-c model_providers.logist.wire_api="responses"'),
    ("claude", "DISABLE_TELEMETRY=1"),
    ("claude", "DISABLE_AUTOUPDATER=1"),
    ("claude", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"),
    ("claude", "CLAUDE_CODE_MAX_RETRIES=1"),
    ("claude", "API_TIMEOUT_MS=60000"),
    ("claude", "--setting-sources user"),
    ("claude", "ANTHROPIC_BASE_URL=http://127.0.0.1:8000\n"),
    ("claude", "ANTHROPIC_DEFAULT_HAIKU_MODEL=scripted\n"),
    ("claude", "CLAUDE_CODE_SUBAGENT_MODEL=scripted\n"),
    ("gemini", "GEMINI_TELEMETRY_ENABLED=false"),
    ("gemini", "GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:8000\n"),
    ("opencode", "OPENCODE_DISABLE_MODELS_FETCH=1"),
    ("opencode", "OPENCODE_DISABLE_AUTOUPDATE=1"),
    ("opencode", "OPENCODE_DISABLE_AUTOCOMPACT=1"),
    ("opencode", "OPENCODE_DISABLE_PROJECT_CONFIG=1"),
    ("goose", "OPENAI_HOST=http://127.0.0.1:8000\n"),
    ("goose", "OPENAI_BASE_PATH=v1/chat/completions"),
    ("goose", "GOOSE_DISABLE_KEYRING=1"),
    ("cline", "CLINE_SESSION_BACKEND_MODE=local"),
    ("aider", "AIDER_ANALYTICS_DISABLE=true"),
    ("aider", "--no-git"),
    ("aider", "--no-check-update"),
    ("aider", "LITELLM_LOCAL_MODEL_COST_MAP=True"),
    ("mini", "LITELLM_LOCAL_MODEL_COST_MAP=True"),
    ("mini", "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT=1"),
]


@pytest.mark.parametrize(("name", "words"), QUIET)
def test_it_is_kept_from_everything_but_its_model(name: str, words: str) -> None:
    made = started(name)
    said = " ".join(made.argv) + "\n" + "".join(f"{key}={value}\n" for key, value in made.environment.items())
    assert words in said


def test_gemini_uses_the_model_of_the_step_for_everything() -> None:
    settings = json.loads(started("gemini").files[".gemini/settings.json"])
    overrides = settings["modelConfigs"]["customOverrides"]
    assert {"base", "chat-compression-default"} <= {each["match"]["model"] for each in overrides}
    assert {each["modelConfig"]["model"] for each in overrides} == {"scripted"}
    assert settings["telemetry"] == {"enabled": False}


def test_cline_always_gets_the_file_that_holds_its_endpoint() -> None:
    made = started("cline")
    path = made.environment["CLINE_PROVIDER_SETTINGS_PATH"]
    settings = json.loads(made.files[path.removeprefix("/home/")])["providers"]["openai-compatible"][
        "settings"
    ]
    assert settings["baseUrl"] == ENDPOINT
    assert json.loads(made.files["general.json"]) == {"telemetryOptOut": True, "autoUpdateEnabled": False}


PUBLIC = [
    ("codex", "openai/gpt-x", "https://api.openai.com/v1", "gpt-x"),
    ("codex", "xai/grok-code-fast-1", "https://api.x.ai/v1", "grok-code-fast-1"),
    ("claude", "anthropic/claude-x", "https://api.anthropic.com", "claude-x"),
    ("gemini", "gemini/gemini-2.5-flash", "https://generativelanguage.googleapis.com", "gemini-2.5-flash"),
    ("opencode", "gemini/gemini-2.5-flash", "/v1beta/openai", "gemini-2.5-flash"),
    ("cline", "openrouter/a/b", "https://openrouter.ai/api/v1", "a/b"),
    ("goose", "xai/grok-code-fast-1", "https://api.x.ai", "grok-code-fast-1"),
    ("llm", "openai/gpt-x", "https://api.openai.com/v1", "gpt-x"),
    ("mini", "anthropic/claude-x", "anthropic/claude-x", "anthropic/claude-x"),
    ("aider", "xai/grok-code-fast-1", "xai/grok-code-fast-1", "xai/grok-code-fast-1"),
]


@pytest.mark.parametrize(("name", "model", "address", "told"), PUBLIC)
def test_without_an_endpoint_it_goes_to_the_provider(name: str, model: str, address: str, told: str) -> None:
    said = everything(started(name, of={"endpoint": None, "provider_model": model}))
    assert address in said
    assert told in said
    assert KEY in said


@pytest.mark.parametrize(
    ("name", "model", "variable"),
    [
        ("mini", "anthropic/claude-x", "ANTHROPIC_API_KEY"),
        ("aider", "gemini/gemini-2.5-flash", "GEMINI_API_KEY"),
        ("mini", "together_ai/a/b", "TOGETHERAI_API_KEY"),
    ],
)
def test_programs_made_with_litellm_get_the_key_by_its_name(name: str, model: str, variable: str) -> None:
    assert started(name, of={"endpoint": None, "provider_model": model}).environment[variable] == KEY


UNREACHABLE = [
    ("codex", "anthropic/claude-x", None),
    ("codex", "gemini/gemini-2.5-flash", None),
    ("codex", "anthropic/claude-x", ENDPOINT),
    ("claude", "xai/grok-code-fast-1", None),
    ("gemini", "openai/gpt-x", None),
    ("opencode", "bedrock/claude", None),
    ("opencode", "gemini/gemini-2.5-flash", ENDPOINT),
    ("goose", "ollama/x", None),
    ("cline", "anthropic/claude-x", ENDPOINT),
    ("llm", "vertex_ai/x", ENDPOINT),
    ("aider", "gemini/gemini-2.5-flash", ENDPOINT),
    ("mini", "scripted", None),
]


@pytest.mark.parametrize(("name", "model", "endpoint"), UNREACHABLE)
def test_a_model_it_cannot_reach_is_refused_before_anything_starts(
    name: str, model: str, endpoint: str | None
) -> None:
    with pytest.raises(InvalidFile, match=f"{name} can't use `{model}`") as error:
        started(name, of={"endpoint": endpoint, "provider_model": model})
    assert "models.m" in str(error.value)


def test_only_an_endpoint_may_do_without_a_key() -> None:
    assert started("codex", api_key=None).environment["CODEX_MODEL_API_KEY"] == "none"
    with pytest.raises(InvalidFile, match="set the environment variable MY_KEY"):
        started("codex", api_key=None, of={"endpoint": None})


@pytest.mark.parametrize(
    ("allowed", "dollars"), [(123_456_789, "1.234567"), (1, "0.000001"), (0, "0.000001"), (None, None)]
)
def test_claude_is_told_what_it_may_spend(allowed: int | None, dollars: str | None) -> None:
    argv = started("claude", allowance_microcents=allowed).argv
    told = argv[argv.index("--max-budget-usd") + 1] if "--max-budget-usd" in argv else None
    assert told == dollars


def test_mini_is_told_what_it_may_spend_and_the_prices_it_counts_with() -> None:
    made = started("mini", allowance_microcents=250_000_000)
    assert json.loads(made.files["task.yaml"])["agent"] == {"cost_limit": 2.5}
    assert json.loads(made.files["prices.json"])["openai/scripted"]["output_cost_per_token"] == 1e-05
    free = started("mini", allowance_microcents=250_000_000, of={"input_price": None})
    assert json.loads(free.files["task.yaml"])["agent"] == {"cost_limit": 0.0}, "it would stop at any cost"


def test_the_longest_answer_is_that_of_the_model() -> None:
    more = {"max_output_tokens": 1234}
    assert started("claude", of=more).environment["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "1234"
    assert "1234" in started("llm", of=more).argv
    assert '"output": 1234' in started("opencode", of=more).environment["OPENCODE_CONFIG_CONTENT"]
