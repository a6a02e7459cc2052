"""Whether 300 recorded conversations leave without what was found in them, and come back with it.

    python -m benchmarks.conversations [--only en de ...] [--every N] [--show N]

Each conversation is sent five times to a model that repeats the last message and rewrites every surrogate: the answer
comes whole, and as a stream that is split at every byte, character, token and event. The gateway runs in this process
with the shipped recognisers, the default policy and a real Redis.

seen: originals that a recogniser found in a conversation and that the model saw. Not found: originals that no
recogniser found, or only a part of, and that the model saw. Restored: of what the model wrote, the share that the
client reads with the original. Wrong: what the client reads as anything else than the original or what the model wrote.
"""

import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.conversations.measure import Figures, bench
from benchmarks.conversations.recorded import LANGUAGES, recorded
from benchmarks.kit import arguments, head, row


def show(figures: Figures, examples: int) -> None:
    """Print the figures, and examples of what went wrong."""
    print(f"conversations {figures.conversations}, requests {figures.requests}, originals {figures.originals}")
    print(f"found and seen by the model: {len(figures.leaked)}")
    missed = Counter(type_ for _, type_, _ in figures.missed)
    print(f"not found, and seen by the model: {len(figures.missed)} {dict(missed.most_common())}")
    total = figures.probes.total()
    print(f"written by the model: {total}, restored {figures.share:.4%}")
    print(f"left as surrogates: {len(figures.left)}, wrong: {len(figures.wrong)}\n")
    head("rewriting", "written", "restored")
    for kind, count in figures.probes.most_common():
        row(kind, f"{count:,}", f"{figures.restored[kind] / count:.4f}")
    for name, found in (
        ("seen", figures.leaked),
        ("wrong", figures.wrong),
        ("left", figures.left),
        ("not found", figures.missed),
    ):
        for each in found[:examples]:
            print(name, *map(repr, each))


def main() -> None:
    options = arguments(
        __doc__,
        only=(list(LANGUAGES), "these languages"),
        every=(1, "each so many-th conversation alone"),
        show=(0, "examples of what went wrong"),
    )
    chosen = [each for each in recorded() if each.language in options.only][:: options.every]
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, bench(Path(folder)) as running:
        figures = running.run(chosen, Figures())
    show(figures, options.show)
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
