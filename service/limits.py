"""The limits of load of a tenant: of this process, or shared by all gateways of a ledger.

Shared are the requests per minute, the failed authentications of an address, samples of alerts, and the open calls of
language models. Limits that protect the memory and the time of one process remain those of each gateway.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from core.master_key import MasterKey, Purpose
from core.redis import names
from core.redis.client import LedgerClient
from core.state.shared_limit import SharedLimit
from service.config.settings import Settings
from service.http.rate_limit import FailureLimit, RateLimit
from service.proxy.shares import CallShares, share

SAMPLES_PER_MINUTE = 10  # of an owner of alerts: each is a message to receivers of the owner's choice
CREDIT_S = 1  # what a gateway admits before it has asked Redis, in seconds of the limit


@dataclass(frozen=True)
class Limits:
    """The limits of a gateway. `shared` are those that give back regularly what they do not use."""

    requests: RateLimit
    failures: FailureLimit
    samples: RateLimit
    calls: CallShares
    shared: tuple[SharedLimit, ...] = ()


def build_limits(
    settings: Settings,
    client: LedgerClient,
    master_key: MasterKey,
    *,
    is_alone: bool,
    clock: Callable[[], float] = time.monotonic,
) -> Limits:
    """`is_alone`: no other process can serve this ledger, so nothing is shared."""
    requests, failures = settings.rate_limit_per_minute, settings.auth_failures_per_minute
    calls = share(settings.upstream_calls_max, settings.queue_tenant_share)
    if is_alone:
        return Limits(
            RateLimit(requests, clock=clock),
            FailureLimit(failures, clock=clock),
            RateLimit(SAMPLES_PER_MINUTE, clock=clock),
            CallShares(calls),
        )

    def rate(per_minute: int, key_of: Callable[[str], str]) -> SharedLimit:
        credit = max(1, per_minute * CREDIT_S // 60)
        return SharedLimit(client, key_of, capacity=per_minute, per_minute=per_minute, credit=credit, clock=clock)

    shared_requests = rate(requests, lambda tenant: names.shared_limit_key(tenant, "requests"))
    shared_samples = rate(SAMPLES_PER_MINUTE, lambda owner: names.shared_limit_key(owner, "samples"))
    shared_failures = rate(
        failures, lambda address: names.address_limit_key(master_key.mac(Purpose.ADDRESS, address.encode()))
    )
    shared_calls = SharedLimit(client, _calls_key, capacity=calls, per_minute=0, clock=clock)
    return Limits(
        RateLimit(requests, tokens=shared_requests),
        FailureLimit(failures, clock=clock, shared=shared_failures),
        RateLimit(SAMPLES_PER_MINUTE, tokens=shared_samples),
        CallShares(calls, shared=shared_calls),
        (shared_requests, shared_samples, shared_failures, shared_calls),
    )


def _calls_key(place: str) -> str:
    tenant, _, upstream = place.partition(" ")
    return names.shared_limit_key(tenant, f"calls:{hashlib.sha256(upstream.encode()).hexdigest()[:16]}")
