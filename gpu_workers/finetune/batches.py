"""Rows as tensors, in physical batches of bounded size. The padding of a row does not depend on other rows.

A row is padded to its own length rounded up to a multiple of 8, never to the length of other rows. The sum over a
logical batch may therefore be split into physical ones anywhere without changing a row's gradient, up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from gpu_workers.finetune.base import Base, Pieces
from gpu_workers.finetune.classifier import Part

_LENGTH_STEP = 8


@dataclass(frozen=True)
class Batch:
    """`labels` int64 `[rows]`."""

    parts: tuple[Part, ...]
    labels: torch.Tensor


class Rows:
    """Tokenised rows with their labels (int64 `[rows]`, on the host). `batches` copies some of them to the device."""

    def __init__(
        self, base: Base, texts: Sequence[tuple[str, ...]], labels: Sequence[int], *, device: torch.device
    ) -> None:
        self._pad, self._typed, self._device = base.pad, base.typed, device
        self._pieces = base.pieces(texts)
        self.labels = torch.tensor(list(labels), dtype=torch.int64)
        self._lengths = np.array(
            [[_padded(len(part.ids)) for part in row] for row in self._pieces], dtype=np.int64
        ).reshape(len(self._pieces), -1)

    def __len__(self) -> int:
        return len(self._pieces)

    def batches(
        self, chosen: npt.NDArray[np.int64], *, pieces_max: int
    ) -> Iterator[tuple[npt.NDArray[np.int64], Batch]]:
        """Yield the chosen rows, once each, with their indices, in batches of equal lengths with at most `pieces_max`
        pieces, or of one row."""
        lengths = self._lengths[chosen]
        for shape in np.unique(lengths, axis=0):
            members = chosen[(lengths == shape).all(axis=1)]
            size = max(1, pieces_max // int(shape.sum()))
            for start in range(0, len(members), size):
                part = members[start : start + size]
                yield part, self._batch(part, shape)

    def _batch(self, members: npt.NDArray[np.int64], shape: npt.NDArray[np.int64]) -> Batch:
        parts = tuple(
            self._part([self._pieces[member][place] for member in members], int(length))
            for place, length in enumerate(shape)
        )
        return Batch(parts, self.labels[torch.from_numpy(members)].to(self._device))

    def _part(self, texts: Sequence[Pieces], length: int) -> Part:
        ids = np.full((len(texts), length), self._pad, dtype=np.int64)
        types = np.zeros((len(texts), length), dtype=np.int64)
        mask = np.zeros((len(texts), length), dtype=np.bool_)
        for row, text in enumerate(texts):
            ids[row, : len(text.ids)] = text.ids
            types[row, : len(text.ids)] = text.types
            mask[row, : len(text.ids)] = True
        move = [torch.from_numpy(array).to(self._device) for array in (ids, mask, types)]
        return Part(move[0], move[1], move[2] if self._typed else None)


def _padded(length: int) -> int:
    return -(-max(length, 1) // _LENGTH_STEP) * _LENGTH_STEP
