"""The 300 recorded conversations: every scenario of each language with every cast, each in one wire format.

The originals of a conversation are those of its cast that its texts name, with their types.
"""

import html
import html.entities
import json
import tomllib
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, quote_plus

Kind = Literal["system", "developer", "user", "assistant", "call", "result"]
TEXTS = Path(__file__).parent / "texts"
LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "pl")
FORMATS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
_TYPES = {
    "a": "PERSON",
    "b": "PERSON",
    "city": "LOCATION",
    "org": "ORGANIZATION",
    "mail": "EMAIL_ADDRESS",
    "bmail": "EMAIL_ADDRESS",
    "phone": "PHONE_NUMBER",
    "iban": "IBAN_CODE",
    "card": "CREDIT_CARD",
}
_WRITTEN_AS = dict.fromkeys(("a1", "a2", "A", "aurl", "ahtml", "aslug", "alow"), "a") | {"b1": "b", "b2": "b"}


class Turn(NamedTuple):
    """One message. `text`: with placeholders such as `$a`; of a `call`, the JSON of its arguments."""

    kind: Kind
    text: str


class Tool(NamedTuple):
    """A tool of a request. `members`: of its arguments, with a description of each."""

    name: str
    description: str
    members: dict[str, str]


class Scenario(NamedTuple):
    """Turns that any cast can play. `request`: further members by their names: `user`, `author`, `metadata`."""

    name: str
    turns: tuple[Turn, ...]
    tools: tuple[Tool, ...] = ()
    request: dict[str, Any] = {}  # noqa: RUF012 - never changed


class Cast(NamedTuple):
    """Two persons, a place, an organisation and a telephone number."""

    a: str
    b: str
    city: str
    org: str
    phone: str


class Original(NamedTuple):
    type: str
    value: str


class Conversation(NamedTuple):
    """`path`: of its wire format. `structured`: whether the answer must be JSON."""

    name: str
    language: str
    path: str
    turns: tuple[Turn, ...]
    tools: tuple[Tool, ...]
    request: dict[str, Any]
    originals: tuple[Original, ...]
    structured: bool

    @property
    def last(self) -> str:
        return self.turns[-1].text


def recorded() -> list[Conversation]:
    """Return all conversations, in the order of `LANGUAGES`."""
    found = []
    for language in LANGUAGES:
        texts = tomllib.loads((TEXTS / f"{language}.toml").read_text(encoding="utf-8"))
        casts = [Cast(*line.split(" | ")) for line in texts["casts"]]
        for place, scenario in enumerate(map(_scenario, texts["scenarios"])):
            for number, cast in enumerate(casts):
                path = FORMATS[(place + number) % len(FORMATS)]
                found.append(_conversation(language, path, scenario, cast, len(found)))
    return found


def _scenario(read: dict[str, Any]) -> Scenario:
    tools = tuple(Tool(**tool) for tool in read.get("tools", ()))
    return Scenario(read["name"], tuple(Turn(*turn) for turn in read["turns"]), tools, read.get("request", {}))


def _conversation(language: str, path: str, scenario: Scenario, cast: Cast, number: int) -> Conversation:
    values = _values(cast, number)

    def filled(text: str) -> str:
        return Template(text).substitute(values)

    used: set[str] = set()
    for text in _texts(scenario):
        names = Template(text).get_identifiers()
        used |= {_WRITTEN_AS.get(name, name) for name in names}
    tools = tuple(
        Tool(tool.name, filled(tool.description), {name: filled(text) for name, text in tool.members.items()})
        for tool in scenario.tools
    )
    return Conversation(
        f"{language}-{scenario.name}-{number}",
        language,
        path,
        tuple(Turn(turn.kind, filled(turn.text)) for turn in scenario.turns),
        tools,
        {
            name: {key: filled(text) for key, text in value.items()} if isinstance(value, dict) else filled(value)
            for name, value in scenario.request.items()
        },
        tuple(Original(type_, values[name]) for name, type_ in _TYPES.items() if name in used),
        scenario.name == "profile",
    )


def _texts(scenario: Scenario) -> list[str]:
    texts = [turn.text for turn in scenario.turns]
    for tool in scenario.tools:
        texts += [tool.description, *tool.members.values()]
    return texts


def _values(cast: Cast, number: int) -> dict[str, str]:
    (a1, a2), (b1, b2) = (name.split(" ", 1) for name in (cast.a, cast.b))
    return {
        **cast._asdict(),
        "a1": a1,
        "a2": a2,
        "A": cast.a.upper(),
        "alow": cast.a.lower(),
        "aurl": (quote if number % 2 else quote_plus)(cast.a),
        "ahtml": _entities(cast.a),
        "aslug": cast.a.lower().replace(" ", "-"),
        "b1": b1,
        "b2": b2,
        "mail": _address(cast.a),
        "bmail": _address(cast.b),
        "iban": _iban(number),
        "card": _card(number),
    }


def _entities(text: str) -> str:
    names = html.entities.codepoint2name
    return "".join(f"&{names[ord(char)]};" if ord(char) in names else char for char in html.escape(text))


