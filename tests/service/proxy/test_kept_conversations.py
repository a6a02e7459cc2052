"""Conversations that the upstream keeps: the vault gives them back their surrogates."""

import contextlib
import json
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from typing import Any

import httpx
import pytest
from gateway_kit import Tenant
from inprocess_kit import Gateway
from model_kit import ModelServer, heard_in, left_in

from core.errors import LedgerUnavailable
from core.state.vault import Vault
from core.text.recognisers.asked import QUESTION_CHARS_MAX, REQUESTS_MAX, TURNS_MAX, Asked
from service.proxy.kept_conversations import ASKED_BYTES, KEY_BYTES, Kept
from service.proxy.service import NOTHING_MASKED

FIRST = "I am Maria Keller and live in Lisbon."
ORIGINALS = ("Maria", "Keller", "Lisbon", "Jonas", "Weber")


def respond(
    tenant: Tenant, llm: ModelServer, text: Any, *, answer: str, policy: str = "kept", **fields: Any
) -> httpx.Response:
    """Ask, and let the stub call its answer by this identifier."""
    llm.response_id = answer
    body = {"model": "stub-gpt", "input": text} | fields
    headers = {"Privacy-Policy": policy, "Content-Type": "application/json"}
    return tenant.http.post("/v1/responses", content=json.dumps(body), headers=headers)


def said(answer: httpx.Response) -> str:
    return heard_in(answer).text


def refused(answer: httpx.Response, member: str) -> None:
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == member


@pytest.mark.parametrize(("policy", "stream"), [("kept", False), ("kept-numbered", True)])
def test_a_continued_response_has_its_names(tenant: Tenant, llm: ModelServer, policy: str, stream: bool) -> None:
    fields: Any = {"policy": policy, "stream": stream}
    assert said(respond(tenant, llm, FIRST, answer="a1", **fields)) == FIRST
    masked = llm.bodies[0]["input"]
    name = masked.removeprefix("I am ").split(" and live")[0]
    # the model recalls its conversation: its answer names what only the first request held
    llm.reply = lambda _: f"{name} lives there."
    second = respond(tenant, llm, "Does Jonas Weber know?", answer="a2", previous_response_id="a1", **fields)
    assert said(second) == "Maria Keller lives there."
    llm.reply = lambda body: body["input"]
    third = respond(tenant, llm, "Maria Keller, Jonas Weber.", answer="a3", previous_response_id="a2", **fields)
    assert said(third) == "Maria Keller, Jonas Weber."
    assert llm.bodies[2]["input"].startswith(name)
    assert llm.bodies[2]["previous_response_id"] == "a2"
    assert not left_in(llm.seen.replace(name, ""), ORIGINALS)  # the first surrogate may be another Weber
    assert tenant.http.get("/vault").json()["entries"] == 3


def test_two_requests_may_continue_the_same_response(tenant: Tenant, llm: ModelServer) -> None:
    said(respond(tenant, llm, FIRST, answer="a1"))
    llm.reply = lambda body: body["input"]
    texts = [f"Maria Keller met {name} there." for name in ("Jonas Weber", "Bob Stone", "Olga Nowak", "Jan Lopez")]

    def ask(text: str) -> str:
        return said(respond(tenant, llm, text, answer="b*", previous_response_id="a1"))

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(ask, texts)) == texts
    names = {body["input"].split(" met ")[0] for body in llm.bodies[1:]}
    assert len(names) == 1
    assert tenant.http.get("/vault").json()["entries"] == 5


@pytest.mark.parametrize("stream", [False, True])
def test_an_identifier_that_comes_again_ends_no_other_conversation(
    tenant: Tenant, llm: ModelServer, stream: bool
) -> None:
    """An upstream with a cache answers `I am [PERSON_1].` of two conversations by the same response."""
    fields: Any = {"policy": "kept-numbered", "stream": stream}
    assert said(respond(tenant, llm, "I am Maria Keller.", answer="a1", **fields)) == "I am Maria Keller."
    repeated = respond(tenant, llm, "I am Jonas Weber.", answer="a1", **fields)
    assert llm.bodies[0] == llm.bodies[1]
    assert "upstream-answer-invalid" in repeated.text
    assert "Jonas" not in repeated.text
    llm.reply = lambda _: "You are [PERSON_1]."
    later = respond(tenant, llm, "Who am I?", answer="a2", previous_response_id="a1", **fields)
    assert said(later) == "You are Maria Keller."


