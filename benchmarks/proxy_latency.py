"""What masking adds to the latency of a language model, beside LiteLLM with Presidio, in one run.

    python -m benchmarks.proxy_latency                 # needs tests/peers/install_litellm

A model that answers at once stands behind five systems: nothing (the base line); the gateway; a LiteLLM proxy without a
guardrail; the proxy with its Presidio guardrail; the proxy with the gateway as its guardrail. Presidio runs its
predefined recognisers and the gateway's tagger, by transformers, in the data type of `--dtype`. All systems run at the
same time, and one client asks them in turn. `added` is the median, over the rounds, of the difference to the base line.

* new prompt: a request of about 500 tokens that nothing has read before, until the whole answer has arrived
* same prompt: the same request again
* first token: a conversation of about 2,000 tokens that the system has read before and one new message, streaming,
  until the first text has arrived
"""

import asyncio
import http.client
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from gateway_kit import free_port

from benchmarks.kit import arguments, head, machine, percentile, row, running
from core.text.windows import estimated_pieces

PIECES = 40  # of a streamed answer
COLUMNS = ("new prompt", "same prompt", "first token")


class Stub(asyncio.Protocol):
    """Chat completions over HTTP/1.1: the answer is the last message, whole or in `PIECES` pieces."""

    def connection_made(self, transport: Any) -> None:
        self._transport, self._raw = transport, b""

    def data_received(self, data: bytes) -> None:
        self._raw += data
        while b"\r\n\r\n" in self._raw:
            head, _, rest = self._raw.partition(b"\r\n\r\n")
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
            size = int(fields.get(b"content-length", b"0"))
            if len(rest) < size:
                return
            body, self._raw = rest[:size], rest[size:]
            self._transport.write(_answer(json.loads(body)) if size else _http(b"{}"))


def _answer(body: dict[str, Any]) -> bytes:
    content = body["messages"][-1]["content"]
    said = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    base = {"id": "c1", "created": 1, "model": "stub"}
    if not body.get("stream"):
        choice = {"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        whole = base | {"object": "chat.completion", "choices": [choice], "usage": usage}
        return _http(json.dumps(whole).encode())
    size = len(said) // PIECES + 1
    deltas = [{"content": said[at : at + size]} for at in range(0, len(said), size)]
    events = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    events.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    lines = [json.dumps(base | {"object": "chat.completion.chunk", "choices": [event]}) for event in events]
    return _http("".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]).encode(), "text/event-stream")


def _http(body: bytes, media_type: str = "application/json") -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n%s" % (
        media_type.encode(),
        len(body),
        body,
    )


async def stub(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Stub, "127.0.0.1", port)
    await server.serve_forever()


def presidio(dtype: str, port: int) -> None:
    """`/analyze` and `/anonymize` as Presidio's services have them, in one process."""
    import torch
    import uvicorn
    from presidio_anonymizer import AnonymizerEngine
    from presidio_anonymizer.services.app_entities_convertor import AppEntitiesConvertor
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    from benchmarks.pii import presidio as engine_of
    from benchmarks.pii import tagger_of

    analyzer, anonymizer = engine_of(tagger_of(getattr(torch, dtype))), AnonymizerEngine()

    async def analyze(request: Request) -> JSONResponse:
        body = await request.json()
        found = await asyncio.to_thread(analyzer.analyze, text=body["text"], language=body["language"])
        return JSONResponse(
            [
                {"entity_type": each.entity_type, "start": each.start, "end": each.end, "score": each.score}
                for each in found
            ]
        )

    async def anonymize(request: Request) -> Response:
        body = await request.json()
        result = anonymizer.anonymize(
            text=body["text"],
            analyzer_results=AppEntitiesConvertor.analyzer_results_from_json(body["analyzer_results"]),
            operators=AppEntitiesConvertor.operators_config_from_json(body.get("anonymizers")),
        )
        return Response(result.to_json(), media_type="application/json")

    routes = [Route("/analyze", analyze, methods=["POST"]), Route("/anonymize", anonymize, methods=["POST"])]
    uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=port, log_level="warning")


