"""What goes into the ledger and what comes out of it: small frozen records without behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from core.accounting.events import Adjacency, PrivacyEvent, Unit
from core.errors import Amount


class TenantMode(StrEnum):
    """`tenant`: everything composes in one account a unit. `subject`: each subject has accounts of its own."""

    TENANT = "tenant"
    SUBJECT = "subject"


@dataclass(frozen=True)
class Tenant:
    name: str
    mode: TenantMode
    created_ms: int


@dataclass(frozen=True)
class Charge:
    """One event and the caller's id of the subject that it concerns (None in `tenant` mode)."""

    event: PrivacyEvent
    subject: str | None = None


@dataclass(frozen=True)
class AccountState:
    """An account at one moment. `reserved` are open holds; they count against the limit."""

    account: str
    unit: Unit
    adjacency: Adjacency
    subject_hash: str | None
    limit: Amount
    committed: Amount
    reserved: Amount

    @property
    def remaining(self) -> Amount:
        return Amount(
            self.limit.epsilon_nano - self.committed.epsilon_nano - self.reserved.epsilon_nano,
            self.limit.delta_femto - self.committed.delta_femto - self.reserved.delta_femto,
        )


@dataclass(frozen=True)
class AccountPage:
    """`next_cursor` is None after the last account."""

    accounts: tuple[AccountState, ...]
    next_cursor: str | None


@dataclass(frozen=True)
class Reserved:
    """An open hold. `accounts` are the debited ones as the response of this release shows them.

    They are fixed before the work starts, because the response is stored byte for byte in the same script that
    commits it: `committed` counts this release as committed, `reserved` are the *other* holds that were open at
    the time. In `subject` mode the subjects' accounts come first, then the tenant's quota over their sum.
    """

    release_id: str
    accounts: tuple[AccountState, ...]


@dataclass(frozen=True)
class Replay:
    """The stored bytes of an earlier release under the same idempotency key; nothing is charged."""

    release_id: str
    response: bytes


@dataclass(frozen=True)
class Settled:
    """A hold that has ended: `state` is `committed`, `cancelled` or `spent`; `accounts` are as it left them."""

    release_id: str
    state: str
    at_ms: int
    accounts: tuple[AccountState, ...]


@dataclass(frozen=True)
class EstimateLine:
    """What a release would cost one account. `remaining_after` is None where the account does not cover it."""

    account: AccountState
    cost: Amount
    remaining_after: Amount | None

    @property
    def allowed(self) -> bool:
        return self.remaining_after is not None


@dataclass(frozen=True)
class Estimate:
    """One line a debited account, at this moment; nothing is held."""

    lines: tuple[EstimateLine, ...]

    @property
    def allowed(self) -> bool:
        return all(line.allowed for line in self.lines)


@dataclass(frozen=True)
class EntryAmount:
    """One account's share of a transition; for `open` the account's limit."""

    account: str
    unit: Unit
    subject_hash: str | None
    amount: Amount


@dataclass(frozen=True)
class JournalEntry:
    """One transition: `open`, `reserve`, `commit`, `cancel` or `expire`. Numbers `seq` have no gap."""

    seq: int
    at_ms: int
    transition: str
    release_id: str | None
    mechanism: str | None
    reason: str | None
    amounts: tuple[EntryAmount, ...]


@dataclass(frozen=True)
class JournalPage:
    """`next_cursor` is None at the end of the journal. A page may be shorter than its limit before the end."""

    entries: tuple[JournalEntry, ...]
    next_cursor: int | None


@dataclass(frozen=True)
class Difference:
    """A counter that is not the sum of the journal. `account` is an account id."""

    account: str
    counter: str
    journal: int
    found: int


@dataclass(frozen=True)
class TenantAudit:
    """`gaps` are missing journal numbers; `faults` are fixed sentences about entries that cannot follow."""

    tenant: str
    entries: int
    accounts: int
    differences: tuple[Difference, ...]
    gaps: tuple[int, ...]
    faults: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not (self.differences or self.gaps or self.faults)


@dataclass(frozen=True)
class AuditReport:
    tenants: tuple[TenantAudit, ...]

    @property
    def ok(self) -> bool:
        return all(tenant.ok for tenant in self.tenants)
