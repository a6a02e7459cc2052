"""Names, places and organisations of one language, for training the entity tagger.

They come from the lists of the language's file (`text_files`), from faker's locales of its countries, and from the
pools of all countries (`names.Names`), because a text names people and places of anywhere.
"""

import random
from collections.abc import Callable

from faker import Faker

from training.names import Names
from training.text_files import Entry, TextFile, form

LOCALES: dict[str, tuple[str, ...]] = {
    "en": ("en_US", "en_GB", "en_IE", "en_AU", "en_CA", "en_IN", "en_NZ"),
    "de": ("de_DE", "de_AT", "de_CH"),
    "fr": ("fr_FR", "fr_BE", "fr_CH", "fr_CA"),
    "es": ("es_ES", "es_MX", "es_AR", "es_CO", "es_CL"),
    "it": ("it_IT",),
    "nl": ("nl_NL", "nl_BE"),
    "pt": ("pt_BR", "pt_PT"),
    "pl": ("pl_PL",),
}
_POOL = 600
_PARTICLES = ("de", "d'", "del", "della", "di", "van", "von", "zu", "da", "do", "dos", "la", "le")


class LocalNames:
    """The methods draw with the caller's generator. `case`: the grammatical case, where the lists have forms."""

    def __init__(self, language: str, file: TextFile, world: Names, seed: int) -> None:
        self.language = language
        self._world = world
        self._women = file.entries("first_f")
        self._men = file.entries("first_m")
        self._nicknames = file.entries("nickname")
        self._last = file.entries("last")
        self._last_women = file.entries("last_f") or self._last
        self._last_men = file.entries("last_m") or self._last
        self._cities = file.entries("city")
        self._countries = file.entries("country")
        self._places = file.entries("place")
        self._orgs = file.entries("org")
        self._streets = file.entries("street_name")
        Faker.seed(seed)
        fakers = [Faker(locale) for locale in LOCALES[language]]
        pool = [fakers[number % len(fakers)] for number in range(_POOL)]
        self._pool = {
            "first": [fake.first_name() for fake in pool],
            "last": [fake.last_name() for fake in pool],
            "address": [fake.address() for fake in pool],
            "street": [fake.street_address() for fake in pool],
            "city": [fake.city() for fake in pool],
            "org": [fake.company() for fake in pool],
        }

    def _drawn(
        self, own: tuple[Entry, ...], case: str, pool: str, other: Callable[[random.Random], str], rng: random.Random
    ) -> str:
        draw = rng.random()
        if own and (case != "nom" or draw < 0.6):
            return form(rng.choice(own), case)
        return rng.choice(self._pool[pool]) if pool and draw < 0.85 else other(rng)

    def first(self, rng: random.Random, case: str = "nom", *, woman: bool | None = None) -> str:
        if case == "nom" and woman is None and self._nicknames and rng.random() < 0.18:
            return form(rng.choice(self._nicknames), case)
        woman = rng.random() < 0.5 if woman is None else woman
        return self._drawn(self._women if woman else self._men, case, "first", self._world.first, rng)

    def speaker(self, rng: random.Random, case: str = "nom") -> str:
        """Draw a first name or nickname in small letters, sometimes shortened, as people write it in chats."""
        name = self.first(rng, case).lower()
        return name[: rng.randrange(3, 5)] if case == "nom" and rng.random() < 0.15 else name

    def last(self, rng: random.Random, case: str = "nom", *, woman: bool | None = None) -> str:
        woman = rng.random() < 0.5 if woman is None else woman
        own = (self._last_women if woman else self._last_men) or self._last
        return self._drawn(own, case, "last", self._world.last, rng)

    def person(self, rng: random.Random, case: str = "nom") -> str:
        """Draw a name in one of the forms of real texts: complete, initials, two surnames, one part."""
        woman = rng.random() < 0.5
        first, last = self.first(rng, case, woman=woman), self.last(rng, case, woman=woman)
        draw = rng.random()
        if case != "nom" or draw < 0.66:
            return f"{first} {last}"
        if draw < 0.70:
            return f"{first[0]}. {last}"
        if draw < 0.73:
            return f"{first} {rng.choice('ABCDEFGHJKLMNPRSTW')}. {last}"
        if draw < 0.77:
            return f"{first} {self.first(rng, woman=woman)} {last}"
        if draw < 0.81:
            return f"{first} {last}-{self.last(rng, woman=woman)}"
        if draw < 0.84:
            return f"{first}-{self.first(rng, woman=woman)} {last}"
        if draw < 0.90 and self.language in ("es", "pt"):
            return f"{first} {last} {rng.choice(['', '', 'de ', 'da ', 'y '])}{self.last(rng)}"
        if draw < 0.94:
            return f"{first} {rng.choice(_PARTICLES)} {last}".replace("' ", "'")
        return self._world.person(rng) if draw < 0.97 else rng.choice([first, last])

    def city(self, rng: random.Random, case: str = "nom") -> str:
        return self._drawn(self._cities, case, "city", self._world.city, rng)

    def country(self, rng: random.Random, case: str = "nom") -> str:
        return form(rng.choice(self._countries), case) if self._countries else self._world.country(rng)

    def place(self, rng: random.Random, case: str = "nom") -> str:
        draw = rng.random()
        if draw < 0.45:
            return self.city(rng, case)
        if draw < 0.65:
            return self.country(rng, case)
        return self._drawn(self._places, case, "", self._world.place, rng)

    def street(self, rng: random.Random) -> str:
        """Draw a street, mostly with a number, in the order of the language."""
        if self._streets and rng.random() < 0.2:
            return form(rng.choice(self._streets), "nom")
        if not self._streets or rng.random() < 0.3:
            return rng.choice(self._pool["street"]).replace("\n", ", ")
        name = form(rng.choice(self._streets), "nom")
        number = f"{rng.randrange(1, 250)}{rng.choice(['', '', '', 'a', 'B', f'-{rng.randrange(2, 9)}', ' bis'])}"
        if self.language in ("en", "fr"):
            return f"{number}{rng.choice([' ', ' ', ', '])}{name}"
        if self.language == "pl":
            flat = rng.choice(["", "", f"/{rng.randrange(1, 90)}", f" m. {rng.randrange(1, 90)}"])
            return f"{name} {number}{flat}"
        if self.language in ("es", "pt", "it"):
            return f"{name}{rng.choice([', ', ' ', ', n.º ', ' nº '])}{number}"
        return f"{name} {number}"

    def address(self, rng: random.Random) -> str:
        """Draw a postal address of one or more lines."""
        draw = rng.random()
        if draw < 0.3:
            return rng.choice([", ", "\n"]).join(rng.choice(self._pool["address"]).split("\n"))
        if draw < 0.36 or self.language == "en":
            return self._world.address(rng)
        town = self._town(rng)
        country = f"{rng.choice([', ', chr(10)])}{self.country(rng)}" if rng.random() < 0.12 else ""
        return f"{self.street(rng)}{rng.choice([', ', ', ', chr(10), ' - ', ' '])}{town}{country}"

    def _town(self, rng: random.Random) -> str:
        city, code = self.city(rng), f"{rng.randrange(10_000, 99_999)}"
        if self.language == "nl":
            code = (
                f"{rng.randrange(1000, 9999)}{rng.choice([' ', ''])}{''.join(rng.choices('ABCDEGHJKLMNPRSTVX', k=2))}"
            )
        elif self.language == "pl":
            code = f"{code[:2]}-{code[2:]}"
        elif self.language == "pt":
            if rng.random() < 0.4:
                return f"{city} - {rng.choice(['SP', 'RJ', 'MG', 'BA', 'RS', 'PR', 'PE'])}, {code}-{code[:3]}"
            code = f"{code[:4]}-{code[1:4]}"
        elif self.language == "it" and rng.random() < 0.5:
            return f"{code} {city} ({rng.choice(['MI', 'RM', 'TO', 'NA', 'BO', 'FI', 'BA', 'VR'])})"
        elif self.language == "de" and rng.random() < 0.15:
            return f"{rng.choice(['A-', 'CH-', 'D-'])}{code[:4]} {city}"
        return f"{code} {city}"

    def organisation(self, rng: random.Random, case: str = "nom") -> str:
        return self._drawn(self._orgs, case, "org", self._world.organisation, rng)

    def team(self, rng: random.Random) -> str:
        return self._world.team(rng)

    def of(self, kind: str, rng: random.Random) -> str:
        """A name of type PERSON, LOCATION or ORGANIZATION."""
        makers = {"PERSON": self.person, "LOCATION": self.place, "ORGANIZATION": self.organisation}
        return makers[kind](rng)
