"""Files and matrices that a worker server gets from its gateways by their SHA-256, over real connections.

The workers read nothing of the gateway's folder: they keep their files in one of their own.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from counting_relay import Relay, relay
from engine_kit import TOKEN, Bench, ToyWorker, bench, free_address, remote_engine, toy_codec
from grpc import aio

from core.errors import ClientGone, WorkerCold
from core.files.file_version import FileVersion, file_digest
from gpu_workers.engine import metrics
from gpu_workers.engine.arrays import BlockArray
from gpu_workers.engine.constants import group_of_tenant
from gpu_workers.engine.protocol import Role
from gpu_workers.engine.remote.access import Access
from gpu_workers.engine.remote.frames import BRING, SERVICE, Kind, frame, read

Start = Callable[..., ToyWorker]
SIZE = 60_000


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[ToyWorker] = []

    def start(**options: Any) -> ToyWorker:
        started.append(ToyWorker("ToyHandler", **options))
        return started[-1]

    yield start
    for worker in started:
        worker.end()


def run(check: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await asyncio.wait_for(check(), 300)

    asyncio.run(main())


def stored(folder: Path, tenant: str, letter: str, *, size: int = SIZE) -> FileVersion:
    """A file of a tenant in the data directory of a gateway."""
    path = folder / "gateway/cache/domains/tenants" / tenant / f"{letter}.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(letter * size)
    return FileVersion(str(path), file_digest(path))


def kept(folder: Path) -> list[str]:
    """The digests of what a worker keeps."""
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and path.name != "lock")


@asynccontextmanager
async def counted(worker: ToyWorker, folder: Path) -> AsyncIterator[tuple[Bench, Relay]]:
    """A gateway's engine, and what it sends to a worker."""
    async with relay(worker.address) as passed, bench(remote_engine(worker, at=[passed.address]), folder) as on:
        yield on, passed


def test_a_file_is_sent_once_and_survives_a_restart_of_the_worker(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        address, files = free_address(), tmp_path / "worker"
        worker = start(address=address, files_dir=files)
        pack = stored(tmp_path, "acme", "a", size=3_000_000)
        async with counted(worker, tmp_path) as (on, passed):
            assert await on.run(on.work("first", pack=pack)) == [f"FIRST {'a' * 3_000_000}"]
            assert kept(files) == [pack.digest]
            assert 3_000_000 < passed.sent < 3_200_000
            before = passed.sent
            await asyncio.gather(*(on.run(on.work(f"w{n}", pack=pack)) for n in range(5)))
            assert passed.sent - before < 100_000
            worker.process.kill()
            worker.process.wait()
            await until(lambda: not on.engine.status(Role.EMBED).ready)
            start(address=address, files_dir=files)
            await on.ready()
            before = passed.sent
            await on.run(on.work("again", pack=pack))
            assert passed.sent - before < 100_000
            assert on.started == ["first", *(f"w{n}" for n in range(5)), "again"]

    run(check)


async def until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0.02)


