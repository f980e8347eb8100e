"""What models cost: the table that is shipped, litellm's table as a file, and what a config says."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logist.config import prices
from logist.config.key_names import SHIPPED_KEYS, list_key_names
from logist.config.price_table import PRICE_LISTS, KnownModel
from logist.config.prices import find_known_model
from logist.config.providers import SHIPPED_PROVIDERS
from logist.config.settings import Settings, advise_about_price, load_settings, resolve_model
from logist.core.model import JsonObject, Model, PriceTier
from logist.core.money.money import has_known_price
from logist.errors import InvalidFile

MODELS = [f"{provider}/{model}" for provider, shipped in PRICE_LISTS.items() for model in shipped.models]


def litellm_table() -> dict[str, Any]:
    """Read from its files: importing it takes seconds."""
    found = importlib.util.find_spec("litellm")
    assert found
    assert found.submodule_search_locations
    place = Path(found.submodule_search_locations[0], prices.LITELLM_FILE)
    table: dict[str, Any] = json.loads(place.read_text("utf-8"))
    return table


@pytest.fixture
def litellm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package that looks like litellm, and fails if it is imported; its table is the fixture's value."""
    package = tmp_path / "path" / "litellm"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('imported')\n", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path / "path"))
    monkeypatch.delitem(sys.modules, "litellm", raising=False)
    prices._load_litellm_table.cache_clear()
    yield package / prices.LITELLM_FILE
    prices._load_litellm_table.cache_clear()


def configured(home: Path, text: str, user: str = "") -> Settings:
    for folder, content in ((home, text), (home / "user", user)):
        folder.mkdir(exist_ok=True)
        (folder / "config.yaml").write_text(content, "utf-8")
    return load_settings(home, home / "user").settings


class TestTable:
    @pytest.mark.parametrize("name", MODELS)
    def test_it_has_the_prices_of_the_litellm_that_we_lock(self, name: str) -> None:
        provider, _, model = name.partition("/")
        shipped = PRICE_LISTS[provider].models[model]
        theirs = prices._read_entry(litellm_table(), name)
        assert theirs is not None
        if theirs.reasoning_price == theirs.output_price:
            theirs = theirs._replace(reasoning_price=None)
        assert shipped == theirs

    def test_each_provider_has_a_page_a_date_and_an_address(self) -> None:
        assert set(PRICE_LISTS) == {
            *("anthropic", "deepseek", "gemini", "groq", "mistral", "openai", "xai"),
        }
        assert set(PRICE_LISTS) <= set(SHIPPED_PROVIDERS)
        for shipped in PRICE_LISTS.values():
            assert shipped.page.startswith("https://")
            assert len(shipped.date.split("-")) == 3

    def test_a_model_without_an_entry_has_prices_window_and_key(self) -> None:
        found = resolve_model(Settings(), "anthropic/claude-haiku-4-5")
        assert found == Model(
            name="anthropic/claude-haiku-4-5",
            provider_model="anthropic/claude-haiku-4-5",
            api_key_env="ANTHROPIC_API_KEY",
            input_price=1,
            output_price=5,
            cached_price=0.1,
            cache_write_price=1.25,
            context_window=200_000,
        )

    def test_long_requests_of_the_default_model_have_other_prices(self) -> None:
        found = resolve_model(Settings(), "grok-code-fast-1")
        assert (found.input_price, found.cached_price, found.output_price) == (1, 0.2, 2)
        assert found.tiers == (PriceTier(above=200_000, input_price=2, cached_price=0.4, output_price=4),)


ENTRY: JsonObject = {
    "litellm_provider": "acme",
    "input_cost_per_token": 1e-06,
    "output_cost_per_token": 2.5e-06,
    "cache_read_input_token_cost": 1e-07,
    "cache_creation_input_token_cost": 0.0,
    "input_cost_per_token_above_128k_tokens": 2e-06,
    "output_cost_per_token_above_128k_tokens": 5e-06,
    "input_cost_per_token_above_128k_tokens_batches": 9e-06,
    "max_input_tokens": 1000,
    "max_output_tokens": 500,
}


