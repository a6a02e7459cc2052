"""Reads the marked texts, and counts what masks hide of them.

A file holds texts that a line `---` separates. `[[TYPE:text]]` marks personal data. `{{TYPE:text}}` marks what people
would judge differently: it counts neither as personal data nor as plain. Everything else is plain. A first line `@de`
names the language of a text in a file that is not of one language.

`{hex:40}` stands for 40 random characters, so that no file holds what a scanner would take for a live key. `{}` inside
a mark is the empty string, and `\\u{200b}` is the character with that number.

A word is a maximal run of letters and digits. A word that touches a mark of personal data belongs to it and is hidden
if every character is masked, by any type. Other words that touch an optional mark do not count. The remaining words are
plain, and are masked if any character is.
"""

import random
import re
import string
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.sanitising.finders import Find
from core.text.segment import visible

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

_WORD = re.compile(r"[^\W_]+")
_CONTEXT = 40
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


def shown(marked: Marked) -> Marked:
    """Return the text as recognisers read it, without invisible characters inside words, with its marks moved."""
    text = visible(marked.text)
    places = [0]  # how many shown characters precede each character of the original
    for character in marked.text:
        kept = places[-1] < len(text) and text[places[-1]] == character
        places.append(places[-1] + kept)
    marks = (replace(mark, start=places[mark.start], end=places[mark.end]) for mark in marked.marks)
    return replace(marked, text=text, marks=tuple(marks))


def _pieces(block: str) -> Iterator[tuple[str, str, str, bool]]:
    end = 0
    for found in _MARK.finditer(block):
        yield block[end : found.start()], (found[2] or found[4]).replace("{}", ""), found[1] or found[3], not found[1]
        end = found.end()
    yield block[end:], "", "", False


@dataclass
class Figures:
    """Counts of a file; `plain_masked` by type of mask. `missed` and `wrong` describe the mistakes."""

    texts: int = 0
    without_finds: int = 0
    masks: int = 0
    plain: int = 0
    plain_masked: Counter[str] = field(default_factory=Counter)
    cut: int = 0
    loose: int = 0
    words: Counter[str] = field(default_factory=Counter)
    words_hidden: Counter[str] = field(default_factory=Counter)
    finds: Counter[str] = field(default_factory=Counter)
    finds_hidden: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    edges: list[str] = field(default_factory=list)

    def add(self, marked: Marked, masks: Sequence[Find]) -> None:
        """Count a text whose masks have positions of `marked.text`."""
        text = marked.text
        finds = [mark for mark in marked.marks if not mark.optional]
        optional = [mark for mark in marked.marks if mark.optional]
        masked = {place for mask in masks for place in range(mask.start, mask.end)}
        whole = dict.fromkeys(finds, True)
        self.texts += 1
        self.without_finds += not finds
        for word in _WORD.finditer(text):
            start, end = word.span()
            places = range(start, end)
            owner = next((mark for mark in finds if mark.start < end and start < mark.end), None)
            if owner:
                # Personal data may end inside a word: "user_id=1234x", "Anna's" in some scripts.
                hidden = masked.issuperset(range(max(start, owner.start), min(end, owner.end)))
                self.words[owner.type] += 1
                self.words_hidden[owner.type] += hidden
                whole[owner] &= hidden
            elif not any(mark.start < end and start < mark.end for mark in optional):
                self.plain += 1
                if not masked.isdisjoint(places):
                    kind = next(mask.type for mask in masks if mask.start < end and start < mask.end)
                    self.plain_masked[kind] += 1
                    self.wrong.append(f"{kind}: {_around(text, start, end)}")
        for mark, hidden in whole.items():
            self.finds[mark.type] += 1
            self.finds_hidden[mark.type] += hidden
            if not hidden:
                self.missed.append(f"{mark.type}: {_around(text, mark.start, mark.end)}")
        self._count_edges(text, masks, marked.marks)

    def _count_edges(self, text: str, masks: Sequence[Find], marks: Sequence[Mark]) -> None:
        starts, ends = {mark.start for mark in marks}, {mark.end for mark in marks}
        for mask in masks:
            first, last = mask.start not in starts, mask.end not in ends
            cut = (first and text[max(0, mask.start - 1) : mask.start + 1].isalnum() and mask.start > 0) or (
                last and mask.end < len(text) and text[mask.end - 1 : mask.end + 1].isalnum()
            )
            loose = (first and not text[mask.start].isalnum()) or (last and not text[mask.end - 1].isalnum())
            self.masks += 1
            self.cut += cut
            self.loose += loose
            if cut or loose:
                self.edges.append(f"{mask.type}: {_around(text, mask.start, mask.end)}")


def _around(text: str, start: int, end: int) -> str:
    shown = f"{text[max(0, start - _CONTEXT) : start]}>>{text[start:end]}<<{text[end : end + _CONTEXT]}"
    return shown.replace("\n", " | ")
