"""How well and how fast the entity tagger finds names.

    python -m benchmarks.entity_tagger --data DATA [--adapter FILE | --model FOLDER]

DATA holds `ner/` (CoNLL-2003 testa and WNUT17's development part; words with labels) and `pii/`
(texts with typed spans). Words: micro-F1 over the three types, and the share of each type's words that any entity
covers. Spans: as in `benchmarks.pii`.
"""

import time
from collections import Counter
from pathlib import Path

from benchmarks.kit import arguments
from benchmarks.pii import NAMES, quality
from gpu_workers.models.tagger import EntityTagger, embedded_tagger, pretrained_tagger
from training import ner_corpora
from training.public_text import json_lines


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
            guess = next((e.type for e in entities if e.start < end and start < e.end and e.type in NAMES), None)
            if label == ner_corpora.IGNORED:
                continue
            guessed += guess is not None
            if label in NAMES:
                present += 1
                right += guess == label
                total[label] += 1
                covered[label] += guess is not None
    print(
        f"{corpus}: F1 {2 * right / (guessed + present):.3f}, {len(sentences)} sentences, "
        f"{sum(len(spans) for _, spans in sentences) / seconds:.0f} words/s"
    )
    print("  words covered: " + ", ".join(f"{kind} {covered[kind] / total[kind]:.3f}" for kind in NAMES))


def main() -> None:
    options = arguments(
        __doc__,
        needs_data=True,
        adapter=(Path, "an adapter other than the shipped one"),
        model=(Path, "a token classifier of your own"),
    )
    tagger = pretrained_tagger(options.model) if options.model else embedded_tagger(options.adapter)
    for corpus in ("conll-testa", "wnut17-dev"):
        words(tagger, options.data, corpus)
    rows = list(json_lines(options.data / "pii" / "presidio_synth_v2.jsonl.gz"))
    quality("pii", rows, tagger.tag([str(row["full_text"]) for row in rows]), NAMES)


if __name__ == "__main__":
    main()
