"""The engine and the workers that the settings describe."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from core.files.file_version import file_digest
from gpu_workers.engine.handler import HandlerFactory
from gpu_workers.engine.local.engine import LocalEngine
from gpu_workers.engine.local.worker_pool import WorkerPoolOptions
from gpu_workers.engine.protocol import Engine, Role
from gpu_workers.engine.task_queue import QueueLimits
from gpu_workers.handlers.options import WorkerOptions
from gpu_workers.handlers.preload import preload
from gpu_workers.handlers.registry import make_handler
from gpu_workers.models.sources import INFILL_OFF
from service import isolation
from service.config.data_dir import MEASURED
from service.config.precision import precision_of_workers
from service.config.settings import Settings
from service.config.worker_files import WORKER_FILES

if TYPE_CHECKING:
    from gpu_workers.engine.remote.access import Access
    from gpu_workers.engine.remote.engine import Directory
    from gpu_workers.engine.remote.server import WorkerServer


def make_engine(settings: Settings) -> Engine:
    """The engine of a gateway. What a remote one needs is imported for it alone.

    Raises ValueError or OSError for addresses or TLS files that cannot be used.
    """
    if settings.engine == "local":
        return LocalEngine(
            worker_pools(settings),
            array_bytes_max=settings.vectors_memory_bytes_max,
            array_owner_bytes_max=settings.vectors_memory_per_tenant_bytes_max,
        )
    from gpu_workers.engine.remote.engine import RemoteEngine, StaticDirectory
    from gpu_workers.engine.remote.object_sender import Needs
    from gpu_workers.engine.remote.pool import RemotePoolOptions
    from gpu_workers.handlers.needed_files import files_of
    from gpu_workers.handlers.wire import wire_codec

    own = access(settings)
    directory: Directory
    if settings.engine == "ray":
        from gpu_workers.engine.remote.directory import HttpDirectory

        directory = HttpDirectory(settings.workers_directory, own)
        roles = [role for role in Role if role is not Role.FILL or settings.infill_source != INFILL_OFF]
    else:
        addresses: defaultdict[Role, list[str]] = defaultdict(list)
        for worker in settings.workers:
            role, _, address = worker.partition("=")
            own.check(address)
            if role in set(Role):  # job runners are no part of the engine
                addresses[Role(role)].append(address)
        directory, roles = StaticDirectory({role.value: own for role, own in addresses.items()}), sorted(addresses)
    options = {
        role: RemotePoolOptions(limits=queue_limits(settings), batch_linger_ms=_linger_ms(role, settings))
        for role in roles
    }
    return RemoteEngine(
        options,
        directory,
        wire_codec(),
        own,
        needs=Needs(files_of),
        array_bytes_max=settings.vectors_memory_bytes_max,
        array_owner_bytes_max=settings.vectors_memory_per_tenant_bytes_max,
    )


def access(settings: Settings) -> Access:
    """What gateways and worker servers share. Raises ValueError without a token."""
    from gpu_workers.engine.remote.access import Access, Tls

    if settings.workers_token is None:
        raise ValueError("PRIVACY_GATEWAY_WORKERS_TOKEN is not set")
    ca, certificate, key = settings.workers_tls_ca, settings.workers_tls_certificate, settings.workers_tls_key
    tls = Tls(ca, certificate, key) if ca and certificate and key else None
    return Access(settings.workers_token.get_secret_value(), tls, settings.workers_plain)


def worker_server(settings: Settings, role: Role, listen: str, *, device: str | None = None) -> WorkerServer:
    """A server with the worker of a role. `device`: instead of the first one of the settings.

    Raises ValueError or OSError for an address or files that cannot be used.
    """
    from gpu_workers.engine.remote.cache_folders import open_cache
    from gpu_workers.engine.remote.object_server import WorkerFiles
    from gpu_workers.engine.remote.server import WorkerServer
    from gpu_workers.handlers.needed_files import NeededFiles
    from gpu_workers.handlers.wire import wire_codec

    folder = settings.worker_files_dir or settings.data_dir / WORKER_FILES
    try:
        cache = open_cache(folder.absolute(), role.value, bytes_max=settings.worker_files_bytes_max)
    except OSError as error:
        raise ValueError(f"WORKER_FILES_DIR cannot be used: {error.strerror or error}") from None
    default = settings.devices[0] if role is Role.EMBED else settings.sanitize_device
    return WorkerServer(
        role,
        _factory(role, settings, device or default),
        wire_codec(),
        access(settings),
        listen=listen,
        content=_content(settings),
        files=WorkerFiles(cache, NeededFiles()),
        batch_seconds_max=settings.request_timeout_s,
        slot_s=settings.worker_slot_s,
        array_bytes_max=settings.vectors_memory_bytes_max,
    )


def _content(settings: Settings) -> str:
    """A digest of the operator's own packs, lists and models that a worker loads at its start. The bundled ones are
    part of the version."""
    return content_digest(
        [
            settings.domain_packs_dir,
            settings.allow_lists_dir,
            settings.encoder_path,
            settings.tagger,
            settings.infill,
        ]
    )


def content_digest(named: Sequence[Path | str | None]) -> str:
    """A digest of the files of those that are folders, in this order."""
    digest = hashlib.sha256()
    for folder in (Path(name or "") for name in named):
        for path in sorted(folder.rglob("*")) if folder.name and folder.is_dir() else ():
            if path.is_file():
                digest.update(str(path.relative_to(folder)).encode() + b"\0" + bytes.fromhex(file_digest(path)))
        digest.update(b"\0\0")
    return digest.hexdigest()


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
    from gpu_workers.handlers.needed_files import absent

    return {
        role: WorkerPoolOptions(
            workers=workers,
            limits=queue_limits(settings),
            batch_linger_ms=_linger_ms(role, settings),
            batch_seconds_max=settings.request_timeout_s,
            preload=_preload(role, settings),
            lacking=absent,
        )
        for role, workers in handler_factories(settings).items()
    }


def preloads(settings: Settings) -> list[str]:
    """What a fork server imports for the workers of the local engine, in the order of their start; for isolation."""
    names = [name for role in Role for name in _preload(role, settings)]
    return list(dict.fromkeys((*names, isolation.PRELOAD)))


def _preload(role: Role, settings: Settings) -> tuple[str, ...]:
    precision = precision_of_workers(settings.encoder_precision, settings.encoder_path, settings.devices)
    return preload(role, encoder_precision=precision, tagger=settings.tagger, infill=settings.infill_source)


def _linger_ms(role: Role, settings: Settings) -> float:
    """The sanitiser reads texts one by one or in small batches: a larger one takes as much longer."""
    return 0.0 if role is Role.SANITIZE else settings.batch_linger_ms


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
        encoder_precision=precision_of_workers(settings.encoder_precision, settings.encoder_path, settings.devices),
        domain_packs_dir=str(settings.domain_packs_dir) if settings.domain_packs_dir else None,
        measured_dir=str(settings.data_dir.resolve() / MEASURED),
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
