"""Whole answers of upstreams: what is sent, what is passed on, and every way in which an upstream can fail."""

import asyncio
import gzip
import logging
import zlib
from typing import Any

import pytest
from gateway_kit import free_port
from prometheus_client import REGISTRY
from upstream_kit import (
    BODY,
    MIB,
    PATH,
    RawUpstream,
    Request,
    Script,
    answer,
    chunked,
    limits,
    sends,
    upstream,
    with_upstream,
)

from core.errors import (
    GatewayError,
    InvalidInput,
    QueueFull,
    UpstreamAnswerInvalid,
    UpstreamKeyRefused,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from service.http.problems import error_block
from service.proxy.client import UpstreamAnswer, UpstreamClient
from service.proxy.upstreams import Upstream

KEY = "sk-canary-5f2c"
CANARY = "Johanna Canary"


def send(*scripts: Script, headers: dict[str, str] | None = None, given: Any = None, **limit: Any) -> UpstreamAnswer:
    async def use(client: UpstreamClient, called: Upstream, _: RawUpstream) -> UpstreamAnswer:
        return await client.send(called, PATH, BODY, headers or {})

    found: UpstreamAnswer = with_upstream(list(scripts), use, given=given, **limit)
    return found


def failure(kind: type[GatewayError], *scripts: Script, given: Any = None, **limit: Any) -> str:
    """The reason of the error, of which nothing shows the answer."""
    with pytest.raises(kind) as caught:
        send(*scripts, given=given, **limit)
    assert type(caught.value) is kind
    assert CANARY not in f"{caught.value!r}{error_block(caught.value)}"
    return str(error_block(caught.value)["reason"])


def sent(given: dict[str, Any], headers: dict[str, str]) -> Request:
    async def use(client: UpstreamClient, called: Upstream, server: RawUpstream) -> Request:
        await client.send(called, PATH, BODY, headers)
        return server.requests[0]

    found: Request = with_upstream([sends(answer(b"{}"))], use, given=given)
    return found


def outcomes() -> dict[str, float]:
    return {
        sample.labels["outcome"]: sample.value
        for metric in REGISTRY.collect()
        for sample in metric.samples
        if sample.name == "gateway_upstream_calls_total" and sample.labels["upstream"] == "stub"
    }


def test_a_call_sends_the_body_the_key_and_the_flags_of_the_client_alone() -> None:
    own = {"authorization": f"Bearer {KEY}", "x-account": "7"}
    client_headers = {
        "Authorization": "Bearer pgw_client", "X-Api-Key": "pgw_client", "X-Forwarded-For": "192.0.2.7",
        "Cookie": "a=b", "User-Agent": "client/1", "X-Stainless-OS": "Linux", "Host": "gateway.example",
        "OpenAI-Beta": "assistants=v2", "anthropic-beta": "files-2025",
    }  # fmt: skip

    request = sent({"own_headers": own, "key": KEY}, client_headers)

    assert request.head == f"POST /v1{PATH} HTTP/1.1"
    assert request.body == BODY
    assert request.headers.pop("host").startswith("127.0.0.1:")
    assert request.headers == {
        **own, "user-agent": "privacy-gateway", "accept": "application/json", "accept-encoding": "identity",
        "content-type": "application/json", "content-length": str(len(BODY)), "openai-beta": "assistants=v2",
    }  # fmt: skip


def test_a_client_chooses_the_version_of_the_format_and_there_is_a_default() -> None:
    given = {"kind": "anthropic", "default_headers": {"anthropic-version": "2023-06-01"}}
    assert sent(given, {}).headers["anthropic-version"] == "2023-06-01"
    assert sent(given, {"Anthropic-Version": "2025-01-01"}).headers["anthropic-version"] == "2025-01-01"


def test_a_flag_that_is_no_flag_is_refused() -> None:
    for value in ("a\r\nx-own: 1", "mail jane@example.com", "Ask Jane Weber", "jane", "", "x" * 600):
        with pytest.raises(InvalidInput) as caught:
            sent({}, {"OpenAI-Beta": value})
        assert caught.value.field == "openai-beta"


def test_an_answer_is_passed_on_with_the_headers_that_a_client_needs() -> None:
    headers = {"x_request_id": "r-1", "retry_after": "7", "x_ratelimit_remaining_tokens": "9", "server": "s"}
    headers |= {"x_ratelimit_note": "\xe9", "request_id": "9" * 600}
    found = send(sends(answer(b'{"a": 1}', set_cookie="c=1", openai_organization="acme", **headers)))
    assert (found.status, found.is_error, found.body) == (200, False, b'{"a": 1}')
    assert found.headers == {
        "content-type": "application/json",
        "x-request-id": "r-1",
        "retry-after": "7",
        "x-ratelimit-remaining-tokens": "9",
    }


def test_an_error_of_the_upstream_is_passed_on_whole() -> None:
    for status, content_type, outcome in (
        ("400 Bad Request", "application/json", "client-error"),
        ("429 Too Many Requests", "application/json", "limited"),
        ("503 Busy", "text/html", "server-error"),
    ):
        before = outcomes().get(outcome, 0)
        found = send(sends(answer(b"why", status=status, content_type=content_type, retry_after="3")))
        assert (found.status, found.is_error, found.body) == (int(status[:3]), True, b"why")
        assert (found.headers["retry-after"], found.headers["content-type"]) == ("3", content_type)
        assert outcomes()[outcome] == before + 1


def test_a_refused_key_is_the_gateway_s_own_error_and_a_key_in_an_answer_is_removed() -> None:
    body = f'{{"error": "Incorrect API key: {KEY}, {CANARY}"}}'.encode()
    assert failure(UpstreamKeyRefused, sends(answer(body, status="401 No"))) == "unauthorized"
    assert send(sends(answer(body, status="403 No")), given={"key": KEY}).body == body.replace(
        b"sk-canary-5f2c", b"[key]"
    )


SHOWN = f'{{"a": "{CANARY}"}}'.encode()
BOMB = gzip.compress(b" " * 64 * MIB)
INVALID: list[tuple[str, Script, str]] = [
    ("redirect", sends(answer(b"", status="307 Go", location="http://127.0.0.1/")), "redirect"),
    ("web page", sends(answer(SHOWN, content_type="text/html")), "content-type"),
    ("no type", sends(answer(SHOWN, content_type="")), "content-type"),
    ("other charset", sends(answer(SHOWN, content_type="application/json; charset=latin-1")), "content-type"),
    ("events", sends(answer(SHOWN, content_type="text/event-stream")), "content-type"),
    ("not UTF-8", sends(answer('{"a": "Jürgen"}'.encode("latin-1"))), "not-utf-8"),
    ("longer length", sends(answer(SHOWN, content_length="500"), then="close"), "framing"),
    ("reset", sends(answer(SHOWN, content_length="500"), then="abort"), "framing"),
    ("length no number", sends(answer(SHOWN, content_length="many")), "not-http"),
    ("two lengths", sends(answer(SHOWN, content_length=f"{len(SHOWN)}\r\ncontent-length: 3")), "not-http"),
    ("cut chunks", sends(chunked(SHOWN, content_type="application/json", end=False), then="close"), "framing"),
    ("chunk of no size", sends(chunked(content_type="application/json", end=False) + b"zz\r\n{}"), "framing"),
    ("declared too large", sends(answer(b"x" * 2 * MIB)), "too-large"),
    ("gzip bomb", sends(answer(BOMB, content_encoding="gzip")), "too-large"),
    ("bad gzip", sends(answer(SHOWN, content_encoding="gzip")), "content-encoding"),
    ("cut gzip", sends(answer(gzip.compress(SHOWN)[:-4], content_encoding="gzip")), "incomplete"),
    ("gzip and more", sends(answer(gzip.compress(SHOWN) + b"more", content_encoding="gzip")), "content-encoding"),
    ("gzip twice", sends(answer(gzip.compress(BOMB), content_encoding="gzip, gzip")), "content-encoding"),
    ("other coding", sends(answer(zlib.compress(SHOWN), content_encoding="deflate")), "content-encoding"),
    ("endless head", sends(b"HTTP/1.1 200 OK\r\n" + b"x-pad: y\r\n" * 100_000), "not-http"),
    ("other protocol", sends(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), "not-http"),
    ("switched protocol", sends(b"HTTP/1.1 101 Go\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"), "not-http"),
]


def test_an_answer_that_lies_is_an_error_of_one_kind() -> None:
    for script, reason in [row[1:] for row in INVALID]:
        before = outcomes().get("invalid", 0)
        assert failure(UpstreamAnswerInvalid, script, given={"read_timeout_s": 5.0}) == reason
        assert outcomes()["invalid"] == before + 1


def test_compressed_answers_within_the_bound_are_read() -> None:
    text = b'{"a": "' + b"y" * 700_000 + b'"}'
    assert send(sends(answer(gzip.compress(text), content_encoding="gzip"))).body == text
    assert send(sends(chunked(text, content_type="application/problem+json; charset=UTF-8"))).body == text


async def slow_head(_: Request, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"x: y\r\n")
        await asyncio.sleep(0.01)


def test_an_upstream_that_takes_too_long_is_another_error() -> None:
    for script in (
        sends(then="hang"),
        sends(answer(SHOWN, content_length="500"), then="hang"),
        sends(chunked(b"{", content_type="application/json", end=False), then="hang"),
    ):
        assert failure(UpstreamTimeout, script, given={"read_timeout_s": 0.1}) == "silent"
    assert failure(UpstreamTimeout, slow_head, given={"total_timeout_s": 0.3}) == "total"


def test_an_upstream_that_is_not_there_is_another_error() -> None:
    async def run() -> str:
        nowhere = upstream(f"http://127.0.0.1:{free_port()}/v1")
        client = UpstreamClient([nowhere], limits())
        with pytest.raises(UpstreamUnreachable) as caught:
            await client.send(nowhere, PATH, BODY, {})
        await client.aclose()
        return caught.value.reason

    assert asyncio.run(run()) == "connect"


@pytest.mark.parametrize("then", ["close", "abort"])
def test_a_request_that_was_sent_is_never_sent_again(then: str) -> None:
    """Neither on a new connection nor on a kept one that ends while the upstream works."""

    async def use(client: UpstreamClient, called: Upstream, server: RawUpstream) -> int:
        await client.send(called, PATH, BODY, {})
        with pytest.raises(UpstreamUnreachable) as caught:
            await client.send(called, PATH, BODY, {})
        assert caught.value.reason == "closed"
        return len(server.requests)

    assert with_upstream([sends(answer(b"{}")), sends(then=then)], use) == 2


@pytest.mark.parametrize("then", ["close", "abort"])
def test_a_kept_connection_that_was_closed_meanwhile_is_replaced(then: str) -> None:
    async def use(client: UpstreamClient, called: Upstream, server: RawUpstream) -> tuple[int, int]:
        for _ in range(3):
            assert (await client.send(called, PATH, BODY, {})).status == 200
            await asyncio.sleep(0.05)  # the end of the connection arrives
        return len(server.requests), server.connections

    assert with_upstream([sends(answer(b"{}"), then=then)], use) == (3, 3)


def test_connections_are_kept_and_cookies_are_not() -> None:
    async def use(client: UpstreamClient, called: Upstream, server: RawUpstream) -> tuple[int, bool]:
        for _ in range(3):
            await client.send(called, PATH, BODY, {})
        return server.connections, any("cookie" in request.headers for request in server.requests)

    assert with_upstream([sends(answer(b"{}", set_cookie="a=b; Path=/"))], use) == (1, False)


@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_what_is_sent_beyond_an_answer_is_no_part_of_the_next(framing: str) -> None:
    """Bytes after the end of an answer could pass for the answer to another tenant's request."""
    whole = answer(b'{"a": 1}') if framing == "length" else chunked(b'{"a": 1}', content_type="application/json")
    poison = answer(f'{{"a": "{CANARY}"}}'.encode())

    async def use(client: UpstreamClient, called: Upstream, server: RawUpstream) -> list[bytes]:
        return [(await client.send(called, PATH, BODY, {})).body for _ in range(2)]

    assert with_upstream([sends(whole + poison), sends(answer(b'{"b": 2}'))], use) == [b'{"a": 1}', b'{"b": 2}']


def test_an_answer_that_is_longer_than_its_length_is_cut_there() -> None:
    """The caller's JSON parser then refuses it."""
    assert send(sends(answer(b'{"a": 1}', content_length="5"))).body == b'{"a":'


def test_a_limit_of_concurrent_calls_holds_until_one_ends() -> None:
    async def use(client: UpstreamClient, called: Upstream, server: RawUpstream) -> None:
        open_calls = [asyncio.create_task(client.send(called, PATH, BODY, {})) for _ in range(2)]
        while len(server.requests) < 2:
            await asyncio.sleep(0.01)
        with pytest.raises(QueueFull):
            await client.send(called, PATH, BODY, {})
        open_calls[0].cancel()
        await asyncio.wait([open_calls[0]])
        await asyncio.wait_for(server.ended.wait(), 20)
        assert (await client.send(called, PATH, BODY, {})).status == 200
        open_calls[1].cancel()
        await asyncio.wait(open_calls)

    with_upstream([sends(then="hang"), sends(then="hang"), sends(answer(b"{}"))], use, calls_max=2)


def test_nothing_of_a_call_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    body = f'{{"a": "{CANARY}"}}'.encode()
    send(sends(answer(body)), given={"key": KEY, "own_headers": {"authorization": f"Bearer {KEY}"}})
    failure(UpstreamAnswerInvalid, sends(body + b"\r\n\r\n"))
    assert CANARY not in caplog.text
    assert KEY not in caplog.text
