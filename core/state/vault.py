"""The vault: sealed entries of a tenant with a lifetime, for what has to outlive one request.

Guarantee: Redis stores ciphertexts (AES-256-GCM under a key of the tenant alone) under keyed hashes of their names, and
neither key. A ciphertext that is altered, or that stands under another name, another tenant or with another expiry, is
not opened. The number of a tenant's entries, and the size and the expiry of each, are visible in Redis. The journal
has no entry about them.
"""

import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from core.errors import InvalidInput, TenantInactive, TenantLimitReached
from core.master_key import NONCE_BYTES, MasterKey, Purpose
from core.redis import names
from core.redis.client import LedgerClient

ID_LENGTH = 64
_TIME_DIGITS = 13
OVERHEAD_BYTES = _TIME_DIGITS + NONCE_BYTES + 16
"""Of an entry, beside its content: the expiry, the nonce and the tag."""
_MEMBER = re.compile(r"([0-9]{13})-([0-9a-f]{64})-([0-9]+)")


class VaultEntry(NamedTuple):
    """`entry_id`: the keyed hash of its name. `expires_ms`: since 1970."""

    entry_id: str
    expires_ms: int
    size_bytes: int
    cursor: str


@dataclass(frozen=True)
class VaultCount:
    """What a tenant has in the vault. The times are those of the entries that expire first and last."""

    entries: int
    size_bytes: int
    first_expires_ms: int | None
    last_expires_ms: int | None


class Vault:
    """At most `entries_max` entries and `bytes_max` bytes of each tenant. Each method raises LedgerUnavailable."""

    def __init__(
        self,
        client: LedgerClient,
        master_key: MasterKey,
        *,
        entries_max: int,
        bytes_max: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock`: seconds since 1970."""
        self._client = client
        self._master_key = master_key
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._clock = clock

    def entry_id(self, tenant: str, name: str) -> str:
        """The keyed hash of a name, 64 hex digits. It differs between tenants."""
        return self._master_key.mac(Purpose.VAULT_NAME, tenant.encode(), name.encode("utf-8", "surrogatepass"))

    async def put(
        self,
        tenant: str,
        name: str,
        content: bytes,
        *,
        lifetime_s: float,
        only_new: bool = False,
        only_old: bool = False,
    ) -> bool:
        """Keep the content under this name, in place of an earlier one. It is durable when this returns. With
        `only_new` an earlier one stays, and with `only_old` nothing is kept without one. Returns whether the content
        is kept.

        Raises TenantLimitReached if the tenant's entries or bytes would be too many, and TenantInactive if it is
        closed."""
        entry_id = self.entry_id(tenant, name)
        expires_ms = int((self._clock() + lifetime_s) * 1000)
        nonce = secrets.token_bytes(NONCE_BYTES)
        sealed = nonce + self._cipher(tenant).encrypt(nonce, content, _bound(tenant, entry_id, expires_ms))
        found = await self._run(
            tenant,
            "put",
            sealed,
            id=entry_id,
            expires_ms=expires_ms,
            entries_max=self._entries_max,
            bytes_max=self._bytes_max,
            only_new=only_new,
            only_old=only_old,
        )
        if found["outcome"] == "tenant-closed":
            raise TenantInactive(code="tenant-closed")
        if found["outcome"] not in ("done", "exists", "gone"):
            raise TenantLimitReached(limit=found["outcome"])
        return bool(found["outcome"] == "done")

    async def get(self, tenant: str, name: str) -> bytes | None:
        """The content of this name; None if there is none, its time is over, or it is not authentic."""
        entry_id = self.entry_id(tenant, name)
        stored: bytes | None = await self._client.call("GET", names.vault_entry_key(tenant, entry_id))
        if stored is None:
            return None
        head, nonce = stored[:_TIME_DIGITS], stored[_TIME_DIGITS : _TIME_DIGITS + NONCE_BYTES]
        body = stored[_TIME_DIGITS + NONCE_BYTES :]
        try:
            expires_ms = int(head)
            content = self._cipher(tenant).decrypt(nonce, body, _bound(tenant, entry_id, expires_ms))
        except (ValueError, InvalidTag):
            return None
        return content if self._clock() * 1000 < expires_ms else None

    async def delete(self, tenant: str, entry_id: str) -> bool:
        """Delete the entry of this id. Returns whether there was one."""
        if not re.fullmatch(rf"[0-9a-f]{{{ID_LENGTH}}}", entry_id):
            return False
        return bool((await self._run(tenant, "delete", id=entry_id))["found"])

    async def clear(self, tenant: str) -> None:
        """Delete all entries of the tenant."""
        while (await self._run(tenant, "clear"))["more"]:
            pass

    async def count(self, tenant: str) -> VaultCount:
        """What the tenant has now, without what has expired."""
        while (found := await self._run(tenant, "count"))["more"]:
            pass
        first, last = (_entry(member).expires_ms if member else None for member in (found["first"], found["last"]))
        return VaultCount(found["entries"], found["bytes"], first, last)

    async def check_space(self, tenant: str, content_bytes: int) -> None:
        """Raise TenantLimitReached if an entry with so much content would not fit now."""
        count = await self.count(tenant)
        if count.entries >= self._entries_max:
            raise TenantLimitReached(limit="vault_entries_max")
        if count.size_bytes + content_bytes + OVERHEAD_BYTES > self._bytes_max:
            raise TenantLimitReached(limit="vault_bytes_max")

    async def page(self, tenant: str, *, cursor: str | None, limit: int) -> list[VaultEntry]:
        """Up to `limit` entries that expire after the one of `cursor`. Raises InvalidInput for another cursor."""
        if cursor is not None and not _MEMBER.fullmatch(cursor):
            raise InvalidInput("`cursor` must be the `next_cursor` of the previous page.", field="cursor")
        found = await self._run(tenant, "page", cursor=cursor or "", limit=limit)
        return [_entry(member) for member in found["found"]]

    async def _run(self, tenant: str, action: str, blob: bytes = b"", **args: Any) -> dict[str, Any]:
        found, _ = await self._client.run(
            "vault", key=names.tenant_key(tenant), args={"action": action, **args}, blob=blob
        )
        return found

    def _cipher(self, tenant: str) -> AESGCM:
        return AESGCM(bytes.fromhex(self._master_key.mac(Purpose.VAULT, tenant.encode())))


def _bound(tenant: str, entry_id: str, expires_ms: int) -> bytes:
    """What a ciphertext is bound to."""
    return f"{tenant}/{entry_id}/{expires_ms}".encode()


def _entry(member: str) -> VaultEntry:
    found = _MEMBER.fullmatch(member)
    if found is None:
        raise ValueError("not a member of a vault")
    return VaultEntry(found[2], int(found[1]), int(found[3]), member)
