"""Two neighbouring requests whose samplers draw the same are the same for the upstream, the tenant and the vault."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import httpx
import pytest
from gateway_kit import Tenant
from inprocess_kit import Gateway
from model_kit import ModelServer
from tiers import cells

from core.mechanisms.words.exponential import ExponentialWords
from core.text.fill_left_to_right import Scored
from core.text.tokens import tokenize
from gpu_workers.handlers import filler

DRAWN = "maria"  # which is also among the originals
ROUNDS = 8
WHOLE = ("priced-texts", "priced-words")

WORDS = ["maria", "Maria", "Keller", "don\u2019t", "x-1", "12:30", "3.14", "\u5317\u4eac", "e\u0301te\u0301", "_", "0"]
MARKS = [
    " ",
    "  ",
    "\n",
    "\t",
    ", ",
    " \U0001f642 ",
    " \u200b",
    "\u00ad ",
    "! ",
    " -",
    " +",
    " \\ ",
    ' "',
    " <b> ",
    " &amp; ",
]
ADDRESSES = [
    "maria@example.org",
    "KELLER@mail.com",
    "m\u00adaria@exam\u200bple.org",
    "\u00adx@exam\u00adple.com",
]
NUMBERS = ["0", "-0", "5", "-12", "1.50", "1234567890123456789", "1e5", "2E9"]


@pytest.fixture
def tenant(proxying: Gateway) -> Tenant:
    return proxying.tenant(epsilon=1e6)


@pytest.fixture(autouse=True)
def same_draws(monkeypatch: pytest.MonkeyPatch, llm: ModelServer) -> None:
    llm.reply, llm.response_id = lambda _: "Hm.", "r1"
    monkeypatch.setattr(filler, "dp_draws", lambda *_, **__: Scored(lambda place, scores: DRAWN))
    monkeypatch.setattr(ExponentialWords, "release", lambda self, words, epsilons: [DRAWN] * len(words))


class Originals:
    """The private content of a request, drawn at random: other contents of the same form come from other seeds."""

    def __init__(self, form: int, private: int, policy: str) -> None:
        self.form, self.private = Random(form), Random(private)
        self._policy = policy

    def text(self, count: int) -> str:
        """A text of so many words where all of it is protected, else one with so many addresses."""
        if self._policy in WHOLE:
            text = "".join(self.private.choice(MARKS) + self.private.choice(WORDS) for _ in range(count))
            text += (
                self.private.choice(["", *MARKS])
                if count
                else self.private.choice(["\U0001f642", "\u2026", "\u200b", "-"])
            )
            return text if len(tokenize(text)) == count else self.text(count)
        return "".join(f"ask {self.private.choice(ADDRESSES)}, " for _ in range(count)) + "don\u2019t"

    def blank(self) -> str:
        return self.private.choice(["", " ", "\n\t", "\u3000"]) if self._policy in WHOLE else " "

    def number(self) -> str:
        return self.private.choice(NUMBERS) if self._policy in WHOLE else "-1.50"

    def spelled(self, text: str) -> str:
        """A string of JSON in one of its spellings."""
        letters = (
            self.private.choice(
                [json.dumps(letter)[1:-1], json.dumps(letter, ensure_ascii=False)[1:-1], _units(letter)]
            )
            for letter in text
        )
        return '"' + "".join(letters) + '"'

    def space(self) -> str:
        return self.private.choice(["", "", " ", "\n  ", "\t"])

    def document(self, depth: int = 2) -> str:
        """The source of a JSON document."""
        members = []
        for number in range(self.form.randint(1, 3)):
            value = self.value(depth)
            members.append(
                f"{self.space()}{self.spelled(f'key{number}')}{self.space()}:{self.space()}{value}{self.space()}"
            )
        return "{" + ",".join(members) + "}"

    def value(self, depth: int) -> str:
        kind = self.form.randrange(7 if depth else 5)
        if kind == 0:
            return self.number()
        if kind == 1:
            return self.spelled(self.blank())
        if kind == 2:
            return self.form.choice(["true", "false", "null"])
        if kind < 5:
            return self.spelled(self.text(self.form.randrange(4)))
        if kind == 5:
            return self.document(depth - 1)
        count = self.form.randrange(3)
        return "[" + ",".join(self.space() + self.value(depth - 1) for _ in range(count)) + self.space() + "]"

    def message(self) -> str:
        """A text, or a document that reads as one."""
        kind = self.form.randrange(4)
        if kind == 0:
            return self.blank()
        return self.space() + self.document() if kind == 1 else "Hm: " + self.text(self.form.randrange(4))


def _units(letter: str) -> str:
    return "".join(f"\\u{unit:04x}" for unit in memoryview(letter.encode("utf-16-le")).cast("H"))


def chat(own: Originals) -> dict[str, Any]:
    call = {"id": "t1", "type": "function", "function": {"name": "mail", "arguments": own.document()}}
    messages: list[Any] = [
        {"role": "user", "content": "Mail " + own.text(2), "name": "u " + own.text(1)},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "t1", "content": own.document()},
        {"role": "user", "content": [{"type": "text", "text": own.message()}, {"type": "text", "text": own.message()}]},
    ]
    return {"model": "stub-gpt", "messages": messages}


def responses(own: Originals) -> dict[str, Any]:
    call = {"type": "function_call", "call_id": "c1", "name": "mail", "arguments": own.document()}
    result = {"type": "function_call_output", "call_id": "c1", "output": own.document()}
    turns = [{"role": "user", "content": own.message()}, call, result]
    return {"model": "stub-gpt", "input": turns, "instructions": "Hm " + own.text(1)}


def anthropic(own: Originals) -> dict[str, Any]:
    call = {"type": "tool_use", "id": "t1", "name": "mail", "input": json.loads(own.document())}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": own.message()}
    turns: list[Any] = [
        {"role": "user", "content": "Mail " + own.text(2)},
        {"role": "assistant", "content": [{"type": "text", "text": own.message()}, call]},
        {"role": "user", "content": [result]},
    ]
    return {"model": "stub-claude", "max_tokens": 9, "messages": turns}


Requests = Callable[[Originals], dict[str, Any]]
PATHS: dict[str, Requests] = {"/v1/chat/completions": chat, "/v1/responses": responses, "/v1/messages": anthropic}


def shown(answer: httpx.Response) -> tuple[Any, ...]:
    """What an answer shows, but for the names of releases and what is left of the budget."""
    ids = ("release-id", "idempotency-key", "privacy-remaining", "date", "x-request-id")
    headers = {name: value for name, value in answer.headers.items() if name not in ids}
    body = answer.json()
    body.pop("id", None)  # a number of the stub
    return answer.status_code, headers, json.dumps(body)


@pytest.mark.parametrize("policy", cells(["priced", "priced-places", *WHOLE]))
@pytest.mark.parametrize("path", cells(PATHS))
def test_neighbours_with_the_same_draws_leave_alike(tenant: Tenant, llm: ModelServer, path: str, policy: str) -> None:
    for form in range(ROUNDS):
        seen = []
        for private in (form, ROUNDS + form):
            llm.bodies.clear()
            before = tenant.committed("token")
            body = PATHS[path](Originals(form, private, policy))
            answer = tenant.http.post(path, json=body, headers={"Privacy-Policy": policy})
            assert answer.status_code == 200, answer.text
            seen.append((llm.seen, shown(answer), round(tenant.committed("token") - before, 6)))
        assert seen[0] == seen[1]


def test_a_draw_that_equals_the_original_leaves_like_any_other(tenant: Tenant, llm: ModelServer) -> None:
    left = set()
    for source in (
        r'["don\u2019t tell maria"]',
        r'[ "don\u2019t t\u0065ll keller"]',
        '["don\u2019t tell \\u006daria"]',
    ):
        for text in (source, source.replace("maria", "m\u00adaria")):
            answer = tenant.http.post(
                "/v1/chat/completions",
                json={"model": "stub-gpt", "messages": [{"role": "user", "content": text}]},
                headers={"Privacy-Policy": "priced-words"},
            )
            assert answer.status_code == 200, answer.text
            left.add(llm.bodies[-1]["messages"][0]["content"])
    assert left == {'["maria maria maria"]'}


@pytest.mark.parametrize("policy", WHOLE)
def test_values_without_words_are_charged_and_do_not_leave(tenant: Tenant, llm: ModelServer, policy: str) -> None:
    values = ["\U0001f642\U0001f642", "\u2014", "\u200b", "...", " ", "", "\u65e5", 0, -1.5, True, None]
    messages: Any = [
        {"role": "user", "content": "\U0001f642"},
        {"role": "user", "content": json.dumps(values)},
        {"role": "user", "content": " \n"},
    ]
    before = tenant.committed("token")
    answer = tenant.http.post(
        "/v1/chat/completions", json={"model": "stub-gpt", "messages": messages}, headers={"Privacy-Policy": policy}
    )
    assert answer.status_code == 200, answer.text
    texts = [message["content"] for message in llm.bodies[-1]["messages"]]
    assert texts[0] == texts[2] == ""
    assert json.loads(texts[1]) == ["", "", "", "", "", "", DRAWN, DRAWN, DRAWN, True, None]
    one = float(
        answer.headers["privacy-guarantee"].partition("epsilon-worst-case=")[2] or answer.headers["privacy-epsilon"]
    )
    assert tenant.committed("token") - before == pytest.approx(8 * one)  # the blank ones are public


def test_a_half_of_a_surrogate_pair_is_filled(tenant: Tenant, llm: ModelServer) -> None:
    body = {"model": "stub-gpt", "messages": [{"role": "user", "content": r'["\ud83d ask maria@example.org"]'}]}
    answer = tenant.http.post("/v1/chat/completions", json=body, headers={"Privacy-Policy": "priced"})
    assert answer.status_code == 200, answer.text
    assert json.loads(llm.bodies[-1]["messages"][0]["content"]) == [f"\ufffd ask {DRAWN}"]
