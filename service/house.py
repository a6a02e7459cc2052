"""The gateway's parts, put together once per process: settings, keys, ledger, engine, domain packs.

`House.open()` starts them in order and `House.close()` ends them in reverse. Routes get the house by `Depends(house)`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable

from fastapi import Request

from core.errors import DeadlineBeforeStart, LedgerError, LedgerNotTrusted, QueueFull, WorkerCold
from core.ledger.client import LedgerClient
from core.ledger.embedded import EmbeddedRedis
from core.ledger.jobs import JobStore
from core.ledger.keys import MasterKey
from core.ledger.reuse import ReuseStore
from core.ledger.series import LedgerSeries
from core.text.lists import AllowLists
from gpu_workers.engine import Engine, Role, Task
from gpu_workers.local import LocalEngine, WorkerPoolOptions
from gpu_workers.messages import INFILL_OFF, WorkerOptions
from gpu_workers.shared import SharedPool
from service import canary, metrics
from service.calculations import Calculations
from service.domains import Domains
from service.jobs.files import JobFiles
from service.jobs.kinds import Kinds
from service.jobs.runner import JobRunner
from service.ledger_access import build_ledger
from service.own_models import OwnModels
from service.policies import load_policies
from service.presets import load_presets
from service.rate_limit import RateLimit
from service.secrets import load_admin_key, load_master_key
from service.settings import Settings

log = logging.getLogger("privacy_gateway.house")

CANARY_S_MAX = 10.0


class House:
    """One gateway process. `service/serve.py` opens and closes it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.presets = load_presets(settings)
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.master_key = load_master_key(settings)
        self.admin_key = load_admin_key(settings)
        self.policies = load_policies(settings, lists=AllowLists(settings.allow_lists_dir).names)
        self.rate_limit = RateLimit(settings.rate_limit_per_minute)
        self.domains = Domains(settings.data_dir, settings.domain_packs_dir)
        self.own_models = OwnModels(settings.data_dir)
        self._redis = None
        if settings.redis_url is None:
            self._redis = EmbeddedRedis(settings.data_dir, redis_server=settings.redis_server)
        parts = build_ledger(settings, self.master_key, socket=self._redis.socket if self._redis else None)
        self.ledger, self.keys, self._sealer = parts.ledger, parts.keys, parts.sealer
        self._sealing = False
        self.series = LedgerSeries(parts.client, points_max=settings.series_points_max, series_max=settings.series_max)
        self.reuse = _reuse(settings, parts.client, self.master_key)
        self.engine: Engine = LocalEngine(_worker_pools(settings))
        self.calculations = Calculations(
            workers=settings.accounting_workers,
            queue_max=settings.accounting_queue_max,
            timeout_s=settings.accounting_timeout_s,
        )
        self.shared = SharedPool(settings.vectors_memory_bytes_max)
        self.ending = asyncio.Event()  # the gateway is about to stop: streams end themselves
        self.projecting = asyncio.Lock()  # a projection may take seconds of every core
        self.sampling = asyncio.Lock()  # synthetic rows are drawn a block at a time, whoever asks
        self.jobs = _runner(settings, parts.client, self.master_key)
        self._background: list[asyncio.Task[None]] = []
        self._ready_until = 0.0
        self._checking = asyncio.Lock()

    @property
    def encoder_name(self) -> str:
        facts = self.engine.status(Role.EMBED).facts
        return str(facts.get("encoder", {}).get("name", "unknown"))

    @property
    def encoder_fingerprint(self) -> str:
        """Raises WorkerCold until an embed worker has told it."""
        facts = self.engine.status(Role.EMBED).facts
        if "encoder" not in facts:
            raise WorkerCold
        return str(facts["encoder"]["fingerprint"])

    @property
    def tagger_types(self) -> tuple[str, ...]:
        """The entities that the sanitise workers' tagger finds. Raises WorkerCold until one has told it."""
        facts = self.engine.status(Role.SANITIZE).facts
        if "tagger" not in facts:
            raise WorkerCold
        return tuple(facts["tagger"]["types"]) if facts["tagger"] else ()

    async def open(self) -> None:
        """Start the ledger, refuse a wrong configuration, begin to load the workers."""
        if self._redis is not None:
            await self._redis.start()
            self._background.append(asyncio.create_task(self._redis.supervise()))
        await self.ledger.check()
        await self._sealer.check()
        await self.ledger.migrate()
        await self._sealer.seal(always=True)  # a copy from before this start is an older one from now on
        self._sealing = True
        await self.engine.start()
        await self.jobs.open()
        for work, interval_s, failure in (
            (self.ledger.expire_overdue, self.settings.expire_interval_s, "expire-failed"),
            (self.series.fold_all, self.settings.series_interval_s, "fold-failed"),
        ):
            self._background.append(asyncio.create_task(_regularly(work, interval_s, failure)))
        self._background.append(asyncio.create_task(self._seal()))

    async def close(self) -> None:
        self.calculations.close()
        await self.jobs.close()
        await self.engine.stop()
        for task in self._background:
            task.cancel()
        for task in self._background:
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task
        with contextlib.suppress(LedgerError):
            if self._sealing:
                await self._sealer.seal()
        with contextlib.suppress(LedgerError):
            await self.ledger.close()
        if self._redis is not None:
            await self._redis.stop()

    async def check_ready(self) -> None:
        """Raise unless every worker is warm and right, and the ledger takes a durable write."""
        async with self._checking:  # however many ask, one canary runs
            if time.monotonic() < self._ready_until:
                return
            await self.ledger.ping_write()
            await asyncio.gather(*(self._check_role(role) for role in self.engine.roles))
            self._ready_until = time.monotonic() + self.settings.ready_cache_s

    async def _check_role(self, role: Role) -> None:
        if role is Role.FILL:
            # checked at its start; behind a slow model a canary would wait, and the other roles serve without it
            if not self.engine.status(role).ready:
                raise WorkerCold
            return
        task = canary.task(role, self.tagger_types)
        try:
            results = await self.engine.run(
                role, [Task(task, 1)], timeout_s=CANARY_S_MAX, client_disconnected=asyncio.Event()
            )
        except (QueueFull, DeadlineBeforeStart):
            if self.engine.status(role).ready:
                return  # busy is not broken
            raise
        canary.check(role, results[0])

    async def _seal(self) -> None:
        """Seal what is new, for as long as the house stands. A ledger that is not trusted any more answers nothing."""
        metrics.SEALED_AT.set_to_current_time()
        while True:
            await asyncio.sleep(self.settings.seal_interval_s)
            try:
                await self._sealer.seal()
                metrics.SEALED_AT.set_to_current_time()
            except LedgerNotTrusted:
                return  # the log says why
            except Exception as error:  # whatever it was, the next round tries again
                log.warning("seal-failed", extra={"fields": {"kind": type(error).__name__}})


