"""Committed and reserved amounts over time, by unit, mechanism and subject class.

Transitions do no extra work for the series. `fold_all`, called regularly, adds the journal's new entries to buckets of
five sizes. A bucket stores cumulative values as of its end, so a bucket without entries needs no point. A read costs
only the points that it returns, whatever the length of the journal. Every entry counts exactly once, even if several
processes fold (fold.lua).

The Redis time of an entry selects its bucket. If that clock steps back, entries count in the latest bucket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from core.accounting.events import Unit
from core.amounts import Amount
from core.errors import InvalidInput, UnknownTenant
from core.ledger import names, wire
from core.ledger.client import LedgerClient
from core.ledger.reader import LedgerReader
from core.ledger.records import JournalEntry

DAY_S = 86400
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
FOLD_BATCH = 256  # an entry may have a thousand rows of 100 bytes

# The effect of a transition: factor of its amount in committed, factor in held, number of releases ended.
_EFFECTS = {"reserve": (0, 1, 0), "commit": (1, -1, 1), "expire": (1, -1, 1), "cancel": (0, -1, 0)}


class SubjectClass(StrEnum):
    """`tenant`: the tenant's own account (the quota in `subject` mode). `subject`: the sum over all subjects."""

    TENANT = "tenant"
    SUBJECT = "subject"


class Totals(NamedTuple):
    """The totals of a series. `releases` are those that ended with their cost counted."""

    committed_epsilon_nano: int = 0
    committed_delta_femto: int = 0
    held_epsilon_nano: int = 0
    held_delta_femto: int = 0
    releases: int = 0


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


class LedgerSeries(LedgerReader):
    """Folds the journal into series and reads them. `clock` replaces the Redis time in tests."""

    def __init__(
        self,
        client: LedgerClient,
        *,
        points_max: int = POINTS_MAX,
        series_max: int = SERIES_MAX,
        clock: Callable[[], int] | None = None,
    ) -> None:
        super().__init__(client)
        self._points_max = points_max
        self._series_max = series_max
        self._clock = clock

    async def fold_all(self) -> int:
        """Fold every tenant's new entries. Returns their number. Any number of processes may call it, regularly.

        If the journal of one tenant cannot be read, the other tenants are still folded. The error is raised at the end.
        """
        folded, failures = 0, []
        for tenant in await self._tenant_names():
            try:
                folded += await self.fold(tenant)
            except Exception as error:
                failures.append(error)
        if failures:
            raise failures[0]
        return folded

    async def fold(self, tenant: str) -> int:
        """Fold the entries that the journal has at this moment. Returns how many entries this call counted.

        Stops if another process is folding the same tenant, because that process continues.
        """
        counted, target = 0, None
        while True:
            seq, folded, at_ms = await self._client.call(
                "HMGET", names.tenant_key(tenant), "seq", "folded", "folded_at_ms"
            )
            target = int(seq or 0) if target is None else target
            after = int(folded or 0)
            if after >= target:
                return counted
            # Read after `folded`: if a later fold changed these totals, fold.lua rejects this call.
            totals = await self._client.call("HGETALL", names.series_key(tenant))
            raw = await self._raw_entries(tenant, after=after, count=FOLD_BATCH, last=target)
            if not raw:
                return counted
            # In a thread, because a batch may take half a second and the caller's event loop serves requests.
            args = await asyncio.to_thread(_fold, tenant, raw, totals, int(at_ms or 0))
            found, _ = await self._client.run("fold", key=names.tenant_key(tenant), args={"expected": after, **args})
            if found["outcome"] == "moved":
                return counted
            counted += len(raw)

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
            series=tuple([Series(*key, await self._points(tenant, key, first, stop, step_s)) for key in found]),
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
                points = await self._points(tenant, key, first_ms, stop_ms, step_s)
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
        keys = [name.decode().split(":") for name in await self._client.call("HKEYS", names.series_key(tenant))]
        return sorted((Unit(unit), mechanism, SubjectClass(kind)) for unit, mechanism, kind in keys)

    async def _points(
        self, tenant: str, key: tuple[Unit, str, SubjectClass], first_ms: int, stop_ms: int, step_s: int
    ) -> tuple[Totals, ...]:
        points_key = names.series_points_key(tenant, step_s, ":".join(key))
        first_s, stop_s = first_ms // 1000, stop_ms // 1000
        before = await self._client.call("ZREVRANGEBYSCORE", points_key, f"({first_s}", "-inf", "LIMIT", 0, 1)
        inside = await self._client.call("ZRANGEBYSCORE", points_key, first_s, f"({stop_s}")
        changes = dict(_point(member) for member in inside)
        current = _point(before[0])[1] if before else Totals()
        points = []
        for bucket in range(first_s, stop_s, step_s):
            current = changes.get(bucket, current)
            points.append(current)
        return tuple(points)


