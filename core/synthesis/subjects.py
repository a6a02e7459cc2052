"""Tables in which a person has several rows: a bound on the rows of each, and the noise that covers all of them.

Guarantee: (epsilon, delta)-DP for neighbours that differ in all rows of one subject, however many and wherever they
are, at the same event as a release for one row. Rows of a subject beyond the first c are dropped before anything else.
The number of rows that remain is private (`row_count` is protected).

Proof. The bound keeps or drops a row by the rows of its own subject alone, so that the kept rows of two tables which
differ in one subject are the same, except for a <= c rows of that subject in the first and b <= c in the second. A
release with a protected number of rows is a function of the rows without their order. Go from the first to the second
by replacing min(a, b) rows and adding or removing the other |a - b|: at most c changes of one row. Replacing one row
moves the integers of a release by at most its sensitivity D in l2 norm. Adding or removing one moves them by at most
D / sqrt(2), if the release does not depend on the public number of rows (`pearl_release`, `marginals_release`). By the
triangle inequality the l2 norm of the whole change is at most c D. Noise of the standard deviation c m D has the ratio
m to it, which is that of the event that is charged. Counts reach the bound: c rows of one cell that become c in others.

The release is one addition of noise: with a protected number of rows no mean distance is released before it. A method
that chooses what to measure by the rows needs a proof of its own (`SUBJECT_METHODS`).
"""

import math
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final

import numpy as np

from core.synthesis.columns import BoolArray
from core.synthesis.faults import Faults
from core.synthesis.schema import Subject

SUBJECT_METHODS: Final = ("pearl", "marginals")  # one addition of noise to integers of a proven l2 sensitivity


def for_subjects(noise_multiplier: float, rows_max: int | None) -> float:
    """Return the multiplier of the sensitivity of one row whose noise covers `rows_max` rows of a subject.

    The event that is charged has the ratio `noise_multiplier` to the sensitivity of all of them. None: no subjects.
    """
    if rows_max is None or rows_max == 1:
        return noise_multiplier
    return math.nextafter(rows_max * noise_multiplier, math.inf)  # not below the exact product


class SubjectBound:
    """Keeps the first rows of each subject while a table is read in order."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._seen: Counter[bytes] = Counter()

    def kept(self, rows: Sequence[Any], lines: Sequence[int], faults: Faults) -> BoolArray:
        """Return which rows are kept. Adds a row without a subject to `faults`."""
        keep = np.zeros(len(rows), dtype=np.bool_)
        for i, (row, line) in enumerate(zip(rows, lines, strict=True)):
            value = row.get(self._subject.name) if isinstance(row, dict) else None
            text = "" if isinstance(value, bool) or not isinstance(value, str | int) else str(value).strip()
            if not text:
                faults.add("no-subject", line, "A row names its subject by a text or a whole number.")
                continue
            key = blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
            self._seen[key] += 1
            keep[i] = self._seen[key] <= self._subject.rows_max
        return keep
