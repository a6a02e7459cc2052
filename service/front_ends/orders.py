"""What the supervisor tells each process: the settings that differ from those of the environment."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import SecretStr

from gpu_workers.engine.protocol import Role
from gpu_workers.models.sources import INFILL_OFF
from service.config.data_dir import FRONT_ENDS
from service.config.settings import EngineSettings, Settings

# What a worker server reads of the settings. No key of the gateway is among them.
_WORKER_SETTINGS = frozenset(
    {
        *EngineSettings.model_fields,
        "data_dir", "hold_ttl_s", "fill_slots_max", "places_per_document_max", "domain_packs_loaded_max",
        "infill_models_loaded_max", "recognisers_loaded_max", "vectors_memory_bytes_max", "worker_slot_s",
        "worker_drain_s", "worker_files_dir", "worker_files_bytes_max",
    }
)  # fmt: skip


@dataclass(frozen=True)
class PlacedWorker:
    """A worker server of this machine."""

    name: str
    role: Role
    listen: str
    device: str | None = None


def placed_workers(settings: Settings, sockets: Path, *, start: str) -> list[PlacedWorker]:
    """The worker servers that the front ends share; none if the settings name servers elsewhere.

    `sockets`: a folder that only this user can enter. `start`: what the names of the sockets of this start end with.
    """
    if settings.engine != "local":
        return []
    found = [
        PlacedWorker(f"embed worker {n}", Role.EMBED, f"unix:{sockets / f'embed-{n}-{start}.sock'}", device)
        for n, device in enumerate(settings.devices, start=1)
    ]
    found.append(PlacedWorker("sanitize worker", Role.SANITIZE, f"unix:{sockets / f'sanitize-{start}.sock'}"))
    if settings.infill_source != INFILL_OFF:
        found.append(PlacedWorker("fill worker", Role.FILL, f"unix:{sockets / f'fill-{start}.sock'}"))
    return found


def worker_order(settings: Settings, worker: PlacedWorker, token: str) -> dict[str, Any]:
    own = settings.model_dump(include=set(_WORKER_SETTINGS)) | {"workers_token": token}
    return {"settings": _plain(own), "role": worker.role.value, "listen": worker.listen, "device": worker.device}


def own_dir(settings: Settings, number: int) -> Path:
    """Where a front end has files of its own. The first one has those of a gateway of one process."""
    return settings.data_dir if number == 1 else settings.data_dir / FRONT_ENDS / str(number)


def front_end_order(
    settings: Settings, number: int, *, redis: Path | None, workers: Sequence[PlacedWorker], token: str
) -> dict[str, Any]:
    """`redis`: the socket of the supervisor's Redis; None if the settings name one."""
    admin_port = settings.admin_port and settings.admin_port + number - 1
    own: dict[str, Any] = {
        "data_dir": settings.data_dir,
        "host": settings.host,
        "port": settings.port,
        "admin_port": admin_port,
        "processes": settings.processes,
    }
    if redis is not None:
        own["redis_url"] = f"unix://{quote(str(redis))}"
    if workers:
        own |= {
            "engine": "remote",
            "workers": [f"{worker.role.value}={worker.listen}" for worker in workers],
            "workers_token": token,
            "workers_tls_ca": None,
            "workers_tls_certificate": None,
            "workers_tls_key": None,
        }
    return {"settings": _plain(own), "name": f"front end {number}", "own_dir": str(own_dir(settings, number))}


def _plain(own: dict[str, Any]) -> Any:
    """As JSON has it. Secrets are in it: it is sent to the process and kept nowhere."""
    return json.loads(json.dumps(own, default=_value))


def _value(value: Any) -> Any:
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)
