"""Whole conversations through a gateway in this process: answers to questions, two languages, and agents."""

import json
from typing import Any

import httpx
import pytest
from gateway_kit import Tenant
from model_kit import ModelServer, heard_in

ASKED = (
    ("What is your passport number?", "533380006"),
    ("Thanks. And your date of birth, please?", "12.03.1985"),
    ("Bitte geben Sie den Code ein, den wir Ihnen per SMS geschickt haben. Wie lautet der SMS-Code?", "482913"),
    ("Quel est votre numéro de compte ?", "C'est le 7004512"),
)
STAYS = (("What is your PIN?", "yes"), ("How many PINs do you need?", "4412 apples"))
PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
GUARDRAIL = "/beta/litellm_basic_guardrail_api"
AGENT = "You are Claude Code, Anthropic's official CLI for Claude."
GERMAN = "Ich bin Maria Keller aus Hamburg und brauche Hilfe mit meiner Rechnung, die mir Jonas Weber geschickt hat."
ENGLISH = (
    "Maria Keller asks again. Please tell Jonas Weber that the invoice from Hamburg has not been paid yet, thanks."
)


def ask(tenant: Tenant, path: str, messages: list[dict[str, Any]], headers: Any = None, **more: Any) -> httpx.Response:
    turns = "input" if path.endswith("responses") else "messages"
    own: Any = {"model": "stub-claude", "max_tokens": 9} if path.endswith("/messages") else {"model": "stub-gpt"}
    return tenant.http.post(path, json=own | {turns: messages} | more, headers=headers)


def said(role: str, text: str, *, parts: bool = False) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}] if parts else text}


def chat_of(question: str, answer: str, *, parts: bool = False) -> list[dict[str, Any]]:
    return [
        said("user", "Hello, I want to check in.", parts=parts),
        said("assistant", question, parts=parts),
        said("user", answer, parts=parts),
    ]


def test_the_short_answer_to_a_question_does_not_leave(tenant: Tenant, llm: ModelServer) -> None:
    for path in PATHS:
        for question, answer in ASKED:
            chat = chat_of(question, answer, parts=path != "/v1/responses")
            assert heard_in(ask(tenant, path, chat)).text == answer
            assert answer.split()[-1] not in llm.seen, (path, question)
        for question, answer in STAYS:
            ask(tenant, path, chat_of(question, answer))
            assert answer in json.dumps(llm.bodies[-1])
    for question, answer in (*ASKED, *STAYS):
        chat = chat_of(question, answer)
        body = {"input_type": "request", "litellm_call_id": question, "structured_messages": chat}
        decision = tenant.http.post(GUARDRAIL, json=body | {"texts": [each["content"] for each in chat]}).json()
        assert (answer in decision["texts"]) == ((question, answer) in STAYS)


def test_fifty_turns_in_two_languages_keep_every_surrogate(tenant: Tenant, llm: ModelServer) -> None:
    turns = [said("system", "You are a helpful assistant of a bank. " * 4), said("user", GERMAN)]
    for number in range(25):  # most of the conversation is in English, then in German, and in the end in English
        own = (GERMAN, GERMAN) if number < 8 else (ENGLISH, ENGLISH)
        turns += [said(role, f"{number}: {text}") for role, text in zip(("assistant", "user"), own, strict=True)]
    for end in (2, 3, 4, 6, 10, 20, 35, len(turns)):
        assert ask(tenant, "/v1/chat/completions", turns[:end]).status_code == 200
    for earlier, later in zip(llm.bodies, llm.bodies[1:], strict=False):
        assert later["messages"][: len(earlier["messages"])] == earlier["messages"]
    assert "Keller" not in llm.seen


def test_a_first_message_without_a_language_does_not_decide_later(tenant: Tenant, llm: ModelServer) -> None:
    turns = [said("user", "Maria Keller"), said("assistant", "Yes?"), said("user", GERMAN), said("user", ENGLISH * 3)]
    for end in (1, 3, 4):
        ask(tenant, "/v1/chat/completions", turns[:end], tools=[])
    assert len({body["messages"][0]["content"] for body in llm.bodies}) == 1


def test_the_system_prompt_of_an_agent_stays(tenant: Tenant, llm: ModelServer) -> None:
    for text, kept in (("Claude, write to my colleague Jonas Weber.", True), ("My boss Claude called.", False)):
        ask(tenant, "/v1/messages", [said("user", text)], system=AGENT)
        assert (llm.bodies[-1]["system"] == AGENT) == kept
        assert ("Claude" in json.dumps(llm.bodies[-1]["messages"])) == kept
    assert "Weber" not in llm.seen


@pytest.mark.parametrize(
    ("policy", "left"), [("trusting", "Kowalska, anna@corp.example"), ("by-patterns", "Kowalska, ")]
)
def test_a_policy_reads_system_prompts_by_patterns_or_not_at_all(
    tenant: Tenant, llm: ModelServer, policy: str, left: str
) -> None:
    prompt, text = "You work for Anna Kowalska, anna@corp.example.", "Write to Jonas Weber."
    for path in PATHS:
        own: Any = {"system": prompt} if path == "/v1/messages" else {}
        if path == "/v1/responses":
            own = {"instructions": prompt}
        turns = [said("user", text)] if own else [said("system", prompt), said("user", text)]
        answer = ask(tenant, path, turns, headers={"Privacy-Policy": policy}, **own)
        assert heard_in(answer).text == text
        assert left in json.dumps(llm.bodies[-1])
        assert (prompt in json.dumps(llm.bodies[-1])) == (policy == "trusting")
        assert "Weber" not in json.dumps(llm.bodies[-1])