def test_what_was_evicted_since_is_sent_again_and_the_task_runs_once(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        files = tmp_path / "worker"
        worker = start(address=free_address(), files_dir=files, files_bytes=100_000)
        one, two = stored(tmp_path, "one", "a"), stored(tmp_path, "two", "b")
        async with counted(worker, tmp_path) as (on, passed):
            for name, pack in (("first", one), ("second", two)):
                await on.run(on.work(name, pack=pack), tenant=name)
            assert kept(files) == [two.digest]
            before = passed.sent
            assert await on.run(on.work("third", pack=one)) == [f"THIRD {'a' * SIZE}"]
            assert passed.sent - before > SIZE
            assert kept(files) == [one.digest]
            assert on.started == ["first", "second", "third"]

    run(check)


def test_a_worker_that_dies_between_the_file_and_the_batch_costs_nothing(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        address, files = free_address(), tmp_path / "worker"
        worker = start(address=address, files_dir=files)
        pack = stored(tmp_path, "acme", "a")
        async with bench(remote_engine(worker), tmp_path) as on:
            await on.engine.prepare(Role.EMBED, [on.work("brought", pack=pack)], timeout_s=240)
            assert kept(files) == [pack.digest]
            assert not on.started
            worker.process.kill()
            worker.process.wait()
            await until(lambda: not on.engine.status(Role.EMBED).ready)
            start(address=address, files_dir=tmp_path / "empty")
            await on.ready()
            assert await on.run(on.work("brought", pack=pack)) == [f"BROUGHT {'a' * SIZE}"]
            assert on.started == ["brought"]

    run(check)


def test_what_this_gateway_has_lost_is_refused_before_anything_is_reserved(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        files = tmp_path / "worker"
        async with bench(remote_engine(start(files_dir=files)), tmp_path) as on:
            gone, other = stored(tmp_path, "acme", "a"), stored(tmp_path, "acme", "b")
            Path(gone.path).unlink()
            Path(other.path).write_text("c" * SIZE)  # corrupted
            for pack in (gone, other):
                task = on.work("lost", pack=pack)
                with pytest.raises(WorkerCold):
                    await on.engine.prepare(Role.EMBED, [task], timeout_s=240)
                with pytest.raises(WorkerCold):
                    await on.run(task)
            assert not kept(files)
            assert not list(files.rglob("*.partial"))
            assert await on.run(on.work("served")) == ["SERVED"]
            assert on.started == ["served"]

    run(check)


def test_a_file_that_a_worker_cannot_keep_stops_nobody_else(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        worker = start(files_dir=tmp_path / "worker", files_bytes=10_000)
        refused = metrics.FILES_REFUSED.labels(Role.EMBED, "too-large")
        before = refused._value.get()
        async with bench(remote_engine(worker), tmp_path) as on:
            large, small = stored(tmp_path, "large", "a"), stored(tmp_path, "small", "b", size=100)
            busy = await on.busy()
            calls = [
                await on.submit(on.work("large", pack=large), tenant="large"),
                await on.submit(on.work("small", pack=small), tenant="small"),
                await on.submit(on.work("plain"), tenant="plain"),
            ]
            on.let_go("blocker")
            results = await asyncio.gather(busy, *calls, return_exceptions=True)
            assert isinstance(results[1], WorkerCold)
            assert results[2:] == [[f"SMALL {'b' * 100}"], ["PLAIN"]]
            with pytest.raises(WorkerCold):
                await on.engine.prepare(Role.EMBED, [on.work("large", pack=large)], timeout_s=240)
            assert "large" not in on.started
        assert refused._value.get() > before

    run(check)


def test_a_further_worker_gets_a_file_when_the_first_is_busy(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        folders = [tmp_path / "one", tmp_path / "two"]
        workers = [start(files_dir=folder) for folder in folders]
        async with bench(remote_engine(*workers), tmp_path) as on:
            pool: Any = on.engine._pools[Role.EMBED]  # type: ignore[attr-defined]
            await until(lambda: all(replica.ready for replica in pool._replicas.values()))
            pack = stored(tmp_path, "acme", "a", size=10)
            await on.engine.prepare(Role.EMBED, [on.work("any", pack=pack)], timeout_s=240)
            assert sorted(map(kept, folders)) == [[], [pack.digest]]
            busy = asyncio.ensure_future(on.run(on.work("held", weight=200, held=True, pack=pack)))
            await on.has_started("held")
            assert await on.run(on.work("beside", weight=100, pack=pack)) == [f"BESIDE {'a' * 10}"]
            assert list(map(kept, folders)) == [[pack.digest]] * 2
            on.let_go("held")
            await busy

    run(check)


def test_a_task_that_waits_for_its_file_has_not_started(start: Start, tmp_path: Path) -> None:
    """A client that leaves then is not charged, and others run meanwhile."""

    async def check() -> None:
        async with bench(remote_engine(start()), tmp_path) as on:
            pool: Any = on.engine._pools[Role.EMBED]  # type: ignore[attr-defined]
            (replica,) = pool._replicas.values()
            pack = stored(tmp_path, "acme", "a")
            async with replica.objects._turn(group_of_tenant("acme")):  # another file of the tenant is under way
                left = asyncio.Event()
                waiting = await on.submit(on.work("waiting", pack=pack), client_disconnected=left)
                assert await on.run(on.work("other"), tenant="other") == ["OTHER"]
                left.set()
                with pytest.raises(ClientGone):
                    await waiting
            assert on.started == ["other"]

    run(check)


def test_a_matrix_is_sent_once(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        worker = start(address=free_address(), files_dir=tmp_path / "worker")
        rows = 100_000
        async with counted(worker, tmp_path) as (on, passed):
            matrix = BlockArray(on.engine.arrays.block(rows * 16), "float32", (rows, 4))
            matrix.write_rows(np.arange(rows * 4, dtype=np.float32).reshape(rows, 4), 0)
            matrix.block.freeze(group_of_tenant("acme"))
            sent = []
            for name in ("first", "second"):
                released = BlockArray(on.engine.arrays.block(rows * 16), "float32", (rows, 4))
                before = passed.sent
                assert await on.run(on.work(name, vectors=matrix, released=released)) == [name.upper()]
                sent.append(passed.sent - before)
                assert (released.read() == 2 * matrix.read()).all()
            assert sent[0] > matrix.nbytes
            assert sent[1] < 10_000
            assert kept(tmp_path / "worker") == [hashlib.sha256(matrix.read().tobytes()).hexdigest()]

    run(check)


HOSTILE = (
    [frame(Kind.NEED)],
    [frame(Kind.NEED, ["../../etc", "0" * 64, 1])],
    [frame(Kind.NEED, ["0" * 32, "../" + "0" * 61, 1])],
    [frame(Kind.NEED, ["0" * 32, "0" * 64, -1])],
    [frame(Kind.NEED, ["0" * 32, "0" * 64, 1 << 41])],
    [frame(Kind.NEED, ["0" * 32, "0" * 64, 4]), bytes([Kind.PART]) + b"12345"],
    [frame(Kind.NEED, ["0" * 32, "0" * 64, 4]), bytes([Kind.PART])],
    [bytes([Kind.PART]) + b"unnamed"],
    [frame(Kind.ASK)],
)


def test_what_breaks_the_protocol_leaves_nothing(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        files = tmp_path / "worker"
        worker = start(files_dir=files)
        async with bench(remote_engine(worker), tmp_path) as on:
            for sent in HOSTILE:
                async with stream(worker) as call:
                    for message in sent:
                        await call.write(message)
                    with suppress(aio.AioRpcError):
                        while await call.read() is not aio.EOF:
                            pass
                    assert (await call.code()).name == "INTERNAL"
            assert await on.run(on.work("served")) == ["SERVED"]
            assert not kept(files)

    run(check)


def test_other_content_than_was_named_is_refused_and_nothing_is_read_back(start: Start, tmp_path: Path) -> None:
    async def check() -> None:
        files = tmp_path / "worker"
        worker = start(files_dir=files)
        own, wrong = b"content", b"another"
        named = ["0" * 32, hashlib.sha256(own).hexdigest(), len(own)]
        async with bench(remote_engine(worker), tmp_path), stream(worker) as call:
            for content, answer in ((wrong, (Kind.NOT_KEPT, "wrong-content")), (own, (Kind.KEPT, None))):
                await call.write(frame(Kind.NEED, named))
                assert read(await call.read()) == (Kind.SEND, None)
                await call.write(bytes([Kind.PART]) + content)
                assert read(await call.read()) == answer
            assert kept(files) == [named[1]]
            await call.write(frame(Kind.NEED, named))
            assert read(await call.read()) == (Kind.KEPT, None)
            await call.write(frame(Kind.NEED, ["1" * 32, *named[1:]]))
            assert read(await call.read()) == (Kind.SEND, None), "another tenant's group tells nothing"

    run(check)


@asynccontextmanager
async def stream(worker: ToyWorker) -> AsyncIterator[Any]:
    """A stream that brings objects, driven message by message."""
    access = Access(TOKEN)
    channel = access.channel(worker.address)
    call = channel.stream_stream(f"/{SERVICE}/{BRING}")(
        metadata=access.metadata(gateway="peer", schema=toy_codec().schema)
    )
    yield call
    call.cancel()
    await channel.close()
