"""The log of administrative actions: who did what to which tenant or key, and when. It contains no secret and no text.

Each entry contains the MAC of the previous entry, under a key that is not in Redis. Therefore an attacker who controls
only Redis cannot change, insert or remove an entry in the middle. The end of the log can be cut off undetected, except
for entries that a seal of the ledger covers.
"""

import hmac
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import orjson

from core.errors import GatewayError, LedgerUnavailable
from core.ledger.hash_chain.chain import SealId
from core.master_key import MasterKey, Purpose
from core.redis import names
from core.redis.client import LedgerClient

ATTEMPTS = 20
BATCH = 100


@dataclass(frozen=True)
class AdminEntry:
    """One action. `by` is `operator`, `cli` or `key:ID`. `mac` and `body` are as stored, and `genuine` checks both.

    An entry of an action on keys or on the state of a tenant is written in one step with the action. Any other entry is
    written before its action, which may then have failed.
    """

    n: int
    at_ms: int
    by: str
    action: str
    target: str
    details: Mapping[str, Any]
    previous: str
    mac: str
    body: str = field(repr=False)
    genuine: bool = True


@dataclass(frozen=True)
class AdminPage:
    """`next_cursor` is None at the end of the log."""

    entries: tuple[AdminEntry, ...]
    next_cursor: int | None


class AdminLog:
    """Writes and reads the log. Every method may raise LedgerUnavailable."""

    def __init__(self, client: LedgerClient, master_key: MasterKey) -> None:
        self._client = client
        self._master_key = master_key

    async def append(
        self,
        *,
        by: str,
        action: str,
        target: str,
        details: Mapping[str, Any] | None = None,
        change: Mapping[str, Any] | None = None,
    ) -> str:
        """Append an entry durably and apply `change` (`create`, `finish` or `state` of admin.lua) in the same step.

        Returns the outcome of the script: `logged`, or why it changed nothing.
        """
        return (await self._append(by, action, target, details or {}, change or {}))[0]

    @asynccontextmanager
    async def before(
        self, *, by: str, action: str, target: str, details: Mapping[str, Any] | None = None
    ) -> AsyncIterator[None]:
        """Append an entry before the action of the block. If it fails, append `ACTION.failed` with the number of that
        entry and the code of the error, unless Redis does not answer."""
        _, n = await self._append(by, action, target, details or {}, {})
        try:
            yield
        except GatewayError as error:
            with suppress(LedgerUnavailable):
                await self._append(by, f"{action}.failed", target, {"entry": n, "code": error.code}, {})
            raise

    async def _append(
        self, by: str, action: str, target: str, details: Mapping[str, Any], change: Mapping[str, Any]
    ) -> tuple[str, int]:
        """Return the outcome of the script and the number of the entry."""
        for _ in range(ATTEMPTS):
            end = await self.end()
            body = orjson.dumps(
                {
                    "n": end.n + 1,
                    "at_ms": await self._client.now_ms(),
                    "by": by,
                    "action": action,
                    "target": target,
                    "details": details,
                    "previous": end.mac,
                }
            )
            entry = {"n": str(end.n + 1), "body": body.decode(), "mac": self._mac(body)}
            args = {**entry, "after_n": str(end.n), "after_mac": end.mac, **change}
            found, _ = await self._client.run("admin", key=names.ADMIN_LOG_KEY, args=args)
            if found["outcome"] != "overtaken":
                return str(found["outcome"]), end.n + 1
        raise LedgerUnavailable("Other administrative actions were logged at the same time. Try again.")

    async def end(self) -> SealId:
        """Return the number and the MAC of the last entry. Number 0 denotes an empty log."""
        found, _ = await self._client.run("admin", key=names.ADMIN_LOG_KEY, args={})
        return SealId(int(found["n"]), str(found["mac"]))

    async def page(self, *, after: int, limit: int) -> AdminPage:
        """Return up to `limit` entries after entry number `after`, oldest first."""
        raw = await self._client.call("XRANGE", names.ADMIN_LOG_KEY, f"{after + 1}-0", "+", "COUNT", limit + 1)
        entries = tuple(self._entry(each) for each in raw[:limit])
        return AdminPage(entries, entries[-1].n if len(raw) > limit else None)

    async def entries(self) -> AsyncIterator[AdminEntry]:
        """Yield every entry, oldest first."""
        cursor: int | None = 0
        while cursor is not None:
            page = await self.page(after=cursor, limit=BATCH)
            for entry in page.entries:
                yield entry
            cursor = page.next_cursor

    def _entry(self, raw: Any) -> AdminEntry:
        entry_id, fields = raw
        number, _, part = entry_id.decode().partition("-")
        body, mac = fields.get(b"body", b""), fields.get(b"mac", b"").decode("ascii", "replace")
        genuine = hmac.compare_digest(self._mac(body).encode(), mac.encode())
        text = body.decode(errors="backslashreplace")
        found = orjson.loads(body) if genuine else {}
        return AdminEntry(
            n=int(number),
            at_ms=found.get("at_ms", 0),
            by=found.get("by", ""),
            action=found.get("action", ""),
            target=found.get("target", ""),
            details=found.get("details", {}),
            previous=found.get("previous", ""),
            mac=mac,
            body=text,
            genuine=genuine and found["n"] == int(number) and part == "0",
        )

    def _mac(self, body: bytes) -> str:
        return self._master_key.mac(Purpose.ADMIN_LOG, body)


class LogCheck:
    """Checks entries in order. `faults` are fixed sentences about entries that were changed, inserted or removed."""

    def __init__(self, sealed: SealId | None = None) -> None:
        """`sealed`: the end of the log that the last seal of the ledger covers."""
        self.faults: list[str] = []
        self._last = SealId()
        self._sealed = sealed if sealed is not None and sealed.n else None

    def add(self, entry: AdminEntry) -> None:
        if not entry.genuine:
            self.faults.append(f"entry {entry.n} was not written by the gateway")
        elif entry.n != self._last.n + 1 or entry.previous != self._last.mac:
            self.faults.append(f"entry {entry.n} does not follow the entry before it")
        if self._sealed is not None and entry.n == self._sealed.n and entry.mac != self._sealed.mac:
            self.faults.append(f"entry {entry.n} is not the one that the last seal covers")
        self._last = SealId(entry.n, entry.mac)

    def end(self) -> None:
        """Call this after the last entry."""
        if self._sealed is not None and self._last.n < self._sealed.n:
            self.faults.append(f"the last seal covers entry {self._sealed.n}, which is missing")
