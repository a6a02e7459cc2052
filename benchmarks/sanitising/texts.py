"""Reads the marked texts.

A file holds texts that a line `---` separates. `[[TYPE:text]]` marks personal data. `{{TYPE:text}}` marks what people
would judge differently: it counts neither as personal data nor as plain. Everything else is plain. A first line `@de`
names the language of a text in a file that is not of one language.

`{hex:40}` stands for 40 random characters, so that no file holds what a scanner would take for a live key. `{}` inside
a mark is the empty string, and `\\u{200b}` is the character with that number.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "texts"
LANGUAGES = ("en", "de", "fr", "es", "it", "nl", "pt", "pl")
# fmt: off
TYPES = frozenset((
    "PERSON", "LOCATION", "ORGANIZATION", "EMAIL_ADDRESS", "PHONE_NUMBER", "URL", "IP_ADDRESS", "MAC_ADDRESS",
    "IBAN_CODE", "CREDIT_CARD", "SWIFT_CODE", "BANK_ACCOUNT", "ROUTING_NUMBER", "DATE", "DATE_OF_BIRTH", "AGE",
    "PASSPORT", "DRIVER_LICENSE", "NATIONAL_ID", "TAX_ID", "MEDICAL_RECORD_NUMBER", "HEALTH_INSURANCE_NUMBER",
    "LICENSE_PLATE", "VIN", "USERNAME", "PASSWORD", "SECRET", "COORDINATE", "EMPLOYEE_ID", "CUSTOMER_ID", "ORDER_ID",
    "UUID", "DEVICE_ID", "CRYPTO",
))
# fmt: on

_MARK = re.compile(r"\[\[([A-Z_]+):(.+?)\]\]|\{\{([A-Z_]+):(.+?)\}\}", re.DOTALL)
_RANDOM = re.compile(r"\{(hex|alnum|upper|lower|digits|b64|url64):(\d+)\}")
_NUMBERED = re.compile(r"\\u\{([0-9a-f]{2,6})\}")
_LANGUAGE = re.compile(r"@([a-z]{2})\n")
_CHARACTERS = {
    "hex": "0123456789abcdef",
    "alnum": string.ascii_letters + string.digits,
    "upper": string.ascii_uppercase + string.digits,
    "lower": string.ascii_lowercase + string.digits,
    "digits": string.digits,
    "b64": string.ascii_letters + string.digits + "+/",
    "url64": string.ascii_letters + string.digits + "-_",
}


@dataclass(frozen=True)
class Mark:
    """What [start, end) of a text is. `optional`: neither personal data nor plain."""

    start: int
    end: int
    type: str
    optional: bool


@dataclass(frozen=True)
class Marked:
    """A text, its language, and its marks in order."""

    text: str
    language: str
    marks: tuple[Mark, ...]


def names() -> list[str]:
    """Return the names of the files."""
    return sorted(path.stem for path in FOLDER.glob("*.txt"))


def read(name: str) -> list[Marked]:
    """Return the texts of a file, always with the same random characters. Raises ValueError for an unknown type."""
    drawn = random.Random(name)
    blocks = re.split(r"^---\n", (FOLDER / f"{name}.txt").read_text(encoding="utf-8"), flags=re.MULTILINE)
    default = name if name in LANGUAGES else "en"
    return [parse(block.strip("\n"), default, drawn) for block in blocks if block.strip()]


def parse(block: str, language: str, drawn: random.Random) -> Marked:
    """Return the text of a block. Raises ValueError for an unknown type or a mark that does not end."""
    if own := _LANGUAGE.match(block):
        language, block = own[1], block[own.end() :]
    block = _RANDOM.sub(lambda found: "".join(drawn.choices(_CHARACTERS[found[1]], k=int(found[2]))), block)
    block = _NUMBERED.sub(lambda found: chr(int(found[1], 16)), block)
    text, marks = "", []
    for plain, inside, kind, optional in _pieces(block):
        text += plain
        if kind:
            if kind not in TYPES:
                raise ValueError(f"{kind} is not a type. Types: {', '.join(sorted(TYPES))}.")
            marks.append(Mark(len(text), len(text) + len(inside), kind, optional))
            text += inside
        elif re.search(r"\[\[[A-Z_]+:", plain):
            raise ValueError(f"A mark does not end: {plain[-80:]!r}")
    return Marked(text, language, tuple(marks))


def _pieces(block: str) -> Iterator[tuple[str, str, str, bool]]:
    end = 0
    for found in _MARK.finditer(block):
        yield block[end : found.start()], (found[2] or found[4]).replace("{}", ""), found[1] or found[3], not found[1]
        end = found.end()
    yield block[end:], "", "", False
