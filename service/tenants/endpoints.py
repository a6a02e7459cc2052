"""Administration of tenants over HTTP, with the admin key, and API keys: by the operator for any tenant under `/admin`,
and by a tenant's `admin` keys for its own tenant. The text of a key is shown once, when it is created. Only its HMAC is
stored.
"""

from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from pydantic import Field

from core.accounting.events import Unit
from core.ledger.hash_chain.admin_log import AdminLog
from core.ledger.records import TenantState
from core.ledger.transitions import Ledger
from core.reports.series import LedgerSeries
from core.state.alerts import AlertStore
from core.state.keystore import DEFAULT_ROLES, LIFE_S_MAX, OVERLAP_S_MAX, WORDS, KeyRole, KeyStore, NewKey
from core.state.masking_counts import MaskingCounts
from core.state.vault import Vault
from gpu_workers.engine.protocol import GATEWAY
from service.accounting.calculations import Calculations
from service.capability import Capability, View
from service.config.settings import Settings
from service.domains.store import DomainStore
from service.files.stored import StoredFiles
from service.http.auth import BY_OPERATOR, OPERATOR, AdminCallerDep, Caller
from service.http.body import JsonRoute
from service.http.browser_sessions import BrowserSessions
from service.http.strict import AtMost, PagingDep, Strict
from service.jobs.runner import JobRunner
from service.parts import Part, Parts
from service.releases.answers import Account, AccountsPage, account_block, page_answer
from service.tenants.answers import (
    KeyFacts,
    KeyList,
    KeySecret,
    LimitEffect,
    OutlookPage,
    TenantFacts,
    TenantKey,
    TenantList,
)
from service.tenants.closing import TenantClosing, change_state, wanted_state
from service.tenants.outlook import outlook_page
from service.tenants.service import (
    TenantTerms,
    UnitLimit,
    key_block,
    limit_effect,
    open_tenant,
    set_limit,
    tenant_block,
)
from service.tenants.statement import Statements, admin_statement_router, statement_router, statements

operator_router = APIRouter(prefix="/admin", route_class=JsonRoute, tags=["admin"], dependencies=[OPERATOR])
tenant_router = APIRouter(route_class=JsonRoute, tags=["keys"])

Lifetime = Annotated[int | None, Field(ge=1, le=LIFE_S_MAX, description="Seconds until the key expires.")]


class KeyTerms(Strict):
    """Body for a new key. Without it the key has the roles `release`, `read` and `jobs` and does not expire."""

    roles: Annotated[list[Annotated[KeyRole, Field(strict=False)]], AtMost(len(KeyRole))] | None = Field(
        None, min_length=1
    )
    expires_s: Lifetime = None
    label: str = Field("", max_length=64)
    purpose: str = Field("", max_length=64, description="What its releases are for.")
    recipient: str = Field("", max_length=64, description="Who receives its releases.")


class Rotation(Strict):
    """Body of a rotation. Without `expires_s` the new key lives as long as the old one was meant to."""

    overlap_s: int = Field(ge=0, le=OVERLAP_S_MAX, description="Seconds until the old key ends.")
    expires_s: Lifetime = None


@operator_router.post("/tenants/{tenant}/keys", status_code=201, summary="A further key of a tenant; shown once")
async def create_key(tenant: str, keys: Part[KeyStore], body: KeyTerms | None = None) -> KeySecret:
    return await _create(keys, tenant, body, by=BY_OPERATOR)


@operator_router.get("/tenants/{tenant}/keys", summary="The keys of a tenant, without their secrets")
async def list_keys(tenant: str, keys: Part[KeyStore]) -> KeyList:
    return {"keys": [key_block(key) for key in await keys.list(tenant)]}


@operator_router.post(
    "/tenants/{tenant}/keys/{key_id}/rotate", status_code=201, summary="Replace a key; the old one ends after a while"
)
async def rotate_key(tenant: str, key_id: str, body: Rotation, keys: Part[KeyStore]) -> KeySecret:
    return await _rotate(keys, tenant, key_id, body, by=BY_OPERATOR)


@operator_router.delete("/tenants/{tenant}/keys/{key_id}", summary="Revoke a key")
async def revoke_key(tenant: str, key_id: str, keys: Part[KeyStore]) -> KeyFacts:
    return key_block(await keys.revoke(tenant, key_id, by=BY_OPERATOR))


@tenant_router.post("/keys", status_code=201, summary="A further key of the calling tenant; shown once")
async def create_own_key(caller: AdminCallerDep, keys: Part[KeyStore], body: KeyTerms | None = None) -> KeySecret:
    return await _create(keys, caller.tenant, body, by=_by(caller))


