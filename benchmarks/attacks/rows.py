"""The attacks: what one tenant sends again and again, of its own key alone."""

import base64
import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgpack
import redis
from gateway_kit import Gateway, Tenant

from core.ledger.counters import Vector
from core.redis import names
from core.redis.embedded import socket_path

JSON, LINES = "application/json", "application/x-ndjson"
MODEL, CLAUDE = "stub-gpt", "stub-claude"  # of the upstreams of both kinds
GUARDRAIL = "/beta/litellm_basic_guardrail_api"
JOURNAL_ENTRIES = 5_000
ROUTES = ("embed/sentdp", "embed/vector", "v1/embeddings")
OWN = "attack"


@dataclass(frozen=True)
class Sent:
    """One request. `body`: None for a GET."""

    path: str
    body: bytes | None = None
    media_type: str = JSON


Requests = Sequence[Sent]


@dataclass(frozen=True)
class Attack:
    """`requests`: what the connections send in turn. `connections`: 0 for the number of the command line. `before`:
    what the attacker does first, in its own name."""

    name: str
    requests: Callable[[Tenant], Requests]
    connections: int = 0
    before: Callable[[Gateway, Tenant], None] | None = None


def posted(path: str, body: Any) -> Sent:
    return Sent(path, body if isinstance(body, bytes) else json.dumps(body).encode())


def document(form: str, text: str, **terms: Any) -> Sent:
    return posted("/sanitize", {"documents": [{"text": text, "format": form}], **terms})


def chat(text: str, **members: Any) -> Sent:
    body = {"model": MODEL, "messages": [{"role": "user", "content": text}], **members}
    return posted("/v1/chat/completions", body)


def _one(name: str, sent: Sent) -> Attack:
    return Attack(name, lambda _: [sent])


def attacks() -> Iterator[Attack]:
    """The rows in the order of the table."""
    yield from _recognisers()
    yield from _front_matter()
    yield from _language_models()
    yield from _masking()
    yield from _reading()
    yield from _documents()
    yield from _bodies()


def _recognisers() -> Iterator[Attack]:
    yield _one("recogniser test, repeated classes", _draft([rf"\pL{{1,30}}{n % 10}" for n in range(64)], "a"))
    yield _one("recogniser test, nested repeats", _draft(["((a{1,9}){1,9}){1,9}" + str(n) for n in range(64)], "a"))
    patterns = [f"-(?s:.*y{n})?" for n in range(64)]
    text = "-" * 90_000
    yield _one("recogniser test, quadratic patterns", _draft(patterns, text[:80_000]))
    yield Attack(
        "own recogniser, quadratic patterns",
        lambda _: [posted("/sanitize", {"documents": [{"text": text}], "mask": {"recognisers": [OWN]}})],
        before=lambda _, attacker: _store(attacker, patterns),
    )
    ad_hoc = [{"supported_entity": "OWN", "patterns": [{"regex": each, "score": 0.5} for each in patterns]}]
    yield _one("analyze, quadratic patterns", posted("/analyze", _analyze(text[:80_000], ad_hoc)))


def _draft(patterns: list[str], text: str) -> Sent:
    recogniser = {"entity": "OWN_TYPE", "patterns": patterns}
    return posted("/sanitize/recognisers/test", {"recogniser": recogniser, "text": text})


def _store(attacker: Tenant, patterns: list[str]) -> None:
    body = {"entity": "OWN_TYPE", "patterns": patterns}
    answer = attacker.http.put(f"/sanitize/recognisers/{OWN}", json=body)
    if answer.status_code >= 300:
        raise RuntimeError(f"the recogniser is refused: {answer.text[:200]}")


def _analyze(text: str, ad_hoc: list[dict[str, Any]]) -> dict[str, Any]:
    return {"text": text, "language": "en", "entities": ["OWN"], "ad_hoc_recognizers": ad_hoc}


def _front_matter() -> Iterator[Attack]:
    for parts in (45_000, 20_000):
        yield _one(
            f"TOML key of {parts:,} parts", document("markdown", f"+++\n{'.'.join('a' * parts)} = 1\n+++\n# A\n")
        )
    many = "\n".join(f"a{n}." + ".".join("b" * 90) + " = 1" for n in range(4_000))
    yield _one("TOML, many dotted keys", document("markdown", f"+++\n{many}\n+++\n# A\n"))
    yield _one("YAML list of 900 kB", document("markdown", "---\na: [" + "a," * 450_000 + "a]\n---\n"))


