"""The presence of this gateway on its ledger, which keeps the ledger from being migrated under it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from importlib.metadata import version

from core.errors import LedgerError, LedgerUnavailable
from core.ledger.client import LedgerClient
from core.ledger.migration import SCHEMA
from core.ledger.presence import Presence, Presences
from service import metrics

log = logging.getLogger("privacy_gateway.maintenance")

_BEATS_PER_LEASE = 5


class GatewayPresence:
    """Renews the presence `gateway_id`, which ends `ttl_s` after the last renewal.

    If the ledger has another schema meanwhile, which a gateway that was paused may find, the client refuses every later
    call. The scripts of the ledger refuse its transitions before that.
    """

    def __init__(
        self,
        client: LedgerClient,
        gateway_id: str,
        *,
        ttl_s: float,
    ) -> None:
        self._client = client
        self._presences = Presences(client)
        self._ttl_s = ttl_s
        self._presence = Presence(
            gateway_id=gateway_id,
            name=socket.gethostname()[:64],
            version=version("privacy-gateway"),
            schema=SCHEMA.number,
            started_ms=int(time.time() * 1000),
        )

    async def begin(self) -> None:
        """Become present, before the schema is read. Raises LedgerUnavailable."""
        await self._presences.beat(self._presence, ttl_ms=self._ttl_ms)

    async def renew_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._ttl_s / _BEATS_PER_LEASE)
            try:
                schema, present = await self._presences.beat(self._presence, ttl_ms=self._ttl_ms)
            except LedgerError:
                continue  # Redis is away
            except Exception as error:
                log.warning("presence-not-renewed", extra={"fields": {"kind": type(error).__name__}})
                continue
            metrics.GATEWAYS_PRESENT.set(present)
            try:
                SCHEMA.check_text(schema)
            except LedgerUnavailable as error:
                self._client.refuse(error.detail)

    async def end(self) -> None:
        with contextlib.suppress(LedgerError):
            await self._presences.leave(self._presence.gateway_id)

    @property
    def _ttl_ms(self) -> int:
        return int(self._ttl_s * 1000)
