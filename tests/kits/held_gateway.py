"""A gateway's side of one attempt, in a process that a test kills: `python held_gateway.py ADDRESS JOBS BENCH NAME`.

It takes a place, orders the job in `JOBS/NAME`, answers its charge, and waits.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import held_job
from held_runner import TOKEN

from core.files.encrypted_file import encrypt, new_key
from gpu_workers.engine.remote.access import Access
from gpu_workers.engine.remote.engine import StaticDirectory
from gpu_workers.job_runners.kinds import job_codec
from gpu_workers.job_runners.places import RemotePlaces
from gpu_workers.jobs.messages import Charged, ChargeRequested, JobOrder
from gpu_workers.jobs.places import FilesChanged, Place, Process


def order(jobs: Path, bench: Path, name: str, *, text: str = "yes", more_bytes: int = 0, **changes: Any) -> JobOrder:
    """An order with a folder as a gateway has it."""
    folder = jobs / name
    folder.mkdir(parents=True)
    key = new_key()
    encrypt(folder / "input", key, "input", f'{{"answer": "{text}"}}\n'.encode())
    for own in ("key", "spec", "owner"):
        (folder / own).write_text(f"{own} of the gateway")
    spec = held_job.HeldSpec(str(bench), name, (str(folder / "out" / f"{name}.safetensors"),), more_bytes=more_bytes)
    return JobOrder(**({"entry_point": held_job.ENTRY_POINT, "folder": folder, "key": key, "spec": spec} | changes))


def remote_places(address: str, staging: Path, *, token: str = TOKEN, bytes_max: int = 1 << 30) -> RemotePlaces:
    held_job.add_kind()
    directory = StaticDirectory({"jobs": [address]})
    return RemotePlaces(directory, job_codec(), Access(token), staging=staging, bytes_max=bytes_max)


class Attempt:
    """Collects the messages of a process. Its charge is answered, and its files are applied, as a gateway does."""

    def __init__(self, place: Place, job: JobOrder, *, seconds_max: float = 600) -> None:
        self.messages: list[Any] = []
        self.process: Process | None = None
        self._came = asyncio.Event()
        self.process = place.start(job, seconds_max=seconds_max, on_message=self._on_message, on_death=self._on_death)

    def _on_message(self, message: Any) -> None:
        if isinstance(message, FilesChanged):
            message.apply()
        elif isinstance(message, ChargeRequested) and self.process is not None:
            self.process.send(Charged())
        self.messages.append(message)
        self._came.set()

    def _on_death(self) -> None:
        self._on_message("died")

    async def until(self, kind: Any) -> Any:
        """The first message of this class, or the death."""
        async with asyncio.timeout(240):
            while True:
                for message in self.messages:
                    if message == kind or (isinstance(kind, type) and isinstance(message, kind)):
                        return message
                    if message == "died":
                        return message
                self._came.clear()
                await self._came.wait()


async def main(address: str, jobs: str, bench: str, name: str) -> None:
    places = remote_places(address, Path(jobs))
    await places.start()
    Attempt(await places.take(), order(Path(jobs), Path(bench), name))
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
