"""What the supervisor tells each gateway: the settings that differ from those of the environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from service.config.data_dir import PROCESSES
from service.config.settings import Settings


def own_dir(settings: Settings, number: int) -> Path:
    """Where a gateway has files of its own. The first one has those of a gateway of one process."""
    return settings.data_dir if number == 1 else settings.data_dir / PROCESSES / str(number)


def gateway_order(settings: Settings, number: int, *, redis: Path | None, fork_server: bool) -> dict[str, Any]:
    """`redis`: the socket of the supervisor's Redis; None if the settings name one. `fork_server`: whether the process
    inherits a connection to the supervisor's fork server.

    The gateways divide the processors of this machine, where the settings do not say how many threads a worker has.
    """
    own: dict[str, Any] = {
        "data_dir": str(settings.data_dir),
        "host": settings.host,
        "port": settings.port,
        "admin_port": settings.admin_port and settings.admin_port + number - 1,
        "processes": settings.processes,
        "encoder_threads": settings.encoder_threads or max(1, _processors() // settings.processes),
    }
    if redis is not None:
        own["redis_url"] = f"unix://{quote(str(redis))}"
    return {
        "settings": own,
        "name": f"gateway {number}",
        "own_dir": str(own_dir(settings, number)),
        "fork_server": fork_server,
    }


def _processors() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
