"""Split long documents into overlapping windows, and group windows of many documents into batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from gpu_workers.models.pieces import IntArray


class Window(NamedTuple):
    """Pieces `start:end` of a document, which are read together. The results for pieces `own_start:own_end` are
    used."""

    document: int
    start: int
    end: int
    own_start: int
    own_end: int


def windows(document: int, length: int, *, size: int, overlap: int) -> list[Window]:
    """Return windows of at most `size` pieces. Exactly one window owns each piece, half the overlap from its inner
    edges.

    Raises: ValueError if the overlap is not smaller than the window.
    """
    if not 0 <= overlap < size:
        raise ValueError("the overlap must be smaller than the window")
    found: list[Window] = []
    start = own = 0
    while own < length:
        end = min(start + size, length)
        own_end = length if end == length else end - overlap // 2
        found.append(Window(document, start, end, own, own_end))
        start, own = end - overlap, own_end
    return found


def batches(lengths: Sequence[int], tokens_max: int) -> Iterator[list[int]]:
    """Yield indices of items, the longest first, in groups of at most `tokens_max` tokens including padding."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    first = 0
    while first < len(order):
        count = max(1, tokens_max // max(1, lengths[order[first]]))
        yield order[first : first + count]
        first += count


def padded(rows: Sequence[IntArray], fill: int, device: torch.device) -> torch.Tensor:
    """Return the rows as int64 `[rows, longest]`, padded on the right with `fill`."""
    out = torch.full((len(rows), max(len(row) for row in rows)), fill, dtype=torch.int64)
    for number, row in enumerate(rows):
        out[number, : len(row)] = torch.from_numpy(row)
    return out.to(device)