def _address(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name.replace("ß", "ss").replace("ł", "l").replace("ı", "i"))
    ascii_ = "".join(char for char in plain if char.isascii() and (char.isalnum() or char in " -"))
    return ascii_.lower().replace(" ", ".") + "@example.org"


def _iban(number: int) -> str:
    account = f"37040044{number * 7919 % 10**10:010d}"
    check = 98 - int(f"{account}131400") % 97
    return f"DE{check:02d}{account}"


def _card(number: int) -> str:
    digits = f"4{number * 104729 % 10**14:014d}"
    doubled = [int(digit) * 2 if place % 2 == 0 else int(digit) for place, digit in enumerate(digits)]
    total = sum(value - 9 if value > 9 else value for value in doubled)
    whole = digits + str(-total % 10)
    return " ".join(whole[at : at + 4] for at in range(0, 16, 4))


Body = dict[str, Any]


def body_of(conversation: Conversation, *, stream: bool) -> Body:
    """Return the request, as a client sends it."""
    kind = conversation.path.rsplit("/", 1)[-1]
    make = {"completions": _chat, "responses": _responses, "messages": _messages}[kind]
    body = make(conversation)
    if kind != "messages":
        body |= {name: conversation.request[name] for name in ("user", "metadata") if name in conversation.request}
    elif "user" in conversation.request:
        body["metadata"] = {"user_id": conversation.request["user"]}
    return body | {"stream": stream}


def _turns(conversation: Conversation) -> Iterator[tuple[Kind, str, str]]:
    """The kind, the text and the number of each turn; a result has the number of its call."""
    calls = 0
    for kind, text in conversation.turns:
        calls += kind == "call"
        yield kind, text, f"call_{calls}"


def _tools(conversation: Conversation, schema: str) -> list[Body]:
    """The tools, each with its arguments in the member `schema`."""
    found = []
    for tool in conversation.tools:
        members = {name: {"type": "string", "description": text} for name, text in tool.members.items()}
        arguments = {"type": "object", "properties": members}
        found.append({"name": tool.name, "description": tool.description, schema: arguments})
    return found


def _chat(conversation: Conversation) -> Body:
    messages: list[Body] = []
    for kind, text, call_id in _turns(conversation):
        if kind == "call":
            function = {"name": conversation.tools[0].name, "arguments": text}
            call = {"id": call_id, "type": "function", "function": function}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        elif kind == "result":
            messages.append({"role": "tool", "tool_call_id": call_id, "content": text})
        else:
            messages.append({"role": kind, "content": text})
            if kind == "user" and "author" in conversation.request:
                messages[-1]["name"] = conversation.request["author"]
    body: Body = {"model": "stub-gpt", "messages": messages}
    if tools := [{"type": "function", "function": tool} for tool in _tools(conversation, "parameters")]:
        body["tools"] = tools
    return body | ({"response_format": {"type": "json_object"}} if conversation.structured else {})


def _responses(conversation: Conversation) -> Body:
    items: list[Body] = []
    for kind, text, call_id in _turns(conversation):
        if kind == "call":
            facts = {"call_id": call_id, "name": conversation.tools[0].name}
            items.append({"type": "function_call", "arguments": text} | facts)
        elif kind == "result":
            items.append({"type": "function_call_output", "call_id": call_id, "output": text})
        elif kind == "assistant":
            part = {"type": "output_text", "text": text, "annotations": []}
            items.append({"type": "message", "role": "assistant", "content": [part]})
        elif kind != "system":
            items.append({"type": "message", "role": kind, "content": [{"type": "input_text", "text": text}]})
    body: Body = {"model": "stub-gpt", "input": items, "store": False}
    if instructions := [text for kind, text in conversation.turns if kind == "system"]:
        body["instructions"] = "\n".join(instructions)
    if tools := [{"type": "function"} | tool for tool in _tools(conversation, "parameters")]:
        body["tools"] = tools
    return body | ({"text": {"format": {"type": "json_object"}}} if conversation.structured else {})


def _messages(conversation: Conversation) -> Body:
    messages: list[Body] = []
    for kind, text, call_id in _turns(conversation):
        if kind == "call":
            use = {"id": call_id, "name": conversation.tools[0].name, "input": json.loads(text)}
            messages.append({"role": "assistant", "content": [{"type": "tool_use"} | use]})
        elif kind == "result":
            block = {"type": "tool_result", "tool_use_id": call_id, "content": text}
            messages.append({"role": "user", "content": [block]})
        elif kind in ("user", "assistant"):
            messages.append({"role": kind, "content": [{"type": "text", "text": text}]})
    body: Body = {"model": "stub-claude", "max_tokens": 1000, "messages": messages}
    if above := [text for kind, text in conversation.turns if kind in ("system", "developer")]:
        body["system"] = "\n".join(above)
    if tools := _tools(conversation, "input_schema"):
        body["tools"] = tools
    schema = {"format": {"type": "json_schema", "schema": {"type": "object"}}}
    return body | ({"output_config": schema} if conversation.structured else {})
