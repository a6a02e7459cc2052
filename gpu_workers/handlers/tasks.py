"""The tasks and results of the embed role. The front end builds the tasks, so this module does not import torch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from core.files.file_version import FileVersion
from core.mechanisms.vectors.spec import VectorSpec
from gpu_workers.engine.arrays import Block, BlockArray

# A token of the encoder takes tens of microseconds. A row takes one or two microseconds, or a millisecond with the
# codebook mechanism, which reads every entry.
_ROWS_PER_TOKEN = 16
_CODEBOOK_TOKENS_PER_ROW = 16


@dataclass(frozen=True)
class EmbedTask:
    """One document to release: its sentences (or windows of words), or their unit-normalised embeddings `float32 [k,
    d]`.

    `pack` is the file of a domain that the worker has not loaded at its start. `by_counts`: the price is valid only for
    noise on counts, so a pack with other noise is refused.
    """

    sentences: tuple[str, ...] | None
    embeddings: npt.NDArray[np.float32] | None
    mechanism: str
    domain: str
    epsilon_nano: int
    pack: FileVersion | None = None
    by_counts: bool = False

    @property
    def size(self) -> int:
        """The number k of sentences or windows. It is public, except for mechanisms that protect the whole document."""
        return len(self.sentences) if self.sentences is not None else len(self.embeddings)  # type: ignore[arg-type]

    @property
    def weight(self) -> int:
        """Estimated tokens: one for about four characters, and two markers for each sentence."""
        if self.sentences is None:
            return self.size
        return sum(len(sentence) // 4 + 2 for sentence in self.sentences)


@dataclass(frozen=True)
class VectorTask:
    """Vectors to release with one spec: `texts` to encode, or `vectors` float16, float32 or float64 `[n, d]`.

    The worker writes them to `released`, float32 or float16 `[n, m]`. Its result is the number of rows.
    """

    spec: VectorSpec
    tenant: str
    released: BlockArray
    texts: tuple[str, ...] | None = None
    vectors: BlockArray | None = None

    @property
    def blocks(self) -> list[Block]:
        """The memory that the worker needs. Each block is listed once."""
        arrays = [self.released] if self.vectors is None else [self.released, self.vectors]
        return list({id(array.block): array.block for array in arrays}.values())

    @property
    def weight(self) -> int:
        """Estimated tokens, as in `EmbedTask`. For many vectors it exceeds a batch's budget, so that they run alone."""
        rows = self.released.shape[0]
        own = rows * _CODEBOOK_TOKENS_PER_ROW if self.spec.mechanism == "codebook" else rows // _ROWS_PER_TOKEN + 1
        return own + sum(len(text) // 4 + 2 for text in self.texts or ())


@dataclass(frozen=True)
class EmbedRelease:
    """A released document embedding `float32 [d]` and its space: `encoder` or `recoded`."""

    vector: npt.NDArray[np.float32]
    space: str
