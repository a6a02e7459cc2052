"""How well and how fast texts are sanitised.

    python -m benchmarks.sanitize --data DATA [--documents 1000]

DATA holds `pii/presidio_synth_v2.jsonl.gz` (texts with typed spans) and `imdb/test.jsonl.gz`. A labelled span
counts as found when a mask of its type covers at least `COVER` of it; "hidden" when masks of any type do. A mask
that overlaps no span of its type is a false positive. F2 weighs recall over precision.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import time
from collections import Counter
from pathlib import Path

from core.text.lists import AllowLists
from core.text.masks import find_masks
from core.text.policy import FILLS, TECHNIQUES, Mask, MaskPolicy
from core.text.sanitize import sanitize
from core.text.tokens import tokenize
from gpu_workers.sanitiser import Sanitiser

COVER = 0.9
TYPES = ("EMAIL_ADDRESS", "PHONE_NUMBER", "CREDIT_CARD", "IBAN_CODE", "US_SSN", "IP_ADDRESS", "URL")
LABELS = {"DOMAIN_NAME": "URL"}


def _rows(path: Path) -> list[dict[str, object]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _covered(span: tuple[int, int], masks: list[Mask]) -> float:
    return sum(max(0, min(span[1], m.end) - max(span[0], m.start)) for m in masks) / (span[1] - span[0])


def entities(path: Path, show: bool) -> None:
    hits, gold, hidden, masked, wrong = (Counter[str]() for _ in range(5))
    lists = AllowLists()
    for row in _rows(path):
        text = str(row["full_text"])
        masks = find_masks(text, tokenize(text), MaskPolicy(), lists)
        spans = [
            (LABELS.get(each["entity_type"], each["entity_type"]), (each["start_position"], each["end_position"]))
            for each in row["spans"]  # type: ignore[attr-defined]
        ]
        for kind, span in spans:
            if kind in TYPES:
                gold[kind] += 1
                hits[kind] += _covered(span, [m for m in masks if m.type == kind]) >= COVER
                hidden[kind] += _covered(span, masks) >= COVER
                if show and _covered(span, masks) < COVER:
                    print("missed", kind, repr(text[span[0] : span[1]]))
        for mask in masks:
            masked[mask.type] += 1
            if not any(kind == mask.type and _covered(span, [mask]) > 0 for kind, span in spans):
                wrong[mask.type] += 1
                if show:
                    print("extra", mask.type, repr(text[mask.start : mask.end]))
    print(f"{'entity':<16}{'labelled':>9}{'recall':>8}{'hidden':>8}{'masks':>7}{'prec.':>7}{'F2':>7}")
    for kind in sorted(masked.keys() | set(TYPES), key=lambda each: (each not in TYPES, each)):
        precision = (masked[kind] - wrong[kind]) / masked[kind] if masked[kind] else 0.0
        recall = hits[kind] / gold[kind] if gold[kind] else 0.0
        f2 = 5 * precision * recall / (4 * precision + recall) if precision + recall else 0.0
        rest = f"{masked[kind]:>7}{precision:>7.3f}"
        if gold[kind]:
            print(f"{kind:<16}{gold[kind]:>9}{recall:>8.3f}{hidden[kind] / gold[kind]:>8.3f}{rest}{f2:>7.3f}")
        else:
            print(f"{kind:<16}{'-':>9}{'-':>8}{'-':>8}{rest}{'-':>7}")


def speed(path: Path, documents: int) -> None:
    texts = [str(row["text"]) for row in _rows(path)[:documents]]
    print(f"\n{len(texts)} documents, {sum(map(len, texts)) / len(texts):.0f} characters each on average")
    print(f"{'techniques':<34}{'fill':<14}{'masked':>8}{'docs/s':>9}{'p50 ms':>8}{'p99 ms':>8}")
    names = [name for name in TECHNIQUES if name != "all"]
    plans = [(name,) for name in names] + [tuple(names)]
    for techniques in plans:
        for fill in FILLS if len(techniques) > 1 else ("class_marker",):
            policy = MaskPolicy(techniques=techniques)
            took, tokens, masked = [], 0, 0
            for text in texts:
                begun = time.perf_counter()
                result = sanitize(text, policy, fill)
                took.append(time.perf_counter() - begun)
                tokens += result.tokens
                masked += result.masked_tokens
            took.sort()
            print(
                f"{'+'.join(techniques):<34}{fill:<14}{masked / tokens:>8.2%}{len(took) / sum(took):>9.0f}"
                f"{took[len(took) // 2] * 1e3:>8.2f}{took[len(took) * 99 // 100] * 1e3:>8.2f}"
            )
    long = "\n".join(texts * (1 + 1_000_000 // sum(map(len, texts))))[:1_000_000]
    begun = time.perf_counter()
    sanitize(long, MaskPolicy(), "class_marker")
    print(f"one text of {len(long)} characters, entity: {time.perf_counter() - begun:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=1_000)
    parser.add_argument("--show", action="store_true", help="print missed and extra spans of the labelled texts")
    options = parser.parse_args()
    logging.disable()
    begun = time.perf_counter()
    Sanitiser().warm_up()
    print(f"warm-up {time.perf_counter() - begun:.1f} s")
    entities(options.data / "pii" / "presidio_synth_v2.jsonl.gz", options.show)
    speed(options.data / "imdb" / "test.jsonl.gz", options.documents)


if __name__ == "__main__":
    main()
