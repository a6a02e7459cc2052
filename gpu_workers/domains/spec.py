"""The parameters of a domain job. The front end builds them, so this module does not import torch."""

from __future__ import annotations

from dataclasses import dataclass

from core.job_errors import BadCorpus

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
    """The parameters of a domain job besides its corpus. `targets` are the files that the pack is written to, in order.

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
