"""What `test_ray_serve.py` runs beside a Ray cluster, in this order."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import held_job
import httpx
import pytest
from engine_kit import DIRECTORY, SECRET, TOKEN, Bench, bench, toy_engine
from gateway_kit import until_ended
from held_gateway import Attempt, order
from held_kit import Bench as JobBench
from held_kit import eventually

from core.errors import DeadlineBeforeStart, TaskFailed, WorkerCold, WorkerDied
from gpu_workers.engine.protocol import Role
from gpu_workers.engine.remote.access import Access
from gpu_workers.engine.remote.directory import HttpDirectory
from gpu_workers.job_runners.kinds import job_codec
from gpu_workers.job_runners.places import RemotePlaces
from gpu_workers.jobs.messages import Progress, Succeeded

ROOT = Path(__file__).parents[3]
BIN = Path(sys.executable).parent
SESSION = Path(os.environ["TOY_RAY_SESSION"])
CONTRACT = ROOT / "tests/gpu_workers/engine/test_engine_contract.py"


def command(*arguments: str) -> str:
    ran = subprocess.run([str(BIN / arguments[0]), *arguments[1:]], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    return ran.stdout


def workers(embed: int | str, *options: str) -> None:
    """Start the workers and a job runner, or change their number. `embed`: a number, or a range MIN-MAX."""
    roles = [f"--role=embed={embed},0.1", "--role=sanitize=1,0.1", "--role=jobs=1,0.1"]
    command("privacy-gateway", "workers", "start", "--server", "toy_ray:toy_server", *roles, *options)


def status() -> dict[str, Any]:
    return json.loads(command("privacy-gateway", "workers", "status", "--json"))["roles"]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> None:
    options = ["--head", "--include-dashboard=false", "--num-cpus=4", "--object-store-memory=100000000"]
    command("ray", "start", *options, "--node-ip-address=127.0.0.1", f"--temp-dir={SESSION}", "--disable-usage-stats")
    workers(1)
    # the namespace of processes ends with the tests


def run(check: Callable[[Bench], Awaitable[None]], folder: Path) -> None:
    async def main() -> None:
        async with bench(toy_engine("ray"), folder) as on:
            await asyncio.wait_for(check(on), 240)

    asyncio.run(main())


def replicas(on: Bench) -> list[Any]:
    pool: Any = on.engine._pools[Role.EMBED]  # type: ignore[attr-defined]
    return [replica for replica in pool._replicas.values() if replica.ready]


def server_of(on: Bench) -> int:
    """The process of a Ray replica, which is the parent of the handler's process."""
    (replica,) = replicas(on)
    return int(Path(f"/proc/{replica.state.pid}/stat").read_text().rpartition(")")[2].split()[1])


def listed() -> list[str]:
    headers = {"privacy-gateway-token": TOKEN}
    found = httpx.get(DIRECTORY, headers=headers, trust_env=False, timeout=60).json()["workers"]
    return [worker["address"] for worker in found if worker["role"] == "embed"]


async def until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0.05)


