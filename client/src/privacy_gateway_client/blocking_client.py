"""The blocking client."""

from __future__ import annotations

from types import TracebackType

import httpx
from typing_extensions import Self, Unpack

from privacy_gateway_client.connection import Settings, http_options
from privacy_gateway_client.core import Core
from privacy_gateway_client.drivers import BlockingDriver
from privacy_gateway_client.spaces import Client


class Gateway(Client[BlockingDriver]):
    """A client of the gateway at `base_url`, for one API key; several threads may share it.

    settings: see `Settings`. Close it, or use it as a context manager.
    """

    def __init__(self, base_url: str, api_key: str, **settings: Unpack[Settings]) -> None:
        transport = settings.get("transport")
        http = httpx.Client(transport=transport, **http_options(base_url, api_key, settings))
        super().__init__(Core.of(base_url, settings), BlockingDriver(http))

    def close(self) -> None:
        self._driver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
