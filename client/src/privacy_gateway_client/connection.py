"""What both clients have in common: their settings and the HTTP client below."""

from __future__ import annotations

from typing import Any

import httpx
from typing_extensions import TypedDict

from privacy_gateway_client.cache import Cache
from privacy_gateway_client.exchange import Retry
from privacy_gateway_client.limits import Limits

_USER_AGENT = "privacy-gateway-client"
# longer than the gateway works on a request (REQUEST_TIMEOUT_S), since an early end would only repeat it
TIMEOUT = httpx.Timeout(30.0, read=120.0)


class Settings(TypedDict, total=False):
    """Of a client, all optional.

    retry: when a call is repeated. limits: what one request may hold. cache: of paid answers.
    tenant: the tenant's name, for the cache; asked from the gateway if it is not given.
    timeout: of httpx; the time without an answer must exceed the gateway's REQUEST_TIMEOUT_S.
    transport, async_transport: of httpx, for tests and own connections. verify: of httpx, for TLS.
    """

    retry: Retry
    limits: Limits
    cache: Cache | None
    tenant: str | None
    timeout: httpx.Timeout | float
    transport: httpx.BaseTransport
    async_transport: httpx.AsyncBaseTransport
    verify: Any


def http_options(base_url: str, api_key: str, settings: Settings) -> dict[str, Any]:
    """The arguments of httpx's client."""
    concurrency = settings.get("limits", Limits()).concurrency
    return {
        "base_url": base_url,
        "headers": {"Authorization": f"Bearer {api_key}", "User-Agent": _USER_AGENT},
        "timeout": settings.get("timeout", TIMEOUT),
        "verify": settings.get("verify", True),
        "limits": httpx.Limits(max_connections=max(100, concurrency)),
        "follow_redirects": False,  # a redirect would carry the texts to another address
    }