async def _regularly(work: Callable[[], Awaitable[object]], interval_s: float, failure: str) -> None:
    """Do `work` every `interval_s`, for as long as the house stands."""
    while True:
        await asyncio.sleep(interval_s)
        try:
            await work()
        except Exception as error:  # whatever it was, the next round tries again
            log.warning(failure, extra={"fields": {"kind": type(error).__name__}})


def _runner(settings: Settings, client: LedgerClient, master_key: MasterKey) -> JobRunner:
    files = JobFiles(settings.data_dir, master_key)
    return JobRunner(
        JobStore(
            client,
            gateway=files.gateway,
            retention_ms=int(settings.job_retention_s * 1000),
            tombstone_ttl_ms=int(settings.tombstone_retention_s * 1000),
        ),
        files,
        Kinds(settings, files),
        running_max=settings.jobs_running_max,
        waiting_max=settings.jobs_waiting_max,
        attempts_max=settings.job_attempts_max,
    )


def _reuse(settings: Settings, client: LedgerClient, master_key: MasterKey) -> ReuseStore | None:
    """Where results are kept for repeats; None where no release is reused."""
    retention_ms = int(settings.reuse_retention_s * 1000)
    if retention_ms == 0:
        return None
    return ReuseStore(client, master_key, retention_ms=retention_ms, places=settings.reuse_results_max)


def _worker_pools(settings: Settings) -> dict[Role, WorkerPoolOptions]:
    def options(device: str) -> WorkerOptions:
        return WorkerOptions(
            device=device,
            threads=settings.encoder_threads,
            encoder_path=str(settings.encoder_path) if settings.encoder_path else None,
            domain_packs_dir=str(settings.domain_packs_dir) if settings.domain_packs_dir else None,
            allow_lists_dir=str(settings.allow_lists_dir) if settings.allow_lists_dir else None,
            tagger=settings.tagger,
            infill=settings.infill_source,
            fill_slots_max=settings.fill_slots_max,
            packs_loaded_max=settings.domain_packs_loaded_max,
            infill_models_loaded_max=settings.infill_models_loaded_max,
        )

    def pool(*workers: WorkerOptions) -> WorkerPoolOptions:
        return WorkerPoolOptions(
            workers=workers,
            queue_tasks_max=settings.queue_tasks_max,
            batch_tokens_max=settings.batch_tokens_max,
            batch_linger_ms=settings.batch_linger_ms,
            batch_seconds_max=settings.request_timeout_s,
        )

    pools = {
        Role.EMBED: pool(*(options(device) for device in settings.devices)),
        Role.SANITIZE: pool(options(settings.sanitize_device)),
    }
    if settings.infill_source != INFILL_OFF:
        pools[Role.FILL] = pool(options(settings.sanitize_device))
    return pools


def house(request: Request) -> House:
    """The house, as a FastAPI dependency."""
    here: House = request.app.state.house
    return here
