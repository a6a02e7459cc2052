"""A plugin of pytest: the tier of each test, and the processor time of each file.

* `slow`: by its mark, with a kind of SLOW_KINDS.
* `system`: a test that is not slow, and requests the fixture `processes`, itself or by its other fixtures. A case of a
  matrix has the mark `system` instead.
* fast: every other test. It fails if it starts a process beside those of the shared gateway.

The summary of a run lists the processor seconds of the costliest files, child processes included. They fail no run,
since machines differ.
"""

import gc
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

SLOW_KINDS = {
    "crash": "processes are killed, or stopped and started again",
    "outage": "Redis or a device fails",
    "statistics": "many draws, so that a wrong distribution shows",
    "planted bug": "a bug is seeded and must be found",
    "training": "whole trainings and builds",
    "documentation": "every command of the documentation runs, and its audits are of this code",
    "installation": "wheels, compilers, other processors, an installed Redis",
    "fuzzing": "a gateway is attacked with many generated requests",
    "process": "a property of processes of their own: environment, port, memory, time",
    "peer": "another program is installed and started beside the gateway",
    "browser": "pages are used in a real browser over a gateway of their own",
    "grid": "a bound is compared with other computations over a grid of parameters",
    "matrix": "further cells of a matrix of which a faster test has one",
}
FIXTURE = "processes"
# what is charged to no file
COLLECTION = "imports and collection"
SESSION = "fixtures of the session"
# what a gateway that runs in the process of the tests starts: its Redis, and the processes that parse what tenants send
SHARED = ("redis-server", "redis-start.sh", "service.isolation_process")
SHOWN = 15
_TICKS = os.sysconf("SC_CLK_TCK")
_watched = False  # a fast test runs
_started: list[str] = []  # processes that it started


def cells(values: Iterable[Any], *, fast: int = 1, kind: str = "matrix") -> list[Any]:
    """The cells of a matrix as parameters: the first ones are fast, and all others are slow."""
    each = list(values)
    slow = pytest.mark.slow(kind)
    return [
        *each[:fast],
        *(pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=slow) for one in each[fast:]),
    ]


@pytest.fixture(scope="session")
def processes() -> None:
    """What starts processes requests this: its tests are of the system tier."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--threads", type=int, default=2, help="of torch, where a test says that it has several")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Processor(config), "processor seconds")


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        slow = item.get_closest_marker("slow")
        if slow is not None and slow.args[0] not in SLOW_KINDS:
            raise pytest.UsageError(f"{item.nodeid}: a slow test is one of {sorted(SLOW_KINDS)}")
        if FIXTURE in getattr(item, "fixturenames", ()) and not _is_slow(item):
            item.add_marker("system")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[Any]:
    """Collect garbage again, without what the imports have made (see `environment_kit.py`)."""
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def _is_slow(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("slow", "long"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    global _watched
    _watched = not _is_slow(item) and item.get_closest_marker("system") is None
    _started.clear()
    try:
        return (yield)
    finally:
        _watched = False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    yield
    if _started:
        pytest.fail(f"a fast test started {_started[0]}: request the fixture `{FIXTURE}`, or mark the test as slow")


def _on_event(event: str, args: tuple[Any, ...]) -> None:
    if _watched and event == "subprocess.Popen":
        words = args[1] if isinstance(args[1], list | tuple) else [args[1]]
        command = " ".join(map(os.fsdecode, words))
        if not any(name in command for name in SHARED):
            _started.append(command[:200])


sys.addaudithook(_on_event)


class _Processor:
    """Adds up processor seconds by file. Processes that run side by side report to the first one."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._files: Counter[str] = Counter()
        self._since = 0.0

    def _charge(self, name: str) -> None:
        """What was used since the last call."""
        now = processor_seconds(os.getpid())
        self._files[name] += max(0.0, now - self._since)
        self._since = now

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[Any]:
        self._name = item.path.relative_to(self._config.rootpath).as_posix()
        if not self._since:
            self._charge(COLLECTION)
        result = yield
        if nextitem is None or nextitem.path != item.path:
            self._charge(self._name)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[Any]:
        if fixturedef.scope != "session":
            return (yield)
        self._charge(self._name)
        try:
            return (yield)
        finally:
            self._charge(SESSION)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._files.update(getattr(node, "workeroutput", {}).get("processor_seconds", {}))

    def pytest_sessionfinish(self) -> None:
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output["processor_seconds"] = dict(self._files)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section(f"{sum(self._files.values()):.0f} processor seconds")
        by_file = Counter({name: each for name, each in self._files.items() if name not in (COLLECTION, SESSION)})
        shared = [(name, self._files[name]) for name in (COLLECTION, SESSION)]
        for name, seconds in [*shared, *by_file.most_common(SHOWN)]:
            terminalreporter.line(f"{seconds:7.1f} {name}")


def processor_seconds(root: int) -> float:
    """Of a process and its children, those included that have ended and were waited for."""
    parents, ticks = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)], ticks[int(entry.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    total, left = 0, [root]
    while left:
        one = left.pop()
        total += ticks.get(one, 0)
        left += [child for child, parent in parents.items() if parent == one]
    return total / _TICKS
