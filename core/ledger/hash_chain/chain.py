"""Seals: the state of the journals at a moment, authenticated by a MAC whose key is not in Redis.

All tenants share one chain. A seal contains, for each tenant with new entries, the range of entry numbers, the SHA-256
of those entries as stored, and the tenant's own accounts after the last of them. Each seal contains the number and MAC
of the previous one. Therefore an attacker who controls only Redis cannot change, omit or replace a seal.
"""

import hashlib
import hmac
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from core.errors import LedgerNotTrusted
from core.master_key import MasterKey, Purpose
from core.redis import names
from core.redis.client import LedgerClient

CHAIN_BATCH = 100
RawEntry = tuple[bytes, Mapping[bytes, bytes]]  # a journal entry as Redis stores it: its id and its fields


@dataclass(frozen=True)
class SealId:
    """The number of a seal and its MAC in hex. Number 0 denotes the start of the chain, before the first seal."""

    n: int = 0
    mac: str = ""


@dataclass(frozen=True)
class Segment:
    """Entries `first` to `last` of one tenant, and the rows of its own accounts after entry `last`.

    `digest` covers all entries, `end` only entry `last`. Release ids are random, so a journal that was rolled back and
    rewritten has another entry `last`, even if its accounts are the same.
    """

    tenant: str
    first: int
    last: int
    digest: str
    end: str
    accounts: tuple[tuple[Any, ...], ...]

    @property
    def is_new(self) -> bool:
        """Whether it contains entries. A segment without entries repeats the one before (`Sealer`)."""
        return self.last >= self.first


@dataclass(frozen=True)
class Seal:
    """`restored` is set if an operator accepted an older state: the last seal that the gateway had seen before.

    `admin` is the end of the log of administrative actions at that time.
    """

    id: SealId
    body: bytes
    ledger: str
    at_ms: int
    previous: SealId
    heads: str
    restored: SealId | None
    segments: tuple[Segment, ...]
    admin: SealId

    def segment(self, tenant: str) -> Segment | None:
        return next((segment for segment in self.segments if segment.tenant == tenant), None)


@dataclass(frozen=True)
class Head:
    """How far a tenant is sealed: its last sealed entry, and the number of the last seal with a segment of it."""

    last: int
    n: int

    @property
    def text(self) -> str:
        return f"{self.last} {self.n}"


@dataclass(frozen=True)
class ChainHead:
    """The last seal (None before the first) and the head of every sealed tenant, read atomically."""

    seal: Seal | None = None
    tenants: Mapping[str, Head] = field(default_factory=dict)

    @property
    def id(self) -> SealId:
        return self.seal.id if self.seal else SealId()


class JournalDigest:
    """SHA-256 over raw entries. An entry is its id, then the names and values of its fields in order, as netstrings."""

    def __init__(self, entries: Iterable[RawEntry] = ()) -> None:
        self._sha256 = hashlib.sha256()
        self.add(entries)

    def add(self, entries: Iterable[RawEntry]) -> None:
        for entry_id, fields in entries:
            parts = [entry_id]
            for pair in fields.items():
                parts += pair
            self._sha256.update(b"%d;" % len(parts) + b"".join([b"%d:%b," % (len(part), part) for part in parts]))

    def hexdigest(self) -> str:
        return self._sha256.hexdigest()


def heads_digest(heads: Mapping[str, Head]) -> str:
    """Return the SHA-256 of all heads. The heads are an ordinary hash in Redis, and every seal contains this digest."""
    lines = [f"{tenant} {head.text}\n" for tenant, head in sorted(heads.items())]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def seal_entry(raw: Any, master_key: MasterKey) -> Seal:
    """Parse and verify an entry of the chain, in the form of XRANGE or of a raw connection.

    Raises LedgerNotTrusted if its MAC is not this key's MAC of its body, or if its number is not the entry's number.
    """
    entry_id, fields = raw
    found = fields if isinstance(fields, Mapping) else dict(zip(fields[::2], fields[1::2], strict=True))
    number, _, part = entry_id.decode().partition("-")
    seal = parse_seal(found.get(b"body", b""), found.get(b"mac", b"").decode("ascii", "replace"), master_key)
    if seal is None or seal.id.n != int(number) or part != "0":
        raise LedgerNotTrusted(f"Seal {entry_id.decode()} of the ledger is not genuine.")
    return seal


def parse_seal(body: bytes, mac: str, master_key: MasterKey) -> Seal | None:
    """Return the seal, or None if `mac` is not this key's MAC of `body`."""
    if not hmac.compare_digest(master_key.mac(Purpose.JOURNAL, body).encode(), mac.encode()):
        return None
    found = orjson.loads(body)
    return Seal(
        id=SealId(found["n"], mac),
        body=body,
        ledger=found["ledger"],
        at_ms=found["at_ms"],
        previous=SealId(**found["previous"]),
        heads=found["heads"],
        restored=SealId(**found["restored"]) if found["restored"] else None,
        segments=tuple(
            Segment(tenant, first, last, digest, end, tuple(tuple(row) for row in rows))
            for tenant, first, last, digest, end, rows in found["tenants"]
        ),
        admin=SealId(**found["admin"]),
    )


