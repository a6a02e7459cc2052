"""The workers that the settings describe."""

from __future__ import annotations

from gpu_workers.engine import Role
from gpu_workers.local import WorkerPoolOptions
from gpu_workers.messages import INFILL_OFF, WorkerOptions
from service.config.settings import Settings


def worker_pools(settings: Settings) -> dict[Role, WorkerPoolOptions]:
    """The worker pool of each role that the local engine runs."""
    pools = {
        Role.EMBED: _pool(settings, *settings.devices),
        Role.SANITIZE: _pool(settings, settings.sanitize_device),
    }
    if settings.infill_source != INFILL_OFF:
        pools[Role.FILL] = _pool(settings, settings.sanitize_device)
    return pools


def _pool(settings: Settings, *devices: str) -> WorkerPoolOptions:
    return WorkerPoolOptions(
        workers=tuple(_worker(settings, device) for device in devices),
        queue_tasks_max=settings.queue_tasks_max,
        batch_tokens_max=settings.batch_tokens_max,
        batch_linger_ms=settings.batch_linger_ms,
        batch_seconds_max=settings.request_timeout_s,
    )


def _worker(settings: Settings, device: str) -> WorkerOptions:
    return WorkerOptions(
        device=device,
        threads=settings.encoder_threads,
        encoder_path=str(settings.encoder_path) if settings.encoder_path else None,
        domain_packs_dir=str(settings.domain_packs_dir) if settings.domain_packs_dir else None,
        allow_lists_dir=str(settings.allow_lists_dir) if settings.allow_lists_dir else None,
        tagger=settings.tagger,
        infill=settings.infill_source,
        fill_slots_max=settings.fill_slots_max,
        packs_loaded_max=settings.domain_packs_loaded_max,
        infill_models_loaded_max=settings.infill_models_loaded_max,
    )
