"""Sends recorded conversations through a gateway to a model that repeats and rewrites what it saw."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from gateway_kit import Tenant
from inprocess_kit import Gateway
from model_formats_kit import Call, Said, Split
from model_kit import ModelServer, pieces_of

from benchmarks.conversations.answers import Heard, heard
from benchmarks.conversations.figures import Figures, strings, writings
from benchmarks.conversations.recorded import FORMATS, Conversation
from benchmarks.conversations.requests import body_of
from benchmarks.conversations.rewriting import Rewriting, as_read, rewritings
from core.text.reversible.mapping import Pair
from service.proxy.service import ProxyParts

DISTRACTORS = (
    "Marginal notes by Mariano Webster-Smythe stay as they are, and so do mark, grace and will.",
    "Total: 12 of 40 rows, order 80-1123, version 2.14.7, 3 %.",
    "[PERSON_99] and {{name}} are no surrogates. C:\\new\\table is a path.",
)


class Way(NamedTuple):
    """How an answer is sent: whole, or as a stream whose text is split into deltas and whose bytes into chunks.

    probes_max: of surrogates that the answer rewrites.
    """

    name: str
    stream: bool
    split: Split = pieces_of(1_000_000)
    chunk_bytes: int | None = None
    probes_max: int = 40


def _tokens(text: str) -> list[str]:
    return re.findall(r"\s*\w{1,4}|\s*[^\w\s]|\s+", text)


WAYS = (
    Way("whole", False),
    Way("bytes", True, pieces_of(19), 1, probes_max=6),
    Way("characters", True, pieces_of(1), probes_max=10),
    Way("tokens", True, _tokens, 64, probes_max=16),
    Way("events", True),
)


class Probe(NamedTuple):
    """A line that the model writes, and what the client must read."""

    kind: str
    sent: str
    expected: str
    surrogate: str


class Bench:
    """A gateway in this process, whose mappings are read on the way, before a model that says what it is asked to."""

    def __init__(self, gateway: Gateway, model: ModelServer, key: bytes = b"k" * 32) -> None:
        self.gateway, self.model = gateway, model
        self.tenant: Tenant = gateway.tenant()
        self.pairs: tuple[Pair, ...] = ()
        service = gateway.service.parts[ProxyParts].service
        service._surrogate_key = lambda _: key  # so that every run has the same surrogates
        made = service.outgoing

        async def outgoing(*args: Any, **kwargs: Any) -> Any:
            found = await made(*args, **kwargs)
            self.pairs = found.surrogates.content.pairs
            return found

        service.outgoing = outgoing  # type: ignore[method-assign]

    def run(self, conversations: Iterable[Conversation], figures: Figures, ways: Sequence[Way] = WAYS) -> Figures:
        for conversation in conversations:
            figures.conversations += 1
            for number, way in enumerate(ways):
                self._one(conversation, way, figures, first=number == 0)
        return figures

    def asked(self, text: str) -> tuple[str, str]:
        """Return what a client reads if the model repeats a message, and what the model saw, in all of its writings."""
        self.model.reply = _last
        body = {"model": "stub-gpt", "messages": [{"role": "user", "content": text}]}
        answer = self.tenant.http.post(FORMATS[0], json=body)
        seen = "\n".join(variant for text in strings(self.model.bodies[-1]) for variant in writings(text))
        return heard(FORMATS[0], answer.text, stream=False).text, seen

    def _one(self, conversation: Conversation, way: Way, figures: Figures, *, first: bool) -> None:
        probes: list[Probe] = []
        echoed = ""

        def reply(body: dict[str, Any]) -> Said:
            nonlocal echoed
            if first:
                figures.see(conversation, body, self.pairs)
            echoed = _last(body)
            probes.extend(_probes(conversation, way, self.pairs))
            return _said(conversation, echoed, probes)

        self.model.reply, self.model.split, self.model.chunk_bytes = reply, way.split, way.chunk_bytes
        self.model.bodies.clear()
        self.model.headers.clear()
        body = body_of(conversation, stream=way.stream)
        answer: httpx.Response = self.tenant.http.post(conversation.path, json=body)
        if answer.status_code != 200:
            raise RuntimeError(f"{conversation.name}: {answer.status_code}")
        figures.requests += 1
        said = heard(conversation.path, answer.text, stream=way.stream)
        for probe, result in _results(conversation, probes, echoed, said):
            figures.probes[probe.kind] += 1
            place = (conversation.name, f"{probe.kind}, {way.name}", probe.sent, result)
            if as_read(result) == as_read(probe.expected):
                figures.restored[probe.kind] += 1
            elif (probe.surrogate and probe.surrogate.casefold() in result.casefold()) or result == probe.sent:
                figures.left.append(place)
            else:
                figures.wrong.append(place)


def _last(body: dict[str, Any]) -> str:
    """What the last message says."""
    message = body.get("messages", body.get("input"))[-1]
    content = message["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def _probes(conversation: Conversation, way: Way, pairs: Sequence[Pair]) -> list[Probe]:
    """Return what the model writes of each surrogate: some rewritings, others in each way."""
    rng = random.Random(f"{conversation.name} {way.name}")
    language = conversation.language
    choices: list[tuple[Pair, Rewriting]] = []
    for pair in pairs:
        fitting = list(rewritings(pair.type, pair.original, pair.surrogate, language))
        choices += [(pair, each) for each in rng.sample(fitting, min(len(fitting), 6))]
    rng.shuffle(choices)
    found = [
        Probe(each.name, each.change(pair.surrogate), each.change(pair.original), pair.surrogate)
        for pair, each in choices[: way.probes_max]
    ]
    return found + [Probe("nothing to restore", text, text, "") for text in DISTRACTORS]


def _said(conversation: Conversation, echoed: str, probes: Sequence[Probe]) -> Said:
    arguments = json.dumps(
        {"lines": [probe.sent for probe in probes], "quoted": "\n".join(f'"{probe.sent}"' for probe in probes[:3])},
        ensure_ascii=len(probes) % 2 == 0,
    )
    calls = (Call("note", arguments),)
    if conversation.structured:
        return Said(json.dumps({"echo": echoed, "lines": [probe.sent for probe in probes]}, ensure_ascii=False), calls)
    lines = [f"{number}: {probe.sent}" for number, probe in enumerate(probes)]
    return Said("\n".join([*lines, f"echo: {echoed}"]), calls)


def _results(
    conversation: Conversation, probes: Sequence[Probe], echoed: str, said: Heard
) -> Iterator[tuple[Probe, str]]:
    """Yield each probe with what the client read of it."""
    echo = Probe("echo", echoed, conversation.last, "")
    (arguments,) = (json.loads(text) for text in said.arguments)
    if conversation.structured:
        answer = json.loads(said.text)
        yield echo, answer["echo"]
        yield from zip(probes, answer["lines"], strict=True)
    else:
        text, _, last = said.text.partition("\necho: ")
        yield echo, last
        lines = re.split(r"\n(?=\d+: )", text)  # a value may have a line break, too
        for number, (probe, line) in enumerate(zip(probes, lines, strict=True)):
            yield probe, line.removeprefix(f"{number}: ")
    for probe, line in zip(probes, arguments["lines"], strict=True):
        yield probe._replace(kind="argument of a tool"), line


@contextmanager
def bench(folder: Path) -> Iterator[Bench]:
    """A gateway with its data in this folder, and the model behind it."""
    with ModelServer() as model:
        environment = {
            "PRIVACY_GATEWAY_UPSTREAMS": model.setting,
            "PRIVACY_GATEWAY_RATE_LIMIT_PER_MINUTE": "1000000",
            "PRIVACY_GATEWAY_INFILL": "off",
        }
        gateway = Gateway(folder / "data", environment)
        try:
            yield Bench(gateway, model)
        finally:
            gateway.stop()
