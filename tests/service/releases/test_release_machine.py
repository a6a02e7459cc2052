"""Random requests whose gateway, worker or Redis fails at each step: no byte leaves before its release is committed.

The application runs over ASGI, and the ledger's scripts and the engine fail as a machine chooses. A gateway that ends
at a step is a call that never returns: nothing of its request happens afterwards.
"""

import asyncio
import itertools
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import orjson
import pytest
from gateway_kit import DEFAULTS, DOCUMENT, Tenant, clean_environment
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from inprocess_kit import Gateway as InProcessGateway
from redis_kit import GuardedServer
from toys.toy_engine import ToyEngine

from core.errors import ClientGone, LedgerUnavailable, QueueFull, WorkerDied
from core.ledger.hash_chain.audit import audit_tenant
from core.ledger.transitions import Ledger
from core.master_key import MasterKey
from core.redis.client import LedgerClient, connect
from gpu_workers.engine.protocol import Role, Task
from service.app import create_app
from service.config.settings import Settings
from service.gateway import Gateway
from service.operation import maintenance

Message = dict[str, Any]
HOUR_MS = 3600 * 1000
# a failure of the engine: what ends the hold, and the status of the answer
FAILURES = {
    "": ("commit", 200),
    "worker-died": ("expire", 502),
    "queue-full": ("cancel", 503),
    "client-gone": ("cancel", 503),
}
ERRORS = {"worker-died": WorkerDied, "queue-full": QueueFull, "client-gone": ClientGone}
STATES = {"commit": "committed", "cancel": "free", "expire": "spent"}
KINDS = ("the gateway dies before", "the gateway dies after", "no script runs", "the answer is lost")
STEPS = ("reserve", "run", "end")
_numbers = itertools.count()


class Faults:
    """What fails next: a step, in one of KINDS, and the engine by one of FAILURES."""

    def __init__(self) -> None:
        self.kind, self.step, self.engine = "", "", ""
        self.died = asyncio.Event()

    async def around(self, step: str, work: Callable[[], Awaitable[Any]]) -> Any:
        if step != self.step:
            return await work()
        self.step = ""
        if self.kind == "no script runs":
            raise LedgerUnavailable("Redis is full.")
        if self.kind == "the gateway dies before":
            await self._die()
        await work()
        if self.kind == "the gateway dies after":
            await self._die()
        raise LedgerUnavailable("Redis did not answer in time.")

    async def _die(self) -> None:
        self.died.set()
        await asyncio.Event().wait()


class FailingEngine(ToyEngine):
    def __init__(self, faults: Faults) -> None:
        super().__init__()
        self._faults = faults

    async def run(self, role: Role, tasks: Sequence[Task], **options: Any) -> list[Any]:
        async def work() -> list[Any]:
            if self._faults.engine:
                raise ERRORS[self._faults.engine]
            return [self.answer(task.payload) for task in tasks]

        if self._faults.step == "run" and "gateway" not in self._faults.kind:
            self._faults.step = ""  # Redis has no part in it
        found: list[Any] = await self._faults.around("run", work)
        return found


async def post(
    app: Any, path: str, key: str, body: Any, *, headers: Mapping[str, str], spy: Callable[[], Awaitable[Any]]
) -> tuple[list[Message], list[Any]]:
    """POST to the application: its messages, and what `spy` saw before each of them left."""
    messages: list[Message] = []
    seen: list[Any] = []

    async def spied(scope: Message, receive: Any, send: Callable[[Message], Awaitable[None]]) -> None:
        async def sending(message: Message) -> None:
            seen.append(await spy())
            messages.append(message)
            await send(message)

        await app(scope, receive, sending)

    content = body if isinstance(body, bytes) else orjson.dumps(body)
    names = {"authorization": f"Bearer {key}", "content-type": "application/json", **headers}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(spied), base_url="http://gateway", timeout=300
    ) as client:
        await client.post(path, content=content, headers=names)
    return messages, seen


def content_of(messages: list[Message]) -> bytes:
    return b"".join(message.get("body", b"") for message in messages)


