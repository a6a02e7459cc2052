"""The inputs and outputs of the ledger: small frozen records, what a release debits, and both in the scripts' formats.

`Debits` makes one row for each account that a release concerns, in the format that reserve.lua reads. The functions
after it convert between records and what the scripts read and write. Absent texts are "".
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

import orjson

from core.accounting.events import (
    ACCOUNT_ADJACENCY,
    CUMULANTS,
    Adjacency,
    PrivacyEvent,
    Unit,
    moments_of,
    pure_epsilon_nano,
)
from core.accounting.filters import GAUSSIAN as GAUSSIAN_ORDER
from core.accounting.filters import Arms, Division, Sums, admits, cost_of, divisions, largest_pure_nano
from core.amounts import BASIC, EPSILON_MAX, FEMTO, GAUSSIAN, NANO, RENYI, SQUARES, Amount, ArmState, delta_of
from core.errors import InvalidInput
from core.ledger import counters
from core.master_key import MasterKey
from core.redis.names import account_id, check_label


class TenantMode(StrEnum):
    """`tenant`: all releases compose in one account for each unit. `subject`: each subject has its own accounts."""

    TENANT = "tenant"
    SUBJECT = "subject"


class TenantState(StrEnum):
    """What a tenant may do. Its journal and its accounts stay in every state.

    suspended: its keys read, and nothing is released. closing: its keys authenticate nobody, and its data is being
    removed. closed: its data was removed.
    """

    ACTIVE = "active"
    SUSPENDED = "suspended"
    CLOSING = "closing"
    CLOSED = "closed"

    @property
    def ended(self) -> bool:
        return self in (TenantState.CLOSING, TenantState.CLOSED)


@dataclass(frozen=True)
class Tenant:
    name: str
    mode: TenantMode
    created_ms: int
    state: TenantState = TenantState.ACTIVE


@dataclass(frozen=True)
class Charge:
    """`times` releases of one event, and the caller's id of the subject that they concern (None in `tenant` mode).

    They count like that many charges of one release each. The ledger's work does not grow with `times`.
    """

    event: PrivacyEvent
    subject: str | None = None
    times: int = 1

    def __post_init__(self) -> None:
        if self.times < 1:
            raise ValueError("a charge is for at least one release")


@dataclass(frozen=True)
class Plan:
    """What a plan account admits: up to `count` releases of one mechanism with fixed parameters.

    `signature` is the `plan_signature` of its event.
    """

    signature: str
    count: int

    @property
    def mechanism(self) -> str:
        return self.signature.split("/")[0]

    @property
    def epsilon_nano(self) -> int:
        """The epsilon of each release."""
        return int(self.signature.split("/")[2])


def plan_signature(event: PrivacyEvent) -> str:
    """Return the mechanism and every parameter of its price. Two releases with one signature cost the same."""
    noise = "" if event.noise_multiplier is None else repr(event.noise_multiplier)
    return f"{event.mechanism}/{event.kind}/{event.epsilon_nano}/{event.delta_femto}/{noise}"


def worst_signature(event: PrivacyEvent) -> str:
    """Return the signature of the plan that admits every release of this mechanism and epsilon, whatever its noise.

    This is the signature of kind `pure`: among all releases with this pure epsilon, that kind costs the most, so a plan
    certified for it covers the others. An event with a delta or with Gaussian noise has its own signature.
    """
    if event.noise_multiplier is not None or event.kind == "approximate" or event.delta_femto > 0:
        return plan_signature(event)
    return plan_signature(replace(event, kind="pure"))


@dataclass(frozen=True)
class Limit:
    """The terms of an account: the (epsilon, delta) that it guarantees and the rule that enforces it.

    Without a `plan` the account is a filter: parameters may be chosen adaptively, based on earlier outputs.
    `basic_delta_femto` sets the share of delta for basic composition. With None the account's first release decides.
    With a plan, epsilon is the certified epsilon of the whole plan at delta.
    """

    epsilon_nano: int
    delta_femto: int = 0
    basic_delta_femto: int | None = None
    plan: Plan | None = None


@dataclass(frozen=True)
class CurrentLimit:
    """What the operator lets an account spend now, at most its guarantee (`core.ledger.headroom`).

    `epsilon_nano` belongs to the delta of the guarantee. `vector` is the limit that releases must fit in addition to
    the account's own. `divisions` has it for each division of an account without releases.
    """

    epsilon_nano: int
    vector: counters.Vector
    divisions: tuple[counters.Vector, ...]


@dataclass(frozen=True)
class History:
    """Sums over the spent releases, for an estimate of their epsilon. `pure_epsilon_nano` is set if all share it."""

    moments: tuple[float, ...] | None
    pure_epsilon_nano: int | None


@dataclass(frozen=True)
class AccountState:
    """An account at one moment: its guarantee `limit`, and its vectors as the ledger stores them.

    `committed` and `reserved` are sums of epsilon and delta, as in basic composition. For an account with further arms
    or a plan they may exceed the limit without violating it. Open holds count in every arm. With a `current` limit the
    properties that say what is left are about that. Only answers of `LedgerReader` contain `history` and `divisions`,
    the limits from which a first release selects.
    """

    account: str
    unit: Unit
    adjacency: Adjacency
    subject_hash: str | None
    limit: Amount
    orders: tuple[str, ...]
    plan_signature: str
    limit_vector: counters.Vector
    committed_vector: counters.Vector
    held_vector: counters.Vector
    current: CurrentLimit | None = None
    divisions: tuple[counters.Vector, ...] = ()
    history: History | None = None

    @property
    def admitted_vector(self) -> counters.Vector:
        """The limit that releases must fit: the current one, or that of the guarantee. The former is never larger."""
        return self.limit_vector if self.current is None else self.current.vector

    @property
    def arms(self) -> Arms:
        """The arms of a filter account."""
        return counters.arms_of(self.orders, self.admitted_vector)

    @property
    def plan(self) -> Plan | None:
        """The plan of a plan account, None for a filter."""
        return Plan(self.plan_signature, self.limit_vector[counters.COUNT]) if self.plan_signature else None

    @property
    def total(self) -> Sums:
        """Everything that counts against the limit: committed releases and open holds."""
        return counters.sums_of(counters.plus(self.committed_vector, self.held_vector))

    @property
    def committed(self) -> Amount:
        return counters.amount_of(self.committed_vector)

    @property
    def reserved(self) -> Amount:
        return counters.amount_of(self.held_vector)

    @property
    def remaining(self) -> Amount:
        """The remaining budget: the epsilon of one more pure release, or of the rest of the plan together."""
        return self.remaining_after((0,) * len(self.limit_vector))

    def remaining_after(self, cost: Sequence[int]) -> Amount:
        """Return what would remain after a release that costs `cost`, at least zero."""
        total = counters.sums_of(counters.plus(counters.plus(self.committed_vector, self.held_vector), cost))
        plan, arms = self.plan, self.arms
        if plan is not None:
            return Amount(max(0, plan.count - total.count) * plan.epsilon_nano)
        return Amount(largest_pure_nano(arms, total), max(0, arms.delta_femto - total.delta_femto))

    def arm_states(self, requested: Sequence[int] | None = None) -> tuple[ArmState, ...]:
        """Return the arms that the account offers, with what a release of cost `requested` needs of each.

        A plan account has no arms.
        """
        if self.plan is not None:
            return ()
        limit, spent = self.admitted_vector, counters.plus(self.committed_vector, self.held_vector)
        places: list[tuple[str, float | None, int, int]] = [
            (BASIC, None, counters.EPSILON, counters.NO_EPSILON),
            (SQUARES, None, counters.SQUARE, counters.NO_SQUARE),
        ]
        for index, order in enumerate(self.orders, counters.FIXED):
            renyi = order != GAUSSIAN_ORDER
            places.append((RENYI if renyi else GAUSSIAN, float(order) if renyi else None, index, counters.NO_RHO))
        return tuple(
            ArmState(
                name=name,
                order=order,
                spent=spent[at] / NANO,
                limit=limit[at] / NANO,
                is_open=spent[unpriced] == 0
                and spent[at] <= limit[at]
                and (name != BASIC or spent[counters.DELTA] <= limit[counters.DELTA]),
                spent_delta=delta_of(spent[counters.DELTA]) if name == BASIC else 0.0,
                limit_delta=delta_of(limit[counters.DELTA]) if name == BASIC else 0.0,
                requested=None if requested is None or requested[unpriced] else requested[at] / NANO,
            )
            for name, order, at, unpriced in places
            if limit[at] != counters.NOT_OFFERED
        )

    @property
    def used_share(self) -> float:
        """The used share of the account, from 0 to 1: that of the arm with the most left, or of the plan's releases.

        Open holds count. At 1 the account admits nothing more. For display.
        """
        if self.plan is not None:
            return min(1.0, self.total.count / self.plan.count)
        shares = [1.0]
        for arm in self.arm_states():
            if arm.is_open:
                share = arm.spent / arm.limit if arm.limit else 1.0
                shares.append(max(share, arm.spent_delta / arm.limit_delta if arm.spent_delta else 0.0))
        return min(shares)

    @property
    def committed_share(self) -> float:
        """As `used_share`, without open holds. While the limit stays as it is, this share never falls."""
        return replace(self, held_vector=(0,) * len(self.held_vector)).used_share

    @property
    def within_limit(self) -> bool:
        """Whether the rule of the account's guarantee admits its total."""
        if self.plan is not None:
            return self.total.count <= self.plan.count
        return admits(counters.arms_of(self.orders, self.limit_vector), self.total)