PROMPT_TOKENS, PREFIX_TOKENS, MESSAGE_TOKENS = 500, 2_000, 40
FIRST_NAMES = ("Maria", "Jonas", "Aisha", "Pavel", "Ingrid", "Tomas", "Leila", "Victor", "Nadia", "Oscar")
LAST_NAMES = ("Keller", "Weber", "Okafor", "Novak", "Lindqvist", "Moreau", "Haddad", "Santos", "Petrov", "Brandt")
PLACES = ("Lisbon", "Hamburg", "Lagos", "Prague", "Uppsala", "Lyon", "Beirut", "Recife", "Varna", "Graz")
SENTENCES = (
    "{name} from {place} asked whether the delivery of order {number} can be moved to next week.",
    "The screen arrived with a scratch near the lower edge, and the box had been opened before.",
    "Please answer {name} at {mail} before the end of the day and copy the warehouse.",
    "We offered a refund, but the customer would rather have a new one of the same model.",
    "The phone number on the form is +44 20 7946 0{digits}, which nobody answered on Friday.",
    "Most of the complaints in this quarter are about the packaging and not about the product itself.",
    "{name} will visit {place} in the second half of the month to look at the returns.",
    "Summarise the case in three sentences and propose what to write in the answer.",
)


class System(NamedTuple):
    name: str
    port: int
    headers: dict[str, str]
    fields: dict[str, Any]


class Took(NamedTuple):
    """Milliseconds."""

    new_prompt: list[float]
    same_prompt: list[float]
    first_token: list[float]


def text_of(draw: random.Random, tokens: int) -> str:
    """Sentences that no other call gives."""
    sentences: list[str] = []
    while estimated_pieces(" ".join(sentences)) < tokens:
        first, last = draw.choice(FIRST_NAMES), draw.choice(LAST_NAMES)
        sentences.append(
            draw.choice(SENTENCES).format(
                name=f"{first} {last}",
                place=draw.choice(PLACES),
                number=draw.randrange(10**6, 10**7),
                mail=f"{first.lower()}.{last.lower()}{draw.randrange(1000)}@example.org",
                digits=draw.randrange(100, 1000),
            )
        )
    return " ".join(sentences)


