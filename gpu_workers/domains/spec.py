"""The parameters of a domain job. The front end builds them, so this module does not import torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DomainSpec:
    """The parameters of a domain job besides its corpus. `targets` are the files that the pack is written to, in order.

    `device`, `threads` and `encoder_path` are the operator's settings, as for a worker.
    """

    name: str
    source: str
    licence: str
    targets: tuple[str, ...]
    device: str = "cpu"
    threads: int = 0
    encoder_path: str | None = None
    documents_max: int = 10_000
    document_chars_max: int = 1_000_000
    seed: int = 20221
