"""The composition root: builds the parts of one gateway process, starts them in order and stops them in reverse.

The functions of this module build the parts that capabilities share, and each capability builds its own
(`service/capability.py`). Endpoints get single parts by `service/parts.py`. No other module imports this one, besides
the application, the server and tests.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from core.errors import NotStarted
from core.ledger.archive.store import LedgerArchive
from core.ledger.hash_chain.admin_log import AdminLog
from core.ledger.reuse import Attempts, ReuseStore
from core.ledger.transitions import Ledger
from core.master_key import MasterKey
from core.redis.client import LedgerClient
from core.redis.embedded import EmbeddedRedis
from core.state.jobs import JobStore
from core.state.keystore import KeyStore
from core.state.masking_counts import MaskingCounts
from core.state.sessions import SessionStore
from core.text.policy import ENTITIES
from gpu_workers.engine.arrays import ArrayPool
from gpu_workers.engine.task_queue import Engine
from service.admission import LoadLimits, build_limits
from service.budget.pricing import Prices
from service.capabilities import CAPABILITIES
from service.capability import Capability
from service.config.reading import load_admin_keys, load_master_key
from service.config.settings import Settings
from service.config.worker_options import make_engine
from service.files.orphans import Orphans, remove_forgotten_regularly
from service.files.stored import OwnDirectory, StoredFiles, open_files, stored_files
from service.http.auth import Authenticator
from service.http.body import BodyMemory
from service.http.browser_sessions import BrowserSessions
from service.http.exchange import OpenStreams
from service.http.local_calls import LocalCalls
from service.isolation import Isolation
from service.jobs.kind import JobKinds
from service.jobs.runner import JobRunner
from service.jobs.storage import Storage, storage
from service.ledger_connection import LedgerParts, build_ledger
from service.operation.maintenance import Maintenance
from service.parts import Parts
from service.preparation import Preparation
from service.releases.pipeline import ReleasePipeline
from service.tracing.export import built_export
from service.workers import Workers


@dataclass(frozen=True)
class AdminKeys:
    """The keys of the operator."""

    keys: tuple[str, ...]


class Gateway:
    """One gateway. `start` and `stop` belong to whoever built it (`service/serve.py`)."""

    def __init__(
        self,
        settings: Settings,
        *,
        engine: Engine | None = None,
        own_dir: Path | None = None,
        capabilities: Sequence[Capability] = CAPABILITIES,
    ) -> None:
        """Build everything, start nothing.

        engine: by default the one that the settings describe (`service.config.worker_options`).
        own_dir: for the files of this process alone, where others use the data directory, too.
        capabilities: by default all of the project.
        Raises GatewayError, ValueError or OSError for settings and files that cannot be used.
        """
        self.settings = settings
        self.capabilities = capabilities
        self._traces = built_export(settings)
        own = OwnDirectory(own_dir or settings.data_dir)
        own.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._redis: EmbeddedRedis | None = None
        if settings.redis_url is None:
            self._redis = EmbeddedRedis(settings.data_dir, redis_server=settings.redis_server)

        self.parts = parts = Parts()
        parts.offer({Settings: lambda _: settings, OwnDirectory: lambda _: own})
        parts.offer(_of_the_ledger(self._redis))
        parts.offer({Engine: lambda _: engine or make_engine(settings)})
        parts.offer(_SHARED)
        for capability in capabilities:
            parts.offer(capability.services)
        parts.offer({JobKinds: self._job_kinds, Prices: self._prices})
        parts.build()
        self.ledger, self.engine, self.jobs = parts[Ledger], parts[Engine], parts[JobRunner]

    def _job_kinds(self, parts: Parts) -> JobKinds:
        return JobKinds(chain.from_iterable(each.job_kinds(parts) for each in self.capabilities))

    def _prices(self, parts: Parts) -> Prices:
        endpoints = chain.from_iterable(each.prices(parts) for each in self.capabilities)
        return Prices.of(parts[JobKinds].values(), endpoints)

    async def start(self) -> None:
        """Start the ledger, refuse a wrong configuration, begin to load the workers."""
        parts, maintenance = self.parts, self.parts[Maintenance]
        if self._traces is not None:
            self._traces.start()
        await self.jobs.claim_files()
        for capability in self.capabilities:
            await capability.begin(parts)
        if self._redis is not None:
            await self._redis.start()
            maintenance.run(self._redis.supervise())
        await maintenance.open_ledger()
        await self.engine.start()
        await open_files(parts[LedgerClient], parts[StoredFiles], alone=self._redis is not None)
        await self.jobs.open()
        maintenance.start()
        maintenance.run(Orphans(parts[StoredFiles], parts[JobStore]).collect_regularly())
        maintenance.run(remove_forgotten_regularly(parts[StoredFiles]))
        for limit in parts[LoadLimits].shared:
            maintenance.run(limit.return_regularly())
        for capability in self.capabilities:
            for work in capability.background(parts):
                maintenance.run(work)

    def end_streams(self) -> None:
        """End the open streams, which would prevent a server from stopping."""
        self.jobs.end_streams()
        self.parts[OpenStreams].end_all(
            NotStarted("The gateway is stopping; this line and those after it were not read.")
        )

    async def stop(self) -> None:
        """Stop everything that was started."""
        await self.jobs.close()  # first: a job may call routes of this gateway
        self.parts[Preparation].close()
        await self.parts[Isolation].close()
        for capability in self.capabilities:
            await capability.end(self.parts)
        await self.engine.stop()
        await self.parts[Maintenance].stop(self._leave)
        if self._redis is not None:
            await self._redis.stop()
        if self._traces is not None:
            await asyncio.to_thread(self._traces.stop)

    async def _leave(self) -> None:
        for capability in self.capabilities:
            await capability.leave(self.parts)


def _of_the_ledger(redis: EmbeddedRedis | None) -> dict[type, Callable[[Parts], Any]]:
    """The parts that depend on whether this process has its Redis to itself."""
    is_alone = redis is not None

    def ledger(parts: Parts) -> LedgerParts:
        return build_ledger(parts[Settings], parts[MasterKey], socket=redis.socket if redis else None)

    def limits(parts: Parts) -> LoadLimits:
        return build_limits(parts[Settings], parts[LedgerClient], parts[MasterKey], is_alone=is_alone)

    return {
        MasterKey: lambda parts: load_master_key(parts[Settings]),
        AdminKeys: lambda parts: AdminKeys(load_admin_keys(parts[Settings])),
        LedgerParts: ledger,
        Maintenance: lambda parts: Maintenance(parts[Settings], parts[LedgerParts], is_alone=is_alone),
        LedgerClient: lambda parts: parts[LedgerParts].client,
        LedgerArchive: lambda parts: parts[LedgerParts].archive,
        Ledger: lambda parts: parts[LedgerParts].ledger,
        KeyStore: lambda parts: parts[LedgerParts].keys,
        AdminLog: lambda parts: parts[KeyStore].log,
        LoadLimits: limits,
    }


def _sessions(parts: Parts) -> BrowserSessions:
    settings = parts[Settings]
    store = SessionStore(
        parts[LedgerClient],
        parts[MasterKey],
        lifetime_s=settings.dashboard_session_s,
        each_max=settings.dashboard_sessions_max,
    )
    return BrowserSessions(
        store,
        parts[KeyStore],
        parts[AdminKeys].keys,
        grants=None if settings.sign_on is None else settings.sign_on.grants_digest,
        hosts=settings.dashboard_hosts,
    )


def _authenticator(parts: Parts) -> Authenticator:
    return Authenticator(parts[KeyStore], parts[AdminKeys].keys, parts[LoadLimits], parts[BrowserSessions])


def _streams(parts: Parts) -> OpenStreams:
    return OpenStreams(parts[Authenticator].refusal, interval_s=parts[Settings].stream_key_check_s)


def _body_memory(parts: Parts) -> BodyMemory:
    settings = parts[Settings]
    return BodyMemory(
        bytes_max=settings.bodies_memory_bytes_max, owner_bytes_max=settings.bodies_memory_per_tenant_bytes_max
    )


def _files(parts: Parts) -> StoredFiles:
    return stored_files(parts[Settings], parts[LedgerClient], parts[MasterKey], own_dir=parts[OwnDirectory].path)


def _releases(parts: Parts) -> ReleasePipeline:
    settings = parts[Settings]
    retention_ms = int(settings.reuse_retention_s * 1000)
    reuse = None  # no release is reused
    if retention_ms:
        reuse = ReuseStore(
            parts[LedgerClient], parts[MasterKey], retention_ms=retention_ms, places=settings.reuse_results_max
        )
    return ReleasePipeline(
        settings,
        ledger=parts[Ledger],
        master_key=parts[MasterKey],
        engine=parts[Engine],
        reuse=reuse,
        attempts=Attempts(parts[LedgerClient], parts[MasterKey]),
        preparation=parts[Preparation],
        masking=parts[MaskingCounts],
    )


_SHARED: dict[type, Callable[[Parts], Any]] = {
    BrowserSessions: _sessions,
    Authenticator: _authenticator,
    OpenStreams: _streams,
    LocalCalls: lambda _: LocalCalls(),
    ArrayPool: lambda parts: parts[Engine].arrays,
    Workers: lambda parts: Workers(parts[Engine]),
    BodyMemory: _body_memory,
    MaskingCounts: lambda parts: MaskingCounts(parts[LedgerClient], types=ENTITIES),
    Preparation: lambda _: Preparation(),
    Isolation: lambda _: Isolation(),
    StoredFiles: _files,
    Storage: lambda parts: storage(parts[Settings], parts[StoredFiles].index.used),
    ReleasePipeline: _releases,
}
