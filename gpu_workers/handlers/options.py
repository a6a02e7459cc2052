"""What a worker needs to build its handler."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_workers.models.sources import AUTO_PRECISION, INFILL_BUNDLED, TAGGER_BUNDLED, InfillSource


@dataclass(frozen=True)
class WorkerOptions:
    """What a worker needs to load. Paths and names come from the operator's settings, never from a request."""

    device: str = "cpu"
    threads: int = 0
    encoder_path: str | None = None
    encoder_precision: str = AUTO_PRECISION
    domain_packs_dir: str | None = None
    measured_dir: str | None = None  # of `gpu_workers.models.measured`
    allow_lists_dir: str | None = None
    tagger: str = TAGGER_BUNDLED
    infill: InfillSource = INFILL_BUNDLED
    fill_slots_max: int = 2048
    places_per_document_max: int = 100_000
    packs_loaded_max: int = 8
    infill_models_loaded_max: int = 4
    recognisers_loaded_max: int = 16
