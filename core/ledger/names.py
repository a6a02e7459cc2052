"""Names: tenants, Redis keys and account ids.

All keys of a tenant share the hash tag `{tenant}`, so they live in one slot and one script may touch them. A
tenant name has no brace, no colon and no slash: it cannot forge another tenant's tag, key or account id.
"""

from __future__ import annotations

import re

from core.accounting.events import Unit
from core.errors import InvalidInput, UnknownAccount

_TENANT = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_LABEL = re.compile(r"[a-z0-9][a-z0-9_.+-]{0,127}")
_HEX = re.compile(r"[0-9a-f]+")
_ACCOUNT = re.compile(rf"({'|'.join(Unit)})(:[0-9a-f]{{64}})?")
SUBJECT_ID_LENGTH = 16
JOB_ID_LENGTH = 32

TENANTS_KEY = "tenants"
# owns the jobs of the operator; no tenant can have this name
SHARED_OWNER = "@shared"
READINESS_KEY = "readiness"
KEY_CHECK_KEY = "master-key-check"
# the seals of all tenants: none of these names ends as a key of a tenant does, so a tenant `seals` is no harm
SEAL_CHAIN_KEY = "{seals}:chain"
LEDGER_ID_KEY = "{seals}:ledger"
VERSION_KEY = "{seals}:version"


def check_tenant(name: str) -> str:
    """`name` itself. Raises InvalidInput unless it is `[a-z0-9][a-z0-9_-]{0,62}`."""
    if not _TENANT.fullmatch(name):
        raise InvalidInput("A tenant name is 1 to 63 of a-z, 0-9, _ and -.", field="tenant")
    return name


def check_label(label: str) -> str:
    """`label` itself: a mechanism or reason of the gateway's own. Raises ValueError when it could be free text."""
    if not _LABEL.fullmatch(label):
        raise ValueError("a mechanism or reason is a short fixed label")
    return label


def check_hex(value: str, *, length: int) -> str:
    """`value` itself. Raises ValueError unless it is `length` lower-case hex digits."""
    if len(value) != length or not _HEX.fullmatch(value):
        raise ValueError(f"expected {length} lower-case hex digits")
    return value


def tenant_key(tenant: str) -> str:
    """The tenant's record, a hash; every script derives the other keys from it."""
    return f"{{{check_tenant(tenant)}}}:tenant"


def journal_key(tenant: str) -> str:
    """The tenant's journal, a stream."""
    return f"{{{check_tenant(tenant)}}}:journal"


def accounts_key(tenant: str) -> str:
    """The names of the tenant's accounts, a sorted set without scores."""
    return f"{{{check_tenant(tenant)}}}:accounts"


def overdue_key(tenant: str) -> str:
    """The open holds by deadline in ms, a sorted set."""
    return f"{{{check_tenant(tenant)}}}:overdue"


def series_key(tenant: str) -> str:
    """What every series of the tenant has come to, a hash by `unit:mechanism:class`."""
    return f"{{{check_tenant(tenant)}}}:series"


def series_points_key(tenant: str, step_s: int, series: str) -> str:
    """The buckets of one series and one size, a sorted set by the bucket's start in seconds."""
    return f"{series_key(tenant)}:{step_s}:{series}"


def reuse_key(tenant: str, place: int) -> str:
    """One result that is kept for repeats, a string; see `core.ledger.reuse`."""
    return f"{{{check_tenant(tenant)}}}:reuse:{place}"


def tenant_api_keys_key(tenant: str) -> str:
    """The ids of the tenant's API keys, a set."""
    return f"{{{check_tenant(tenant)}}}:api-keys"


def check_owner(owner: str) -> str:
    """`owner` itself: a tenant's name, or SHARED_OWNER. Raises InvalidInput."""
    return owner if owner == SHARED_OWNER else check_tenant(owner)


def jobs_base_key(owner: str) -> str:
    """What the scripts derive the keys of an owner's jobs from; no key of this name exists for SHARED_OWNER."""
    return f"{{{check_owner(owner)}}}:tenant"


def job_key(owner: str, job_id: str) -> str:
    """One job, a hash."""
    return f"{{{check_owner(owner)}}}:job:{check_hex(job_id, length=JOB_ID_LENGTH)}"


def jobs_key(owner: str) -> str:
    """The owner's jobs, a sorted set without scores whose members sort newest first."""
    return f"{{{check_owner(owner)}}}:jobs"


def open_jobs_key(owner: str) -> str:
    """The owner's unfinished jobs by creation in ms, a sorted set."""
    return f"{{{check_owner(owner)}}}:jobs:open"


def api_key_key(key_id: str) -> str:
    """One API key, a hash; found before the tenant is known, hence outside its slot."""
    return f"api-key:{check_hex(key_id, length=16)}"


def account_name(unit: Unit, subject_hash: str | None) -> str:
    """An account's name inside its tenant, as the scripts form it: the cursor of a page of accounts."""
    return f"{unit.value}:{subject_hash}" if subject_hash else unit.value


def check_account_cursor(cursor: str) -> str:
    """`cursor` itself. Raises InvalidInput unless it has the form of an account's name."""
    if not _ACCOUNT.fullmatch(cursor):
        raise InvalidInput("`cursor` is the `next_cursor` of the page before.", field="cursor")
    return cursor


def account_id(tenant: str, unit: Unit, subject_hash: str | None) -> str:
    """What callers see: `acme/sentence`, or `acme/sentence/<first 16 hex digits of the subject's HMAC>`."""
    suffix = f"/{subject_hash[:SUBJECT_ID_LENGTH]}" if subject_hash else ""
    return f"{tenant}/{unit.value}{suffix}"


def parse_account_id(tenant: str, account: str) -> tuple[Unit, str]:
    """The unit and the start of the subject's HMAC ("" for the tenant's own account).

    Raises UnknownAccount for an id of another tenant or another form.
    """
    parts = account.split("/")
    units = {unit.value: unit for unit in Unit}
    if len(parts) not in (2, 3) or parts[0] != tenant or parts[1] not in units:
        raise UnknownAccount
    if len(parts) == 2:
        return units[parts[1]], ""
    if len(parts[2]) != SUBJECT_ID_LENGTH or not _HEX.fullmatch(parts[2]):
        raise UnknownAccount
    return units[parts[1]], parts[2]