@dataclass(frozen=True)
class AccountPage:
    """`next_cursor` is None after the last account."""

    accounts: tuple[AccountState, ...]
    next_cursor: str | None


@dataclass(frozen=True)
class Reserved:
    """An open hold. `accounts` are the debited accounts as the response of this release shows them.

    They are fixed before the work starts, because the script that commits the response stores it byte for byte:
    `committed` already includes this release, and `reserved` contains the *other* holds that were open at that time.
    In `subject` mode the subjects' accounts come first, then the tenant's quota over their sum.
    """

    release_id: str
    accounts: tuple[AccountState, ...]


@dataclass(frozen=True)
class Replay:
    """The stored bytes of an earlier release under the same idempotency key. A replay charges nothing."""

    release_id: str
    response: bytes


@dataclass(frozen=True)
class Settled:
    """A hold that has ended: `state` is `committed`, `cancelled` or `spent`."""

    release_id: str
    state: str
    at_ms: int


@dataclass(frozen=True)
class EstimateLine:
    """The cost of a release for one account. `remaining_after` is None if the account does not admit it.

    `times` is how many such releases the account admits one after the other.
    """

    account: AccountState
    cost: Amount
    remaining_after: Amount | None
    times: int

    @property
    def allowed(self) -> bool:
        return self.remaining_after is not None


