"""A session of a process on the cluster with the gateway that holds its job, and the job's files in the blob store.

Guarantee: messages arrive once and in their order, whatever is sent again. A message that may depend on noise is sent
only once the gateway has made the files of that moment the job's checkpoint. If the gateway refuses the session, or
gives no answer for as long as the order says, the process ends at once.
"""

import asyncio
import contextlib
import logging
import math
import os
import pickle
import queue
import resource
import secrets
import shutil
import ssl
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import httpx
from pydantic import SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from core.blobs.options import StorageSettings, opened_store
from core.errors import StorageFull, StoreUnavailable
from core.files.processes import FileLock
from gpu_workers.jobs.manifests import Listed, Manifest, fetch_files, save_changed
from gpu_workers.jobs.process import Exchange
from gpu_workers.jobs.protocol import RUN_LOCK, ChargeRequested, HoldRequested, Wire
from gpu_workers.remote import wire

Result = TypeVar("Result")
_Messages = queue.SimpleQueue[Any]

_MEMORY = Path("/dev/shm")  # noqa: S108 - folders below it are made with mode 0700 and a random name
_NAME = "privacy-gateway-job-"
_ANSWER_S_MAX = 30.0
_AGAIN_S = 0.5
_LATER = (429, 500, 502, 503, 504, 507)


class ClusterSettings(StorageSettings, BaseSettings):
    """The environment of a process on the cluster. The submission sets the address and the token, the operator the
    rest, as for the gateway (docs/reference/settings.md)."""

    model_config = SettingsConfigDict(env_prefix="PRIVACY_GATEWAY_", extra="ignore", hide_input_in_errors=True)

    ray_gateway_url: str = ""
    ray_job_token: SecretStr = SecretStr("")
    ray_ca_file: Path | None = None
    ray_plain_http: bool = False
    job_threads: int = 0


