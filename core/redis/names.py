"""Names: tenants, Redis keys and account ids.

All keys of a tenant share the hash tag `{tenant}`. Therefore they are in one slot and one script can access them. A
tenant name contains no brace, colon or slash, so it cannot imitate another tenant's tag, key or account id.
"""

import re
from collections.abc import Callable

from core.accounting.events import Unit
from core.errors import InvalidInput, UnknownAccount

_TENANT = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_LABEL = re.compile(r"[a-z0-9][a-z0-9_.+-]{0,127}")
_ROUTE = re.compile(r"[a-z0-9][a-z0-9_./{}-]{0,63}")
_WORDS = re.compile(r"[A-Za-z0-9 ._:@/+-]{0,64}")
RELEASE_WORDS = ("purpose", "recipient")  # what a release is for, and who receives it
_RULE = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_HEX = re.compile(r"[0-9a-f]+")
_ACCOUNT = re.compile(rf"({'|'.join(Unit)})(:[0-9a-f]{{64}})?")
SUBJECT_ID_LENGTH = 16
JOB_ID_LENGTH = 32
KEY_ID_LENGTH = 16

TENANTS_KEY = "tenants"
# Fields of a tenant's record: the numbers of the last entries that the sums of the journal contain.
SERIES_POSITION = "folded"
SPENDING_POSITION = "spending_folded"
# The owner of the operator's jobs. No tenant can have this name.
SHARED_OWNER = "@shared"
# The stream of the seals in the archive. No tenant can have this name.
CHAIN = "@chain"
READINESS_KEY = "readiness"
KEY_CHECK_KEY = "master-key-check"
# The keys of the seals. No key of a tenant has one of these suffixes, so a tenant named `seals` causes no conflict.
SEAL_CHAIN_KEY = "{seals}:chain"
LEDGER_ID_KEY = "{seals}:ledger"
SEAL_HEADS_KEY = "{seals}:heads"
_SEGMENTS = "{seals}:segments:"
LAST_AUDIT_KEY = "{seals}:last-audit"
VERSION_KEY = "{seals}:version"
# The id of the blob store that belongs to the ledger (`core.redis.identity`), a string.
STORE_ID_KEY = "{seals}:store"
# The last seal whose object of the archive was removed from Redis, a string (`core.ledger.archive.archiver`).
ARCHIVE_TRIMMED_KEY = "{seals}:trimmed"
# The lease of the duties, a hash, and the last fencing number, as lease.lua builds them.
DUTIES_KEY = "{seals}:duties"
FENCE_KEY = "{seals}:fence"
# The log of administrative actions. No key of a tenant has this suffix.
ADMIN_LOG_KEY = "{admin}:log"
# The owners that may have an unfinished job, a sorted set by when they last created one. No tenant can have this tag.
JOB_OWNERS_KEY = "{@jobs}:owners"
JOB_OWNERS_BASE_KEY = "{@jobs}:tenant"  # from which job_owner.lua derives it; this key itself does not exist
# From this key alert.lua derives every key of alerts. No tenant can have this tag. This key itself does not exist.
ALERTS_KEY = "{@alerts}:tenant"


def alerts_key(*parts: str) -> str:
    """One key of alerts, as alert.lua builds it."""
    return ":".join(("{@alerts}", *parts))


def check_rule(name: str) -> str:
    """Return `name`, of a rule of alerts. Raises InvalidInput unless it matches `[a-z0-9][a-z0-9_-]{0,62}`."""
    if not _RULE.fullmatch(name):
        raise InvalidInput("A rule's name is 1 to 63 of a-z, 0-9, _ and -.", field="name")
    return name


def session_key(name: str) -> str:
    """One session of the dashboard, a string, by the HMAC of its token. No tenant's key has this suffix."""
    return f"{{sessions}}:session:{check_hex(name, length=64)}"


def sessions_of_key(holder: str) -> str:
    """The sessions of one credential, a sorted set by their ends. No tenant's key has this suffix."""
    return f"{{sessions}}:sessions-of:{check_hex(holder, length=64)}"


def sessions_ended_key(holder: str) -> str:
    """When the sessions of a tenant or of the operator were ended, a string. No tenant's key has this suffix."""
    return f"{{sessions}}:ended:{check_hex(holder, length=64)}"


