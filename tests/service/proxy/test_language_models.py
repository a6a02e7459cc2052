"""Language models behind a whole gateway, by the unmodified SDKs of OpenAI and Anthropic, an agent, and 64 tenants."""

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
from constants_kit import constants
from gateway_kit import Gateway, Tenant
from model_formats_kit import Call, Said
from model_kit import ModelServer, heard_in, last_text, left_in, words_in

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
"""


@pytest.fixture(scope="module")
def served(processes: None, model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    data_dir: Path = tmp_path_factory.mktemp("proxy") / "data"
    policies = data_dir.parent / "policies.toml"
    policies.write_text(POLICIES)
    settings = {
        "PRIVACY_GATEWAY_UPSTREAMS": model.setting,
        "PRIVACY_GATEWAY_POLICIES_FILE": str(policies),
        "PRIVACY_GATEWAY_UPSTREAM_CALLS_MAX": "256",
    }
    gateway = Gateway(data_dir, settings | constants({"proxy_chars_max": 60_000, "proxy_texts_max": 1000}))
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


def unseen(model: ModelServer) -> None:
    """The model was asked, and no original was in what it saw."""
    assert model.bodies
    assert not left_in(model.seen, ORIGINALS)


def chat(client: openai.OpenAI, text: str = TEXT, **fields: Any) -> Any:
    return client.chat.completions.create(model="stub-gpt", messages=[{"role": "user", "content": text}], **fields)


def test_a_chat_completion_comes_back_with_its_names(gpt: openai.OpenAI, model: ModelServer) -> None:
    assert chat(gpt).choices[0].message.content == TEXT
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
        "model": "stub-claude", "max_tokens": 100, "system": "You work for Maria Keller.",
        "metadata": {"user_id": "maria.keller@example.org"}, "messages": [{"role": "user", "content": TEXT}],
    }  # fmt: skip
    assert claude.messages.create(**asked).content[0].text == TEXT
    with claude.messages.stream(**asked) as stream:
        assert "".join(stream.text_stream) == TEXT
        assert stream.get_final_message().content[0].text == TEXT
    unseen(model)


def test_both_sdks_count_tokens_of_what_would_leave(
    gpt: openai.OpenAI, claude: anthropic.Anthropic, model: ModelServer
) -> None:
    turn: Any = {"role": "user", "content": TEXT}
    counted = claude.messages.count_tokens(model="stub-claude", system="You work for Maria Keller.", messages=[turn])
    assert counted.input_tokens == words_in(model.bodies[-1])
    asked = gpt.responses.input_tokens.count(model="stub-gpt", input=TEXT, instructions="Answer Maria Keller.")
    assert (asked.object, asked.input_tokens) == ("response.input_tokens", words_in(model.bodies[-1]))
    unseen(model)


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
    asked = {"model": "stub-gpt", "messages": [{"role": "user", "content": TEXT}]}
    for policy in ("guessed", "zq-nobody"):
        answer = asking.http.post("/v1/chat/completions", json=asked, headers={"Privacy-Policy": policy})
        assert answer.status_code == 400
    assert not model.bodies


def test_more_text_than_the_limits_is_refused(asking: Tenant, model: ModelServer) -> None:
    for texts, what in (([TEXT * 900], "characters"), (["Maria Keller"] * 1_001, "texts")):
        body = {"model": "stub-gpt", "messages": [{"role": "user", "content": text} for text in texts]}
        refused = asking.http.post("/v1/chat/completions", json=body)
        assert refused.status_code == 400, refused.text
        assert what in refused.json()["error"]["message"]
    assert not model.bodies


QUESTION = "Where does Maria Keller live? Look it up, please."
FOUND = {"person": "Maria Keller", "town": "Lisbon", "note": 'Called "Maria".\nLives in Lisbon.'}
TENANTS = 64


def answering(body: dict[str, Any]) -> Said:
    """Call the tool with the name in the question, and answer with what the tool said."""
    tool = result_of(body)
    if tool is None:
        asked = last_text(body).removeprefix("Where does ").split(" live?")[0]
        return Said("", (Call("find_person", json.dumps({"person": asked})),))
    return Said(f"{tool['person']} lives in {tool['town']}.")


def result_of(body: dict[str, Any]) -> Any:
    """The result of the tool in the last message, if there is one."""
    last = body.get("messages", body.get("input"))[-1]
    if last.get("role") == "tool":
        return json.loads(last["content"])
    if last.get("type") == "function_call_output":
        return json.loads(last["output"])
    return None


@pytest.mark.parametrize("kind", ["OpenAIChatModel", "OpenAIResponsesModel"])
@pytest.mark.parametrize("stream", [False, True])
def test_an_agent_calls_a_tool(served: Gateway, asking: Tenant, model: ModelServer, kind: str, stream: bool) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models import openai as models
    from pydantic_ai.providers.openai import OpenAIProvider

    asked: list[str] = []
    model.reply = answering

    async def run() -> str:
        async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key=asking.key, max_retries=0) as client:
            chosen = getattr(models, kind)("stub-gpt", provider=OpenAIProvider(openai_client=client))
            agent = Agent(chosen, system_prompt="Be brief.")

            @agent.tool_plain
            def find_person(person: str) -> dict[str, str]:
                """Return where a person such as Maria Keller lives."""
                asked.append(person)
                return FOUND

            if not stream:
                return (await agent.run(QUESTION)).output
            async with agent.run_stream(QUESTION) as answer:
                return str(await answer.get_output())

    assert asyncio.run(run()) == "Maria Keller lives in Lisbon."
    assert asked == ["Maria Keller"]
    assert len(model.bodies) == 2
    unseen(model)


@pytest.mark.slow("process")
def test_conversations_of_many_tenants_at_once_do_not_cross(served: Gateway, model: ModelServer) -> None:
    """All tenants talk of the same person, each with another address. A model that answers with the surrogates of all
    of them tells no tenant the address of another."""
    tenants = [served.tenant() for _ in range(TENANTS)]
    texts = [f"Call Maria Keller in Lisbon, maria.keller{number}@example.org, please." for number in range(TENANTS)]
    model.bodies.clear()
    model.reply = last_text

    async def all_at_once() -> list[str]:
        async with AsyncExitStack() as stack:
            running = []
            for number, tenant in enumerate(tenants):
                headers = {"Authorization": f"Bearer {tenant.key}"}
                client = httpx.AsyncClient(base_url=served.url, headers=headers, timeout=300)
                await stack.enter_async_context(client)
                messages = [{"role": "user", "content": QUESTION}, {"role": "user", "content": texts[number]}]
                body = {"model": "stub-gpt", "messages": messages, "stream": number % 2 == 0}
                running.append(client.post("/v1/chat/completions", json=body))
            return [heard_in(answer).text for answer in await asyncio.gather(*running)]

    assert asyncio.run(all_at_once()) == texts
    assert len(model.bodies) == TENANTS
    unseen(model)
    said = {sent["messages"][-1]["content"] for sent in model.bodies}
    assert len(said) == TENANTS

    everything = "\n".join(sorted(said))
    model.reply = lambda _: everything
    for own, answer in zip(texts, asyncio.run(all_at_once()), strict=True):
        assert re.findall(r"maria\.keller\d+@example\.org", answer) == [own.split(", ")[1]]
        assert answer.split("\n").count(own) == 1
