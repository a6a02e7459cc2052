"""The places of a gateway's jobs on job runners.

A gateway waits until a runner reports a free place and asks for it. A runner that has given it to another gateway
refuses at once. So the job stays in the queue of all gateways until one of them has a place for it.

All runners in use have one fingerprint, as the workers of a role do: the gateway changes to another one when no runner
with the present one can be reached, and uses none of another version than its own.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from gpu_workers.engine import metrics
from gpu_workers.engine.remote.access import Access
from gpu_workers.engine.remote.codec import Codec
from gpu_workers.engine.remote.engine import Directory
from gpu_workers.job_runners.frames import JOBS
from gpu_workers.job_runners.runner import RemotePlace, Runner

log = logging.getLogger("privacy_gateway.jobs")

CHECK_S = 1.0


class RemotePlaces:
    """Used on the event loop only, without locks."""

    def __init__(self, directory: Directory, codec: Codec, access: Access, *, staging: Path, bytes_max: int) -> None:
        """`staging`: a folder on the file system of the jobs' folders. `bytes_max`: of a job's files."""
        self._directory = directory
        self._codec = codec
        self._access = access
        self._staging = staging
        self._bytes_max = bytes_max
        self._gateway = secrets.token_hex(8)
        self._runners: dict[str, Runner] = {}
        self._addresses: Sequence[str] = ()
        self._unusable: dict[str, str] = {}
        self._fingerprint = ""
        self._wake = asyncio.Event()
        self._background: set[asyncio.Task[None]] = set()

    @property
    def stage(self) -> str:
        reachable = [runner for runner in self._runners.values() if runner.reachable and runner.state]
        if not reachable:
            return "no job runner can be reached"
        if not self._used:
            return "all job runners are of another version"
        free = sum(runner.state.free for runner in self._used if runner.state)
        places = sum(runner.state.places for runner in self._used if runner.state)
        return f"ready ({free} of {places} places are free)"

    async def start(self) -> None:
        """Begin to connect and return at once."""
        for loop in (self._follow(), self._check()):
            self._background.add(asyncio.create_task(loop))

    async def stop(self) -> None:
        """Close the connections. The runners go on: other gateways may use them."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await asyncio.gather(*(runner.stop() for runner in self._runners.values()))
        await self._directory.close()

    async def take(self) -> RemotePlace:
        while True:
            self._wake.clear()
            free = [(runner.state.free, runner) for runner in self._used if runner.state and runner.state.free]
            for _, runner in sorted(free, key=lambda entry: -entry[0]):
                place = await runner.ask()
                if place is not None:
                    return place
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), CHECK_S)

    @property
    def _used(self) -> list[Runner]:
        """The runners with the models and lists that this gateway uses."""
        return [
            runner
            for runner in self._runners.values()
            if runner.reachable and runner.state is not None and runner.state.fingerprint == self._fingerprint
        ]

    def _changed(self) -> None:
        """Choose the runners that are used, after a change of one of them."""
        states = [runner.state for runner in self._runners.values() if runner.reachable and runner.state]
        if not any(state.fingerprint == self._fingerprint for state in states):
            own = [state for state in states if state.schema == self._codec.schema and not state.draining]
            self._fingerprint = own[0].fingerprint if own else self._fingerprint
        used = len(self._used)
        metrics.WORKER_READY.labels(JOBS).set(used)
        metrics.WORKERS_REFUSED.labels(JOBS).set(len(states) - used)
        self._wake.set()

    def _use(self) -> None:
        """Use the runners of the directory, and no others. One that is no longer listed keeps its attempts."""
        unusable = {}
        for address in self._addresses:
            if address not in self._runners:
                try:
                    self._connect(address)
                except Exception as error:  # a file of TLS may be replaced at that time
                    unusable[address] = type(error).__name__
        for address, kind in unusable.items() - self._unusable.items():
            log.error("job-runner-address", extra={"fields": {"address": address, "kind": kind}})
        self._unusable = unusable
        for address in self._runners.keys() - set(self._addresses):
            leaving = asyncio.create_task(self._runners.pop(address).leave())
            self._background.add(leaving)
            leaving.add_done_callback(self._background.discard)
        self._changed()

    def _connect(self, address: str) -> None:
        """Raises ValueError or OSError for an address or TLS files that cannot be used."""
        runner = Runner(
            address,
            self._codec,
            self._access,
            gateway=self._gateway,
            staging=self._staging,
            bytes_max=self._bytes_max,
            on_change=self._changed,
        )
        self._runners[address] = runner
        runner.start()

    async def _follow(self) -> None:
        """Use the addresses of the directory."""
        while True:
            try:
                self._addresses = (await self._directory.changed()).get(JOBS, ())
                self._use()
            except Exception as error:
                log.error("job-runner-directory", extra={"fields": {"kind": type(error).__name__}})
                await asyncio.sleep(CHECK_S)

    async def _check(self) -> None:
        """Notice runners that have become silent, and try again those that could not be used."""
        while True:
            await asyncio.sleep(CHECK_S)
            with suppress(Exception):
                self._use() if self._unusable else self._changed()
