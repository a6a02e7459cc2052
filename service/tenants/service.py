"""Opens tenants, and shows their keys. Used by the command and the API.

One epsilon and some exceptions become a limit for every unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Protocol

from core.accounting.events import PrivacyEvent, Unit
from core.amounts import cost_nano, epsilon_of, limit_femto, limit_nano
from core.errors import InvalidInput
from core.ledger.counters import EPSILON
from core.ledger.hash_chain.admin_log import AdminLog
from core.ledger.headroom import fit, mean_cost, with_current_limit
from core.ledger.records import AccountState, Limit, Plan, Tenant, plan_signature
from core.ledger.transitions import Ledger
from core.mechanisms.sentences.domain_pack import CodeNoise
from core.mechanisms.sentences.registry import SENTENCE_MECHANISMS, sentence_event
from core.redis.names import account_id, check_tenant
from core.state.keystore import ApiKey, KeyStore, NewKey
from service.domains.store import DEFAULT_NAME, DomainStore

if TYPE_CHECKING:
    from core.accounting.certificate import PlanCertificate
    from service.tenants.answers import KeyFacts, LimitEffect, TenantFacts

Number = float | int | str | Decimal


class Certify(Protocol):
    """`core.accounting.certificate.largest_count`, in this process or another."""

    async def __call__(self, event: PrivacyEvent, /, *, epsilon_nano: int, delta_femto: int) -> PlanCertificate: ...


@dataclass(frozen=True)
class UnitLimit:
    """An account's (epsilon, delta), and the share of delta for basic composition (None: the first release decides)."""

    epsilon: Number
    delta: Number = 0
    basic_delta: Number | None = None


@dataclass(frozen=True)
class TenantTerms:
    """A new tenant. `limits` replace the tenant's limit for single units; `plans` maps a mechanism to its fixed
    epsilon.

    A plan of `sentence_codes` is for the noise that the domain `general` has at its epsilon. `sentence_codes:counts`
    and `sentence_codes:responses` select the noise; the latter admits releases of every domain.

    `ledger` names the one where the tenant will live, where there are several (None: chosen by its name).

    With `subject_epsilon` each subject has accounts of its own at that epsilon and the tenant's delta; the tenant's
    limits are then a quota over the sum of all subjects, and plans are those of the subjects.
    """

    name: str
    epsilon: Number
    delta: Number = 0
    basic_delta: Number | None = None
    limits: Mapping[Unit, UnitLimit] = field(default_factory=dict)
    plans: Mapping[str, Number] = field(default_factory=dict)
    subject_epsilon: Number | None = None


def limit(terms: UnitLimit) -> Limit:
    """A filter's limit in ledger units, rounded down. Raises InvalidInput."""
    try:
        basic_delta = None if terms.basic_delta is None else limit_femto(terms.basic_delta)
        found = Limit(limit_nano(terms.epsilon), limit_femto(terms.delta), basic_delta)
    except ValueError:
        raise InvalidInput("epsilon is between 0 and 4000000, delta between 0 and 1", field="epsilon") from None
    if found.epsilon_nano == 0:
        raise InvalidInput("a limit is at least one nano-epsilon", field="epsilon")
    if (found.basic_delta_femto or 0) > found.delta_femto:
        raise InvalidInput("basic_delta is a part of delta", field="basic_delta")
    return found


async def open_tenant(
    ledger: Ledger, keys: KeyStore, terms: TenantTerms, *, certify: Certify, domains: DomainStore, by: str
) -> NewKey:
    """Open the tenant with one account for each unit and return its first API key, which is shown only once.

    `by` names who opens it, for the log of administrative actions. The key has the roles that a key has by default.

    The units of a plan's mechanism become plan accounts: they admit the largest number of releases whose certified
    epsilon fits the unit's limit, and nothing else.

    Raises:
        InvalidInput, OutOfRange (a plan that admits no release), TenantExists, LedgerUnavailable.
    """
    events = [await _event(plan, epsilon, terms.name, domains) for plan, epsilon in terms.plans.items()]
    own = UnitLimit(terms.epsilon, terms.delta, terms.basic_delta)
    limits = {unit: limit(terms.limits.get(unit, own)) for unit in Unit}
    subjects = None
    if terms.subject_epsilon is not None:
        per_subject = limit(UnitLimit(terms.subject_epsilon, terms.delta, terms.basic_delta))
        subjects = await _planned(dict.fromkeys(Unit, per_subject), events, certify)
    else:
        limits = await _planned(limits, events, certify)
    check_tenant(terms.name)
    async with keys.log.before(by=by, action="tenant.create", target=terms.name, details=_logged(terms)):
        await ledger.open_tenant(terms.name, limits=limits, subject_limits=subjects)
    return await keys.create(terms.name, by=by)