def _documents() -> Iterator[Attack]:
    yield _one("Markdown, underscores", document("markdown", "a" + "_" * 900_000 + "b"))
    yield _one("Markdown, spaces of a rule", document("markdown", "a|b\n-" + " " * 900_000 + "x"))
    yield _one("HTML, invisible characters", document("html", "<p>a" + "\u200b" * 300_000 + "b"))
    yield _one("HTML, attributes", document("html", "<a " + "a=1 " * 225_000 + ">"))
    cells = ",".join("column " * 8 + chr(65 + n) for n in range(26)) + "\n" + (25 * "," + "\n") * 34_000
    yield _one("CSV, empty cells", document("csv", cells))
    yield _one("e-mail, parameters", document("email", "Content-Type: text/plain" + ";" * 900_000 + "\n\nx"))
    yield _one("e-mail, open quotes", document("email", "From: " + '\\"' * 450_000 + "\n\nx"))
    encoded = base64.b64encode(b"a" * 300_000 + b"-" + b"b" * 300_000).decode()
    head = "Content-Type: text/plain; charset=punycode\nContent-Transfer-Encoding: base64\n\n"
    yield _one("e-mail, punycode", document("email", head + encoded))
    rules = [{"path": f"a.{'*.' * (29 - n % 15)}x{n}", "action": "keep"} for n in range(100)]
    nested = "0"
    for _ in range(15):
        nested = f'{{"a":{nested},"b":{nested}}}'
    yield _one("JSON, rules", document("json", nested, format_options={"json": {"rules": rules}}))


def _language_models() -> Iterator[Attack]:
    texts = {
        "percent escapes": "%4D%61" * 1_000_000,
        "entities": "&#77;" * 1_200_000,
        "JSON objects": "[" + '{"a":"b"},' * 600_000 + "0]",
    }
    for what, text in texts.items():
        yield _one(f"chat, {what}", chat(text))
        responses = {"model": MODEL, "input": text}
        yield _one(f"responses, {what}", posted("/v1/responses", responses))
        messages = {"model": CLAUDE, "max_tokens": 9, "messages": [{"role": "user", "content": text}]}
        yield _one(f"messages, {what}", posted("/v1/messages", messages))
        guardrail = {"input_type": "request", "litellm_call_id": "c", "texts": [text]}
        yield _one(f"guardrail, {what}", posted(GUARDRAIL, guardrail))
    unknown = {f"unknown-{number}": "x" for number in range(100_000)}
    yield _one("chat, unknown members", chat("x", **unknown))
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": unknown}}}
    yield _one("chat, a schema of many members", chat("x", tools=[tool]))
    many = [{"role": "user", "content": "x"} for _ in range(100_000)]
    yield _one("chat, many messages", posted("/v1/chat/completions", {"model": MODEL, "messages": many}))
    restored = {"input_type": "response", "litellm_call_id": "c", "texts": ["%4D%61" * 1_000_000]}
    yield _one("guardrail, an answer", posted(GUARDRAIL, restored))


def _masking() -> Iterator[Attack]:
    pins = {"documents": [{"text": "PIN 1234 " * 33_000}]}
    yield _one("reversible, PINs", posted("/sanitize", {**pins, "reversible": True}))
    yield _one("surrogates, PINs", posted("/sanitize", {**pins, "fill": {"mode": "surrogate"}}))
    both = {"fill": {"mode": "surrogate"}, "reversible": True}
    yield _one("reversible surrogates, PINs", posted("/sanitize", {**pins, **both}))
    names = "".join(f"Maria Keller{n}, m{n}@example.org, +44 20 7946 {n % 10_000:04}; " for n in range(3_300))
    yield _one("reversible surrogates, people", posted("/sanitize", {"documents": [{"text": names}], **both}))
    yield _one("chat, people", chat(names))
    yield _one("restore", posted("/restore", {"restore_token": "A" * 1_000_000, "texts": ["%4D" * 300_000]}))


