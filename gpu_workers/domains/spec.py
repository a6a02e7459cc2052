"""What a domain pack is built from: the parameters of a job, and the sentence embeddings of its documents.

The front end builds the parameters, so this module does not import torch.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from core.errors import BadCorpus

STEPS_MIN, STEPS_MAX = 10, 600  # of each training of the codes

# Measured with `VmData`: building a pack allocates 0.45 GB at least, and no more than this for larger corpora.
_BASE_BYTES = 512 * 1024 * 1024
_BYTES_A_NUMBER = 40  # of the N x d numbers: four copies in float32, differences in float64
_BYTES_A_SQUARE = 100  # of d x d: covariances and eigenvectors in float64, later the recoder and its optimiser
_BYTES_A_DIMENSION = 50_000  # the lines of one shard, as JSON


def memory_bytes(*, sentences: int, dimension: int) -> int:
    """An upper estimate of the memory in which a pack of so many sentence vectors is built."""
    numbers = _BYTES_A_NUMBER * sentences * dimension
    return _BASE_BYTES + numbers + _BYTES_A_SQUARE * dimension**2 + _BYTES_A_DIMENSION * dimension


def check_memory(*, sentences: int, dimension: int, bytes_max: int) -> None:
    """Raises BadCorpus if the estimate exceeds `bytes_max`; 0 is no limit."""
    if bytes_max and memory_bytes(sentences=sentences, dimension=dimension) > bytes_max:
        raise BadCorpus(
            "A pack of this corpus needs more memory than a job may use: send fewer sentences or dimensions.",
            reason="out-of-memory",
            count=sentences,
        )


@dataclass(frozen=True)
class DomainSpec:
    """The parameters of a domain job besides its corpus. `targets`: the one file that the pack is written to.

    `steps`: of each training of the codes, at most; few documents take fewer. `device`, `threads` and `encoder_path`
    are the operator's settings, as for a worker.
    """

    name: str
    source: str
    licence: str
    targets: tuple[str, ...]
    steps: int = STEPS_MAX
    device: str = "cpu"
    threads: int = 0
    encoder_path: str | None = None
    documents_max: int = 10_000
    document_chars_max: int = 1_000_000
    seed: int = 20221


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
