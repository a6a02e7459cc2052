"""The 300 recorded conversations: every scenario of each language with every cast, each in one wire format.

The originals of a conversation are those of its cast that its texts name, with their types.
"""

from __future__ import annotations

import html
import html.entities
import unicodedata
from importlib import import_module
from string import Template
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus

from benchmarks.conversations.scenario import Cast, Scenario, Tool, Turn

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
_WRITTEN_AS = {
    "a1": "a",
    "a2": "a",
    "A": "a",
    "aurl": "a",
    "ahtml": "a",
    "aslug": "a",
    "alow": "a",
    "b1": "b",
    "b2": "b",
}


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
        texts = import_module(f"benchmarks.conversations.texts.{language}")
        for place, scenario in enumerate(texts.SCENARIOS):
            for number, cast in enumerate(texts.CASTS):
                path = FORMATS[(place + number) % len(FORMATS)]
                found.append(_conversation(language, path, scenario, cast, len(found)))
    return found


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