class TestLitellm:
    @pytest.mark.parametrize("name", ["acme/m", "m"])
    def test_a_model_that_only_litellm_knows(self, litellm: Path, name: str) -> None:
        litellm.write_text(json.dumps({name: ENTRY}), "utf-8")
        tier = PriceTier(above=128_000, input_price=2, output_price=5)
        assert find_known_model("acme/m") == KnownModel(1, 2.5, 0.1, None, None, (tier,), 1000, 500)
        assert "litellm" not in sys.modules
        found = resolve_model(Settings(), "acme/m")
        assert (found.context_window, found.max_output_tokens) == (1000, 500)  # not the default of 8192

    def test_the_name_alone_has_to_be_of_that_provider(self, litellm: Path) -> None:
        litellm.write_text(json.dumps({"m": ENTRY}), "utf-8")
        assert find_known_model("other/m") is None
        assert find_known_model("m") == find_known_model("acme/m")  # as litellm itself takes it

    @pytest.mark.parametrize(
        "content",
        [
            *("", "{", "[]", "null", '{"acme/m": 5}', '{"acme/m": {}}', "[" * 100_000, "\udcff"),
            json.dumps({"acme/m": ENTRY | {"input_cost_per_token": "1e-06"}}),
            json.dumps({"acme/m": ENTRY | {"output_cost_per_token": -1}}),
            json.dumps({"acme/m": ENTRY | {"output_cost_per_token": float("inf")}}),
            json.dumps({"acme/m": ENTRY | {"input_cost_per_token": float("nan")}}),
            json.dumps({"acme/m": ENTRY | {"output_cost_per_token_above_128k_tokens": None}}),
            json.dumps({"acme/m": {"input_cost_per_token": 0, "output_cost_per_token": 0}}),
        ],
    )
    def test_a_damaged_file_or_a_model_without_a_price_is_an_unknown_price(
        self, litellm: Path, content: str
    ) -> None:
        litellm.write_bytes(content.encode("utf-8", "surrogateescape"))
        assert not has_known_price(resolve_model(Settings(), "acme/m"))

    def test_no_file_is_an_unknown_price(self, litellm: Path) -> None:
        assert find_known_model("acme/m") is None
        litellm.mkdir()
        prices._load_litellm_table.cache_clear()
        assert find_known_model("acme/m") is None

    def test_it_is_read_only_for_models_that_are_not_shipped_and_never_imported(self) -> None:
        code = """if True:
            import sys
            from logist.config.prices import _load_litellm_table, find_known_model
            find_known_model("openai/gpt-5")
            print(_load_litellm_table.cache_info().misses)
            print(find_known_model("openai/gpt-3.5-turbo").input_price)
            print(_load_litellm_table.cache_info().misses, "litellm" in sys.modules)"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines() == ["0", "0.5", "1 False"]


class TestConfig:
    def test_an_entry_without_prices_gets_those_of_its_model(self, tmp_path: Path) -> None:
        settings = configured(
            tmp_path, "models: {mine: {provider_model: openai/gpt-4.1, max_output_tokens: 99}}"
        )
        found = resolve_model(settings, "mine")
        assert (found.input_price, found.cached_price, found.max_output_tokens) == (2, 0.5, 99)

    @pytest.mark.parametrize("other", ["endpoint: 'http://127.0.0.1:1/v1'", "output_price: 1"])
    def test_an_entry_with_an_endpoint_or_half_a_price_does_not(self, tmp_path: Path, other: str) -> None:
        settings = configured(tmp_path, f"models: {{mine: {{provider_model: openai/gpt-4.1, {other}}}}}")
        assert not has_known_price(resolve_model(settings, "mine"))

    def test_all_prices(self, tmp_path: Path) -> None:
        settings = configured(
            tmp_path,
            """models:
  mine:
    provider_model: acme/m
    input_price: 1
    output_price: 2
    cached_price: 0.1
    cache_write_price: 1.25
    reasoning_price: 3
    tiers:
    - {above: 1000, input_price: 2, output_price: 4, cache_write_price: 2.5}
