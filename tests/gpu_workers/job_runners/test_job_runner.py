"""What a job runner refuses, what a gateway refuses of a job runner, and what ends with either of them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import held_job
import pytest
from grpc import aio
from held_gateway import Attempt, order, remote_places
from held_kit import KITS, Bench, HeldRunner, eventually, short_folder, until_gone
from held_runner import TOKEN, held_server

from core.files.encrypted_file import encrypt, new_key
from core.job_errors import JobFailed
from core.text.own_recognisers.stored import OwnReference, RecogniserFile
from core.text.policy import MaskPolicy
from gpu_workers.engine.remote.access import Access
from gpu_workers.engine.remote.frames import MESSAGE_BYTES_MAX, BadFrame, frame
from gpu_workers.infill.spec import InfillSpec
from gpu_workers.job_runners.frames import FILES_MAX, RUN, SERVICE, Kind, Listed, read
from gpu_workers.job_runners.kinds import JOB_SPECS, job_codec
from gpu_workers.job_runners.order import Order
from gpu_workers.job_runners.places import RemotePlaces
from gpu_workers.job_runners.process import RemoteProcess
from gpu_workers.job_runners.server import JobRunnerServer
from gpu_workers.jobs.messages import Failed, Progress, Succeeded
from gpu_workers.jobs.places import Displaced, FilesChanged


@pytest.fixture(autouse=True)
def kits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let processes of jobs import the held kind, as long as a test runs."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(KITS), str(KITS.parents[1])]))
    held_job.add_kind()
    yield
    held_job.remove_kind()


@pytest.fixture
def address() -> Iterator[str]:
    with short_folder() as folder:
        yield f"unix:{folder}/runner"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "bench")


@asynccontextmanager
async def runner(address: str, folder: Path, **options: Any) -> AsyncIterator[JobRunnerServer]:
    """A runner in this process."""
    server = held_server(address, folder / "job-runs", **options)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
        assert not [path for path in (folder / "job-runs").iterdir() if path.is_dir()]


@asynccontextmanager
async def gateway(address: str, folder: Path, **options: Any) -> AsyncIterator[RemotePlaces]:
    places = remote_places(address, folder, **options)
    await places.start()
    try:
        yield places
    finally:
        await places.stop()


async def until(look: Callable[[], Any]) -> None:
    async with asyncio.timeout(240):
        while not look():
            await asyncio.sleep(0.02)


def test_a_job_runs_with_its_files_and_leaves_none(address: str, bench: Bench, tmp_path: Path) -> None:
    async def main() -> None:
        async with runner(address, tmp_path) as server, gateway(address, tmp_path / "jobs") as places:
            job = order(tmp_path / "jobs", bench.folder, "one", more_bytes=5_000_000)
            attempt = Attempt(await places.take(), job)
            await until(lambda: any(isinstance(each, Progress) and each.stage == "held" for each in attempt.messages))
            last = [type(each) for each in attempt.messages]
            assert FilesChanged in last[: last.index(Progress, 3)]
            assert {path.name for path in job.folder.iterdir()} == {"key", "spec", "owner", "release", "more"}
            assert (job.folder / "more").stat().st_size > 5_000_000
            assert (job.folder / "key").read_text() == "key of the gateway"
            assert server.state.free == 0
            bench.let_go("one")
            done = await attempt.until(Succeeded)
            assert done.result["kept"] is True
            assert (job.folder / "out" / "one.safetensors").is_file()
            assert (job.folder / "out" / "one.md").read_text() == "# Held\n"
            assert attempt.process is not None
            await attempt.process.stop()
            await until(lambda: server.state.free == 1)

    asyncio.run(main())


def test_without_the_token_or_of_another_version_nothing_is_granted(address: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with runner(address, tmp_path):
            for token, schema in (("another-token-of-gateways", job_codec().schema), (TOKEN, "another schema")):
                access = Access(token)
                async with access.channel(address) as channel:
                    call = channel.stream_stream(f"/{SERVICE}/{RUN}")(
                        metadata=access.metadata(gateway="g", schema=schema)
                    )
                    with pytest.raises(aio.AioRpcError):
                        await granted(call)
            async with gateway(address, tmp_path, token="another-token-of-gateways") as places:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(3):
                        await places.take()
                assert places.stage == "no job runner can be reached"

    asyncio.run(main())


async def granted(call: Any) -> bytes:
    """The first message of a call. Raises its error."""
    if (message := await call.read()) is aio.EOF:
        await call  # raises
    found: bytes = message
    return found


def test_a_runner_of_other_code_is_not_used(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with runner(address, tmp_path):
            monkeypatch.setitem(JOB_SPECS, "more:run", JobFailed)  # the gateway has one more class
            async with gateway(address, tmp_path) as places:
                await until(lambda: places.stage == "all job runners are of another version")
                assert not places._used

    monkeypatch.setattr("gpu_workers.job_runners.kinds.Codec", CodecOfClasses)
    asyncio.run(main())


class CodecOfClasses:
    """A codec whose schema is the number of its classes."""

    def __init__(self, table: Any, *, code: str) -> None:
        self.schema = f"{len(table)} classes"


def test_full_draining_and_low_runners_grant_nothing(address: str, bench: Bench, tmp_path: Path) -> None:
    async def main() -> None:
        async with runner(address, tmp_path) as server, gateway(address, tmp_path / "jobs") as places:
            place = await places.take()
            (used,) = places._runners.values()
            assert await used.ask() is None
            place.release()
            await until(lambda: server.state.free == 1)
            (tmp_path / "full").touch()
            await until(lambda: server.state.stage == "too little free disk space")
            assert await used.ask() is None
            (tmp_path / "full").unlink()
            job = order(tmp_path / "jobs", bench.folder, "leaves")
            attempt = Attempt(await places.take(), job)
            await asyncio.to_thread(bench.held, "leaves")
            await server.drain()
            assert await attempt.until(Displaced) == Displaced()
            assert (job.folder / "release").is_file()
            assert await used.ask() is None

    asyncio.run(main())


async def ordered(channel: aio.Channel, size: int, *, seconds_max: float = 600.0) -> Any:
    """The call of a gateway that has ordered a job with an input of this size, sent a byte of it, and is silent."""
    metadata = Access(TOKEN).metadata(gateway="g", schema=job_codec().schema)
    call: Any = channel.stream_stream(f"/{SERVICE}/{RUN}")(metadata=metadata)
    assert read(await granted(call))[0] is Kind.GRANT
    order = Order(held_job.ENTRY_POINT, b"", b"", "idle", 0, seconds_max, [Listed("input", size)], [], [])
    await call.write(order.message())
    await call.write(bytes([Kind.PART]) + b"x")
    return call


@pytest.mark.parametrize("size", [10, 2_000_000], ids=["a file", "more than a job may have"])
def test_a_gateway_that_is_silent_amid_its_files_keeps_neither_a_place_nor_a_runner_that_drains(
    size: int, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_workers.job_runners.hosted.PART_S_MAX", 0.5)

    async def main() -> None:
        async with runner(address, tmp_path, bytes_max=1_000_000) as server, Access(TOKEN).channel(address) as channel:
            first = await ordered(channel, size)
            await until(lambda: server.state.free == 1)
            second = await ordered(channel, size)
            async with asyncio.timeout(240):
                await server.drain()
            for call in (first, second):
                call.cancel()

    asyncio.run(main())


def test_the_time_of_a_job_includes_that_of_its_files(address: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with runner(address, tmp_path), Access(TOKEN).channel(address) as channel:
            call = await ordered(channel, 10, seconds_max=0.2)
            async with asyncio.timeout(240):
                kind, problem = read(await granted(call))
            assert (kind, problem[2]) == (Kind.FAILED, "time-limit")

    asyncio.run(main())


def test_orders_that_are_refused(address: str, bench: Bench, tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            runner(address, tmp_path, bytes_max=2_500_000) as server,
            gateway(address, tmp_path / "jobs") as places,
        ):
            unknown = order(tmp_path / "jobs", bench.folder, "unknown", entry_point="os:system")
            failed = await Attempt(await places.take(), unknown).until(Failed)
            assert failed.problem.reason == "unknown-kind"
            await until(lambda: server.state.free == 1)
            other = order(tmp_path / "jobs", bench.folder, "other", spec=held_job.HeldSpec("", "", ("/etc/x",)))
            assert (await Attempt(await places.take(), other).until(Failed)).problem.reason == "unknown-kind"
            await until(lambda: server.state.free == 1)
            large = order(tmp_path / "jobs", bench.folder, "large", text="x" * 3_000_000)
            failed = await Attempt(await places.take(), large).until(Failed)
            assert failed.problem.reason == "storage-full"
            await until(lambda: server.state.free == 1)
            slow = order(tmp_path / "jobs", bench.folder, "slow")
            failed = await Attempt(await places.take(), slow, seconds_max=0.1).until(Failed)
            assert failed.problem.reason == "time-limit"

    asyncio.run(main())


def test_a_recogniser_of_the_gateway_travels_with_the_job(address: str, tmp_path: Path) -> None:
    """It is read from the runner's folder, with the key that a mask has of it."""

    async def main() -> None:
        key = new_key()
        encrypt(tmp_path / "badges", key, "badges", b"{}\na pattern")
        file = RecogniserFile(str(tmp_path / "badges"), "0" * 64, key, "badges")
        policy = MaskPolicy(own=(OwnReference("badge", "BADGE", file),))
        folder = tmp_path / "jobs" / "own"
        spec = InfillSpec("own", (str(folder / "out/own.safetensors"),), policy, "topk", 10, 1, 20)
        async with runner(address, tmp_path / "runner") as server, gateway(address, tmp_path / "jobs") as places:
            job = order(tmp_path / "jobs", tmp_path, "own", entry_point="held_job:read_own", spec=spec)
            done = await Attempt(await places.take(), job).until(Succeeded)
            read_at = Path(done.result["path"])
            assert (done.result["definition"], read_at.parent.name) == ("a pattern", "needed")
            await until(lambda: server.state.free == 1)
            assert not read_at.exists()
            (tmp_path / "badges").unlink()
            again = order(tmp_path / "jobs", tmp_path, "again", entry_point="held_job:read_own", spec=spec)
            spec_of_again = replace(spec, targets=(str(again.folder / "out/x.safetensors"),))
            failed = await Attempt(await places.take(), replace(again, spec=spec_of_again)).until(Failed)
            assert failed.problem.code == "job-files-lost"

    asyncio.run(main())


