"""Amounts over time: by unit, mechanism and subject class, and by API key and route.

`SERIES` has committed and reserved amounts. `SPENDING` has what each API key and each route has spent, and what was
spent without an output. Its sums are of the tenant's own accounts, which in `subject` mode are the sums over all
subjects. `core.reports.journal_fold` explains how the journal becomes series, and what they cost.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from core.accounting.events import Unit
from core.amounts import Amount
from core.errors import InvalidInput, UnknownTenant
from core.ledger.archive.store import LedgerArchive
from core.ledger.records import JournalEntry
from core.redis import names
from core.redis.client import LedgerClient
from core.reports.journal_fold import DAY_S, Aggregate, JournalFold, Totals

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