def check_tenant(name: str) -> str:
    """Return `name`. Raises InvalidInput unless it matches `[a-z0-9][a-z0-9_-]{0,62}`."""
    if not _TENANT.fullmatch(name):
        raise InvalidInput("A tenant name is 1 to 63 of a-z, 0-9, _ and -.", field="tenant")
    return name


def check_label(label: str) -> str:
    """Return `label`, a fixed mechanism or reason of the gateway. Raises ValueError if it could be free text."""
    if not _LABEL.fullmatch(label):
        raise ValueError("a mechanism or reason is a short fixed label")
    return label


def check_route(route: str) -> str:
    """Return `route`, a path of the gateway without its first slash. Raises ValueError if it could be free text."""
    if not _ROUTE.fullmatch(route):
        raise ValueError("a route is a short fixed path")
    return route


def check_words(text: str, *, field: str) -> str:
    """Return `text`, what people say of a key or a release. Raises InvalidInput, which names the member `field`."""
    if not _WORDS.fullmatch(text):
        raise InvalidInput(f"{field} is up to 64 of A-Z, a-z, 0-9, blank and ._:@/+-", field=field)
    return text


def check_hex(value: str, *, length: int) -> str:
    """Return `value`. Raises ValueError unless it consists of `length` lower-case hex digits."""
    if len(value) != length or not _HEX.fullmatch(value):
        raise ValueError(f"expected {length} lower-case hex digits")
    return value


def _in_slot_of(check: Callable[[str], str], suffix: str) -> Callable[[str], str]:
    """Return the function that gives this key of a tenant or an owner, whose name `check` checks."""
    return lambda name: f"{{{check(name)}}}:{suffix}"


# The tenant's record, a hash. Every script derives the other keys from it.
tenant_key = _in_slot_of(check_tenant, "tenant")
# The tenant's journal, a stream.
journal_key = _in_slot_of(check_tenant, "journal")
# The names of the tenant's accounts, a sorted set without scores.
accounts_key = _in_slot_of(check_tenant, "accounts")
# The open holds by deadline in ms, a sorted set.
overdue_key = _in_slot_of(check_tenant, "overdue")
# The ids of the tenant's API keys, a set.
tenant_api_keys_key = _in_slot_of(check_tenant, "api-keys")


def release_key(tenant: str, release_id: str) -> str:
    """The record of a release, a string: an open hold, or the tombstone of one that has ended."""
    return f"{{{check_tenant(tenant)}}}:release:{release_id}"


def account_key(tenant: str, name: str) -> str:
    """One account, a hash, by its name within the tenant."""
    return f"{{{check_tenant(tenant)}}}:account:{name}"


def subject_entries_key(tenant: str, subject_hash: str) -> str:
    """The numbers of the entries in which a subject has rows, a sorted set."""
    return f"{{{check_tenant(tenant)}}}:entries:{subject_hash}"


def segments_key(tenant: str) -> str:
    """The seals that contain a tenant's entries, a sorted set of `seal:first:last` by the last entry (seal.lua)."""
    return _SEGMENTS + check_tenant(tenant)


def archive_index_key(stream: str) -> str:
    """Where the archive has the entries of a tenant, or the seals of CHAIN, a sorted set by their last numbers.

    The rows are those of `core.ledger.archive.store`.
    """
    return f"{{seals}}:archive:{stream}"


def ranks_key(tenant: str, unit: Unit) -> str:
    """The subjects of a unit by what remains of their accounts, a sorted set without scores (rank.lua)."""
    return f"{{{check_tenant(tenant)}}}:ranks:{unit.value}"


def sums_key(tenant: str, name: str) -> str:
    """The current totals of one aggregate of the journal, a hash by series (`core.reports.series`).

    With `:step:series` added it is the key of the buckets of one series, a sorted set by the bucket's start in seconds.
    With `:packed:step:series` it is that of its older buckets, a sorted set of texts by the start of their first one.
    """
    return f"{{{check_tenant(tenant)}}}:{name}"


