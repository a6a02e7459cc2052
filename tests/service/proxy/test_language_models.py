"""Language models behind the gateway, by the unmodified SDKs of OpenAI and Anthropic."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
from gateway_kit import Gateway, Tenant
from model_kit import ModelServer, last_text, left_in

TEXT = "Please write to Maria Keller in Lisbon, maria.keller@example.org, about card 4111 1111 1111 1111."
ORIGINALS = ("Maria", "Keller", "maria.keller", "Lisbon", "1111 1111")


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with ModelServer() as model:
        yield model


POLICIES = """
[policies.numbered]
fill = { mode = "class_marker" }
proxy = { block = ["SECRET"], definitions = "pass", media = "pass", identifiers = "pass" }

[policies.guessed]
fill = { mode = "top1" }

[policies.priced]
fill = { mode = "dp", epsilon = 4.0 }

[policies.kept]
fill = { mode = "surrogate" }
proxy = { vault = true }
"""


@pytest.fixture(scope="module")
def served(processes: None, model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    data_dir: Path = tmp_path_factory.mktemp("proxy") / "data"
    policies = data_dir.parent / "policies.toml"
    policies.write_text(POLICIES)
    settings = {
        "PRIVACY_GATEWAY_UPSTREAMS": model.setting,
        "PRIVACY_GATEWAY_POLICIES_FILE": str(policies),
        "PRIVACY_GATEWAY_PROXY_CHARS_MAX": "60000",
        "PRIVACY_GATEWAY_PROXY_TEXTS_MAX": "1000",
    }
    gateway = Gateway(data_dir, settings)
    yield gateway
    gateway.stop()


@pytest.fixture
def asking(served: Gateway, model: ModelServer) -> Tenant:
    model.bodies.clear()
    model.headers.clear()
    model.reply, model.status, model.response_id = last_text, 200, "r*"
    return served.tenant()


@pytest.fixture
def gpt(served: Gateway, asking: Tenant) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key=asking.key, max_retries=0) as client:
        yield client


@pytest.fixture
def claude(served: Gateway, asking: Tenant) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=served.url, api_key=asking.key, max_retries=0) as client:
        yield client


def resident_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def unseen(model: ModelServer) -> None:
    """The model was asked, and no original was in what it saw."""
    assert model.bodies
    assert not left_in(model.seen, ORIGINALS)


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
    picture: Any = {"type": "image_url", "image_url": {"url": "https://example.org/zq.png"}}
    with pytest.raises(openai.BadRequestError) as media:
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


def test_a_conversation_has_the_same_surrogates_in_every_request(gpt: openai.OpenAI, model: ModelServer) -> None:
    # A name that comes later must not be the surrogate of an earlier one, which would then be replaced.
    turns: Any = [{"role": "user", "content": "I am Maria Keller."}]
    for text in ("Where do I live? In Lisbon.", "Maria is my name, and Jonas Keller is my brother."):
        answer = gpt.chat.completions.create(model="stub-gpt", messages=turns)
        turns += [
            {"role": "assistant", "content": answer.choices[0].message.content},
            {"role": "user", "content": text},
        ]
    gpt.chat.completions.create(model="stub-gpt", messages=turns)
    sent = [[each["content"] for each in body["messages"]] for body in model.bodies]
    assert sent[1][: len(sent[0])] == sent[0]
    assert sent[2][: len(sent[1])] == sent[1]
    unseen(model)


def test_tenants_share_no_surrogates(served: Gateway, asking: Tenant, model: ModelServer) -> None:
    body = {"model": "stub-gpt", "messages": [{"role": "user", "content": "I am Maria Keller of Lisbon."}]}
    for tenant in (asking, served.tenant()):
        answer = tenant.http.post("/v1/chat/completions", json=body)
        assert answer.headers["privacy-guarantee"] == "none"
        assert answer.json()["choices"][0]["message"]["content"] == "I am Maria Keller of Lisbon."
    first, second = (each["messages"][0]["content"] for each in model.bodies)
    assert first != second
    unseen(model)


def test_a_policy_numbers_blocks_and_passes(asking: Tenant, model: ModelServer) -> None:
    def ask(text: Any, **fields: Any) -> httpx.Response:
        body = {"model": "stub-gpt", "messages": [{"role": "user", "content": text}]} | fields
        return asking.http.post("/v1/chat/completions", json=body, headers={"Privacy-Policy": "numbered"})

    picture = {"type": "image_url", "image_url": {"url": "https://example.org/1.png"}}
    parts = [{"type": "text", "text": "Call Maria Keller or Jonas Weber."}, picture]
    answer = ask(parts, user="maria-7")
    assert answer.json()["choices"][0]["message"]["content"] == parts[0]["text"]
    assert model.bodies[0]["messages"][0]["content"][0]["text"] == "Call [PERSON_1] or [PERSON_2]."
    assert model.bodies[0]["user"] == "maria-7"

    blocked = ask("Use AKIAQ7XJ2MZ4KT6WPLND for it.")
    assert blocked.status_code == 400
    assert blocked.json()["error"]["param"] == "messages"
    assert "SECRET" in blocked.json()["error"]["message"]
    assert "AKIA" not in blocked.text
    assert len(model.bodies) == 1


def test_what_cannot_be_restored_is_refused_before_it_leaves(asking: Tenant, model: ModelServer) -> None:
    def refused(path: str, body: dict[str, Any], **headers: str) -> Any:
        answer = asking.http.post(path, json=body, headers=headers)
        assert answer.status_code in (400, 413)
        return answer.json()["error"]

    asked = {"model": "stub-gpt", "messages": [{"role": "user", "content": TEXT}]}
    refused("/v1/chat/completions", asked, **{"Privacy-Policy": "guessed"})
    refused("/v1/chat/completions", asked, **{"Privacy-Policy": "zq-nobody"})
    recalled = {"model": "stub-gpt", "input": TEXT, "previous_response_id": "r0"}
    assert refused("/v1/responses", recalled)["param"] == "previous_response_id"
    refused("/v1/chat/completions", asked | {"messages": [{"role": "user", "content": {"zq": TEXT}}]})
    assert not model.bodies


@pytest.mark.parametrize(
    "result",
    [
        json.dumps({"customer": "Jörg Müller", "note": "Contact:\nMaria Keller\tLisbon"}),
        "Result: " + json.dumps({"customer": "Jörg Müller"}),
        json.dumps({"Jörg Müller": 1}),
    ],
)
def test_names_in_json_within_a_text_do_not_leave(gpt: openai.OpenAI, model: ModelServer, result: str) -> None:
    call: Any = {"id": "t1", "type": "function", "function": {"name": "find", "arguments": '{"who": "J\\u00f6rg'}}
    messages: Any = [
        {"role": "user", "content": "Who is Jörg Müller? And Maria Keller of Lisbon?"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "t1", "content": result},
    ]
    gpt.chat.completions.create(model="stub-gpt", messages=messages)
    sent = model.bodies[0]["messages"]
    seen = json.dumps(sent).encode().decode("unicode_escape") + json.dumps(sent)
    shown = [sent[1]["tool_calls"][0]["function"]["arguments"], sent[2]["content"]]
    for original in ("Müller", "Jörg", "M\\u00fcller", "J\\u00f6rg", "Maria", "Keller", "Lisbon"):
        assert not left_in(seen, [original])
        assert not any(left_in(text, [original]) for text in shown)
    if result.startswith("{"):
        json.loads(sent[2]["content"])


@pytest.mark.parametrize(
    ("messages", "what"),
    [([TEXT * 900], "characters"), (["Maria Keller"] * 1_001, "texts")],
    ids=["characters", "texts"],
)
def test_more_text_than_the_limits_is_refused(
    asking: Tenant, model: ModelServer, messages: list[str], what: str
) -> None:
    body = {"model": "stub-gpt", "messages": [{"role": "user", "content": text} for text in messages]}
    refused = asking.http.post("/v1/chat/completions", json=body)
    assert refused.status_code == 400, refused.text
    assert refused.json()["error"]["code"] == "invalid-input"
    assert what in refused.json()["error"]["message"]
    assert not model.bodies


def test_the_front_end_loads_no_lists_of_names(served: Gateway, gpt: openai.OpenAI) -> None:
    """Surrogates are made in a worker, so that memory and start of the front end stay small."""
    chat(gpt)
    before = resident_kib(served.process.pid)
    for language in ("Schreib an Maria Keller in Berlin.", "Escribe a Carlos Ruiz en Madrid.", "Napisz do Anna Nowak."):
        chat(gpt, language)
    assert resident_kib(served.process.pid) - before < 24_000  # the lists of one language take 40,000


@pytest.mark.parametrize("stream", [False, True])
def test_a_fill_with_a_price_is_charged_and_not_restored(
    gpt: openai.OpenAI, asking: Tenant, model: ModelServer, stream: bool
) -> None:
    headers = {"Privacy-Policy": "priced"}
    asked: Any = {"model": "stub-gpt", "messages": [{"role": "user", "content": TEXT}], "extra_headers": headers}
    raw = gpt.chat.completions.with_raw_response.create(**asked, stream=stream)
    assert raw.headers["privacy-guarantee"] == "pure-dp; unit=token"
    answer = raw.parse()
    said = (
        "".join(chunk.choices[0].delta.content or "" for chunk in answer)
        if stream
        else answer.choices[0].message.content
    )
    assert said == model.bodies[0]["messages"][0]["content"]
    assert asking.committed("token") == 4.0
    unseen(model)


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_that_the_model_keeps_is_continued(gpt: openai.OpenAI, model: ModelServer, stream: bool) -> None:
    asked: Any = {"model": "stub-gpt", "stream": stream, "extra_headers": {"Privacy-Policy": "kept"}}
    first = gpt.responses.create(input="I am Maria Keller of Lisbon.", **asked)
    identifier = list(first)[-1].response.id if stream else first.id
    masked = model.bodies[0]["input"]
    model.reply = lambda _: f"You said: {masked}"
    second = gpt.responses.create(input="What did I say?", previous_response_id=identifier, **asked)
    text = list(second)[-1].response.output_text if stream else second.output_text
    assert text == "You said: I am Maria Keller of Lisbon."
    unseen(model)
