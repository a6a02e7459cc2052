"""Finds the idempotency key that the gateway generated for an attempt, so that a client's retry is the same request.

SDKs repeat a request after a time-out or a broken connection. They send no idempotency key, and count their attempts in
a header. Redis stores the key of the last attempt, encrypted, under an HMAC of tenant, API key, route and body. It
stores no part of a body, and neither key of the gateway is in Redis. Nothing in this module affects a balance: a lost
entry costs a new release.
"""

from core.master_key import MasterKey, Purpose
from core.redis import names
from core.redis.client import LedgerClient

# An SDK waits up to 600 seconds for an answer by default, and some seconds more before it sends the next attempt.
ATTEMPT_RETENTION_MS = 900_000


class Attempts:
    """Keeps the key of an attempt for `ATTEMPT_RETENTION_MS`. `find` and `keep` raise LedgerUnavailable."""

    def __init__(self, client: LedgerClient, master_key: MasterKey) -> None:
        self._client = client
        self._master_key = master_key

    def tag(self, *, tenant: str, key_id: str, route: str, body: bytes) -> str:
        """Return an HMAC, 64 hex digits, of what all attempts of a request have in common."""
        parts = (tenant.encode(), key_id.encode(), route.encode(), body)
        return self._master_key.mac(Purpose.ATTEMPT_TAG, *parts)

    async def find(self, tenant: str, tag: str) -> str | None:
        """Return the idempotency key of the last attempt; None if there was none in this time."""
        sealed = await self._client.call("GET", names.attempt_key(tenant, tag))
        plain = None if sealed is None else self._master_key.unwrap(Purpose.ATTEMPT, sealed, bound_to=f"{tenant}/{tag}")
        return None if plain is None else plain.decode()

    async def keep(self, tenant: str, tag: str, key: str) -> None:
        """Store the idempotency key of an attempt. It replaces that of an earlier one."""
        sealed = self._master_key.wrap(Purpose.ATTEMPT, key.encode(), bound_to=f"{tenant}/{tag}")
        await self._client.call("SET", names.attempt_key(tenant, tag), sealed, "PX", ATTEMPT_RETENTION_MS)