def test_the_contract_of_all_engines_holds() -> None:
    """In a process of its own. The two tests that need a handler that cannot load are those of the remote engine."""
    options = ["-q", "--all", "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout", "120", "-k", "not cannot_load"]
    ran = subprocess.run([sys.executable, "-m", "pytest", *options, str(CONTRACT)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-5000:]


def test_the_directory_needs_the_token() -> None:
    for headers in ({}, {"privacy-gateway-token": "another-token-of-workers"}):
        assert httpx.get(DIRECTORY, headers=headers, trust_env=False, timeout=60).status_code == 401
    assert len(listed()) == 1
    assert status()["embed"]["replicas"] == {"RUNNING": 1}


def test_a_replica_that_is_killed_in_a_call_spends_it_and_is_started_again(tmp_path: Path) -> None:
    async def check(on: Bench) -> None:
        busy = await on.busy()
        waiting = await on.submit(on.work("waiting"))
        os.kill(server_of(on), signal.SIGKILL)
        with pytest.raises(WorkerDied):
            await busy
        assert await waiting == ["WAITING"]
        assert on.started == ["blocker", "waiting"]

    run(check, tmp_path)


def test_a_drain_under_load_loses_nothing(tmp_path: Path) -> None:
    workers(2)

    async def check(on: Bench) -> None:
        await until(lambda: len(replicas(on)) == 2)
        drained = asyncio.ensure_future(asyncio.to_thread(workers, 1))
        names = []
        while not drained.done() or len(listed()) > 1:
            own = [f"work-{len(names) + n}" for n in range(12)]
            names += own
            calls = [on.run(on.work(name, weight=40)) for name in own]
            assert await asyncio.gather(*calls) == [[name.upper()] for name in own]
        await drained
        assert sorted(on.started) == sorted(names), "each once"
        await until(lambda: len(replicas(on)) == 1)

    run(check, tmp_path)


def test_load_starts_a_second_worker_which_drains_when_the_load_has_ended(tmp_path: Path) -> None:
    """The batches of two gateways take both slots of the one worker. When one batch has ended, one worker is enough.
    Ray Serve may end the one that runs the other batch."""
    workers("1-4", "--target-load=1.3", "--scale-up-s=1", "--scale-down-s=1", "--load-s=11")
    with pytest.raises(AssertionError, match="job runners is fixed"):
        workers("1-2", "--role=jobs=1-2,0.1")
    unfit = Path(os.environ["TOY_RAY_JOBS"]) / "unfit"
    unfit.touch()  # a further worker cannot start, until this file is removed

    async def check(on: Bench) -> None:
        async with bench(toy_engine("ray"), tmp_path) as other:
            first = await on.busy("first")
            second = await other.submit(other.work("second", weight=200, held=True))
            while "this device is unfit" not in (shown := await asyncio.to_thread(status))["embed"]["message"]:
                await asyncio.sleep(0.5)
            assert sum(shown["embed"]["replicas"].values()) <= 2, "no further ones while one cannot start"
            unfit.unlink()
            await until(lambda: len(listed()) == 2 and len(replicas(on)) == 2)
            assert await on.run(on.work("third")) == ["THIRD"], "by the second worker"
            shown = await asyncio.to_thread(status)
            assert (shown["embed"]["replicas_min"], shown["embed"]["replicas_max"]) == (1, 4)
            assert 0 < shown["embed"]["load"] <= 2
            on.let_go("first")
            assert await first == ["FIRST"]
            await until(lambda: len(replicas(on)) == 1)
            on.let_go("second")
            assert await second == ["SECOND"], "a worker that drains finishes what it has"
            await until(lambda: len(listed()) == 1)
            assert sorted(on.started) == ["first", "second", "third"], "each once"

    run(check, tmp_path)
    workers("1-2", "--scale-up-s=86400")  # the load is reported from now on, and the number stays


def test_a_job_ends_with_its_replica_and_continues_in_the_next_one(tmp_path: Path) -> None:
    """With the noise that it has drawn. The same gateway orders both attempts."""
    hold = JobBench(tmp_path / "bench")

    async def main() -> None:
        directory = HttpDirectory(DIRECTORY, Access(TOKEN, plain=True))
        async with asyncio.timeout(240):
            places = RemotePlaces(
                directory, job_codec(), Access(TOKEN, plain=True), staging=tmp_path, bytes_max=1 << 20
            )
            await places.start()
            job = order(tmp_path / "jobs", hold.folder, "job", text=SECRET)
            first = Attempt(await places.take(), job)
            pid, work = await asyncio.to_thread(hold.held, "job"), hold.work("job")
            hold.forget("job")
            # What the job wrote before this message has reached the gateway.
            await until(lambda: any(isinstance(each, Progress) and each.stage == "held" for each in first.messages))
            replica = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            os.kill(replica, signal.SIGKILL)
            assert await first.until("died") == "died"
            assert (job.folder / "release").is_file()
            await asyncio.to_thread(until_ended, pid)
            hold.let_go("job")
            done = await Attempt(await places.take(), job).until(Succeeded)
            assert [str(done.result["count"] - 1)] == hold.drawn("job")
            await asyncio.to_thread(eventually, lambda: not work.exists(), "the next replica removes the folder")
            await places.stop()

    held_job.add_kind()
    asyncio.run(main())


def test_no_text_is_in_a_file_or_log_of_ray(tmp_path: Path) -> None:
    async def check(on: Bench) -> None:
        await on.run(on.work(f"served-{SECRET}"))
        with pytest.raises(TaskFailed):
            await on.run(on.work(f"failing-{SECRET}", fails="raise"))
        with pytest.raises(WorkerDied):
            await on.run(on.work(f"dying-{SECRET}", fails="death"))
        await on.ready()
        busy = await on.busy(f"killed-{SECRET}")
        os.kill(server_of(on), signal.SIGKILL)
        with pytest.raises(WorkerDied):
            await busy
        await until(lambda: bool(replicas(on)))

    run(check, tmp_path)
    control = SESSION / "control"
    control.write_text(SECRET)
    found = subprocess.run(["grep", "-rlIa", SECRET, str(SESSION), "/dev/shm"], capture_output=True, text=True).stdout
    assert set(found.split()) == {str(control)}, "the file that this test wrote, and no other"
    assert list(SESSION.glob("session_latest/logs/**/*.log")), "there are logs"


def test_without_workers_nothing_starts(tmp_path: Path) -> None:
    async def check(on: Bench) -> None:
        busy = await on.busy()
        waiting = await on.submit(on.work("waiting"), timeout_s=20)
        stopping = asyncio.ensure_future(asyncio.to_thread(command, "privacy-gateway", "workers", "stop"))
        await until(lambda: not replicas(on))  # it drains
        on.let_go("blocker")
        assert await busy == ["BLOCKER"], "a drain finishes what has started"
        await stopping
        with pytest.raises(DeadlineBeforeStart):
            await waiting
        await until(lambda: not on.engine.status(Role.EMBED).ready)
        with pytest.raises(WorkerCold):
            await on.engine.wait_for_capacity(Role.EMBED, [on.work("more")], tenant="tenant", timeout_s=0)
        with pytest.raises(WorkerCold):
            await on.run(on.work("more"))
        assert on.started == ["blocker"]

    run(check, tmp_path)
