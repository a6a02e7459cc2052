"""The folder of several gateways of one machine: who uses it, and what former ones have left in it."""

import asyncio
import shutil
from pathlib import Path

from core.errors import DataDirInUse
from core.files.processes import FileLock
from service.config.data_dir import PROCESSES
from service.config.settings import Settings

EXTRA_S = 30.0  # for what follows the last request of a gateway


def supervisor_lock(folder: Path) -> FileLock:
    """Held by a supervisor."""
    return FileLock(folder / "supervisor.lock")


def gateways_lock(folder: Path) -> FileLock:
    """Held by every gateway, also by those of a supervisor that was killed, until their last request has ended."""
    return FileLock(folder / "gateways.lock")


def remove_unused(folder: Path, processes: int) -> None:
    """Remove the working folders of gateways that are not started any more. The blob store has their files."""
    for own in folder.iterdir():
        if own.name.isdecimal() and int(own.name) > processes:
            shutil.rmtree(own, ignore_errors=True)


async def leave(settings: Settings) -> None:
    """Before a gateway without a supervisor starts: wait for those of a former one, and remove their folders.

    Their local copies are in plain form, and nothing else would remove them. Raises DataDirInUse.
    """
    folder = settings.data_dir / PROCESSES
    if not folder.is_dir():
        return
    supervisor, gateways = supervisor_lock(folder), gateways_lock(folder)
    if not supervisor.try_acquire():
        raise DataDirInUse
    try:
        if not await gateways.acquire(settings.request_timeout_s + EXTRA_S):
            raise DataDirInUse
        await asyncio.to_thread(remove_unused, folder, 1)
    finally:
        gateways.release()
        supervisor.release()