@dataclass(frozen=True)
class Estimate:
    """One line for each debited account, at one moment. An estimate holds nothing."""

    lines: tuple[EstimateLine, ...]

    @property
    def allowed(self) -> bool:
        return all(line.allowed for line in self.lines)

    @property
    def times(self) -> int:
        """How many such releases are admitted one after the other, if nothing else is reserved."""
        return min(line.times for line in self.lines)


@dataclass(frozen=True)
class EntryAmount:
    """One account's part of a transition: its vector as in the ledger. For `open` and `limit` this is the limit vector.

    `divisions` is set for `open` only: the limit vectors from which the first release selects.
    """

    account: str
    unit: Unit
    subject_hash: str | None
    vector: counters.Vector
    divisions: tuple[counters.Vector, ...] = ()

    @property
    def amount(self) -> Amount:
        """The epsilon and delta of the vector."""
        return counters.amount_of(self.vector)


@dataclass(frozen=True)
class JournalEntry:
    """One transition: `open`, `limit`, `reserve`, `commit`, `cancel` or `expire`. Numbers `seq` are consecutive.

    `amounts` are the parts of the tenant's own accounts. `subjects` has those of subjects' accounts; it is empty for
    `reserve` and `cancel`, and if the reader did not ask for it. `subjects_digest` is the SHA-256 of their stored text,
    for every transition of a release that debits subjects' accounts. `key_id` is the id of the API key that caused the
    release, and `route` the route that it was sent to; None for a release without one. `purpose` and `recipient` are
    what its request states of it, or None. Only pages of the journal set `sha256`, the digest of the stored entry that
    seals are made of.
    """

    seq: int
    at_ms: int
    transition: str
    release_id: str | None
    mechanism: str | None
    reason: str | None
    amounts: tuple[EntryAmount, ...]
    subjects: tuple[EntryAmount, ...] = ()
    subjects_digest: str | None = None
    key_id: str | None = None
    route: str | None = None
    purpose: str | None = None
    recipient: str | None = None
    sha256: str | None = None

    @property
    def all_amounts(self) -> tuple[EntryAmount, ...]:
        return self.subjects + self.amounts


