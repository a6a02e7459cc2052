"""What the embed role takes and gives. Light: the front end builds these without torch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class PackFile:
    """A domain pack of the data directory: its path, and what tells one state of the file from another."""

    path: str
    stamp: str


@dataclass(frozen=True)
class EmbedTask:
    """One document to release: its sentences, or their unit-normalised embeddings `float32 [k, d]`.

    `pack` is the file of a domain that the worker has not loaded at its start.
    """

    sentences: tuple[str, ...] | None
    embeddings: npt.NDArray[np.float32] | None
    mechanism: str
    domain: str
    epsilon_nano: int
    pack: PackFile | None = None

    @property
    def size(self) -> int:
        """The number of sentences k: public under this adjacency."""
        return len(self.sentences) if self.sentences is not None else len(self.embeddings)  # type: ignore[arg-type]

    @property
    def weight(self) -> int:
        """Estimated tokens: about four characters each, and two markers a sentence."""
        if self.sentences is None:
            return self.size
        return sum(len(sentence) // 4 + 2 for sentence in self.sentences)


@dataclass(frozen=True)
class EmbedRelease:
    """A released document embedding `float32 [d]` and the space it lives in: `encoder` or `recoded`."""

    vector: npt.NDArray[np.float32]
    space: str
