"""What the ledger, the journal and the file of draws must say once every submission and every job of a soak has ended.

Each accepted job is in the ledger once and no other job is. Its journal is one reserve, and one commit if it was
charged or else one cancel. No noise was drawn before a commit. The budget is the sum of the charged jobs and of the
submissions that were lost.
"""

from collections import defaultdict
from pathlib import Path

from soak.job_clients import ACCEPTED, JobAsk, JobBook
from soak.load import LOST, Account

from core.ledger.counters import EPSILON
from core.ledger.reader import LedgerReader
from core.redis import names
from core.redis.client import LedgerClient
from core.state.jobs import JobRecord, JobStore

_PAGE = 1000


class JobAudit:
    """`draws`: the file that the processes of jobs write. Faults go to `jobs`."""

    def __init__(self, jobs: JobBook, client: LedgerClient, draws: Path) -> None:
        self._jobs = jobs
        self._client = client
        self._ledger = LedgerReader(client)
        self._drawn: defaultdict[str, dict[int, int]] = defaultdict(dict)  # by job: when each mark was drawn
        for line in draws.read_text().splitlines() if draws.exists() else ():
            job_id, mark, began_ms = line.split()
            self._drawn[job_id][int(mark)] = int(began_ms)

    async def check(self) -> None:
        for tenant in self._jobs.tenants:
            await self._check_tenant(tenant)
        for job_id in self._drawn.keys() - {ask.job_id for ask in self._jobs.of()}:
            self._fault(f"the job {job_id}", "nobody submitted it, and it drew")

    async def _check_tenant(self, tenant: Account) -> None:
        asks = {ask.job_id: ask for ask in self._jobs.of(tenant=tenant) if ask.state == ACCEPTED}
        records = {record.job_id: record for record in await self._records(tenant)}
        if asks.keys() != records.keys():
            self._fault(tenant.tenant, f"other jobs were accepted than the ledger has: {asks.keys() ^ records.keys()}")
        journal, committed_ms, amounts = await self._journal(tenant)
        expected = 0
        for job_id in records.keys() & asks.keys():
            release = (await self._client.call("HGET", names.job_key(tenant.tenant, job_id), "release")).decode()
            transitions = journal.pop(release, [])
            self._check_job(asks[job_id], records[job_id], transitions, committed_ms.get(release, 0))
            expected += asks[job_id].epsilon_nano * transitions.count("commit")
        spent = []
        for release, transitions in journal.items():
            if transitions not in (["reserve", "cancel"], ["reserve", "expire"], ["reserve", "commit"]):
                self._fault(tenant.tenant, f"the release {release} of no job has {transitions}")
            if transitions[-1] != "cancel":
                spent.append(amounts[release])
        lost = [ask.epsilon_nano for ask in self._jobs.of(tenant=tenant) if ask.state == LOST]
        if sorted(spent) != sorted(lost):
            self._fault(tenant.tenant, f"{spent} was spent without a job, and the submissions lost {lost}")
        states = await self._ledger.accounts(tenant.tenant)
        state = next(one for one in states if one.account == f"{tenant.tenant}/record")
        if state.committed_vector[EPSILON] != expected + sum(lost) or any(state.held_vector):
            self._fault(tenant.tenant, f"{state.committed_vector} is spent and {state.held_vector} held")

    def _check_job(self, ask: JobAsk, record: JobRecord, transitions: list[str], committed_ms: int) -> None:
        draws, spent = self._drawn[ask.job_id], record.spent.epsilon_nano
        shown = (ask.block.get("status"), round(ask.block.get("spent", {}).get("epsilon", 0) * 10**9))
        if not record.status.ended or (record.status.value, spent) != shown:
            self._jobs.fault(ask, f"the ledger has {record.status.value} and {spent}, and it shows {shown}")
        if transitions != ["reserve", "commit" if spent else "cancel"]:
            self._jobs.fault(ask, f"it spent {spent}, and its journal is {transitions}")
        if draws and ("commit" not in transitions or min(draws.values()) < committed_ms):
            self._jobs.fault(ask, "it drew noise before its charge")
        if ask.mark is not None and ask.mark not in draws:
            self._jobs.fault(ask, f"its noise {ask.mark} is of no draw: {draws}")

    async def _records(self, tenant: Account) -> list[JobRecord]:
        store, found, cursor = JobStore(self._client, gateway="soak"), [], None
        while True:
            page = await store.page(tenant.tenant, cursor=cursor, limit=_PAGE)
            found += page.jobs
            cursor = page.next_cursor
            if cursor is None:
                return found

    async def _journal(self, tenant: Account) -> tuple[dict[str, list[str]], dict[str, int], dict[str, int]]:
        """By release: its transitions, when it was committed, and its amount."""
        transitions: defaultdict[str, list[str]] = defaultdict(list)
        at_ms: dict[str, int] = {}
        amounts: dict[str, int] = {}
        cursor: int | None = 0
        while cursor is not None:
            page = await self._ledger.journal(tenant.tenant, cursor=cursor, limit=_PAGE)
            for entry in page.entries:
                if entry.release_id is not None:
                    transitions[entry.release_id].append(entry.transition)
                    amounts[entry.release_id] = entry.amounts[0].amount.epsilon_nano
                    if entry.transition == "commit":
                        at_ms[entry.release_id] = entry.at_ms
            cursor = page.next_cursor
        return transitions, at_ms, amounts

    def _fault(self, of: str, what: str) -> None:
        self._jobs.fault(JobAsk(Account("", of, "", 0), "", "", 0, b"", job_id=of), what)