def test_the_last_event_of_a_stream_changes_no_other_conversation(tenant: Tenant, llm: ModelServer) -> None:
    """The event may have another identifier, or be missing: what the answer asks for is kept with its own entry."""
    fields: Any = {"policy": "kept-numbered", "stream": True}
    said(respond(tenant, llm, "I am Maria Keller.", answer="a1", **fields))
    llm.reply = lambda _: "What is your passport number?"
    for answer, last in (("a2", '"id": "a1"'), ("a3", '"id": null'), ("a4", None)):
        llm.last = partial(re.sub, rf'"id": "{answer}"', last) if last else lambda _: ""
        respond(tenant, llm, "I am Jonas Weber.", answer=answer, **fields)
    llm.reply, llm.last = (lambda _: "You are [PERSON_1]."), str
    for answer, name in (("a1", "Maria Keller"), *((each, "Jonas Weber") for each in ("a2", "a3", "a4"))):
        later = respond(tenant, llm, "533380006", answer="b*", previous_response_id=answer, store=False, **fields)
        assert said(later) == f"You are {name}."
        assert (llm.bodies[-1]["input"] == "533380006") == (answer == "a1"), answer


def test_what_the_vault_lacks_is_refused_before_it_leaves(proxying: Gateway, tenant: Tenant, llm: ModelServer) -> None:
    said(respond(tenant, llm, FIRST, answer="a1"))
    other = proxying.tenant()
    for asking, policy, fields in (
        (other, "kept", {"previous_response_id": "a1"}),
        (tenant, "kept", {"previous_response_id": "a0"}),
        (tenant, "kept", {"previous_response_id": ""}),
        (tenant, "forgotten", {"previous_response_id": "a1"}),
    ):
        refused(respond(asking, llm, "Maria?", answer="a2", policy=policy, **fields), "previous_response_id")
    for wrong in (1, "x" * 100_000):
        refused(respond(tenant, llm, "x", answer="a2", previous_response_id=wrong), "previous_response_id")
    for name, value in (("conversation", "c1"), ("background", True)):
        refused(respond(tenant, llm, "Maria?", answer="a2", **{name: value}), name)
    refused(respond(tenant, llm, [{"type": "item_reference", "id": "i"}], answer="a2"), "input")
    assert len(llm.bodies) == 1


def test_nothing_is_kept_where_nobody_asked_for_it(tenant: Tenant, llm: ModelServer) -> None:
    said(respond(tenant, llm, FIRST, answer="a1", policy="forgotten"))
    said(respond(tenant, llm, FIRST, answer="a1", store=False))
    chat = {"model": "stub-gpt", "store": True, "messages": [{"role": "user", "content": FIRST}]}
    tenant.http.post("/v1/chat/completions", json=chat, headers={"Privacy-Policy": "kept"}).raise_for_status()
    llm.status = 422
    assert respond(tenant, llm, FIRST, answer="a1").status_code == 422
    assert tenant.http.get("/vault").json()["entries"] == 0


