"""API keys. Redis stores an HMAC of each key, never the key itself, so a copy of the data authenticates nobody.

The HMAC also covers the terms of the key: tenant, roles, expiry, label, purpose and recipient. An attacker who controls
only Redis cannot extend them. Two later changes are not covered, the revocation and the earlier end that a rotation
sets.
"""

import asyncio
import hmac
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import orjson

from core.credentials import API_KEY
from core.errors import InvalidInput, LedgerError, TenantInactive, TenantLimitReached, UnknownKey, UnknownTenant
from core.ledger.hash_chain.admin_log import AdminLog
from core.ledger.reader import LedgerReader, found_tenant, tenant_command
from core.ledger.records import TenantState
from core.master_key import MasterKey, Purpose
from core.redis import names
from core.redis.client import LedgerClient, SharedReads

RECORD_KEPT_MS = 30 * 24 * 3600 * 1000  # how long the record of a key that has ended is kept
USE_RECORDED_MS = 60 * 1000  # the interval at which the last use of a key is written
LIFE_S_MAX = 10 * 365 * 24 * 3600
OVERLAP_S_MAX = 90 * 24 * 3600
_TENANTS_MAX = 4096
_DUMMY_ID = "0" * 16
_DUMMY_SECRET = "0" * 32
WORDS = ("label", *names.RELEASE_WORDS)  # what people call a key, what its releases are for, who receives them
_FIELDS = ("mac", "tenant", "created_ms", "revoked_ms", "terms", "ends_ms", "last_used_ms")


class KeyRole(StrEnum):
    """What a key may do for its tenant. `admin`: create, list, rotate and revoke the tenant's keys."""

    RELEASE = "release"
    READ = "read"
    JOBS = "jobs"
    ADMIN = "admin"


# What a key could do before keys had roles. Keys of that time, and keys that are created without roles, have these.
DEFAULT_ROLES = frozenset({KeyRole.RELEASE, KeyRole.READ, KeyRole.JOBS})


@dataclass(frozen=True)
class ApiKey:
    """The stored facts about a key. The key itself is shown once, at creation.

    `purpose` and `recipient` say what its releases are for and who receives them, in the words of whoever created it.
    `expires_ms` includes the end that a rotation has set. `last_used_ms` is at most about a minute late.
    `tenant_state` is read when the key authenticates.
    """

    key_id: str
    tenant: str
    created_ms: int
    revoked_ms: int | None
    roles: frozenset[KeyRole] = DEFAULT_ROLES
    expires_ms: int | None = None
    label: str = ""
    purpose: str = ""
    recipient: str = ""
    last_used_ms: int | None = None
    tenant_state: TenantState = TenantState.ACTIVE

    def has_ended(self, now_ms: int) -> bool:
        """Whether the key was revoked or has expired."""
        return self.revoked_ms is not None or (self.expires_ms is not None and self.expires_ms <= now_ms)


@dataclass(frozen=True)
class NewKey:
    """A key at its creation, the only time that it can be read."""

    key: str = field(repr=False)
    facts: ApiKey


