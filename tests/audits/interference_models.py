"""Requests to language models whose fills have a price, and sequences across features, under fixed draws.

The neighbours are texts of a request, and the values of JSON in it. Keys, nesting and types of values are public; white
space and escapes are not, whether they stand in a value, in a key or between them.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from audits.interference import Kind, Pair, audit_of
from audits.interference_requests import slot_pair, word_pair
from audits.kit import Audit
from audits.neighbours import Texts
from twin_kit import Sent

from core.mechanisms.words import pricing

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
FORM = '{"to": %s, "copies": %s, "urgent": %s, "items": [%s, %s], "deep": {"note": %s, "none": null, "sure": true}}'
NUMBERS = ("2", "-2", "1987", "0.5", "12", "1e5", "3E2", "-0")
PairOf = Callable[[Texts], tuple[str, str]]


def values_pair(texts: Texts) -> tuple[str, str]:
    """Two values of as many words: none, too, and hence emoji and signs."""
    return texts.pair(texts.random.choice((0, 0, 1, 1, 2, 5)))


def json_pair(texts: Texts, pair: PairOf = values_pair) -> tuple[str, str]:
    """Two JSON documents of one form, of which any values differ, and whose escapes and white space do."""
    strings = [pair(texts) for _ in range(5)]
    number = texts.random.choice(NUMBERS), texts.random.choice(NUMBERS)
    if pair is slot_pair:  # it masks no number, so that numbers are kept text
        number = number[0], number[0]

    def source(side: int) -> str:
        values = [texts.escaped(json.dumps(each[side], ensure_ascii=False)) for each in strings]
        return _spaced(texts, FORM % (values[0], number[side], *values[1:]))

    return source(0), source(1)


def _spaced(texts: Texts, source: str) -> str:
    """Other white space around the whole document; inside it would stand in values, too."""
    return source + texts.random.choice(("", "", " ", "\n", "\r\n\t"))


def signs_pair(texts: Texts) -> tuple[str, str]:
    """Lists of values without a word."""
    pairs = [texts.pair(0) for _ in range(texts.random.choice((1, 3)))]
    return tuple(
        json.dumps([each[side] for each in pairs], ensure_ascii=texts.random.random() < 0.5) for side in (0, 1)
    )  # type: ignore[return-value]


def chat(text: str, arguments: str, result: str, **fields: Any) -> dict[str, Any]:
    call = {"id": "t1", "type": "function", "function": {"name": "mail", "arguments": arguments}}
    messages = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": text},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "t1", "content": result},
    ]
    return {"model": "stub-gpt", "messages": messages, **fields}


def responses(text: str, arguments: str, result: str, **fields: Any) -> dict[str, Any]:
    found = [
        {"role": "user", "content": text},
        {"type": "function_call", "call_id": "t1", "name": "mail", "arguments": arguments},
        {"type": "function_call_output", "call_id": "t1", "output": result},
    ]
    return {"model": "stub-gpt", "input": found, **fields}


def messages(text: str, arguments: str, result: str, **fields: Any) -> dict[str, Any]:
    call = {"type": "tool_use", "id": "t1", "name": "mail", "input": json.loads(arguments)}
    turns = [
        {"role": "user", "content": [{"type": "text", "text": text}]},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": result}]},
    ]
    return {"model": "stub-claude", "max_tokens": 9, "messages": turns, **fields}


DIALECTS: dict[str, tuple[str, Callable[..., dict[str, Any]]]] = {
    "chat": (CHAT, chat),
    "responses": (RESPONSES, responses),
    "messages": (MESSAGES, messages),
}
# policy -> the neighbours of one text, and of the values of JSON
POLICIES: dict[str, tuple[PairOf, PairOf]] = {
    "slot": (slot_pair, slot_pair),
    "slot-all": (word_pair, values_pair),
    "whole": (word_pair, values_pair),
    "words": (word_pair, values_pair),
}


def ask(dialect: str, policy: str, texts: Texts, **fields: Any) -> Pair:
    """One request, of which any texts and values differ. Values without words stand in tool results alone."""
    path, body = DIALECTS[dialect]
    own, values = POLICIES[policy]
    text, arguments = own(texts), json_pair(texts, values)
    result = texts.random.choice((json_pair(texts, values), own(texts)))
    if policy != "slot" and texts.random.random() < 0.3:
        result = signs_pair(texts)
    given = [body(text[side], arguments[side], result[side], **fields) for side in (0, 1)]
    return _sent(texts, path, policy, given[0]), _sent(texts, path, policy, given[1])


def _sent(texts: Texts, path: str, policy: str, body: Any, **headers: str) -> list[Sent]:
    return [Sent(path, texts.body(body), {"Privacy-Policy": policy, **headers})]


def model_kinds() -> Iterator[Kind]:
    for dialect in DIALECTS:
        for policy in POLICIES:
            yield Kind(f"{dialect}, {policy}", partial(ask, dialect, policy))
        yield Kind(f"{dialect}, stream", partial(ask, dialect, "whole", stream=True), share=0.5)
        yield Kind(f"{dialect}, reuse", partial(_reused, dialect), reuses=True)


def _reused(dialect: str, texts: Texts) -> Pair:
    """A conversation that grows: its first text is reused, the second is new. Which texts are equal is public."""
    path, body = DIALECTS[dialect]
    number = f"{texts.random.getrandbits(64):x}"
    pairs = [word_pair(texts) for _ in range(3)]

    def turns(side: int) -> list[Sent]:
        text, result, last = (f"{number}{place} {each[side]}" for place, each in enumerate(pairs))
        document = f'{{"note": {texts.escaped(json.dumps(number + "x " + pairs[1][side]))}}}'
        first = body(text, document, result)
        return _sent(texts, path, "whole", first) + _sent(texts, path, "whole", body(text, document, last))

    return turns(0), turns(1)


def near_texts(texts: Texts) -> Pair:
    """Two texts that differ on both sides, on one of them by white space alone: neither repeats the other."""
    own, other = texts.pair(4)
    number = f"{texts.random.getrandbits(64):x}"
    near = texts.random.choice((f"{number} {own} ", f" {number} {own}", f"{number}  {own}"))

    def body(second: str) -> list[Sent]:
        found = [{"role": "user", "content": text} for text in (f"{number} {own}", second)]
        return _sent(texts, CHAT, "whole", {"model": "stub-gpt", "messages": found})

    return body(near), body(f"{number} {other}")


def _turn(path: str, policy: str, text: str, **fields: Any) -> Sent:
    body = {"model": "stub-gpt", "input" if path == RESPONSES else "messages": [{"role": "user", "content": text}]}
    return Sent.of(path, body | fields, Privacy_Policy=policy)


def priced_then_surrogate(texts: Texts) -> Pair:
    """A priced answer that the vault keeps, and a turn of a surrogate policy that continues it."""
    pair = texts.pair(6)
    later = "Now write to maria.keller@example.org, and to +44 20 7946 0958."

    def turns(side: int) -> list[Sent]:
        return [
            _turn(RESPONSES, "kept", pair[side]),
            _turn(RESPONSES, "surrogate-kept", later, previous_response_id="resp_00000000"),
            _turn(RESPONSES, "kept", "And this is one more text.", previous_response_id="resp_00000001"),
        ]

    return turns(0), turns(1)


def two_policies(texts: Texts) -> Pair:
    """One session under several priced policies, each of which has one private text and the same public ones."""
    pairs = [texts.pair(4) for _ in range(3)]

    def turns(side: int) -> list[Sent]:
        return [
            _turn(CHAT, policy, pair[side]) for policy, pair in zip(("whole", "words", "slot-all"), pairs, strict=True)
        ]

    return turns(0), turns(1)


def priced_beside_unpriced(texts: Texts) -> Pair:
    """Priced turns between masked ones of the same client: what the latter show depends on their own text alone."""
    pairs = [texts.pair(5) for _ in range(2)]
    masked = "Please call Maria on +44 20 7946 0958 or write to maria.keller@example.org."

    def turns(side: int) -> list[Sent]:
        plain = {"documents": [{"text": masked}], "fill": {"mode": "class_marker"}}
        priced = {"documents": [{"text": pairs[1][side]}], "fill": {"mode": "dp", "epsilon": 40.0, "scope": "document"}}
        return [
            _turn(CHAT, "whole", pairs[0][side]),
            _turn(CHAT, "surrogate", masked),
            Sent.of("/sanitize", priced),
            Sent.of("/sanitize", plain),
            _turn(RESPONSES, "surrogate-kept", masked),
        ]

    return turns(0), turns(1)


def reused_then_fresh(texts: Texts) -> Pair:
    """One text under two policies and under its own idempotency key: each is a release of its own. Reuse shows which
    texts are equal, so that the second text differs from the first one on both sides."""
    number = f"{texts.random.getrandbits(64):x}"
    pairs = [texts.pair(4) for _ in range(2)]

    def turns(side: int) -> list[Sent]:
        first, second = (f"{number}{place} {pair[side]}" for place, pair in enumerate(pairs))
        keyed = replace(_turn(CHAT, "whole", first), headers={"Privacy-Policy": "whole", "Idempotency-Key": number})
        return [
            _turn(CHAT, "whole", first),
            _turn(CHAT, "words", first),
            _turn(CHAT, "whole", first),
            keyed,
            keyed,
            _turn(RESPONSES, "whole", second),
        ]

    return turns(0), turns(1)


def sequence_kinds() -> Iterator[Kind]:
    yield Kind("priced, then surrogates of the vault", priced_then_surrogate)
    yield Kind("one session under several policies", two_policies)
    yield Kind("priced beside unpriced", priced_beside_unpriced)
    yield Kind("reused, then fresh", reused_then_fresh, reuses=True)
    yield Kind("nearly equal texts, reuse", near_texts, reuses=True)


def audits() -> tuple[Audit, ...]:
    any_text = f"any texts and values of a request: {pricing.ANY}"
    return (
        audit_of("interference-models", "priced requests to language models", any_text, model_kinds, 16),
        audit_of("interference-sequences", "sequences across features", any_text, sequence_kinds, 24),
    )