def test_entries_are_listed_and_deleted(proxying: Gateway, tenant: Tenant, llm: ModelServer) -> None:
    for number in range(3):
        said(respond(tenant, llm, FIRST, answer=f"resp{number}"))
    listed = tenant.http.get("/vault", params={"limit": 2}).json()
    assert (listed["entries"], listed["entries_max"]) == (3, 6)
    assert listed["bytes"] == 3 * listed["data"][0]["bytes"]
    assert listed["first_expires_ms"] == listed["data"][0]["expires_ms"] <= listed["last_expires_ms"]
    rest = tenant.http.get("/vault", params={"cursor": listed["next_cursor"]}).json()
    assert rest["next_cursor"] is None
    ids = [entry["id"] for entry in listed["data"] + rest["data"]]
    assert len(set(ids)) == 3
    assert not any(text in json.dumps([listed, rest]) for text in (*ORIGINALS, "resp"))
    assert proxying.tenant().http.delete(f"/vault/{ids[0]}").status_code == 204  # of another tenant
    assert tenant.http.get("/vault").json()["entries"] == 3
    for _ in range(2):
        assert tenant.http.delete(f"/vault/{ids[0]}").status_code == 204
    assert tenant.http.get("/vault").json()["entries"] == 2
    refused(respond(tenant, llm, "Maria?", answer="b", previous_response_id="resp0"), "previous_response_id")
    said(respond(tenant, llm, "Maria?", answer="b", previous_response_id="resp1"))
    assert tenant.http.delete("/vault").status_code == 204
    assert tenant.http.get("/vault").json()["data"] == []
    refused(respond(tenant, llm, "Maria?", answer="b", previous_response_id="resp2"), "previous_response_id")


def test_a_full_vault_and_a_large_conversation_are_refused_before_they_leave(tenant: Tenant, llm: ModelServer) -> None:
    llm.reply = lambda _: "Yes."
    many = ", ".join(f"person{number}.surname{number * 7919}@example{number}.org" for number in range(400))
    refused(respond(tenant, llm, many, answer="a1"), "store")
    assert not llm.bodies
    said(respond(tenant, llm, many, answer="a1", store=False))
    for number in range(6):
        said(respond(tenant, llm, FIRST, answer=f"a{number}"))
    full = respond(tenant, llm, FIRST, answer="b")
    assert (full.status_code, full.json()["error"]["code"]) == (429, "tenant-limit")
    assert len(llm.bodies) == 7
    said(respond(tenant, llm, FIRST, answer="b", store=False, previous_response_id="a1"))