def amounts(totals: Totals) -> tuple[Amount, Amount]:
    """Return the committed and the reserved amount."""
    return Amount(*totals[0:2]), Amount(*totals[2:4])


def _matches(key: tuple[Unit, str, SubjectClass], query: SeriesQuery) -> bool:
    wanted = (query.unit, query.mechanism, query.subject_class)
    return all(want is None or want == have for want, have in zip(wanted, key, strict=True))


def _totals(value: bytes) -> Totals:
    return Totals(*map(int, value.split()))


def _point(member: bytes) -> tuple[int, Totals]:
    bucket, _, value = member.partition(b" ")
    return int(bucket), _totals(value)


def _text(totals: Totals) -> str:
    return " ".join(map(str, totals))


def _fold(tenant: str, raw: Sequence[Any], stored: Mapping[bytes, bytes], at_ms: int) -> dict[str, Any]:
    """Return the arguments of fold.lua: the entries added to the stored totals.

    No entry is placed before `at_ms`, the time of the last fold.
    """
    totals = {name.decode(): _totals(value) for name, value in stored.items()}
    changed: dict[str, Totals] = {}
    points: dict[tuple[int, str], dict[int, Totals]] = {}
    seq = 0
    for entry in (wire.journal_entry(tenant, one, subjects=False) for one in raw):
        seq = entry.seq
        at_ms = max(at_ms, entry.at_ms)
        for name, change in _changes(entry).items():
            before = changed.get(name) or totals.get(name, Totals())
            changed[name] = Totals(*map(sum, zip(before, change, strict=True)))
            for step_s in RETENTION_S:
                bucket = at_ms // 1000 // step_s * step_s
                points.setdefault((step_s, name), {})[bucket] = changed[name]
    return {
        "folded": seq,
        "folded_at_ms": at_ms,
        "totals": {name: _text(value) for name, value in changed.items()},
        "points": [
            [step_s, name, min(buckets), _horizon(step_s, at_ms), _scored(buckets)]
            for (step_s, name), buckets in points.items()
        ],
    }


def _changes(entry: JournalEntry) -> dict[str, Totals]:
    """Return what an entry adds to each series. An `open` entry adds nothing.

    In a release that debits subjects' accounts, the tenant's own rows are the sums over those of all subjects.
    """
    if entry.transition not in _EFFECTS:
        return {}
    committed, held, releases = _EFFECTS[entry.transition]
    sums: dict[tuple[Unit, bool], tuple[int, int]] = {}
    for line in entry.amounts:  # of an earlier version up to a thousand, one for each subject and unit
        for own in (True, False) if entry.subjects_digest else (line.subject_hash is None,):
            epsilon, delta = sums.get((line.unit, own), (0, 0))
            amount = line.amount
            sums[line.unit, own] = (epsilon + amount.epsilon_nano, delta + amount.delta_femto)
    return {
        f"{unit}:{entry.mechanism}:{SubjectClass.TENANT if own else SubjectClass.SUBJECT}": Totals(
            committed * epsilon, committed * delta, held * epsilon, held * delta, releases
        )
        for (unit, own), (epsilon, delta) in sums.items()
    }


def _horizon(step_s: int, at_ms: int) -> int:
    """Return where the retention period begins, in seconds, or 0 if everything is retained."""
    keep_s = RETENTION_S[step_s]
    return 0 if keep_s is None else max(0, at_ms // 1000 - keep_s)


def _scored(buckets: Mapping[int, Totals]) -> list[int | str]:
    """Return score and member alternately. Members contain the bucket, so that equal values stay distinct members."""
    return [item for bucket, totals in buckets.items() for item in (bucket, f"{bucket} {_text(totals)}")]
