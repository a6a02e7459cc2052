"""What the surrogates of one document have in common: the key, the language, the names and the shift of dates.

It is computed once for a document (`core.text.surrogates.document`), and passed in bytes to the tasks that draw parts.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

DAYS_MIN = 61


@dataclass(frozen=True)
class NameBook:
    """Part of a name in small letters -> surrogate. Adjectival Polish surnames are in the masculine form. `initials`:
    surname and initial -> the initial of the given name's surrogate. `mail`: parts without accents, for user names."""

    given: dict[str, str] = field(default_factory=dict)
    surnames: dict[str, str] = field(default_factory=dict)
    initials: dict[str, str] = field(default_factory=dict)
    mail: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DateShift:
    """`minutes`: of times of day without a date. `day_first`: the order of the document's numeric dates, if one of them
    shows it."""

    days: int = DAYS_MIN
    minutes: int = DAYS_MIN
    day_first: bool | None = None


@dataclass(frozen=True)
class Document:
    """`strings`: all masked strings, casefolded. Neither they nor the key are in `repr`."""

    key: bytes = field(repr=False)
    language: str
    strings: frozenset[str] = field(default=frozenset(), repr=False)
    names: NameBook = field(default_factory=NameBook, repr=False)
    dates: DateShift = field(default_factory=DateShift, repr=False)

    def packed(self) -> bytes:
        return json.dumps(
            {
                "key": self.key.hex(),
                "language": self.language,
                "strings": sorted(self.strings),
                "names": asdict(self.names),
                "dates": asdict(self.dates),
            }
        ).encode()

    @classmethod
    def unpacked(cls, packed: bytes) -> Document:
        read = json.loads(packed)
        return cls(
            bytes.fromhex(read["key"]),
            read["language"],
            frozenset(read["strings"]),
            NameBook(**read["names"]),
            DateShift(**read["dates"]),
        )
