"""What a sanitising policy takes away, and what it leaves of who a text is about.

Attributes are what the profile `anonymise` finds in the original, in groups such as age, place and occupation. An
attribute survives if one of its values still stands in the output as whole words, in any case. So a value that the
recognisers never find does not count: the figures are of what is known to be there, and no bound on what an attacker
can infer.

A person is unique if no other evaluated person has the same surviving values. Where the rows name no persons, each text
is a person.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from core.text.policy import (
    BIRTH,
    CONTACT,
    PLACES,
    Sanitised,
)
from gpu_workers.engine.handler import Handler
from gpu_workers.evaluation.corpus import run
from gpu_workers.evaluation.spec import Texts
from gpu_workers.evaluation.utility import Estimate
from gpu_workers.handlers.sanitize_tasks import DocumentTask

ORDINARY_ZIPF = 4.0  # of a word: ten times in a million words
_STEP_TEXTS = 50  # between two reports of progress
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")

# the group of each type; any other type is a number or a code
GROUPS = {
    "name": ("PERSON", "USERNAME"),
    "contact": (*CONTACT, "URL", "IP_ADDRESS"),
    "place": ("LOCATION", *PLACES),
    "organisation": ("ORGANIZATION", "AFFILIATION"),
    "age": ("AGE", *BIRTH),
    "date": ("DATE_TIME", "YEAR", "DURATION"),
    "nationality": ("NATIONALITY",),
    "occupation": ("OCCUPATION",),
    "family": ("RELATIONSHIP",),
    "education": ("EDUCATION",),
    "quantity": ("QUANTITY",),
}
NUMBERS = "number or code"
_GROUP_OF = {entity: group for group, entities in GROUPS.items() for entity in entities}


@dataclass(frozen=True)
class Attribute:
    """How many texts have such an attribute, and in how many outputs one of its values stands."""

    name: str
    texts: int
    surviving: int


@dataclass(frozen=True)
class Masking:
    """One policy. `masked`: the share of all words. `ordinary_lost`: the share of ordinary words, which are written in
    small letters and are frequent in the language of their text. `accuracy_before`, `accuracy_after`: of a linear
    classifier that is trained and tested on the originals and on the outputs. `unique`, `bare`: the shares of persons
    with a surviving combination that nobody else has, and of whom nothing survives."""

    name: str
    masked: float
    ordinary_lost: float
    finds: tuple[tuple[str, int], ...]
    accuracy_before: Estimate
    accuracy_after: Estimate
    attributes: tuple[Attribute, ...]
    persons: int
    unique: float
    bare: float


Values = dict[str, set[str]]  # by group, in small letters


def values_of(texts: Sequence[str], finds: Sequence[Sanitised]) -> list[Values]:
    """What was found in each original, by group."""
    found: list[Values] = []
    for text, result in zip(texts, finds, strict=True):
        own: Values = defaultdict(set)
        for span, origin in zip(result.spans, result.origins or (), strict=True):
            own[_GROUP_OF.get(span.type, NUMBERS)].add(text[origin.start : origin.end].casefold())
        found.append(own)
    return found


def surviving(values: Values, output: str) -> Values:
    """The values that stand in the output."""
    low = output.casefold()
    stands = {group: {value for value in own if _stands(value, low)} for group, own in values.items()}
    return {group: own for group, own in stands.items() if own}


def _stands(value: str, low: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", low) is not None


def ordinary_lost(text: str, output: str, language: str | None) -> tuple[int, int]:
    """Return how many ordinary words of the text the output has no more, and how many there are."""
    words = Counter(word for word in _WORD.findall(text) if is_ordinary(word, language or "en"))
    left = words - Counter(_WORD.findall(output))
    return left.total(), words.total()


@lru_cache(maxsize=1 << 16)
def is_ordinary(word: str, language: str) -> bool:
    """Whether a word is written in small letters and is frequent (wordfreq), of two letters at least."""
    from wordfreq import zipf_frequency  # its lists take a second to load

    try:
        return word.islower() and len(word) > 1 and zipf_frequency(word, language) >= ORDINARY_ZIPF
    except LookupError:  # a language without a list
        return False


def sanitised(
    handler: Handler, task: DocumentTask, texts: Sequence[str], shown: Callable[[float], None]
) -> list[Sanitised]:
    """Run a policy on all texts. Raises JobFailed."""
    found: list[Sanitised] = []
    for start in range(0, len(texts), _STEP_TEXTS):
        found += run(handler, [replace(task, text=text) for text in texts[start : start + _STEP_TEXTS]])
        shown(len(found) / len(texts))
    return found


def measured(
    name: str,
    texts: Texts,
    values: Sequence[Values],
    results: Sequence[Sanitised],
    before: Estimate,
    after: Estimate,
) -> Masking:
    """Compare the outputs with the originals. `values`: what was found in each. `before`, `after`: the accuracies."""
    outputs = [result.text for result in results]
    pairs = list(zip(texts.texts, results, strict=True))
    counts = [ordinary_lost(text, result.text, result.language) for text, result in pairs]
    lost, ordinary = (sum(column) for column in zip(*counts, strict=True))
    left = [surviving(own, output) for own, output in zip(values, outputs, strict=True)]
    groups = [*GROUPS, NUMBERS]
    attributes = [
        Attribute(each, sum(each in own for own in values), sum(each in own for own in left)) for each in groups
    ]
    persons: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for number, own in enumerate(left):
        person = texts.persons[number] if texts.persons else str(number)
        persons[person] |= {(group, value) for group, each in own.items() for value in each}
    combinations = Counter(frozenset(each) for each in persons.values())
    unique = sum(times for each, times in combinations.items() if each and times == 1)
    return Masking(
        name,
        sum(result.masked_tokens for result in results) / max(1, sum(result.tokens for result in results)),
        lost / max(1, ordinary),
        tuple(sum((result.spans.types() for result in results), Counter()).most_common()),
        before,
        after,
        tuple(attribute for attribute in attributes if attribute.texts),
        len(persons),
        unique / len(persons),
        combinations[frozenset()] / len(persons),
    )
