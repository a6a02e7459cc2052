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

from __future__ import annotations

import argparse
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
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from core.text.windows import estimated_pieces

sys.path.insert(0, str(Path(__file__).parents[2] / "tests/kits"))
import litellm_kit
from gateway_kit import Gateway, free_port

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


class Client:
    """Asks one system, over a new connection that is open before the time begins."""

    def __init__(self, system: System) -> None:
        self.system = system

    def ask(self, messages: list[dict[str, str]], *, stream: bool = False) -> tuple[float, str]:
        """Milliseconds until the answer, or the first text of a stream, has arrived; and the answer."""
        body = json.dumps({"model": "stub-gpt", "messages": messages, "stream": stream} | self.system.fields)
        headers = {"Content-Type": "application/json"} | self.system.headers
        connection = http.client.HTTPConnection("127.0.0.1", self.system.port, timeout=300)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with closing(connection):
            return self._ask(connection, body, headers, stream=stream)

    def _ask(
        self, connection: http.client.HTTPConnection, body: str, headers: dict[str, str], *, stream: bool
    ) -> tuple[float, str]:
        started = time.perf_counter()
        connection.request("POST", "/v1/chat/completions", body, headers)
        answer = connection.getresponse()
        if answer.status != 200:
            raise RuntimeError(f"{self.system.name}: {answer.status} {answer.read().decode()[:500]}")
        if not stream:
            said = json.loads(answer.read())["choices"][0]["message"]["content"]
            return (time.perf_counter() - started) * 1000, said
        first, pieces = 0.0, []
        while line := answer.readline():
            if line.startswith(b"data: {"):
                choices = json.loads(line[6:])["choices"]
                piece = choices[0]["delta"].get("content") if choices else None
                if piece and not pieces:
                    first = (time.perf_counter() - started) * 1000
                if piece:
                    pieces.append(piece)
        return first, "".join(pieces)


@contextmanager
def server(*arguments: str) -> Iterator[int]:
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.proxy_latency.servers", arguments[0], str(port), *arguments[1:]]
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
def gateway(folder: Path, stub: int) -> Iterator[Gateway]:
    upstream = {"stub": {"base_url": f"http://127.0.0.1:{stub}/v1", "models": ["stub-gpt"], "kind": "openai"}}
    settings = {"PRIVACY_GATEWAY_UPSTREAMS": json.dumps(upstream), "PRIVACY_GATEWAY_INFILL": "off"}
    running = Gateway(folder / "data", settings)
    try:
        yield running
    finally:
        running.stop()


@contextmanager
def litellm(folder: Path, stub: int, presidio: int, address: str, key: str) -> Iterator[int]:
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
    running = litellm_kit.LiteLLM(folder / "litellm", config)
    try:
        yield int(running.url.rpartition(":")[2])
    finally:
        running.stop()


def measure(clients: list[Client], rounds: int) -> dict[str, Took]:
    draw = random.Random(7)
    prefix = conversation(draw)
    took = {each.system.name: Took([], [], []) for each in clients}
    order = list(clients)
    for number in range(-3, rounds):  # the first ones warm up
        prompt = [{"role": "user", "content": text_of(draw, PROMPT_TOKENS)}]
        message = [{"role": "user", "content": text_of(draw, MESSAGE_TOKENS)}]
        draw.shuffle(order)
        for client in order:
            times = [client.ask(prompt), client.ask(prompt), client.ask(prefix + message, stream=True)]
            if number < 0:
                continue
            for kept, (milliseconds, _) in zip(took[client.system.name], times, strict=True):
                kept.append(milliseconds)
            whole, streamed = times[0][1], times[2][1]
            if (whole, streamed) != (prompt[0]["content"], message[0]["content"]):
                RESTORED[client.system.name] = RESTORED.get(client.system.name, 0) + 1
    return took


RESTORED: dict[str, int] = {}  # rounds in which an answer was not what the model was asked to repeat


def report(took: dict[str, Took], base: str) -> None:
    print(f"\n{'ms, p50 (p95)':<28}{'new prompt':>18}{'same prompt':>18}{'first token':>18}")
    for name, times in took.items():
        cells = [f"{statistics.median(each):.1f} ({_percentile(each, 0.95):.1f})" for each in times]
        print(f"{name:<28}" + "".join(f"{cell:>18}" for cell in cells))
    print(f"\n{'added ms, p50':<28}{'new prompt':>18}{'same prompt':>18}{'first token':>18}{'not restored':>18}")
    added: dict[str, list[float]] = {}
    for name, times in took.items():
        if name == base:
            continue
        pairs = zip(times, took[base], strict=True)
        added[name] = [statistics.median(a - b for a, b in zip(own, bare, strict=True)) for own, bare in pairs]
        print(f"{name:<28}" + "".join(f"{each:>18.1f}" for each in added[name]) + f"{RESTORED.get(name, 0):>18}")
    share = added["gateway"][0] / added["litellm + presidio"][0]
    print(f"\nnew prompt, gateway / (litellm + presidio): {share:.2f} (bar: 0.33)")
    print(f"first token, gateway: {added['gateway'][2]:.1f} ms (bar: 40 ms)")


def _percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument(
        "--dtype", default="bfloat16", help="of Presidio's tagger; float32 is that of its own recogniser"
    )
    options = parser.parse_args()
    if not litellm_kit.is_installed():
        parser.error("LiteLLM is not installed: tests/peers/install_litellm")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stub = stack.enter_context(server("stub"))
        presidio = stack.enter_context(server("presidio", options.dtype))
        ours = stack.enter_context(gateway(folder, stub))
        key = ours.tenant().key
        # another tenant: otherwise the gateway has read a prompt already when the second of the two systems asks
        proxy = stack.enter_context(litellm(folder, stub, presidio, ours.url, ours.tenant().key))

        def through(name: str, *guardrails: str) -> System:
            headers = {"Authorization": f"Bearer {litellm_kit.KEY}"}
            return System(name, proxy, headers, {"guardrails": list(guardrails)} if guardrails else {})

        systems = [
            System("stub alone", stub, {}, {}),
            System("gateway", ours.port, {"Authorization": f"Bearer {key}"}, {}),
            through("litellm"),
            through("litellm + presidio", "presidio"),
            through("litellm + gateway", "gateway"),
        ]
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start, {options.rounds} rounds")
        took = measure([Client(each) for each in systems], options.rounds)
        print(f"load {os.getloadavg()[0]:.1f} at the end")
    report(took, "stub alone")


if __name__ == "__main__":
    main()