def keep_quiet() -> None:
    """Let nothing that this process or a library prints or logs reach a file of the cluster, and no core dump."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    logging.disable(logging.CRITICAL)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)


def memory_folder() -> tuple[Path, FileLock]:
    """A new folder in memory, and the lock that shows that it is used. Removes folders of processes that have died.

    Raises OSError if /dev/shm is not in memory.
    """
    mounted = (line.split()[1:3] for line in Path("/proc/self/mounts").read_text().splitlines())
    if ["/dev/shm", "tmpfs"] not in mounted:  # noqa: S108 - as above
        raise OSError("no tmpfs")
    for left in _MEMORY.glob(f"{_NAME}*"):
        with contextlib.suppress(OSError):
            lock = FileLock(left / RUN_LOCK)
            if lock.try_acquire():
                shutil.rmtree(left, ignore_errors=True)
                lock.release()
    folder = _MEMORY / f"{_NAME}{secrets.token_hex(16)}"
    folder.mkdir(mode=0o700)
    lock = FileLock(folder / RUN_LOCK)
    lock.try_acquire()
    return folder, lock


def _taken(messages: _Messages, timeout_s: float) -> list[Any]:
    """Messages of the queue, as many as one request may have; none after the timeout."""
    taken: list[Any] = []
    with contextlib.suppress(queue.Empty):
        taken.append(messages.get(timeout=timeout_s))
        while len(taken) < wire.MESSAGES_MAX:
            taken.append(messages.get_nowait())
    return taken


class GatewayLost(Exception):
    """The gateway refuses the session, or gives no answer."""


class Channel:
    """One session. Its threads end with the process. `folder`: the job's files on this machine; it becomes the working
    directory. `exchange`: the messages, as of a process on the gateway's machine."""

    def __init__(self, job_id: str, folder: Path, token: str = "", names: Collection[str] | None = None) -> None:
        """Exchange the token, by default that of the environment, for the order, fetch the job's files, and exchange
        messages from then on. Files that change become checkpoints, in time. With `names`, only these files are
        fetched, and none become checkpoints.

        Raises GatewayLost, also for a token that was used before; BlobMissing, JobFilesLost, StoreUnavailable,
        StorageFull; ValueError or OSError for an environment that cannot be used.
        """
        settings = ClusterSettings()
        token = token or settings.ray_job_token.get_secret_value()
        address = wire.checked_address(settings.ray_gateway_url, "RAY_GATEWAY_URL", plain_http=settings.ray_plain_http)
        self._client = httpx.Client(
            base_url=f"{address}{wire.PREFIX}/{job_id}/",
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            timeout=_ANSWER_S_MAX,
            trust_env=False,
            verify=ssl.create_default_context(cafile=settings.ray_ca_file),
        )
        opened: wire.RemoteOrder = pickle.loads(self._post("order", patience_s=0))  # noqa: S301 - of our own gateway
        self._client.headers["Authorization"] = f"Bearer {opened.secret}"
        self._patience_s = opened.patience_s
        self.order = replace(opened.order, folder=folder)
        os.chdir(folder)
        self._store, self._prefix = opened_store(settings, folder), opened.prefix
        files = {name: each for name, each in opened.files.items() if names is None or name in names}
        self._known = asyncio.run(fetch_files(self._store, self._prefix, files, folder))
        self._confirmed = self._known.files
        self._saving = threading.RLock()
        self._unsent: _Messages = queue.SimpleQueue()
        self._unsaved: _Messages = queue.SimpleQueue()  # they are sent once the files of that moment are stored
        self._saves = names is None
        self.exchange = Exchange(self._send)
        works = (self._exchange_regularly, self._save_regularly)[: 1 + self._saves]
        self._threads = [threading.Thread(target=self._or_leave, args=(work,), daemon=True) for work in works]
        for thread in self._threads:
            thread.start()

    def save(self) -> Listed:
        """Store what has changed, and return it. Raises StoreUnavailable, StorageFull, OSError."""
        with self._saving:
            known = self._known.files
            self._known = asyncio.run(save_changed(self._store, self._prefix, self.order.folder, self._known))
            return {name: each for name, each in self._known.files.items() if known.get(name) != each}

    def checkpoint(self) -> None:
        """Return once the files of this moment, or later ones, are the job's checkpoint."""
        while True:
            with contextlib.suppress(StoreUnavailable, StorageFull, OSError), self._saving:
                self.save()
                files = self._known.files
                if files != self._confirmed:  # the call is repeated as long as Redis does not answer
                    self._post("checkpoint", wire.CheckpointReport(files=dict(files)), patience_s=math.inf)
                    self._confirmed = files
                return
            time.sleep(_AGAIN_S)

    def add(self, files: Listed) -> None:
        """Fetch files that another process of the attempt has stored. Raises as the constructor."""
        with self._saving:
            new = {name: each for name, each in files.items() if not (self.order.folder / name).exists()}
            found = asyncio.run(fetch_files(self._store, self._prefix, new, self.order.folder))
            versions = {**self._known.versions, **{name: found.versions[name] for name in new}}
            self._known = Manifest({**self._known.files, **new}, versions=versions)

    def finish(self, outcome: Any) -> None:
        """Send the outcome, and return once the gateway has it."""
        self._send(outcome)
        self._threads[0].join()

    def token(self) -> str:
        """A token for one further process."""
        return self._or_leave(lambda: self._post("tokens")).decode()

    def leave(self) -> NoReturn:
        """End this process at once."""
        shutil.rmtree(self.order.folder, ignore_errors=True)
        os._exit(1)

    def _or_leave(self, work: Callable[[], Result]) -> Result:
        try:
            return work()
        except BaseException:
            self.leave()

    def _send(self, message: Any) -> None:
        waits_for_files = self._saves and not isinstance(message, ChargeRequested | HoldRequested)
        (self._unsaved if waits_for_files else self._unsent).put(wire.SENT.validate_python(message))

    def _exchange_regularly(self) -> None:
        first = seen = asked = 0
        messages: list[Any] = []
        while not any(isinstance(each, wire.Outcome) for each in messages):
            messages = _taken(self._unsent, 0 if asked > seen else wire.BEAT_S)
            asked += sum(isinstance(each, ChargeRequested | HoldRequested) for each in messages)
            sent = wire.Exchanged(first=first, messages=messages, seen=seen, waits=asked > seen)
            answers = wire.ANSWERS.validate_json(self._post("messages", sent))
            first += len(messages)
            seen += len(answers)
            for answer in answers:
                self.exchange.received(answer)

    def _save_regularly(self) -> None:
        messages: list[Any] = []
        while not any(isinstance(each, wire.Outcome) for each in messages):
            messages = _taken(self._unsaved, _AGAIN_S)
            self.checkpoint()
            for message in messages:
                self._unsent.put(message)

    def _post(self, name: str, body: Wire | None = None, *, patience_s: float | None = None) -> bytes:
        """Raises GatewayLost if it is refused, or not answered in time."""
        content = body.model_dump_json().encode() if body else b""
        until = time.monotonic() + (self._patience_s if patience_s is None else patience_s)
        while True:
            with contextlib.suppress(httpx.TransportError):
                answer = self._client.post(name, content=content)
                if answer.status_code == httpx.codes.OK:
                    return answer.content
                if answer.status_code not in _LATER:
                    raise GatewayLost
            if time.monotonic() >= until:
                raise GatewayLost
            time.sleep(_AGAIN_S)
