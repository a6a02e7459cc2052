"""Sentence embeddings of the documents from which a domain pack is built."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Embedded:
    """Sentence embeddings of documents: `vectors` float32 `[rows, d]`, `lengths` int64 `[n]`, `labels` `[n]`."""

    vectors: npt.NDArray[np.float32]
    lengths: npt.NDArray[np.int64]
    labels: list[str]

    def documents(self) -> list[npt.NDArray[np.float32]]:
        """One `[k, d]` array for each document."""
        return np.split(self.vectors, np.cumsum(self.lengths)[:-1])

    def means(self) -> npt.NDArray[np.float32]:
        """Mean embedding of each document, `[n, d]`."""
        return mean_by_document(self.vectors, self.lengths)


def mean_by_document(vectors: npt.NDArray[np.float32], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """Mean of each document's rows."""
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    sums = np.add.reduceat(vectors, starts, axis=0)
    return np.asarray(sums / lengths[:, None], dtype=np.float32)


def half(array: npt.NDArray[np.floating]) -> npt.NDArray[np.float32]:
    """Round to the precision of a pack's file. What is fitted or chosen for a pack uses exactly the stored numbers."""
    return array.astype(np.float16).astype(np.float32)
