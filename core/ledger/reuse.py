"""What Redis keeps so that a repeated request costs nothing: results of committed releases, and keys of attempts.

Redis stores ciphertexts under names that are derived from an HMAC. Neither key is in Redis. Nothing in this module
affects a balance: a lost entry costs a new release.

Attempts. SDKs repeat a request after a time-out or a broken connection. They send no idempotency key, and count their
attempts in a header. Redis stores the key that the gateway generated for the last attempt under an HMAC of tenant, API
key, route and body, so that a retry is the same request. It stores no part of a body.

Guarantee of repeats (docs/concepts/reuse.md): for histories with the same pattern of repeats that differ in one
content, everything that is released for the account, with which rows were copied and what was charged, is (epsilon,
delta)- indistinguishable at the account's limit. HMAC-SHA256 is treated as a random function. Proof. Call each run of a
mechanism on a part (a document or text of a request) a draw.

1. Whether a part is drawn or copied depends on the pattern, on which earlier draws were committed, on time, and on the
   places at which results are kept. A place is an HMAC of the part under a key outside Redis, modulo the number of
   places: without the key, the places of different parts are independent random numbers, whatever the contents. So,
   given the same past, the decision has the same distribution in both histories.
2. A copied row is a function of an earlier committed result. Which rows are copied, what is charged and what is refused
   are functions of the decisions and of the past.
3. Each draw is independent of the others given its content, and the ledger has charged its event before it is made. A
   draw on an unchanged content has the same distribution in both histories.

So the view is post-processing of an adaptive composition of charged draws, of which only those that the account has
paid for depend on the changed content. The rule of the account bounds that composition.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from core.ledger.records import Charge
from core.master_key import NONCE_BYTES, MasterKey, Purpose
from core.redis import names
from core.redis.client import LedgerClient

_RELEASE_ID_BYTES = 16
# An SDK waits up to 600 seconds for an answer by default, and some seconds more before it sends the next attempt.
ATTEMPT_RETENTION_MS = 900_000


@dataclass(frozen=True)
class KeptResult:
    """The result of a part of the committed release `release_id`."""

    release_id: str
    content: bytes = field(repr=False)


class ReuseStore:
    """Keeps at most `places` results of each tenant, each for `retention_ms` after its release.

    The tag of a result determines its place. A later result in the same place replaces it, so the memory is bounded
    without a list of entries. Of n results, a share of about n / (2 places) is replaced early.
    `find` and `keep` raise LedgerUnavailable.
    """

    def __init__(self, client: LedgerClient, master_key: MasterKey, *, retention_ms: int, places: int) -> None:
        if retention_ms <= 0 or places <= 0:
            raise ValueError("retention and the number of places must be positive")
        self._client = client
        self._master_key = master_key
        self._cipher = AESGCM(master_key.derive(Purpose.REUSE_RESULT))
        self._retention_ms = retention_ms
        self._places = places

    def tag(self, tenant: str, charges: Sequence[Charge], origin: Sequence[bytes]) -> str:
        """Return an HMAC, 64 hex digits, of everything that determines who pays what for a result and its distribution.

        `origin` is the content and the parameters. The charges add the events and the subject. Therefore a result is
        never reused where another account would have to pay, or at another price.
        """
        return self._master_key.mac(Purpose.REUSE_TAG, tenant.encode(), orjson.dumps(list(charges)), *origin)

    async def find(self, tenant: str, tags: Sequence[str]) -> dict[str, KeptResult]:
        """Return the stored results of these tags."""
        wanted = list(dict.fromkeys(tags))
        replies = await self._client.call_many([("GET", self._key(tenant, tag)) for tag in wanted])
        found = {}
        for tag, ciphertext in zip(wanted, replies, strict=True):
            kept = None if ciphertext is None else self._decrypted(tenant, tag, ciphertext)
            if kept is not None:
                found[tag] = kept
        return found

    async def keep(self, tenant: str, release_id: str, results: Mapping[str, bytes]) -> None:
        """Store results by their tags. Call it only after the commit of `release_id`."""
        await self._client.call_many(
            [
                (
                    "SET",
                    self._key(tenant, tag),
                    self._encrypted(tenant, tag, release_id, content),
                    "PX",
                    self._retention_ms,
                )
                for tag, content in results.items()
            ]
        )

    def _key(self, tenant: str, tag: str) -> str:
        return names.reuse_key(tenant, int(tag, 16) % self._places)

    def _encrypted(self, tenant: str, tag: str, release_id: str, content: bytes) -> bytes:
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, bytes.fromhex(release_id) + content, f"{tenant}/{tag}".encode())

    def _decrypted(self, tenant: str, tag: str, ciphertext: bytes) -> KeptResult | None:
        """Return None for a result of another tag in the same place, and for one that is not authentic."""
        nonce, body = ciphertext[:NONCE_BYTES], ciphertext[NONCE_BYTES:]
        try:
            plain = self._cipher.decrypt(nonce, body, f"{tenant}/{tag}".encode())
        except (InvalidTag, ValueError):
            return None
        return KeptResult(plain[:_RELEASE_ID_BYTES].hex(), plain[_RELEASE_ID_BYTES:])


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
