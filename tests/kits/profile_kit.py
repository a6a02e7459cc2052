"""Counts calls of Python functions: a measure of work that does not depend on the machine."""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def counted_calls() -> Iterator[Counter[str]]:
    """Count what runs inside. The number is that of `call`."""
    counts: Counter[str] = Counter()

    def count(_: object, event: str, __: object) -> None:
        counts[event] += 1

    sys.setprofile(count)
    try:
        yield counts
    finally:
        sys.setprofile(None)