@dataclass(frozen=True)
class JournalPage:
    """`next_cursor` is None at the end of the journal. Any page may have fewer entries than its limit.

    `rows_read` are the charges of accounts in the batches of entries that were read before the page was full.
    """

    entries: tuple[JournalEntry, ...]
    next_cursor: int | None
    rows_read: int = 0


CHARGES_MAX = 4096
EPSILON_NANO_MAX = EPSILON_MAX * NANO
SUBJECT_LENGTH_MAX = 256
MIXED_PLAN = "mixed"
MIXED_EPSILON = 0
_REPEATED_MAX, _REPEATED_BYTES_MAX = 256, 2048  # texts of amounts: equal requests debit equal ones

Account = tuple[Unit, str]  # the subject's hash, "" for the tenant's own account
Orders = tuple[str, ...]


Events = tuple[tuple[PrivacyEvent, int], ...]  # each event with its number of releases


@lru_cache(maxsize=4096)
def _vector(events: Events, orders: Orders, headroom: counters.Vector | None = None) -> counters.Vector:
    """Return the sum of the events' costs, for an account whose counters can grow by at most `headroom`.

    If a sum of epsilon, of squares or of Renyi costs does not fit, its releases count as unpriced in that arm, which
    closes the arm. A sum is never truncated. The other arms are unaffected.
    """
    total = [0] * (counters.FIXED + len(orders))
    for event, times in events:
        cost = counters.vector_of(Sums.of(cost_of(event), orders))
        total = [have + times * more for have, more in zip(total, cost, strict=True)]
    headroom = headroom or (counters.LARGEST,) * len(total)
    if total[counters.EPSILON] > headroom[counters.EPSILON]:
        total[counters.EPSILON], total[counters.DELTA], total[counters.NO_EPSILON] = 0, 0, total[counters.COUNT]
    if total[counters.SQUARE] > headroom[counters.SQUARE]:
        total[counters.SQUARE], total[counters.NO_SQUARE] = 0, total[counters.COUNT]
    if any(rho > left for rho, left in zip(total[counters.FIXED :], headroom[counters.FIXED :], strict=True)):
        total[counters.FIXED :], total[counters.NO_RHO] = [0] * len(orders), total[counters.COUNT]
    return tuple(total)


@lru_cache(maxsize=4096)
def _plans(events: Events) -> tuple[str, str]:
    """Return the signatures of the two plans that admit the events: their own, and that of the worst noise."""
    own, worst = ({sign(event) for event, _ in events} for sign in (plan_signature, worst_signature))
    return own.pop() if len(own) == 1 else MIXED_PLAN, worst.pop() if len(worst) == 1 else MIXED_PLAN


@lru_cache(maxsize=4096)
def _loss(events: Events) -> tuple[list[float], list[float], int]:
    """Return the cumulants of the privacy loss X and of Y, and the pure epsilon that all releases share, if any."""
    total = [0.0] * (2 * CUMULANTS)
    for event, times in events:
        moments = moments_of(event)
        if moments is None:
            total = []
            break
        total = [have + times * more for have, more in zip(total, moments, strict=True)]
    epsilons = {pure_epsilon_nano(event) or MIXED_EPSILON for event, _ in events}
    pure = epsilons.pop() if len(epsilons) == 1 else MIXED_EPSILON
    return total[:CUMULANTS], total[CUMULANTS:], pure