def _reading() -> Iterator[Attack]:
    yield _one("logs, quotes", document("log", 'a="b" ' * 150_000))
    yield _one("logs, open quotes", document("log", 'INFO key="' + '\\"' * 450_000))
    yield _one("logs, JSON", document("log", "".join('INFO {"a":' * 20 + "1\n" for _ in range(4_500))))
    yield Attack("journal pages", _pages, connections=16, before=_lengthened)
    yield Attack("journal exports", lambda t: [Sent(f"/budget/{t.name}/sentence/journal/export")], before=_lengthened)
    yield Attack("spending", lambda t: [Sent(f"/budget/{t.name}/sentence/spending?by=key")], before=_lengthened)
    yield _one("budget estimates", posted("/budget/estimate", {"documents": [{"text": "A. " * 300_000}], "epsilon": 1}))
    yield _one("lists", Sent("/jobs?limit=1000"))


def lengthen(server: redis.Redis, tenant: str, entries: int) -> None:
    """Repeat the tenant's last release until its journal has so many entries. All of its releases must be alike.

    The releases are 50 ms apart.
    """
    journal, record = names.journal_key(tenant), names.tenant_key(tenant)
    template: list[Any] = server.xrange(journal)[-2:]  # reserve and commit
    seq = int(server.hget(record, "seq") or 0)
    times, before = (entries - seq) // 2, (seq - 1) // 2
    ones: dict[str, Vector] = {}
    for unit in ("sentence", "token"):
        account = names.account_key(tenant, unit)
        ones[account] = tuple(value // before for value in msgpack.unpackb(server.hget(account, "committed")))
    pipeline = server.pipeline(transaction=True)  # the accounts are the sums of the journal at every moment
    for number in range(times):
        release, route = secrets.token_hex(16), ROUTES[number % len(ROUTES)]
        for _, fields in template:
            seq += 1
            own = {b"release": release, b"route": route, b"at_ms": int(fields[b"at_ms"]) + number * 50}
            pipeline.xadd(journal, {**fields, **own}, id=f"{seq}-0")
    for account, one in ones.items():
        pipeline.hset(account, "committed", msgpack.packb([value * (before + times) for value in one]))
    pipeline.hset(record, "seq", seq)
    pipeline.execute()


def _pages(attacker: Tenant) -> Requests:
    return [Sent(f"/budget/{attacker.name}/sentence/journal?limit=1000&cursor={n}") for n in range(0, 4_000, 500)]


def _lengthened(gateway: Gateway, attacker: Tenant) -> None:
    if attacker.embed(epsilon=0.001).status_code != 200:
        raise RuntimeError("the release failed")
    server = redis.Redis(unix_socket_path=str(socket_path(gateway.data_dir)))
    lengthen(server, attacker.name, JOURNAL_ENTRIES)
    server.close()


def _bodies() -> Iterator[Attack]:
    quotes = {"documents": [{"text": "\u201c" * 250_000}], "epsilon": 0.001}
    yield _one("sentdp, open quotes", posted("/embed/sentdp", quotes))
    yield _one(
        "sentdp, 2 MiB of {}", posted("/embed/sentdp", b'{"epsilon": 1.0, "documents": [' + _many(b"{}") + b"]}")
    )
    yield _one("vector, 2 MiB of []", posted("/embed/vector", b'{"epsilon": 1.0, "vectors": [' + _many(b"[]") + b"]}"))
    place = {"start": 0, "end": 3, "entity_type": "A", "score": 0.5}
    places = [{**place, "start": n, "end": n + 3} for n in range(60_000)]
    yield _one("anonymize, many places", posted("/anonymize", {"text": "abc" * 20_001, "analyzer_results": places}))
    lines = b"{}\n" + b'{"text":"PIN 1234 "}\n' * 40_000
    yield Attack("stream of lines", lambda _: [Sent("/sanitize/batch", lines, LINES)])
    yield Attack("stream of blank lines", lambda _: [Sent("/sanitize/batch", b"{}\n" + b"\n" * 900_000, LINES)])


def _many(item: bytes) -> bytes:
    return b",".join([item] * (2 * 1024 * 1024 // (len(item) + 1)))