class Served:
    """A gateway whose ledger and engine fail, and a ledger beside it that does not."""

    def __init__(self, folder: Path, redis_url: str, patch: pytest.MonkeyPatch) -> None:
        self.go = asyncio.Runner().run
        self.faults = Faults()
        own = {
            "REDIS_URL": redis_url,
            "PRIVACY_GATEWAY_MASTER_KEY": "7" * 64,
            "PRIVACY_GATEWAY_STORE_URL": f"file://{folder}/store",
            "PRIVACY_GATEWAY_REQUESTS_IN_FLIGHT_PER_TENANT_MAX": "1000",  # a request that died stays in flight
        }
        run, faults = LedgerClient.run, self.faults

        async def failing(client: LedgerClient, name: str, **options: Any) -> Any:
            step = "end" if name in STATES else name
            return await faults.around(step, lambda: run(client, name, **options))

        patch.setattr(LedgerClient, "run", failing)
        patch.setattr(maintenance, "EXPIRE_INTERVAL_S", 3600.0)
        with mock.patch.dict(os.environ, clean_environment() | DEFAULTS | own, clear=True):
            self.gateway = Gateway(Settings(data_dir=folder / "data"), engine=FailingEngine(self.faults))
        self.go(self.gateway.start())
        self.app = create_app(self.gateway)
        self.client = LedgerClient(connect(url=redis_url))
        self.ledger = Ledger(self.client, self.gateway.parts[MasterKey])
        self.later = Ledger(self.client, self.gateway.parts[MasterKey], clock=lambda: int(time.time() * 1000) + HOUR_MS)
        self.admin_key = (folder / "data/admin.key").read_text().strip()

    async def nothing(self) -> None:
        """A spy that sees nothing."""

    def tenant(self, name: str) -> str:
        opened, _ = self.go(
            post(
                self.app, "/admin/tenants", self.admin_key, {"name": name, "epsilon": 1000}, headers={},
                spy=self.nothing,
            )
        )  # fmt: skip
        key: str = orjson.loads(content_of(opened))["key"]
        return key

    def stop(self) -> None:
        self.go(self.gateway.stop())
        self.go(self.client.close())


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "redis").mkdir()
    server = GuardedServer(folder / "redis")
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        served = Served(folder, server.url, patch)
        yield served
        served.stop()
    server.stop()


def machine(served: Served) -> type[Any]:
    go, faults = served.go, served.faults

    class ReleaseMachine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.tenant = f"machine-{next(_numbers)}"
            self.key = served.tenant(self.tenant)
            self.states: dict[str, str] = {}  # of idempotency keys: held, committed, spent or free
            self.answers: dict[str, bytes] = {}
            self.dead: list[asyncio.Task[Any]] = []
            assert go(self.answered(None)) is not None  # the gateway learns the orders of the accounts
            self.held, self.spent = 0, 1
            self.seen = 3

        def news(self) -> list[str]:
            """The transitions that the journal has and the machine has not seen."""
            entries = go(served.ledger.journal(self.tenant, limit=1000)).entries[self.seen :]
            self.seen += len(entries)
            return [entry.transition for entry in entries]

        async def committed(self) -> int:
            state = await served.ledger.account(self.tenant, f"{self.tenant}/sentence")
            return state.committed.epsilon_nano // 10**9

        async def answered(self, key: str | None) -> tuple[list[Message], list[int]] | None:
            """The messages of a request, and what was committed when each left. None if the gateway died."""
            headers = {} if key is None else {"idempotency-key": key}
            body = {"documents": [{"text": DOCUMENT}], "epsilon": 1.0}
            faults.died.clear()
            asked = asyncio.create_task(
                post(served.app, "/embed/sentdp", self.key, body, headers=headers, spy=self.committed)
            )
            died = asyncio.create_task(faults.died.wait())
            await asyncio.wait({asked, died}, return_when=asyncio.FIRST_COMPLETED)
            died.cancel()
            if asked.done():
                return asked.result()
            self.dead.append(asked)
            return None

        @rule(
            key=st.sampled_from([None, "a", "b", "c"]),
            engine=st.sampled_from(["", *FAILURES]),
            fault=st.one_of(st.just(("", "")), st.tuples(st.sampled_from(KINDS), st.sampled_from(STEPS))),
        )
        def request(self, key: str | None, engine: str, fault: tuple[str, str]) -> None:
            kind, step = fault
            faults.kind, faults.step, faults.engine = kind, step, engine
            found = go(self.answered(key))
            faults.step = faults.engine = ""
            if (state := self.states.get(key or "", "free")) != "free":
                self.check_repeat(key or "", state, kind if step == "reserve" else "", found)
                return
            expected, status = self.expected(kind, step, engine)
            assert self.news() == expected
            ending = expected[1] if len(expected) > 1 else None
            self.held += len(expected) == 1
            self.spent += ending in ("commit", "expire")
            if key is not None and expected:
                self.states[key] = STATES[ending] if ending else "held"
            if found is None:
                assert status == 0
                return
            messages, seen = found
            assert messages[0]["status"] == status, content_of(messages)
            assert seen == [self.spent] * len(messages), "what leaves was committed before"
            if status == 200 and key is not None:
                self.answers[key] = content_of(messages)

        def expected(self, kind: str, step: str, engine: str) -> tuple[list[str], int]:
            """The transitions of a new release, and the status of its answer: 0 for none."""
            ending, status = FAILURES[engine]
            done: list[str] = []
            for at, transition in (("reserve", "reserve"), ("run", ""), ("end", ending)):
                fails = at == step
                if transition and (not fails or kind in ("the gateway dies after", "the answer is lost")):
                    done.append(transition)
                if fails and at == "run" and kind == "the gateway dies after" and engine:
                    continue  # the engine fails before
                if fails and "gateway" in kind:
                    return done, 0
                if fails and (at == "reserve" or transition == "commit"):
                    return done, 503
            return done, status

        def check_repeat(self, key: str, state: str, kind: str, found: tuple[list[Message], list[int]] | None) -> None:
            """A key whose release has not been refunded draws nothing again."""
            assert self.news() == []
            if "gateway" in kind:
                assert found is None
                return
            assert found is not None
            messages, _ = found
            status = 503 if kind else {"held": 409, "committed": 200, "spent": 410}[state]
            assert messages[0]["status"] == status, content_of(messages)
            if status == 200:
                assert (b"idempotency-replayed", b"true") in messages[0]["headers"]
                assert content_of(messages) == self.answers.setdefault(key, content_of(messages))

        @rule()
        def an_hour_passes(self) -> None:
            """Holds that nobody ended are spent at their deadlines."""
            go(served.later.expire_overdue())
            assert self.news() == ["expire"] * self.held
            self.spent, self.held = self.spent + self.held, 0
            self.states.update({key: "spent" for key, state in self.states.items() if state == "held"})

        @invariant()
        def the_account_is_the_model(self) -> None:
            state = go(served.ledger.account(self.tenant, f"{self.tenant}/sentence"))
            amounts = (state.committed.epsilon_nano, state.reserved.epsilon_nano)
            assert amounts == (self.spent * 10**9, self.held * 10**9)

        def teardown(self) -> None:
            self.an_hour_passes()
            assert go(audit_tenant(served.client, self.tenant)).ok

            async def end() -> None:
                for task in self.dead:
                    task.cancel()
                await asyncio.gather(*self.dead, return_exceptions=True)

            go(end())

    return ReleaseMachine