@pytest.mark.parametrize(
    "files",
    [
        [["../x", 1]],
        [["/etc/x", 1]],
        [["key", 1]],
        [["run.lock", 1]],
        [[".x", 1]],
        [["a", 1], ["a", 1]],
        [["a", -1]],
        [["a", "1"]],
        [[f"f{n}", 0] for n in range(20_000)],
        "a",
    ],
)
def test_files_that_a_runner_does_not_take(files: Any) -> None:
    body = vars(Order("e:f", b"", b"", "idle", 0, 1.0, [], [], [])) | {"files": files}
    with pytest.raises(BadFrame):
        Order.of(frame(Kind.ORDER, body))
    with pytest.raises(BadFrame):
        Order.of(frame(Kind.ORDER, body | {"files": [], "needed": files}))
    with pytest.raises(BadFrame):
        Order.of(frame(Kind.ORDER, body | {"files": [], "outputs": [str(files[0][0])]}))


class FalseRunner:
    """The call of a runner that sends what a test says."""

    def __init__(self, *messages: bytes) -> None:
        self._messages = list(messages)
        self.sent: list[Kind] = []

    async def read(self) -> Any:
        return self._messages.pop(0) if self._messages else aio.EOF

    async def write(self, message: bytes) -> None:
        self.sent.append(read(message)[0])

    def cancel(self) -> None:
        self._messages.clear()


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        (frame(Kind.FILES, [[["../x", 1]], []]), [b"x"]),
        (frame(Kind.FILES, [[["/tmp/x", 1]], []]), [b"x"]),
        (frame(Kind.FILES, [[["key", 1]], []]), [b"x"]),
        (frame(Kind.FILES, [[["owner", 1]], []]), [b"x"]),
        (frame(Kind.FILES, [[["out/other.safetensors", 1]], []]), [b"x"]),
        (frame(Kind.FILES, [[], ["../outside"]]), []),
        (frame(Kind.FILES, [[], ["key"]]), []),
        (frame(Kind.FILES, [[["a", 2001]], []]), [b"x" * 2001]),
        (frame(Kind.FILES, [[["a", 3]], []]), [b"xxxx"]),
        (frame(Kind.FILES, [[["a", 3]], []]), []),
        (frame(Kind.PROGRESS, ["Dear Ms Smith, ...", 0.5, None]), []),
        (frame(Kind.PROGRESS, ["held", 1.5, None]), []),
        (frame(Kind.PROGRESS, ["held", 0.5, {"secret": 1.0}]), []),
        (frame(Kind.FAILED, ["internal", "x", "y", None, None]), []),
        (frame(Kind.SUCCEEDED, "yes"), []),
        (frame(Kind.GRANT), []),
        (b"", []),
    ],
)
def test_messages_that_a_gateway_does_not_take(
    message: bytes, parts: list[bytes], bench: Bench, tmp_path: Path
) -> None:
    """They end the attempt as the death of its process does, and change nothing."""
    outside = tmp_path / "jobs" / "outside"

    async def main() -> None:
        job = order(tmp_path / "jobs", bench.folder, "one")
        outside.touch()
        before = {path.name: path.read_bytes() for path in job.folder.iterdir()}
        call = FalseRunner(message, *(bytes([Kind.PART]) + part for part in parts))
        came: list[Any] = []
        process = RemoteProcess(
            call, job_codec(), job, staging=tmp_path / "jobs", bytes_max=2000, seconds_max=9,
            on_message=came.append, on_death=lambda: came.append("died"), on_end=lambda: None,
        )  # fmt: skip
        await until(lambda: came)
        assert came == ["died"]
        await process.stop()
        assert {path.name: path.read_bytes() for path in job.folder.iterdir()} == before
        assert sorted(path.name for path in (tmp_path / "jobs").iterdir()) == ["one", "outside"]

    asyncio.run(main())