class Debits:
    """The debits of a release: first those of the subjects, then the sums over all subjects.

    All charges compose by summation. An event is also debited in the finer units.
    Raises InvalidInput for no charge, for too many charges, for an empty or overlong subject, and for a sum or a number
    of releases that no account can hold.
    """

    def __init__(self, tenant: str, charges: Sequence[Charge], master_key: MasterKey) -> None:
        if not 0 < len(charges) <= CHARGES_MAX:
            raise InvalidInput(f"A release has 1 to {CHARGES_MAX} charges.")
        named = [charge.subject for charge in charges if charge.subject is not None]
        if not all(0 < len(subject) <= SUBJECT_LENGTH_MAX for subject in named):
            raise InvalidInput(f"A subject has 1 to {SUBJECT_LENGTH_MAX} characters.", field="subject")
        self.subjects = "none" if not named else "all" if len(named) == len(charges) else "some"
        by_subject: dict[Account, Counter[PrivacyEvent]] = defaultdict(Counter)
        totals: dict[Account, Counter[PrivacyEvent]] = defaultdict(Counter)
        for charge, repeated in Counter(charges).items():
            times = repeated * charge.times
            subject = master_key.subject_hash(tenant, charge.subject) if charge.subject is not None else ""
            for unit in charge.event.debited_units:
                totals[unit, ""][charge.event] += times
                if subject:
                    by_subject[unit, subject][charge.event] += times
        self._rows = {account: tuple(events.items()) for account, events in (by_subject | totals).items()}
        for account in totals:
            epsilon = sum(event.epsilon_nano * times for event, times in self._rows[account])
            delta = sum(event.delta_femto * times for event, times in self._rows[account])
            count = sum(times for _, times in self._rows[account])
            if epsilon > EPSILON_MAX * NANO or delta > FEMTO or count > counters.LARGEST:
                raise InvalidInput("The cost of this release is larger than any limit can be.")

    @property
    def accounts(self) -> tuple[Account, ...]:
        return tuple(self._rows)

    @property
    def units(self) -> frozenset[Unit]:
        """The units whose accounts the release debits."""
        return frozenset(unit for unit, _ in self._rows)

    def cost(self, account: Account, orders: Orders) -> counters.Vector:
        """Return what the release adds to a debited account with these orders."""
        return _vector(self._rows[account], orders)

    def plans(self, account: Account) -> tuple[str, str]:
        """Return the signatures of the plans that admit what the release debits from the account."""
        return _plans(self._rows[account])

    def args(self, orders: Mapping[Account, Orders]) -> dict[str, object]:
        """Return the arguments `accounts`, `subjects` and `losses` of reserve.lua."""
        return {
            "accounts": [[" ".join(orders[account]), *_plans(events)] for account, events in self._rows.items()],
            "subjects": self.subjects,
            "losses": [_loss(events) for events in self._rows.values()],
        }

    def amounts(
        self, orders: Mapping[Account, Orders], headroom: Sequence[Sequence[int]] | None = None
    ) -> tuple[bytes, bytes]:
        """Return the rows of the tenant's own accounts, and those of subjects' accounts (b"" for none).

        The script holds them and the journal stores them. `headroom`: how far each counter can grow.
        """
        headrooms: Sequence[Sequence[int] | None] = headroom or [None] * len(self._rows)
        rows = [
            [account[0].value, account[1], _vector(events, orders[account], None if left is None else tuple(left))]
            for (account, events), left in zip(self._rows.items(), headrooms, strict=True)
        ]
        subjects = [row for row in rows if row[1]]
        return orjson.dumps(rows[len(subjects) :]), orjson.dumps(subjects) if subjects else b""


def account_terms(limits: Mapping[Unit, Limit]) -> list[list[Any]]:
    """Return the terms of one account for each unit, in the order of the units. The terms never change.

    Raises InvalidInput if a unit has no limit or its limit is outside [0, EPSILON_MAX] x [0, 1].
    """
    rows = []
    for unit in Unit:
        limit = limits.get(unit)
        if limit is None:
            raise InvalidInput(f"The unit {unit.value} has no limit.", field="limits")
        if not (
            0 <= limit.epsilon_nano <= EPSILON_NANO_MAX
            and 0 <= (limit.basic_delta_femto or 0) <= limit.delta_femto <= FEMTO
        ):
            raise InvalidInput(f"The limit of the unit {unit.value} is out of range.", field="limits")
        adjacency = ACCOUNT_ADJACENCY[unit]
        offered = divisions(
            limit.epsilon_nano, limit.delta_femto, adjacency=adjacency, basic_delta_femto=limit.basic_delta_femto
        )
        orders = offered[Division.PURE].orders
        choice = [counters.filter_limit(offered[division]) for division in Division]
        vector = choice[0]
        if limit.plan is not None:
            if adjacency is Adjacency.METRIC:
                raise InvalidInput(
                    "An account under metric adjacency uses basic composition and cannot have a plan.", field="limits"
                )
            if not 0 < limit.plan.count <= counters.LARGEST:
                raise InvalidInput(f"The plan of the unit {unit.value} has no releases.", field="limits")
            vector = counters.plan_limit(limit.plan.count, orders)
        settled = limit.plan is not None or all(vector == other for other in choice)
        rows.append(
            [
                unit.value,
                "",
                adjacency.value,
                f"{limit.epsilon_nano} {limit.delta_femto}",
                " ".join(orders),
                limit.plan.signature if limit.plan else "",
                vector,
                [] if settled else choice,
            ]
        )
    return rows


