"""Amounts over time: by unit, mechanism and subject class, and by API key and route.

`SERIES` has committed and reserved amounts. `SPENDING` has what each API key and each route has spent, and what was
spent without an output. Its sums are of the tenant's own accounts, which in `subject` mode are the sums over all
subjects.

Transitions do no extra work for these sums. `fold_all`, called regularly, adds the journal's new entries to buckets of
several sizes. A bucket stores cumulative values as of its end, so a bucket without entries needs no point. A read costs
only the points that it returns, whatever the length of the journal. fold.lua packs older points into texts. Every entry
counts exactly once, even if several processes fold (fold.lua).

The Redis time of an entry selects its bucket. If that clock steps back, entries count in the latest bucket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from core.accounting.events import Unit
from core.amounts import Amount
from core.errors import InvalidInput, UnknownTenant
from core.ledger.archive.store import LedgerArchive
from core.ledger.reader import LedgerReader
from core.ledger.records import JournalEntry, journal_entry
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
        entry = journal_entry(tenant, one, subjects=False)
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


# Size of a bucket in seconds, and for how many seconds its points are stored (None: forever).
RETENTION_S: Mapping[int, int | None] = {
    60: 2 * DAY_S,
    600: 14 * DAY_S,
    3600: 90 * DAY_S,
    21600: 730 * DAY_S,
    DAY_S: None,
}
RANGE_DEFAULT_MS = DAY_S * 1000
POINTS_MAX = 1500
SERIES_MAX = 32

# The effect of a transition: factor of its amount in committed, factor in held, number of releases ended.
_EFFECTS = {"reserve": (0, 1, 0), "commit": (1, -1, 1), "expire": (1, -1, 1), "cancel": (0, -1, 0)}


class SubjectClass(StrEnum):
    """`tenant`: the tenant's own account (the quota in `subject` mode). `subject`: the sum over all subjects."""

    TENANT = "tenant"
    SUBJECT = "subject"


@dataclass(frozen=True)
class SeriesQuery:
    """Times are milliseconds since the epoch, and `to_ms` is exclusive. None selects the default, or everything."""

    from_ms: int | None = None
    to_ms: int | None = None
    step_s: int | None = None
    unit: Unit | None = None
    mechanism: str | None = None
    subject_class: SubjectClass | None = None


@dataclass(frozen=True)
class Series:
    """`points[i]` is the total at the end of the bucket that starts at `SeriesPage.from_ms + i * step_s * 1000`."""

    unit: Unit
    mechanism: str
    subject_class: SubjectClass
    points: tuple[Totals, ...]


@dataclass(frozen=True)
class SeriesPage:
    """`from_ms` and `to_ms` are bucket boundaries. Every entry up to `as_of_ms` is counted; later ones may be."""

    from_ms: int
    to_ms: int
    step_s: int
    as_of_ms: int
    series: tuple[Series, ...]


