"""Fill the slots of a template. The text of the slot of a name or a credential is labelled with its type.

A slot is `{kind}` or `{kind.case}`, with a grammatical case of `text_files.CASES`, or `lower` or `upper` for letters of
that case. An entry of a list may have slots, which are not labelled.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from faker import Faker

from training import credentials
from training.local_names import LOCALES, LocalNames
from training.names import Names
from training.ner_corpora import IGNORED
from training.text_files import TextFile, form, read

Marked = tuple[str, list[tuple[int, int, str]]]

NAMED = {
    "person": "PERSON",
    "first": "PERSON",
    "last": "PERSON",
    "speaker": "PERSON",
    "nick": "PERSON",
    "wordfirst": "PERSON",
    "wordlast": "PERSON",
    "longname": "PERSON",
    "initials": "PERSON",
    "city": "LOCATION",
    "country": "LOCATION",
    "place": "LOCATION",
    "street": "LOCATION",
    "address": "LOCATION",
    "postal": "LOCATION",
    "org": "ORGANIZATION",
    "firm": "ORGANIZATION",
    "team": "ORGANIZATION",
    "cityteam": "ORGANIZATION",
}
CREDENTIALS = {"password": "PASSWORD", "secret": "SECRET", "username": "USERNAME"}
# Recognisers by form find these, and their text may contain names: training ignores them.
_UNLABELLED = ("email", "url", "postcode")
_LABELS = NAMED | CREDENTIALS | dict.fromkeys(_UNLABELLED, IGNORED)
LISTED = (
    *("title", "acronym", "product", "work", "nationality", "role", "thing", "unit"),
    *("nick", "wordfirst", "wordlast", "firm", "drug", "eponym", "sign", "law"),
    *("scientist", "mood", "venue", "tool", "dish", "part"),
    *("longname", "initials", "postal", "trade"),
)
# in the genitive, as dates have them
_POLISH_MONTHS = (
    *("stycznia", "lutego", "marca", "kwietnia", "maja", "czerwca"),
    *("lipca", "sierpnia", "września", "października", "listopada", "grudnia"),
)
_WORD = re.compile(r"(?<![\w{])[^\W\d_]{4,9}(?![\w}.])")  # not the name of a slot
_SLOT = re.compile(r"\{([a-z_]+)(?:\.([a-z]+))?\}")
_INITIALS_BEFORE = re.compile(r"(?<![\w.])(?:[A-ZÀ-ÞŁŚŻŹ]\.[ -]?)+$")
_INITIAL_AFTER = re.compile(r" [A-ZÀ-ÞŁŚŻŹ]\.(?!\w)")
_TITLES = {"fr": "M.", "es": "D.", "pt": "D."}  # one letter, but no initial
_PLAIN_SHARE = 0.4
_ROSTER_SHARE = 0.03


_CODE_SHAPES = ("AA-999", "A9999999", "999/9999", "AAA99", "9999-AA-99", "#99999", "A-999.999", "aa9a9aa9", "AAAA")


def _code(rng: random.Random) -> str:
    letters, digits = string.ascii_uppercase, string.digits
    shape = rng.choice(_CODE_SHAPES)
    draws = {"A": letters, "9": digits, "a": "abcdef0123456789"}
    return "".join(rng.choice(draws[sign]) if sign in draws else sign for sign in shape)


def _amount(rng: random.Random) -> str:
    whole, cents = rng.randrange(1, 10 ** rng.randrange(1, 6)), f"{rng.randrange(100):02}"
    number = rng.choice(
        [f"{whole:,}.{cents}", f"{whole:,}".replace(",", ".") + f",{cents}", f"{whole}", f"{whole},{cents}"]
    )
    currency = rng.choice(["€", "EUR", "EUR", "$", "USD", "£", "GBP", "CHF", "PLN", "zł", "R$", "euros", "Euro", "kr"])
    return rng.choice([f"{number} {currency}", f"{currency} {number}", f"{currency}{number}"])


def _number(rng: random.Random) -> str:
    return str(rng.randrange(10 ** rng.randrange(1, 7)))


_FILLERS: dict[str, Callable[[random.Random], str]] = {
    "isodate": lambda rng: f"{rng.randrange(1980, 2027)}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}",
    "year": lambda rng: str(rng.randrange(1900, 2030)),
    "age": lambda rng: str(rng.randrange(1, 99)),
    "digit": lambda rng: str(rng.randrange(10)),
    "score": lambda rng: f"{rng.randrange(20)}{rng.choice('-:')}{rng.randrange(20)}",
    "time": lambda rng: f"{rng.randrange(24)}{rng.choice(':.h')}{rng.randrange(60):02}",
    "lap": lambda rng: f"{rng.randrange(1, 4)}:{rng.randrange(60):02}.{rng.randrange(100):02}",
    "percent": lambda rng: f"{rng.randrange(100)}{rng.choice(['', ',5', '.25'])}{rng.choice([' %', '%'])}",
    "ip": lambda rng: ".".join(str(rng.randrange(256)) for _ in range(4)),
    "code": _code,
    "amount": _amount,
    "number": _number,
    "secret": credentials.secret,
    "host": credentials.host,
    "path": credentials.path,
    "version": credentials.version,
    "hex": credentials.hexadecimal,
    "uuid": credentials.identifier,
    "hexa": credentials.short_hexadecimal,
    "digest": credentials.digest,
    "ulid": credentials.ordered_identifier,
    "tail": credentials.tail,
    "size": credentials.size,
}


def _whole(text: str, spans: list[tuple[int, int, str]], title: str | None) -> list[tuple[int, int, str]]:
    """Add initials to persons ("J. Berg", "Anna B."), and make one name of two with a hyphen between them."""
    joined: list[tuple[int, int, str]] = []
    for start, end, label in spans:
        if label == "PERSON":
            before, after = _INITIALS_BEFORE.search(text[:start]), _INITIAL_AFTER.match(text, end)
            start = before.start() if before and before.group().strip() != title else start
            end = after.end() if after else end
        if joined and joined[-1][2] == label and text[joined[-1][1] : start] == "-":
            joined[-1] = (joined[-1][0], end, label)
        else:
            joined.append((start, end, label))
    return joined


@dataclass
class Language:
    """The texts of one language and what fills their slots."""

    code: str
    file: TextFile
    names: LocalNames
    _values: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, world: Names, seed: int) -> Language:
        """`name`: the file, whose name begins with the language's code."""
        code, file = name.partition("-")[0], read(name)
        own = cls(code, file, LocalNames(code, read(code), world, seed))
        fakers = [Faker(locale) for locale in LOCALES[code]]
        makers: dict[str, Callable[[Any], str]] = {
            "month": lambda fake: fake.month_name(),
            "day": lambda fake: fake.day_of_week(),
            "phone": lambda fake: fake.phone_number(),
            "iban": lambda fake: re.sub(r"(.{4})", r"\1 ", fake.iban()).strip(),
            "email": lambda fake: fake.email(),
            "url": lambda fake: fake.url(),
            "username": lambda fake: fake.user_name(),
            "postcode": lambda fake: fake.postcode(),
        }
        for kind, make in makers.items():
            own._values[kind] = [make(fakers[number % len(fakers)]) for number in range(150)]
        own._values["word"] = sorted({word.lower() for line in read(code).plain for word in _WORD.findall(line)})
        return own

    def draw(self, rng: random.Random) -> Marked:
        """Return a filled template or, sometimes, a list of names or a text without a name."""
        if rng.random() < _ROSTER_SHARE:
            return self.fill(self._roster(rng), rng)
        lines = self.file.plain if rng.random() < _PLAIN_SHARE or not self.file.templates else self.file.templates
        return self.fill(rng.choice(lines), rng)

    def _roster(self, rng: random.Random) -> str:
        """Return a list of persons, as a template."""
        head = form(rng.choice(self.file.entries("roster") or read(self.code).entries("roster")), "nom")
        slots = rng.choice([["{last}"], ["{first}"], ["{person}"], ["{last}", "{person}"], ["{first}", "{last}"]])
        names = [rng.choice(slots) for _ in range(rng.randrange(2, 8))]
        separator = rng.choice([", ", ", ", "; ", " / ", "\n- ", "\n", " | "])
        return head + rng.choice([": ", ":\n", " - ", " "]) + separator.join(names) + rng.choice(["", ".", "."])

    def fill(self, template: str, rng: random.Random) -> Marked:
        """Return the text, and (start, end, label) of each name in it. Raises KeyError for an unknown slot."""
        text, spans, read_to = "", [], 0
        for slot in _SLOT.finditer(template):
            text += template[read_to : slot.start()]
            read_to = slot.end()
            kind, case = slot.group(1), slot.group(2) or "nom"
            if case in ("lower", "upper"):
                value = getattr(self._value(kind, "nom", text, rng), case)()
            else:
                value = self._value(kind, case, text, rng)
            if label := _LABELS.get(kind):
                spans.append((len(text), len(text) + len(value), label))
            text += value
        text += template[read_to:]
        return text, _whole(text, spans, _TITLES.get(self.code))

    def _value(self, kind: str, case: str, before: str, rng: random.Random) -> str:
        if kind in LISTED:
            entries = self.file.entries(kind) or read(self.code).entries(kind)
            return self.fill(form(rng.choice(entries), case), rng)[0]
        if kind in NAMED:
            return self._name(kind, case, rng)
        if kind == "password":
            words = [*self._values["word"], self.names.first(rng).lower(), self.names.city(rng).lower()]
            return credentials.password(rng, words, before)
        if kind == "username":
            known = rng.choice(self._values["username"])
            return credentials.username(rng, self.names.first(rng), self.names.last(rng), known)
        if kind == "date":
            return self._date(rng)
        return _FILLERS[kind](rng) if kind in _FILLERS else rng.choice(self._values[kind])

    def _name(self, kind: str, case: str, rng: random.Random) -> str:
        names = self.names
        if kind == "street":
            return names.street(rng)
        if kind == "address":
            return names.address(rng)
        if kind == "team":
            return names.team(rng)
        makers = {"org": names.organisation, "cityteam": names.city}
        value: str = (makers.get(kind) or getattr(names, kind))(rng, case)
        if case == "gen" and self.code == "de" and value[-1:] not in "sßxz":
            value += "s"
        return value

    def _date(self, rng: random.Random) -> str:
        day, month, year = rng.randrange(1, 32), rng.randrange(1, 13), rng.randrange(1940, 2030)
        name = rng.choice(_POLISH_MONTHS if self.code == "pl" else self._values["month"])
        mark = rng.choice("./-")
        written = {
            "en": (f"{name} {day}, {year}", f"{day} {name} {year}", f"{name} {day}"),
            "de": (f"{day}. {name} {year}", f"{day}. {name}"),
            "es": (f"{day} de {name} de {year}", f"{day} de {name}"),
            "pt": (f"{day} de {name} de {year}", f"{day} de {name}"),
        }.get(self.code, (f"{day} {name} {year}", f"{day} {name}"))
        return rng.choice(
            [*written, f"{day:02}{mark}{month:02}{mark}{year}", f"{day:02}{mark}{month:02}{mark}{year % 100:02}"]
        )
