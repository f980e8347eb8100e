"""What the gate makes of a request before it is forwarded: refusals, the limit of the answer, and the bound of its input."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logist.agents.gate.paid_requests import PaidRequest, RequestRefused
from logist.agents.gate.prompt_bounds import IMAGE_TOKENS
from logist.agents.gate.targets import RequestTarget, build_url, find_target
from logist.core.money import money
from tests.shell.agents.gate_bench import BODIES, FORMATS, PATHS, make_ask

Json = dict[str, Any]
BASE = "http://127.0.0.1:1/v1"


def read(
    form: str, more: Json | None = None, *, without: str = "", path: str = "", **ask: Any
) -> PaidRequest:
    target = find_target(path or PATHS[form])
    assert target is not None
    body = BODIES[form] | (more or {})
    body.pop(without, None)
    return PaidRequest(make_ask(ask.pop("url", BASE), **ask), target, json.dumps(body).encode())


def forwarded(paid: PaidRequest, limit: int | None = None) -> Json:
    body: Json = json.loads(paid.build(paid.max_output_tokens if limit is None else limit))
    return body


def refusal(form: str, more: Json | None = None, **how: Any) -> str:
    with pytest.raises(RequestRefused) as caught:
        read(form, more, **how).describe()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("form", "field"),
    [("chat", "max_tokens"), ("responses", "max_output_tokens"), ("messages", "max_tokens")],
)
def test_the_limit_of_the_answer_is_read_set_and_lowered(form: str, field: str) -> None:
    unset = read(form, without=field)
    assert unset.max_output_tokens == 800  # that of the model
    assert forwarded(unset)[field] == 800
    assert forwarded(unset, 300)[field] == 300
    wanted = read(form, {field: 5000})
    assert wanted.describe().max_output_tokens == 5000
    assert forwarded(wanted)[field] == 5000
    assert forwarded(wanted, 4000)[field] == 4000
    assert forwarded(wanted, 9000)[field] == 5000  # never more than the program asked for


def test_the_limit_of_gemini_is_in_its_config() -> None:
    assert forwarded(read("gemini"))["generationConfig"] == {"maxOutputTokens": 800}
    wanted = read("gemini", {"generationConfig": {"maxOutputTokens": 5000, "temperature": 0.5}})
    assert forwarded(wanted, 70)["generationConfig"] == {"maxOutputTokens": 70, "temperature": 0.5}
    snake = read("gemini", {"generation_config": {"max_output_tokens": 5000}})
    assert snake.max_output_tokens == 5000
    assert forwarded(snake, 70)["generationConfig"] == {"maxOutputTokens": 70}
    assert "generation_config" not in forwarded(snake)


def test_each_limit_of_a_chat_is_lowered() -> None:
    both = read("chat", {"max_tokens": 900, "max_completion_tokens": 600})
    assert both.max_output_tokens == 600
    lowered = forwarded(both, 100)
    assert (lowered["max_tokens"], lowered["max_completion_tokens"]) == (100, 100)


def test_openai_itself_gets_the_new_name_of_the_limit() -> None:
    body = forwarded(read("chat", name="openai"))
    assert body["max_completion_tokens"] == 800
    assert "max_tokens" not in body


@pytest.mark.parametrize("form", ["chat", "responses"])
def test_openai_itself_is_asked_for_its_usual_prices(form: str) -> None:
    assert forwarded(read(form, name="openai"))["service_tier"] == "default"
    assert forwarded(read(form, {"service_tier": "auto"}, name="openai"))["service_tier"] == "default"
    assert forwarded(read(form, {"service_tier": "flex"}, name="openai"))["service_tier"] == "flex"
    assert "service_tier" not in forwarded(read(form))  # another provider may not know it
    assert forwarded(read(form, {"service_tier": "auto"}))["service_tier"] == "auto"
    imitated: Json = {"name": "openai", "endpoint": "http://127.0.0.1:9/v1"}
    assert "service_tier" not in forwarded(read(form, **imitated))
    assert forwarded(read(form, {"service_tier": "auto"}, **imitated))["service_tier"] == "default"


def test_thinking_stays_below_a_lowered_limit() -> None:
    thinking = {"type": "enabled", "budget_tokens": 8000}
    wanted = read("messages", {"max_tokens": 10_000, "thinking": thinking})
    assert forwarded(wanted)["thinking"] == thinking
    assert forwarded(wanted, 4000)["thinking"]["budget_tokens"] == 2000
    assert forwarded(wanted, 2000)["thinking"]["budget_tokens"] == 1024


@pytest.mark.parametrize("value", [0, -1, 1.5, "100", True, [], {}, 10**10])
def test_a_limit_that_is_no_number_is_refused(value: Any) -> None:
    assert "`max_tokens` must be a whole number" in refusal("chat", {"max_tokens": value})


@pytest.mark.parametrize("form", FORMATS)
def test_only_the_model_of_the_step_passes(form: str) -> None:
    path = PATHS[form].replace("models/real", "models/other")
    message = refusal(form, {"model": "other"}, path=path)
    assert message == "this step may only call the model `real`, not `other`"
    for name in ("real", "m", "custom/real"):
        paid = read(form, {"model": name}, path=PATHS[form].replace("real", name.replace("/", "%2F")))
        if form != "gemini":
            assert forwarded(paid)["model"] == "real"
    for odd in (None, 5, "", ["real"], "real ", "REAL"):
        if form != "gemini":
            assert "may only call" in refusal(form, {"model": odd})


@pytest.mark.parametrize(
    ("form", "more", "about"),
    [
        ("chat", {"n": 2}, "`n` must be 1"),
        ("chat", {"n": "2"}, "`n`"),
        ("chat", {"models": ["real", "dear"]}, "`models`"),
        ("chat", {"web_search_options": {"search_context_size": "high"}}, "billed per use"),
        ("chat", {"web_search_options": {}}, "billed per use"),
        ("chat", {"search_parameters": {}}, "billed per use"),
        ("chat", {"enable_search": True}, "billed per use"),
        ("chat", {"preset": "cheap"}, "other models may answer"),
        ("chat", {"plugins": [{"id": "web"}]}, "billed per use"),
        ("chat", {"search_parameters": {"mode": "auto"}}, "billed per use"),
        ("chat", {"modalities": ["text", "audio"]}, "only text"),
        ("chat", {"prediction": {"type": "content", "content": "x"}}, "`prediction`"),
        ("chat", {"service_tier": "priority"}, "`service_tier`"),
        ("chat", {"provider": {"order": ["dear"]}}, "`provider` can't choose hosts"),
        ("chat", {"provider": {"zdr": True, "only": ["dear"]}}, "`provider`"),
        ("chat", {"provider": {"sort": "throughput"}}, "`provider`"),
        ("responses", {"provider": {"sort": {"by": "price"}}}, "`provider`"),
        ("messages", {"provider": "dear"}, "`provider`"),
        ("chat", {"tools": [{"type": "web_search"}]}, "the tool `web_search` runs at the provider"),
        ("chat", {"tools": {}}, "`tools` must be a list"),
        ("chat", {"tools": ["x"]}, "`tools` must be a list"),
        ("chat", {"stream": "yes"}, "`stream` must be"),
        ("responses", {"background": True}, "`background`"),
        ("responses", {"prompt": {"id": "pmpt_1"}}, "`prompt`"),
        ("responses", {"tools": [{"type": "web_search"}]}, "runs at the provider"),
        ("responses", {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]}, "runs at"),
        ("responses", {"tools": [{"type": "mcp", "server_url": "https://x"}]}, "runs at the provider"),
        ("responses", {"tools": [{"type": "shell", "environment": {"type": "container_auto"}}]}, "runs at"),
        ("responses", {"tools": [{"type": "namespace", "name": "x", "tools": [{"type": "mcp"}]}]}, "`mcp`"),
        ("responses", {"context_management": [{"type": "compaction"}]}, "`context_management`"),
        ("messages", {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "runs at"),
        ("messages", {"tools": [{"type": "code_execution_20250825", "name": "c"}]}, "runs at the provider"),
        ("messages", {"mcp_servers": [{"url": "https://x"}]}, "`mcp_servers`"),
        ("messages", {"speed": "fast"}, "`speed`"),
        ("messages", {"context_management": {"edits": [{"type": "compact_20260112"}]}}, "management"),
        ("gemini", {"tools": [{"googleSearch": {}}]}, "the tool `googleSearch` runs at the provider"),
        ("gemini", {"tools": [{"google_search": {}}]}, "runs at the provider"),
        ("gemini", {"tools": [{"codeExecution": {}}]}, "runs at the provider"),
        ("gemini", {"generationConfig": {"candidateCount": 3}}, "`candidateCount` must be 1"),
        ("gemini", {"generation_config": {"candidate_count": 3}}, "`candidateCount` must be 1"),
        ("gemini", {"generationConfig": {"responseModalities": ["IMAGE"]}}, "only text"),
        ("gemini", {"generationConfig": 5}, "must be an object"),
    ],
)
def test_what_may_cost_more_than_its_tokens_is_refused(form: str, more: Json, about: str) -> None:
    assert about in refusal(form, more)


@pytest.mark.parametrize(
    ("form", "more"),
    [
        (
            "chat",
            {"n": 1, "service_tier": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]},
        ),
        ("chat", {"modalities": ["text"], "web_search_options": None, "tools": []}),
        ("chat", {"provider": {"data_collection": "deny", "max_price": {"prompt": 1}, "only": []}}),
        ("chat", {"provider": {"sort": "price", "require_parameters": True}}),
        ("messages", {"provider": {}}),
        (
            "responses",
            {"tools": [{"type": "function", "name": "f"}, {"type": "local_shell"}, {"type": "custom"}]},
        ),
        ("responses", {"background": False, "store": False, "include": ["reasoning.encrypted_content"]}),
        ("responses", {"input": [{"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAAA"}]}),
        ("messages", {"mcp_servers": [], "container": None}),
        (
            "messages",
            {"tools": [{"name": "f", "input_schema": {}}, {"type": "bash_20250124", "name": "bash"}]},
        ),
        ("messages", {"context_management": {"edits": [{"type": "clear_thinking_20251015"}]}}),
        ("gemini", {"tools": [{"functionDeclarations": [{"name": "f"}]}]}),
        ("gemini", {"tools": [{"function_declarations": [{"name": "f"}]}]}),
    ],
)
def test_what_the_program_does_itself_passes(form: str, more: Json) -> None:
    assert read(form, more).describe().input_tokens > 0


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"[" * 100_000, b'{"a": NaN}']
)
def test_what_is_no_json_object_is_refused(data: bytes) -> None:
    target = find_target(PATHS["chat"])
    assert target is not None
    with pytest.raises(RequestRefused):
        PaidRequest(make_ask(BASE), target, data).describe()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["type", "text", "content", "parts", "source", "image_url", "inlineData", "fileData", "tools", "output",
             "name", "environment", "functionResponse", "mime_type", "data", "url"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=8,
)  # fmt: skip
FIELDS = st.sampled_from(
    ["messages", "input", "contents", "tools", "system", "systemInstruction", "system_instruction", "stream", "thinking",
     "generationConfig", "stream_options", "service_tier", "modalities", "context_management", "instructions", "max_tokens"]
)  # fmt: skip


@given(st.sampled_from(FORMATS), st.dictionaries(FIELDS, JSON, max_size=4))
def test_a_request_of_any_form_is_read_or_refused(form: str, more: Json) -> None:
    with suppress(RequestRefused):
        paid = read(form, more, context_window=1000)
        assert paid.describe().input_tokens >= 0
        paid.build(5)


@pytest.mark.parametrize(
    "more",
    [{"tools": [{"type": ["x"]}]}, {"messages": [{"role": "user", "content": [{"type": ["image"]}]}]},
     {"service_tier": []}, {"modalities": 5}],
)  # fmt: skip
def test_a_request_of_an_odd_form_is_refused(more: Json) -> None:
    assert refusal("chat", more)


def test_a_request_of_very_many_values_is_refused() -> None:
    assert "more than 2,000,000 values" in refusal("chat", {"messages": [[]] * 2_000_000})


def test_numbers_that_json_does_not_have_are_refused() -> None:
    assert "not valid JSON" in refusal("chat", {"temperature": float("inf")})


def test_of_repeated_names_the_provider_gets_the_one_that_was_checked() -> None:
    target = find_target(PATHS["chat"])
    assert target is not None
    data = b'{"model": "dear", "n": 5, "messages": [], "n": 1, "model": "real"}'
    assert forwarded(PaidRequest(make_ask(BASE), target, data))["n"] == 1
    with pytest.raises(RequestRefused):
        PaidRequest(make_ask(BASE), target, b'{"model": "real", "messages": [], "model": "dear"}')


def test_a_streamed_chat_asks_for_its_usage() -> None:
    hidden = read("chat", {"stream": True})
    assert forwarded(hidden)["stream_options"] == {"include_usage": True}
    assert hidden.hides_usage
    wanted = read("chat", {"stream": True, "stream_options": {"include_usage": True, "x": 1}})
    assert forwarded(wanted)["stream_options"] == {"include_usage": True, "x": 1}
    assert not wanted.hides_usage
    assert "stream_options" not in forwarded(read("chat"))
    assert "stream_options" not in forwarded(read("chat", {"stream": True}, name="mistral"))


def test_the_cache_keeps_prompts_for_the_time_that_the_price_is_for() -> None:
    control = {"type": "ephemeral", "ttl": "1h"}
    block = {"type": "text", "text": TEXT, "cache_control": control}
    body = forwarded(
        read(
            "messages",
            {
                "system": [block],
                "messages": [{"role": "user", "content": [block]}],
                "tools": [{"name": "f", "cache_control": control}],
            },
        )
    )
    assert '"ttl"' not in json.dumps(body)
    assert json.dumps(body).count("ephemeral") == 3


TEXT = "x" * 1000
DATA = "A" * 400_000
IMAGES: dict[str, list[Json]] = {
    "chat": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}}],
    "responses": [{"type": "input_image", "image_url": f"data:image/png;base64,{DATA}"}],
    "messages": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}}],
    "gemini": [{"inline_data": {"mime_type": "image/png", "data": DATA}}],
}
FILES: dict[str, list[Json]] = {
    "chat": [{"type": "file", "file": {"file_id": "file-1"}}],
    "responses": [{"type": "input_file", "file_url": "https://x/y.pdf"}],
    "messages": [{"type": "document", "source": {"type": "url", "url": "https://x/y.pdf"}}],
    "gemini": [{"fileData": {"mimeType": "application/pdf", "fileUri": "https://x"}}],
}


def with_content(form: str, content: Any) -> Json:
    if form == "gemini":
        return {"contents": [{"role": "user", "parts": content}]}
    return {"input" if form == "responses" else "messages": [{"role": "user", "content": content}]}


@pytest.mark.parametrize("form", FORMATS)
def test_text_is_bounded_by_the_bytes_of_the_request(form: str) -> None:
    text = "€" * 1000
    content = [{"text": text}] if form == "gemini" else text
    tokens = read(form, with_content(form, content)).describe().input_tokens
    assert 3000 < tokens < 4000
    assert tokens >= money.bound_tokens(text, 1)


@pytest.mark.parametrize("form", FORMATS)
def test_an_image_is_bounded_by_what_images_cost_and_not_by_its_bytes(form: str) -> None:
    one = read(form, with_content(form, IMAGES[form])).describe().input_tokens
    assert IMAGE_TOKENS < one < IMAGE_TOKENS + 2000
    two = read(form, with_content(form, IMAGES[form] * 2)).describe().input_tokens
    assert two > 2 * IMAGE_TOKENS


def test_an_image_that_is_only_named_costs_as_much() -> None:
    url = [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]
    assert read("chat", with_content("chat", url)).describe().input_tokens > IMAGE_TOKENS


def test_images_in_results_of_tools_count() -> None:
    result = [{"type": "tool_result", "tool_use_id": "t", "content": IMAGES["messages"]}]
    assert read("messages", with_content("messages", result)).describe().input_tokens > IMAGE_TOKENS
    output = {"type": "function_call_output", "call_id": "c", "output": IMAGES["responses"]}
    assert read("responses", {"input": [output]}).describe().input_tokens > IMAGE_TOKENS
    parts = [
        {
            "functionResponse": {
                "name": "f",
                "parts": [{"inlineData": {"mimeType": "image/png", "data": DATA}}],
            }
        }
    ]
    assert read("gemini", with_content("gemini", parts)).describe().input_tokens > IMAGE_TOKENS


def test_a_message_that_calls_itself_an_image_counts_with_all_in_it() -> None:
    url = {"type": "image_url", "image_url": {"url": "https://x/y.png"}}
    body = {"messages": [{"role": "user", "type": "image_url", "content": [url] * 3}]}
    assert read("chat", body).describe().input_tokens > 3 * IMAGE_TOKENS


def test_what_only_looks_like_an_image_counts_as_text() -> None:
    """The input of a tool is the model's text; a long one must not pass for a cheap image."""
    call = [{"type": "tool_use", "id": "t", "name": "f", "input": IMAGES["messages"][0]}]
    assert read("messages", with_content("messages", call)).describe().input_tokens > len(DATA)


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_counts_as_all_that_the_model_can_read(form: str) -> None:
    content = with_content(form, FILES[form])
    assert read(form, content, context_window=200_000).describe().input_tokens == 200_000
    assert "set models.m.context_window" in refusal(form, content)


