"""The remote engine with real worker servers: leaked slots, deaths, cuts, drains, fingerprints, access, arrays."""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import resource
import signal
import threading
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from engine_kit import TOKEN, Bench, Deadly, ToyWorker, Work, bench, free_address, remote_engine, toy_codec
from grpc import aio

from core.errors import DeadlineBeforeStart, TaskFailed, WorkerCold, WorkerDied
from gpu_workers.engine.arrays import BlockArray
from gpu_workers.engine.protocol import Role, Task
from gpu_workers.engine.remote import replica
from gpu_workers.engine.remote.access import Access, Tls
from gpu_workers.engine.remote.directory import HttpDirectory
from gpu_workers.engine.remote.engine import Addresses, RemoteEngine, StaticDirectory
from gpu_workers.engine.remote.frames import SERVICE, WORK, Content, Kind, frame, messages, read
from gpu_workers.engine.remote.pool import RemotePoolOptions

Start = Callable[..., ToyWorker]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[ToyWorker] = []

    def start(factory: str = "ToyHandler", **options: Any) -> ToyWorker:
        started.append(ToyWorker(factory, **options))
        return started[-1]

    yield start
    for worker in started:
        worker.end()


class Peer:
    """A gateway of another process, driven message by message."""

    def __init__(self, worker: ToyWorker, *, name: str = "peer", token: str = TOKEN) -> None:
        access = Access(token)
        self.codec = toy_codec()
        self._channel = access.channel(worker.address)
        self._metadata = access.metadata(gateway=name, schema=self.codec.schema)

    def stream(self) -> Any:
        return self._channel.stream_stream(f"/{SERVICE}/{WORK}")(metadata=self._metadata)

    async def slot(self) -> tuple[Any, int]:
        """A stream with a slot that was granted to it."""
        call = self.stream()
        await call.write(frame(Kind.ASK))
        kind, slot = read(await call.read())
        while kind is Kind.WAIT:
            kind, slot = read(await call.read())
        assert kind is Kind.GRANT
        return call, slot

    def batch(self, slot: int, work: Work) -> list[bytes]:
        return list(messages(Kind.BATCH, [slot, []], Content(self.codec.encode([work]))))

    async def close(self) -> None:
        await self._channel.close()


@asynccontextmanager
async def peer(worker: ToyWorker) -> AsyncIterator[Peer]:
    own = Peer(worker)
    yield own
    await own.close()


def run(check: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await asyncio.wait_for(check(), 300)

    asyncio.run(main())


async def ended(call: Any) -> str:
    """The status of a stream that the server ends."""
    with suppress(aio.AioRpcError):
        while await call.read() is not aio.EOF:
            pass
    return str((await call.code()).name)


async def until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0.02)


def handler_of(on: Bench) -> int:
    """The process of the handler of the only worker."""
    pool: Any = on.engine._pools[Role.EMBED]  # type: ignore[attr-defined]
    (only,) = pool._replicas.values()
    return int(only.state.pid)


# Slots


def test_slots_that_a_frozen_gateway_keeps_do_not_stop_the_others(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        worker = start(slot_s=1)
        async with bench(remote_engine(worker), tmp_path) as on, peer(worker) as frozen:
            call, slot = await frozen.slot()
            other, _ = await frozen.slot()
            assert await on.run(on.work("served")) == ["SERVED"]
            late = frozen.batch(slot, Work("late", str(tmp_path)))
            for message in late:
                await call.write(message)
            assert read(await call.read()) == (Kind.REVOKED, slot)
            assert read(await call.read()) == (Kind.REFUSED, [slot, "stale"])
            assert on.started == ["served"]
            other.cancel()

    run(check)


def test_a_gateway_that_goes_away_loses_its_slots_at_once(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        worker = start()  # a slot may stay unused for an hour
        async with bench(remote_engine(worker), tmp_path) as on:
            gone = Peer(worker)
            await gone.slot()
            await gone.slot()
            waiting = await on.submit(on.work("waiting"))
            await asyncio.sleep(0.3)
            assert not waiting.done()
            await gone.close()
            assert await waiting == ["WAITING"]

    run(check)


def test_an_idle_gateway_holds_no_slot(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        worker = start()
        async with bench(remote_engine(worker), tmp_path) as on, peer(worker) as other:
            await asyncio.gather(*(on.run(on.work(f"work-{n}", weight=60)) for n in range(12)))
            both = [await other.slot() for _ in range(2)]  # else after an hour
            for call, _ in both:
                call.cancel()

    run(check)


def test_the_limit_of_open_files_is_raised_to_what_the_system_allows(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        limit, largest = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, largest))
        try:
            worker = start()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, largest))
        async with bench(remote_engine(worker), tmp_path) as on:
            for pid in (worker.process.pid, handler_of(on)):
                assert resource.prlimit(pid, resource.RLIMIT_NOFILE) == (largest, largest)

    run(check)