def test_each_failure_at_each_step_and_a_repeat(served: Served) -> None:
    releases = machine(served)()
    faults = [("", ""), *itertools.product(KINDS, STEPS)]
    for number, (engine, fault) in enumerate(itertools.product(FAILURES, faults)):
        releases.request(key=f"key-{number}", engine=engine, fault=fault)
        releases.request(key=f"key-{number}", engine="", fault=("", ""))
        releases.the_account_is_the_model()
    releases.teardown()


@pytest.mark.parametrize("examples", [12, pytest.param(400, marks=pytest.mark.slow("crash"))])
def test_requests_whose_gateway_worker_or_redis_fails(served: Served, examples: int) -> None:
    run_state_machine_as_test(
        machine(served),
        settings=settings(
            max_examples=examples,
            stateful_step_count=20,
            derandomize=examples < 100,  # the fast tier fails by a change, not by chance
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_each_message_of_a_stream_leaves_when_its_rows_are_committed(gateway: InProcessGateway, tenant: Tenant) -> None:
    rows = 2 * gateway.settings.stream_group_max + 1
    terms = {"mask": {"techniques": ["all"]}, "fill": {"mode": "metric_dp", "epsilon": 0.25}}
    lines = b"\n".join(orjson.dumps(line) for line in [terms, *[{"text": "one"}] * rows])

    async def amounts() -> tuple[float, float]:
        state = await gateway.service.ledger.account(tenant.name, f"{tenant.name}/vector")
        return state.committed.epsilon_nano / 10**9, state.reserved.epsilon_nano / 10**9

    headers = {"content-type": "application/x-ndjson"}
    sent = post(gateway.app, "/sanitize/batch", tenant.key, lines, headers=headers, spy=amounts)
    messages, seen = gateway.on_loop(sent)
    left = 0
    for message, state in zip(messages, seen, strict=True):
        left += message.get("body", b"").count(b'"release_id"')
        assert state == (0.25 * left, 0.0)
    assert left == rows
    assert sum(b"release_id" in message.get("body", b"") for message in messages) > 1, "several groups"
