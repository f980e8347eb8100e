"""A step with a real model: llama.cpp's own server and weights so small that it writes prose instead of an exit command."""

from __future__ import annotations

import os

import pytest

from logist.config.environment import Environment
from logist.config.settings import Settings
from logist.core.model import Status
from tests.jobs.bench import Json
from tests.jobs.conftest import MakeBench
from tests.model_server import KEY, ModelServer


@pytest.mark.deep
def test_a_step_with_a_real_model_is_recorded_with_its_usage(bench: MakeBench) -> None:
    with ModelServer() as server:
        b = bench()
        price = {"input_price": 1.0, "output_price": 2.0}
        values: Json = {
            "providers": {"small": {"base_url": server.url, "api_key_env": "SMALL_WORDS"}},
            "models": {
                "grok-code-fast-1": {"provider_model": "small/smollm2", "max_output_tokens": 16, **price}
            },
        }
        variables = {"HOME": str(b.project.home), "PATH": os.environ["PATH"], "SMALL_WORDS": KEY}
        b.change(agent="model", settings=Settings.model_validate(values), environment=Environment(variables))
        b.create()
        result = b.step()
    assert (result.state.status, result.exit_code) == (Status.STUCK, 3)
    interaction = b.history()[1]
    usage = interaction.usage
    assert interaction.response.finish == "length"
    assert (usage.source, usage.output_tokens) == ("provider", 16)
    assert usage.input_tokens > 100
    # a microcent is a hundred-millionth of a dollar
    assert usage.cost_cents * 1_000_000 + usage.cost_microcents == usage.input_tokens * 100 + 16 * 200
    assert not [name for name, data in b.files().items() if KEY.encode() in data]
