"""Recomputes a tenant's counters from its journal. Pure: reads nothing, decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from core.errors import Amount
from core.ledger.records import AccountState, Difference, EntryAmount, JournalEntry, TenantAudit

_Key = tuple[str, str]  # unit, subject hash or ""
_COUNTERS = (
    "limit_epsilon",
    "limit_delta",
    "committed_epsilon",
    "committed_delta",
    "held_epsilon",
    "held_delta",
)
LISTED_MAX = 1000


def _key(amount: EntryAmount) -> _Key:
    return amount.unit.value, amount.subject_hash or ""


@dataclass
class JournalReplay:
    """Applies entries in order; `report` compares what they add up to with the counters that were found.

    A journal that lost entries is reported, never repaired: `gaps` lists up to 1,000 missing numbers and `faults`
    up to 1,000 entries that cannot follow from the ones before.
    """

    tenant: str
    entries: int = 0
    last_seq: int = 0
    gaps: list[int] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    _counters: dict[_Key, dict[str, int]] = field(default_factory=dict)
    _open: dict[str, tuple[EntryAmount, ...]] = field(default_factory=dict)
    _names: dict[_Key, str] = field(default_factory=dict)

    def apply(self, entry: JournalEntry) -> None:
        """Take the next entry into account."""
        self._miss(range(self.last_seq + 1, entry.seq))
        self.last_seq = entry.seq
        self.entries += 1
        release = entry.release_id or ""
        if entry.transition == "open":
            for opened in entry.amounts:
                if _key(opened) in self._counters:
                    self._fault(entry, "opens an account a second time")
                    continue
                self._counters[_key(opened)] = dict.fromkeys(_COUNTERS, 0)
                self._names[_key(opened)] = opened.account
                self._add(entry, opened, "limit", 1)
        elif entry.transition == "reserve":
            if release in self._open:
                self._fault(entry, "reserves a release a second time")
            self._open[release] = entry.amounts
            for held in entry.amounts:
                self._add(entry, held, "held", 1)
        elif entry.transition in ("commit", "cancel", "expire"):
            if self._open.pop(release, None) != entry.amounts:
                self._fault(entry, "ends a hold that is not open with these amounts")
            for ended in entry.amounts:
                self._add(entry, ended, "held", -1)
                if entry.transition != "cancel":
                    self._add(entry, ended, "committed", 1)
        else:
            self._fault(entry, "is of no known kind")

    def report(self, accounts: Iterable[AccountState], *, last_seq: int) -> TenantAudit:
        """Compare with the counters as they stood after the entry `last_seq`."""
        self._miss(range(self.last_seq + 1, last_seq + 1))
        differences: list[Difference] = []
        seen: set[_Key] = set()
        for state in accounts:
            key = (state.unit.value, state.subject_hash or "")
            seen.add(key)
            expected = self._counters.get(key, dict.fromkeys(_COUNTERS, 0))
            found = _flat(state.limit, state.committed, state.reserved)
            differences += [
                Difference(state.account, counter, expected[counter], value)
                for counter, value in zip(_COUNTERS, found, strict=True)
                if expected[counter] != value
            ]
            if min(state.remaining.epsilon_nano, state.remaining.delta_femto) < 0:
                self.faults.append(f"{state.account} holds more than its limit")
        for key in self._counters.keys() - seen:
            self.faults.append(f"{self._names[key]} is in the journal and has no account")
        return TenantAudit(
            tenant=self.tenant,
            entries=self.entries,
            accounts=len(seen),
            differences=tuple(differences),
            gaps=tuple(self.gaps),
            faults=tuple(self.faults),
        )

    def _add(self, entry: JournalEntry, change: EntryAmount, counter: str, sign: int) -> None:
        counters = self._counters.get(_key(change))
        if counters is None:
            self._fault(entry, "debits an account that was not opened")
            return
        counters[f"{counter}_epsilon"] += sign * change.amount.epsilon_nano
        counters[f"{counter}_delta"] += sign * change.amount.delta_femto

    def _miss(self, numbers: Sequence[int]) -> None:
        self.gaps.extend(numbers[: max(0, LISTED_MAX - len(self.gaps))])

    def _fault(self, entry: JournalEntry, what: str) -> None:
        if len(self.faults) < LISTED_MAX:
            self.faults.append(f"entry {entry.seq} {what}")


def _flat(*amounts: Amount) -> list[int]:
    return [number for amount in amounts for number in (amount.epsilon_nano, amount.delta_femto)]
