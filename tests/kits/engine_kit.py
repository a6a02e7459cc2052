"""A toy handler that a test holds and lets go, and engines that run it.

The handler's work is controlled by files, so that it may run in this process or in another on this machine.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pytest
from inline_engine import InlineEngine
from toys.toy_engine import FACTS

from core.errors import DeadlineBeforeStart, InvalidInput, QueueFull, WorkerDied
from core.files.disk import FileVersion
from gpu_workers.engine.arrays import BlockArray
from gpu_workers.engine.handler import Draw, UnfitDevice
from gpu_workers.engine.local_engine import LocalEngine, WorkerPoolOptions
from gpu_workers.engine.protocol import Divided, Joined, Role, Task
from gpu_workers.engine.task_queue import Engine, QueueLimits
from gpu_workers.facts import EmbedderFacts
from gpu_workers.handlers.options import absent

KITS = Path(__file__).parent
HELD_S_MAX = 240.0
END = "end"  # a file that lets go of all work, so that a test that fails does not wait
SECRET = "quizzlethorpe"  # of a text: no error may hold it

TOY_FACTS = FACTS[Role.EMBED]

Kind = Literal["local", "inline"]
KINDS = ("inline", pytest.param("local", marks=pytest.mark.system))
Failure = Literal["", "unprepared", "raise", "unfit", "refund", "death"]


@dataclass(frozen=True)
class Work:
    """A payload. The handler writes its name to the journal of `folder`; with `held` it then waits for `Bench.let_go`.

    `divided`: the work of its pieces, which are named after it; `name.0` and so on. Their results are joined by
    `completed`: another work that answers with all of them, or None for their list as it is.

    `released` gets the double of `vectors`. `pack`: a file, whose content is part of the answer.
    """

    name: str
    folder: str
    held: bool = False
    fails: Failure = ""
    vectors: BlockArray | None = None
    released: BlockArray | None = None
    divided: tuple[Work, ...] = ()
    completed: Work | None = None
    joined: list[Any] | None = None
    pack: FileVersion | None = None

    def pieces(self, weight_max: int) -> Divided | None:
        if not self.divided:
            return None

        def join(results: list[Any]) -> Task | Joined:
            return Joined(results) if self.completed is None else Task(replace(self.completed, joined=results), 1)

        return Divided([Task(piece, weight_max) for piece in self.divided], join)

    @property
    def blocks(self) -> list[Any]:
        return [array.block for array in (self.vectors, self.released) if array is not None]


class ToyHandler:
    """Answers each `Work` with its name in capitals."""

    def warm_up(self) -> EmbedderFacts:
        return TOY_FACTS

    def prepare(self, tasks: Sequence[Work]) -> Draw:
        for task in tasks:
            if task.fails == "unprepared":
                raise InvalidInput("unfit")

        def draw() -> list[Any]:
            with (Path(tasks[0].folder) / "journal").open("a") as journal:
                journal.write(" ".join(task.name for task in tasks) + "\n")
            return [self._result(task) for task in tasks]

        return draw

    def _result(self, task: Work) -> Any:
        if task.held:
            _wait_for(Path(task.folder) / f"{task.name}.go")
        if task.fails == "death":
            raise SystemExit
        if task.fails == "raise":
            raise ValueError(SECRET)
        if task.fails == "unfit":
            return InvalidInput("unfit")
        if task.fails == "refund":
            return QueueFull()
        if task.vectors is not None and task.released is not None:
            rows = (2 * task.vectors.read()).astype(task.released.dtype)
            for index in reversed(range(len(rows))):  # in parts, in no order, as handlers do
                task.released.write_rows(rows[index : index + 1], index)
        if task.pack is not None:
            return f"{task.name.upper()} {Path(task.pack.path).read_text()}"
        return task.name.upper() if task.joined is None else [*task.joined, task.name.upper()]


class OtherArithmetic(ToyHandler):
    """Computes other numbers: it answers in small letters."""

    def warm_up(self) -> EmbedderFacts:
        return replace(TOY_FACTS, encoder=replace(TOY_FACTS.encoder, fingerprint="of other numbers"))

    def _result(self, task: Work) -> Any:
        return str(super()._result(task)).lower()


class UnfitHandler(ToyHandler):
    def warm_up(self) -> EmbedderFacts:
        raise UnfitDevice("this device is unfit")


class BrokenHandler(ToyHandler):
    def warm_up(self) -> EmbedderFacts:
        raise ValueError("/a/path/of/the/operator")


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + HELD_S_MAX
    while not (path.exists() or path.with_name(END).exists()):
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.005)


def toy_engine(
    kind: Kind,
    factory: Any = ToyHandler,
    *,
    roles: Sequence[Role] = (Role.EMBED,),
    queue_tasks_max: int = 16,
    queue_tokens_max: int = 100_000,
    queue_tenant_share: float = 1.0,
    batch_tokens_max: int = 100,
    array_bytes_max: int = 1 << 20,
) -> Engine:
    """An engine whose roles run what `factory` builds, one worker each."""
    limits = QueueLimits(queue_tasks_max, queue_tokens_max, queue_tenant_share, batch_tokens_max)
    if kind == "inline":
        own = dict.fromkeys(roles, factory)
        return InlineEngine(own, limits=limits, lacking=absent, array_bytes_max=array_bytes_max)
    local = WorkerPoolOptions(workers=[factory], limits=limits, batch_linger_ms=1, lacking=absent)
    return LocalEngine(dict.fromkeys(roles, local), array_bytes_max=array_bytes_max)


def find_kits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let worker processes import this module."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (KITS, *KITS.parents[:2]))))


@dataclass(frozen=True)
class Bench:
    """A started engine and the folder that controls its toy handlers."""

    engine: Engine
    folder: Path
    role: Role = Role.EMBED

    def work(
        self,
        name: str,
        *,
        weight: int = 10,
        held: bool = False,
        fails: Failure = "",
        pack: FileVersion | None = None,
        **arrays: BlockArray,
    ) -> Task:
        return Task(Work(name, str(self.folder), held=held, fails=fails, pack=pack, **arrays), weight)

    def divided(self, name: str, *pieces: Work, completed: bool = True) -> Task:
        """A task that is larger than a batch and runs in `pieces`."""
        last = Work(f"{name}-completed", str(self.folder)) if completed else None
        return Task(Work(name, str(self.folder), divided=pieces, completed=last), 10_000)

    def of(self, role: Role) -> Bench:
        return replace(self, role=role)

    async def run(
        self,
        *tasks: Task,
        tenant: str = "tenant",
        timeout_s: float = HELD_S_MAX,
        client_disconnected: asyncio.Event | None = None,
        isolate_failures: bool = False,
    ) -> list[Any]:
        return await self.engine.run(
            self.role, tasks, tenant=tenant, timeout_s=timeout_s,
            client_disconnected=client_disconnected or asyncio.Event(), isolate_failures=isolate_failures,
        )  # fmt: skip

    async def run_too_long(self, *tasks: Task) -> None:
        """Run tasks that do not end until their deadline has passed. On a busy machine, where they have not even
        started by then, they run again with a later one."""
        for timeout_s in (1.0, 10.0, 100.0):
            try:
                await self.run(*tasks, timeout_s=timeout_s)
            except DeadlineBeforeStart:
                continue

    async def run_brief(self, *tasks: Task) -> list[Any]:
        """Run tasks on workers that are replaced soon: on a busy machine also these tasks may take too long."""
        while True:
            with suppress(WorkerDied):
                return await self.run(*tasks)

    async def submit(self, *tasks: Task, **options: Any) -> asyncio.Task[list[Any]]:
        """A call that has been admitted."""
        call = asyncio.ensure_future(self.run(*tasks, **options))
        await asyncio.sleep(0)
        return call

    async def busy(self, name: str = "blocker", *, tenant: str = "tenant") -> asyncio.Task[list[Any]]:
        """A call that has started, and keeps the one worker until `let_go(name)`. It is so large that no other batch is
        handed to the worker meanwhile."""
        call = await self.submit(self.work(name, weight=200, held=True), tenant=tenant)
        await self.has_started(name)
        return call

    def let_go(self, *names: str) -> None:
        for name in names:
            (self.folder / f"{name}.go").touch()

    async def has_started(self, name: str) -> None:
        while name not in self.started:
            await asyncio.sleep(0.005)

    @property
    def batches(self) -> list[list[str]]:
        """The names in each batch that was drawn, in order."""
        path = self.folder / "journal"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def started(self) -> list[str]:
        return [name for batch in self.batches for name in batch]

    @property
    def queued(self) -> int:
        return self.engine.status(self.role).queued

    async def ready(self) -> None:
        while not all(self.engine.status(role).ready for role in self.engine.roles):
            await asyncio.sleep(0.005)


@asynccontextmanager
async def bench(engine: Engine, folder: Path) -> AsyncIterator[Bench]:
    await engine.start()
    started = Bench(engine, folder)
    try:
        await started.ready()
        yield started
    finally:
        (folder / END).touch()
        await engine.stop()


Check = Callable[..., Awaitable[None]]
GIVEN = ("tmp_path", "monkeypatch")


def on_bench(engine_of: Callable[..., Engine], **fixed: Any) -> Callable[[Check], Callable[..., None]]:
    """Make an async function of a bench `on` a test, which runs it on the started engine that `engine_of` returns.

    The function may request fixtures and parameters beside `on`. `engine_of` gets those that it names.
    """
    chosen = inspect.signature(engine_of).parameters

    def decorate(check: Check) -> Callable[..., None]:
        requested = [name for name in inspect.signature(check).parameters if name != "on"]

        @functools.wraps(check)
        def test(**given: Any) -> None:
            find_kits(given["monkeypatch"])

            async def main() -> None:
                engine = engine_of(**{name: given[name] for name in chosen if name in given}, **fixed)
                async with bench(engine, given["tmp_path"]) as on:
                    await check(on, **{name: given[name] for name in requested})

            asyncio.run(main())

        names = dict.fromkeys([*(name for name in chosen if name == "kind"), *GIVEN, *requested])
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        test.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
        return test

    return decorate


def on_engine(*, kinds: Sequence[Any] = KINDS, **limits: Any) -> Callable[[Check], Callable[..., None]]:
    """The same, on each kind of engine. It holds 16 tasks and batches of 100 tokens, or what `limits` say."""

    def decorate(check: Check) -> Callable[..., None]:
        return pytest.mark.parametrize("kind", kinds)(on_bench(toy_engine, **limits)(check))

    return decorate
