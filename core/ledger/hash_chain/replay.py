"""Recomputes a tenant's counters from its journal. This module does no I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Self

from core.ledger.counters import COUNT, Vector, plus
from core.ledger.records import AccountState, EntryAmount, JournalEntry


@dataclass(frozen=True)
class Difference:
    """A vector that differs from the journal. `account` is an account id, `counter` limit, committed or held."""

    account: str
    counter: str
    journal: Vector
    found: Vector


@dataclass(frozen=True)
class TenantAudit:
    """`gaps` are missing journal numbers. `faults` are fixed sentences about entries that are inconsistent."""

    tenant: str
    entries: int
    accounts: int
    differences: tuple[Difference, ...]
    gaps: tuple[int, ...]
    faults: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not (self.differences or self.gaps or self.faults)


Key = tuple[str, str]  # unit, subject hash or ""
# Amounts of a hold, digest of those of subjects' accounts, key, purpose, recipient.
_Terms = tuple[tuple[EntryAmount, ...], str | None, str | None, str | None, str | None]
LISTED_MAX = 1000


def key_of(amount: EntryAmount) -> Key:
    """Return the account that an amount belongs to."""
    return amount.unit.value, amount.subject_hash or ""


@dataclass
class JournalReplay:
    """Applies entries in order. `compare` compares the resulting sums with the counters of accounts.

    A damaged journal is reported and never repaired: `gaps` lists up to 1,000 missing numbers, and `faults` up to 1,000
    entries that contradict the previous ones.

    With `own_accounts_only` the replay ignores subjects' accounts, and accepts the end of a hold that was opened before
    the first entry.
    """

    tenant: str
    entries: int = 0
    last_seq: int = 0
    own_accounts_only: bool = False
    gaps: list[int] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    _compared_from: int | None = None
    _seen: set[Key] = field(default_factory=set)
    _opened_at: dict[Key, int] = field(default_factory=dict)
    _counters: dict[Key, dict[str, Vector]] = field(default_factory=dict)
    _open: dict[str, _Terms] = field(default_factory=dict)
    _names: dict[Key, str] = field(default_factory=dict)
    _divisions: dict[Key, tuple[Vector, ...]] = field(default_factory=dict)

    @classmethod
    def since(cls, tenant: str, accounts: Iterable[AccountState], *, seq: int) -> Self:
        """Start after the entry `seq`, with the tenant's own accounts as they were after that entry."""
        replay = cls(tenant, last_seq=seq, own_accounts_only=True)
        for state in accounts:
            key = (state.unit.value, state.subject_hash or "")
            replay._counters[key] = _counters_of(state)
            replay._names[key] = state.account
            replay._divisions[key] = state.divisions
        return replay

    def skip(self, seq: int, why: str) -> None:
        """Skip an entry that cannot be applied. `why` becomes a fault."""
        self._miss(range(self.last_seq + 1, seq))
        self.last_seq = max(self.last_seq, seq)
        self.entries += 1
        if len(self.faults) < LISTED_MAX:
            self.faults.append(f"entry {seq} {why}")

    def apply(self, entry: JournalEntry) -> None:
        """Apply the next entry."""
        if entry.seq <= self.last_seq:
            self._fault(entry, "appears a second time")
        self._miss(range(self.last_seq + 1, entry.seq))
        self.last_seq = entry.seq
        self.entries += 1
        if self.own_accounts_only:
            entry = replace(entry, subjects=())
        release = entry.release_id or ""
        terms = (entry.amounts, entry.subjects_digest, entry.key_id, entry.purpose, entry.recipient)
        if entry.transition == "open":
            for opened in entry.all_amounts:
                if key_of(opened) in self._counters:
                    self._fault(entry, "opens an account a second time")
                    continue
                self._opened_at[key_of(opened)] = entry.seq
                nothing = (0,) * len(opened.vector)
                self._counters[key_of(opened)] = {"limit": opened.vector, "committed": nothing, "held": nothing}
                self._names[key_of(opened)] = opened.account
                self._divisions[key_of(opened)] = opened.divisions
        elif entry.transition == "limit":
            for changed in entry.all_amounts:
                self._limit(entry, changed)
        elif entry.transition == "reserve":
            if release in self._open:
                self._fault(entry, "reserves a release a second time")
            self._open[release] = terms
            for held in entry.amounts:
                self._add(entry, held, "held", 1)
        elif entry.transition in ("commit", "cancel", "expire"):
            unknown_before = terms if self.own_accounts_only else None
            if self._open.pop(release, unknown_before) != terms:
                self._fault(entry, "ends a hold that is not open with these amounts, this key and these words")
            for spent in entry.subjects:
                self._add(entry, spent, "committed", 1)
            for ended in entry.amounts:
                self._add(entry, ended, "held", -1)
                if entry.transition != "cancel":
                    self._add(entry, ended, "committed", 1)
        else:
            self._fault(entry, "has an unknown type")

    @property
    def open_digests(self) -> dict[str, str]:
        """The open releases that hold amounts of subjects' accounts, with the digests of those amounts."""
        return {release: digest for release, (_, digest, *_) in self._open.items() if digest}

    @property
    def counters(self) -> Mapping[Key, Mapping[str, Vector]]:
        """The limit, committed and held amounts of each account after the last applied entry."""
        return self._counters

    def compare(
        self, accounts: Iterable[AccountState], held_by_subjects: Mapping[Key, Vector] | None = MappingProxyType({})
    ) -> None:
        """Compare accounts with the counters after the last applied entry.

        `held_by_subjects` are the sums over the releases in `open_digests`; None if they are unknown. The amounts held
        of subjects' accounts are not compared then.
        """
        if self._compared_from is None:
            self._compared_from = self.last_seq
        for state in accounts:
            self._seen.add((state.unit.value, state.subject_hash or ""))
            self.differences += self.differences_of(state, held_by_subjects)[
                : max(0, LISTED_MAX - len(self.differences))
            ]
            if not state.within_limit:
                self.faults.append(f"{state.account} exceeds its limit")

    def differences_of(
        self, state: AccountState, held_by_subjects: Mapping[Key, Vector] | None = MappingProxyType({})
    ) -> list[Difference]:
        """Return the counters of one account that are not the sums of the entries applied so far."""
        key = (state.unit.value, state.subject_hash or "")
        found, expected = _counters_of(state), dict(self._counters.get(key, {}))
        held = (held_by_subjects or {}).get(key)
        if not expected and held is not None:  # an account that exists for its open holds alone
            expected = {"limit": state.limit_vector, "committed": (0,) * len(held), "held": (0,) * len(held)}
        if held is not None and len(held) == len(expected["held"]):
            expected["held"] = plus(expected["held"], held)
        if held_by_subjects is None and state.subject_hash is not None:
            del found["held"]
            if not expected and not any(state.committed_vector):
                return []
        return [
            Difference(state.account, counter, expected.get(counter, ()), vector)
            for counter, vector in found.items()
            if expected.get(counter) != vector
        ]

    def report(self, *, last_seq: int) -> TenantAudit:
        """Return the findings. Compare every account first, except those opened since the first comparison.

        Counts the entries up to `last_seq` that were not applied as gaps.
        """
        self._miss(range(self.last_seq + 1, last_seq + 1))
        for key in self._counters.keys() - self._seen:
            if self._opened_at.get(key, 0) <= (self._compared_from or 0):
                self.faults.append(f"{self._names[key]} is in the journal but has no account")
        return TenantAudit(
            tenant=self.tenant,
            entries=self.entries,
            accounts=len(self._seen),
            differences=tuple(self.differences),
            gaps=tuple(self.gaps),
            faults=tuple(self.faults),
        )

    def _limit(self, entry: JournalEntry, changed: EntryAmount) -> None:
        """Apply a change of limit: an unused account selects one of its divisions."""
        counters = self._counters.get(key_of(changed))
        if counters is None:
            self._fault(entry, "changes an account that was not opened")
            return
        counters["limit"] = changed.vector
        if counters["committed"][COUNT] + counters["held"][COUNT] > 0:
            self._fault(entry, "changes the limit of an account that is in use")
        if changed.vector not in self._divisions.get(key_of(changed), ()):
            self._fault(entry, "gives an account a limit that it was not opened with")

    def _add(self, entry: JournalEntry, change: EntryAmount, counter: str, sign: int) -> None:
        counters = self._counters.get(key_of(change))
        if counters is None:
            self._fault(entry, "debits an account that was not opened")
            return
        if len(change.vector) != len(counters[counter]):
            self._fault(entry, "debits an account at orders that are not the account's")
            return
        counters[counter] = tuple(a + sign * b for a, b in zip(counters[counter], change.vector, strict=True))

    def _miss(self, numbers: Sequence[int]) -> None:
        self.gaps.extend(numbers[: max(0, LISTED_MAX - len(self.gaps))])

    def _fault(self, entry: JournalEntry, what: str) -> None:
        if len(self.faults) < LISTED_MAX:
            self.faults.append(f"entry {entry.seq} {what}")


def _counters_of(state: AccountState) -> dict[str, Vector]:
    return {"limit": state.limit_vector, "committed": state.committed_vector, "held": state.held_vector}