@tenant_router.get("/keys", summary="The keys of the calling tenant, without their secrets")
async def list_own_keys(caller: AdminCallerDep, keys: Part[KeyStore]) -> KeyList:
    return {"keys": [key_block(key) for key in await keys.list(caller.tenant)]}


@tenant_router.post(
    "/keys/{key_id}/rotate", status_code=201, summary="Replace a key of the calling tenant; the old one ends later"
)
async def rotate_own_key(key_id: str, body: Rotation, caller: AdminCallerDep, keys: Part[KeyStore]) -> KeySecret:
    return await _rotate(keys, caller.tenant, key_id, body, by=_by(caller))


@tenant_router.delete("/keys/{key_id}", summary="Revoke a key of the calling tenant")
async def revoke_own_key(key_id: str, caller: AdminCallerDep, keys: Part[KeyStore]) -> KeyFacts:
    return key_block(await keys.revoke(caller.tenant, key_id, by=_by(caller)))


def _by(caller: Caller) -> str:
    return f"key:{caller.key_id}"


async def _create(keys: KeyStore, tenant: str, body: KeyTerms | None, *, by: str) -> KeySecret:
    terms = body or KeyTerms()
    roles = DEFAULT_ROLES if terms.roles is None else terms.roles
    words = {name: getattr(terms, name) for name in WORDS}
    return _shown(await keys.create(tenant, by=by, roles=roles, expires_s=terms.expires_s, **words))


async def _rotate(keys: KeyStore, tenant: str, key_id: str, body: Rotation, *, by: str) -> KeySecret:
    found = await keys.rotate(tenant, key_id, by=by, overlap_s=body.overlap_s, expires_s=body.expires_s)
    return _shown(found)


def _shown(new: NewKey) -> KeySecret:
    return {"key": new.key, **key_block(new.facts)}


router = APIRouter(prefix="/admin", route_class=JsonRoute, tags=["admin"], dependencies=[OPERATOR])


class LimitBody(Strict):
    """An account's guarantee.

    `basic_delta` is the part of delta for basic composition, which takes releases with a delta of their own. By default
    the account's first release decides.
    """

    epsilon: float = Field(gt=0)
    delta: float = Field(0.0, ge=0, lt=1)
    basic_delta: float | None = Field(None, ge=0, lt=1)


class CurrentLimitBody(Strict):
    """What an account may spend from now on, at most the epsilon that it was opened with."""

    epsilon: float = Field(ge=0)
    reason: str = Field("", max_length=200, description="Why, for the log of administrative actions.")


class StateBody(Strict):
    """Body of `PUT /admin/tenants/{tenant}/state`. `suspended`: its keys only read. `closed`: its data is removed."""

    state: Literal["active", "suspended", "closed"]
    reason: str = Field(min_length=1, max_length=200, description="Why, for the log of administrative actions.")


class NewTenant(LimitBody):
    """Body of `POST /admin/tenants`: a limit for every unit, and other limits for single units.

    `plans` maps a mechanism to its fixed epsilon: the accounts of its units then admit only this release, as often as
    is certified. A plan of `sentence_codes` is for the noise of the domain `general` at its epsilon.
    `sentence_codes:responses` admits releases of every domain, but fewer of them.
    """

    name: str
    token: LimitBody | None = None
    sentence: LimitBody | None = None
    vector: LimitBody | None = None
    record: LimitBody | None = None
    plans: Annotated[dict[str, float], AtMost(16)] = Field(default_factory=dict)
    subject_epsilon: float | None = Field(None, gt=0)


@router.post("/tenants", status_code=201, summary="Open a tenant; shows its first key once")
async def create_tenant(
    body: NewTenant,
    ledger: Part[Ledger],
    keys: Part[KeyStore],
    calculations: Part[Calculations],
    domains: Part[DomainStore],
) -> TenantKey:
    own = {unit: getattr(body, unit.value) for unit in Unit}
    terms = TenantTerms(
        name=body.name,
        epsilon=body.epsilon,
        delta=body.delta,
        basic_delta=body.basic_delta,
        limits={
            unit: UnitLimit(limit.epsilon, limit.delta, limit.basic_delta)
            for unit, limit in own.items()
            if limit is not None
        },
        plans=body.plans,
        subject_epsilon=body.subject_epsilon,
    )
    certify = partial(calculations.run, "largest_count", tenant=GATEWAY)
    key = await open_tenant(ledger, keys, terms, certify=certify, domains=domains, by=BY_OPERATOR)
    return {"tenant": body.name, "key": key.key, "key_id": key.facts.key_id}