class LedgerSeries(JournalFold):
    """Folds the journal into series and reads them. `clock` replaces the Redis time in tests."""

    def __init__(
        self,
        client: LedgerClient,
        *,
        points_max: int = POINTS_MAX,
        series_max: int = SERIES_MAX,
        clock: Callable[[], int] | None = None,
        archive: LedgerArchive | None = None,
    ) -> None:
        super().__init__(client, SERIES, clock=clock, archive=archive)
        self._points_max = points_max
        self._series_max = series_max

    async def read(self, tenant: str, query: SeriesQuery) -> SeriesPage:
        """Return the matching series, with one point for each step, from `from_ms` to `to_ms`.

        `to_ms` defaults to now and is at most now. `from_ms` defaults to a day before `to_ms`. The default step is the
        finest one whose points are still stored and fit the limit of points. Raises UnknownTenant. Raises InvalidInput
        for an empty range, a step that does not exist or is no longer stored, and more points or series than the
        limits.
        """
        now_ms = self._clock() if self._clock else await self._client.now_ms()
        mode, seq, folded, at_ms = await self._client.call(
            "HMGET", names.tenant_key(tenant), "mode", "seq", "folded", "folded_at_ms"
        )
        if mode is None:
            raise UnknownTenant
        folded_at_ms = int(at_ms or 0)
        latest_ms = max(now_ms, folded_at_ms)
        first, stop, step_s = self._range(query, latest_ms)
        found = [key for key in await self._index(tenant) if _matches(key, query)]
        if len(found) > self._series_max:
            raise InvalidInput(
                f"{len(found)} series match and a response has at most {self._series_max}. "
                "Filter by unit, mechanism or class.",
                field="mechanism",
            )
        return SeriesPage(
            from_ms=first,
            to_ms=stop,
            step_s=step_s,
            as_of_ms=latest_ms if int(folded or 0) >= int(seq) else folded_at_ms,
            series=tuple(
                [Series(*key, await self._points(tenant, ":".join(key), first, stop, step_s)) for key in found]
            ),
        )

    async def spent(self, tenant: str, unit: Unit, *, step_s: int, first_ms: int, stop_ms: int) -> tuple[Totals, ...]:
        """Return the totals of one of the tenant's own accounts at the end of each bucket, over all mechanisms.

        `first_ms` and `stop_ms` are bucket boundaries. Points that are no longer stored have the values of the first
        later point. Raises UnknownTenant.
        """
        await self.tenant(tenant)
        sums = [Totals()] * ((stop_ms - first_ms) // (step_s * 1000))
        for key in await self._index(tenant):
            if _matches(key, SeriesQuery(unit=unit, subject_class=SubjectClass.TENANT)):
                points = await self._points(tenant, ":".join(key), first_ms, stop_ms, step_s)
                sums = [
                    Totals(*map(sum, zip(one, other, strict=True))) for one, other in zip(sums, points, strict=True)
                ]
        return tuple(sums)

    def _range(self, query: SeriesQuery, latest_ms: int) -> tuple[int, int, int]:
        """Return the first bucket's start, the last one's end, and the step."""
        end = latest_ms + 1 if query.to_ms is None else min(query.to_ms, latest_ms + 1)
        start = max(0, end - RANGE_DEFAULT_MS) if query.from_ms is None else query.from_ms
        if start >= end:
            raise InvalidInput("`from` must be before `to` and not in the future.", field="from")

        def edges(step_s: int) -> tuple[int, int]:
            return start // (step_s * 1000), -(-end // (step_s * 1000))

        def kept(step_s: int) -> bool:
            keep_s = RETENTION_S[step_s]
            return keep_s is None or start >= latest_ms - keep_s * 1000

        def count(step_s: int) -> int:
            first, stop = edges(step_s)
            return stop - first

        step_s = query.step_s
        if step_s is None:
            fitting = (step for step in RETENTION_S if kept(step) and count(step) <= self._points_max)
            step_s = next(fitting, DAY_S)
        if step_s not in RETENTION_S:
            raise InvalidInput(f"A step is one of {', '.join(map(str, RETENTION_S))} seconds.", field="step")
        if not kept(step_s):
            days = (RETENTION_S[step_s] or 0) // DAY_S
            raise InvalidInput(f"Points of {step_s} seconds are kept for {days} days.", field="step")
        if count(step_s) > self._points_max:
            raise InvalidInput(
                f"This range has {count(step_s)} points of {step_s} seconds, and a series has at most "
                f"{self._points_max}. Use a larger step or a shorter range.",
                field="step",
            )
        first, stop = edges(step_s)
        return first * step_s * 1000, stop * step_s * 1000, step_s

    async def _index(self, tenant: str) -> list[tuple[Unit, str, SubjectClass]]:
        keys = [name.decode().split(":") for name in await self._client.call("HKEYS", self._key(tenant))]
        return sorted((Unit(unit), mechanism, SubjectClass(kind)) for unit, mechanism, kind in keys)


def amounts(totals: Totals) -> tuple[Amount, Amount]:
    """Return the committed and the reserved amount."""
    return Amount(*totals[0:2]), Amount(*totals[2:4])


def _matches(key: tuple[Unit, str, SubjectClass], query: SeriesQuery) -> bool:
    wanted = (query.unit, query.mechanism, query.subject_class)
    return all(want is None or want == have for want, have in zip(wanted, key, strict=True))


def _changes(entry: JournalEntry) -> dict[str, Totals]:
    """Return what an entry adds to each series. An `open` entry adds nothing.

    In a release that debits subjects' accounts, the tenant's own rows are the sums over those of all subjects.
    """
    if entry.transition not in _EFFECTS:
        return {}
    committed, held, releases = _EFFECTS[entry.transition]
    sums: dict[tuple[Unit, bool], tuple[int, int]] = {}
    for line in entry.amounts:
        for own in (True, False) if entry.subjects_digest else (True,):
            epsilon, delta = sums.get((line.unit, own), (0, 0))
            amount = line.amount
            sums[line.unit, own] = (epsilon + amount.epsilon_nano, delta + amount.delta_femto)
    return {
        f"{unit}:{entry.mechanism}:{SubjectClass.TENANT if own else SubjectClass.SUBJECT}": Totals(
            committed * epsilon, committed * delta, held * epsilon, held * delta, releases
        )
        for (unit, own), (epsilon, delta) in sums.items()
    }


SERIES = Aggregate("series", names.SERIES_POSITION, RETENTION_S, _changes)


HOUR_S = 3600
UNKNOWN = "-"  # of a release without a key or a route


class Dimension(StrEnum):
    """What spending is divided by. `outcome` has one value, LOST."""

    KEY = "key"
    ROUTE = "route"
    OUTCOME = "outcome"


LOST = "lost"  # spent without an output


def series_name(unit: Unit, dimension: Dimension, value: str) -> str:
    """Return the name of a series of SPENDING."""
    return f"{unit.value}:{dimension.value}:{value}"


def _spent(entry: JournalEntry) -> dict[str, Totals]:
    if entry.transition not in ("commit", "expire"):
        return {}
    values = {Dimension.KEY: entry.key_id or UNKNOWN, Dimension.ROUTE: entry.route or UNKNOWN}
    if entry.transition == "expire":
        values[Dimension.OUTCOME] = LOST
    return {
        series_name(line.unit, dimension, value): Totals(line.amount.epsilon_nano, line.amount.delta_femto, 0, 0, 1)
        for line in entry.amounts
        for dimension, value in values.items()
    }


SPENDING = Aggregate("spending", names.SPENDING_POSITION, {HOUR_S: 14 * DAY_S, DAY_S: None}, _spent)


class SpendingTotals(JournalFold):
    """Folds and reads the spending of keys and routes."""

    def __init__(
        self, client: LedgerClient, *, clock: Callable[[], int] | None = None, archive: LedgerArchive | None = None
    ) -> None:
        super().__init__(client, SPENDING, clock=clock, archive=archive)

    async def lost(self, tenant: str) -> dict[Unit, Totals]:
        """Return what was spent without an output, in each unit."""
        found = await self.totals(tenant, [series_name(unit, Dimension.OUTCOME, LOST) for unit in Unit])
        return dict(zip(Unit, found, strict=True))
