"""Maps each role to its handler."""

from __future__ import annotations

from pathlib import Path

from gpu_workers.engine.handler import Handler
from gpu_workers.engine.protocol import Role
from gpu_workers.handlers.options import WorkerOptions
from gpu_workers.models.measured_folder import MeasuredFolder
from gpu_workers.models.sources import INFILL_OFF


def make_handler(role: Role, options: WorkerOptions) -> Handler:
    """Import and build the handler of a role. Imports are local, so that a worker imports only what it runs."""
    MeasuredFolder.path = Path(options.measured_dir) if options.measured_dir else None
    if role is Role.EMBED:
        from gpu_workers.handlers.embedder import Embedder

        return Embedder(options)
    from gpu_workers.handlers.sanitiser import Sanitiser

    return Sanitiser(
        allow_list_dir=Path(options.allow_lists_dir) if options.allow_lists_dir else None,
        tagger=options.tagger,
        infill=options.infill if role is Role.FILL else INFILL_OFF,
        fill_slots_max=options.fill_slots_max,
        places_max=options.places_per_document_max,
        infill_models_loaded_max=options.infill_models_loaded_max,
        recognisers_loaded_max=options.recognisers_loaded_max,
        device=options.device,
        threads=options.threads,
    )