def test_two_gateways_share_a_worker(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        worker = start()
        first, second = remote_engine(worker), remote_engine(worker)
        async with bench(first, tmp_path) as one, bench(second, tmp_path) as two:
            calls = [on.run(on.work(f"{n}", weight=100)) for n in range(20) for on in (one, two)]
            assert await asyncio.gather(*calls) == [[f"{n}"] for n in range(20) for _ in (one, two)]
            assert len(one.started) == 40

    run(check)


def test_a_gateway_asks_another_worker_while_one_is_taken(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        taken, free = start(), start()
        async with bench(remote_engine(taken, free), tmp_path) as on, peer(taken) as other:
            pool: Any = on.engine._pools[Role.EMBED]  # type: ignore[attr-defined]
            await until(lambda: all(replica.ready for replica in pool._replicas.values()))
            calls = [await other.slot() for _ in range(2)]
            results = await asyncio.gather(*(on.run(on.work(f"w{n}")) for n in range(6)))
            assert results == [[f"W{n}"] for n in range(6)]
            for call, _ in calls:
                call.cancel()

    run(check)


@pytest.mark.parametrize(
    "sent",
    [
        [b""],
        [b"\xff"],
        [frame(Kind.DONE, 1)],
        [frame(Kind.ASK), frame(Kind.BATCH, "x")],
        [frame(Kind.ASK), frame(Kind.BATCH, [1, [[0, 1]] * 1025, [0] * 1026, b""])],
        [frame(Kind.ASK), frame(Kind.BATCH, [1, [], [1 << 40], None])],
        [frame(Kind.ASK), frame(Kind.BATCH, [1, [], [-1], None])],
        [frame(Kind.ASK), frame(Kind.BATCH, [1, [], [4], b"12345"])],
        [frame(Kind.ASK), frame(Kind.BATCH, [1, [], [4], None]), bytes([Kind.PART]) + b"12345"],
        [frame(Kind.BATCH, [7, [], [1 << 62], None])],
    ],
)
def test_what_breaks_the_protocol_ends_its_stream_alone(start: Start, tmp_path: Path, sent: list[bytes]) -> None:
    async def check() -> None:
        worker = start()
        async with bench(remote_engine(worker), tmp_path) as on, peer(worker) as hostile:
            call = hostile.stream()
            for message in sent:
                await call.write(message)
            assert await ended(call) == "INTERNAL"
            assert not await call.details()
            assert await on.run(on.work("served")) == ["SERVED"]
            assert on.started == ["served"]

    run(check)


def test_bytes_that_are_no_batch_are_refused_before_anything_runs(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        worker = start()
        async with bench(remote_engine(worker), tmp_path), peer(worker) as other:
            call, slot = await other.slot()
            await call.write(frame(Kind.BATCH, [slot, [], [4], b"1234"]))
            assert read(await call.read()) == (Kind.REFUSED, [slot, "unreadable"])
            call.cancel()

    run(check)


def test_arrays_that_are_too_large_for_a_worker_are_refused_before_anything_runs(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        worker = start()
        async with bench(remote_engine(worker), tmp_path), peer(worker) as other:
            call, slot = await other.slot()
            await call.write(frame(Kind.BATCH, [slot, [[0, 1 << 50]], [4, 4], None]))
            await call.write(bytes([Kind.PART]) + b"body")
            await call.write(bytes([Kind.PART]) + b"rows")
            assert read(await call.read()) == (Kind.REFUSED, [slot, "unreadable"])
            call.cancel()

    run(check)


# Deaths, partitions and drains


def test_a_killed_worker_spends_what_it_has_and_refunds_the_rest(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        worker = start()
        async with bench(remote_engine(worker), tmp_path) as on:
            busy = await on.busy()
            waiting = await on.submit(on.work("waiting"), timeout_s=5)
            worker.process.kill()
            with pytest.raises(WorkerDied):
                await busy
            await until(lambda: not on.engine.status(Role.EMBED).ready)
            with pytest.raises(WorkerCold):  # before anything is reserved
                await on.engine.wait_for_capacity(Role.EMBED, [on.work("more")], tenant="tenant", timeout_s=0)
            with pytest.raises(WorkerCold):
                await on.run(on.work("more"))
            with pytest.raises(DeadlineBeforeStart):
                await waiting
            assert on.started == ["blocker"]

    run(check)


def test_the_work_goes_on_when_a_worker_comes_back(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        address = free_address()
        worker = start(address=address)
        async with bench(remote_engine(worker), tmp_path) as on:
            busy = await on.busy()
            waiting = await on.submit(on.work("waiting"), timeout_s=240)
            worker.process.kill()
            worker.process.wait()
            start(address=address)
            with pytest.raises(WorkerDied):
                await busy
            assert await waiting == ["WAITING"]

    run(check)


def test_a_batch_that_the_handler_had_not_begun_when_it_died_runs_again(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        worker = start()
        async with bench(remote_engine(worker), tmp_path) as on, peer(worker) as other:
            busy = await on.busy()
            call, slot = await other.slot()
            for message in other.batch(slot, Work("behind", str(tmp_path))):
                await call.write(message)
            await asyncio.sleep(0.5)  # it reaches the handler's socket
            os.kill(handler_of(on), signal.SIGKILL)
            with pytest.raises(WorkerDied):
                await busy
            assert read(await call.read()) == (Kind.REFUSED, [slot, "lost"])
            assert await on.run(on.work("next")) == ["NEXT"]
            assert on.started == ["blocker", "next"]

    run(check)


def test_a_batch_that_reaches_a_handler_that_has_just_died_is_not_charged(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        worker = start()
        async with bench(remote_engine(worker), tmp_path) as on, peer(worker) as other:
            call, slot = await other.slot()
            os.kill(handler_of(on), signal.SIGKILL)
            for message in other.batch(slot, Work("late", str(tmp_path))):
                await call.write(message)
            assert read(await call.read()) == (Kind.REFUSED, [slot, "lost"])
            assert await on.run(on.work("served")) == ["SERVED"]
            assert on.started == ["served"]

    run(check)


def test_a_task_that_ends_handlers_before_they_begin_is_refunded_at_last(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        async with bench(remote_engine(start()), tmp_path) as on:
            with pytest.raises(WorkerCold):
                await on.run(Task(Work("deadly", str(tmp_path), joined=[Deadly()]), 10), timeout_s=200)
            assert await on.run(on.work("next"), timeout_s=200) == ["NEXT"]
            assert on.started == ["next"]

    run(check)


@pytest.mark.slow("outage")
def test_a_worker_that_is_cut_off_without_a_word_counts_as_dead(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        worker = start(address=free_address())
        async with bench(remote_engine(worker), tmp_path) as on:
            busy = await on.busy()
            os.kill(worker.process.pid, signal.SIGSTOP)
            with pytest.raises(WorkerDied):
                await busy
            await until(lambda: not on.engine.status(Role.EMBED).ready)
            with pytest.raises(WorkerCold):
                await on.run(on.work("refused"))
            os.kill(worker.process.pid, signal.SIGCONT)
            on.let_go("blocker")
            await on.ready()
            assert await on.run(on.work("next")) == ["NEXT"]
            assert on.started == ["blocker", "next"]

    run(check)


@pytest.mark.slow("outage")
def test_a_batch_that_is_stuck_is_ended_by_its_server(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        worker = start(batch_s=1)
        async with bench(remote_engine(worker), tmp_path) as on:
            with pytest.raises(WorkerDied):
                await on.run(on.work("stuck", held=True))
            assert await on.run_brief(on.work("next")) == ["NEXT"]

    run(check)


def test_a_worker_that_drains_loses_nothing(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        leaving, staying = start(), start()
        async with bench(remote_engine(leaving, staying), tmp_path) as on:
            calls = [asyncio.ensure_future(on.run(on.work(f"work-{n}", weight=30))) for n in range(200)]
            await until(lambda: len(on.started) > 20)
            leaving.process.send_signal(signal.SIGTERM)
            assert await asyncio.gather(*calls) == [[f"WORK-{n}"] for n in range(200)]
            assert sorted(on.started) == sorted(f"work-{n}" for n in range(200)), "each once"
            assert await asyncio.to_thread(leaving.process.wait, 240) == 0
            assert await on.run(on.work("next")) == ["NEXT"]

    run(check)


# Models, files and access


def test_workers_with_other_models_are_not_mixed_and_follow_when_the_first_are_gone(
    start: Start, tmp_path: Path
) -> None:
    async def check() -> None:
        blue = start()
        async with bench(remote_engine(blue, green := start("OtherHandler")), tmp_path) as on:
            pool: Any = on.engine._pools[Role.EMBED]  # type: ignore[attr-defined]
            await until(lambda: all(replica.ready for replica in pool._replicas.values()))
            first = on.engine.status(Role.EMBED).facts
            used, other = (blue, green) if not first.domains else (green, blue)  # type: ignore[union-attr]
            other_calls = 20
            await asyncio.gather(*(on.run(on.work(f"w{n}")) for n in range(other_calls)))
            assert on.engine.status(Role.EMBED).facts == first
            assert len(pool._used) == 1
            used.process.send_signal(signal.SIGTERM)
            await until(lambda: on.engine.status(Role.EMBED).facts != first)
            await on.ready()
            assert await on.run(on.work("next")) == ["NEXT"]
            assert other.process.poll() is None

    run(check)


def test_a_task_whose_file_the_worker_lacks_is_refunded(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        async with bench(remote_engine(start()), tmp_path) as on:
            busy = await on.busy()
            lacking = await on.submit(on.work("lacking"))
            beside = await on.submit(on.work("beside"))
            on.let_go("blocker")
            with pytest.raises(WorkerCold):
                await lacking
            assert await asyncio.gather(busy, beside) == [["BLOCKER"], ["BESIDE"]]
            assert "lacking" not in on.started
            with pytest.raises(TaskFailed):  # another task of the same request has started
                await on.run(on.work("first", weight=100), on.work("lacking", weight=100))

    run(check)


def test_a_directory_that_fails_is_asked_again(start: Start, tmp_path: Path) -> None:
    class Failing(StaticDirectory):
        failed = False

        async def changed(self) -> Addresses:
            if not self.failed:
                self.failed = True
                raise RuntimeError
            return await super().changed()

    async def check() -> None:
        directory = Failing({Role.EMBED: [start().address]})
        options = {Role.EMBED: RemotePoolOptions()}
        async with bench(RemoteEngine(options, directory, toy_codec(), Access(TOKEN)), tmp_path) as on:
            assert directory.failed
            assert await on.run(on.work("served")) == ["SERVED"]

    run(check)


def test_an_address_that_cannot_be_used_stops_no_other_one(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def check() -> None:
        directory = StaticDirectory({Role.EMBED: ["10.0.0.5:7001", start().address, "10.0.0.6:7001"]})
        options = {Role.EMBED: RemotePoolOptions()}
        async with bench(RemoteEngine(options, directory, toy_codec(), Access(TOKEN)), tmp_path) as on:
            assert await on.run(on.work("served")) == ["SERVED"]
        shown: list[Any] = [vars(record)["fields"] for record in caplog.records if record.msg == "engine-address"]
        assert sorted(fields["address"] for fields in shown) == ["10.0.0.5:7001", "10.0.0.6:7001"]
        assert {fields["kind"] for fields in shown} == {"ValueError"}

    run(check)


def test_an_entry_of_the_directory_that_cannot_be_read_stops_no_other_one() -> None:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            entries = [{"role": "unknown", "address": "a:1"}, "no entry", {"role": "embed", "address": "b:1"}]
            content = json.dumps({"workers": entries}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    async def check() -> None:
        with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            directory = HttpDirectory(f"http://127.0.0.1:{server.server_port}", Access(TOKEN))
            assert await directory.changed() == {Role.EMBED: ["b:1"]}
            await directory.close()
            server.shutdown()

    run(check)


def test_a_task_that_a_worker_cannot_read_is_refunded_and_those_beside_it_run(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        async with bench(remote_engine(start()), tmp_path) as on:
            busy = await on.busy()
            bad = await on.submit(Task(Work("bad", str(tmp_path), joined=[array("u", "x")]), 10), tenant="other")
            unchecked = await on.submit(on.work("unchecked"), tenant="third")
            beside = await on.submit(on.work("beside"))
            on.let_go("blocker")
            for call in (bad, unchecked):
                with pytest.raises(WorkerCold):
                    await call
            assert await asyncio.gather(busy, beside) == [["BLOCKER"], ["BESIDE"]]
            assert on.started == ["blocker", "beside"]

    run(check)


def unsendable(on: Bench, name: str, *, weight: int = 10) -> Task:
    return Task(Work(name, str(on.folder), joined=[object()]), weight)


def test_a_task_that_cannot_be_encoded_is_refunded_and_those_beside_it_run(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        async with bench(remote_engine(start()), tmp_path) as on:
            busy = await on.busy()
            bad = await on.submit(unsendable(on, "bad"), tenant="other")
            beside = await on.submit(on.work("beside"))
            on.let_go("blocker")
            with pytest.raises(WorkerCold):
                await bad
            assert await asyncio.gather(busy, beside) == [["BLOCKER"], ["BESIDE"]]
            with pytest.raises(TaskFailed):  # another task of the same request has started
                await on.run(on.work("first", weight=100), unsendable(on, "bad", weight=100))

    run(check)


def test_tasks_that_are_too_large_together_are_sent_apart(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check() -> None:
        async with bench(remote_engine(start()), tmp_path) as on:
            monkeypatch.setattr(replica, "BODY_BYTES_MAX", 1000)
            names = [f"{n}" + "x" * 500 for n in range(4)]
            assert await on.run(*map(on.work, names)) == [name.upper() for name in names]
            assert on.batches == [[name] for name in names]
            with pytest.raises(WorkerCold):
                await on.run(on.work("y" * 1000))

    run(check)


def test_a_batch_that_a_worker_fails_to_check_is_refunded(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        async with bench(remote_engine(start()), tmp_path) as on:
            with pytest.raises(WorkerCold):
                await on.run(on.work("unchecked"))
            assert await on.run(on.work("served")) == ["SERVED"]
            assert on.started == ["served"]

    run(check)


def test_a_wrong_token_or_another_version_is_refused(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        worker = start()
        stranger = remote_engine(worker, access=Access("another-token-of-workers"))
        async with bench(remote_engine(worker), tmp_path) as on, peer(worker) as other:
            await stranger.start()
            call = Peer(worker, token="another-token-of-workers").stream()
            assert await ended(call) == "UNAUTHENTICATED"
            other._metadata = Access(TOKEN).metadata(gateway="old", schema="0" * 64)
            assert await ended(other.stream()) == "INTERNAL"
            assert await on.run(on.work("served")) == ["SERVED"]
            assert not stranger.status(Role.EMBED).ready
            await stranger.stop()

    run(check)


def certificates(folder: Path) -> tuple[Path, Path, Path]:
    """An authority, and a certificate for a worker with its key."""
    folder.mkdir()
    now = datetime.datetime.now(datetime.UTC)

    def certificate(name: str, key: Any, issuer: str, signed_by: Any, *, ca: bool) -> Any:
        names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each)]) for each in (name, issuer)]
        builder = x509.CertificateBuilder(names[1], names[0], key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - datetime.timedelta(days=1))
        builder = builder.not_valid_after(now + datetime.timedelta(days=1))
        builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        return builder.sign(signed_by, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    authority, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    paths = folder / "ca.pem", folder / "own.pem", folder / "own.key"
    paths[0].write_bytes(certificate("authority", authority, "authority", authority, ca=True))
    paths[1].write_bytes(certificate("privacy-gateway-worker", own, "authority", authority, ca=False))
    pem, pkcs8, plain = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    paths[2].write_bytes(own.private_bytes(pem, pkcs8, plain))
    return paths


def test_with_tls_each_side_needs_a_certificate_of_the_authority(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        good, bad = certificates(tmp_path / "good"), certificates(tmp_path / "bad")
        worker = start(address=free_address(), tls=good)
        strangers = [
            remote_engine(worker, access=Access(TOKEN)),
            remote_engine(worker, access=Access(TOKEN, Tls(*bad))),
            remote_engine(worker, access=Access(TOKEN, Tls(good[0], *bad[1:]))),
        ]
        for stranger in strangers:
            await stranger.start()
        async with bench(remote_engine(worker, access=Access(TOKEN, Tls(*good))), tmp_path) as on:
            assert await on.run(on.work("served")) == ["SERVED"]
            await asyncio.sleep(1)
            assert not any(stranger.status(Role.EMBED).ready for stranger in strangers)
        for stranger in strangers:
            await stranger.stop()

    run(check)


def test_an_address_of_another_machine_needs_tls() -> None:
    with pytest.raises(ValueError, match="needs TLS"):
        Access(TOKEN).check("10.0.0.5:7001")
    Access(TOKEN, plain=True).check("10.0.0.5:7001")
    for address in ("127.0.0.1:7001", "localhost:7001", "[::1]:7001", "unix:/run/worker"):
        Access(TOKEN).check(address)
    with pytest.raises(ValueError, match="16 characters"):
        Access("short")


# Arrays


def test_large_arrays_come_and_go_in_parts(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        async with bench(remote_engine(start()), tmp_path) as on:
            rows = 600_000
            vectors = BlockArray(on.engine.arrays.block(rows * 16), "float32", (rows, 4))
            vectors.write_rows(np.arange(rows * 4, dtype=np.float32).reshape(rows, 4), 0)
            released = BlockArray(on.engine.arrays.block(200 * 8 + 8), "float16", (200, 4), 8)
            parts = [
                Work(f"part-{n}", str(tmp_path), vectors=vectors.rows(part), released=released.rows(part))
                for n, part in enumerate((slice(0, 100), slice(100, 200)))
            ]
            whole = BlockArray(on.engine.arrays.block(rows * 16), "float32", (rows, 4))
            small: Bench = on
            assert await small.run(small.divided("rows", *parts, completed=False)) == [["PART-0", "PART-1"]]
            assert (released.read() == (2 * vectors.read()[:200]).astype(np.float16)).all()
            handled = on.work("whole", vectors=vectors.rows(slice(0, 300_000)), released=whole)
            assert await on.run(handled) == ["WHOLE"]
            assert (whole.read()[:300_000] == 2 * vectors.read()[:300_000]).all()
            assert not whole.read()[300_000:].any()

    run(check)


def test_rows_between_those_of_a_batch_are_left_alone(start: Start, tmp_path: Path) -> None:
    """Another batch may have written them meanwhile."""

    async def check() -> None:
        async with bench(remote_engine(start()), tmp_path) as on:
            vectors, released = (BlockArray(on.engine.arrays.block(300 * 16), "float32", (300, 4)) for _ in range(2))
            vectors.write_rows(np.ones((300, 4), np.float32), 0)
            own = [
                {"vectors": vectors.rows(part), "released": released.rows(part)}
                for part in (slice(0, 100), slice(200, 300))
            ]
            batch = await on.submit(on.work("first", held=True, **own[0]), on.work("last", **own[1]))
            await on.has_started("first")
            released.write_rows(np.full((100, 4), 7, np.float32), 100)
            on.let_go("first")
            assert await batch == ["FIRST", "LAST"]
            assert on.batches == [["first", "last"]]
            assert [released.read()[row, 0] for row in (0, 99, 100, 199, 200, 299)] == [2, 2, 7, 7, 2, 2]

    run(check)
