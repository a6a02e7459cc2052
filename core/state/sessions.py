"""Sessions of the dashboard: what a browser holds in place of an API key.

Guarantee: Redis stores a session under an HMAC of its token, encrypted under a key of the master key. A copy of the
data signs nobody in, and whoever controls Redis alone cannot make or extend a session. The browser holds the token, 256
random bits, and never the key that it was given for. A session is refused after its end, whatever Redis does. Sessions
that were ended before their time are refused as long as Redis keeps what says so.
"""

import json
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from core.master_key import MasterKey, Purpose
from core.redis import names
from core.redis.client import LedgerClient
from core.redis.names import KEY_ID_LENGTH
from core.state.keystore import KeyRole

TOKEN_BYTES = 32
TOKEN_CHARS = 2 * TOKEN_BYTES
LIFETIME_S_MAX = 30 * 86_400


class SignedInBy(StrEnum):
    KEY = "key"
    ADMIN_KEY = "admin-key"
    SIGN_ON = "sign-on"


@dataclass(frozen=True)
class Session:
    """Who has signed in. `tenant`: None for the operator. `credential`: the id of the tenant's key, the HMAC of the
    admin key, or the HMAC of a person of an identity provider. `grants`: the digest of the setting that granted the
    session to that person. `form_token`: what a request that changes something must repeat. `name`: the HMAC of the
    token. Times: milliseconds since the epoch."""

    tenant: str | None
    by: SignedInBy
    credential: str
    roles: frozenset[KeyRole]
    grants: str
    opened_ms: int
    ends_ms: int
    form_token: str = field(repr=False)
    name: str = field(repr=False)


class SessionStore:
    """Opens, finds and ends sessions, of which each credential has at most `each_max`. Every method may raise
    LedgerUnavailable."""

    def __init__(
        self,
        client: LedgerClient,
        master_key: MasterKey,
        *,
        lifetime_s: float,
        each_max: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock`: seconds since 1970."""
        self._client = client
        self._master_key = master_key
        self._lifetime_ms = int(lifetime_s * 1000)
        self._each_max = each_max
        self._clock = clock

    def admin_credential(self, key: str) -> str:
        """Return what stands for an admin key in a session."""
        return self._master_key.mac(Purpose.SESSION_NAME, b"admin", key.encode())

    def person_credential(self, issuer: str, subject: str) -> str:
        """Return what stands for a person of an identity provider: it has the form of a key's id."""
        return self._master_key.mac(Purpose.SESSION_NAME, b"person", issuer.encode(), subject.encode())[:KEY_ID_LENGTH]

    async def open(
        self, tenant: str | None, by: SignedInBy, credential: str, roles: frozenset[KeyRole], *, grants: str = ""
    ) -> tuple[str, Session]:
        """Return the token of a new session, and the session. The oldest one of too many ends."""
        token = secrets.token_hex(TOKEN_BYTES)
        now_ms = int(self._clock() * 1000)
        name = self._name(token)
        content = {
            "tenant": tenant,
            "by": by,
            "credential": credential,
            "roles": sorted(roles),
            "grants": grants,
            "opened_ms": now_ms,
            "ends_ms": now_ms + self._lifetime_ms,
        }
        sealed = self._master_key.wrap(Purpose.SESSION, json.dumps(content).encode(), bound_to=name)
        await self._client.call("SET", names.session_key(name), sealed, "PX", self._lifetime_ms)
        session = self._session(content, token, name)
        await self._end_oldest(session)
        return token, session

    async def find(self, token: str) -> Session | None:
        """Return the session of a token; None for one that is unknown, has ended, or is not authentic."""
        if len(token) != TOKEN_CHARS or not token.isascii():
            return None
        name = self._name(token)
        sealed = await self._client.call("GET", names.session_key(name))
        if sealed is None:
            return None
        plain = self._master_key.unwrap(Purpose.SESSION, sealed, bound_to=name)
        if plain is None:
            return None
        found = self._session(json.loads(plain), token, name)
        return None if self.has_ended(found) or await self._was_ended(found) else found

    def has_ended(self, session: Session) -> bool:
        """Whether the time of a session is over."""
        return session.ends_ms <= self._clock() * 1000

    async def is_known(self, session: Session) -> bool:
        """Whether a session that was found is still there: nobody has signed out of it or ended it."""
        return bool(await self._client.call("GET", names.session_key(session.name))) and not await self._was_ended(
            session
        )

    async def end_all(self, tenant: str | None) -> None:
        """End every session of a tenant, or those of the operator, that was opened up to now."""
        now_ms = int(self._clock() * 1000)
        await self._client.call("SET", self._ended_key(tenant), now_ms, "PX", LIFETIME_S_MAX * 1000)

    async def end(self, token: str) -> None:
        """End a session. One that has ended, and an unknown one, stays ended."""
        session = await self.find(token)
        if session is not None:
            await self._remove(session.name, self._list_of(session))

    async def _was_ended(self, session: Session) -> bool:
        ended_ms = await self._client.call("GET", self._ended_key(session.tenant))
        return ended_ms is not None and session.opened_ms <= int(ended_ms)

    def _ended_key(self, tenant: str | None) -> str:
        return names.sessions_ended_key(self._master_key.mac(Purpose.SESSION_NAME, b"ended", (tenant or "").encode()))

    def _session(self, content: Mapping[str, Any], token: str, name: str) -> Session:
        return Session(
            tenant=content["tenant"],
            by=SignedInBy(content["by"]),
            credential=content["credential"],
            roles=frozenset(map(KeyRole, content["roles"])),
            grants=content["grants"],
            opened_ms=content["opened_ms"],
            ends_ms=content["ends_ms"],
            form_token=self._form_token(token),
            name=name,
        )

    async def _end_oldest(self, session: Session) -> None:
        """List a new session of its credential, and end the oldest ones while there are too many."""
        listed = self._list_of(session)
        await self._client.call("ZADD", listed, session.ends_ms, session.name)
        await self._client.call("PEXPIRE", listed, self._lifetime_ms)
        await self._client.call("ZREMRANGEBYSCORE", listed, "-inf", int(self._clock() * 1000))
        extra = await self._client.call("ZCARD", listed) - self._each_max
        if extra > 0:
            oldest = await self._client.call("ZRANGEBYSCORE", listed, "-inf", "+inf", "LIMIT", 0, extra)
            for name in oldest:
                await self._remove(name.decode(), listed)

    async def _remove(self, name: str, listed: str) -> None:
        # the least lifetime in place of DEL, which the ledger's user of Redis may not call
        await self._client.call("SET", names.session_key(name), b"", "PX", 1)
        await self._client.call("ZREM", listed, name)

    def _list_of(self, session: Session) -> str:
        holder = [(session.tenant or "").encode(), session.by.encode(), session.credential.encode()]
        return names.sessions_of_key(self._master_key.mac(Purpose.SESSION_NAME, b"holder", *holder))

    def _name(self, token: str) -> str:
        return self._master_key.mac(Purpose.SESSION_NAME, b"token", token.encode())

    def _form_token(self, token: str) -> str:
        return self._master_key.mac(Purpose.SESSION_FORM, token.encode())
