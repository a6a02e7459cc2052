"""The share of 200 answers that is restored: 5 languages, 5 persons each, the forms in which models write names."""

import html
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import quote, quote_plus, unquote

from core.text.reversible.conversation import Region, mask_conversation

SHARE_MIN = 0.995
PERSONS = {
    "en": ["Emily Carter", "James O'Connor", "Grace Hill", "Oliver Bennett", "Charlotte Davies"],
    "de": ["Anna Schneider", "Jürgen Groß", "Lena Müller-Lüdenscheidt", "Karl von Bergen", "Sabine Köhler"],
    "es": ["Lucía García", "José Núñez", "Carmen Ortega", "Pablo Iglesias", "Inés Peña"],
    "fr": ["Élodie Lefèvre", "Jean-Luc Moreau", "Camille d'Aubigny", "Hervé Dupont", "Zoé Garnier"],
    "pl": ["Anna Kowalska", "Jan Wiśniewski", "Barbara Zielińska", "Tomasz Lewandowski", "Ewa Kamińska"],
}
_MARKDOWN = str.maketrans({char: f"\\{char}" for char in "_-.'"})


class Name(NamedTuple):
    """`masked`: the surrogate, by whose last letter a model chooses an ending."""

    full: str
    masked: str

    @property
    def first(self) -> str:
        return self.full.split()[0]

    @property
    def last(self) -> str:
        return self.full.split()[-1]

    def with_s(self, part: int) -> str:
        """Return a part with the ending of a genitive or plural, if the surrogate and the name can have it."""
        own = self.full.split()[part]
        return own if own[-1] in "sxzß" or self.masked.split()[part][-1] in "sxzß" else own + "s"


Answer = Callable[[Name, Name], str]
COMMON: list[Answer] = [
    lambda a, b: f"{a.full} wrote to {b.full}. Marginal notes by Mariano Webster-Smythe stay as they are.",
    lambda a, b: f"**{a.full}** and _{b.last}_: see `{a.first}`, \"{b.full}\", ({a.last}); will, mark and grace.",
    lambda a, b: f"# {a.full.upper()}\n\n* {b.last.upper()}: 12\n* total: 12",
    lambda a, b: f"{a.first}'s plan, {b.last}’s answer and {a.full}'s reply.",
    lambda a, b: f"<li>{html.escape(a.full)}</li><li>{html.escape(b.full).replace(' ', '&nbsp;')}</li>",
    lambda a, b: f"https://example.com/?q={quote(a.full)}&by={quote_plus(b.full)}",
    lambda a, b: f"- {a.full.translate(_MARKDOWN)} / {b.last.translate(_MARKDOWN)}",
    lambda a, b: f"{a.last}, {a.first}; {b.last}, {b.first}",
]  # fmt: skip
OWN: dict[str, Answer] = {
    "en": lambda a, b: f"Invite the {a.with_s(-1)}, not {b.with_s(0)} friends.",
    "de": lambda a, b: f"Das ist {a.with_s(0)} Buch, und {b.with_s(0)} auch.",
    "es": lambda a, b: f"¿Dónde está {a.full}? ¡{b.first} no lo sabe!",
    "fr": lambda a, b: f"L'avis d'{a.full} et l'accord de {b.last}.",
    "pl": lambda a, b: (
        f"Spotkałem {a.last[:-1]}iego." if a.last[-1] == "i" else f"Widzę {a.first[:-1]}ę {a.last[:-1]}ą i {b.full}."
    ),
}
PAIRS = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]


def read(text: str) -> str:
    """Return a text as a reader sees it. Whether an apostrophe is escaped does not count: a surrogate without one does
    not show it."""
    return html.unescape(unquote(text)).replace("\\", "")


def test_the_share_of_restored_answers() -> None:
    total = restored = wrong = 0
    for language, names in PERSONS.items():
        text = ", ".join(names)
        found = [Region(text.index(name), text.index(name) + len(name), "PERSON") for name in names]
        done = mask_conversation([text], [found], key=b"k" * 32, language=language)
        fresh = done.texts[0].split(", ")
        distractors = "Marginal notes by Mariano Webster-Smythe stay as they are. will, mark and grace. Total: 12"
        assert done.mapping.restore(distractors) == distractors
        for first, second in PAIRS:
            own = [Name(names[each], fresh[each]) for each in (first, second)]
            other = [Name(fresh[each], fresh[each]) for each in (first, second)]
            for answer in (*COMMON, OWN[language]):
                masked, expected = answer(*other), answer(*own)
                result = done.mapping.restore(masked)
                restorer = done.mapping.restorer()
                assert "".join(map(restorer.feed, masked)) + restorer.end() == result
                total += 1
                restored += read(result) == read(expected)
                left = any(part in result for name in fresh for part in name.split() if part[0].isupper())
                wrong += read(result) != read(expected) and not left
    print(f"{total} answers, {restored} restored, {wrong} wrong")
    assert total >= 200
    assert wrong == 0
    assert restored >= SHARE_MIN * total
