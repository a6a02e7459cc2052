"""Audit every mechanism that carries a guarantee, plant bugs and see that each is caught, and write record and page.

    PYTHONPATH=.:tests:tests/kits python -m audits [--quick] [--changed] [--only TEXT ...] [--page FILE]

Exit code 1 if a bound exceeds its claim, a pure mechanism's strongest attack proves less than its bar, a detector flags
the code as it is, or a planted bug survives. A run of some audits alone writes no page. `--changed` runs the sections
of the record whose code has another digest than in the record, and leaves the others as they are.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from audits import page, work
from audits.audited import RECORD, ROOT, SUMMARY, digests, recorded
from audits.kit import FULL, QUICK
from audits.page import AuditRow, BugRow
from audits.registry import AUDITS, BUGS, codes

AT_ONCE = 2

Done = TypeVar("Done")


def _each(pool: ProcessPoolExecutor, job: Callable[..., Done], *arguments: tuple[object, ...]) -> list[Future[Done]]:
    return [pool.submit(job, *given) for given in arguments]


def commit() -> str:
    """The commit of the tree; `+` where files differ from it."""
    said = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, cwd=ROOT)
    changed = subprocess.run(["git", "status", "--porcelain", "-uno"], capture_output=True, text=True, cwd=ROOT)
    files = [line[3:] for line in changed.stdout.splitlines() if not line.endswith(".md")]
    return said.stdout.strip() + ("+" if files else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few runs: minutes, and no bar on the bounds")
    parser.add_argument("--changed", action="store_true", help="the sections of the page whose code has changed")
    parser.add_argument("--only", nargs="*", default=[], help="audits and bugs whose name holds one of these texts")
    parser.add_argument("--page", type=Path, help="where the record goes; a quick run writes none without it")
    options = parser.parse_args()
    scale = QUICK if options.quick else FULL

    before = RECORD.read_text()
    on_page, current = recorded(before), codes(digests())
    sections = {title for title, code in current.items() if on_page.get(title) != code} if options.changed else None

    def wanted(section: str, name: str) -> bool:
        named = not options.only or any(text in name for text in options.only)
        return named and (sections is None or section in sections)

    audits = [i for i, audit in enumerate(AUDITS) if wanted(page.title_of(audit), audit.name)]
    bugs = [i for i, bug in enumerate(BUGS) if wanted(bug.mechanism, f"{bug.mechanism} {bug.name}")]
    detectors = list(dict.fromkeys(BUGS[i].detector.name for i in bugs))
    began, failures, audited = time.monotonic(), 0, commit()
    rows: list[AuditRow] = []
    planted: list[BugRow] = []
    with ProcessPoolExecutor(AT_ONCE, mp_context=get_context("spawn"), initializer=work.start) as pool:
        running = _each(pool, work.audited, *((i, scale) for i in audits))
        clean = _each(pool, work.detected, *((name,) for name in detectors))
        hunted = _each(pool, work.hunted, *((i,) for i in bugs))
        for index, future in zip(audits, running, strict=True):
            found, seconds = future.result()
            row = AuditRow(AUDITS[index], found, seconds)
            failures += row.fails(bar=not options.quick)
            rows.append(row)
            print(row.line(bar=not options.quick), flush=True)
        for name, said in zip(detectors, clean, strict=True):
            if (flagged := said.result()) is not None:
                failures += 1
                print(f"{name}: flags the code without a bug: {flagged}", flush=True)
        for index, caught in zip(bugs, hunted, strict=True):
            planted.append(BugRow(BUGS[index], caught.result()))
            failures += planted[-1].caught is None
            print(planted[-1].line(), flush=True)
    minutes = (time.monotonic() - began) / 60
    print(f"{len(rows)} audits, {len(planted)} planted bugs, {failures} failures, {minutes:.0f} minutes")
    target = options.page or (None if options.quick else RECORD)
    if target and not options.only:
        kept = page.sections(before) if options.changed else {}
        target.write_text(page.written(rows, planted, commit=audited, minutes=minutes, codes=current, kept=kept))
        if target == RECORD and not failures:
            SUMMARY.write_text(page.summary(RECORD.read_text()))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