@pytest.mark.parametrize(
    ("form", "more"),
    [
        ("responses", {"previous_response_id": "resp_1"}),
        ("responses", {"conversation": "conv_1"}),
        ("responses", {"input": [{"type": "item_reference", "id": "i"}]}),
        ("responses", {"input": [{"type": "reasoning", "id": "rs_1", "summary": []}]}),
        ("responses", {"input": [{"type": "web_search_call", "id": "ws_1", "status": "completed"}]}),
        ("chat", {"extra_body": {"google": {"cached_content": "cachedContents/1"}}}),
        ("gemini", {"contents": {"parts": {"file_data": {"mime_type": "application/pdf", "file_uri": "x"}}}}),
        (
            "gemini",
            with_content(
                "gemini",
                [{"function_response": {"parts": [{"file_data": {"mime_type": "application/pdf"}}]}}],
            ),
        ),
        ("responses", {"input": [{"type": "compaction", "encrypted_content": "x"}]}),
        ("gemini", {"cachedContent": "cachedContents/1"}),
        ("gemini", {"cached_content": "cachedContents/1"}),
        ("messages", with_content("messages", [{"type": "container_upload", "file_id": "f"}])),
    ],
)
def test_what_the_provider_has_stored_counts_as_all_that_the_model_can_read(form: str, more: Json) -> None:
    assert read(form, more, context_window=200_000).describe().input_tokens == 200_000
    assert "can't be bounded" in refusal(form, more)


