"""The engine and the workers that the settings describe."""

from functools import partial

from gpu_workers.engine.handler import HandlerFactory
from gpu_workers.engine.local_engine import LocalEngine, WorkerPoolOptions
from gpu_workers.engine.protocol import Role
from gpu_workers.engine.task_queue import Engine, QueueLimits
from gpu_workers.handlers.options import WorkerOptions, absent
from gpu_workers.handlers.preload import make_handler, preload
from gpu_workers.models.sources import INFILL_OFF
from service import isolation
from service.config.data_dir import MEASURED
from service.config.settings import Settings, precision_of_workers

# The time that an idle worker waits for a batch to fill: much less than a batch takes.
BATCH_LINGER_MS = 2.0
# Masked places of a document. All of them are in a worker's memory until the document is written.
PLACES_PER_DOCUMENT_MAX = 100_000


def make_engine(settings: Settings) -> Engine:
    """The engine of a gateway."""
    return LocalEngine(
        worker_pools(settings),
        array_bytes_max=settings.vectors_memory_bytes_max,
        array_owner_bytes_max=settings.vectors_memory_per_tenant_bytes_max,
    )


def handler_factories(settings: Settings) -> dict[Role, tuple[HandlerFactory, ...]]:
    """The handler factories of each role that the gateway serves, one for each worker."""
    devices = {
        Role.EMBED: settings.devices,
        Role.SANITIZE: settings.devices[:1],
        Role.FILL: () if settings.infill_source == INFILL_OFF else settings.devices[:1],
    }
    return {
        role: tuple(handler_factory(role, settings, device) for device in devices[role])
        for role in Role
        if role in settings.serves and devices[role]
    }


def worker_pools(settings: Settings) -> dict[Role, WorkerPoolOptions]:
    """The worker pool of each role that the local engine runs."""
    return {
        role: WorkerPoolOptions(
            workers=workers,
            limits=queue_limits(settings),
            batch_linger_ms=_linger_ms(role),
            batch_seconds_max=settings.request_timeout_s,
            preload=_preload(role, settings),
            lacking=absent,
        )
        for role, workers in handler_factories(settings).items()
    }


def preloads(settings: Settings) -> list[str]:
    """What a fork server imports for the workers of the local engine, in the order of their start; for isolation."""
    names = [name for role in handler_factories(settings) for name in _preload(role, settings)]
    return list(dict.fromkeys((*names, isolation.PRELOAD)))


def _preload(role: Role, settings: Settings) -> tuple[str, ...]:
    precision = precision_of_workers(settings.encoder_precision, settings.encoder_path, settings.devices)
    return preload(role, encoder_precision=precision, tagger=settings.tagger, infill=settings.infill_source)


def _linger_ms(role: Role) -> float:
    """The sanitiser reads texts one by one or in small batches: a larger one takes as much longer."""
    return 0.0 if role is Role.SANITIZE else BATCH_LINGER_MS


def queue_limits(settings: Settings) -> QueueLimits:
    """The limits of each role's queue."""
    return QueueLimits(tenant_share=settings.queue_tenant_share)


def handler_factory(role: Role, settings: Settings, device: str, *, threads: int | None = None) -> HandlerFactory:
    """Builds the handler of a role. `threads`: those of a worker by default."""
    options = WorkerOptions(
        device=device,
        threads=settings.encoder_threads if threads is None else threads,
        encoder_path=str(settings.encoder_path) if settings.encoder_path else None,
        encoder_precision=precision_of_workers(settings.encoder_precision, settings.encoder_path, settings.devices),
        domain_packs_dir=str(settings.domain_packs_dir) if settings.domain_packs_dir else None,
        finetune_models=tuple((name, str(path)) for name, path in sorted(settings.finetune_models.items())),
        measured_dir=str(settings.data_dir.resolve() / MEASURED),
        allow_lists_dir=str(settings.allow_lists_dir) if settings.allow_lists_dir else None,
        tagger=settings.tagger,
        infill=settings.infill_source,
        fill_slots_max=settings.fill_slots_max,
        places_per_document_max=PLACES_PER_DOCUMENT_MAX,
    )
    return partial(make_handler, role, options)