@pytest.mark.parametrize("stream", [False, True])
def test_no_identifier_reaches_a_client_without_its_entry(
    proxying: Gateway, tenant: Tenant, llm: ModelServer, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    async def unavailable(*_: Any, **__: Any) -> None:
        raise LedgerUnavailable("Redis cannot be reached.")

    with monkeypatch.context() as patched:
        patched.setattr(proxying.service.parts[Vault], "put", unavailable)
        lost = respond(tenant, llm, FIRST, answer="secret-id", stream=stream)
        assert "ledger-unavailable" in lost.text
        assert "secret-id" not in lost.text
        assert stream or lost.status_code == 503
    with monkeypatch.context() as patched:
        patched.setattr(proxying.service.parts[Vault], "count", unavailable)
        llm.bodies.clear()
        assert respond(tenant, llm, FIRST, answer="a1", stream=stream).status_code == 503
        assert not llm.bodies


def test_nothing_of_it_is_in_redis_in_the_clear(proxying: Gateway, tenant: Tenant, llm: ModelServer) -> None:
    said(respond(tenant, llm, FIRST, answer="resp_zq"))
    surrogate = llm.bodies[0]["input"].removeprefix("I am ").split(" and live")[0]
    stored = b""
    for path in proxying.data_dir.rglob("*"):
        if path.is_file():
            with contextlib.suppress(FileNotFoundError):  # files come and go
                stored += path.read_bytes()
    assert b"vault:entry" in stored
    for text in ("Maria", "Keller", "Lisbon", "resp_zq", surrogate):
        assert text.encode() not in stored


@pytest.mark.parametrize(("policy", "stream"), [("kept", False), ("priced", True)])
def test_names_of_users_that_an_answer_repeats_come_back(
    tenant: Tenant, llm: ModelServer, policy: str, stream: bool
) -> None:
    fields: Any = {"user": "maria-keller-7", "safety_identifier": "maria@example.org", "stream": stream}
    answer = respond(tenant, llm, "Hello.", answer="a1", policy=policy, **fields)
    assert said(answer) == "Hello."
    assert not left_in(llm.seen, ["maria"])
    whole = answer.text if stream else json.dumps(answer.json())
    assert '"user":"maria-keller-7"' in whole.replace(" ", "")
    assert '"safety_identifier":"maria@example.org"' in whole.replace(" ", "")


@pytest.mark.parametrize("policy", ["kept", "priced-answers"])
@pytest.mark.parametrize("stream", [False, True])
def test_the_answer_to_a_question_of_a_kept_conversation_does_not_leave(
    proxying: Gateway, llm: ModelServer, policy: str, stream: bool
) -> None:
    for question, value in (
        ("What is your passport number?", "533380006"),
        ("Wie lautet Ihr Passwort?", "Sonnenschein"),
        ("Quel est votre numéro de compte ?", "7004512"),
    ):
        tenant, previous = proxying.tenant(epsilon=100.0), ""
        for number, (text, reply) in enumerate([("Hello.", question), ("Moment.", "Okay."), (value, "Okay.")]):
            llm.reply = partial(str.format, reply)  # whatever it is asked
            continued: Any = {"previous_response_id": previous} if previous else {}
            previous = f"a{number}"
            said(respond(tenant, llm, text, answer=previous, policy=policy, stream=stream, **continued))
    assert not left_in(llm.seen, ("533380006", "Sonnenschein", "7004512"))


def test_a_question_of_a_kept_conversation_that_nobody_answers_ends(tenant: Tenant, llm: ModelServer) -> None:
    waiting = [("Moment.", "Okay.")] * (TURNS_MAX // 2 + 1)
    previous: Any = {}
    for number, (text, reply) in enumerate((("Hello.", "What is your passport number?"), *waiting)):
        llm.reply = partial(str.format, reply)
        said(respond(tenant, llm, text, answer=f"a{number}", **previous))
        previous = {"previous_response_id": f"a{number}"}
    said(respond(tenant, llm, "533380006", answer="b", **previous, store=False))
    assert llm.bodies[-1]["input"] == "533380006"


def test_the_place_that_is_kept_for_questions_holds_those_of_any_script() -> None:
    draw = Random(1)
    kept = Kept(bytes(KEY_BYTES), NOTHING_MASKED.content)
    for first, last in ((0x4E00, 0x9FFF), (0x20000, 0x2A6DF)):
        asked = Asked(
            tuple(
                "".join(chr(draw.randint(first, last)) for _ in range(QUESTION_CHARS_MAX)) for _ in range(REQUESTS_MAX)
            )
        )
        assert len(kept.packed(asked)) - len(kept.packed(Asked())) <= ASKED_BYTES


def test_an_entry_that_is_deleted_while_its_answer_streams_does_not_come_back(
    proxying: Gateway, tenant: Tenant, llm: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = proxying.service.parts[Vault]
    put = vault.put

    async def deleted_after(owner: str, *args: Any, only_new: bool = False, **named: Any) -> bool:
        kept = await put(owner, *args, only_new=only_new, **named)
        if only_new:
            await vault.clear(owner)
        return kept

    monkeypatch.setattr(vault, "put", deleted_after)
    llm.reply = lambda _: "What is your passport number?"
    assert said(respond(tenant, llm, FIRST, answer="a1", stream=True)) == "What is your passport number?"
    assert tenant.http.get("/vault").json()["entries"] == 0


def test_the_answer_to_a_question_is_filled_under_a_budget(proxying: Gateway, llm: ModelServer) -> None:
    tenant = proxying.tenant(epsilon=100.0)
    turns = ("Hello.", "What is your passport number?", "Moment.", "Okay.", "533380006", "Thanks.")
    for policy in ("priced-answers", "priced"):
        said = zip(("user", "assistant") * 3, turns, strict=True)
        body = {"model": "stub-gpt", "messages": [{"role": role, "content": text} for role, text in said]}
        tenant.http.post("/v1/chat/completions", json=body, headers={"Privacy-Policy": policy}).raise_for_status()
        sent = [message["content"] for message in llm.bodies[-1]["messages"]]
        assert [*sent[:4], sent[5]] == [*turns[:4], turns[5]]
        assert sent[4] != turns[4]