@router.get("/tenants", summary="All tenants")
async def list_tenants(ledger: Part[Ledger]) -> TenantList:
    return {"tenants": [tenant_block(each) for each in await ledger.tenants()]}


@router.get("/outlook", summary="All tenants with what they have spent and when they end, page by page")
async def get_outlook(
    ledger: Part[Ledger], series: Part[LedgerSeries], counts: Part[MaskingCounts], page: PagingDep
) -> OutlookPage:
    """`cursor` is the name of the last tenant of the page before. Times are estimates; refusals are seconds late."""
    return await outlook_page(ledger, series, counts, after=page.cursor or "", limit=page.limit)


@router.put("/tenants/{tenant}/state", summary="Suspend, resume or close a tenant")
async def put_state(
    tenant: str, body: StateBody, ledger: Part[Ledger], log: Part[AdminLog], closing: Part[TenantClosing]
) -> TenantFacts:
    """A closed tenant is not opened again. Its state is `closing` until its jobs have ended and its data is removed."""
    found = await change_state(ledger, log, tenant, wanted_state(body.state), by=BY_OPERATOR, reason=body.reason)
    if found.state is TenantState.CLOSING:
        await closing.close(tenant)
        found = await ledger.tenant(tenant)
    return tenant_block(found)


@router.get(
    "/tenants/{tenant}/budgets",
    summary="The accounts of a tenant, page by page, as `GET /budget`",
    response_model=AccountsPage,
)
async def list_budgets(tenant: str, ledger: Part[Ledger], settings: Part[Settings], page: PagingDep) -> Response:
    found = await ledger.accounts_page(tenant, cursor=page.cursor, limit=page.limit)
    return await page_answer(found, settings.display_delta)


@router.put("/tenants/{tenant}/budgets/{unit}/limit", summary="Raise or lower what an account may spend")
async def put_limit(
    tenant: str, unit: Unit, body: CurrentLimitBody, ledger: Part[Ledger], keys: Part[KeyStore]
) -> Account:
    """The account stays (epsilon, delta)-DP for the epsilon that it was opened with; this epsilon is at most that.

    The answer is the account. It has `current_limit` unless the current limit equals the guarantee.
    """
    found = await set_limit(ledger, keys.log, tenant, unit, body.epsilon, by=BY_OPERATOR, reason=body.reason)
    return account_block(found)


@router.get("/tenants/{tenant}/budgets/{unit}/limit", summary="What another current limit of an account would change")
async def get_limit_effect(
    tenant: str, unit: Unit, ledger: Part[Ledger], epsilon: Annotated[float, Query(ge=0, allow_inf_nan=False)]
) -> LimitEffect:
    """Counts releases of the mean cost so far, as if nothing else were reserved. Changes nothing."""
    return await limit_effect(ledger, tenant, unit, epsilon)


@router.post(
    "/tenants/{tenant}/sessions/end", status_code=204, summary="End every session of the dashboard for a tenant"
)
async def end_tenant_sessions(
    tenant: str, ledger: Part[Ledger], sessions: Part[BrowserSessions], log: Part[AdminLog]
) -> Response:
    await ledger.own_accounts(tenant)  # raises UnknownTenant
    async with log.before(by=BY_OPERATOR, action="sessions.end", target=tenant):
        await sessions.end_all(tenant)
    return Response(status_code=204)


@router.post("/sessions/end", status_code=204, summary="End every session of the dashboard for the operator")
async def end_operator_sessions(sessions: Part[BrowserSessions], log: Part[AdminLog]) -> Response:
    async with log.before(by=BY_OPERATOR, action="operator.sessions.end", target="operator"):
        await sessions.end_all(None)
    return Response(status_code=204)


def _closing(parts: Parts) -> TenantClosing:
    return TenantClosing(
        parts[Ledger],
        parts[KeyStore],
        parts[BrowserSessions],
        parts[JobRunner],
        parts[StoredFiles],
        parts[Vault],
        parts[AlertStore],
        parts[MaskingCounts],
        parts[Settings].data_dir,
    )


CAPABILITY = Capability(
    name="tenants",
    routers=[tenant_router, statement_router],
    operator_routers=[router, operator_router, admin_statement_router],
    services={TenantClosing: _closing, Statements: statements},
    background=lambda parts: [parts[TenantClosing].close_regularly()],
    views=[
        View(20, "tenants", "Tenants", "Who may spend how much, and with which keys?", None),
        View(150, "keys", "Keys", "Who can use the gateway for this tenant?", KeyRole.ADMIN),
    ],
)
