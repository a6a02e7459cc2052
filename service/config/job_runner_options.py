"""The places of jobs and the job runner that the settings describe."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from core.files.disk import free_bytes
from gpu_workers.jobs.places import LocalPlaces, Places
from service.config.settings import Settings
from service.config.worker_options import access, content_digest

if TYPE_CHECKING:
    from gpu_workers.engine.remote.engine import Directory
    from gpu_workers.job_runners.server import JobRunnerServer

JOBS = "jobs"  # the role of job runners
_FOLDER = "job-runs"


def make_places(settings: Settings, staging: Path) -> Places:
    """Where the jobs of a gateway run. `staging`: the folder of its jobs. What runners need is imported for them alone.

    Raises ValueError or OSError for addresses or TLS files that cannot be used.
    """
    if settings.jobs == "local":
        return LocalPlaces()
    from gpu_workers.engine.remote.directory import HttpDirectory
    from gpu_workers.engine.remote.engine import StaticDirectory
    from gpu_workers.job_runners.kinds import job_codec
    from gpu_workers.job_runners.places import RemotePlaces

    own = access(settings)
    directory: Directory
    if settings.jobs == "ray":
        directory = HttpDirectory(settings.workers_directory, own)
    else:
        addresses = [address for role, _, address in (each.partition("=") for each in settings.workers) if role == JOBS]
        for address in addresses:
            own.check(address)
        directory = StaticDirectory({JOBS: addresses})
    return RemotePlaces(directory, job_codec(), own, staging=staging, bytes_max=settings.tenant_disk_bytes_max)


def jobs_at_once(settings: Settings) -> int:
    """How many jobs a gateway runs at once."""
    return settings.jobs_running_max if settings.jobs == "local" else settings.jobs_remote_max


def job_runner(
    settings: Settings, listen: str, *, device: str | None = None, places: int | None = None
) -> JobRunnerServer:
    """A job runner of this machine. `device` and `places`: instead of those of the settings.

    Raises ValueError or OSError for an address or files that cannot be used.
    """
    from gpu_workers.job_runners.hosted import HostLimits
    from gpu_workers.job_runners.kinds import Machine, job_codec
    from gpu_workers.job_runners.server import JobRunnerServer

    data_dir = settings.data_dir

    def is_full() -> bool:
        return free_bytes(data_dir) < settings.disk_free_bytes_min / 2

    return JobRunnerServer(
        job_codec(),
        access(settings),
        listen=listen,
        root=data_dir / _FOLDER,
        machine=Machine(
            device=device or settings.devices[0],
            threads=settings.job_threads,
            encoder_path=str(settings.encoder_path) if settings.encoder_path else None,
            tagger=settings.tagger,
            allow_lists_dir=str(settings.allow_lists_dir) if settings.allow_lists_dir else None,
            models={name: str(path) for name, path in settings.finetune_models.items()},
        ),
        limits=HostLimits(
            bytes_max=settings.tenant_disk_bytes_max,
            memory_bytes_max=settings.job_memory_bytes_max,
            is_full=is_full,
        ),
        places=places or settings.job_places,
        content=_content(settings),
    )


def _content(settings: Settings) -> str:
    """A digest of the operator's own models and lists that jobs use, with the names of the models."""
    models = settings.finetune_models
    named = [
        settings.allow_lists_dir,
        settings.encoder_path,
        settings.tagger,
        *(models[name] for name in sorted(models)),
    ]
    whole = "\n".join([content_digest(named), *sorted(models)])
    return hashlib.sha256(whole.encode()).hexdigest()
