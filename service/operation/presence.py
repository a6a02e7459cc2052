"""The presence of this gateway on its ledger, which shows the operator what runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from importlib.metadata import version

from core.errors import LedgerError
from core.ledger.client import LedgerClient
from core.ledger.presence import Presence, Presences
from service import metrics

log = logging.getLogger("privacy_gateway.maintenance")

_BEATS_PER_LEASE = 5


class GatewayPresence:
    """Renews the presence `gateway_id`, which ends `ttl_s` after the last renewal."""

    def __init__(
        self,
        client: LedgerClient,
        gateway_id: str,
        *,
        ttl_s: float,
    ) -> None:
        self._presences = Presences(client)
        self._ttl_s = ttl_s
        self._presence = Presence(
            gateway_id=gateway_id,
            name=socket.gethostname()[:64],
            version=version("privacy-gateway"),
            started_ms=int(time.time() * 1000),
        )

    async def begin(self) -> None:
        """Become present. Raises LedgerUnavailable."""
        await self._presences.beat(self._presence, ttl_ms=self._ttl_ms)

    async def renew_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._ttl_s / _BEATS_PER_LEASE)
            try:
                present = await self._presences.beat(self._presence, ttl_ms=self._ttl_ms)
            except LedgerError:
                continue  # Redis is away
            except Exception as error:
                log.warning("presence-not-renewed", extra={"fields": {"kind": type(error).__name__}})
                continue
            metrics.GATEWAYS_PRESENT.set(present)

    async def end(self) -> None:
        with contextlib.suppress(LedgerError):
            await self._presences.leave(self._presence.gateway_id)

    @property
    def _ttl_ms(self) -> int:
        return int(self._ttl_s * 1000)
