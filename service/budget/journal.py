"""The journal of an account: pages with filters, and the whole of it as JSON lines or CSV, streamed."""

import asyncio
import csv
import io
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from core.amounts import FEMTO, NANO
from core.errors import InvalidInput
from core.ledger.counters import COUNT
from core.ledger.hash_chain.export import decimal_text
from core.ledger.reader import JournalFilter
from core.ledger.records import EntryAmount, JournalEntry, JournalPage
from core.ledger.transitions import Ledger
from core.state.keystore import ApiKey, KeyStore
from gpu_workers.engine.fairness import Turns
from service.admission import LedgerReads
from service.config.settings import Settings
from service.http.answers import BudgetAmount, KeyWords, doc, words_of
from service.http.auth import ReadCallerDep
from service.http.body import JsonRoute
from service.http.exchange import OpenStream, OpenStreamDep
from service.http.ndjson import MEDIA_TYPE, LinesAnswer, LineStream
from service.http.problems import amount
from service.http.strict import Digits
from service.parts import Part

router = APIRouter(route_class=JsonRoute, tags=["budget"])

_PAGE_MAX = 1000  # entries, which take tens of milliseconds of threads
_ROWS_MAX = 10_000  # charges read for a page: the entry of one batch may have thousands
_EXPORTED_AT_ONCE = 500  # entries: some 20 milliseconds of a thread
_CSV = "text/csv; charset=utf-8"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
COLUMNS = (
    "seq", "at_ms", "at", "transition", "account", "epsilon", "delta", "releases", "mechanism", "reason", "route",
    "key_id", "release_id", "seal", "sha256", "key_label", "purpose", "recipient",
)  # fmt: skip


