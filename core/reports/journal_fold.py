"""Sums of the journal over time. Transitions do no extra work for them.

`fold_all`, called regularly, adds the journal's new entries to buckets of several sizes. A bucket stores cumulative
values as of its end, so a bucket without entries needs no point. A read costs only the points that it returns, whatever
the length of the journal. fold.lua packs older points into texts. Every entry counts exactly once, even if several
processes fold (fold.lua).

The Redis time of an entry selects its bucket. If that clock steps back, entries count in the latest bucket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from core.errors import UnknownTenant
from core.ledger import wire
from core.ledger.archive.store import LedgerArchive
from core.ledger.reader import LedgerReader
from core.ledger.records import JournalEntry
from core.ledger.tenant_rounds import Done, TenantPosition, in_parts, over_tenants
from core.redis import names
from core.redis.client import LedgerClient

DAY_S = 86400
FOLD_BATCH = 256  # an entry may have a thousand rows of 100 bytes


class Totals(NamedTuple):
    """The totals of a series. `releases` are those that ended with their cost counted."""

    committed_epsilon_nano: int = 0
    committed_delta_femto: int = 0
    held_epsilon_nano: int = 0
    held_delta_femto: int = 0
    releases: int = 0

    def plus(self, other: Totals) -> Totals:
        a, b, c, d, e = self
        f, g, h, i, j = other
        return Totals(a + f, b + g, c + h, d + i, e + j)

    def minus(self, other: Totals) -> Totals:
        return Totals(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))


@dataclass(frozen=True)
class Aggregate:
    """What is summed.

    `name` is the part of the Redis keys, and `position` the field of the tenant's record with the last entry that is
    counted. `retention_s` maps the size of a bucket in seconds to how long its points are stored (None: forever).
    `changes` returns what an entry adds to each series.
    """

    name: str
    position: str
    retention_s: Mapping[int, int | None]
    changes: Callable[[JournalEntry], Mapping[str, Totals]]


@dataclass(frozen=True)
class SumsRow:
    """One series: its total as of the last fold, and the totals at the end of each bucket of a range."""

    label: str
    total: Totals
    points: tuple[Totals, ...]


@dataclass(frozen=True)
class SumsPage:
    """`rows` are sorted by their totals of epsilon, the largest first. Every entry up to `as_of_ms` is counted."""

    rows: tuple[SumsRow, ...]
    as_of_ms: int
    is_last: bool


class JournalFold(LedgerReader):
    """Folds the journal into one aggregate and reads it. `clock` replaces the Redis time in tests."""

    def __init__(
        self,
        client: LedgerClient,
        aggregate: Aggregate,
        *,
        clock: Callable[[], int] | None = None,
        archive: LedgerArchive | None = None,
    ) -> None:
        super().__init__(client, archive=archive)
        self._aggregate = aggregate
        self._clock = clock
        self._done = Done()

    async def fold_all(self, positions: Mapping[str, TenantPosition] | None = None) -> int:
        """Fold every tenant's new entries. Returns their number. Any number of processes may call it, regularly.

        `positions` are those of all tenants, as TenantActivity returns them: tenants without new entries then cost
        nothing. If the journal of one tenant cannot be read, the other tenants are still folded. The error is raised at
        the end.
        """
        if positions is None:
            return await over_tenants(await self._client.tenants(), self.fold)
        self._done.keep(positions)
        return await over_tenants(self._done.pending(positions), lambda one: self._fold_to(one, positions[one]))

    async def _fold_to(self, tenant: str, position: TenantPosition) -> int:
        counted = await self.fold(tenant)
        folded = await self._client.call("HGET", names.tenant_key(tenant), self._aggregate.position)
        if int(folded or 0) >= position.seq:  # or another process is still folding
            self._done.note(tenant, position)
        return counted

    async def fold(self, tenant: str) -> int:
        """Fold the entries that the journal has at this moment. Returns how many entries this call counted.

        Stops if another process is folding the same tenant, because that process continues.
        """
        counted, target = 0, None
        position = self._aggregate.position
        while True:
            seq, folded, at_ms = await self._client.call(
                "HMGET", names.tenant_key(tenant), "seq", position, f"{position}_at_ms"
            )
            target = int(seq or 0) if target is None else target
            after = int(folded or 0)
            if after >= target:
                return counted
            # Read after the position: if a later fold changed these totals, fold.lua rejects this call.
            totals = await self._client.call("HGETALL", self._key(tenant))
            raw = await self._raw_entries(tenant, after=after, count=FOLD_BATCH, last=target)
            if not raw:
                return counted
            args = await _fold(self._aggregate, tenant, raw, totals, int(at_ms or 0))
            args |= {"name": self._aggregate.name, "position": position, "expected": after}
            found, _ = await self._client.run("fold", key=names.tenant_key(tenant), args=args)
            if found["outcome"] == "moved":
                return counted
            counted += len(raw)

    async def page(
        self,
        tenant: str,
        label_of: Callable[[str], str | None],
        *,
        step_s: int,
        first_ms: int,
        stop_ms: int,
        offset: int,
        limit: int,
    ) -> SumsPage:
        """Return the series that `label_of` names, from the one at `offset`, with a point for each bucket of a range.

        `first_ms` and `stop_ms` are bucket boundaries. Raises UnknownTenant.
        """
        as_of_ms = await self._as_of_ms(tenant)
        totals = await self._all_totals(tenant)
        found = [(label, name, total) for name, total in totals.items() if (label := label_of(name)) is not None]
        found.sort(key=lambda row: (-row[2].committed_epsilon_nano, row[0]))
        rows = [
            SumsRow(label, total, await self._points(tenant, name, first_ms, stop_ms, step_s))
            for label, name, total in found[offset : offset + limit]
        ]
        return SumsPage(tuple(rows), as_of_ms, is_last=len(found) <= offset + limit)

    async def totals(self, tenant: str, series: Sequence[str]) -> tuple[Totals, ...]:
        """Return the totals of these series as of the last fold, zero for one that does not exist."""
        totals = await self._all_totals(tenant)
        return tuple(totals.get(name, Totals()) for name in series)

    async def _as_of_ms(self, tenant: str) -> int:
        """Return up to when every entry is counted. Raises UnknownTenant."""
        now_ms = self._clock() if self._clock else await self._client.now_ms()
        position = self._aggregate.position
        mode, seq, folded, at_ms = await self._client.call(
            "HMGET", names.tenant_key(tenant), "mode", "seq", position, f"{position}_at_ms"
        )
        if mode is None:
            raise UnknownTenant
        folded_at_ms = int(at_ms or 0)
        return max(now_ms, folded_at_ms) if int(folded or 0) >= int(seq) else folded_at_ms

    async def _all_totals(self, tenant: str) -> dict[str, Totals]:
        stored = await self._client.call("HGETALL", self._key(tenant))
        return {name.decode(): _totals(value) for name, value in stored.items()}

    async def _points(self, tenant: str, series: str, first_ms: int, stop_ms: int, step_s: int) -> tuple[Totals, ...]:
        points_key = f"{self._key(tenant)}:{step_s}:{series}"
        packed_key = f"{self._key(tenant)}:packed:{step_s}:{series}"
        first_s, stop_s = first_ms // 1000, stop_ms // 1000
        # The texts are read last, because a fold moves points into them: so none is missed, and some may be read twice.
        found = await self._client.call("ZREVRANGEBYSCORE", points_key, f"({first_s}", "-inf", "LIMIT", 0, 1)
        found += await self._client.call("ZRANGEBYSCORE", points_key, first_s, f"({stop_s}")
        packed = await self._client.call("ZREVRANGEBYSCORE", packed_key, f"({first_s}", "-inf", "LIMIT", 0, 1)
        packed += await self._client.call("ZRANGEBYSCORE", packed_key, first_s, f"({stop_s}")
        return await asyncio.to_thread(_in_buckets, found, packed, range(first_s, stop_s, step_s))

    def _key(self, tenant: str) -> str:
        return names.sums_key(tenant, self._aggregate.name)


def _in_buckets(found: Sequence[bytes], packed: Sequence[bytes], buckets: range) -> tuple[Totals, ...]:
    """The totals at the end of each bucket, from points and from texts of points."""
    known = dict(point for text in packed for point in _unpacked(text, buckets.step)) | dict(map(_point, found))
    before = max((bucket for bucket in known if bucket < buckets.start), default=None)
    current = Totals() if before is None else known[before]
    points = []
    for bucket in buckets:
        current = known.get(bucket, current)
        points.append(current)
    return tuple(points)


def _totals(value: bytes) -> Totals:
    return Totals(*map(int, value.split()))


def _point(member: bytes) -> tuple[int, Totals]:
    bucket, _, value = member.partition(b" ")
    return int(bucket), _totals(value)


def _unpacked(text: bytes, step_s: int) -> Iterator[tuple[int, Totals]]:
    """The points of a text of fold.lua."""
    first, *points = text.split(b";")
    for point in points:
        offset, totals = _point(point)
        yield int(first) + offset * step_s, totals


def _text(totals: Totals) -> str:
    return " ".join(map(str, totals))


async def _fold(
    aggregate: Aggregate, tenant: str, raw: Sequence[Any], stored: Mapping[bytes, bytes], at_ms: int
) -> dict[str, Any]:
    """Return the arguments of fold.lua: the entries added to the stored totals.

    No entry is placed before `at_ms`, the time of the last fold.
    """
    totals = {name.decode(): _totals(value) for name, value in stored.items()}
    changed: dict[str, Totals] = {}
    points: dict[tuple[int, str], dict[int, Totals]] = {}
    seq = 0
    in_second: dict[str, Totals] = {}

    def end_second() -> None:
        for name, total in in_second.items():
            for step_s in aggregate.retention_s:
                points.setdefault((step_s, name), {})[at_ms // 1000 // step_s * step_s] = total
        changed.update(in_second)
        in_second.clear()

    async for one in in_parts(raw):
        entry = wire.journal_entry(tenant, one, subjects=False)
        seq = entry.seq
        if entry.at_ms // 1000 > at_ms // 1000:
            end_second()
        at_ms = max(at_ms, entry.at_ms)
        for name, change in aggregate.changes(entry).items():
            total = in_second.get(name) or changed.get(name) or totals.get(name, Totals())
            in_second[name] = total.plus(change)
    end_second()
    return {
        "folded": seq,
        "folded_at_ms": at_ms,
        "totals": {name: _text(value) for name, value in changed.items()},
        "points": [
            [step_s, name, min(buckets), _horizon(aggregate.retention_s[step_s], at_ms), _scored(buckets)]
            for (step_s, name), buckets in points.items()
        ],
    }


def _horizon(keep_s: int | None, at_ms: int) -> int:
    """Return where the retention period begins, in seconds, or 0 if everything is retained."""
    return 0 if keep_s is None else max(0, at_ms // 1000 - keep_s)


def _scored(buckets: Mapping[int, Totals]) -> list[int | str]:
    """Return score and member alternately. Members contain the bucket, so that equal values stay distinct members."""
    return [item for bucket, totals in buckets.items() for item in (bucket, f"{bucket} {_text(totals)}")]