def mechanism_label(charges: Sequence[Charge]) -> str:
    """Return the mechanisms of a release for the journal: `laplace`, `laplace+exponential`."""
    return check_label("+".join(dict.fromkeys(charge.event.mechanism for charge in charges)))


def account_state(tenant: str, row: Sequence[Any]) -> AccountState:
    """Parse a state from `state_of` in common.lua. A state from accounts.lua also has divisions and a history."""
    unit, subject, adjacency, guarantee, orders, plan, limit, committed, held, *rest = row
    current, divisions, *history = rest if len(rest) > 1 else [*(rest or [""]), ()]
    return AccountState(
        account=account_id(tenant, Unit(unit), subject or None),
        unit=Unit(unit),
        adjacency=Adjacency(adjacency),
        subject_hash=subject or None,
        limit=Amount(*map(int, guarantee.split())),
        orders=tuple(orders.split()),
        plan_signature=plan,
        limit_vector=tuple(limit),
        committed_vector=tuple(committed),
        held_vector=tuple(held),
        current=_current_limit(*current) if current else None,
        divisions=tuple(map(tuple, divisions)),
        history=_history(*history) if history else None,
    )


def _current_limit(epsilon_nano: str, vector: Sequence[int], divisions: Sequence[Sequence[int]]) -> CurrentLimit:
    return CurrentLimit(int(epsilon_nano), tuple(vector), tuple(map(tuple, divisions)))


def _history(loss_x: Sequence[float], loss_y: Sequence[float], pure_epsilon: str) -> History:
    return History(
        moments=(*loss_x, *loss_y) if loss_x and loss_y else None, pure_epsilon_nano=int(pure_epsilon or 0) or None
    )


def new_subject_state(tenant: str, terms: Sequence[Any], subject: str | None) -> AccountState:
    """Return the account that a subject's first release opens on these terms, as `new_account` in common.lua."""
    unit, _, adjacency, guarantee, orders, plan, limit, divided = terms
    nothing = (0,) * len(limit)
    return account_state(
        tenant, (unit, subject or "", adjacency, guarantee, orders, plan, limit, nothing, nothing, "", divided or ())
    )


def account_states(tenant: str, rows: Sequence[Sequence[Any]]) -> tuple[AccountState, ...]:
    return tuple(account_state(tenant, row) for row in rows)


def journal_entry(tenant: str, raw: Sequence[Any], *, subjects: bool = True) -> JournalEntry:
    """Parse one entry as XRANGE returns it: an id and its fields. `subjects` parses the rows of subjects' accounts."""
    entry_id, fields = raw
    texts = {key.decode(): value.decode() for key, value in fields.items()}
    rows = texts.get("subjects", "")
    has_rows = rows.startswith("[")
    return JournalEntry(
        seq=int(entry_id.partition(b"-")[0]),
        at_ms=int(texts["at_ms"]),
        transition=texts["transition"],
        release_id=texts["release"] or None,
        mechanism=texts["mechanism"] or None,
        reason=texts["reason"] or None,
        amounts=_entry_amounts(tenant, texts["amounts"]),
        subjects=_entry_amounts(tenant, rows) if has_rows and subjects else (),
        subjects_digest=(hashlib.sha256(rows.encode()).hexdigest() if has_rows else rows) or None,
        key_id=texts["key"] or None,
        route=texts["route"] or None,
        purpose=texts.get("purpose"),
        recipient=texts.get("recipient"),
    )


def subject_amounts(tenant: str, rows: bytes) -> tuple[EntryAmount, ...]:
    """Parse the rows of subjects' accounts in the record of a hold."""
    return _entry_amounts(tenant, rows)


def _entry_amounts(tenant: str, rows: str | bytes) -> tuple[EntryAmount, ...]:
    return _parsed_again(tenant, rows) if len(rows) <= _REPEATED_BYTES_MAX else _parsed_amounts(tenant, rows)


def _parsed_amounts(tenant: str, rows: str | bytes) -> tuple[EntryAmount, ...]:
    return tuple(
        EntryAmount(
            account=account_id(tenant, Unit(row[0]), row[1] or None),
            unit=Unit(row[0]),
            subject_hash=row[1] or None,
            vector=tuple(row[2]),
            divisions=tuple(map(tuple, row[7])) if len(row) > 7 else (),
        )
        for row in orjson.loads(rows)
    )


_parsed_again = lru_cache(_REPEATED_MAX)(_parsed_amounts)
