"""Sends recorded conversations through a gateway to a model that repeats and rewrites what it saw."""

from __future__ import annotations

import html
import json
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus, unquote, unquote_plus

import httpx
from gateway_kit import Tenant
from inprocess_kit import Gateway
from model_formats_kit import Call, Said, Split
from model_kit import ModelServer, pieces_of

from benchmarks.conversations.answers import Heard, heard
from benchmarks.conversations.recorded import FORMATS, Conversation, Original, body_of
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


_PART_CHARS_MIN = 3


@dataclass
class Figures:
    """`leaked`: originals that the recogniser found and that the upstream saw nevertheless. `missed`: originals that it
    did not find, or of which it left a part, and that the upstream saw. `wrong`: restored to something else.
    """

    conversations: int = 0
    requests: int = 0
    originals: int = 0
    leaked: list[tuple[str, str, str]] = field(default_factory=list)
    missed: list[tuple[str, str, str]] = field(default_factory=list)
    probes: Counter[str] = field(default_factory=Counter)
    restored: Counter[str] = field(default_factory=Counter)
    left: list[tuple[str, str, str, str]] = field(default_factory=list)
    wrong: list[tuple[str, str, str, str]] = field(default_factory=list)

    def see(self, conversation: Conversation, body: Any, pairs: Iterable[Pair]) -> None:
        """Count the originals in a masked request, once for each conversation."""
        seen = "\n".join(variant for text in strings(body) for variant in writings(text))
        found = [pair.original for pair in pairs]
        words = {word for original in found for word in _words(original)}
        for original in conversation.originals:
            self.originals += 1
            known = set(_words(original.value)) <= words
            standing = [part for part in _parts(original) if _stands(part, seen)]
            if not standing:
                continue
            place = (conversation.name, original.type, standing[0])
            (self.leaked if known else self.missed).append(place)
        for value in found:
            if _stands(value, seen) and (conversation.name, "found", value) not in self.leaked:
                self.leaked.append((conversation.name, "found", value))

    @property
    def share(self) -> float:
        return self.restored.total() / max(1, self.probes.total())


def strings(value: Any) -> Iterator[str]:
    """Yield every string of a JSON value, also its keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)


def writings(text: str) -> list[str]:
    """Return a text as it is, and as it reads without each of its encodings."""
    found = [text, unquote(text), unquote_plus(text), html.unescape(text), unicodedata.normalize("NFKC", text)]
    found.append(re.sub(r"\\[nrt]", " ", text))
    found.append(re.sub(r"\\u([0-9a-fA-F]{4})", lambda code: chr(int(code[1], 16)), text))
    try:
        inner = json.loads(text)
    except ValueError:
        return found
    return found if isinstance(inner, str) else found + list(strings(inner))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _parts(original: Original) -> list[str]:
    """Return an original, and the parts of a name that must not stand alone either."""
    if original.type != "PERSON":
        return [original.value]
    words = [word for word in original.value.split() if len(word) >= _PART_CHARS_MIN and word[0].isupper()]
    joined = [mark.join(original.value.lower().split()) for mark in " -_."]
    return [original.value, *words, *(word.upper() for word in words), *joined]


def _stands(value: str, seen: str) -> bool:
    """Whether a value stands in a text, not as a part of a word."""
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", seen) is not None


Change = Callable[[str], str]
_EXACT = {"EMAIL_ADDRESS", "URL", "IBAN_CODE", "SECRET", "PASSWORD", "UUID"}
_NUMBERS = {"PHONE_NUMBER", "CREDIT_CARD"}
_NAMES = {"PERSON", "LOCATION", "ORGANIZATION"}
_SIBILANTS = tuple("sßxzSXZ")
_MARKDOWN = str.maketrans({char: f"\\{char}" for char in "_-.'`*"})


class Rewriting(NamedTuple):
    """`change`: of a surrogate and of its original."""

    name: str
    change: Change


_ALL = (
    Rewriting("as it is", str),
    Rewriting("bold", lambda text: f"**{text}**"),
    Rewriting("in code", lambda text: f"`{text}`"),
    Rewriting("quoted", lambda text: f'"{text}", „{text}“ and ({text})'),
    Rewriting("table", lambda text: f"| 1 | {text} | {text} |"),
    Rewriting("heading", lambda text: f"## {text}:"),
    Rewriting("HTML element", lambda text: f"<td>{html.escape(text)}</td>"),
    Rewriting("URL", lambda text: f"https://example.org/?q={quote(text, safe='')}&page=2"),
    Rewriting("form data", lambda text: f"q={quote_plus(text)}&page=2"),
    Rewriting("JSON", lambda text: json.dumps({"value": text}, ensure_ascii=False)),
    Rewriting("escaped Markdown", lambda text: text.translate(_MARKDOWN)),
    Rewriting("CSV", lambda text: f'1;"{text}";2'),
)
_CASES = (Rewriting("capitals", str.upper), Rewriting("possessive", lambda text: f"{text}'s and {text}’s"))
_FULL_NAMES = (
    Rewriting("first name", lambda text: text.split()[0]),
    Rewriting("last name", lambda text: text.split()[-1]),
    Rewriting("first name in capitals", lambda text: text.split()[0].upper()),
    Rewriting("possessive of the last name", lambda text: f"{text.split()[-1]}'s"),
    Rewriting("last name first", lambda text: f"{text.split()[-1]}, {text.split()[0]}"),
    Rewriting("slug", lambda text: f"/people/{'-'.join(text.split())}/"),
    Rewriting("slug in small letters", lambda text: f"/people/{'-'.join(text.lower().split())}/"),
    Rewriting("name of a file", lambda text: f"cv_{'_'.join(text.lower().split())}.pdf"),
    Rewriting("initial", lambda text: f"{text[0]}. {text.split()[-1]}"),
)
_ENDINGS = {
    "de": (Rewriting("genitive", lambda text: f"{text.split()[0]}s Brief"),),
    "nl": (Rewriting("genitive", lambda text: f"{text.split()[0]}s brief"),),
    "en": (Rewriting("plural of the family", lambda text: f"the {text.split()[-1]}s"),),
}


def rewritings(type_: str, original: str, surrogate: str, language: str) -> Iterator[Rewriting]:
    """Yield the rewritings in which a model may write a surrogate of the type."""
    if surrogate.startswith("["):
        yield from _ALL
        return
    yield from _ALL
    if type_ in _NAMES and min(len(original), len(surrogate)) > 3:
        yield from _CASES
    if type_ in _NUMBERS and len(_bare(original)) == len(_bare(surrogate)) >= 7:
        yield Rewriting("digits alone", _bare)
    own, other = original.split(), surrogate.split()
    if type_ == "PERSON" and len(own) == len(other) == 2 and all(map(_is_part, own + other)):
        yield from _FULL_NAMES
        words = (own[0], own[-1], other[0], other[-1])
        if not any(word.endswith(_SIBILANTS) or word.isupper() for word in words):
            yield from _ENDINGS.get(language, ())


def _is_part(word: str) -> bool:
    return sum(map(str.isalpha, word)) >= 3 and word[:1].isupper()


def _bare(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def as_read(text: str) -> str:
    """Return a text without its encodings: whether an apostrophe is escaped does not count."""
    return re.sub(r"\\(?=[^\w\s])", "", html.unescape(unquote(text.replace("+", " "))))
