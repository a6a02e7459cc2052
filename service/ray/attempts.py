"""Attempts at jobs that run on a Ray cluster: a `StartJob` whose processes are entry points of `gpu_workers.remote`.

Guarantee: what arrives from the cluster changes a job only while this gateway holds it, under the `run` of the attempt:
once `stop` of an attempt has returned, its sessions are refused, and the blob store's files of an entry point that
still runs get no name. A token opens one session. A token that comes a second time ends the attempt, since somebody
else may have used it. A checkpoint replaces the former one as that of a local process does (`service.jobs.blobs`).
Only the gateway that holds a job answers for it, so a submission carries its own address.
"""

import asyncio
import contextlib
import hashlib
import logging
import pickle
import secrets
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException

from core.blobs.named import fetch_blob
from core.errors import BlobError, InvalidInput, JobFailed, JobFilesLost, StorageFull, StoreUnavailable
from core.files.disk import full_disk
from core.files.encrypted_file import read_encrypted
from core.state.jobs import LEASE_MS, JobRecord, checked_metrics
from gpu_workers.jobs import protocol
from gpu_workers.remote import wire
from service.config.settings import Settings
from service.jobs.blobs import CheckpointResult, WorkingFolders, job_prefix
from service.jobs.remote import RemoteStart
from service.ray.client import ENDED, RayClient, RayUnavailable

log = logging.getLogger("privacy_gateway.jobs")

POLL_S = 2.0
_STOP_S_MAX = 5.0
_SESSIONS_MAX = 4096  # of one attempt


class SessionRefused(HTTPException):
    """No session of an attempt that this gateway runs."""

    def __init__(self) -> None:
        super().__init__(401)


@dataclass
class _Session:
    """`is_main`: that of the entry point; the others draw shards for it."""

    is_main: bool
    received: int = 0
    answers: list[Any] = field(default_factory=list)
    more: asyncio.Event = field(default_factory=asyncio.Event)


