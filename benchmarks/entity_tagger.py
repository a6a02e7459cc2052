"""How well and how fast the entity tagger finds names.

    python -m benchmarks.entity_tagger --data DATA [--adapter FILE | --model FOLDER]

DATA holds `ner/` (CoNLL-2003 testa and WNUT17's development part; words with labels) and `pii/`
(texts with typed spans). Words: micro-F1 over the three types, and the share of each type's words that any entity
covers. Spans: a labelled span is found when entities of its type cover at least `COVER` of it, hidden when entities
of any type do; an entity that touches no span of its type is a false positive. F2 weighs recall over precision.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path

from gpu_workers.models.tagger import Entity, EntityTagger, embedded_tagger, pretrained_tagger
from training import ner_corpora
from training.public_text import json_lines

COVER = 0.9
TYPES = ("PERSON", "LOCATION", "ORGANIZATION")
LABELS = {"GPE": "LOCATION", "STREET_ADDRESS": "LOCATION"}


def words(tagger: EntityTagger, data: Path, corpus: str) -> None:
    """F1 of words, sentence by sentence."""
    sentences = [ner_corpora.written(sentence, natural=False) for sentence in ner_corpora.read(data, corpus)]
    begun = time.perf_counter()
    tagged = tagger.tag([text for text, _ in sentences])
    seconds = time.perf_counter() - begun
    right = guessed = present = 0
    covered, total = Counter[str](), Counter[str]()
    for (_, spans), entities in zip(sentences, tagged, strict=True):
        for start, end, label in spans:
            guess = next((e.type for e in entities if e.start < end and start < e.end and e.type in TYPES), None)
            if label == ner_corpora.IGNORED:
                continue
            guessed += guess is not None
            if label in TYPES:
                present += 1
                right += guess == label
                total[label] += 1
                covered[label] += guess is not None
    print(
        f"{corpus}: F1 {2 * right / (guessed + present):.3f}, {len(sentences)} sentences, "
        f"{sum(len(spans) for _, spans in sentences) / seconds:.0f} words/s"
    )
    print("  words covered: " + ", ".join(f"{kind} {covered[kind] / total[kind]:.3f}" for kind in TYPES))


def _share(start: int, end: int, entities: list[Entity]) -> float:
    return sum(max(0, min(end, e.end) - max(start, e.start)) for e in entities) / (end - start)


def spans(tagger: EntityTagger, data: Path) -> None:
    """Recall, precision and F2 of typed spans, one line a type."""
    rows = list(json_lines(data / "pii" / "presidio_synth_v2.jsonl.gz"))
    gold, hits, hidden, named, wrong = (Counter[str]() for _ in range(5))
    for row, entities in zip(rows, tagger.tag([str(row["full_text"]) for row in rows]), strict=True):
        labelled = [
            (LABELS.get(s["entity_type"], s["entity_type"]), s["start_position"], s["end_position"])
            for s in row["spans"]
        ]
        for kind, start, end in labelled:
            gold[kind] += 1
            hits[kind] += _share(start, end, [e for e in entities if e.type == kind]) >= COVER
            hidden[kind] += _share(start, end, entities) >= COVER
        for entity in entities:
            named[entity.type] += 1
            wrong[entity.type] += not any(
                kind == entity.type and _share(start, end, [entity]) > 0 for kind, start, end in labelled
            )
    print("pii          spans  recall hidden precision F2")
    for kind in TYPES:
        recall, precision = hits[kind] / gold[kind], 1 - wrong[kind] / max(1, named[kind])
        f2 = 5 * precision * recall / max(1e-9, 4 * precision + recall)
        print(f"{kind:12} {gold[kind]:5} {recall:7.3f} {hidden[kind] / gold[kind]:6.3f} {precision:9.3f} {f2:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Quality and speed of the entity tagger.")
    parser.add_argument("--data", type=Path, required=True)
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--adapter", type=Path, help="an adapter other than the shipped one")
    source.add_argument("--model", type=Path, help="a token classifier of your own")
    arguments = parser.parse_args()
    tagger = pretrained_tagger(arguments.model) if arguments.model else embedded_tagger(arguments.adapter)
    for corpus in ("conll-testa", "wnut17-dev"):
        words(tagger, arguments.data, corpus)
    spans(tagger, arguments.data)


if __name__ == "__main__":
    main()
