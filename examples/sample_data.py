"""The data of the examples: mails, tickets and a table, composed at random from sentences in `data/`.

Nothing in them comes from a real person. The same `seed` gives the same data. The sentences of a topic are few and
short, so figures measured on them show how a method is used, not how well it does on your texts.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Text:
    """A text as its sentences, and the topic or queue that it is about."""

    label: str
    sentences: list[str]


@dataclass(frozen=True)
class Query:
    text: str
    label: str


@dataclass(frozen=True)
class PersonalTicket:
    """A ticket with the personal data that stand in it."""

    text: str
    personal: list[str]


def mailbox(count: int, *, seed: int = 1) -> tuple[list[Text], list[Query]]:
    """Mails of nine sentences, six of them about the mail's topic, and two queries for each topic."""
    source = _source("mailbox.json")
    topics: dict[str, dict[str, list[str]]] = source["topics"]
    draw = random.Random(seed)
    mails = []
    for number in range(count):
        label = list(topics)[number % len(topics)]
        about = draw.sample(topics[label]["sentences"], 6)
        other = draw.sample(source["small_talk"], 3)
        mails.append(Text(label, _written([other[0], *about, *other[1:]], source, draw)))
    draw.shuffle(mails)
    return mails, [Query(text, label) for label, topic in topics.items() for text in topic["queries"]]


def tickets(count: int, *, sentences: int = 8, seed: int = 2) -> list[Text]:
    """Support tickets. Half of the sentences are about the ticket's queue, a quarter about another queue."""
    source = _source("tickets.json")
    queues: dict[str, list[str]] = source["queues"]
    draw = random.Random(seed)
    made = []
    for number in range(count):
        label = list(queues)[number % len(queues)]
        other = draw.choice([name for name in queues if name != label])
        chosen = draw.sample(queues[label], sentences // 2) + draw.sample(queues[other], sentences // 4)
        chosen += draw.sample(source["small_talk"], sentences - len(chosen))
        draw.shuffle(chosen)
        made.append(Text(label, _written(chosen, source, draw)))
    draw.shuffle(made)
    return made


def labels_of_tickets() -> list[str]:
    return list(_source("tickets.json")["queues"])


def personal_tickets() -> list[PersonalTicket]:
    lines = (DATA / "personal_tickets.jsonl").read_text(encoding="utf-8").splitlines()
    return [PersonalTicket(**json.loads(line)) for line in lines]


def members(count: int, *, seed: int = 3) -> list[dict[str, Any]]:
    """Members of a sports club. Who comes often or lives near renews; a short contract makes distance matter more."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        contract = draw.choices(["monthly", "yearly", "student"], [5, 3, 2])[0]
        age = round(
            min(max(draw.gauss(24 if contract == "student" else 44, 4 if contract == "student" else 13), 16), 90)
        )
        visits = min(round(draw.expovariate(1 / 5)), 30)
        distance = min(round(draw.lognormvariate(1.2, 0.7), 1), 40.0)
        leaning = 0.35 * visits - (0.5 if contract == "monthly" else 0.15) * distance
        leaning += {"monthly": -0.6, "yearly": 0.9, "student": -0.2}[contract] + draw.gauss(0, 1)
        renews = "yes" if leaning > 0 else "no"
        rows.append({"age": age, "visits": visits, "distance_km": distance, "contract": contract, "renews": renews})
    return rows


MEMBERS_SCHEMA: dict[str, Any] = {
    "columns": [
        {"name": "age", "kind": "numeric", "minimum": 16, "maximum": 90, "integer": True},
        {"name": "visits", "kind": "numeric", "minimum": 0, "maximum": 30, "integer": True},
        {"name": "distance_km", "kind": "numeric", "minimum": 0, "maximum": 40},
        {"name": "contract", "kind": "categorical", "categories": ["monthly", "yearly", "student"]},
    ],
    "label": {"name": "renews", "kind": "categorical", "categories": ["no", "yes"]},
}


def _source(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / name).read_text(encoding="utf-8"))
    return found


def _written(templates: list[str], source: dict[str, Any], draw: random.Random) -> list[str]:
    """The sentences with names, days and numbers in their places."""
    places = ("name", "day", "month", "number", "city")
    return [
        each.format_map({name: draw.choice(source[name]) for name in places if name in source}) for each in templates
    ]
