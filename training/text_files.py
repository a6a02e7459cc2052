"""The files of `texts/`: sentences with slots, sentences without names, and lists of names, for each language.

A file has sections. `[templates]` and `[plain]` hold one text a line, with `\\n` for a line break. Every other section
is a list with semicolons between its entries. An entry may have seven forms with `|` between them: nominative,
genitive, dative, accusative, instrumental, locative, vocative.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "texts"
CASES = ("nom", "gen", "dat", "acc", "ins", "loc", "voc")
_LINES = ("templates", "plain")

Entry = tuple[str, ...]  # one form, or one for each of `CASES`


@dataclass(frozen=True)
class TextFile:
    templates: tuple[str, ...]
    plain: tuple[str, ...]
    lists: dict[str, tuple[Entry, ...]]

    def entries(self, *names: str) -> tuple[Entry, ...]:
        """Return the entries of the lists of these names, as one list."""
        return tuple(entry for name in names for entry in self.lists.get(name, ()))


@cache
def read(name: str) -> TextFile:
    """Return the file `name`.txt. Raises ValueError for an entry with a wrong number of forms."""
    sections: dict[str, list[str]] = {}
    own: list[str] = []
    for line in (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("[") and line.endswith("]") and line[1:-1].isidentifier():
            own = sections.setdefault(line[1:-1], [])
        elif line.strip() and not line.startswith("#"):
            own.append(line)
    texts = {name: tuple(line.replace("\\n", "\n") for line in sections.pop(name, ())) for name in _LINES}
    lists = {
        name: tuple(_entry(part) for line in lines for part in line.split(";") if part.strip())
        for name, lines in sections.items()
    }
    return TextFile(texts["templates"], texts["plain"], lists)


def _entry(text: str) -> Entry:
    forms = tuple(form.strip() for form in text.strip().split("|"))
    if len(forms) not in (1, len(CASES)):
        raise ValueError(f"an entry has 1 or {len(CASES)} forms")
    return forms


def form(entry: Entry, case: str) -> str:
    """Return the entry in a case, or its only form."""
    return entry[CASES.index(case)] if len(entry) > 1 else entry[0]