""",
        )
        found = resolve_model(settings, "mine")
        assert (found.cache_write_price, found.reasoning_price) == (1.25, 3)
        assert found.tiers == (PriceTier(above=1000, input_price=2, output_price=4, cache_write_price=2.5),)

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ("price: free, input_price: 0", "`price: free` can't be combined with input_price"),
            ("price: cheap", "price"),
            ("tiers: [{above: 9, input_price: 1, output_price: 1}]", "`tiers` need an input_price"),
            ("input_price: 1, output_price: 1, tiers: [{above: 9, input_price: 1}]", "output_price"),
            (
                "input_price: 1, output_price: 1, tiers: [{above: 9, input_price: 1, output_price: 1, below: 3}]",
                "below",
            ),
            (
                (
                    "input_price: 1, output_price: 1, tiers: [{above: 9, input_price: 1, output_price: 1},"
                    " {above: 9, input_price: 2, output_price: 1}]"
                ),
                "two `tiers` have the same `above`",
            ),
        ],
    )
    def test_what_is_refused(self, tmp_path: Path, fields: str, message: str) -> None:
        with pytest.raises(InvalidFile) as caught:
            configured(tmp_path, f"models: {{mine: {{provider_model: a/b, {fields}}}}}")
        assert message in str(caught.value)

    def test_free(self, tmp_path: Path) -> None:
        settings = configured(tmp_path, "models: {mine: {provider_model: a/b, price: free}}")
        found = resolve_model(settings, "mine")
        assert (found.input_price, found.output_price) == (0, 0)

    def test_free_and_prices_replace_each_other_in_another_file(self, tmp_path: Path) -> None:
        priced = "models: {m: {provider_model: a/b, input_price: 1, output_price: 2, cached_price: 0.5}}"
        free = "models: {m: {provider_model: a/b, price: free}}"
        now_free = resolve_model(configured(tmp_path, "models: {m: {price: free}}", priced), "m")
        assert (now_free.input_price, now_free.output_price, now_free.cached_price) == (0, 0, None)
        now_priced = resolve_model(
            configured(tmp_path, "models: {m: {input_price: 3, output_price: 4}}", free), "m"
        )
        assert (now_priced.input_price, now_priced.output_price) == (3, 4)

    def test_other_prices_for_a_shipped_model_have_no_tiers_of_the_old_ones(self, tmp_path: Path) -> None:
        settings = configured(tmp_path, "models: {grok-code-fast-1: {input_price: 5}}")
        assert resolve_model(settings, "grok-code-fast-1").tiers == ()
        settings = configured(tmp_path, "models: {grok-code-fast-1: {max_output_tokens: 5}}")
        assert len(resolve_model(settings, "grok-code-fast-1").tiers) == 1


class TestLocal:
    @pytest.mark.parametrize(
        "name", ["ollama/llama3", "ollama_chat/llama3", "vllm/m", "hosted_vllm/m", "llamacpp/m", "lmstudio/m"]
    )
    def test_a_local_provider_without_an_entry_is_free(self, name: str) -> None:
        found = resolve_model(Settings(), name)
        assert (found.input_price, found.output_price) == (0, 0)

    @pytest.mark.parametrize(
        "config",
        [
            "providers: {ollama: {base_url: 'http://gpu.example:11434/v1'}}",
            "providers: {ollama: {base_url: 'http://127.0.0.1:11434/v1', api_key_env: OLLAMA_KEY}}",
            "models: {ollama/llama3: {provider_model: ollama/llama3}}",
        ],
    )
    def test_not_elsewhere_nor_with_a_key_nor_with_an_entry(self, tmp_path: Path, config: str) -> None:
        assert not has_known_price(resolve_model(configured(tmp_path, config), "ollama/llama3"))

    def test_a_server_on_this_machine_is_not_free_unless_the_config_says_so(self, tmp_path: Path) -> None:
        settings = configured(
            tmp_path, "models: {m: {provider_model: openai/m, endpoint: 'http://127.0.0.1:1/v1'}}"
        )
        assert not has_known_price(resolve_model(settings, "m"))


class TestAdvice:
    @pytest.mark.parametrize(
        ("config", "name", "advice"),
        [
            (
                "models: {m: {provider_model: openrouter/x}}",
                "m",
                (
                    "add two lines to models.m in .logist/config.yaml: `input_price: DOLLARS` and `output_price: DOLLARS`,"
                    " in US dollars per million tokens, from the price list of the provider;"
                    " to call it without a cost limit: allow_unknown_price: true"
                ),
            ),
            (
                "models: {m: {provider_model: ollama/x}}",
                "m",
                (
                    "add two lines to models.m in .logist/config.yaml: `input_price: DOLLARS` and `output_price: DOLLARS`,"
                    " in US dollars per million tokens, from the price list of the provider;"
                    " if it runs on your own machine, one line: `price: free`;"
                    " to call it without a cost limit: allow_unknown_price: true"
                ),
            ),
            (
                "",
                "openrouter/x",
                (
                    'check its name; if it is right, add to .logist/config.yaml: models: {"openrouter/x": {provider_model: "openrouter/x",'
                    " input_price: DOLLARS, output_price: DOLLARS}},"
                    " in US dollars per million tokens, from the price list of the provider;"
                    " to call it without a cost limit: allow_unknown_price: true"
                ),
            ),
        ],
    )
    def test_it_names_the_lines_to_add(self, tmp_path: Path, config: str, name: str, advice: str) -> None:
        settings = configured(tmp_path, config)
        assert advise_about_price(settings, resolve_model(settings, name)) == advice

    def test_the_lines_are_a_config(self, tmp_path: Path) -> None:
        advice = advise_about_price(Settings(), resolve_model(Settings(), "openrouter/x"))
        snippet = advice.partition("config.yaml: ")[2].partition("}},")[0] + "}}"
        settings = configured(tmp_path, snippet.replace("DOLLARS", "0.5"))
        assert has_known_price(resolve_model(settings, "openrouter/x"))
        with pytest.raises(InvalidFile, match="input_price"):
            configured(tmp_path, snippet)

    def test_a_known_model_without_its_provider(self) -> None:
        with pytest.raises(InvalidFile) as caught:
            resolve_model(Settings(), "gpt-5")
        assert str(caught.value.fix).startswith("did you mean `openai/gpt-5`? Or name it with its provider")


def test_the_keys_of_all_shipped_providers_are_known_without_their_entries() -> None:
    keys = {name: entry.api_key_env for name, entry in SHIPPED_PROVIDERS.items() if entry.api_key_env}
    assert keys == SHIPPED_KEYS
    assert list_key_names(["MY_KEY", None]) == {*keys.values(), "MY_KEY"}