@pytest.mark.parametrize(
    ("form", "part"),
    [
        ("chat", {"type": "input_audio", "input_audio": {"data": "A", "format": "wav"}}),
        ("responses", {"type": "input_audio", "input_audio": {}}),
        ("chat", {"type": "text", "text": "x", "audio": {"id": "audio_1"}}),
        ("gemini", {"inlineData": {"mimeType": "audio/wav", "data": "A"}}),
        ("gemini", {"file_data": {"mime_type": "video/mp4", "file_uri": "https://x"}}),
    ],
)
def test_sound_and_video_are_refused(form: str, part: Json) -> None:
    assert "sound and video" in refusal(form, with_content(form, [part]), context_window=200_000)


@pytest.mark.parametrize(
    ("base", "path", "expected"),
    [
        ("https://h/v1", "/v1/chat/completions", "https://h/v1/chat/completions"),
        ("https://h/api/v1", "/api/v1/chat/completions", "https://h/api/v1/chat/completions"),
        ("https://h/api/v1/", "/api/v1/responses", "https://h/api/v1/responses"),
        ("https://h", "/v1/messages", "https://h/v1/messages"),
        ("https://h", "/messages", "https://h/messages"),
        ("https://h/v1", "/chat/completions", "https://h/chat/completions"),
        ("https://h/v1/chat/completions", "/v1/chat/completions", "https://h/v1/chat/completions"),
        (
            "https://h/v1beta/openai",
            "/v1beta/openai/chat/completions",
            "https://h/v1beta/openai/chat/completions",
        ),
        (
            "https://h/v1beta/openai",
            "/v1beta/models/m:generateContent",
            "https://h/v1beta/models/real:generateContent",
        ),
        ("https://h", "/v1/messages/count_tokens", "https://h/v1/messages/count_tokens"),
        ("https://h/v1?api-version=1&a=b", "/v1/responses", "https://h/v1/responses?api-version=1&a=b"),
        ("https://h/v1", "/other/v1/chat/completions", None),
        ("https://h/api/v1", "/v1/chat/completions", None),
        ("https://h/v1", "/v1/../admin/chat/completions", None),
        ("https://h/v1", "//evil/chat/completions", None),
    ],
)
def test_the_path_of_a_request_stays_at_the_provider(base: str, path: str, expected: str | None) -> None:
    target = find_target(path)
    assert target is not None
    assert build_url(base, target, "real", path) == expected


def test_what_the_query_of_the_endpoint_sets_the_program_can_not_change() -> None:
    target = find_target("/v1/messages")
    assert target is not None
    url = build_url("https://h/v1/?api-version=1", target, "real", "/v1/messages", "api-version=2&beta=true")
    assert url == "https://h/v1/messages?api-version=1&beta=true"


@pytest.mark.parametrize(
    "path",
    ["/v1/batches", "/v1/embeddings", "/v1/completions", "/v1/responses/resp_1", "/v1/messages/batches", "/v1/files",
     "/v1beta/models/real:batchGenerateContent", "/v1beta/models/real:embedContent", "/v1beta/cachedContents",
     "/v1/images/generations", "/v1/realtime", "/api/generate", "/", ""],
)  # fmt: skip
def test_other_paths_mean_nothing(path: str) -> None:
    assert find_target(path) is None


def test_a_path_says_what_is_wanted() -> None:
    assert find_target("/v1beta/models/a%2Fb:streamGenerateContent") == RequestTarget(
        "gemini", "answer", "/v1beta", "a/b", True
    )
    assert find_target("/v1/messages/count_tokens") == RequestTarget("messages", "count", "/v1")
    assert find_target("/v1/models") == RequestTarget("chat", "models", "/v1")
