"""Recall and precision of the entity types that a number or a code identifies, on generated texts in eight languages.

    python -m benchmarks.entities [--rounds 20] [--seed 1] [--misses 0]

Positives: each value stands in a sentence of `entity_sentences.toml`; three sentences for each type and language, and
`--rounds` values for each sentence. Numbers of countries are valid by python-stdnum. Negatives: as many texts without
any such value (`entity_values.Values.negatives`). All default entities that patterns find run on every text.

recall: the share of values that finds of their type cover whole. hidden: that finds of any type cover whole. precision:
the share of a type's finds that touch a value of this type. Sentences and recognisers have one author, so that real
text, above all its labels, is harder than these figures say.
"""

from __future__ import annotations

import argparse
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.entity_values import NUMBERS, TAX_NUMBERS, Values
from core.text import mask_entity
from core.text.mask_words import AllowLists
from core.text.masks import union
from core.text.policy import ENTITIES, Mask, MaskPolicy

MEASURED = tuple(name for name, entity in ENTITIES.items() if entity.by_words)
SENTENCES = Path(__file__).with_name("entity_sentences.toml")


class Case(NamedTuple):
    """A text, and the value in it: its type and place. A negative has the type `none`."""

    text: str
    kind: str
    start: int
    end: int
    group: str


def case(sentence: str, value: str, kind: str, group: str) -> Case:
    start = sentence.index("{}")
    return Case(sentence.replace("{}", value), kind, start, start + len(value), group)


def positives(values: Values, rounds: int) -> Iterator[Case]:
    for kind, languages in tomllib.loads(SENTENCES.read_text(encoding="utf-8")).items():
        for language, sentences in languages.items():
            for number, sentence in enumerate(sentences):
                for _ in range(rounds):
                    yield case(sentence, values.of(kind, language, number), kind, language)


def of_countries(values: Values, rounds: int) -> Iterator[Case]:
    for kind, rows in (("NATIONAL_ID", NUMBERS), ("TAX_ID", TAX_NUMBERS)):
        for country, name, module, form in rows:
            for number in range(rounds):
                sentence = (f"{name}: {{}}", f"The form gives the {name} as {{}}, signed.")[number % 2]
                yield case(sentence, values.valid(module, form), kind, f"{country} {name}")


def covers(masks: Sequence[Mask], each: Case) -> bool:
    return any(mask.start <= each.start and mask.end >= each.end for mask in masks)


def measure(cases: Sequence[Case], misses: int) -> None:
    policy, lists = MaskPolicy(), AllowLists()
    total, found, hidden, finds, wrong = (Counter[str]() for _ in range(5))
    groups: dict[str, Counter[str]] = {}
    shown: Counter[str] = Counter()
    for each in cases:
        masks = union(mask_entity.find(each.text, (), policy, lists))
        own = [mask for mask in masks if mask.type == each.kind]
        recalled = covers(own, each)
        total[each.kind] += 1
        found[each.kind] += recalled
        hidden[each.kind] += covers(masks, each)
        groups.setdefault(each.group, Counter()).update(total=1, hidden=covers(masks, each))
        for mask in masks:
            finds[mask.type] += 1
            strange = mask.type != each.kind or mask.end <= each.start or mask.start >= each.end
            wrong[mask.type] += strange
            if strange and mask.type in MEASURED and shown[f"false {mask.type}"] < misses:
                shown[f"false {mask.type}"] += 1
                print("false", mask.type, each.text[mask.start : mask.end], "|", each.text)
        if each.kind != "none" and not recalled and shown[each.kind] < misses:
            shown[each.kind] += 1
            print("missed", each.kind, [mask.type for mask in masks], each.text)
    print(f"{'type':<26}{'values':>8}{'recall':>8}{'hidden':>8}{'finds':>8}{'prec.':>8}")
    for kind in [name for name in total if name != "none"]:
        precision = 1 - wrong[kind] / finds[kind] if finds[kind] else 0.0
        recall, hide = found[kind] / total[kind], hidden[kind] / total[kind]
        print(f"{kind:<26}{total[kind]:>8}{recall:>8.3f}{hide:>8.3f}{finds[kind]:>8}{precision:>8.3f}")
    low = {name: f"{c['hidden'] / c['total']:.2f}" for name, c in groups.items() if c["hidden"] < c["total"]}
    print("hidden, by language or country, where below 1:", low)


def false_finds(texts: Sequence[str]) -> None:
    policy, lists = MaskPolicy(), AllowLists()
    count = Counter(mask.type for text in texts for mask in union(mask_entity.find(text, (), policy, lists)))
    print(f"finds in {len(texts)} texts without such values: {dict(count.most_common())}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="values for each sentence")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--misses", type=int, default=0, help="print so many misses of each type")
    options = parser.parse_args()
    values = Values(options.seed)
    known = list(positives(values, options.rounds))
    negatives = [Case(text, "none", 0, 0, "none") for text in values.negatives(len(known))]
    print("Sentences in eight languages, and as many negatives")
    measure(known + negatives, options.misses)
    print("\nNumbers of countries")
    measure(list(of_countries(values, options.rounds)), options.misses)
    false_finds([each.text for each in negatives])


if __name__ == "__main__":
    main()
