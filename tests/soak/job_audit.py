"""What the ledger, the journal and the file of draws must say of the jobs of a soak.

`check_spent` holds at any moment, `check_all` once every submission and every job has ended: each accepted job is in
the ledger once and no other job is; its journal is one reserve, and one commit if it was charged or else one cancel;
no noise was drawn before a commit; the budget is the sum of the charged jobs and of the submissions that were lost.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

from soak.job_clients import ACCEPTED, JobAsk, JobBook, JobTenant
from soak.load import LOST

from core.ledger import names
from core.ledger.client import LedgerClient, connect
from core.ledger.counters import EPSILON
from core.ledger.job_records import JobRecord
from core.ledger.jobs import JobStore
from core.ledger.reader import LedgerReader
from core.ledger.records import AccountState

_PAGE = 1000
_SPENT = {"commit", "expire"}


class JobAudit:
    """Reads the ledger at `url`. `draws`: the file that the processes of jobs write."""

    def __init__(self, jobs: JobBook, url: str, draws: Path) -> None:
        self._jobs = jobs
        self._url = url
        self._draws = draws
        self.counts: Counter[str] = Counter()

    async def check_spent(self) -> None:
        """Every tenant is within its limit, and has spent at least what its jobs have shown as spent before."""
        shown: Counter[str] = Counter()
        for ask in self._jobs.of():
            shown[ask.tenant.name] += _nano(ask.block.get("spent", {}).get("epsilon", 0))
        client = LedgerClient(connect(url=self._url))
        try:
            for tenant in self._jobs.tenants:
                state = await self._account(client, tenant)
                if not state.within_limit:
                    self.counts["overspends"] += 1
                    self._fault(tenant, "is over its limit")
                if state.committed_vector[EPSILON] < shown[tenant.name]:
                    self._fault(tenant, f"spent {state.committed_vector[EPSILON]}, its jobs show {shown[tenant.name]}")
        finally:
            await client.close()
        self.counts["checks"] += 1

    async def check_all(self) -> None:
        drawn = self._drawn()
        client = LedgerClient(connect(url=self._url))
        try:
            for tenant in self._jobs.tenants:
                await self._check_tenant(client, tenant, drawn)
        finally:
            await client.close()
        known = {ask.job_id for ask in self._jobs.of()}
        for job_id in drawn.keys() - known:
            self._jobs.fault(
                JobAsk(JobTenant("", ""), "", "", 0, b"", job_id=job_id), "nobody submitted it, and it drew"
            )

    async def _check_tenant(
        self, client: LedgerClient, tenant: JobTenant, drawn: dict[str, list[tuple[int, int]]]
    ) -> None:
        asks = {ask.job_id: ask for ask in self._jobs.of(tenant=tenant) if ask.state == ACCEPTED}
        records = {record.job_id: record for record in await self._records(client, tenant)}
        for job_id in asks.keys() - records.keys():
            self._jobs.fault(asks[job_id], "it was accepted and the ledger does not have it")
        for job_id in records.keys() - asks.keys():
            self._fault(tenant, f"the job {job_id} ({records[job_id].label}) has no submission that was accepted")
        journal, at_ms, amounts = await self._journal(client, tenant)
        charged = 0
        for job_id in records.keys() & asks.keys():
            ask, record = asks[job_id], records[job_id]
            release = (await client.call("HGET", names.job_key(tenant.name, job_id), "release")).decode()
            transitions = journal.pop(release, [])
            self._check_job(ask, record, transitions, drawn.get(job_id, []), at_ms.get(release, 0))
            charged += ask.epsilon_nano * transitions.count("commit")
            self.counts["charged"] += transitions.count("commit")
        lost = [ask for ask in self._jobs.of(tenant=tenant) if ask.state == LOST]
        spent = [release for release, transitions in journal.items() if _SPENT & {*transitions}]
        for release, transitions in journal.items():
            if transitions not in (["reserve", "cancel"], ["reserve", "expire"], ["reserve", "commit"]):
                self._fault(tenant, f"the release {release} of no job has {transitions}")
        if sorted(amounts[release] for release in spent) != sorted(ask.epsilon_nano for ask in lost):
            self._fault(tenant, f"{len(spent)} holds without a job were spent, {len(lost)} submissions were lost")
        state = await self._account(client, tenant)
        expected = charged + sum(ask.epsilon_nano for ask in lost)
        spent_nano = state.committed_vector[EPSILON]
        if spent_nano != expected or any(state.held_vector):
            self._fault(tenant, f"{spent_nano} is spent, {state.held_vector} held; expected {expected} and nothing")
        self.counts["spent_nano"] += spent_nano
        self.counts["holds without a job, spent"] += len(spent)
        self.counts["holds without a job, refunded"] += len(journal) - len(spent)

    def _check_job(
        self,
        ask: JobAsk,
        record: JobRecord,
        transitions: list[str],
        draws: list[tuple[int, int]],
        committed_ms: int,
    ) -> None:
        self.counts["draws"] += len(draws)
        self.counts["jobs with a draw that nobody saw"] += len(draws) > 1
        spent = record.spent.epsilon_nano
        self.counts["charged and not drawn"] += bool(spent) and not draws
        if not record.status.ended or record.status.value != ask.block.get("status"):
            self._jobs.fault(ask, f"it is {record.status.value} in the ledger, seen as {ask.block.get('status')}")
        if spent != _nano(ask.block.get("spent", {}).get("epsilon", 0)):
            self._jobs.fault(ask, f"it spent {spent} in the ledger, and shows {ask.block}")
        if transitions != ["reserve", "commit" if spent else "cancel"]:
            self._jobs.fault(ask, f"it spent {spent}, and its journal is {transitions}")
        if draws and "commit" not in transitions:
            self._jobs.fault(ask, "it drew noise without a charge")
        if any(began_ms < committed_ms for _, began_ms in draws):
            self._jobs.fault(ask, "it drew noise before its charge")
        if ask.mark is not None and ask.mark not in [mark for mark, _ in draws]:
            self._jobs.fault(ask, f"its noise {ask.mark} is of no draw: {draws}")

    def _drawn(self) -> dict[str, list[tuple[int, int]]]:
        """The mark and the time of each draw, by job."""
        found = defaultdict(list)
        for line in self._draws.read_text().splitlines() if self._draws.exists() else ():
            job_id, mark, began_ms = line.split()
            found[job_id].append((int(mark), int(began_ms)))
        return found

    async def _records(self, client: LedgerClient, tenant: JobTenant) -> list[JobRecord]:
        store, found, cursor = JobStore(client, gateway="soak"), [], None
        while True:
            page = await store.page(tenant.name, cursor=cursor, limit=_PAGE)
            found += page.jobs
            cursor = page.next_cursor
            if cursor is None:
                return found

    async def _journal(
        self, client: LedgerClient, tenant: JobTenant
    ) -> tuple[dict[str, list[str]], dict[str, int], dict[str, int]]:
        """By release: its transitions, when it was committed, and its amount."""
        transitions: defaultdict[str, list[str]] = defaultdict(list)
        at_ms, amounts = {}, {}
        ledger, cursor = LedgerReader(client), 0
        while cursor is not None:
            page = await ledger.journal(tenant.name, cursor=cursor, limit=_PAGE)
            for entry in page.entries:
                if entry.release_id is not None:
                    transitions[entry.release_id].append(entry.transition)
                    amounts[entry.release_id] = entry.amounts[0].amount.epsilon_nano
                    if entry.transition == "commit":
                        at_ms[entry.release_id] = entry.at_ms
            cursor = page.next_cursor
        return transitions, at_ms, amounts

    async def _account(self, client: LedgerClient, tenant: JobTenant) -> AccountState:
        states = await LedgerReader(client).accounts(tenant.name)
        return next(state for state in states if state.account == f"{tenant.name}/record")

    def _fault(self, tenant: JobTenant, what: str) -> None:
        self._jobs.fault(JobAsk(tenant, "", "", 0, b"", job_id=f"of {tenant.name}"), what)


def _nano(epsilon: float) -> int:
    return round(epsilon * 10**9)