class KeyStore:
    """Keys `pgw_<16 hex: key id>_<32 hex: 128-bit secret>`. Every method may raise LedgerUnavailable.

    Every change is one entry of the log of administrative actions, written in the same step. `by` names who makes the
    change: `operator`, `cli` or `key:ID`. A tenant has at most `keys_max` keys, including those that ended within
    `RECORD_KEPT_MS`. `clock` returns seconds since 1970.
    """

    def __init__(
        self,
        client: LedgerClient,
        master_key: MasterKey,
        *,
        keys_max: int = 256,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._reads = SharedReads(client)
        self._master_key = master_key
        self._reader = LedgerReader(client)
        self.log = AdminLog(client, master_key)
        self._keys_max = keys_max
        self._clock = clock
        self._recording: dict[str, asyncio.Task[None]] = {}
        self._tenants: dict[str, str] = {}  # of keys that have authenticated, by their ids

    async def create(
        self,
        tenant: str,
        *,
        by: str,
        roles: Iterable[KeyRole] = DEFAULT_ROLES,
        expires_s: float | None = None,
        **words: str,
    ) -> NewKey:
        """Create a key of the tenant. It cannot be read again.

        `words`: `label`, `purpose` and `recipient`. Raises UnknownTenant, TenantLimitReached, InvalidInput for no
        roles, invalid words or an invalid lifetime, TenantInactive for a tenant that is closed.
        """
        return await self._create(
            tenant, by=by, action="key.create", roles=frozenset(roles), expires_s=expires_s, words=words
        )

    async def rotate(
        self, tenant: str, key_id: str, *, by: str, overlap_s: float, expires_s: float | None = None
    ) -> NewKey:
        """Create a key with the roles and the words of `key_id`. That key ends after `overlap_s`, or earlier.

        Without `expires_s` the new key lives as long as the old one was meant to at its creation. Raises UnknownKey,
        TenantLimitReached, TenantInactive, InvalidInput for a key that has ended or for an invalid time.
        """
        if not 0 <= overlap_s <= OVERLAP_S_MAX:
            raise InvalidInput(f"overlap_s is between 0 and {OVERLAP_S_MAX}", field="overlap_s")
        old = await self._find(tenant, key_id)
        now = self._now_ms()
        if old.has_ended(now):
            raise InvalidInput("This key has ended. Create a new one.", field="key_id")
        if expires_s is None and (lifetime_ms := await self._lifetime_ms(key_id)) is not None:
            expires_s = lifetime_ms / 1000
        end = now + int(overlap_s * 1000)
        if old.expires_ms is not None:
            end = min(end, old.expires_ms)
        return await self._create(
            tenant,
            by=by,
            action="key.rotate",
            roles=old.roles,
            expires_s=expires_s,
            words={name: getattr(old, name) for name in WORDS},
            details={"replaces": key_id, "ends_ms": end},
            finish=_finish(key_id, "ends_ms", end, keep_ms=end - now + RECORD_KEPT_MS),
        )

    async def revoke(self, tenant: str, key_id: str, *, by: str) -> ApiKey:
        """Revoke a key. It authenticates nobody afterwards. Repeating the call changes nothing. Raises UnknownKey."""
        found = await self._find(tenant, key_id)
        if found.revoked_ms is None:
            await self.log.append(
                by=by,
                action="key.revoke",
                target=f"{tenant}/{key_id}",
                change={"finish": _finish(key_id, "revoked_ms", self._now_ms(), keep_ms=RECORD_KEPT_MS)},
            )
            found = await self._find(tenant, key_id)
        return found

    async def authenticate(self, presented: str) -> ApiKey | None:
        """Return the facts about a valid key, else None.

        Malformed, unknown, wrong, expired and revoked keys, and those of a closed tenant, look the same. The secret is
        compared in constant time. For an unknown id it is compared with a dummy. The last use is written in the
        background, once a minute.
        """
        match = API_KEY.fullmatch(presented)
        key_id, secret = match.groups() if match else (_DUMMY_ID, _DUMMY_SECRET)
        # The tenant of a key never changes, so the record of the one that it had can be read in the same round trip.
        known = self._tenants.get(key_id)
        commands = [_record_command(key_id)] + ([] if known is None else [tenant_command(known)])
        values, *tenants = await self._reads.many(commands)
        record = dict(zip(_FIELDS, values, strict=True))
        expected = record["mac"].decode() if record["mac"] else self._mac(_DUMMY_ID, "", b"")
        genuine = hmac.compare_digest(self._mac(key_id, secret, record["terms"] or b""), expected)
        if not (match and record["mac"] and genuine):
            return None
        key = _facts(key_id, record)
        if key is None or key.has_ended(self._now_ms()):
            return None
        try:
            if key.tenant == known:
                state = found_tenant(known, tenants[0]).state
            else:
                state = await self.tenant_state(key.tenant)
        except UnknownTenant:
            return None
        if state.ended:
            return None
        if len(self._tenants) >= _TENANTS_MAX:
            self._tenants.clear()
        self._tenants[key_id] = key.tenant
        self._record_use(key)
        return replace(key, tenant_state=state)

    async def tenant_state(self, tenant: str) -> TenantState:
        """Return the state of a tenant. Raises UnknownTenant."""
        return (await self._reader.tenant(tenant)).state

    async def is_valid(self, tenant: str, key_id: str) -> bool:
        """Whether a key that authenticated earlier would still do so."""
        try:
            return not (await self._find(tenant, key_id)).has_ended(self._now_ms())
        except UnknownKey:
            return False

    async def list(self, tenant: str) -> tuple[ApiKey, ...]:
        """Return the keys of the tenant, oldest first, including those that ended recently. Raises UnknownTenant."""
        await self._reader.tenant(tenant)
        keys = []
        for key_id in await self._client.call("SMEMBERS", names.tenant_api_keys_key(tenant)):
            try:
                keys.append(await self._find(tenant, key_id.decode()))
            except UnknownKey:
                continue  # its record has expired
        return tuple(sorted(keys, key=lambda key: (key.created_ms, key.key_id)))

    async def named(self, tenant: str, key_ids: Iterable[str]) -> dict[str, ApiKey]:
        """Return the keys of the tenant among these ids whose records are still kept, by their ids."""
        wanted = sorted(set(key_ids))
        records = await self._reads.many([_record_command(key_id) for key_id in wanted]) if wanted else []
        found = (
            _facts(key_id, dict(zip(_FIELDS, values, strict=True)))
            for key_id, values in zip(wanted, records, strict=True)
        )
        return {key.key_id: key for key in found if key is not None and key.tenant == tenant}

    async def _create(
        self,
        tenant: str,
        *,
        by: str,
        action: str,
        roles: frozenset[KeyRole],
        expires_s: float | None,
        words: Mapping[str, str],
        details: dict[str, Any] | None = None,
        finish: dict[str, Any] | None = None,
    ) -> NewKey:
        if not roles:
            raise InvalidInput("A key has at least one role.", field="roles")
        for name, text in words.items():
            names.check_words(text, field=name)
        stated = {name: text for name in WORDS if (text := words.get(name, "")) or name == "label"}
        if expires_s is not None and not 1 <= expires_s <= LIFE_S_MAX:
            raise InvalidInput(f"expires_s is between 1 and {LIFE_S_MAX}", field="expires_s")
        key_id, secret = secrets.token_hex(8), secrets.token_hex(16)
        created = self._now_ms()
        expires = None if expires_s is None else created + int(expires_s * 1000)
        terms = orjson.dumps({"tenant": tenant, "roles": sorted(roles), "expires_ms": expires, **stated})
        fields: list[str | int] = ["mac", self._mac(key_id, secret, terms), "tenant", tenant]
        fields += ["created_ms", str(created), "terms", terms.decode()]
        create: dict[str, Any] = {
            "tenant": names.tenant_key(tenant),
            "list": names.tenant_api_keys_key(tenant),
            "id": key_id,
            "fields": fields,
            "max": self._keys_max,
        }
        if expires is not None:
            create["keep_ms"] = expires - created + RECORD_KEPT_MS
        outcome = await self.log.append(
            by=by,
            action=action,
            target=f"{tenant}/{key_id}",
            details={"roles": sorted(roles), "expires_ms": expires, **stated, **(details or {})},
            change={"create": create} if finish is None else {"create": create, "finish": finish},
        )
        if outcome == "unknown-tenant":
            raise UnknownTenant
        if outcome == "tenant-closed":
            raise TenantInactive(code="tenant-closed")
        if outcome == "too-many-keys":
            raise TenantLimitReached(limit="keys_per_tenant_max")
        label, purpose, recipient = (words.get(name, "") for name in WORDS)
        facts = ApiKey(key_id, tenant, created, None, roles, expires, label, purpose, recipient)
        return NewKey(f"pgw_{key_id}_{secret}", facts)

    async def _find(self, tenant: str, key_id: str) -> ApiKey:
        try:
            key = _facts(key_id, await self._record(key_id))
        except ValueError:
            raise UnknownKey from None
        if key is None or key.tenant != names.check_tenant(tenant):
            raise UnknownKey
        return key

    async def _lifetime_ms(self, key_id: str) -> int | None:
        """The time from the creation of a key to the expiry in its terms."""
        record = await self._record(key_id)
        expires = orjson.loads(record["terms"])["expires_ms"] if record["terms"] else None
        return None if expires is None else expires - int(record["created_ms"] or 0)

    async def _record(self, key_id: str) -> dict[str, bytes | None]:
        values = await self._client.call(*_record_command(key_id))
        return dict(zip(_FIELDS, values, strict=True))

    def _record_use(self, key: ApiKey) -> None:
        now = self._now_ms()
        if key.key_id in self._recording or now - (key.last_used_ms or 0) < USE_RECORDED_MS:
            return
        task = asyncio.create_task(self._write_use(key.key_id, now))
        self._recording[key.key_id] = task
        task.add_done_callback(lambda _: self._recording.pop(key.key_id, None))

    async def _write_use(self, key_id: str, now_ms: int) -> None:
        try:
            await self._client.call("HSET", names.api_key_key(key_id), "last_used_ms", now_ms)
        except LedgerError:
            return  # the next request tries again

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)

    def _mac(self, key_id: str, secret: str, terms: bytes) -> str:
        return self._master_key.mac(Purpose.API_KEY, key_id.encode(), secret.encode(), terms)


