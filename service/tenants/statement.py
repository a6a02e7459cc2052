"""`GET /budget/statement` and `GET /admin/tenants/{tenant}/statement`: a tenant and a period, for an auditor.

Guarantee: the JSON has a MAC under a key of the master key, as seals have, so the operator can check with `ledger
verify-statement` that a statement is the gateway's. It names the entries of the period and the last seal, by which an
export of the ledger shows the same sums. No text of a request is in it.
"""

import csv
import hmac
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, cast

import orjson
from fastapi import APIRouter, Depends, Query, Response
from typing_extensions import TypedDict

from core.amounts import Amount
from core.errors import InvalidInput, LedgerNotTrusted, LedgerUnavailable
from core.ledger.hash_chain.admin_log import AdminEntry, LogCheck
from core.ledger.reader import JournalFilter
from core.ledger.records import JournalEntry
from core.ledger.transitions import Ledger
from core.master_key import MasterKey, Purpose
from core.reports.integrity import IntegrityReads
from core.reports.series import DAY_S, JournalFold, LedgerSeries, SpendingTotals, SubjectClass, Totals
from core.state.keystore import ApiKey, KeyStore
from service.admission import LedgerReads
from service.budget.integrity import NOT_TRUSTED
from service.budget.journal import cell
from service.config.settings import Settings
from service.dashboard.pages import statement_page
from service.http.answers import doc
from service.http.auth import BY_OPERATOR, OPERATOR, ReadCallerDep
from service.http.body import JsonRoute
from service.http.problems import amount
from service.operation.endpoints import AuditEntry
from service.parts import Part, Parts
from service.proxy.upstreams import Upstreams
from service.releases.answers import Account, account_block
from service.sanitize.policies import Policies
from service.tenants.answers import KeyFacts, TenantFacts
from service.tenants.service import key_block, tenant_block

WHO: tuple[Literal["by", "action", "target"], ...] = ("by", "action", "target")
CHANGES_MAX = 1000  # administrative actions in a statement
_ROWS_MAX = 1000  # series of one kind
_DAY_MS = DAY_S * 1000
_NO_PROMISE = "What costs no budget, such as masking without a price, carries no guarantee of differential privacy."


class StatementSpending(TypedDict):
    """What a mechanism, a key, a route or what was lost has cost in the period."""

    by: Annotated[str, doc("`mechanism`, `key`, `route`, or `outcome` for what was spent without an output.")]
    unit: Annotated[str, doc("The unit.")]
    value: Annotated[str, doc("The mechanism, the id of the key, the route, or `lost`; `-` for none.")]
    epsilon: Annotated[float, doc("The sum of epsilon.")]
    delta: Annotated[float, doc("The sum of delta.")]
    releases: Annotated[int, doc("How many releases.")]


class StatementIntegrity(TypedDict):
    """How far the journal is sealed and audited."""

    entries: Annotated[int, doc("How many entries the journal has.")]
    sealed: Annotated[int, doc("How many of them are sealed.")]
    first: Annotated[int, doc("The number of the period's first entry.")]
    last: Annotated[int, doc("That of its last entry; below `first` for none.")]
    seal: Annotated[int | None, doc("The last seal of the ledger; null for none.")]
    seal_mac: Annotated[str | None, doc("The MAC of that seal.")]
    audited_ms: Annotated[int | None, doc("When the last audit ended; null for none.")]
    audited_entries: Annotated[int, doc("How many entries of the tenant it read.")]
    audit_ok: Annotated[bool | None, doc("Whether it found no fault of the tenant; null for none.")]


class StatementRecord(TypedDict):
    """A field of the records of processing by Article 30 GDPR."""

    field: Annotated[str, doc("The field, with its letter in Article 30 (1).")]
    value: Annotated[str | None, doc("What the gateway knows of it; null for what the controller states.")]


