"""The `inline` engine: deterministic, light to build, and as strict about what a worker can receive as others."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from engine_kit import Bench, ToyHandler, bench, toy_engine

from core.errors import TaskFailed
from core.text.policy import MaskPolicy, SanitizeTask
from gpu_workers.engine.inline import InlineEngine
from gpu_workers.engine.protocol import Role, Task
from gpu_workers.handlers.options import WorkerOptions
from gpu_workers.handlers.registry import make_handler
from gpu_workers.models.sources import TAGGER_OFF


def test_it_is_ready_when_its_start_returns(tmp_path: Path) -> None:
    async def main() -> None:
        engine = InlineEngine({Role.EMBED: ToyHandler})
        await engine.start()
        on = Bench(engine, tmp_path)
        assert await on.run(on.work("first")) == ["FIRST"]
        await engine.stop()

    asyncio.run(main())


def test_batches_of_all_roles_run_one_at_a_time_in_the_order_of_admission(tmp_path: Path) -> None:
    async def main() -> None:
        async with bench(toy_engine("inline", roles=(Role.EMBED, Role.SANITIZE)), tmp_path) as on:
            other = on.of(Role.SANITIZE)
            busy = await on.busy()
            calls = [
                await each.submit(on.work(name, weight=100))
                for each, name in ((other, "one"), (on, "two"), (on, "three"), (other, "four"))
            ]
            on.let_go("blocker")
            await asyncio.gather(busy, *calls)
            assert on.started == ["blocker", "one", "two", "three", "four"]

    asyncio.run(main())


def test_what_cannot_be_sent_to_a_worker_fails_as_it_would_elsewhere(tmp_path: Path) -> None:
    async def main() -> None:
        async with bench(toy_engine("inline"), tmp_path) as on:
            with pytest.raises(TaskFailed):
                await on.run(Task(lambda: None, 10))
            assert await on.run(on.work("next")) == ["NEXT"]

    asyncio.run(main())


def test_it_runs_the_handlers_of_a_gateway(tmp_path: Path) -> None:
    async def main() -> None:
        factory = partial(make_handler, Role.SANITIZE, WorkerOptions(tagger=TAGGER_OFF))
        async with bench(InlineEngine({Role.SANITIZE: factory}), tmp_path) as on:
            task = SanitizeTask(text="Write to jo@example.org now.", policy=MaskPolicy(), fill="class_marker")
            (result,) = await on.of(Role.SANITIZE).run(Task(task, 10))
            assert result.text == "Write to [EMAIL_ADDRESS] now."

    asyncio.run(main())


def test_building_it_imports_no_torch() -> None:
    code = (
        "import sys; from functools import partial; from gpu_workers.engine.inline import InlineEngine; "
        "from gpu_workers.engine.protocol import Role; from gpu_workers.handlers.options import WorkerOptions; "
        "from gpu_workers.handlers.registry import make_handler; "
        "InlineEngine({role: partial(make_handler, role, WorkerOptions()) for role in Role}); "
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
