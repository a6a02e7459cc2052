"""A real LiteLLM proxy whose guardrail is the gateway: names leave it masked and come back to its client.

`tests/peers/install_litellm` installs the proxy; without it these tests are skipped.
"""

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import litellm_kit
import openai
import pytest
from gateway_kit import Gateway, free_port
from litellm_kit import LiteLLM
from model_kit import ModelServer, last_text, left_in

pytestmark = [
    pytest.mark.slow("peer"),
    pytest.mark.timeout(600),
    pytest.mark.skipif(not litellm_kit.is_installed(), reason="LiteLLM is not installed: tests/peers/install_litellm"),
]

TEXT = "Please write to Maria Keller in Lisbon, maria.keller@example.org, about card 4111 1111 1111 1111."
ORIGINALS = ("Maria", "Keller", "maria.keller", "Lisbon", "1111 1111")


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with ModelServer() as model:
        yield model


@pytest.fixture(scope="module")
def served(model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    settings = {"PRIVACY_GATEWAY_UPSTREAMS": model.setting, "PRIVACY_GATEWAY_INFILL": "off"}
    gateway = Gateway(tmp_path_factory.mktemp("guardrail") / "data", settings)
    yield gateway
    gateway.stop()


def guardrail(name: str, address: str, key: str, **params: Any) -> dict[str, Any]:
    """As docs/guide/other-tools.md shows it."""
    fixed = {
        "guardrail": "generic_guardrail_api", "mode": ["pre_call", "post_call"], "api_base": address, "api_key": key,
        "unreachable_fallback": "fail_closed", "streaming_transform_mode": "incremental_diff",
        "streaming_sampling_rate": 4,
    }  # fmt: skip
    return {"guardrail_name": name, "litellm_params": fixed | params}


def presidio(name: str, address: str) -> dict[str, Any]:
    """LiteLLM's own guardrail of Presidio's services."""
    params = {
        "guardrail": "presidio", "mode": "pre_call", "presidio_analyzer_api_base": address,
        "presidio_anonymizer_api_base": address,
        "pii_entities_config": {"PERSON": "MASK", "LOCATION": "MASK", "EMAIL_ADDRESS": "MASK", "CREDIT_CARD": "MASK"},
        "output_parse_pii": True, "presidio_filter_scope": "input",
    }  # fmt: skip
    return {"guardrail_name": name, "litellm_params": params}


@pytest.fixture(scope="module")
def proxy(served: Gateway, model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiteLLM]:
    def reached(name: str, kind: str, address: str) -> dict[str, Any]:
        return {"model_name": name, "litellm_params": {"model": kind, "api_base": address, "api_key": "none"}}

    key = served.tenant().key
    config = {
        "model_list": [
            reached("stub", "openai/stub-gpt", f"{model.origin}/v1"),
            reached("claude", "anthropic/stub-claude", model.origin),
        ],
        "guardrails": [
            guardrail("first", served.url, key),
            guardrail("down", f"http://127.0.0.1:{free_port()}", key),
            guardrail("wrong-key", served.url, "pgw_wrong"),
            presidio("as-presidio", served.url.replace("://", f"://key:{key}@")),
        ],
    }
    running = LiteLLM(tmp_path_factory.mktemp("litellm"), config)
    yield running
    running.stop()


@pytest.fixture
def gpt(proxy: LiteLLM, model: ModelServer) -> Iterator[openai.OpenAI]:
    model.bodies.clear()
    model.reply, model.status = last_text, 200
    with openai.OpenAI(base_url=f"{proxy.url}/v1", api_key=litellm_kit.KEY, max_retries=0, timeout=300) as client:
        yield client


def unseen(model: ModelServer) -> None:
    assert model.bodies
    assert not left_in(model.seen, ORIGINALS)


def chat(client: openai.OpenAI, guard: str = "first", text: str = TEXT, **fields: Any) -> Any:
    fields = {
        "model": "stub",
        "messages": [{"role": "user", "content": text}],
        "extra_body": {"guardrails": [guard]},
    } | fields
    return client.chat.completions.create(**fields)


def test_names_leave_masked_and_come_back(gpt: openai.OpenAI, model: ModelServer) -> None:
    assert chat(gpt).choices[0].message.content == TEXT
    unseen(model)


def test_names_come_back_in_a_stream(gpt: openai.OpenAI, model: ModelServer) -> None:
    deltas = [chunk.choices[0].delta.content or "" for chunk in chat(gpt, stream=True) if chunk.choices]
    assert "".join(deltas) == TEXT
    assert len([delta for delta in deltas if delta]) > 1
    unseen(model)


def test_a_conversation_with_tools_leaves_masked(gpt: openai.OpenAI, model: ModelServer) -> None:
    call = {"name": "mail", "arguments": json.dumps({"to": "Maria Keller", "city": "Lisbon"})}
    messages: Any = [
        {"role": "system", "content": "You work for Maria Keller."},
        {"role": "user", "content": [{"type": "text", "text": "Who lives in Lisbon? Mail her."}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "t1", "type": "function", "function": call}]},
        {"role": "tool", "tool_call_id": "t1", "content": "Maria Keller has it."},
    ]
    tool: Any = {"type": "function", "function": {"name": "mail", "description": "Mails people such as Maria Keller."}}
    answer = chat(gpt, messages=messages, tools=[tool])
    assert answer.choices[0].message.content == "Maria Keller has it."
    unseen(model)
    sent = json.loads(model.bodies[0]["messages"][2]["tool_calls"][0]["function"]["arguments"])
    assert list(sent) == ["to", "city"]


