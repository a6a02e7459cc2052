"""The asynchronous client."""

from __future__ import annotations

from types import TracebackType

import httpx
from typing_extensions import Self, Unpack

from privacy_gateway_client.async_driver import AsyncDriver
from privacy_gateway_client.connection import Settings, http_options
from privacy_gateway_client.core import Core
from privacy_gateway_client.spaces import Client


class AsyncGateway(Client[AsyncDriver]):
    """An asynchronous client of the gateway at `base_url`, for one API key; one event loop uses it.

    settings: see `Settings`. Close it, or use it by `async with`.
    """

    def __init__(self, base_url: str, api_key: str, **settings: Unpack[Settings]) -> None:
        transport = settings.get("async_transport")
        http = httpx.AsyncClient(transport=transport, **http_options(base_url, api_key, settings))
        super().__init__(Core.of(base_url, settings), AsyncDriver(http))

    async def close(self) -> None:
        await self._driver.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
