"""What an audit of a tenant found."""

from __future__ import annotations

from dataclasses import dataclass

from core.ledger.counters import Vector


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