@pytest.mark.parametrize("too_large", ["parameters", "files"])
def test_an_order_that_no_runner_could_receive_fails_the_job_and_is_not_sent(
    too_large: str, bench: Bench, tmp_path: Path
) -> None:
    """A message or list above the limits would end the stream, and with it one attempt after the other."""

    async def main() -> None:
        job = order(tmp_path / "jobs", bench.folder, "one")
        if too_large == "parameters":
            job = replace(job, spec=replace(job.spec, name="x" * MESSAGE_BYTES_MAX))
        else:
            for number in range(FILES_MAX):
                (job.folder / f"f{number}").touch()
        call = FalseRunner()
        came: list[Any] = []
        RemoteProcess(
            call, job_codec(), job, staging=tmp_path, bytes_max=2000, seconds_max=9,
            on_message=came.append, on_death=lambda: came.append("died"), on_end=lambda: None,
        )  # fmt: skip
        await until(lambda: "died" in came)
        assert [type(each) for each in came] == [Failed, str], came
        assert came[0].problem.reason == "order-too-large"
        assert call.sent == []

    asyncio.run(main())


def test_a_place_that_is_lost_before_the_order_is_no_attempt(bench: Bench, tmp_path: Path) -> None:
    class Lost(FalseRunner):
        async def write(self, message: bytes) -> None:
            raise asyncio.CancelledError

    async def main() -> None:
        came: list[Any] = []
        job = order(tmp_path / "jobs", bench.folder, "one")
        (job.folder / "release").write_bytes(bytes(10))
        RemoteProcess(
            Lost(), job_codec(), job, staging=tmp_path, bytes_max=2000, seconds_max=9,
            on_message=came.append, on_death=lambda: came.append("died"), on_end=lambda: None,
        )  # fmt: skip
        await until(lambda: len(came) == 2)
        assert came == [Displaced(), "died"]

    asyncio.run(main())


