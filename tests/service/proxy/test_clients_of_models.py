"""Clients that the guide names, unchanged, against a whole gateway and a stub of the model: asynchronous SDKs with
tools, an agent, and 64 conversations at once."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import anthropic
import httpx
import openai
import pytest
from gateway_kit import Gateway, Tenant
from model_formats_kit import Call, Said
from model_kit import ModelServer, last_text, left_in
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

TENANTS = 64
NAMES = ("Maria", "Keller", "Lisbon")
QUESTION = "Where does Maria Keller live? Look it up, please."
FOUND = {"person": "Maria Keller", "town": "Lisbon", "note": 'Called "Maria".\nLives in Lisbon.'}
PARAMETERS = {"type": "object", "properties": {"person": {"type": "string"}}}


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with ModelServer() as model:
        yield model


@pytest.fixture(scope="module")
def served(processes: None, model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    settings = {"PRIVACY_GATEWAY_UPSTREAMS": model.setting, "PRIVACY_GATEWAY_UPSTREAM_CALLS_MAX": "256"}
    gateway = Gateway(tmp_path_factory.mktemp("clients") / "data", settings)
    yield gateway
    gateway.stop()


@pytest.fixture
def asking(served: Gateway, model: ModelServer) -> Tenant:
    model.bodies.clear()
    model.headers.clear()
    model.reply = answering
    return served.tenant()


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
    content = last.get("content")
    if isinstance(content, list) and content[0]["type"] == "tool_result":
        inner = content[0]["content"]
        return json.loads(inner if isinstance(inner, str) else inner[0]["text"])
    return None


def unseen(model: ModelServer, requests: int) -> None:
    assert len(model.bodies) == requests
    assert not left_in(model.seen, NAMES)


@pytest.mark.parametrize("stream", [False, True])
def test_the_asynchronous_openai_sdk_calls_a_tool(
    served: Gateway, asking: Tenant, model: ModelServer, stream: bool
) -> None:
    tool: Any = {"type": "function", "function": {"name": "find_person", "parameters": PARAMETERS}}
    messages: list[Any] = [{"role": "user", "content": QUESTION}]

    async def turn(client: openai.AsyncOpenAI) -> Any:
        asked: Any = {"model": "stub-gpt", "messages": messages, "tools": [tool]}
        if not stream:
            return (await client.chat.completions.create(**asked)).choices[0].message
        async with client.chat.completions.stream(**asked) as events:
            return (await events.get_final_completion()).choices[0].message

    async def run() -> str:
        async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key=asking.key, max_retries=0) as client:
            called = await turn(client)
            (call,) = called.tool_calls
            assert json.loads(call.function.arguments) == {"person": "Maria Keller"}
            messages.append(called.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(FOUND)})
            return str((await turn(client)).content)

    assert asyncio.run(run()) == "Maria Keller lives in Lisbon."
    unseen(model, 2)


@pytest.mark.parametrize("stream", [False, True])
def test_the_asynchronous_anthropic_sdk_calls_a_tool(
    served: Gateway, asking: Tenant, model: ModelServer, stream: bool
) -> None:
    tool: Any = {"name": "find_person", "input_schema": PARAMETERS}
    messages: list[Any] = [{"role": "user", "content": QUESTION}]

    async def turn(client: anthropic.AsyncAnthropic) -> Any:
        asked: Any = {"model": "stub-claude", "max_tokens": 100, "messages": messages, "tools": [tool]}
        if not stream:
            return await client.messages.create(**asked)
        async with client.messages.stream(**asked) as events:
            return await events.get_final_message()

    async def run() -> str:
        async with anthropic.AsyncAnthropic(base_url=served.url, api_key=asking.key, max_retries=0) as client:
            called = await turn(client)
            (use,) = called.content
            assert use.input == {"person": "Maria Keller"}
            result = {"type": "tool_result", "tool_use_id": use.id, "content": json.dumps(FOUND)}
            messages.append({"role": "assistant", "content": [use.model_dump(include={"type", "id", "name", "input"})]})
            messages.append({"role": "user", "content": [result]})
            return str((await turn(client)).content[0].text)

    assert asyncio.run(run()) == "Maria Keller lives in Lisbon."
    unseen(model, 2)


@pytest.mark.parametrize("kind", [OpenAIChatModel, OpenAIResponsesModel])
@pytest.mark.parametrize("stream", [False, True])
def test_an_agent_calls_a_tool(
    served: Gateway, asking: Tenant, model: ModelServer, kind: type[Any], stream: bool
) -> None:
    asked: list[str] = []

    async def run() -> str:
        async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key=asking.key, max_retries=0) as client:
            agent = Agent(kind("stub-gpt", provider=OpenAIProvider(openai_client=client)), system_prompt="Be brief.")

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
    unseen(model, 2)


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
            return [text_of(answer) for answer in await asyncio.gather(*running)]

    assert asyncio.run(all_at_once()) == texts
    unseen(model, TENANTS)
    said = {sent["messages"][-1]["content"] for sent in model.bodies}
    assert len(said) == TENANTS

    everything = "\n".join(sorted(said))
    model.reply = lambda _: everything
    for own, answer in zip(texts, asyncio.run(all_at_once()), strict=True):
        assert re.findall(r"maria\.keller\d+@example\.org", answer) == [own.split(", ")[1]]
        assert answer.split("\n").count(own) == 1


def text_of(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    if answer.headers["content-type"].startswith("application/json"):
        return str(answer.json()["choices"][0]["message"]["content"])
    lines = (line.removeprefix("data: ") for line in answer.text.split("\n") if line.startswith("data: {"))
    deltas = (choice["delta"] for line in lines for choice in json.loads(line)["choices"])
    return "".join(delta.get("content") or "" for delta in deltas)