def reuse_key(tenant: str, place: int) -> str:
    """One stored result for reuse, a string; see `core.ledger.reuse`."""
    return f"{{{check_tenant(tenant)}}}:reuse:{place}"


def attempt_key(tenant: str, tag: str) -> str:
    """The idempotency key of one attempt, a string; see `core.ledger.reuse`."""
    return f"{{{check_tenant(tenant)}}}:attempt:{check_hex(tag, length=64)}"


def vault_entry_key(tenant: str, entry_id: str) -> str:
    """One entry of the tenant's vault, a string; see `vault.lua`."""
    return f"{{{check_tenant(tenant)}}}:vault:entry:{check_hex(entry_id, length=64)}"


def check_owner(owner: str) -> str:
    """Return `owner`: a tenant's name, or SHARED_OWNER. Raises InvalidInput."""
    return owner if owner == SHARED_OWNER else check_tenant(owner)


# The key from which the scripts derive an owner's job keys. For SHARED_OWNER this key itself does not exist.
jobs_base_key = _in_slot_of(check_owner, "tenant")
# The owner's jobs, a sorted set without scores whose members sort newest first.
jobs_key = _in_slot_of(check_owner, "jobs")
# The owner's unfinished jobs by creation in ms, a sorted set.
open_jobs_key = _in_slot_of(check_owner, "jobs:open")
# The bytes of the owner's files in the blob store, a string.
files_bytes_key = _in_slot_of(check_owner, "files:bytes")
# The owner's files that expire, a sorted set of `area/name` by their ends in ms (stored.lua).
files_ends_key = _in_slot_of(check_owner, "files:ends")


def job_key(owner: str, job_id: str) -> str:
    """One job, a hash."""
    return f"{{{check_owner(owner)}}}:job:{check_hex(job_id, length=JOB_ID_LENGTH)}"


def job_holds_key(owner: str, job_id: str) -> str:
    """The holds of the parts of one job, a hash by the number of the part."""
    return f"{job_key(owner, job_id)}:holds"


def files_key(owner: str, area: str) -> str:
    """The owner's files of one area in the blob store, a hash by name (`core.state.stored_files`)."""
    return f"{{{check_owner(owner)}}}:files:{check_label(area)}"


def masking_counts_key(tenant: str, day: int) -> str:
    """What masking did for a tenant on one day since 1970, a hash (`core.state.masking_counts`)."""
    return f"{{{check_tenant(tenant)}}}:masking:{day}"


def api_key_key(key_id: str) -> str:
    """One API key, a hash. It is outside the tenant's slot, because it is read before the tenant is known."""
    return f"api-key:{check_hex(key_id, length=KEY_ID_LENGTH)}"


def shared_limit_key(owner: str, limit: str) -> str:
    """What the gateways share of a limit of load, a string (share.lua). `limit` is a fixed word, or one with a hash."""
    return f"{{{check_owner(owner)}}}:limit:{limit}"


def address_limit_key(address_hash: str) -> str:
    """The same for an address. No key of a tenant has this suffix."""
    return f"{{limits}}:address:{check_hex(address_hash, length=64)}"


def account_name(unit: Unit, subject_hash: str | None) -> str:
    """An account's name within its tenant, as the scripts build it. It also serves as the cursor of account pages."""
    return f"{unit.value}:{subject_hash}" if subject_hash else unit.value


def check_account_cursor(cursor: str) -> str:
    """Return `cursor`. Raises InvalidInput unless it has the form of an account's name."""
    if not _ACCOUNT.fullmatch(cursor):
        raise InvalidInput("`cursor` must be the `next_cursor` of the previous page.", field="cursor")
    return cursor


def account_id(tenant: str, unit: Unit, subject_hash: str | None) -> str:
    """The id that callers see: `acme/sentence`, or `acme/sentence/<first 16 hex digits of the subject's HMAC>`."""
    suffix = f"/{subject_hash[:SUBJECT_ID_LENGTH]}" if subject_hash else ""
    return f"{tenant}/{unit.value}{suffix}"


def parse_account_id(tenant: str, account: str) -> tuple[Unit, str]:
    """Return the unit and the first digits of the subject's HMAC ("" for the tenant's own account).

    Raises UnknownAccount for an id of another tenant or of another format.
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
