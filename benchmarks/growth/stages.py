"""The stages that read what a tenant sends, each as a function of a text that is as long as wanted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import orjson

import service.app  # noqa: F401  so that every model of a body is defined
from benchmarks.growth.measure import Call
from benchmarks.growth.units import UNITS
from core.text.formats.builder import FORMATS, Action, FormatLimits, FormatOptions, JsonOptions, parse
from core.text.mask_entity import plain_characters, recognisers
from core.text.mask_words import AllowLists
from core.text.own_recognisers.definition import Definition, Limits
from core.text.own_recognisers.recogniser import OwnRecogniser, check, try_out
from core.text.policy import DEFAULT_ENTITIES, MaskPolicy
from core.text.recogniser import Recogniser
from core.text.reversible.conversation import mask_conversation
from core.text.reversible.forms import mapping_of
from core.text.reversible.lexing import as_read, escapes, lex
from core.text.reversible.mapping import Content, Pair, Region
from core.text.sanitize import fill_masks, inspect, sanitize
from core.text.segment import SentText, sentences, visible
from core.text.segment import windows as word_windows
from core.text.windows import windows
from service.http.body import JsonLimits, check_json, parse_json
from service.http.strict import Strict
from service.presidio.ad_hoc import ad_hoc_of
from service.presidio.places import places_of
from service.presidio.replacing import replaced, without_conflicts
from service.presidio.schemas import AdHocRecogniser
from service.proxy.dialects.registry import DIALECTS
from service.proxy.outgoing import sources_of
from service.proxy.texts import TextLimits, read_texts
from service.sanitize.policies import ProxyTerms
from service.vectors.safetensors_header import read_header

Run = Callable[[str], object]
LISTS = AllowLists()
ENTITIES = (*DEFAULT_ENTITIES, "DATE_TIME", "AGE")
JSON_LIMITS = JsonLimits(64, 1_000_000)
WORDS = MaskPolicy(techniques=("all",))
DENSE = MaskPolicy(entities=ENTITIES)
# Not linear in the text, so that a bound must be what limits them.
PATTERNS = (r"-(?s:.*y7)?", r"(?s:.*)z", r"a|(?s:.+)b", r"\pL{1,30}7", r"(\w+\s?)+$", r"[a-z ]+\d", r".{1,200}!", r"")


@dataclass(frozen=True)
class Stage:
    """`run` reads `before + text + after`, where the text is one of `units` again and again."""

    name: str
    run: Run
    before: str = ""
    after: str = ""
    units: Mapping[str, str] = field(default_factory=lambda: UNITS)

    def prepare(self, text: str) -> Callable[[], Call]:
        whole = self.before + text + self.after
        return lambda: partial(self.run, whole)


def named(*units: str) -> dict[str, str]:
    return {ascii(unit)[1:-1]: unit for unit in units}


def warm_up() -> None:
    """Read what is read once for each process, so that no measurement contains it."""
    for name in FORMATS:
        parse(name, "A: 1\n\nx" if name == "email" else "1", FormatOptions(), FormatLimits())
    text = "Maria Keller, PIN: 1234, +44 20 7946 0958, 1 May 2020, a@b.co"
    sanitize(text, DENSE, "surrogate", lists=LISTS)
    _masked_conversation(text)
    sentences(text)


def stages() -> Iterator[Stage]:
    yield from _bodies()
    yield from _models()
    yield from _formats()
    yield from _texts()
    for recogniser in {each.name: each for own in recognisers().values() for each in own}.values():
        yield Stage(f"recogniser {recogniser.name}", partial(_hits, recogniser))
    for pattern in PATTERNS:
        yield Stage(f"own pattern {pattern}", partial(_own, Definition(entity="OWN", patterns=(pattern,))))
    terms = Definition(entity="OWN", deny=tuple("a" * n for n in range(1, 40)), allow=("b", "1 1"), context=("c",))
    yield Stage("own terms", partial(_own, terms))
    yield from _proxy()
    yield from _presidio()


# bodies


def _bodies() -> Iterator[Stage]:
    yield Stage("JSON scan", lambda text: check_json(text.encode("utf-8", "surrogatepass"), JSON_LIMITS))
    yield Stage("JSON scan of a string", lambda text: check_json(text.encode(), JSON_LIMITS), '["', '"]')
    items = named(*(f"{item}," for item in ('""', "0", "[]", "{}", "[[]]", '{"a":0}', "1.5e300", '"\\u00e9"')))
    yield Stage("JSON parse", lambda text: parse_json(text.encode(), JSON_LIMITS), "[", "0]", items)
    digits = named("1", "0.1", "9" * 20, "1e")
    yield Stage("JSON parse of a number", lambda text: parse_json(text.encode(), JSON_LIMITS), "[", "1]", digits)
    header = named('"a":"b",', '"a\\n":"b",', '"":"",')
    yield Stage("safetensors header", _safetensors, "", "", header)


def _safetensors(text: str) -> object:
    tensor = '"t":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}'
    content = ('{"__metadata__":{' + text[: text.rfind(",")] + "}," + tensor + "}").encode()
    return read_header(len(content).to_bytes(8, "little") + content, size=len(content) + 12, tensor="t")


def _models() -> Iterator[Stage]:
    """Each field of each model of a body, as a long list, object, string or number."""
    found: dict[str, type[Strict]] = {}
    left = list(Strict.__subclasses__())
    while left:
        model = left.pop()
        found[f"{model.__module__}.{model.__name__}"] = model
        left += model.__subclasses__()
    for name, model in sorted(found.items()):
        for member in model.model_fields:
            run = partial(_model, model, member)
            yield Stage(f"model {name}.{member}", run, units=_VALUES)
        yield Stage(f"model {name}", partial(_model, model, None), units=_VALUES)


_VALUES = {
    "list of {}": "{},", "list of 0": "0,", 'list of ""': '"",', "list of []": "[],", 'list of "x"': '"x",',
    "members": "members", "text": "text", "digits": "digits", "list of members": '{"text":"x","a":1},',
}  # fmt: skip


def _model(model: type[Strict], member: str | None, text: str) -> object:
    value: Any
    if text.startswith("members"):
        value = {f"{number:x}": 0 for number in range(len(text) // 8)}
    elif text.startswith("text"):
        value = text
    elif text.startswith("digits"):
        value = "1" * len(text)
    else:
        value = orjson.loads("[" + text[: text.rfind(",")] + "]")
    return model.model_validate(value if member is None else {member: value})


# documents


def _formats() -> Iterator[Stage]:
    for name in FORMATS:
        yield Stage(f"format {name}", partial(_parsed, name))
        for what, before, after in _WITHIN.get(name, ()):
            yield Stage(f"format {name}: {what}", partial(_parsed, name), before, after)
        yield Stage(f"all masked in {name}", partial(_filled, name))
    yield Stage(
        "format json: lines", partial(_parsed, "json", options=JsonOptions(lines=True)), units=named("1\n", '""\n')
    )
    paths = tuple((f"a.{'*.' * (8 + number)}x", Action()) for number in range(22))
    nested = named('{"a":{"a":[{},{}],"b":[{"a":0}]},"b":{"a":{"b":[]},"b":{"b":{}}}},')
    yield Stage("format json: paths", partial(_parsed, "json", options=JsonOptions(rules=paths)), "[", "0]", nested)


_HEADERS = ("Subject", "From", "Content-Type", "Content-Disposition", "Content-Transfer-Encoding", "X-Other")
_PART = "Content-Type: multipart/mixed; boundary=a\n\n--a\n"
_WITHIN: Mapping[str, Sequence[tuple[str, str, str]]] = {
    "json": (
        ("in a string", '["', '"]'),
        ("in a list", "[", "0]"),
        ("in an object", "{", '"a":1}'),
        ("below a long key", '{"' + "k" * 64 + '":[', "0]}"),
    ),
    "csv": (
        ("quoted", 'a,b\n"', '"'),
        ("below long names", ",".join("column " * 8 + chr(65 + n) for n in range(26)) + "\n", ""),
    ),
    "html": (
        ("in a tag", "<a ", ">"),
        ("in an attribute", '<a title="', '">'),
        ("in a script", "<script>", "</script>"),
        ("in a comment", "<!--", "-->"),
        ("in a table", "<table><tr><th>" + "a" * 64 + "<tr>", ""),
        ("in a title", "<title>", "</title>"),
        ("in a declaration", "<!doctype html", ">"),
    ),
    "email": (
        *((f"in {name}", f"{name}: ", "\n\nx") for name in _HEADERS),
        ("after a type", "Content-Type: text/plain; a=", "\n\nx"),
        ("headers", "A: b\n", "\n\nx"),
        ("body", "A: b\n\n", ""),
        ("HTML", "Content-Type: text/html\n\n", ""),
        ("parts", _PART + "\n", "\n--a--\n"),
        ("quoted-printable", "Content-Transfer-Encoding: quoted-printable\n\n", ""),
        *(
            (f"in {charset}", f"Content-Type: text/plain; charset={charset}\nContent-Transfer-Encoding: 8bit\n\n", "")
            for charset in ("utf-7", "punycode")
        ),
    ),
    "markdown": (
        ("YAML", "---\n", "\n---\n"),
        ("YAML string", '---\na: "', '"\n---\n'),
        ("YAML text", "---\na: |\n  ", "\n---\n"),
        ("YAML flow", "---\na: [", "a]\n---\n"),
        ("TOML", "+++\n", "\n+++\n"),
        ("TOML key", "+++\n", "a = 1\n+++\n"),
        ("TOML section", "+++\n[", "a]\n+++\n"),
        ("TOML string", '+++\na = "', '"\n+++\n'),
        ("TOML text", '+++\na = """', '"""\n+++\n'),
        ("TOML list", "+++\na = [", "]\n+++\n"),
        ("TOML value", "+++\na = ", "\n+++\n"),
        ("in a table", "a|b\n", ""),
        ("below a table", "|" + "a" * 64 + "|b|\n|-|-|\n", ""),
        ("before a rule", "|\n", "-"),
        ("after a letter", "a", "b"),
    ),
    "log": (
        ("quoted", '2024-01-01 00:00:00 INFO key="', '"'),
        ("key", "INFO ", '="a"'),
        ("JSON", "INFO {", '"a":1}'),
        ("time", "2024-01-01T00:00:00", ""),
    ),
}


def _parsed(name: str, text: str, *, options: JsonOptions | None = None) -> object:
    return parse(name, text, FormatOptions(json=options or JsonOptions()), FormatLimits())


def _filled(name: str, text: str) -> object:
    form = parse(name, text, FormatOptions(), FormatLimits())
    if form is None:
        raise ValueError(name)
    return fill_masks(inspect(form.view, WORDS, LISTS, form=form), WORDS, "class_marker", LISTS)


# texts


def _texts() -> Iterator[Stage]:
    yield Stage("visible", visible)
    yield Stage("sent text", lambda text: SentText.of(text).region(0, len(text)))
    yield Stage("plain characters", plain_characters)
    yield Stage("sentences", sentences)
    yield Stage("windows of words", lambda text: word_windows(text, 12))
    yield Stage("windows of recognisers", windows)
    yield Stage("lex", lex)
    yield Stage("as read", as_read)
    yield Stage("escapes", escapes)
    for fill in ("class_marker", "marker", "surrogate"):
        yield Stage(f"all words, {fill}", lambda text, fill=fill: sanitize(text, WORDS, fill, lists=LISTS))
        yield Stage(f"finds, {fill}", lambda text, fill=fill: sanitize(text, DENSE, fill, lists=LISTS))
    yield Stage("explained finds", lambda text: inspect(text, DENSE, LISTS, explain=1000))
    yield Stage("mask a conversation", _masked_conversation, units=_FOUND)
    yield Stage("mask words of a conversation", _masked_words)
    pairs = (Pair("PERSON", "Maria Keller", "Anna Weber"), Pair("EMAIL_ADDRESS", "m@a.org", "a@b.co"))
    mapping = mapping_of(Content((*pairs, Pair("PHONE_NUMBER", "1 2", "1 1")), "en"))
    yield Stage("restore", mapping.restore)
    yield Stage("restore in pieces", lambda text: _fed(mapping.restorer(), text))
    yield Stage("restore JSON", lambda text: _fed(mapping.restorer("json"), text), '{"a":"', '"}')


_FOUND = {name: unit for name, unit in UNITS.items() if name.startswith(("dense", "PIN", "names", "a@b", "mixed"))}


def _masked_conversation(text: str) -> object:
    masks = inspect(text, DENSE, LISTS).masks
    regions = [Region(mask.start, mask.end, mask.type) for mask in masks]
    return mask_conversation([text], [regions], key=b"k" * 32)


def _masked_words(text: str) -> object:
    """A region every eight characters."""
    regions = [Region(at, at + 4, "PERSON") for at in range(0, len(text) - 4, 8)]
    return mask_conversation([text], [regions], key=b"k" * 32)


def _fed(restorer: Any, text: str) -> str:
    pieces = [restorer.feed(text[at : at + 16]) for at in range(0, len(text), 16)]
    return "".join((*pieces, restorer.end()))


def _hits(recogniser: Recogniser, text: str) -> object:
    parts = [text[window.start : window.end] for window in windows(text)]
    found = [recogniser.hits(part, threshold=0.5, digits=sum(map(str.isdecimal, part))) for part in parts]
    return recogniser.copies_in(text, [hit for hits in found for hit in hits.passed])


def _own(definition: Definition, text: str) -> object:
    return try_out(text, OwnRecogniser(definition), threshold=0.5)


# requests to language models


def _proxy() -> Iterator[Stage]:
    for path, dialect in DIALECTS.items():
        for what, body in _REQUESTS[path].items():
            yield Stage(f"slots {path}: {what}", partial(_slots, dialect, body))
        members = partial(_members, dialect, next(iter(_REQUESTS[path].values())))
        yield Stage(f"slots {path}: unknown members", members, units=named("members"))


_CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "TEXT"}}
_TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "description": "TEXT"}}}
_REQUESTS: Mapping[str, Mapping[str, Any]] = {
    "/v1/chat/completions": {
        "content": {"model": "m", "messages": [{"role": "user", "content": "TEXT"}]},
        "arguments": {"model": "m", "messages": [{"role": "assistant", "content": None, "tool_calls": [_CALL]}]},
        "tools": {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": [_TOOL]},
    },
    "/v1/responses": {
        "input": {"model": "m", "input": "TEXT"},
        "output": {
            "model": "m",
            "input": [{"type": "function_call_output", "call_id": "c", "output": "TEXT"}],
        },
    },
    "/v1/messages": {
        "content": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "TEXT"}]},
        "system": {"model": "m", "max_tokens": 9, "system": "TEXT", "messages": [{"role": "user", "content": "x"}]},
    },
}


_TEXTS = TextLimits(1_000_000, 4_096)


def _slots(dialect: Any, body: Any, text: str) -> object:
    sent = json.loads(json.dumps(body).replace('"TEXT"', json.dumps(text)))
    found = sources_of(dialect.slots(sent), ProxyTerms(), _TEXTS, pseudonym_key=b"k" * 32)
    return read_texts([(slot.kind, source) for slot, source in found], _TEXTS, False)


def _members(dialect: Any, body: Any, text: str) -> object:
    sent = {**body, **{f"{number:x}": "x" for number in range(len(text) // 8)}}
    return sources_of(dialect.slots(sent), ProxyTerms(), _TEXTS, pseudonym_key=b"k" * 32)


# Presidio's contracts


def _presidio() -> Iterator[Stage]:
    units = named("ab ")
    for step in (1, 2, 64):
        yield Stage(f"replace places {step} apart", partial(_replaced, step, 4), units=units)
    yield Stage("replace long places", partial(_replaced, 1, 1000), units=units)
    yield Stage("replace nested places", _nested, units=units)
    patterns = partial(_ad_hoc, "patterns")
    yield Stage("ad-hoc patterns", patterns, units=named("a", "a|", "(a)", "[a-z]", r"\pL{1,30}7", "(", "a{1,9}"))
    yield Stage("ad-hoc terms", partial(_ad_hoc, "deny_list"), units=named("a,", "ab,a,", "\u0301,"))
    yield Stage("own patterns, compiled", _compiled, units=named("a", "a|", "[^b]", r"\pL{1,30}7", "(a)", ".{9}"))


def _replaced(step: int, length: int, text: str) -> object:
    starts = range(0, len(text) - length, step)
    values = [{"start": at, "end": at + length, "entity_type": f"T{at % 7}", "score": 0.5} for at in starts]
    return _with_places(text, values)


def _nested(text: str) -> object:
    half = len(text) // 2
    spans = ((half - at, half + at) for at in range(1, half, 8))
    return _with_places(text, [{"start": a, "end": b, "entity_type": f"T{a % 3}", "score": 0.5} for a, b in spans])


def _with_places(text: str, values: Sequence[Any]) -> object:
    places = without_conflicts(text, places_of(values, field="f", scored=True))
    return replaced(text, places, lambda kind, _: (f"<{kind}>", "replace"), field="f", chars_max=4_000_000)


def _ad_hoc(member: str, text: str) -> object:
    own: dict[str, Any] = {"supported_entity": "OWN"}
    if member == "patterns":
        pieces = [text[at : at + 1000] for at in range(0, len(text), 1000)][:64]
        own["patterns"] = [{"regex": piece, "score": 0.5} for piece in pieces]
    else:
        own["deny_list"] = text.split(",")[:-1]
    return ad_hoc_of([AdHocRecogniser.model_validate(own)], Limits())


def _compiled(text: str) -> object:
    pieces = tuple(text[at : at + 1000] for at in range(0, len(text), 1000))[:64]
    return check(Definition(entity="OWN", patterns=pieces), Limits())