class Statement(TypedDict):
    """A tenant and a period, for an auditor."""

    tenant: Annotated[TenantFacts, doc("The tenant.")]
    at_ms: Annotated[int, doc("When the statement was made, in milliseconds since the epoch.")]
    from_ms: Annotated[int, doc("The start of the period: a day in UTC.")]
    to_ms: Annotated[int, doc("Its end, exclusive.")]
    accounts: Annotated[list[Account], doc("The tenant's own accounts with their limits, as they are now.")]
    promises: Annotated[list[str], doc("What is guaranteed, a sentence for each account, and what is not.")]
    spending: Annotated[list[StatementSpending], doc("What was spent in the period, each release once in each `by`.")]
    policies: Annotated[list[str], doc("The policies that the tenant may or must use now.")]
    keys: Annotated[list[KeyFacts], doc("The API keys, with those that ended within 30 days.")]
    changes: Annotated[list[AuditEntry], doc("The administrative actions of the period, at most 1,000.")]
    complete: Annotated[bool, doc("False if there are more changes or rows of spending than a statement has.")]
    integrity: Annotated[StatementIntegrity, doc("How far the journal is sealed and audited.")]
    processing: Annotated[
        list[StatementRecord],
        doc(
            "The fields of Article 30 GDPR. Purposes and recipients: of the keys, and of the period's newest releases."
        ),
    ]


class SignedStatement(TypedDict):
    """A statement with its MAC."""

    statement: Annotated[Statement, doc("The statement.")]
    algorithm: Annotated[str, doc("Always `HMAC-SHA-256`, over the statement as JSON with sorted keys.")]
    mac: Annotated[str, doc("The MAC. `privacy-gateway ledger verify-statement FILE` checks it.")]


def signed(statement: Statement, master_key: MasterKey) -> SignedStatement:
    mac = master_key.mac(Purpose.STATEMENT, _canonical(statement))
    return {"statement": statement, "algorithm": "HMAC-SHA-256", "mac": mac}


def is_genuine(content: bytes, master_key: MasterKey) -> bool:
    """Whether a file is a signed statement of the gateway with this master key, unchanged.

    A file with a member that the MAC does not cover, or with a member twice, is none: readers may show the other one.
    """
    try:
        found = orjson.loads(content)
        json.loads(content, object_pairs_hook=_once)
        return hmac.compare_digest(_canonical(found), _canonical(signed(found["statement"], master_key)))
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _once(members: list[tuple[str, Any]]) -> None:
    if len(dict(members)) != len(members):
        raise ValueError("a member twice")


