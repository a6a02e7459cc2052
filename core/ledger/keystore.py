"""API keys. Redis stores an HMAC of each key, never the key itself, so a copy of the data authenticates nobody."""

from __future__ import annotations

import hmac
import secrets
import time
from dataclasses import dataclass

from core.credentials import API_KEY
from core.errors import UnknownKey, UnknownTenant
from core.ledger import names
from core.ledger.client import LedgerClient
from core.ledger.keys import MasterKey, Purpose
from core.ledger.reader import LedgerReader

_DUMMY_ID = "0" * 16
_DUMMY_SECRET = "0" * 32


@dataclass(frozen=True)
class ApiKey:
    """The stored facts about a key. The key itself is shown once, at creation."""

    key_id: str
    tenant: str
    created_ms: int
    revoked_ms: int | None


class KeyStore:
    """Keys `pgw_<16 hex: key id>_<32 hex: 128-bit secret>`. Every method may raise LedgerUnavailable."""

    def __init__(self, client: LedgerClient, master_key: MasterKey) -> None:
        self._client = client
        self._master_key = master_key
        self._reader = LedgerReader(client)

    async def create(self, tenant: str) -> str:
        """Create a key of the tenant and return it. It cannot be read again. Raises UnknownTenant."""
        await self._reader.tenant(tenant)
        key_id, secret = secrets.token_hex(8), secrets.token_hex(16)
        # Add the id to the list first, so that `list` and `revoke` find every key that authenticates.
        await self._client.call("SADD", names.tenant_api_keys_key(tenant), key_id)
        fields = ("mac", self._mac(key_id, secret), "tenant", tenant, "created_ms", int(time.time() * 1000))
        await self._client.call("HSET", names.api_key_key(key_id), *fields)
        return f"pgw_{key_id}_{secret}"

    async def revoke(self, tenant: str, key_id: str) -> ApiKey:
        """Revoke a key. It authenticates nobody afterwards. Repeating the call is safe. Raises UnknownKey."""
        try:
            await self._find(tenant, key_id)
        except ValueError:
            raise UnknownKey from None
        await self._client.call("HSETNX", names.api_key_key(key_id), "revoked_ms", int(time.time() * 1000))
        return await self._find(tenant, key_id)

    async def authenticate(self, presented: str) -> ApiKey | None:
        """Return the facts about a valid key, else None. Malformed, unknown, wrong and revoked keys look the same.

        The secret is compared in constant time. For an unknown id it is compared with a dummy.
        """
        match = API_KEY.fullmatch(presented)
        key_id, secret = match.groups() if match else (_DUMMY_ID, _DUMMY_SECRET)
        stored = await self._client.call(
            "HMGET", names.api_key_key(key_id), "mac", "tenant", "revoked_ms", "created_ms"
        )
        expected = stored[0].decode() if stored[0] else self._mac(_DUMMY_ID, "")
        genuine = hmac.compare_digest(self._mac(key_id, secret), expected)
        if not (match and stored[0] and genuine) or stored[2] is not None:
            return None
        try:
            tenant = await self._reader.tenant(stored[1].decode())
        except UnknownTenant:
            return None
        return ApiKey(key_id, tenant.name, int(stored[3]), None)

    async def list(self, tenant: str) -> tuple[ApiKey, ...]:
        """Return all keys of the tenant, including revoked ones, oldest first. Raises UnknownTenant."""
        await self._reader.tenant(tenant)
        keys = []
        for key_id in await self._client.call("SMEMBERS", names.tenant_api_keys_key(tenant)):
            try:
                keys.append(await self._find(tenant, key_id.decode()))
            except UnknownKey:
                continue  # the id of an interrupted `create`
        return tuple(sorted(keys, key=lambda key: (key.created_ms, key.key_id)))

    async def _find(self, tenant: str, key_id: str) -> ApiKey:
        owner, created_ms, revoked_ms = await self._client.call(
            "HMGET", names.api_key_key(key_id), "tenant", "created_ms", "revoked_ms"
        )
        if owner is None or owner.decode() != names.check_tenant(tenant):
            raise UnknownKey
        return ApiKey(key_id, tenant, int(created_ms), int(revoked_ms) if revoked_ms is not None else None)

    def _mac(self, key_id: str, secret: str) -> str:
        return self._master_key.mac(Purpose.API_KEY, key_id.encode(), secret.encode())