def conversation(draw: random.Random) -> list[dict[str, str]]:
    turns = 10
    return [
        {"role": "user" if turn % 2 == 0 else "assistant", "content": text_of(draw, PREFIX_TOKENS // turns)}
        for turn in range(turns)
    ]


def ask(system: System, messages: list[dict[str, str]], *, stream: bool = False) -> tuple[float, str]:
    """Milliseconds until the answer, or the first text of a stream, has arrived; and the answer.

    The connection is new, and open before the time begins.
    """
    body = json.dumps({"model": "stub-gpt", "messages": messages, "stream": stream} | system.fields)
    with closing(http.client.HTTPConnection("127.0.0.1", system.port, timeout=300)) as connection:
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        started = time.perf_counter()
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"} | system.headers)
        answer = connection.getresponse()
        if answer.status != 200:
            raise RuntimeError(f"{system.name}: {answer.status} {answer.read().decode()[:500]}")
        if not stream:
            said = json.loads(answer.read())["choices"][0]["message"]["content"]
            return (time.perf_counter() - started) * 1000, said
        first, pieces = 0.0, []
        while line := answer.readline():
            choices = json.loads(line[6:])["choices"] if line.startswith(b"data: {") else []
            if piece := choices and choices[0]["delta"].get("content"):
                first = first or (time.perf_counter() - started) * 1000
                pieces.append(piece)
        return first, "".join(pieces)


@contextmanager
def server(*what: str) -> Iterator[int]:
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.proxy_latency", "--serve", *what, str(port)]
    # without the address of the list, Presidio's first e-mail address would ask the network
    process = subprocess.Popen(command, env=os.environ | {"TLDEXTRACT_PUBLIC_SUFFIX_LIST_URLS": ""})
    try:
        deadline = time.monotonic() + 300
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait()


@contextmanager
def litellm(stub: int, presidio: int, address: str, key: str) -> Iterator[int]:
    import litellm_kit

    model = {"model": "openai/stub-gpt", "api_base": f"http://127.0.0.1:{stub}/v1", "api_key": "none"}
    theirs = f"http://127.0.0.1:{presidio}"
    guardrails = [
        {
            "guardrail_name": "presidio",
            "litellm_params": {
                "guardrail": "presidio",
                "mode": "pre_call",
                "presidio_analyzer_api_base": theirs,
                "presidio_anonymizer_api_base": theirs,
                "output_parse_pii": True,
                "presidio_filter_scope": "input",  # otherwise the restored answer is masked again
            },
        },
        {
            "guardrail_name": "gateway",
            "litellm_params": {
                "guardrail": "generic_guardrail_api",
                "mode": ["pre_call", "post_call"],
                "api_base": address,
                "api_key": key,
                "streaming_transform_mode": "incremental_diff",
            },
        },
    ]
    config = {"model_list": [{"model_name": "stub-gpt", "litellm_params": model}], "guardrails": guardrails}
    with tempfile.TemporaryDirectory() as folder:
        proxy = litellm_kit.LiteLLM(Path(folder) / "litellm", config)
        try:
            yield int(proxy.url.rpartition(":")[2])
        finally:
            proxy.stop()


def measure(systems: list[System], rounds: int) -> tuple[dict[str, Took], Counter[str]]:
    """The times, and the rounds in which an answer was not what the model was asked to repeat."""
    draw = random.Random(7)
    prefix = conversation(draw)
    took = {each.name: Took([], [], []) for each in systems}
    unrestored: Counter[str] = Counter()
    order = list(systems)
    for number in range(-3, rounds):  # the first ones warm up
        prompt = [{"role": "user", "content": text_of(draw, PROMPT_TOKENS)}]
        message = [{"role": "user", "content": text_of(draw, MESSAGE_TOKENS)}]
        draw.shuffle(order)
        for each in order:
            times = [ask(each, prompt), ask(each, prompt), ask(each, prefix + message, stream=True)]
            if number < 0:
                continue
            for kept, (milliseconds, _) in zip(took[each.name], times, strict=True):
                kept.append(milliseconds)
            said = (times[0][1], times[2][1])
            unrestored[each.name] += said != (prompt[0]["content"], message[0]["content"])
    return took, unrestored


def report(took: dict[str, Took], unrestored: Counter[str], base: str) -> None:
    head("ms, p50 (p95)", *COLUMNS)
    for name, times in took.items():
        row(name, *(f"{statistics.median(each):.1f} ({percentile(each, 0.95):.1f})" for each in times))
    print()
    head("added ms, p50", *COLUMNS, "not restored")
    added: dict[str, list[float]] = {}
    for name, times in took.items():
        pairs = zip(times, took[base], strict=True)
        added[name] = [statistics.median(a - b for a, b in zip(own, bare, strict=True)) for own, bare in pairs]
        row(name, *(f"{each:.1f}" for each in added[name]), unrestored[name])
    share = added["gateway"][0] / added["litellm + presidio"][0]
    print(f"\nnew prompt, gateway / (litellm + presidio): {share:.2f} (bar: 0.33)")
    print(f"first token, gateway: {added['gateway'][2]:.1f} ms (bar: 40 ms)")


def main() -> None:
    options = arguments(
        __doc__,
        rounds=40,
        dtype=("bfloat16", "of Presidio's tagger; float32 is that of its own recogniser"),
        serve=(["nothing"], "run a server beside the gateway instead: `stub PORT` or `presidio DTYPE PORT`"),
    )
    if options.serve != ["nothing"]:
        what, *settings, port = options.serve
        asyncio.run(stub(int(port))) if what == "stub" else presidio(*settings, int(port))
        return
    import litellm_kit

    if not litellm_kit.is_installed():
        raise SystemExit("LiteLLM is not installed: tests/peers/install_litellm")
    with ExitStack() as stack:
        stub_port = stack.enter_context(server("stub"))
        presidio_port = stack.enter_context(server("presidio", options.dtype))
        upstream = {"base_url": f"http://127.0.0.1:{stub_port}/v1", "models": ["stub-gpt"], "kind": "openai"}
        settings = {"PRIVACY_GATEWAY_UPSTREAMS": json.dumps({"stub": upstream}), "PRIVACY_GATEWAY_INFILL": "off"}
        ours = stack.enter_context(running(settings))
        key = ours.tenant().key
        # another tenant: otherwise the gateway has read a prompt already when the second of the two systems asks
        proxy = stack.enter_context(litellm(stub_port, presidio_port, ours.url, ours.tenant().key))

        def through(name: str, *guardrails: str) -> System:
            headers = {"Authorization": f"Bearer {litellm_kit.KEY}"}
            return System(name, proxy, headers, {"guardrails": list(guardrails)} if guardrails else {})

        systems = [
            System("stub alone", stub_port, {}, {}),
            System("gateway", ours.port, {"Authorization": f"Bearer {key}"}, {}),
            through("litellm"),
            through("litellm + presidio", "presidio"),
            through("litellm + gateway", "gateway"),
        ]
        print(f"{machine()}, {options.rounds} rounds")
        took, unrestored = measure(systems, options.rounds)
        print(f"load {os.getloadavg()[0]:.1f} at the end\n")
    report(took, unrestored, "stub alone")


if __name__ == "__main__":
    main()
