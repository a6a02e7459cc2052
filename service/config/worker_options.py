"""The workers that the settings describe."""

from __future__ import annotations

from functools import partial

from gpu_workers.engine.handler import HandlerFactory
from gpu_workers.engine.local.worker_pool import WorkerPoolOptions
from gpu_workers.engine.protocol import Role
from gpu_workers.engine.task_queue import QueueLimits
from gpu_workers.handlers.options import WorkerOptions
from gpu_workers.handlers.registry import make_handler
from gpu_workers.models.sources import INFILL_OFF
from service.config.settings import Settings


def handler_factories(settings: Settings) -> dict[Role, tuple[HandlerFactory, ...]]:
    """The handler factories of each role, one for each worker."""
    factories = {
        Role.EMBED: tuple(_factory(Role.EMBED, settings, device) for device in settings.devices),
        Role.SANITIZE: (_factory(Role.SANITIZE, settings, settings.sanitize_device),),
    }
    if settings.infill_source != INFILL_OFF:
        factories[Role.FILL] = (_factory(Role.FILL, settings, settings.sanitize_device),)
    return factories


def worker_pools(settings: Settings) -> dict[Role, WorkerPoolOptions]:
    """The worker pool of each role that the local engine runs."""
    return {
        role: WorkerPoolOptions(
            workers=workers,
            limits=queue_limits(settings),
            # The sanitiser reads texts one by one or in small batches: a larger one takes as much longer.
            batch_linger_ms=0.0 if role is Role.SANITIZE else settings.batch_linger_ms,
            batch_seconds_max=settings.request_timeout_s,
        )
        for role, workers in handler_factories(settings).items()
    }


def queue_limits(settings: Settings) -> QueueLimits:
    """The limits of each role's queue."""
    return QueueLimits(
        tasks_max=settings.queue_tasks_max,
        tokens_max=settings.queue_tokens_max,
        tenant_share=settings.queue_tenant_share,
        batch_tokens_max=settings.batch_tokens_max,
    )


def _factory(role: Role, settings: Settings, device: str) -> HandlerFactory:
    options = WorkerOptions(
        device=device,
        threads=settings.encoder_threads,
        encoder_path=str(settings.encoder_path) if settings.encoder_path else None,
        domain_packs_dir=str(settings.domain_packs_dir) if settings.domain_packs_dir else None,
        allow_lists_dir=str(settings.allow_lists_dir) if settings.allow_lists_dir else None,
        tagger=settings.tagger,
        infill=settings.infill_source,
        fill_slots_max=settings.fill_slots_max,
        places_per_document_max=settings.places_per_document_max,
        packs_loaded_max=settings.domain_packs_loaded_max,
        infill_models_loaded_max=settings.infill_models_loaded_max,
        recognisers_loaded_max=settings.recognisers_loaded_max,
    )
    return partial(make_handler, role, options)