class RayAttempt:
    """One attempt. Runs on the event loop."""

    def __init__(
        self,
        jobs: "RayJobs",
        working: WorkingFolders,
        order: protocol.JobOrder,
        *,
        job: JobRecord,
        on_message: Callable[[Any], None],
        on_death: Callable[[], None],
    ) -> None:
        self._jobs = jobs
        self._working = working
        self._order = order
        self._job = job
        self._on_message = on_message
        self._on_death = on_death
        self._submission = f"{job.job_id}-{job.run}"
        self._tokens: dict[bytes, bool] = {}  # digests, and whether they open the main session
        self._used: set[bytes] = set()
        self._sessions: dict[bytes, _Session] = {}
        self._asking: deque[_Session] = deque()
        self._heard_at: float | None = None
        self._collecting: asyncio.Task[None] | None = None
        self._closed = self._has_outcome = False
        self._lock = asyncio.Lock()  # of what changes the job
        self._supervising = asyncio.create_task(self._supervise())

    # what the attempt calls

    def send(self, message: Any) -> None:
        session = self._asking.popleft()  # requests are answered in their order
        session.answers.append(message)
        session.more.set()

    def kill(self) -> None:
        self._closed = True
        self._supervising.cancel()
        if self._collecting is not None:
            self._collecting.cancel()
        for session in self._sessions.values():
            session.more.set()

    async def stop(self) -> None:
        self.kill()
        tasks = [self._supervising, *([self._collecting] if self._collecting else [])]
        await asyncio.gather(*tasks, return_exceptions=True)
        async with self._lock:  # of a checkpoint that was under way
            self._jobs.forget(self._job.job_id, self)
        if self._has_outcome:
            return  # the entry point ends
        with contextlib.suppress(RayUnavailable, TimeoutError):
            await asyncio.wait_for(self._jobs.client.stop(self._submission), _STOP_S_MAX)

    # what the cluster calls

    def redeem(self, token: str) -> bytes:
        """The order, for a token that was not used before. Raises SessionRefused."""
        digest = _digest(token)
        if digest in self._used:
            self._die("job-token-used-again")
        is_main = self._tokens.pop(digest, None)
        if is_main is None or self._closed:
            raise SessionRefused
        self._used.add(digest)
        secret = secrets.token_hex(32)
        self._sessions[_digest(secret)] = _Session(is_main)
        self._heard_at = self._heard_at or time.monotonic()
        prefix = job_prefix(self._job.owner, self._job.job_id)
        files = dict(self._working.listed(self._job.job_id))
        return pickle.dumps(wire.RemoteOrder(self._order, secret, prefix, files, LEASE_MS / 1000))

    def session(self, secret: str) -> _Session:
        """Raises SessionRefused."""
        found = self._sessions.get(_digest(secret))
        if found is None or self._closed:
            raise SessionRefused
        if found.is_main:
            self._heard_at = time.monotonic()
        return found

    def main_session(self, secret: str) -> None:
        """Raises SessionRefused for a session of another process than the entry point."""
        if not self.session(secret).is_main:
            raise SessionRefused

    def new_token(self, *, is_main: bool = False) -> str:
        """Raises SessionRefused for too many."""
        if len(self._tokens) + len(self._used) >= _SESSIONS_MAX:
            raise SessionRefused
        token = secrets.token_hex(32)
        self._tokens[_digest(token)] = is_main
        return token

    async def exchange(self, session: _Session, sent: wire.Exchanged) -> list[Any]:
        """Take the messages that were not received before, and return the answers that were not seen. Raises
        InvalidInput."""
        for message in sent.messages[max(0, session.received - sent.first) :]:
            session.received += 1
            self._receive(session, message)
        if sent.waits and len(session.answers) <= sent.seen:
            session.more.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(session.more.wait(), wire.BEAT_S)
        return session.answers[sent.seen :]

    def _receive(self, session: _Session, message: wire.Sent) -> None:
        is_outcome = isinstance(message, wire.Outcome)
        if isinstance(message, protocol.ChargeRequested | protocol.HoldRequested):
            self._asking.append(session)
        elif is_outcome and not session.is_main:
            raise InvalidInput("not a message of this process", field="messages")
        elif isinstance(message, protocol.JobProgress):
            try:
                checked_metrics(message.metrics)
            except ValueError as error:
                raise InvalidInput(str(error), field="messages") from None
        self._has_outcome |= is_outcome
        if isinstance(message, protocol.Succeeded):
            self._collecting = self._collecting or asyncio.create_task(self._collect(message))
        else:
            self._on_message(message)

    async def checkpoint(self, files: wire.CheckpointReport) -> None:
        """Make these files the job's checkpoint. Raises InvalidInput, SessionRefused; LedgerUnavailable,
        StoreUnavailable, StorageFull: repeat the call."""
        if not (files.files.keys() >= {protocol.KEY, protocol.SPEC} and all(map(protocol.is_plain, files.files))):
            raise InvalidInput("files of a job, with its key and its fields", field="files")
        async with self._lock:
            if self._closed:
                raise SessionRefused
            found = await self._working.take_over(self._job, self._job.run, files.files)
        if found is CheckpointResult.LOST:
            self._die("job-lost-on-cluster")
            raise SessionRefused

    # the cluster

    async def _supervise(self) -> None:
        """Submit the job, and find out when its entry point has died."""
        client, settings = self._jobs.client, self._jobs.settings
        environment = {
            "PRIVACY_GATEWAY_RAY_GATEWAY_URL": settings.ray_gateway_url,
            "PRIVACY_GATEWAY_RAY_JOB_TOKEN": self.new_token(is_main=True),
        }
        gpus = int(settings.devices[0].startswith("cuda"))
        while True:
            try:
                for former in await client.running(self._job.job_id):
                    if former != self._submission:
                        await client.stop(former)
                await client.submit(
                    self._submission,
                    f"python -m gpu_workers.remote {self._job.job_id}",
                    environment,
                    cpus=max(1, settings.job_threads),
                    gpus=gpus,
                )
                break
            except RayUnavailable:
                await asyncio.sleep(POLL_S)
        while not self._has_outcome:
            await asyncio.sleep(POLL_S)
            if self._heard_at is not None and time.monotonic() - self._heard_at > LEASE_MS / 1000:
                return self._die("job-silent-on-cluster")
            with contextlib.suppress(RayUnavailable):
                status = await client.status(self._submission)
                if not self._has_outcome and (status is None or status in ENDED):
                    return self._die("job-ended-on-cluster")
        return None

    def _die(self, event: str) -> None:
        if not self._closed:
            self._closed = True
            log.warning(event, extra={"fields": {"job_id": self._job.job_id}})
            self._on_death()

    async def _collect(self, succeeded: protocol.Succeeded) -> None:
        """Decrypt what the job has made into its working folder, then go on as after a process of this machine."""
        job, store = self._job, self._working.blobs.store
        folder = self._working.files.folder(job.job_id)
        made = {
            name: blob
            for name, (blob, _) in self._working.listed(job.job_id).items()
            if name.startswith(wire.MADE) and protocol.is_plain(name.removeprefix(wire.MADE))
        }
        while True:
            try:
                for name, blob in made.items():
                    fetched = folder / f".{secrets.token_hex(8)}"
                    try:
                        await fetch_blob(store, job_prefix(job.owner, job.job_id), blob, fetched)
                        target = folder / protocol.OUTPUTS / name.removeprefix(wire.MADE)
                        await asyncio.to_thread(_decrypt, fetched, self._order.key, name, target)
                    finally:
                        fetched.unlink(missing_ok=True)
                break
            except StoreUnavailable:
                await asyncio.sleep(POLL_S)
            except StorageFull:
                problem = JobFailed("The gateway has too little free disk space.", reason="storage-full")
                return self._on_message(protocol.Failed(problem))
            except (BlobError, JobFilesLost, OSError):
                return self._die("job-outputs-lost")
        return self._on_message(succeeded)


def _decrypt(path: Path, key: bytes, label: str, target: Path) -> None:
    with full_disk():
        target.parent.mkdir(mode=0o700, exist_ok=True)
        with target.open("wb") as file:
            target.chmod(0o600)
            for chunk in read_encrypted(path, key, label):
                file.write(chunk)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


class RayJobs(RemoteStart):
    """The attempts of this gateway that run on the cluster."""

    def __init__(self, settings: Settings) -> None:
        """Raises ValueError, OSError for settings that cannot be used."""
        self.settings = settings
        self.client = RayClient(settings)
        self._attempts: dict[str, RayAttempt] = {}

    def start(
        self,
        working: WorkingFolders,
        order: protocol.JobOrder,
        *,
        job: JobRecord,
        on_message: Callable[[Any], None],
        on_death: Callable[[], None],
    ) -> RayAttempt:
        attempt = RayAttempt(self, working, order, job=job, on_message=on_message, on_death=on_death)
        self._attempts[job.job_id] = attempt
        return attempt

    def attempt(self, job_id: str) -> RayAttempt:
        """Raises SessionRefused for a job that this gateway does not hold."""
        found = self._attempts.get(job_id)
        if found is None:
            raise SessionRefused
        return found

    def forget(self, job_id: str, attempt: RayAttempt) -> None:
        if self._attempts.get(job_id) is attempt:
            del self._attempts[job_id]