def test_messages_and_responses_leave_masked_and_come_back(
    gpt: openai.OpenAI, proxy: LiteLLM, model: ModelServer
) -> None:
    guarded: Any = {"guardrails": ["first"]}
    call = {"to": "Maria Keller", "city": "Lisbon"}
    items: Any = [
        {"type": "function_call", "call_id": "t1", "name": "mail", "arguments": json.dumps(call)},
        {"type": "function_call_output", "call_id": "t1", "output": "Maria Keller has it."},
        {"role": "user", "content": TEXT},
    ]
    answer = gpt.responses.create(model="stub", input=items, instructions="Answer Maria Keller.", extra_body=guarded)
    assert answer.output_text == TEXT
    turns: Any = [
        {"role": "user", "content": "Mail her. She lives in Lisbon."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "mail", "input": call}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "Maria Keller has it."},
                {"type": "text", "text": TEXT},
            ],
        },
    ]
    with anthropic.Anthropic(base_url=proxy.url, api_key=litellm_kit.KEY, max_retries=0, timeout=300) as claude:
        message = claude.messages.create(
            model="claude", max_tokens=100, system="You work for Maria Keller.", messages=turns, extra_body=guarded
        )
    assert message.content[0].text == TEXT  # type: ignore[union-attr]
    unseen(model)


def test_streams_of_other_endpoints_leave_masked_and_stay_masked(
    gpt: openai.OpenAI, proxy: LiteLLM, model: ModelServer
) -> None:
    """LiteLLM restores streams of chat completions alone."""
    guarded: Any = {"guardrails": ["first"]}
    events = list(gpt.responses.create(model="stub", input=TEXT, stream=True, extra_body=guarded))
    said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert said
    assert not left_in(said, ORIGINALS)
    unseen(model)


def test_nothing_leaves_without_the_gateway(gpt: openai.OpenAI, model: ModelServer) -> None:
    for guard in ("down", "wrong-key"):
        with pytest.raises(openai.APIStatusError) as refused:
            chat(gpt, guard)
        assert not left_in(str(refused.value), ORIGINALS)
        with pytest.raises(openai.APIError):
            list(chat(gpt, guard, stream=True))
    assert not model.bodies


def test_the_gateway_is_presidio_for_the_proxy(gpt: openai.OpenAI, model: ModelServer) -> None:
    chat(gpt, "as-presidio")
    sent = model.bodies[0]["messages"][0]["content"]
    assert "<PERSON" in sent
    unseen(model)
