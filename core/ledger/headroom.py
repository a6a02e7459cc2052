"""How many more releases of one cost an account admits, and the current limit that the operator sets for it.

`headroom` computes exactly what reserve.lua decides about one release after the other. Guarantee: if nothing else is
reserved, that many equal releases are admitted one after the other, and the next one is refused. Sums never decrease,
so an arm that admits n further releases admits fewer of them as well, and the number of the account is the largest
number of any arm.

The current limit of an account is what the operator lets it spend now, at most the epsilon of its guarantee. Guarantee:
releases must fit both the limit that the account was opened with and the current one. The first never changes, so the
account stays (epsilon, delta)-DP for the epsilon of its opening however often the operator sets the current limit, also
with answers of the account in sight. No smaller epsilon is guaranteed once a current limit was raised; with one that
was set before the first release and never raised, the releases are (current epsilon, delta)-DP, because its arms are
those of a filter with the account's orders and shares of delta.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from core.accounting.events import ACCOUNT_ADJACENCY, Unit
from core.accounting.filters import GAUSSIAN as GAUSSIAN_ORDER
from core.accounting.filters import Division, filter_arms
from core.amounts import BASIC, GAUSSIAN, RENYI, SQUARES
from core.errors import InvalidInput
from core.ledger import counters
from core.ledger.records import AccountState, CurrentLimit, Debits, EntryAmount, JournalEntry

PLAN = "plan"
PLAN_MISMATCH = "plan-mismatch"


@dataclass(frozen=True)
class DebitedAccounts:
    """An account, and every account that a release on it may debit, by unit and of the same moment.

    `subject` is None for the tenant's own account. `new_subject` are the accounts that a first release opens for a
    subject; None in `tenant` mode.
    """

    account: AccountState
    own: Mapping[Unit, AccountState]
    subject: Mapping[Unit, AccountState] | None
    new_subject: Mapping[Unit, AccountState] | None


@dataclass(frozen=True)
class Fit:
    """How many more equal releases one account admits.

    `arm` names the rule that admits the last of them: an arm of a filter, with its `order` if it is a Renyi arm, or
    `plan`. It is `plan-mismatch` for a release that the account's plan does not contain, and None if a filter admits no
    further release.
    """

    account: str
    releases: int
    arm: str | None
    order: float | None = None


@dataclass(frozen=True)
class Headroom:
    """How many more equal releases all debited accounts admit together. `fits` has one item for each account."""

    fits: tuple[Fit, ...]

    @property
    def binding(self) -> Fit:
        """The account that refuses first."""
        return min(self.fits, key=lambda fit: fit.releases)


@dataclass(frozen=True)
class AccountHeadroom:
    """The headroom of one release, and the units that it debits.

    `new_subject` is the headroom in the accounts of a subject without releases, beside the tenant's quota. It is set
    for the tenant's own accounts in `subject` mode.
    """

    units: frozenset[Unit]
    headroom: Headroom
    new_subject: Headroom | None


@dataclass(frozen=True)
class UsedRelease:
    """A kind of release that was really made: `releases` of it, the latest at `last_ms`, and how many more fit.

    `cost` is that of one release in the account that was asked for.
    """

    mechanism: str
    cost: counters.Vector
    releases: int
    last_ms: int
    headroom: Headroom


_Kind = tuple[str, tuple[tuple[str, counters.Vector], ...]]  # mechanism, and the cost in each account


def used_releases(found: DebitedAccounts, entries: Iterable[JournalEntry]) -> list[UsedRelease]:
    """Group commits of an account, the newest first, by what one release cost. The most frequent kind is first.

    The headroom of a kind is exact: it repeats the amounts that the ledger has debited. An entry whose releases had
    several costs is left out.
    """
    states = {one.account: one for one in (*found.own.values(), *(found.subject or {}).values())}
    counts: Counter[_Kind] = Counter()
    last_ms: dict[_Kind, int] = {}
    for entry in entries:
        lines = [line for line in entry.all_amounts if line.account in states]
        costs = [(line.account, cost) for line in lines if (cost := _each(line)) is not None]
        if entry.mechanism is None or len(costs) < len(lines):
            continue
        kind = (entry.mechanism, tuple(costs))
        counts[kind] += max(line.vector[counters.COUNT] for line in lines if line.account == found.account.account)
        last_ms.setdefault(kind, entry.at_ms)
    return [
        UsedRelease(
            mechanism,
            dict(costs)[found.account.account],
            releases,
            last_ms[mechanism, costs],
            # a plan has admitted such a release before
            Headroom(tuple(fit(states[name], cost, [states[name].plan_signature]) for name, cost in costs)),
        )
        for (mechanism, costs), releases in counts.most_common()
    ]


def _each(line: EntryAmount) -> counters.Vector | None:
    """Return the cost of one of the releases of a line; None if they differ."""
    count = line.vector[counters.COUNT]
    if not count or any(value % count for value in line.vector):
        return None
    return tuple(value // count for value in line.vector)


def headroom(debits: Debits, groups: Sequence[Mapping[Unit, AccountState]]) -> Headroom:
    """Return the headroom of a release without a subject.

    Each of `groups` contains every unit's account of one owner, all at one moment: those of the release's subject, if
    it has one, and those of the tenant. The release debits the same units in each group.
    """
    found = []
    for states in groups:
        for account in debits.accounts:
            state = states[account[0]]
            found.append(fit(state, debits.cost(account, state.orders), debits.plans(account)))
    return Headroom(tuple(found))


def fit(state: AccountState, cost: counters.Vector, plans: Sequence[str]) -> Fit:
    """Return how many releases of `cost` the account admits. `plans` are the signatures of plans that contain them."""
    spent = counters.plus(state.committed_vector, state.held_vector)
    most = _countable(spent, cost)
    if state.plan_signature:
        if state.plan_signature not in plans:
            return Fit(state.account, 0, PLAN_MISMATCH)
        return Fit(state.account, min(most, _times(state.limit_vector, spent, cost, counters.COUNT)), PLAN)
    found = min(
        (max(_arms(state.orders, limit, spent, cost), key=lambda arm: arm[0]) for limit in _limits(state, spent, cost)),
        key=lambda arm: arm[0],
    )
    releases = min(most, found[0])
    return Fit(state.account, releases, *(found[1:] if releases else (None, None)))


def _limits(state: AccountState, spent: counters.Vector, cost: counters.Vector) -> list[counters.Vector]:
    """Return the limits that apply, that of the guarantee and the current one.

    The first release of an account selects them, as `chosen_division` in reserve.lua.
    """
    current = state.current
    if not state.divisions or spent[counters.COUNT]:
        return [state.limit_vector] if current is None else [current.vector, state.limit_vector]
    division = _division(state.divisions if current is None else current.divisions, cost)
    return [state.divisions[division]] if current is None else [current.divisions[division], state.divisions[division]]


def _division(divisions: Sequence[counters.Vector], cost: counters.Vector) -> int:
    pure, gaussian, basic = range(3)
    chosen = basic if cost[counters.NO_RHO] else gaussian if cost[counters.NO_SQUARE] else pure
    if not counters.admits_vector(divisions[chosen], cost) and counters.admits_vector(divisions[basic], cost):
        return basic
    return chosen


def _arms(
    orders: Sequence[str], limit: counters.Vector, spent: counters.Vector, cost: counters.Vector
) -> list[tuple[int, str | None, float | None]]:
    """Return for each arm how many releases it admits, its name and its order."""

    def within(unpriced: int, *places: int) -> int:
        if spent[unpriced] or cost[unpriced] or any(limit[at] < spent[at] for at in places):
            return 0
        return min(_times(limit, spent, cost, at) for at in places)

    # A Renyi sum beyond the counters closes all Renyi arms (`core.ledger.records`), whatever their own limits are.
    largest = (counters.LARGEST,) * len(spent)
    countable = min((_times(largest, spent, cost, at) for at in range(counters.FIXED, len(spent))), default=0)
    found: list[tuple[int, str | None, float | None]] = [
        (within(counters.NO_EPSILON, counters.EPSILON, counters.DELTA), BASIC, None),
        (within(counters.NO_SQUARE, counters.SQUARE), SQUARES, None),
    ]
    for at, order in enumerate(orders, counters.FIXED):
        releases = min(countable, within(counters.NO_RHO, at))
        found.append((releases, GAUSSIAN, None) if order == GAUSSIAN_ORDER else (releases, RENYI, float(order)))
    return found


def _countable(spent: counters.Vector, cost: counters.Vector) -> int:
    """Return how many releases the counters hold that no account can do without: the number, and the sum of delta.

    Delta is no longer summed once a sum of epsilon does not fit its counter.
    """
    largest = (counters.LARGEST,) * len(spent)
    releases = _times(largest, spent, cost, counters.COUNT)
    delta = _times(largest, spent, cost, counters.DELTA)
    return min(releases, delta) if delta < _times(largest, spent, cost, counters.EPSILON) else releases


def _times(limit: counters.Vector, spent: counters.Vector, cost: counters.Vector, at: int) -> int:
    """Return how often `cost` fits at one position. A position that costs nothing does not limit the number."""
    return max(0, limit[at] - spent[at]) // cost[at] if cost[at] else counters.LARGEST


def mean_cost(state: AccountState) -> counters.Vector | None:
    """Return the mean cost of the account's releases so far, rounded up; None before the first one."""
    spent = counters.plus(state.committed_vector, state.held_vector)
    count = spent[counters.COUNT]
    return tuple(-(-each // count) for each in spent) if count else None


def with_current_limit(state: AccountState, epsilon_nano: int, lowered: Sequence[counters.Vector]) -> AccountState:
    """Return the account as it would be with the current limit `lowered` (`lowered_limits`)."""
    if not lowered:
        return replace(state, current=None)
    own = state.divisions.index(state.limit_vector) if state.limit_vector in state.divisions else 0
    return replace(state, current=CurrentLimit(epsilon_nano, lowered[own], tuple(lowered)))


MEMBER = "epsilon"


def lowered_limits(state: AccountState, epsilon_nano: int) -> list[counters.Vector]:
    """Return the current limit for each division of the account; none for the epsilon of its guarantee.

    Takes milliseconds and may load scipy. Raises InvalidInput for an account of a subject or with a plan, and for an
    epsilon that is not between 0 and that of the guarantee.
    """
    if state.subject_hash is not None:
        raise InvalidInput("Only the accounts of the tenant itself have a current limit.", field="account")
    if state.plan is not None:
        raise InvalidInput("An account with a plan has no current limit.", field=MEMBER)
    if not 0 <= epsilon_nano <= state.limit.epsilon_nano:
        raise InvalidInput("A current limit is at most the epsilon that the account was opened with.", field=MEMBER)
    if epsilon_nano == state.limit.epsilon_nano:
        return []
    if not state.divisions:
        return [_lowered(state, state.limit_vector, Division.PURE, epsilon_nano)]
    return [
        _lowered(state, limit, division, epsilon_nano)
        for limit, division in zip(state.divisions, Division, strict=True)
    ]


def _lowered(state: AccountState, limit: Sequence[int], division: Division, epsilon_nano: int) -> counters.Vector:
    """The limit of a filter for a smaller epsilon, with the orders and the shares of delta of `limit`."""
    arms = filter_arms(
        epsilon_nano,
        state.limit.delta_femto,
        adjacency=ACCOUNT_ADJACENCY[state.unit],
        basic_delta_femto=limit[counters.DELTA],
        division=division,
        orders_epsilon_nano=state.limit.epsilon_nano,
    )
    if arms.orders != state.orders:
        raise InvalidInput("This account has other orders and cannot have a current limit.", field=MEMBER)
    return tuple(min(pair) for pair in zip(counters.filter_limit(arms), limit, strict=True))
