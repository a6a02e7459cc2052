"""What an infill job takes. Light: the front end builds it without torch."""

from __future__ import annotations

from dataclasses import dataclass

from core.text.policy import MaskPolicy
from gpu_workers.models.sources import TAGGER_OFF


@dataclass(frozen=True)
class InfillSpec:
    """What an infill job takes besides its corpus. `targets`: as a domain's.

    `fill` and `k`: how masked places are filled before each of the `rounds`, of `steps` steps each. `places_max`:
    masked places of a document that is used.
    """

    name: str
    targets: tuple[str, ...]
    policy: MaskPolicy
    fill: str
    k: int
    rounds: int
    steps: int
    device: str = "cpu"
    threads: int = 0
    tagger: str = TAGGER_OFF
    allow_lists_dir: str | None = None
    documents_max: int = 5_000
    document_chars_max: int = 1_000_000
    places_max: int = 2_048
