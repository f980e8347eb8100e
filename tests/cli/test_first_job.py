"""The first job with each shipped provider: `logist init --model`, what its warning says to do, and a job that runs over HTTP."""

from __future__ import annotations

import pytest

from logist.config.price_table import PRICE_LISTS
from logist.config.providers import LOCAL, SHIPPED_PROVIDERS, ProviderEntry
from tests.cli.desk import Desk, command
from tests.endpoint import Endpoint

PLACES = {
    "anthropic": ("", "/v1/messages", "x-api-key"),
    "openai": ("/v1", "/v1/chat/completions", "authorization"),
}
"""For each protocol: the end of `base_url`, the path of a request, and its header with the key."""
FIX = "add to .logist/config.yaml: "
KEY = "dummy-key-for-tests-0001"


@pytest.fixture
def folder(desk: Desk) -> Desk:
    """An empty directory."""
    desk.jobs.rmdir()
    desk.home.rmdir()
    (desk.place / "answers.json").unlink()
    return desk


def redirect(desk: Desk, provider: str, entry: ProviderEntry, address: str) -> dict[str, str]:
    """Write a config of the user's own in which the provider is at another address; return the variable that names it."""
    own = desk.place / "own"
    (own / "logist").mkdir(parents=True)
    key = f", api_key_env: {entry.api_key_env}" if entry.api_key_env else ""
    text = f"providers: {{{provider}: {{base_url: '{address}', protocol: {entry.protocol}{key}}}}}\n"
    (own / "logist" / "config.yaml").write_text(text, "utf-8")
    return {"XDG_CONFIG_HOME": str(own)}


@pytest.mark.parametrize("provider", SHIPPED_PROVIDERS)
def test_a_job_runs_with_the_model_that_init_was_given(folder: Desk, provider: str) -> None:
    entry = SHIPPED_PROVIDERS[provider]
    name = next(iter(PRICE_LISTS[provider].models)) if provider in PRICE_LISTS else "vendor/some-model"
    variables = {"LOGIST_AGENT": ""}

    ran = folder("init", "--model", f"{provider}/{name}", env=variables)
    assert (ran.code, bool(ran.err)) == (0, provider not in LOCAL), ran.err
    if provider in PRICE_LISTS:
        assert entry.api_key_env is not None
        assert f"set {entry.api_key_env} in the environment" in ran.err
    elif provider not in LOCAL:
        line = ran.err.partition(FIX)[2].partition(", in US dollars")[0].replace("DOLLARS", "0.5")
        with (folder.home / "config.yaml").open("a", encoding="utf-8") as config:
            config.write(f"{line}\n")

    base, path, header = PLACES[entry.protocol]
    variables |= {entry.api_key_env: KEY} if entry.api_key_env else {}
    passed = command(summary="It greets.", output={"verdict": "PASS"})
    with Endpoint({"text": command(summary="Greeted.")}, {"text": passed}) as server:
        variables |= redirect(folder, provider, entry, server.base + base)
        assert folder("trust", "--yes", env=variables).code == 0
        made = folder("job", "create", "--id", "hello", "--no-repo", "--prompt", "Greet.", env=variables)
        assert made.code == 0, made.err
        ran = folder("job", "run", "hello", env=variables)
    assert ran.code == 11, ran.err
    assert f"asking Worker ({provider}/{name})" in ran.err
    assert "Greeted." in ran.out
    assert "hello is APPROVAL_REQUIRED" in ran.out
    assert [(asked["path"], asked["body"]["model"]) for asked in server.requests] == [(path, name)] * 2
    keys = [asked["headers"].get(header, "").removeprefix("Bearer ") for asked in server.requests]
    assert keys == [KEY if entry.api_key_env else ""] * 2
