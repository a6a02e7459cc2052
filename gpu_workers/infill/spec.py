"""The parameters of an infill job. The front end builds them, so this module does not import torch."""

from dataclasses import dataclass

from core.text.policy import MaskPolicy
from gpu_workers.models.sources import INFILL_BUNDLED, TAGGER_OFF


@dataclass(frozen=True)
class InfillSpec:
    """The parameters of an infill job besides its corpus. `targets`: as in `DomainSpec`.

    `fill` and `k`: how masked places are filled before each of the `rounds`, each of `steps` steps. `places_max`: the
    most masked places of a document that is used. `infill`: as `InfillSource`, but no endpoint and not off.
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
    infill: str = INFILL_BUNDLED
    tagger: str = TAGGER_OFF
    allow_lists_dir: str | None = None
    documents_max: int = 5_000
    document_chars_max: int = 1_000_000
    places_max: int = 2_048
    recognisers_loaded_max: int = 16
