"""The composition root: builds the parts of one gateway process, starts them in order and stops them in reverse.

Endpoints get single parts by the dependencies of `service/deps.py`. No other module imports this one, besides the
application, the server and tests.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from core.errors import NotStarted
from core.ledger.embedded import EmbeddedRedis
from core.ledger.integrity import Integrity
from core.ledger.jobs import JobStore
from core.ledger.ranks import SubjectRanks
from core.ledger.reuse import ReuseStore
from core.ledger.series import LedgerSeries
from core.ledger.sessions import SessionStore
from core.ledger.spending_totals import SpendingTotals
from core.ledger.vault import Vault
from core.text.mask_words import AllowLists
from gpu_workers.engine.protocol import Engine
from service.accounting.calculations import Calculations
from service.alerts.watch import build_alerts
from service.budget.pricing import Estimated, estimated_jobs
from service.budget.watch import BudgetWatch
from service.config.secrets import load_admin_keys, load_master_key
from service.config.settings import Settings
from service.config.worker_options import make_engine
from service.dashboard.sign_on import SignOn
from service.domains.store import Domains
from service.files.forgotten import remove_forgotten_regularly
from service.files.orphans import Orphans
from service.files.parts import open_files, stored_files
from service.guardrail.service import GuardrailService
from service.http.auth import Authenticator
from service.http.body_memory import BodyMemory
from service.http.browser_sessions import BrowserSessions
from service.http.in_flight import InFlight, LargeRequests
from service.http.open_streams import OpenStreams
from service.isolation import Isolation
from service.jobs.attempt import runner_limits
from service.jobs.blobs import JobBlobs
from service.jobs.files import JobFiles
from service.jobs.runner import JobRunner
from service.jobs.storage import storage
from service.jobs.submit import JobSubmission
from service.ledger import LedgerParts, build_ledger, tenant_caps
from service.limits import build_limits
from service.openai.presets import load_presets
from service.openai.service import OpenAIService
from service.operation.maintenance import Maintenance
from service.operation.readiness import Readiness
from service.operation.scrape import Scrapes
from service.preparation import Preparation
from service.presidio.service import PresidioService
from service.proxy.client import UpstreamClient, client_limits
from service.proxy.kept_conversations import KeptConversations
from service.proxy.masking import ConversationMasking
from service.proxy.priced import PricedFills
from service.proxy.service import ProxyParts, ProxyService
from service.proxy.upstreams import load_upstreams
from service.registry import KindParts, job_kinds
from service.releases.pipeline import ReleasePipeline
from service.restore.tokens import RestoreTokens
from service.sanitize import schemas as sanitize_schemas
from service.sanitize.policies import load_policies
from service.sanitize.recognisers.store import Recognisers
from service.sanitize.recognisers.trials import RecogniserTrials
from service.sanitize.schemas import SanitizeRequest
from service.sanitize.service import SanitizeService
from service.sanitize.stream import StreamParts
from service.sanitize.tuned_models import TunedModels
from service.sentdp import schemas as sentdp_schemas
from service.sentdp.schemas import SentDPRequest
from service.sentdp.service import SentDPService
from service.tracing.export import built_export
from service.turns import Turns
from service.vectors import schemas as vector_schemas
from service.vectors.constructions import Constructions
from service.vectors.projections import Projections
from service.vectors.schemas import VectorRequest
from service.vectors.service import VectorService
from service.workers import Workers


class Gateway:
    """One gateway. `start` and `stop` belong to whoever built it (`service/serve.py`)."""

    def __init__(
        self,
        settings: Settings,
        *,
        engine: Engine | None = None,
        own_dir: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Build everything, start nothing.

        engine: by default the one that the settings describe (`service.config.worker_options`).
        own_dir: for the files of this process alone, where others use the data directory, too.
        Raises GatewayError, ValueError or OSError for settings and files that cannot be used.
        """
        self.settings = settings
        self._traces = built_export(settings)
        presets = load_presets(settings)
        upstreams = load_upstreams(settings)
        own_dir = own_dir or settings.data_dir
        own_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.master_key = load_master_key(settings)
        self.admin_keys = load_admin_keys(settings)
        self.policies = load_policies(settings, lists=AllowLists(settings.allow_lists_dir).names)

        self._redis: EmbeddedRedis | None = None
        if settings.redis_url is None:
            self._redis = EmbeddedRedis(settings.data_dir, redis_server=settings.redis_server)
        ledger = build_ledger(settings, self.master_key, socket=self._redis.socket if self._redis else None)
        self._maintenance = Maintenance(settings, ledger, is_alone=self._redis is not None)
        self.ledger, self.keys = ledger.ledger, ledger.keys
        self.series = LedgerSeries(
            ledger.client,
            points_max=settings.series_points_max,
            series_max=settings.series_max,
            archive=ledger.archive,
        )
        self.spending = SpendingTotals(ledger.client, archive=ledger.archive)
        self.ranks = SubjectRanks(ledger.client, archive=ledger.archive)
        self.budget_watch = BudgetWatch(self.ledger.last_numbers)
        self.integrity = Integrity(ledger.client, self.master_key)
        self.limits = build_limits(
            settings, ledger.client, self.master_key, is_alone=self._redis is not None, clock=clock
        )
        self.authenticator = Authenticator(
            self.keys,
            self.admin_keys,
            self.limits.requests,
            self.limits.failures,
            BrowserSessions(
                SessionStore(
                    ledger.client,
                    self.master_key,
                    lifetime_s=settings.dashboard_session_s,
                    each_max=settings.dashboard_sessions_max,
                ),
                self.keys,
                self.admin_keys,
                grants=None if settings.sign_on is None else settings.sign_on.grants_digest,
                hosts=settings.dashboard_hosts,
            ),
        )

        self.sign_on = None if settings.sign_on is None else SignOn(settings.sign_on, self.master_key)
        self.streams = OpenStreams(self.authenticator.refusal, interval_s=settings.stream_key_check_s)

        self.engine = engine or make_engine(settings)
        self.body_memory = BodyMemory(
            bytes_max=settings.bodies_memory_bytes_max, owner_bytes_max=settings.bodies_memory_per_tenant_bytes_max
        )
        self.workers = Workers(self.engine)
        self.calculations = Calculations(
            workers=settings.accounting_workers,
            tenant_share=settings.queue_tenant_share,
            timeout_s=settings.accounting_timeout_s,
        )
        self.readiness = Readiness(
            self.engine,
            self.ledger,
            cache_s=settings.ready_cache_s,
            clock=clock,
        )

        self.preparation = Preparation()
        self.isolation = Isolation()
        self.scrapes = Scrapes(self.preparation)
        self.in_flight = InFlight(
            per_tenant_max=settings.requests_in_flight_per_tenant_max, wait_s=settings.request_timeout_s
        )
        self.large_requests = LargeRequests(
            per_tenant_max=settings.large_requests_per_tenant_max, wait_s=settings.request_timeout_s
        )
        self.files = stored_files(settings, ledger.client, self.master_key, own_dir=own_dir)
        self._open_files = partial(open_files, ledger.client, self.files, alone=self._redis is not None)
        self.domains = Domains(self.files, settings.domain_packs_dir, loaded=lambda: self.workers.loaded_domains)
        self.tuned_models = TunedModels(self.files)
        self.storage = storage(settings, self.files.index.used)
        self.recognisers = Recognisers(
            settings.data_dir,
            self.master_key,
            self.storage,
            per_tenant_max=settings.recognisers_per_tenant_max,
            per_request_max=settings.recognisers_per_request_max,
            policies=self.policies.recognisers,
            own_dir=own_dir,
        )
        self.recogniser_trials = RecogniserTrials(self.isolation)
        constructions = Constructions(
            self.calculations, self.preparation, self.engine.arrays, bytes_max=settings.vector_matrices_bytes_max
        )
        self.projections = Projections(settings, constructions)
        self.sentdp = SentDPService(settings, domains=self.domains, workers=self.workers, preparation=self.preparation)
        self.vectors = VectorService(
            settings,
            workers=self.workers,
            projections=self.projections,
            constructions=constructions,
            arrays=self.engine.arrays,
            preparation=self.preparation,
        )
        self.restore_tokens = RestoreTokens(
            self.master_key.restore_key,
            lifetime_s=settings.restore_token_lifetime_s,
        )
        self.sanitize = SanitizeService(
            settings,
            policies=self.policies,
            models=self.tuned_models,
            recognisers=self.recognisers,
            workers=self.workers,
            preparation=self.preparation,
            isolation=self.isolation,
            surrogate_key=self.master_key.surrogate_key,
            tokens=self.restore_tokens,
        )
        self.releases = ReleasePipeline(
            settings,
            ledger=self.ledger,
            master_key=self.master_key,
            engine=self.engine,
            reuse=_reuse_store(settings, ledger),
            preparation=self.preparation,
        )
        self.vault = Vault(
            ledger.client,
            self.master_key,
            entries_max=settings.vault_entries_max,
            bytes_max=settings.vault_bytes_max,
        )
        self.openai = OpenAIService(presets, sentdp=self.sentdp, vectors=self.vectors, upstreams=upstreams)
        proxy = ProxyService(
            settings,
            upstreams=upstreams,
            policies=self.policies,
            sanitize=self.sanitize,
            surrogate_key=self.master_key.surrogate_key,
            masking=ConversationMasking(
                settings,
                policies=self.policies,
                sanitize=self.sanitize,
                releases=self.releases,
                preparation=self.preparation,
                surrogate_key=self.master_key.surrogate_key,
            ),
            kept=KeptConversations(self.vault, settings, self.preparation),
            priced=PricedFills(settings, sanitize=self.sanitize, releases=self.releases, preparation=self.preparation),
            preparation=self.preparation,
            isolation=self.isolation,
        )
        self.guardrail = GuardrailService(
            settings, proxy=proxy, vault=self.vault, releases=self.releases, preparation=self.preparation
        )
        self.presidio = PresidioService(
            settings,
            policies=self.policies,
            sanitize=self.sanitize,
            releases=self.releases,
            workers=self.workers,
            preparation=self.preparation,
            isolation=self.isolation,
        )
        self.upstream_client = UpstreamClient(
            upstreams.all, client_limits(settings), send_trace=settings.traces_send_to_upstreams
        )
        self.proxy = ProxyParts(settings, proxy, self.upstream_client, self.limits.calls, self.preparation)
        self.stream = StreamParts(
            settings, self.sanitize, self.releases, self.engine, self.preparation, self.body_memory
        )
        self.sampling = Turns(1)
        self.ledger_reads = Turns(1)

        self.job_kinds = job_kinds(
            KindParts(settings, self.policies, self.recognisers, self.workers, self.calculations, self.files)
        )
        files = JobFiles(own_dir, self.master_key, self.storage)
        store = JobStore(
            ledger.client,
            gateway=secrets.token_hex(8),
            retention_ms=int(settings.job_retention_s * 1000),
            tombstone_ttl_ms=int(settings.tombstone_retention_s * 1000),
            caps=tenant_caps(settings),
        )
        self.alerts, self.alert_watch = build_alerts(
            settings,
            ledger.client,
            self.master_key,
            ledger=self.ledger,
            series=self.series,
            spending=self.spending,
            jobs=store,
            admin_log=self.keys.log,
            seal_age_s=self._maintenance.seal_age_s,
            samples=self.limits.samples,
        )
        self.jobs = JobRunner(
            store,
            files,
            JobBlobs(self.files.store, self.master_key),
            self.files,
            self.job_kinds,
            limits=runner_limits(settings),
        )
        self._orphans = Orphans(self.files, store)
        self.submission = JobSubmission(
            settings,
            ledger=self.ledger,
            master_key=self.master_key,
            runner=self.jobs,
            body_memory=self.body_memory,
            preparation=self.preparation,
        )
        self.estimated = [
            *estimated_jobs(self.job_kinds),
            Estimated(
                "sanitize",
                SanitizeRequest,
                frozenset({"policy", "mask", "fill"}),
                self.sanitize,
                sanitize_schemas.typical,
                "sanitize",
            ),
            Estimated("sentdp", SentDPRequest, {"documents"}, self.sentdp, sentdp_schemas.typical, "embed/sentdp"),
            Estimated("vector", VectorRequest, frozenset(), self.vectors, vector_schemas.typical, "embed/vector"),
        ]

    async def start(self) -> None:
        """Start the ledger, refuse a wrong configuration, begin to load the workers."""
        if self._traces is not None:
            self._traces.start()
        await self.jobs.claim_files()
        await self.recognisers.open()
        if self._redis is not None:
            await self._redis.start()
            self._maintenance.run(self._redis.supervise())
        await self._maintenance.open_ledger()
        await self.engine.start()
        await self._open_files()
        await self.jobs.open()
        self._maintenance.start()
        self._maintenance.run(self._orphans.collect_regularly())
        self._maintenance.run(remove_forgotten_regularly(self.files))
        for limit in self.limits.shared:
            self._maintenance.run(limit.return_regularly())
        self._maintenance.run(self.alert_watch.evaluate_regularly())
        self._maintenance.run(self.alert_watch.deliver_regularly())

    def end_streams(self) -> None:
        """End the open streams, which would prevent a server from stopping."""
        self.jobs.end_streams()
        self.streams.end_all(NotStarted("The gateway is stopping; this line and those after it were not read."))

    async def stop(self) -> None:
        """Stop everything that was started."""
        self.calculations.close()
        self.preparation.close()
        await self.isolation.close()
        await self.upstream_client.aclose()
        await self.jobs.close()
        await self.engine.stop()
        await self._maintenance.stop(self.alert_watch.stop)
        if self._redis is not None:
            await self._redis.stop()
        if self._traces is not None:
            await asyncio.to_thread(self._traces.stop)


def _reuse_store(settings: Settings, ledger: LedgerParts) -> ReuseStore | None:
    """The store of results for repeats; None if no release is reused."""
    retention_ms = int(settings.reuse_retention_s * 1000)
    if retention_ms == 0:
        return None
    return ReuseStore(ledger.client, ledger.master_key, retention_ms=retention_ms, places=settings.reuse_results_max)
