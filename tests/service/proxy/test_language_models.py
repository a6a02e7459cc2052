"""Language models behind the gateway, by the unmodified SDKs of OpenAI and Anthropic."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from gateway_kit import Gateway, Tenant
from model_kit import ModelServer, last_text

TEXT = "Please write to Maria Keller in Lisbon, maria.keller@example.org, about card 4111 1111 1111 1111."
ORIGINALS = ("Maria", "Keller", "maria.keller", "Lisbon", "4111")


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with ModelServer() as model:
        yield model


@pytest.fixture(scope="module")
def served(model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    data_dir: Path = tmp_path_factory.mktemp("proxy") / "data"
    gateway = Gateway(data_dir, {"PRIVACY_GATEWAY_UPSTREAMS": model.setting})
    yield gateway
    gateway.stop()


@pytest.fixture
def asking(served: Gateway, model: ModelServer) -> Iterator[Tenant]:
    model.bodies.clear()
    model.headers.clear()
    model.reply, model.status = last_text, 200
    yield served.tenant()


@pytest.fixture
def gpt(served: Gateway, asking: Tenant) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key=asking.key, max_retries=0) as client:
        yield client


@pytest.fixture
def claude(served: Gateway, asking: Tenant) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=served.url, api_key=asking.key, max_retries=0) as client:
        yield client


def unseen(model: ModelServer) -> None:
    """The model was asked, and no original was in what it saw."""
    assert model.bodies
    assert not [original for original in ORIGINALS if original.casefold() in model.seen.casefold()]


def chat(client: openai.OpenAI, text: str = TEXT, **fields: Any) -> Any:
    return client.chat.completions.create(model="stub-gpt", messages=[{"role": "user", "content": text}], **fields)


def test_a_chat_completion_comes_back_with_its_names(gpt: openai.OpenAI, model: ModelServer) -> None:
    assert chat(gpt).choices[0].message.content == TEXT
    unseen(model)
    assert model.bodies[0]["model"] == "stub-gpt"


def test_a_streamed_chat_completion_comes_back_with_its_names(gpt: openai.OpenAI, model: ModelServer) -> None:
    deltas = [chunk.choices[0].delta.content or "" for chunk in chat(gpt, stream=True) if chunk.choices]
    assert "".join(deltas) == TEXT
    assert len(deltas) > 3
    unseen(model)


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_comes_back_with_its_names(gpt: openai.OpenAI, model: ModelServer, stream: bool) -> None:
    answer = gpt.responses.create(model="stub-gpt", input=TEXT, instructions="Answer Maria Keller.", stream=stream)
    if stream:
        events = list(answer)
        assert "".join(each.delta for each in events if each.type == "response.output_text.delta") == TEXT
        assert [each.sequence_number for each in events] == list(range(len(events)))
        answer = events[-1].response
    assert answer.output_text == TEXT
    unseen(model)


def test_a_message_comes_back_with_its_names(claude: anthropic.Anthropic, model: ModelServer) -> None:
    asked: Any = {
        "model": "stub-claude",
        "max_tokens": 100,
        "system": "You work for Maria Keller.",
        "metadata": {"user_id": "maria.keller@example.org"},
        "messages": [{"role": "user", "content": TEXT}],
    }
    assert claude.messages.create(**asked).content[0].text == TEXT
    with claude.messages.stream(**asked) as stream:
        assert "".join(stream.text_stream) == TEXT
        assert stream.get_final_message().content[0].text == TEXT
    unseen(model)


def test_names_in_tools_and_their_results_do_not_leave(gpt: openai.OpenAI, model: ModelServer) -> None:
    call = {"name": "mail", "arguments": json.dumps({"to": "Maria Keller", "city": "Lisbon"})}
    messages: Any = [
        {"role": "user", "content": "Who lives in Lisbon? Mail her.", "name": "Maria"},
        {"role": "assistant", "tool_calls": [{"id": "t1", "type": "function", "function": call}]},
        {"role": "tool", "tool_call_id": "t1", "content": "Maria Keller was told."},
    ]
    tool: Any = {"type": "function", "function": {"name": "mail", "description": "Mails people such as Maria Keller."}}
    answer = gpt.chat.completions.create(model="stub-gpt", messages=messages, tools=[tool], user="maria.keller")
    assert answer.choices[0].message.content == "Maria Keller was told."
    unseen(model)
    sent = json.loads(model.bodies[0]["messages"][1]["tool_calls"][0]["function"]["arguments"])
    assert list(sent) == ["to", "city"]


def test_the_models_that_a_tenant_may_call_are_listed(gpt: openai.OpenAI) -> None:
    assert {"stub-gpt", "stub-claude", "minilm-sentdp-eps10"} <= {model.id for model in gpt.models.list()}
    assert gpt.models.retrieve("stub-gpt").owned_by == "stub"


def test_errors_have_the_shape_of_their_sdk(gpt: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        gpt.chat.completions.create(model="zq-nothing", messages=[{"role": "user", "content": TEXT}])
    assert unknown.value.code == "unknown-model"
    with pytest.raises(anthropic.NotFoundError) as missing:
        claude.messages.create(model="stub-gpt", max_tokens=1, messages=[{"role": "user", "content": TEXT}])
    assert missing.value.body["error"]["type"] == "not_found_error"  # type: ignore[index]
    with pytest.raises(openai.BadRequestError) as media:
        picture: Any = {"type": "image_url", "image_url": {"url": "https://example.org/zq.png"}}
        gpt.chat.completions.create(model="stub-gpt", messages=[{"role": "user", "content": [picture]}])
    assert "zq" not in str(media.value)


def test_an_error_of_the_model_is_passed_on_with_names(gpt: openai.OpenAI, model: ModelServer) -> None:
    model.status, model.reply = 422, lambda body: f"Too long: {last_text(body)}"
    with pytest.raises(openai.UnprocessableEntityError) as error:
        chat(gpt)
    assert "Maria Keller" in str(error.value)
    unseen(model)


def test_the_key_of_the_client_does_not_leave(gpt: openai.OpenAI, asking: Tenant, model: ModelServer) -> None:
    chat(gpt)
    assert asking.key not in json.dumps(model.headers)
