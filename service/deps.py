"""Dependencies: each gives an endpoint one part of the gateway."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Query, Request

from core.ledger.hash_chain.admin_log import AdminLog
from core.ledger.integrity import Integrity
from core.ledger.keys import MasterKey
from core.ledger.keystore import KeyStore
from core.ledger.ledger import Ledger
from core.ledger.ranks import SubjectRanks
from core.ledger.series import LedgerSeries
from core.ledger.spending_totals import SpendingTotals
from core.ledger.vault import Vault
from gpu_workers.engine.arrays import ArrayPool
from gpu_workers.engine.protocol import Engine
from service.accounting.calculations import Calculations
from service.alerts.service import AlertService
from service.budget.watch import BudgetWatch
from service.config.settings import Settings
from service.dashboard.sign_on import SignOn
from service.domains.store import Domains
from service.gateway import Gateway
from service.guardrail.service import GuardrailService
from service.http.browser_sessions import BrowserSessions
from service.http.open_streams import OpenStream, endless_stream, open_stream
from service.jobs.runner import JobRunner
from service.jobs.submit import JobSubmission
from service.openai.service import OpenAIService
from service.operation.readiness import Readiness
from service.operation.scrape import Scrapes
from service.preparation import Preparation
from service.presidio.service import PresidioService
from service.proxy.service import ProxyParts
from service.releases.pipeline import ReleasePipeline
from service.restore.tokens import RestoreTokens
from service.sanitize.policies import Policies
from service.sanitize.recognisers.store import Recognisers
from service.sanitize.recognisers.trials import RecogniserTrials
from service.sanitize.service import SanitizeService
from service.sanitize.stream import StreamParts
from service.sanitize.tuned_models import TunedModels
from service.sentdp.service import SentDPService
from service.turns import Turns
from service.vectors.projections import Projections
from service.vectors.service import VectorService
from service.workers import Workers


@dataclass(frozen=True)
class Paging:
    """`cursor`: `next_cursor` of the page before, None for the first page."""

    cursor: str | None
    limit: int


def _part(of: Callable[[Gateway], Any]) -> Any:
    async def part(request: Request) -> Any:
        return of(request.app.state.gateway)

    return Depends(part)


AlertsDep = Annotated[AlertService, _part(lambda gateway: gateway.alerts)]
SettingsDep = Annotated[Settings, _part(lambda gateway: gateway.settings)]
MasterKeyDep = Annotated[MasterKey, _part(lambda gateway: gateway.master_key)]
LedgerDep = Annotated[Ledger, _part(lambda gateway: gateway.ledger)]
AdminLogDep = Annotated[AdminLog, _part(lambda gateway: gateway.keys.log)]
SessionsDep = Annotated[BrowserSessions, _part(lambda gateway: gateway.authenticator.sessions)]
SignOnDep = Annotated[SignOn | None, _part(lambda gateway: gateway.sign_on)]
KeysDep = Annotated[KeyStore, _part(lambda gateway: gateway.keys)]
IntegrityDep = Annotated[Integrity, _part(lambda gateway: gateway.integrity)]
RanksDep = Annotated[SubjectRanks, _part(lambda gateway: gateway.ranks)]
BudgetWatchDep = Annotated[BudgetWatch, _part(lambda gateway: gateway.budget_watch)]
SpendingDep = Annotated[SpendingTotals, _part(lambda gateway: gateway.spending)]
SeriesDep = Annotated[LedgerSeries, _part(lambda gateway: gateway.series)]

EngineDep = Annotated[Engine, _part(lambda gateway: gateway.engine)]
WorkersDep = Annotated[Workers, _part(lambda gateway: gateway.workers)]
ArraysDep = Annotated[ArrayPool, _part(lambda gateway: gateway.engine.arrays)]
ReadinessDep = Annotated[Readiness, _part(lambda gateway: gateway.readiness)]
ScrapesDep = Annotated[Scrapes, _part(lambda gateway: gateway.scrapes)]
CalculationsDep = Annotated[Calculations, _part(lambda gateway: gateway.calculations)]

ReleasesDep = Annotated[ReleasePipeline, _part(lambda gateway: gateway.releases)]
SentDPDep = Annotated[SentDPService, _part(lambda gateway: gateway.sentdp)]
VectorsDep = Annotated[VectorService, _part(lambda gateway: gateway.vectors)]
ProjectionsDep = Annotated[Projections, _part(lambda gateway: gateway.projections)]
PreparationDep = Annotated[Preparation, _part(lambda gateway: gateway.preparation)]
RestoreTokensDep = Annotated[RestoreTokens, _part(lambda gateway: gateway.restore_tokens)]
SanitizeDep = Annotated[SanitizeService, _part(lambda gateway: gateway.sanitize)]
OpenStreamDep = Annotated[OpenStream, Depends(open_stream)]
EndlessStreamDep = Annotated[OpenStream, Depends(endless_stream)]
StreamPartsDep = Annotated[StreamParts, _part(lambda gateway: gateway.stream)]
RecognisersDep = Annotated[Recognisers, _part(lambda gateway: gateway.recognisers)]
RecogniserTrialsDep = Annotated[RecogniserTrials, _part(lambda gateway: gateway.recogniser_trials)]
PoliciesDep = Annotated[Policies, _part(lambda gateway: gateway.policies)]
ProxyDep = Annotated[ProxyParts, _part(lambda gateway: gateway.proxy)]
GuardrailDep = Annotated[GuardrailService, _part(lambda gateway: gateway.guardrail)]
PresidioDep = Annotated[PresidioService, _part(lambda gateway: gateway.presidio)]
VaultDep = Annotated[Vault, _part(lambda gateway: gateway.vault)]
OpenAIDep = Annotated[OpenAIService, _part(lambda gateway: gateway.openai)]

DomainsDep = Annotated[Domains, _part(lambda gateway: gateway.domains)]
TunedModelsDep = Annotated[TunedModels, _part(lambda gateway: gateway.tuned_models)]
JobsDep = Annotated[JobRunner, _part(lambda gateway: gateway.jobs)]
SubmissionDep = Annotated[JobSubmission, _part(lambda gateway: gateway.submission)]
# Parts of journals are written one after the other.
LedgerReadsDep = Annotated[Turns, _part(lambda gateway: gateway.ledger_reads)]
# Blocks of synthetic rows are drawn one after the other.
SamplingDep = Annotated[Turns, _part(lambda gateway: gateway.sampling)]


async def paging(
    settings: SettingsDep,
    cursor: Annotated[str | None, Query(description="`next_cursor` of the page before")] = None,
    limit: Annotated[int | None, Query(ge=1)] = None,
) -> Paging:
    """The query of a page. A longer page than the settings allow is cut to what they allow."""
    largest = settings.budget_page_max
    return Paging(cursor, largest if limit is None else min(limit, largest))


PagingDep = Annotated[Paging, Depends(paging)]
