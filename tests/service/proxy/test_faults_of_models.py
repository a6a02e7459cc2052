"""Language models that fail in every way, through a whole gateway: an error, no name that leaves, nothing that stays.

All tests share one gateway. When it stops, the text of all requests is looked for wherever something could be kept.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from alert_kit import until
from fuzz.canaries import MARK, found_in_files, found_in_redis
from gateway_kit import Gateway, Tenant, free_port
from model_kit import left_in
from upstream_kit import ServedUpstream, answer, chunked, sends

from core.redis.embedded import socket_path

pytestmark = pytest.mark.slow("process")

TEXT = f"I am Maria Keller, {MARK}7@example.org, and {MARK} is my word."
SEALED = ("Maria", "Keller", f"{MARK}7")
CHAT = "/v1/chat/completions"
FIRST = b'data: {"choices": [{"index": 0, "delta": {"content": "Hello. "}, "finish_reason": null}]}\n\n'


@pytest.fixture(scope="module")
def upstream() -> Iterator[ServedUpstream]:
    with ServedUpstream() as served:
        yield served


@pytest.fixture(scope="module")
def served(upstream: ServedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    data_dir: Path = tmp_path_factory.mktemp("faults") / "data"
    patient: dict[str, Any] = {"base_url": upstream.raw.url, "kind": "openai", "models": ["m"]}
    models = {
        "patient": patient,
        "hasty": patient | {"models": ["hasty"], "read_timeout_s": 3},
        "dead": patient | {"models": ["dead"], "base_url": f"http://127.0.0.1:{free_port()}/v1"},
    }
    gateway = Gateway(data_dir, {"PRIVACY_GATEWAY_UPSTREAMS": json.dumps(models)})
    yield gateway
    try:
        metrics = httpx.get(f"{gateway.url}/metrics", timeout=60).text
        places = found_in_redis(socket_path(data_dir))
    finally:
        gateway.stop()
    assert MARK not in metrics
    assert not places
    assert not found_in_files(data_dir, gateway.log_path)


@pytest.fixture
def asking(served: Gateway) -> Tenant:
    return served.tenant()


def body(model: str = "m", **members: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": TEXT}]} | members


def whole(text: str) -> bytes:
    message = {"role": "assistant", "content": text}
    return json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()


def unseen(upstream: ServedUpstream, requests: int = 1) -> None:
    """So many requests reached the model, and no name was in them."""
    until(lambda: len(upstream.raw.requests) >= requests)  # the gateway may have given up before the model read it
    assert len(upstream.raw.requests) == requests
    assert not left_in(upstream.seen.decode(), SEALED)


# what test_upstream_client.py and test_upstream_streams.py find, as a client of the gateway sees it
WHOLE = {
    "too slow": ("hasty", sends(then="hang"), 504, "upstream-timeout"),
    "dead": ("dead", sends(), 502, "upstream-unreachable"),
    "not JSON": ("m", sends(answer(b"<p>Maria</p>", content_type="text/html")), 502, "upstream-answer-invalid"),
    "half JSON": ("m", sends(answer(b"{")), 502, "upstream-answer-invalid"),
}
STREAMS = {
    "silent": ("hasty", sends(chunked(FIRST, end=False), then="hang"), "upstream-timeout"),
    "cut": ("m", sends(chunked(FIRST, end=False), then="abort"), "upstream-answer-invalid"),
}


def test_an_answer_or_a_stream_that_cannot_be_used_is_an_error(asking: Tenant, upstream: ServedUpstream) -> None:
    for fault, (model, script, status, code) in WHOLE.items():
        upstream.begin(script)
        failed = asking.http.post(CHAT, json=body(model))
        assert (failed.status_code, failed.json()["error"]["code"]) == (status, code), fault
        assert not left_in(failed.text, SEALED)
        unseen(upstream, 0 if fault == "dead" else 1)
    for fault, (model, script, code) in STREAMS.items():
        upstream.begin(script)
        with asking.http.stream("POST", CHAT, json=body(model, stream=True)) as stream:
            assert stream.status_code == 200
            *_, name, last = (line for line in stream.iter_lines() if line)
        assert (name, json.loads(last.removeprefix("data: "))["error"]["code"]) == ("event: error", code), fault
        unseen(upstream)


def test_nothing_of_a_conversation_is_kept(asking: Tenant, upstream: ServedUpstream) -> None:
    """What is searched for when the gateway stops has passed in every position, also in answers and in refusals."""
    said = answer(whole(f"{MARK} says {TEXT}"))
    refused = answer(json.dumps({"error": {"message": TEXT}}).encode(), status="400 Bad Request")
    call = {"id": "t1", "type": "function", "function": {"name": "f", "arguments": json.dumps({"who": TEXT})}}
    messages = [
        {"role": "system", "content": TEXT},
        {"role": "user", "content": TEXT, "name": MARK},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "t1", "content": json.dumps({"found": TEXT})},
    ]
    asked = body(messages=messages, user=MARK, metadata={MARK: TEXT})
    upstream.begin(sends(said), sends(refused), sends(chunked(FIRST)))
    headers = {"Privacy-Conversation": MARK, "X-Request-ID": f"{MARK} {MARK}", "traceparent": f"00-{MARK}"}
    answers = [
        asking.http.post(CHAT, json=asked, headers=headers),
        asking.http.post(CHAT, json=asked, headers=headers),
        asking.http.post(CHAT, json=asked | {"stream": True}, headers=headers),
        asking.http.post(CHAT, json=asked | {"model": MARK}),
        asking.http.post(CHAT, json=asked | {"stop": {MARK: TEXT}}),
        asking.http.post(CHAT, json=asked, headers={"Privacy-Policy": MARK}),
        asking.http.post(CHAT, content=json.dumps(asked)[:-1].encode()),
    ]
    assert [each.status_code for each in answers] == [200, 400, 200, 404, 400, 400, 415]
    assert not [each.text for each in answers[3:] if MARK in each.text]
    unseen(upstream, 3)
