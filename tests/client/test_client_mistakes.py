"""Mistakes of a caller: what the client refuses before anything is sent, and what its errors say to do next."""

import asyncio
import base64
import json
import pickle
import socket
import struct
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest
from client_kit import Recorder

from privacy_gateway_client import (
    AsyncGateway,
    BudgetExhausted,
    ConnectionLost,
    Gateway,
    InvalidRequest,
    Limits,
    Rejected,
    Retry,
)
from privacy_gateway_client.inputs import numbered
from privacy_gateway_client.integrations.calls import Column, TextEmbedder, sanitize

URL = "http://gateway"
LEFT = {"epsilon": 1000.0, "delta": 0.0}
VECTOR = base64.b64encode(struct.pack("<2f", 1, 2)).decode()


def answer(request: httpx.Request) -> httpx.Response:
    """A gateway whose account `t/sentence` has epsilon 1000 left, which it never reduces, and that finds `?` long."""
    body = json.loads(request.content or "{}")
    if request.url.path == "/budget/estimate":
        cost = {"epsilon": body["epsilon"], "delta": 0.0}
        line = {"account": "t/sentence", "unit": "sentence", "cost": cost, "remaining": LEFT}
        return httpx.Response(200, json={"accounts": [{**line, "fits": int(1000 // body["epsilon"])}]})
    if request.method == "GET":
        return httpx.Response(200, json={"preset": {"endpoint": "sentdp", "epsilon": 0.1}})
    texts = [
        one if isinstance(one, str) else one["text"] for one in next(body[name] for name in INPUTS if name in body)
    ]
    if "?" in texts:
        problem = {"code": "invalid-input", "title": "Long.", "errors": [{"field": f"documents.{texts.index('?')}"}]}
        return httpx.Response(422, json=problem, headers={"Content-Type": "application/problem+json"})
    rows = [{"index": index, "embedding": VECTOR, "text": text} for index, text in enumerate(texts)]
    facts = {"privacy": {"guarantee": "pure-dp"}, "model": "m", "dimension": 2, "usage": {"total_tokens": len(rows)}}
    return httpx.Response(200, json={"data": rows, **facts})


INPUTS = ("documents", "texts", "input")


def client_of(sent: Recorder, **settings: Any) -> Gateway:
    return Gateway(URL, "key", transport=sent, retry=Retry(attempts=1), **settings)


def test_a_string_alone_is_one_text() -> None:
    for call in (
        lambda client: client.embed_documents("hello", epsilon=10),
        lambda client: client.embed_documents({"text": "hello"}, epsilon=10),
        lambda client: client.embed_texts("hello", epsilon=10),
        lambda client: client.sanitize("hello", fill={"mode": "marker"}),
        lambda client: client.openai_embeddings("preset", "hello"),
        lambda client: TextEmbedder(10).embed(client, "hello"),
        lambda client: TextEmbedder(10, "vector").embed(client, "hello"),
        lambda client: sanitize(client, "hello", {"fill": {"mode": "marker"}}),
    ):
        sent = Recorder(answer)
        with client_of(sent) as client:
            call(client)
        [request] = sent.requests
        body = json.loads(request.content)
        assert [len(body[name]) for name in INPUTS if name in body] == [1]


REFUSED: list[tuple[type[Exception], str, Callable[[Gateway], Any]]] = [
    (TypeError, "documents: pass a list", lambda client: client.embed_documents(5, epsilon=1)),
    (TypeError, "documents: pass a list", lambda client: client.embed_documents(b"hello", epsilon=1)),
    (TypeError, "one column", lambda client: client.embed_documents(np.full((2, 2), "a"), epsilon=1)),
    (TypeError, r"documents\[1\] .* float", lambda client: client.embed_documents(["a", float("nan")], epsilon=1)),
    (TypeError, r"texts\[0\] .* dict", lambda client: client.embed_texts([{"text": "a"}], epsilon=1)),
    (TypeError, "texts: pass a list", lambda client: client.embed_texts({"text": "a"}, epsilon=1)),
    (TypeError, r"texts\[0\] .* bytes", lambda client: client.restore([b"a"], "token")),
    (TypeError, r"documents\[1\] .* int", lambda client: list(client.sanitize_stream(["a", 5]))),
    (TypeError, "row 1 .* int", lambda _: Column.of(["a", 1], missing=[False, False])),
    # one blank or wrong document among many
    (InvalidRequest, r"documents\.290: .* blank", lambda client: client.embed_documents(MANY, epsilon=1)),
    (InvalidRequest, r"texts\.290: .* blank", lambda client: client.embed_texts(MANY, epsilon=1)),
    (InvalidRequest, r"documents\.290: .* blank", lambda client: client.sanitize(MANY)),
    (InvalidRequest, r"input\.290: .* blank", lambda client: client.openai_embeddings("preset", MANY)),
    (InvalidRequest, r"documents\.0: .* blank", lambda client: client.embed_documents({"sentences": []}, epsilon=1)),
    (InvalidRequest, r"documents\.1\.text", lambda client: client.embed_documents(["a", {"text": 5}], epsilon=1)),
    (InvalidRequest, "text_pairs: ", lambda client: client.models.predict("a", ["b", "c"], text_pairs=["d"])),
    # names and values that do not exist
    (InvalidRequest, "documents.0: .* `text`", lambda client: client.embed_documents({"txt": "a"}, epsilon=1)),
    (TypeError, "`mechanizm`; .* `mechanism`", lambda client: client.embed_texts("a", epsilon=1, mechanizm="laplace")),
    (TypeError, "`mechanizm`; .* `mechanism`", lambda _: TextEmbedder(1, options={"mechanizm": "laplace"})),
    (TypeError, "`retires`; .* `retry`", lambda _: Gateway(URL, "key", retires=Retry())),
    (TypeError, "`stps`; .* `steps`", lambda client: client.build_domain("a", [], stps=1)),
    (
        InvalidRequest,
        "mechanism: .* `clipped_cosine`.* sentence_codes, ",
        lambda client: client.embed_documents("a", epsilon=1, mechanism="cliped_cosine"),
    ),
    (InvalidRequest, "projection: .* pca", lambda client: client.embed_texts("a", epsilon=1, projection="none")),
    (InvalidRequest, "fill: .* `mod`.* `mode`", lambda client: client.sanitize("a", fill={"mod": "marker"})),
    (InvalidRequest, "fill.mode: .* `surrogate`", lambda client: client.sanitize("a", fill={"mode": "surogate"})),
    (InvalidRequest, "fill: .* dictionary with mode", lambda client: client.sanitize("a", fill="surrogate")),
    (InvalidRequest, "techniques: .* `entity`", lambda client: client.sanitize("a", mask={"techniques": ["entitty"]})),
    (InvalidRequest, "output_dtype", lambda client: client.embed_vectors([[1.0]], epsilon=1, output_dtype="float64")),
    # the set-up
    (ValueError, "scheme; .* http://", lambda _: Gateway("127.0.0.1:8000", "key")),
    (ValueError, "scheme; .* http://", lambda _: Gateway("localhost:8000", "key")),
    (ValueError, "URL; .* http://", lambda _: Gateway("http://127.0.0.1:8000\n", "key")),
    (ValueError, "without /v1", lambda _: Gateway("http://127.0.0.1:8000/v1/", "key")),
    (ValueError, "strip", lambda _: Gateway(URL, "key\n")),
    (ValueError, "empty", lambda _: Gateway(URL, "")),
    (InvalidRequest, "line feed", lambda client: client.embed_documents("a", epsilon=1, idempotency_key="a\nb")),
    (TypeError, "holds the API key", pickle.dumps),
]
MANY = ["a text"] * 290 + [" "] + ["a text"] * 9


def test_a_mistake_is_named_before_anything_is_sent() -> None:
    for kind, message, call in REFUSED:
        sent = Recorder(answer)
        with client_of(sent) as client, pytest.raises(kind, match=message):
            call(client)
        assert sent.requests == [], message


def test_an_error_of_a_part_names_the_input_of_the_call() -> None:
    documents = ["a"] * 290 + ["?"] + ["a"] * 9
    with client_of(Recorder(answer)) as client:
        for call in (
            lambda: client.embed_documents(documents, epsilon=1),
            lambda: client.sanitize(documents, fill={"mode": "marker"}),
        ):
            with pytest.raises(Rejected, match=r"documents\.290") as refused:
                call()
            assert refused.value.errors[0].field == "documents.290"
            assert len(refused.value.partial.indices) == 256
        with pytest.raises(Rejected, match=r"documents\.3\b"), numbered([0, 1, 3]):  # without a missing value
            sanitize(client, ["a", " ", "?"], {"fill": {"mode": "marker"}})


def test_a_budget_that_does_not_cover_all_inputs_is_found_before_the_first_part_is_sent() -> None:
    for name, call in [
        ("embed_documents", lambda client, **options: client.embed_documents(["a"] * 500, epsilon=3, **options)),
        ("embed_texts", lambda client, **options: client.embed_texts(["a"] * 500, epsilon=3, **options)),
        ("sanitize", lambda client, **options: client.sanitize(["a"] * 500, fill=PRICED, **options)),
    ]:
        sent = Recorder(priced)
        with client_of(sent, limits=Limits(documents=256, vector_texts=256)) as client:
            with pytest.raises(BudgetExhausted) as refused:
                call(client)
            assert [request.url.path for request in sent.requests] == ["/budget/estimate"], name
            assert refused.value.fits == 333
            for part in ("t/sentence", "epsilon 1000 left", "needs epsilon 1500", "as_many_as_fit=True", "333"):
                assert part in str(refused.value)
            assert len(call(client, as_many_as_fit=True)) == 333
            assert len(call(client, idempotency_key="k")) == 500  # whose parts may be paid already
            with pytest.raises(ValueError, match="as_many_as_fit"):
                call(client, as_many_as_fit=True, idempotency_key="k")


PRICED = {"mode": "metric_dp", "epsilon": 3}


def priced(request: httpx.Request) -> httpx.Response:
    """As `answer`, for fills with a price too."""
    body = json.loads(request.content)
    if request.url.path == "/budget/estimate" and "fill" in body:
        request = httpx.Request("POST", request.url, json={"epsilon": body["fill"]["epsilon"]})
    return answer(request)


def test_a_call_of_one_part_asks_for_no_estimate() -> None:
    sent = Recorder(answer)
    with client_of(sent) as client:
        client.embed_documents(["a"] * 256, epsilon=100)
    assert [request.url.path for request in sent.requests] == ["/embed/sentdp"]


def test_the_batches_of_frameworks_are_cut_into_requests() -> None:
    """Of 1,000 texts (LangChain), 500 (AnythingLLM) and 2,048 (the SDK of OpenAI)."""
    for size in (500, 1000, 2048):
        sent = Recorder(answer)
        with client_of(sent) as client:
            assert len(TextEmbedder(0.1).embed(client, ["a"] * size)) == size
            assert len(TextEmbedder(0.1, "vector").embed(client, ["a"] * size)) == size
            made = client.openai_embeddings("preset", ["a"] * size)
        assert [row["index"] for row in made["data"]] == list(range(size))
        assert made["usage"] == {"total_tokens": size}
        assert max(len(json.loads(one.content)["input"]) for one in sent.to("/v1/embeddings")) == 256


def test_a_result_has_a_length_and_parts() -> None:
    with client_of(Recorder(answer)) as client:
        vectors = client.embed_documents(["a", "b"], epsilon=1)
        texts = client.sanitize(["a", "b"], fill={"mode": "marker"})
    assert (len(vectors), [list(one) for one in vectors], list(vectors[1])) == (2, [[1, 2], [1, 2]], [1, 2])
    assert (len(texts), list(texts), texts[1]) == (2, ["a", "b"], "b")


def test_an_asynchronous_client_works_in_a_second_event_loop() -> None:
    """Against a server, since the connections of one loop cannot be used in another one."""
    served = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served
        while await reader.readuntil(b"\r\n\r\n"):
            served += 1
            writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n{"status":"alive"}')

    async def use() -> bool:
        server = await asyncio.start_server(serve, sock=listening.dup())
        alive = await client.health.live() and await client.health.live()
        server.close()
        return alive

    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = AsyncGateway(f"http://127.0.0.1:{listening.getsockname()[1]}", "key", retry=Retry(attempts=1))
        assert [asyncio.run(use()), asyncio.run(use())] == [True, True]
    assert served == 4
    asyncio.run(client.close())


def test_a_lost_connection_says_what_to_check() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    with client_of(Recorder(refuse)) as client, pytest.raises(ConnectionLost, match="check that the gateway runs"):
        client.embed_documents("a", epsilon=1)
