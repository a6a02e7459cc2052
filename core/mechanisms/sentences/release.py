"""The common base of the sentence-level mechanisms: documents in, one public vector for each out.

Guarantee of every subclass: for each document separately, epsilon-DP (pure) for replacing one sentence of its
segmented list; the number of sentences k is public. Documents of one call may have different epsilons.

`sentence_codes` codes every sentence and adds noise to the codes. `document_selection` ranks candidates by the whole
document and has a stronger guarantee. The others are `CandidateMechanism`s.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch

from core.mechanisms.sentences.domain_pack import DomainPack

FloatArray = npt.NDArray[np.float32]

SENTENCES_MAX = 4_096  # for each document; keeps integer scores within int32
_ROWS_MAX = 128  # sentences scored at once: their int32 products with 4,096 candidates fit the cache


class SentenceMechanism(ABC):
    """One mechanism with one domain pack on one device."""

    name: ClassVar[str]
    space: ClassVar[str]  # of the released vectors: "encoder" or "recoded"

    def __init__(self, pack: DomainPack, device: torch.device | str) -> None:
        self.pack = pack
        self.device = torch.device(device)

    def release(self, documents: Sequence[torch.Tensor], epsilon_nano: Sequence[int]) -> FloatArray:
        """Return one public vector for each document: float32 `[n, d]`.

        Shapes: each document float32 `[k, d]`, 1 <= k <= 4096, one row for each sentence, the encoder's output.
        Units: `epsilon_nano` in nano-epsilon, one for each document.
        Raises: ValueError for lists of unequal length, an empty or over-long document or a wrong dimension, before
        anything is drawn.
        """
        self.check(documents, epsilon_nano)
        if not documents:
            return np.zeros((0, self.pack.info.dimension), dtype=np.float32)
        return self._release(documents, epsilon_nano)

    @abstractmethod
    def _release(self, documents: Sequence[torch.Tensor], epsilon_nano: Sequence[int]) -> FloatArray:
        """Release at least one document. All arguments are validated."""

    @abstractmethod
    def self_check(self) -> bool:
        """Whether this device computes exactly. A worker calls this at warm-up and serves only if it is True."""

    def check(self, documents: Sequence[torch.Tensor], epsilon_nano: Sequence[int]) -> None:
        """Check the arguments of `release`. Raises ValueError."""
        if len(documents) != len(epsilon_nano):
            raise ValueError("each document needs one epsilon")
        if any(epsilon < 1 for epsilon in epsilon_nano):
            raise ValueError("epsilon must be positive")
        for document in documents:
            if document.ndim != 2 or document.shape[1] != self.pack.info.dimension:
                raise ValueError("a document must be [sentences, dimension]")
            if not 1 <= len(document) <= SENTENCES_MAX:
                raise ValueError(f"a document must have between 1 and {SENTENCES_MAX} sentences")


class CandidateMechanism(SentenceMechanism):
    """Chooses one of the pack's candidates by integer scores and an exact sampler.

    A score is a sum over sentences of terms that depend on one sentence each. Therefore batching affects only speed.
    `outputs` are the candidates' released vectors, float32 `[m, d]`.
    """

    def __init__(self, pack: DomainPack, outputs: FloatArray, device: torch.device | str) -> None:
        super().__init__(pack, device)
        self.outputs = outputs
        self._centre = torch.tensor(pack.centre, device=self.device)

    def _release(self, documents: Sequence[torch.Tensor], epsilon_nano: Sequence[int]) -> FloatArray:
        vectors: FloatArray = self.outputs[self.select(documents, epsilon_nano)]
        return vectors

    def select(self, documents: Sequence[torch.Tensor], epsilon_nano: Sequence[int]) -> npt.NDArray[np.int64]:
        """Return the index of each document's candidate, int64 `[n]`. The arguments are those of `release`."""
        self.check(documents, epsilon_nano)
        indices = np.zeros(len(documents), dtype=np.int64)
        for start, stop in _groups([len(document) for document in documents]):
            chosen = epsilon_nano[start:stop]
            scores = self.scores(documents[start:stop], chosen)
            indices[start:stop] = [self.sample(row, eps) for row, eps in zip(scores, chosen, strict=True)]
        return indices

    @abstractmethod
    def scores(
        self, documents: Sequence[torch.Tensor], epsilon_nano: Sequence[int]
    ) -> list[npt.NDArray[np.integer[Any]]]:
        """Return the integer scores of each document's candidates. The parameters of its epsilon set their number."""

    @abstractmethod
    def sample(self, scores: npt.NDArray[np.integer[Any]], epsilon_nano: int) -> int:
        """Return one index, by the mechanism's exact sampler."""


def _groups(lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield groups of consecutive documents with at most `_ROWS_MAX` sentences. A longer document is a group alone."""
    start = rows = 0
    for i, length in enumerate(lengths):
        if i > start and rows + length > _ROWS_MAX:
            yield start, i
            start, rows = i, 0
        rows += length
    if lengths:
        yield start, len(lengths)


def row_chunks(rows: int) -> Iterator[slice]:
    """Yield slices of at most `_ROWS_MAX` rows, for longer documents."""
    for start in range(0, rows, _ROWS_MAX):
        yield slice(start, min(start + _ROWS_MAX, rows))


def document_ids(documents: Sequence[torch.Tensor], device: torch.device) -> torch.Tensor:
    """Return for each row of the concatenated documents the number of its document."""
    lengths = torch.tensor([len(document) for document in documents])
    return torch.repeat_interleave(torch.arange(len(documents)), lengths).to(device)
