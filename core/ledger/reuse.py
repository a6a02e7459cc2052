"""Results of committed releases, kept so that a repeat of the same request is answered from them.

Redis holds ciphertexts under names that are derived from an HMAC; both keys are outside Redis. Nothing here counts: an
entry that is lost costs a new release, never a wrong balance.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from core.ledger import names
from core.ledger.client import LedgerClient
from core.ledger.keys import NONCE_BYTES, MasterKey, Purpose
from core.ledger.records import Charge

_RELEASE_ID_BYTES = 16


@dataclass(frozen=True)
class KeptResult:
    """The result of a part of the committed release `release_id`."""

    release_id: str
    content: bytes = field(repr=False)


class ReuseStore:
    """Keeps at most `places` results of each tenant, each for `retention_ms` after it was released.

    The tag of a result decides its place. A later result of the same place replaces it, so the memory is bounded
    without a list of entries. Of n results, a share of about n / (2 places) is replaced early.
    Both calls to Redis raise LedgerUnavailable as every call of the ledger does.
    """

    def __init__(self, client: LedgerClient, master_key: MasterKey, *, retention_ms: int, places: int) -> None:
        if retention_ms <= 0 or places <= 0:
            raise ValueError("results are kept for at least a millisecond, at one place at least")
        self._client = client
        self._master_key = master_key
        self._cipher = AESGCM(master_key.derive(Purpose.REUSE_RESULT))
        self._retention_ms = retention_ms
        self._places = places

    def tag(self, tenant: str, charges: Sequence[Charge], origin: Sequence[bytes]) -> str:
        """HMAC of everything that decides who pays what for a result and how it is distributed, 64 hex digits.

        `origin` is the content and the parameters. The charges add the events and the subject: a result is never
        used where another account would have to pay, or another price.
        """
        return self._master_key.mac(Purpose.REUSE_TAG, tenant.encode(), orjson.dumps(list(charges)), *origin)

    async def find(self, tenant: str, tags: Sequence[str]) -> dict[str, KeptResult]:
        """The results that are kept under these tags."""
        wanted = list(dict.fromkeys(tags))
        replies = await self._client.call_many([("GET", self._key(tenant, tag)) for tag in wanted])
        found = {}
        for tag, sealed in zip(wanted, replies, strict=True):
            kept = None if sealed is None else self._opened(tenant, tag, sealed)
            if kept is not None:
                found[tag] = kept
        return found

    async def keep(self, tenant: str, release_id: str, results: Mapping[str, bytes]) -> None:
        """Keep results by their tags. Call it after the commit of `release_id` alone."""
        await self._client.call_many(
            [
                (
                    "SET",
                    self._key(tenant, tag),
                    self._sealed(tenant, tag, release_id, content),
                    "PX",
                    self._retention_ms,
                )
                for tag, content in results.items()
            ]
        )

    def _key(self, tenant: str, tag: str) -> str:
        return names.reuse_key(tenant, int(tag, 16) % self._places)

    def _sealed(self, tenant: str, tag: str, release_id: str, content: bytes) -> bytes:
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, bytes.fromhex(release_id) + content, f"{tenant}/{tag}".encode())

    def _opened(self, tenant: str, tag: str, sealed: bytes) -> KeptResult | None:
        """None for a result of another tag at the same place, and for one that is not authentic."""
        nonce, body = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        try:
            plain = self._cipher.decrypt(nonce, body, f"{tenant}/{tag}".encode())
        except (InvalidTag, ValueError):
            return None
        return KeptResult(plain[:_RELEASE_ID_BYTES].hex(), plain[_RELEASE_ID_BYTES:])
