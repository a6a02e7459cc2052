"""Two neighbouring requests whose samplers draw the same are the same for the upstream, the tenant and the vault."""

import json
from collections.abc import Sequence
from typing import Any

import httpx
import pytest
from audits.interference_models import DIALECTS, json_pair
from audits.interference_requests import word_pair
from audits.neighbours import Texts
from gateway_kit import Tenant
from inprocess_kit import Gateway
from model_kit import ModelServer
from tiers import cells

from core.mechanisms.words.replacement import ExponentialWords
from core.text.model_fills import Scored
from gpu_workers.handlers import filler

DRAWN = "maria"  # which is also among the originals
ROUNDS = 8
WHOLE = ("priced-texts", "priced-words")
ADDRESSES = ("maria@example.org", "KELLER@mail.com", "m\u00adaria@exam\u200bple.org", "\u00adx@exam\u00adple.com")


@pytest.fixture
def tenant(proxying: Gateway) -> Tenant:
    return proxying.tenant(epsilon=1e6)


@pytest.fixture(autouse=True)
def same_draws(monkeypatch: pytest.MonkeyPatch, llm: ModelServer) -> None:
    llm.reply, llm.response_id = lambda _: "Hm.", "r1"
    monkeypatch.setattr(filler, "dp_draws", lambda *_, **__: Scored(lambda place, scores: DRAWN))
    monkeypatch.setattr(ExponentialWords, "release", lambda self, words, epsilons: [DRAWN] * len(words))


def addresses(texts: Texts) -> list[str]:
    """Two texts of which the addresses differ, and nothing else."""
    return ["".join(f"ask {texts.random.choice(ADDRESSES)}, " for _ in range(2)) + "don\u2019t" for _ in range(2)]


def documents(texts: Texts, policy: str) -> Sequence[str]:
    """Two JSON documents of one form, written in any way."""
    if policy in WHOLE:
        return json_pair(texts)
    return [texts.escaped(json.dumps({"note": each, "n": -1.5}, ensure_ascii=False)) for each in addresses(texts)]


def shown(answer: httpx.Response) -> tuple[Any, ...]:
    """What an answer shows, but for the names of releases and what is left of the budget."""
    ids = ("release-id", "idempotency-key", "privacy-remaining", "date", "x-request-id")
    headers = {name: value for name, value in answer.headers.items() if name not in ids}
    body = answer.json()
    body.pop("id", None)  # a number of the stub
    return answer.status_code, headers, json.dumps(body)


@pytest.mark.parametrize("policy", cells(["priced", "priced-places", *WHOLE]))
@pytest.mark.parametrize("dialect", cells(DIALECTS))
def test_neighbours_with_the_same_draws_leave_alike(
    tenant: Tenant, llm: ModelServer, dialect: str, policy: str
) -> None:
    """By the neighbours of the audit of priced requests, which has more of them."""
    texts = Texts(f"{dialect} {policy}", [DRAWN])
    path, request = DIALECTS[dialect]
    for _ in range(ROUNDS):
        text = word_pair(texts) if policy in WHOLE else addresses(texts)
        arguments, result = documents(texts, policy), documents(texts, policy)
        seen = []
        for side in (0, 1):
            llm.bodies.clear()
            before = tenant.committed("token")
            body = texts.body(request(text[side], arguments[side], result[side]))
            headers = {"Privacy-Policy": policy, "Content-Type": "application/json"}
            answer = tenant.http.post(path, content=body, headers=headers)
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