def _canonical(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


@dataclass(frozen=True)
class Statements:
    """Makes statements."""

    ledger: Ledger
    keys: KeyStore
    integrity: IntegrityReads
    folds: Mapping[str, JournalFold]
    policies: Policies
    upstreams: Upstreams
    settings: Settings

    async def of(self, tenant: str, from_ms: int | None, to_ms: int | None) -> Statement:
        """The statement of whole days in UTC; by default of the last 30. Raises InvalidInput, UnknownTenant."""
        now_ms = await self.ledger.now_ms()
        stop = -(-min(now_ms + 1 if to_ms is None else to_ms, now_ms + 1) // _DAY_MS) * _DAY_MS
        start = (stop - 30 * _DAY_MS if from_ms is None else from_ms) // _DAY_MS * _DAY_MS
        if not 0 < stop - start <= 1100 * _DAY_MS:
            raise InvalidInput("`from` is before `to`, not in the future, and at most 3 years before it.", field="from")
        facts = await self.ledger.tenant(tenant)
        spending, whole = [], True
        for kind, fold in self.folds.items():
            within = {"step_s": DAY_S, "first_ms": start - _DAY_MS, "stop_ms": stop}
            page = await fold.page(tenant, lambda name: name, **within, offset=0, limit=_ROWS_MAX)
            whole = whole and page.is_last
            for row in page.rows:
                change = row.points[-1].minus(row.points[0])
                if change.releases:
                    spending.append(_spent(kind, row.label, change))
        try:
            integrity = await self._integrity(tenant, start, stop)
            changes, all_changes = await self._changes(tenant, start, stop)
        except LedgerNotTrusted:
            raise LedgerUnavailable(NOT_TRUSTED) from None
        states = await self.ledger.own_accounts(tenant)
        keys = await self.keys.list(tenant)
        return {
            "tenant": tenant_block(facts),
            "at_ms": now_ms,
            "from_ms": start,
            "to_ms": stop,
            "accounts": [account_block(state) for state in states],
            "promises": [*(_promise(account_block(state), facts.mode.value) for state in states), _NO_PROMISE],
            "spending": [row for row in spending if row is not None],
            "policies": [_policy(each) for each in self.policies.visible(tenant)],
            "keys": [key_block(key) for key in keys],
            "changes": changes,
            "complete": whole and all_changes,
            "integrity": integrity,
            "processing": self._processing(tenant, [*keys, *await self._stated(tenant, start, stop)]),
        }

    async def _stated(self, tenant: str, start: int, stop: int) -> Sequence[JournalEntry]:
        """Releases whose requests state a purpose or a recipient, from the period's newest entries, at most 10,000."""
        wanted = JournalFilter(start, stop, "commit", stated=True)
        rows_max = 100 * _ROWS_MAX  # entries without these words are read and not parsed
        page = await self.ledger.journal(tenant, wanted=wanted, newest_first=True, limit=_ROWS_MAX, rows_max=rows_max)
        return page.entries

    async def _changes(self, tenant: str, start: int, stop: int) -> tuple[list[AuditEntry], bool]:
        """Raises LedgerNotTrusted for a log that was changed."""
        seal = (await self.integrity.ledger()).last_seal
        check = LogCheck(None if seal is None else seal.admin)
        found: list[AuditEntry] = []
        async for each in self.keys.log.entries():
            check.add(each)
            if _is_of(each, tenant) and start <= each.at_ms < stop:
                if len(found) == CHANGES_MAX:
                    return found, False
                found.append(cast(AuditEntry, asdict(each)))
        check.end()
        if check.faults:
            raise LedgerNotTrusted(check.faults[0])
        return found, True

    async def _integrity(self, tenant: str, start: int, stop: int) -> StatementIntegrity:
        ledger, own = await self.integrity.ledger(), await self.integrity.tenant(tenant)
        audit, seal = ledger.audit, ledger.last_seal
        read = 0 if audit is None else await self.ledger.first_entry_at(tenant, audit.began_ms) - 1
        return {
            "entries": own.entries,
            "sealed": own.sealed,
            "first": await self.ledger.first_entry_at(tenant, start),
            "last": await self.ledger.first_entry_at(tenant, stop) - 1,
            "seal": None if seal is None else seal.id.n,
            "seal_mac": None if seal is None else seal.id.mac,
            "audited_ms": None if audit is None else audit.at_ms,
            "audited_entries": read,
            "audit_ok": None if audit is None else audit.ok_for(tenant),
        }

    def _processing(self, tenant: str, stated: Sequence[ApiKey | JournalEntry]) -> list[StatementRecord]:
        """What the gateway knows for the records of processing; the controller states the rest."""
        purposes = "; ".join(sorted({each.purpose for each in stated if each.purpose}))
        recipients = "; ".join(sorted({each.recipient for each in stated if each.recipient}))
        upstreams = sorted({served.upstream.name for served in self.upstreams.visible(tenant)})
        kept = self.settings
        limits = (
            f"Texts: for the time of one request. Answers for replay, encrypted: {kept.response_retention_s:g} s. "
            f"Records of jobs: {kept.job_retention_s:g} s. Journal and accounts: without limit; they hold no text."
        )
        security = (
            "Differential privacy or masking before release; encryption at rest; a sealed journal; roles of keys."
        )
        rows = {
            "(a) controller, its representative and data protection officer": None,
            "(b) purposes": purposes or None,
            "(c) categories of data subjects and of personal data": None,
            "(d) recipients": f"Language models that the operator serves: {', '.join(upstreams) or 'none'}."
            + (f" Stated: {recipients}" if recipients else ""),
            "(e) transfers to third countries": None,
            "(f) time limits for erasure": limits,
            "(g) security measures": security,
        }
        return [{"field": name, "value": value} for name, value in rows.items()]


def _is_of(entry: AdminEntry, tenant: str) -> bool:
    """Whether an action is on this tenant. It can be called `operator`, `shared` or `ledger`, which the log uses."""
    kind = entry.action.partition(".")[0]
    own = kind in ("tenant", "key", "sessions") or (kind == "alert" and entry.by != BY_OPERATOR)
    return own and entry.target.split("/")[0] == tenant


def _spent(kind: str, label: str, change: Totals) -> StatementSpending | None:
    """A row of a series: `UNIT:MECHANISM:CLASS`, or `UNIT:DIMENSION:VALUE`. Those of subjects are left out."""
    unit, by, value = label.split(":", 2)
    if kind == "mechanism":
        if value != SubjectClass.TENANT:
            return None
        by, value = kind, by
    spent = amount(Amount(change.committed_epsilon_nano, change.committed_delta_femto))
    return {"by": by, "unit": unit, "value": value, **spent, "releases": change.releases}


def _promise(account: Account, mode: str) -> str:
    unit, limit = account["unit"], account["limit"]
    whose = f"a {unit}" if mode == "tenant" else f"a {unit}, over all subjects together"
    paid = f"{account['account']}: all releases that it ever pays for are together"
    if account["adjacency"] == "metric":
        return f"{paid} metric-private for {whose}, of epsilon {limit['epsilon']:g} for a distance of 1."
    return (
        f"{paid} (epsilon {limit['epsilon']:g}, delta {limit['delta']:g})-differentially private for {whose}, where "
        f"neighbours are by {account['adjacency']} and what each release states as public is not protected."
    )


def _policy(found: Mapping[str, Any]) -> str:
    mark = " (enforced)" if found["enforced"] else " (default)" if found["default"] else ""
    return f"{found['name']}{mark}"


@dataclass(frozen=True)
class Table:
    """A part of a statement for people: lines of cells under their headings."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


def tables(found: SignedStatement) -> list[Table]:
    """The statement as tables, for the page and for CSV."""
    one = found["statement"]
    seals = one["integrity"]
    general = {
        "tenant": f"{one['tenant']['name']} ({one['tenant']['state']})",
        "period": f"{_time(one['from_ms'])} to {_time(one['to_ms'])}",
        "made": _time(one["at_ms"]),
        "complete": "yes" if one["complete"] else "no: there are more rows than a statement has",
        "policies": ", ".join(one["policies"]) or "none",
    }
    integrity = {
        "entries of the journal": f"{seals['entries']}, of which {seals['sealed']} are sealed",
        "entries of the period": f"{seals['first']} to {seals['last']}" if seals["last"] >= seals["first"] else "none",
        "last seal": f"{seals['seal']}, MAC {seals['seal_mac']}" if seals["seal"] else "none",
        "last audit": "none"
        if seals["audited_ms"] is None
        else f"{_time(seals['audited_ms'])}: {'no fault' if seals['audit_ok'] else 'FAULTS FOUND'} in "
        f"{seals['audited_entries']} of {seals['entries']} entries",
        "MAC of this statement": f"{found['mac']} ({found['algorithm']} over its JSON)",
    }
    return [
        _facts("Statement", general),
        Table("Promises", ("what is guaranteed",), [(each,) for each in one["promises"]]),
        Table(
            "Limits",
            ("account", "limit epsilon", "limit delta", "current limit", "committed", "remaining"),
            [
                _cells(
                    each["account"],
                    each["limit"]["epsilon"],
                    each["limit"]["delta"],
                    each.get("current_limit", each["limit"])["epsilon"],
                    each["committed"]["epsilon"],
                    each["remaining"]["epsilon"],
                )
                for each in one["accounts"]
            ],
        ),
        Table(
            "Spending of the period",
            ("by", "value", "unit", "epsilon", "delta", "releases"),
            [
                _cells(each["by"], each["value"], each["unit"], each["epsilon"], each["delta"], each["releases"])
                for each in one["spending"]
            ],
        ),
        Table(
            "API keys",
            ("id", "label", "roles", "created", "expires", "revoked", "last used"),
            [
                _cells(key["key_id"], key["label"], ", ".join(key["roles"]), *map(_time, _times_of(key)))
                for key in one["keys"]
            ],
        ),
        Table(
            "Administrative actions of the period",
            ("number", "time", *WHO, "details"),
            [
                _cells(each["n"], _time(each["at_ms"]), *(each[name] for name in WHO), _details(each["details"]))
                for each in one["changes"]
            ],
        ),
        _facts("Integrity", integrity),
        _facts(
            "Record of processing (Article 30 GDPR)",
            {each["field"]: each["value"] or "(the controller states it)" for each in one["processing"]},
        ),
    ]


def _facts(title: str, rows: Mapping[str, str]) -> Table:
    return Table(title, ("what", "value"), list(rows.items()))


def _cells(*values: Any) -> tuple[str, ...]:
    return tuple(f"{each:.12g}" if isinstance(each, float) else str(each) for each in values)


def _details(found: Mapping[str, Any]) -> str:
    return "; ".join(f"{name}: {value}" for name, value in found.items() if value not in (None, ""))


def _times_of(key: KeyFacts) -> tuple[int | None, ...]:
    return key["created_ms"], key["expires_ms"], key["revoked_ms"], key["last_used_ms"]


def _time(at_ms: int | None) -> str:
    return "never" if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")


def _csv(found: SignedStatement) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    for table in tables(found):
        writer.writerows([[table.title], table.columns, *([cell(each) for each in row] for row in table.rows), []])
    return text.getvalue()


@dataclass(frozen=True)
class Asked:
    """The query of a statement. Times are milliseconds since the epoch, and the days that contain them count whole."""

    from_ms: int | None
    to_ms: int | None
    form: str


async def _asked(
    from_ms: Annotated[
        int | None, Query(alias="from", ge=0, lt=2**53, description="Default: 30 days before `to`.")
    ] = None,
    to_ms: Annotated[int | None, Query(alias="to", ge=0, lt=2**53, description="Exclusive. Default: now.")] = None,
    form: Annotated[
        Literal["json", "csv", "html"], Query(alias="format", description="`html` is a page for printing.")
    ] = "json",
) -> Asked:
    return Asked(from_ms, to_ms, form)


AskedDep = Annotated[Asked, Depends(_asked)]
statement_router = APIRouter(route_class=JsonRoute, tags=["budget"])
admin_statement_router = APIRouter(prefix="/admin", route_class=JsonRoute, tags=["admin"], dependencies=[OPERATOR])


@statement_router.get(
    "/budget/statement", summary="A statement of the tenant for an auditor, signed", response_model=SignedStatement
)
async def get_statement(
    caller: ReadCallerDep, asked: AskedDep, made: Part[Statements], reads: Part[LedgerReads], key: Part[MasterKey]
) -> Response:
    """As JSON with a MAC, as CSV, or as a page for printing."""
    return await _answer(caller.tenant, asked, made, reads, key)


@admin_statement_router.get(
    "/tenants/{tenant}/statement",
    summary="The same for a tenant, as `GET /budget/statement`",
    response_model=SignedStatement,
)
async def get_tenant_statement(
    tenant: str, asked: AskedDep, made: Part[Statements], reads: Part[LedgerReads], key: Part[MasterKey]
) -> Response:
    return await _answer(tenant, asked, made, reads, key)


async def _answer(tenant: str, asked: Asked, made: Statements, reads: LedgerReads, key: MasterKey) -> Response:
    with await reads.wait(tenant, _ROWS_MAX):
        found = signed(await made.of(tenant, asked.from_ms, asked.to_ms), key)
    if asked.form == "html":
        return statement_page(tenant, tables(found))
    name = f"statement-{tenant}-{_time(found['statement']['from_ms'])[:10]}"
    headers = {"Content-Disposition": f'attachment; filename="{name}.{asked.form}"'}
    if asked.form == "csv":
        return Response(_csv(found), media_type="text/csv; charset=utf-8", headers=headers)
    return Response(orjson.dumps(found), media_type="application/json", headers=headers)


def statements(parts: Parts) -> Statements:
    return Statements(
        parts[Ledger],
        parts[KeyStore],
        parts[IntegrityReads],
        {"mechanism": parts[LedgerSeries], "": parts[SpendingTotals]},
        parts[Policies],
        parts[Upstreams],
        parts[Settings],
    )