@pytest.mark.slow("crash")
def test_a_gateway_that_is_killed_or_frozen_ends_its_process(address: str, bench: Bench, tmp_path: Path) -> None:
    one = HeldRunner(address, tmp_path / "runner")
    try:
        for name, signals in (("killed", [signal.SIGKILL]), ("frozen", [signal.SIGSTOP])):
            arguments = [address, str(tmp_path / "jobs"), str(bench.folder), name]
            process = subprocess.Popen([sys.executable, str(KITS / "held_gateway.py"), *arguments])
            pid, work = bench.held(name), bench.work(name)
            assert one.folders
            for number in signals:
                process.send_signal(number)
            until_gone(pid, work)
            eventually(lambda: not one.folders)
            process.kill()
            process.wait()
    finally:
        one.end()


@pytest.mark.slow("crash")
def test_runners_of_one_folder_remove_what_dead_ones_left_and_no_more(bench: Bench, tmp_path: Path) -> None:
    with short_folder() as sockets:
        runners = [HeldRunner(f"unix:{sockets}/{n}", tmp_path / "shared") for n in range(2)]
        client = subprocess.Popen(
            [sys.executable, str(KITS / "held_gateway.py"), runners[0].address, str(tmp_path / "jobs"),
             str(bench.folder), "lives"]
        )  # fmt: skip
        try:
            bench.held("lives")
            work = bench.work("lives")
            (left,) = runners[0].folders
            runners[1].kill()
            dead = [path for path in (tmp_path / "shared/job-runs").iterdir() if path.is_dir() and path != left.parent]
            runners[1].start()
            eventually(lambda: dead and not any(path.exists() for path in dead))
            assert work.is_dir()
        finally:
            client.kill()
            client.wait()
            for each in runners:
                each.end()
