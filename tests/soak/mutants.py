"""Seed bugs in the ledger's scripts, one at a time, and see that the tests notice each.

    PYTHONPATH=.:tests:tests/kits python -m soak.mutants [NAME ...]

A mutant is a copy of `core/` and `tests/` with exact texts of one script replaced. A text that is not found exactly
once fails loudly: the table has to follow the scripts. Prints which test caught each mutant; exit code 1 when one
survives.
"""

import argparse
import asyncio
import contextlib
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from soak.mutant import Mutant
from soak.mutant_table import MUTANTS

from core.redis.client import LedgerClient, connect
from core.redis.embedded import EmbeddedRedis

ROOT = Path(__file__).resolve().parents[2]
# quick ones first: a run stops at the first failure
TESTS = (
    "budget",
    "releases",
    "growth",
    "spending_totals",
    "places",
    "mutants",
    "filters",
    "schema",
    "machine",
    "limit_changes",
)
TESTS_OF = {
    "accounts": ("mutants", "series", "seals"),
    "fold": ("series",),
    "rank": ("ranks",),
    "alert": ("alerts",),
    "seal": ("places", "seals", "epoch", "duty_lease", "archiver", "archive_machine"),
    "trim": ("archiver", "archive_machine"),
    "lease": ("duty_lease",),
    "presence": ("schema",),
    "share": ("shared_limit",),
    "job": ("job_holds", "jobs"),
}
AT_ONCE = 2
HANGS = "a test that does not end"
SETTLING = ("commit", "cancel", "expire", "job")


@dataclass(frozen=True)
class Outcome:
    name: str
    caught_by: str | None
    seconds: float


def script_in(folder: Path, name: str) -> Path:
    """The script of this name below `folder`. Names of scripts are unique."""
    (path,) = folder.rglob(f"{name}.lua")
    return path


def test_file(copy: Path, name: str) -> str:
    """The file of a test: `test_ledger_NAME.py`, but `test_NAME.py` for those of the archive."""
    file = f"test_{name}.py" if name.startswith("archive") else f"test_ledger_{name}.py"
    (path,) = (copy / "tests/core").rglob(file)
    return str(path.relative_to(copy))


def mutate(mutant: Mutant, folder: Path) -> None:
    """Replace the mutant's texts in the scripts below `folder`."""
    path = script_in(folder, mutant.script)
    source = path.read_text()
    for old, new in mutant.edits:
        if source.count(old) != 1:
            raise SystemExit(f"{mutant.name}: found {source.count(old)} times in {path.name}:\n{old}")
        source = source.replace(old, new)
    path.write_text(source)


async def check_syntax(mutants: list[Mutant]) -> None:
    """A mutant that no server loads would be caught by every test, and show nothing."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as directory:
        server = EmbeddedRedis(Path(directory))
        await server.start()
        client = LedgerClient(connect(socket_path=server.socket))
        for mutant in mutants:
            scripts = Path(directory) / mutant.name
            scripts.mkdir()
            for script in (ROOT / "core").rglob("*.lua"):
                shutil.copy(script, scripts)
            mutate(mutant, scripts)
            common, settle = ((scripts / f"{name}.lua").read_text() for name in ("common", "settle"))
            await client.call("SCRIPT", "LOAD", common + settle + "return 0")
            if mutant.script not in ("common", "settle"):
                parts = (common, settle) if mutant.script in SETTLING else (common,)
                await client.call("SCRIPT", "LOAD", "".join(parts) + script_in(scripts, mutant.script).read_text())
        await client.close()
        await server.stop()


def copy_of(folder: Path, *parts: str) -> None:
    """Copy files and folders of the project."""
    for part in parts:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns(".venv*"))
        elif (ROOT / part).is_file():
            shutil.copy(ROOT / part, folder)


def first_failure(copy: Path, files: Iterable[str], limit_s: float | None = None) -> str | None:
    """The first test that fails in a copy of the project, of those that `make test` runs of these files and folders."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-rfE", "--tb=no", "-p", "no:cacheprovider"]
    command += ["-m", "not system and not slow and not long", "--hypothesis-seed=0"]
    with subprocess.Popen(
        [*command, *files],
        cwd=copy,
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(copy), str(copy / "client/src")))},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as tests:
        try:
            said, _ = tests.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            return HANGS
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(tests.pid, signal.SIGKILL)  # with the server of a test that was cut off
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", said, re.MULTILINE)
    if tests.returncode not in (0, 1) or (found is None) != (tests.returncode == 0):
        raise SystemExit(f"the tests did not run:\n{said[-5000:]}")
    return found and found[1]


def run_tests(mutant: Mutant | None, limit_s: float | None = None) -> Outcome:
    """The tests of a mutant's script against it, or all of them against the ledger as it is."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as directory:
        copy = Path(directory)
        copy_of(copy, "core", "gpu_workers", "service", "tests", "deploy", "pyproject.toml")
        if mutant is not None:
            mutate(mutant, copy / "core")
        names = TESTS_OF.get(mutant.script, TESTS) if mutant else {*TESTS, *itertools.chain(*TESTS_OF.values())}
        files = [test_file(copy, name) for name in names]
        began = time.monotonic()
        caught_by = first_failure(copy, files, limit_s)
        return Outcome(mutant.name if mutant else "", caught_by, time.monotonic() - began)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only these mutants")
    names = parser.parse_args().names
    mutants = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    asyncio.run(check_syntax(mutants))
    unchanged = run_tests(None)
    if unchanged.caught_by is not None:
        raise SystemExit(f"the tests fail without any mutant: {unchanged.caught_by}")
    limit_s = 60 + 3 * unchanged.seconds
    survivors = 0
    began = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for outcome in pool.map(partial(run_tests, limit_s=limit_s), mutants):
            survivors += outcome.caught_by is None
            print(f"{outcome.name:<44}{outcome.seconds:5.1f} s  {outcome.caught_by or 'SURVIVED'}", flush=True)
    seconds = time.monotonic() - began
    print(f"{len(mutants)} mutants, {survivors} survived, {seconds:.0f} s; seed 0")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
