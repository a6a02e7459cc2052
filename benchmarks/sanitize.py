"""How fast texts are sanitised by patterns and lists, and how much of them is masked; `benchmarks.pii` says how well.

    python -m benchmarks.sanitize --data DATA [--documents 1000]

DATA holds `imdb/test.jsonl.gz`. Names are not looked for.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import time
from pathlib import Path

from core.text.policy import FILLS, TECHNIQUES, MaskPolicy
from core.text.sanitize import sanitize
from gpu_workers.handlers.sanitiser import Sanitiser


def _rows(path: Path) -> list[dict[str, object]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


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
    options = parser.parse_args()
    logging.disable()
    begun = time.perf_counter()
    Sanitiser().warm_up()
    print(f"warm-up {time.perf_counter() - begun:.1f} s")
    speed(options.data / "imdb" / "test.jsonl.gz", options.documents)


if __name__ == "__main__":
    main()