def _logged(terms: TenantTerms) -> dict[str, str | None]:
    """What the log says of a new tenant. Its limits are in the journal of its accounts."""
    subject = terms.subject_epsilon
    return {
        "epsilon": str(terms.epsilon),
        "delta": str(terms.delta),
        "subject_epsilon": None if subject is None else str(subject),
    }


async def _planned(limits: dict[Unit, Limit], events: Sequence[PrivacyEvent], certify: Certify) -> dict[Unit, Limit]:
    """The limits, with a plan for every unit of a planned event."""
    planned = dict(limits)
    for event in events:
        for unit in event.debited_units:
            if planned[unit].plan is not None:
                raise InvalidInput("two plans for one unit", field="plans")
            certificate = await certify(
                event, epsilon_nano=limits[unit].epsilon_nano, delta_femto=limits[unit].delta_femto
            )
            planned[unit] = replace(
                limits[unit],
                epsilon_nano=certificate.epsilon_nano,
                basic_delta_femto=None,
                plan=Plan(plan_signature(event), certificate.count),
            )
    return planned


async def _event(plan: str, epsilon: Number, tenant: str, domains: DomainStore) -> PrivacyEvent:
    mechanism, _, noise = plan.partition(":")
    if mechanism not in SENTENCE_MECHANISMS:
        raise InvalidInput(f"a plan is for one of {', '.join(SENTENCE_MECHANISMS)}", field="plans")
    if noise and (mechanism != "sentence_codes" or noise not in set(CodeNoise)):
        raise InvalidInput(f"only sentence_codes has a noise to name, {' or '.join(CodeNoise)}", field="plans")
    try:
        epsilon_nano = cost_nano(epsilon)
        code_noise = CodeNoise(noise) if noise else None
        if mechanism == "sentence_codes" and not noise:
            code_noise = (await domains.find(tenant, DEFAULT_NAME)).code_noise(epsilon_nano)
        return sentence_event(mechanism, epsilon, code_noise)
    except ValueError:
        raise InvalidInput("a plan's epsilon is a positive number", field="plans") from None


def tenant_block(tenant: Tenant) -> TenantFacts:
    """A tenant as answers show it."""
    return {
        "name": tenant.name,
        "mode": tenant.mode.value,
        "created_ms": tenant.created_ms,
        "state": tenant.state.value,
    }


def key_block(key: ApiKey) -> KeyFacts:
    """A key as answers show it."""
    return {
        "key_id": key.key_id,
        "tenant": key.tenant,
        "label": key.label,
        "purpose": key.purpose,
        "recipient": key.recipient,
        "roles": sorted(key.roles),
        "created_ms": key.created_ms,
        "expires_ms": key.expires_ms,
        "revoked_ms": key.revoked_ms,
        "last_used_ms": key.last_used_ms,
    }


async def set_limit(
    ledger: Ledger, log: AdminLog, tenant: str, unit: Unit, epsilon: Number, *, by: str, reason: str = ""
) -> AccountState:
    """Set what the account of a unit may spend from now on, and return the account. The log keeps the reason.

    The guarantee of the account does not change. Raises as `limit_effect`.
    """
    if not reason.isprintable():
        raise InvalidInput("A reason is one line.", field="reason")
    account, epsilon_nano = account_id(tenant, unit, None), _limit_nano(epsilon)
    await ledger.lowered_limits(tenant, account, epsilon_nano)  # raises what the change would, before it is logged
    details = {"epsilon": str(epsilon)} | ({"reason": reason} if reason else {})
    async with log.before(by=by, action="tenant.limit", target=account, details=details):
        return await ledger.set_current_limit(tenant, account, epsilon_nano)


async def limit_effect(ledger: Ledger, tenant: str, unit: Unit, epsilon: Number) -> LimitEffect:
    """What the account of a unit would still admit with another current limit. Writes nothing.

    Raises InvalidInput for an epsilon that is negative or larger than that of the guarantee, and for an account with a
    plan; UnknownTenant, LedgerUnavailable.
    """
    account, epsilon_nano = account_id(tenant, unit, None), _limit_nano(epsilon)
    state, lowered = await ledger.lowered_limits(tenant, account, epsilon_nano)
    then = with_current_limit(state, epsilon_nano, lowered)
    cost = mean_cost(state)
    fits = [None if cost is None else fit(each, cost, ()).releases for each in (state, then)]
    return {
        "account": account,
        "guarantee": epsilon_of(state.limit.epsilon_nano),
        "spent": epsilon_of(state.committed.epsilon_nano + state.reserved.epsilon_nano),
        "remaining": epsilon_of(state.remaining.epsilon_nano),
        "remaining_then": epsilon_of(then.remaining.epsilon_nano),
        "mean_epsilon": None if cost is None else epsilon_of(cost[EPSILON]),
        "requests": fits[0],
        "requests_then": fits[1],
    }


def _limit_nano(epsilon: Number) -> int:
    try:
        return limit_nano(epsilon)
    except ValueError:
        raise InvalidInput("epsilon is between 0 and 4000000", field="epsilon") from None
