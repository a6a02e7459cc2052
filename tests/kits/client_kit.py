"""Clients of `client/` against the gateways of the tests, and transports that lose answers."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
from gateway_kit import Gateway as RealGateway
from gateway_kit import Tenant
from inprocess_kit import Gateway as InProcessGateway

from privacy_gateway_client import AsyncGateway, Gateway, Retry
from privacy_gateway_client.model import Answer

AT_ONCE = Retry(attempts=20, first_s=0.01, longest_s=0.05)


class _AsyncLoopTransport(httpx.AsyncBaseTransport):
    """As the blocking transport of an in-process gateway, for a client on another event loop."""

    def __init__(self, gateway: InProcessGateway) -> None:
        self._gateway = gateway

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = await request.aread()
        sent = httpx.Request(request.method, request.url, headers=request.headers, content=body)
        return await asyncio.to_thread(self._gateway.transport.handle_request, sent)


def client_of(gateway: InProcessGateway | RealGateway, tenant: Tenant | str, **settings: Any) -> Gateway:
    """A blocking client with the tenant's key, or with any key."""
    key = tenant if isinstance(tenant, str) else tenant.key
    if isinstance(gateway, RealGateway):
        return Gateway(gateway.url, key, **{"retry": AT_ONCE, **settings})
    return Gateway("http://gateway", key, **{"retry": AT_ONCE, "transport": gateway.transport, **settings})


def async_client_of(gateway: InProcessGateway, tenant: Tenant, **settings: Any) -> AsyncGateway:
    transport = _AsyncLoopTransport(gateway)
    return AsyncGateway("http://gateway", tenant.key, **{"retry": AT_ONCE, "async_transport": transport, **settings})


class Recorder(httpx.BaseTransport):
    """Passes requests to another transport, or to a function, and keeps them."""

    def __init__(self, answer: httpx.BaseTransport | Callable[[httpx.Request], httpx.Response]) -> None:
        self._answer = answer
        self.requests: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        if isinstance(self._answer, httpx.BaseTransport):
            return self._answer.handle_request(request)
        return self._answer(request)

    def to(self, path: str) -> list[httpx.Request]:
        """The requests to a path."""
        return [request for request in self.requests if request.url.path == path]


def extras(value: Any) -> set[str]:
    """The members of answers that no model names; the mechanisms' own facts and free tables left out."""
    if isinstance(value, Answer):
        own = set() if type(value).__name__ == "Privacy" else set(value.model_extra or {})
        return own | {name for field in type(value).model_fields for name in extras(getattr(value, field))}
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return {name for one in value for name in extras(one)}
    return set()
