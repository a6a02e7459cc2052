"""Seed bugs in the ledger's scripts, one at a time, and see that the tests notice each.

    PYTHONPATH=.:tests python -m soak.mutants [NAME ...]

A mutant is a copy of `core/` and `tests/` with exact texts of one script replaced. A text that is not found exactly
once fails loudly: the table has to follow the scripts. Prints which test caught each mutant; exit code 1 when one
survives.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from soak.mutant_table import MUTANTS, Mutant

from core.ledger.client import LedgerClient, connect
from core.ledger.embedded import EmbeddedRedis

ROOT = Path(__file__).resolve().parents[2]
# quick ones first: a run stops at the first failure
TESTS = ("budget", "releases", "mutants", "filters", "machine")
AT_ONCE = 2
SECONDS_MAX = 240
SETTLING = ("commit", "cancel", "expire")


@dataclass(frozen=True)
class Outcome:
    name: str
    caught_by: str | None
    seconds: float


def mutate(mutant: Mutant, ledger: Path) -> None:
    """Replace the mutant's texts in the scripts in `ledger`."""
    path = ledger / f"{mutant.script}.lua"
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
            ledger = Path(directory) / mutant.name
            ledger.mkdir()
            for script in (ROOT / "core" / "ledger").glob("*.lua"):
                shutil.copy(script, ledger)
            mutate(mutant, ledger)
            common, settle = ((ledger / f"{name}.lua").read_text() for name in ("common", "settle"))
            await client.call("SCRIPT", "LOAD", common + settle + "return 0")
            for name in ("open", "reserve", "accounts", *SETTLING):
                parts = (common, settle) if name in SETTLING else (common,)
                await client.call("SCRIPT", "LOAD", "".join(parts) + (ledger / f"{name}.lua").read_text())
        await client.close()
        await server.stop()


def run_tests(mutant: Mutant | None) -> Outcome:
    """The chosen tests against a mutant, or against the ledger as it is."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as directory:
        copy = Path(directory)
        without = shutil.ignore_patterns("__pycache__", "*.npz", "*.safetensors")
        for part in ("core", "tests"):
            shutil.copytree(ROOT / part, copy / part, ignore=without)
        shutil.copy(ROOT / "pyproject.toml", copy)
        if mutant is not None:
            mutate(mutant, copy / "core" / "ledger")
        files = [f"tests/core/ledger/test_ledger_{name}.py" for name in TESTS]
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-rfE", "--tb=no", "-p", "no:cacheprovider"]
        began = time.monotonic()
        done = subprocess.run(
            [*command, "--hypothesis-seed=0", *files],
            cwd=copy,
            env=os.environ | {"PYTHONPATH": str(copy)},
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        seconds = time.monotonic() - began
    if done.returncode not in (0, 1):
        raise SystemExit(f"the tests did not run:\n{done.stdout}{done.stderr}")
    caught = re.search(r"^(?:FAILED|ERROR) \S+/test_ledger_(\S+)", done.stdout, re.MULTILINE)
    return Outcome(mutant.name if mutant else "", caught[1] if caught else None, seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only these mutants")
    names = parser.parse_args().names
    mutants = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    asyncio.run(check_syntax(mutants))
    unchanged = run_tests(None)
    if unchanged.caught_by is not None:
        raise SystemExit(f"the tests fail without any mutant: {unchanged.caught_by}")
    survivors = 0
    began = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for outcome in pool.map(run_tests, mutants):
            survivors += outcome.caught_by is None
            print(f"{outcome.name:<44}{outcome.seconds:5.1f} s  {outcome.caught_by or 'SURVIVED'}", flush=True)
    seconds = time.monotonic() - began
    print(f"{len(mutants)} mutants, {survivors} survived, {seconds:.0f} s; {len(TESTS)} test files, seed 0")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
