"""How fast texts are sanitised by patterns and lists, and how much of them is masked; `benchmarks.pii` says how well.

    python -m benchmarks.sanitize --data DATA [--documents 1000]

DATA holds `imdb/test.jsonl.gz`. Names are not looked for.
"""

import logging
import time
from itertools import islice
from pathlib import Path

from benchmarks.kit import arguments, head, percentile, row
from core.text.policy import FILLS, TECHNIQUES, MaskPolicy
from core.text.sanitize import sanitize
from gpu_workers.handlers.sanitiser import Sanitiser
from training.public_text import json_lines


def speed(path: Path, documents: int) -> None:
    texts = [str(row["text"]) for row in islice(json_lines(path), documents)]
    print(f"{len(texts)} documents, {sum(map(len, texts)) / len(texts):.0f} characters each on average\n")
    head("techniques", "fill", "tokens masked", "documents/s", "p50 ms", "p99 ms")
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
            p50, p99 = (f"{percentile(took, share) * 1e3:.2f}" for share in (0.5, 0.99))
            row("+".join(techniques), fill, f"{masked / tokens:.2%}", f"{len(took) / sum(took):.0f}", p50, p99)
    long = "\n".join(texts * (1 + 1_000_000 // sum(map(len, texts))))[:1_000_000]
    begun = time.perf_counter()
    sanitize(long, MaskPolicy(), "class_marker")
    print(f"one text of {len(long)} characters, entity: {time.perf_counter() - begun:.2f} s")


def main() -> None:
    options = arguments(__doc__, needs_data=True, documents=1_000)
    logging.disable()
    begun = time.perf_counter()
    Sanitiser().warm_up()
    print(f"warm-up {time.perf_counter() - begun:.1f} s")
    speed(options.data / "imdb" / "test.jsonl.gz", options.documents)


if __name__ == "__main__":
    main()