class JournalParameters(BaseModel):
    """Which entries of a journal. Times are milliseconds since the epoch, by the clock of Redis."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    from_ms: Digits | None = Field(None, alias="from")
    to_ms: Digits | None = Field(None, alias="to", description="Exclusive.")
    transition: Literal["open", "limit", "reserve", "commit", "cancel", "expire"] | None = None
    mechanism: str | None = Field(None, pattern=r"^[a-z0-9][a-z0-9_.+-]{0,127}$", description="A `+` is sent as %2B.")
    route: str | None = Field(None, pattern=r"^[a-z0-9][a-z0-9_./-]{0,63}$", description="Such as `embed/sentdp`.")
    key_id: str | None = Field(
        None, pattern=r"^[0-9a-f]{16}$", description="Only entries of releases that this API key caused"
    )
    subject: str | None = Field(
        None,
        pattern=r"^[0-9a-f]{16}$",
        description="Of the tenant's own account: only releases on the subject whose account ends with this.",
    )
    order: Literal["oldest", "newest"] = Field("oldest", description="What comes first.")

    def filter(self) -> JournalFilter:
        if self.from_ms is not None and self.to_ms is not None and self.from_ms >= self.to_ms:
            raise InvalidInput("`from` must be before `to`.", field="from")
        return JournalFilter(self.from_ms, self.to_ms, self.transition, self.mechanism, self.route, self.key_id)


class PageParameters(JournalParameters):
    """The same, page by page."""

    cursor: Digits = Field(0, description="`next_cursor` of the page before")
    limit: Digits = Field(100, ge=1)


class ExportParameters(JournalParameters):
    """The same, as a file."""

    format: Literal["jsonl", "csv"] = "jsonl"


class JournalLine(KeyWords):
    """An entry of the journal, as far as it concerns one account."""

    seq: Annotated[int, doc("Its number in the tenant's journal, from 1.")]
    at_ms: Annotated[int, doc("When it was written, in milliseconds since the epoch.")]
    transition: Annotated[str, doc("What happened: `reserve`, `commit`, `cancel`, `expire` or another.")]
    release_id: Annotated[str | None, doc("The release; null for an entry of an account.")]
    mechanism: Annotated[str | None, doc("The mechanism; null for an entry of an account.")]
    reason: Annotated[str | None, doc("Why a release was cancelled or has expired; null otherwise.")]
    route: Annotated[str | None, doc("The route of the request; null for none.")]
    key_id: Annotated[str | None, doc("The API key of the request; null for none.")]
    amount: Annotated[BudgetAmount, doc("The amount.")]
    seal: Annotated[int | None, doc("The number of the seal that contains it; null before it is sealed.")]
    sha256: Annotated[str | None, doc("The digest of the entry in the chain of its journal; null if it is not known.")]


class ExportedLine(KeyWords):
    """A line of an export."""

    seq: Annotated[int, doc("The number of the entry in the tenant's journal, from 1.")]
    at_ms: Annotated[int, doc("When it was written, in milliseconds since the epoch.")]
    at: Annotated[str, doc("The same, as ISO 8601 in UTC.")]
    transition: Annotated[str, doc("What happened.")]
    account: Annotated[str, doc("The id of the account.")]
    epsilon: Annotated[str | None, doc("The epsilon as an exact decimal; null for a limit that does not exist.")]
    delta: Annotated[str | None, doc("The delta as an exact decimal; null for a limit that does not exist.")]
    releases: Annotated[int, doc("How many releases.")]
    mechanism: Annotated[str | None, doc("The mechanism; null for an entry of an account.")]
    reason: Annotated[str | None, doc("Why a release was cancelled or has expired; null otherwise.")]
    route: Annotated[str | None, doc("The route of the request; null for none.")]
    key_id: Annotated[str | None, doc("The API key of the request; null for none.")]
    release_id: Annotated[str | None, doc("The release; null for an entry of an account.")]
    seal: Annotated[int | None, doc("The number of the seal that contains it; null before it is sealed.")]
    sha256: Annotated[str | None, doc("The digest of the entry in the chain of its journal; null if it is not known.")]


class AccountJournal(TypedDict):
    """A page of the journal of an account."""

    account: Annotated[str, doc("The id of the account.")]
    entries: Annotated[list[JournalLine], doc("The entries in the order of the question.")]
    next_cursor: Annotated[int | None, doc("The `cursor` of the next page; null on the last one.")]


@router.get(
    "/budget/{account:path}/journal",
    summary="The journal of an account, page by page",
    response_model=AccountJournal,
)
async def get_journal(
    account: str,
    caller: ReadCallerDep,
    ledger: Part[Ledger],
    keys: Part[KeyStore],
    reads: Part[LedgerReads],
    query: Annotated[PageParameters, Query()],
) -> Response:
    """`seal` is the number of the seal that contains an entry, and `sha256` the digest of the entry in that chain."""
    _check_subject(account, query)
    wanted, limit = query.filter(), min(query.limit, _PAGE_MAX)
    # Threads of many pages would crowd out the loop.
    with await reads.wait(caller.tenant, limit):
        page = await ledger.journal(
            caller.tenant,
            account,
            wanted=wanted,
            subject=query.subject,
            newest_first=query.order == "newest",
            cursor=query.cursor,
            limit=limit,
            rows_max=_ROWS_MAX,
        )
        seals = await ledger.seals_of(caller.tenant, [entry.seq for entry in page.entries])
        text = await asyncio.to_thread(_page_text, account, page, seals, await _named(keys, caller.tenant, page))
    return Response(text, media_type="application/json")


async def _named(keys: KeyStore, tenant: str, page: JournalPage) -> dict[str, ApiKey]:
    return await keys.named(tenant, (entry.key_id for entry in page.entries if entry.key_id))


def _words(entry: JournalEntry, named: Mapping[str, ApiKey]) -> KeyWords:
    words = words_of(named.get(entry.key_id or ""))
    words["purpose"], words["recipient"] = entry.purpose or words["purpose"], entry.recipient or words["recipient"]
    return words


def _page_text(account: str, page: JournalPage, seals: Mapping[int, int | None], named: Mapping[str, ApiKey]) -> bytes:
    entries: list[JournalLine] = [
        {
            "seq": entry.seq,
            "at_ms": entry.at_ms,
            "transition": entry.transition,
            "release_id": entry.release_id,
            "mechanism": entry.mechanism,
            "reason": entry.reason,
            "route": entry.route,
            "key_id": entry.key_id,
            "amount": amount(line.amount),
            "seal": seals[entry.seq],
            "sha256": entry.sha256,
            **_words(entry, named),
        }
        for entry in page.entries
        for line in _lines(entry, account)
    ]
    answer: AccountJournal = {"account": account, "entries": entries, "next_cursor": page.next_cursor}
    return orjson.dumps(answer)


@router.get(
    "/budget/{account:path}/journal/export",
    summary="The journal of an account as JSON lines or CSV",
    response_class=LinesAnswer,
    response_model=ExportedLine,
)
async def export_journal(
    account: str,
    caller: ReadCallerDep,
    ledger: Part[Ledger],
    keys: Part[KeyStore],
    settings: Part[Settings],
    reads: Part[LedgerReads],
    open_: OpenStreamDep,
    query: Annotated[ExportParameters, Query()],
) -> Response:
    """Streamed up to the entry that is the last one at the start. An answer that is cut off closes the connection."""
    _check_subject(account, query)
    query.filter()
    await ledger.account(caller.tenant, account)  # before the answer begins
    rows = _written(caller.tenant, account, query, ledger, keys, reads, open_)
    media_type = _CSV if query.format == "csv" else MEDIA_TYPE
    answer = LineStream(rows, idle_s=settings.stream_idle_s, media_type=media_type)
    answer.headers["Content-Disposition"] = f'attachment; filename="journal.{query.format}"'
    return answer


def _check_subject(account: str, query: JournalParameters) -> None:
    if query.subject is not None and account.count("/") != 1:
        raise InvalidInput("Only the journal of the tenant's own account is divided by subjects.", field="subject")


def _lines(entry: JournalEntry, account: str) -> list[EntryAmount]:
    return [line for line in entry.all_amounts if line.account == account]


async def _written(
    tenant: str,
    account: str,
    query: ExportParameters,
    ledger: Ledger,
    keys: KeyStore,
    turns: Turns,
    stream: OpenStream,
) -> AsyncGenerator[bytes, None]:
    """The entries, some at a time. Parts are made one after the other, in the turns of their owners.

    Raises the error of `stream` once that must end. The answer is then incomplete, and the connection closes.
    """
    if query.format == "csv":
        yield _csv_rows([{name: name for name in COLUMNS}])
    last, wanted = await ledger.journal_end(tenant), query.filter()
    cursor: int | None = 0
    while cursor is not None:
        if stream.error is not None:
            raise stream.error
        with await turns.wait(tenant, _EXPORTED_AT_ONCE):
            page = await ledger.journal(
                tenant,
                account,
                wanted=wanted,
                subject=query.subject,
                newest_first=query.order == "newest",
                last=last,
                cursor=cursor,
                limit=_EXPORTED_AT_ONCE,
                rows_max=_ROWS_MAX,
            )
            seals = await ledger.seals_of(tenant, [entry.seq for entry in page.entries])
            named = await _named(keys, tenant, page)
            rows = await asyncio.to_thread(_written_rows, account, page, seals, named, query.format)
        if rows:
            yield rows
        cursor = page.next_cursor


def _written_rows(
    account: str, page: JournalPage, seals: Mapping[int, int | None], named: Mapping[str, ApiKey], form: str
) -> bytes:
    rows = [_row(entry, line, seals, named) for entry in page.entries for line in _lines(entry, account)]
    return _csv_rows(rows) if form == "csv" else _json_lines(rows)


def _row(
    entry: JournalEntry, line: EntryAmount, seals: Mapping[int, int | None], named: Mapping[str, ApiKey]
) -> ExportedLine:
    """One line of an export. Amounts are exact decimals; None for a limit that the account does not have."""
    return {
        "seq": entry.seq,
        "at_ms": entry.at_ms,
        "at": datetime.fromtimestamp(entry.at_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        "transition": entry.transition,
        "account": line.account,
        "epsilon": decimal_text(line.amount.epsilon_nano, NANO),
        "delta": decimal_text(line.amount.delta_femto, FEMTO),
        "releases": line.vector[COUNT],
        "mechanism": entry.mechanism,
        "reason": entry.reason,
        "route": entry.route,
        "key_id": entry.key_id,
        "release_id": entry.release_id,
        "seal": seals[entry.seq],
        "sha256": entry.sha256,
        **_words(entry, named),
    }


def _json_lines(rows: Sequence[Mapping[str, Any]]) -> bytes:
    return b"".join([orjson.dumps(row) + b"\n" for row in rows])


def _csv_rows(rows: Sequence[Mapping[str, Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows([[cell(row[name]) for name in COLUMNS] for row in rows])
    return text.getvalue().encode()


def cell(value: str | int | None) -> str:
    """A cell of a CSV file. A spreadsheet would run a text that begins like a formula, so it gets an apostrophe."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