def _record_command(key_id: str) -> tuple[str, ...]:
    return ("HMGET", names.api_key_key(key_id), *_FIELDS)


def _finish(key_id: str, name: str, at_ms: int, *, keep_ms: int) -> dict[str, Any]:
    """The change of admin.lua that ends a key."""
    return {"id": key_id, "field": name, "at_ms": at_ms, "keep_ms": keep_ms}


def _facts(key_id: str, record: dict[str, bytes | None]) -> ApiKey | None:
    """The facts in a record; None where there is no record, or one that the store did not write."""
    tenant, created = record["tenant"], record["created_ms"]
    if tenant is None or created is None or record["terms"] is None:
        return None
    terms = orjson.loads(record["terms"])
    if terms.get("tenant") != tenant.decode():
        return None
    ends = [each for each in (terms["expires_ms"], _integer(record["ends_ms"])) if each is not None]
    return ApiKey(
        key_id=key_id,
        tenant=tenant.decode(),
        created_ms=int(created),
        revoked_ms=_integer(record["revoked_ms"]),
        roles=frozenset(map(KeyRole, terms["roles"])),
        expires_ms=min(ends) if ends else None,
        **{name: terms.get(name, "") for name in WORDS},
        last_used_ms=_integer(record["last_used_ms"]),
    )


def _integer(stored: bytes | None) -> int | None:
    return None if stored is None else int(stored)
