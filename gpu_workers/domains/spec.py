"""What a domain job takes. Light: the front end builds it without torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DomainSpec:
    """What a domain job takes besides its corpus. `targets` are files that the pack is written to, in this order.

    `device`, `threads` and `encoder_path` are the operator's, as a worker has them.
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
