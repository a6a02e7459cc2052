"""Recomputes a tenant's counters from its journal. Pure: reads nothing, decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from core.ledger.records import AccountState, Difference, EntryAmount, JournalEntry, TenantAudit
from core.ledger.vectors import Vector

_Key = tuple[str, str]  # unit, subject hash or ""
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
    _counters: dict[_Key, dict[str, Vector]] = field(default_factory=dict)
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
                nothing = (0,) * len(opened.vector)
                self._counters[_key(opened)] = {"limit": opened.vector, "committed": nothing, "held": nothing}
                self._names[_key(opened)] = opened.account
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
            expected = self._counters.get(key, {})
            found = {"limit": state.limit_vector, "committed": state.committed_vector, "held": state.held_vector}
            differences += [
                Difference(state.account, counter, expected.get(counter, ()), vector)
                for counter, vector in found.items()
                if expected.get(counter) != vector
            ]
            if not state.within_limit:
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
        if len(change.vector) != len(counters[counter]):
            self._fault(entry, "debits an account at other orders than it has")
            return
        counters[counter] = tuple(a + sign * b for a, b in zip(counters[counter], change.vector, strict=True))

    def _miss(self, numbers: Sequence[int]) -> None:
        self.gaps.extend(numbers[: max(0, LISTED_MAX - len(self.gaps))])

    def _fault(self, entry: JournalEntry, what: str) -> None:
        if len(self.faults) < LISTED_MAX:
            self.faults.append(f"entry {entry.seq} {what}")