class SealChain:
    """Reads and extends the chain. Every seal returned is genuine. Raises LedgerNotTrusted or LedgerUnavailable."""

    def __init__(self, client: LedgerClient, master_key: MasterKey) -> None:
        self._client = client
        self._master_key = master_key

    async def ledger_id(self) -> str | None:
        """Return the random id of this ledger, or None if it was never checked."""
        found = await self._client.call("GET", names.LEDGER_ID_KEY)
        return None if found is None else found.decode()

    async def name_ledger(self, ledger: str) -> str:
        """Set the ledger's id unless it has one. Return the id that it has."""
        await self._client.call("SET", names.LEDGER_ID_KEY, ledger, "NX")
        return await self.ledger_id() or ""

    async def head(self, known: ChainHead | None = None) -> ChainHead:
        """Return the end of the chain. Returns the object `known` itself if that is still the end."""
        args = {"known_n": str(known.id.n), "known_mac": known.id.mac} if known else {}
        try:
            found, _ = await self._client.run("seal", key=names.SEAL_CHAIN_KEY, args=args)
        except ValueError:  # not even valid text
            raise LedgerNotTrusted("The last seal of the ledger cannot be read.") from None
        if known and found["outcome"] == "same":
            return known
        flat = found["heads"] or []
        heads = {tenant: parse_head(text) for tenant, text in zip(flat[::2], flat[1::2], strict=True)}
        if found["n"] == "0":
            if heads:
                raise LedgerNotTrusted("The chain of seals is missing, but the list of sealed tenants still exists.")
            return ChainHead()
        seal = parse_seal(found["body"].encode(), found["mac"], self._master_key)
        if seal is None or str(seal.id.n) != found["n"]:
            raise LedgerNotTrusted(f"Seal {found['n']} of the ledger is not genuine.")
        if seal.heads != heads_digest(heads):
            raise LedgerNotTrusted("The list of sealed tenants does not match the last seal.")
        return ChainHead(seal, heads)

    async def last_seal(self) -> Seal | None:
        """Return the last seal alone, without the heads, or None if there is none."""
        found = await self._client.call("XREVRANGE", names.SEAL_CHAIN_KEY, "+", "-", "COUNT", 1)
        return seal_entry(found[0], self._master_key) if found else None

    async def seal(self, n: int) -> Seal:
        """Return seal number `n`."""
        found = await self._client.call("XRANGE", names.SEAL_CHAIN_KEY, f"{n}-0", f"{n}-0")
        if not found:
            raise LedgerNotTrusted(f"Seal {n} of the ledger is missing.")
        return seal_entry(found[0], self._master_key)

    async def raw_seals(self) -> AsyncIterator[Any]:
        """Yield every entry of the chain as stored, oldest first."""
        start = "-"
        while found := await self._client.call("XRANGE", names.SEAL_CHAIN_KEY, start, "+", "COUNT", CHAIN_BATCH):
            for entry in found:
                yield entry
            start = f"({found[-1][0].decode()}"

    async def append(
        self,
        after: ChainHead,
        *,
        ledger: str,
        at_ms: int,
        segments: tuple[Segment, ...],
        admin: SealId,
        n: int | None = None,
        restored: SealId | None = None,
        fence: str | None = None,
    ) -> ChainHead | None:
        """Write the next seal durably. Returns None if the chain no longer ends with `after`.

        With `fence`, also if the lease of the duties no longer has this fencing number. `n` is the next number, unless
        the acceptance of a restore skips some numbers.
        """
        number = after.id.n + 1 if n is None else n
        changed = {segment.tenant: Head(segment.last, number) for segment in segments}
        heads = {**after.tenants, **changed}
        index = {s.tenant: (s.last, f"{number}:{s.first}:{s.last}") for s in segments if s.is_new}
        body = orjson.dumps(
            {
                "n": number,
                "at_ms": at_ms,
                "ledger": ledger,
                "previous": {"n": after.id.n, "mac": after.id.mac},
                "restored": {"n": restored.n, "mac": restored.mac} if restored else None,
                "heads": heads_digest(heads),
                "admin": {"n": admin.n, "mac": admin.mac},
                "tenants": [[s.tenant, s.first, s.last, s.digest, s.end, s.accounts] for s in segments],
            }
        )
        mac = self._master_key.mac(Purpose.JOURNAL, body)
        found, _ = await self._client.run(
            "seal",
            key=names.SEAL_CHAIN_KEY,
            args={
                "n": str(number),
                "mac": mac,
                "body": body.decode(),
                "after_n": str(after.id.n),
                "after_mac": after.id.mac,
                "heads": [[tenant, head.text, *index.get(tenant, ("", ""))] for tenant, head in changed.items()],
                **({} if fence is None else {"fence": fence}),
            },
        )
        if found["outcome"] in ("overtaken", "fenced"):
            return None
        return ChainHead(parse_seal(body, mac, self._master_key), heads)


def parse_head(text: str) -> Head:
    """Parse the stored form of a head. Raises LedgerNotTrusted."""
    parts = text.split(" ")
    if len(parts) != 2 or not all(part.isdecimal() for part in parts):
        raise LedgerNotTrusted("The list of sealed tenants cannot be read.")
    return Head(*map(int, parts))
