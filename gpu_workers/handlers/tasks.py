"""What the embed role takes and gives. Light: the front end builds these without torch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from core.files.file_version import FileVersion
from core.mechanisms.vectors.spec import VectorSpec
from gpu_workers.engine.arrays import Block, BlockArray

# A token of the encoder takes tens of microseconds, a row one or two; one by codebook, which looks at every entry, a
# millisecond.
_ROWS_PER_TOKEN = 16
_CODEBOOK_TOKENS_PER_ROW = 16


@dataclass(frozen=True)
class EmbedTask:
    """One document to release: its sentences (or windows of words), or their unit-normalised embeddings
    `float32 [k, d]`.

    `pack` is the file of a domain that the worker has not loaded at its start. `by_counts`: the price holds for noise
    on counts alone, so that a pack with another noise is refused.
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
        """The number of sentences or windows k. It is public, but for a mechanism that protects the whole document."""
        return len(self.sentences) if self.sentences is not None else len(self.embeddings)  # type: ignore[arg-type]

    @property
    def weight(self) -> int:
        """Estimated tokens: about four characters each, and two markers a sentence."""
        if self.sentences is None:
            return self.size
        return sum(len(sentence) // 4 + 2 for sentence in self.sentences)


@dataclass(frozen=True)
class VectorTask:
    """Vectors to release, all by one spec: `texts` to encode, or `vectors` float16, float32 or float64 `[n, d]`.

    The worker writes them to `released`, float32 or float16 `[n, m]`; its result says that it did.
    """

    spec: VectorSpec
    tenant: str
    released: BlockArray
    texts: tuple[str, ...] | None = None
    vectors: BlockArray | None = None

    @property
    def blocks(self) -> list[Block]:
        """The memory that the worker needs, each block once."""
        arrays = [self.released] if self.vectors is None else [self.released, self.vectors]
        return list({id(array.block): array.block for array in arrays}.values())

    @property
    def weight(self) -> int:
        """Estimated tokens, as of an `EmbedTask`; of many vectors more than a batch holds, so that they run alone."""
        rows = self.released.shape[0]
        own = rows * _CODEBOOK_TOKENS_PER_ROW if self.spec.mechanism == "codebook" else rows // _ROWS_PER_TOKEN + 1
        return own + sum(len(text) // 4 + 2 for text in self.texts or ())


@dataclass(frozen=True)
class EmbedRelease:
    """A released document embedding `float32 [d]` and the space it lives in: `encoder` or `recoded`."""

    vector: npt.NDArray[np.float32]
    space: str
