"""The record of a run, tests/audits/last_run.md, and its summary, docs/reference/audits.md."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from types import MappingProxyType

from audit_kit import ERROR_RATE
from audits.audited import audited
from audits.bug import Bug
from audits.kit import Audit, Found

_TOP = Path(__file__).with_name("page_top.md")
_DIGESTS = (
    "Each section names a digest of the code that its audits or planted bugs run: of its definitions, without comments "
    "and docstrings, whichever file they are in. A test compares it with the source: it fails while the code is newer."
)


@dataclass(frozen=True)
class AuditRow:
    """`found`: what the audit found, or the error that kept it from running."""

    audit: Audit
    found: Found | str
    seconds: float

    @property
    def ratio(self) -> float:
        """Bound over claim. A claim of 0 holds for a bound of 0 alone."""
        if not isinstance(self.found, Found):
            return math.nan
        if self.found.claim == 0:
            return math.inf if self.found.bound > 0 else 0.0
        return self.found.bound / self.found.claim

    def fails(self, *, bar: bool) -> bool:
        return not isinstance(self.found, Found) or not (self.audit.bar if bar else -math.inf) <= self.ratio <= 1

    def line(self, *, bar: bool) -> str:
        head = f"{self.audit.name:<32}{self.seconds:6.0f} s  "
        if isinstance(self.found, str):
            return f"{head}FAILED\n{self.found}"
        found = self.found
        said = "FAILED" if self.fails(bar=bar) else "held"
        return f"{head}{found.bound:7.3f} of {found.claim:.3f} ({self.ratio:.2f})  {said}"

    def cells(self) -> tuple[str, ...]:
        if isinstance(self.found, str):
            return (self.audit.mechanism, self.audit.claim, self.audit.adjacency, "did not run", "", "", "")
        found = self.found
        pairs = f" (best of {found.pairs:,})" if found.pairs > 1 else ""
        unit = f" {self.audit.unit}" if self.audit.unit != "epsilon" else ""
        bound = f"{found.bound:.3f} of {found.claim:.3f}{unit}" if found.claim else f"{found.bound:.0f}{unit}"
        return (
            self.audit.mechanism,
            self.audit.claim,
            self.audit.adjacency,
            found.attack + pairs,
            bound,
            f"{self.ratio:.2f}" if found.claim else "",
            f"{found.runs:,}",
        )


@dataclass(frozen=True)
class BugRow:
    """`caught`: what its detector said; None where the bug survived."""

    bug: Bug
    caught: str | None

    def line(self) -> str:
        return f"{self.bug.mechanism + ': ' + self.bug.name:<64} {self.caught or 'SURVIVED'}"

    def cells(self) -> tuple[str, ...]:
        bug = self.bug
        return bug.name, bug.step, self.caught or "**survived**", bug.detector.name


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def sections(page: str) -> dict[str, str]:
    """The sections of a record by their titles. Raises ValueError unless all of its audits held."""
    held = re.search(r"(\d+) of (\d+) audits held, (\d+) of (\d+) planted bugs caught", page)
    if held is None or held[1] != held[2] or held[3] != held[4]:
        raise ValueError("the record is of a run with failures: run all audits")
    return {title: text.strip() for title, text in re.findall(r"^### (.+)\n((?:(?!##).*\n)+)", page, re.MULTILINE)}


def written(
    audits: Sequence[AuditRow],
    bugs: Sequence[BugRow],
    *,
    commit: str,
    minutes: float,
    codes: Mapping[str, str],
    kept: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The whole record. `codes`: of each section (`registry.codes`). `kept`: the sections of an earlier record whose
    audits all held. They stay where this run has none of their rows."""
    run = f"{datetime.now(UTC):%Y-%m-%d}, commit `{commit}`"
    attacks = {title: list(rows) for title, rows in groupby(audits, key=lambda row: title_of(row.audit))}
    planted = {mechanism: list(rows) for mechanism, rows in groupby(bugs, key=lambda row: row.bug.mechanism)}
    head = ("mechanism", "guarantee", "adjacency", "strongest attack", "bound of the claim", "ratio", "runs")
    new = {
        title: _stamped(run, codes[title], table(head, [row.cells() for row in rows]))
        for title, rows in attacks.items()
    }
    head = ("bug", "step of the proof", "caught by", "detector")
    new |= {
        title: _stamped(run, codes[title], table(head, [row.cells() for row in rows]))
        for title, rows in planted.items()
    }
    old = {title: text for title, text in kept.items() if title not in new}
    attacked, hunted = len(audits), len(bugs)
    for text in old.values():
        rows = sum(line.startswith("| ") for line in text.splitlines()) - 2
        attacked, hunted = (attacked, hunted + rows) if "| bug |" in text else (attacked + rows, hunted)
    figures = (
        f"{run}: {attacked - sum(row.fails(bar=True) for row in audits)} of {attacked} audits held, "
        f"{hunted - sum(row.caught is None for row in bugs)} of {hunted} planted bugs caught, {minutes:.0f} minutes. "
        f"Error rate of each bound: {ERROR_RATE:g}. Each section names the run that it is from: a later run may repeat "
        "the sections alone whose code has changed (`make audit-changed`)."
    )
    titles = dict.fromkeys([*kept, *new])  # a section that is new comes last
    blocks = {title: f"### {title}\n\n{new.get(title) or old[title]}" for title in titles}
    parts = ["# Last run of the audits", figures]
    parts += [block for block in blocks.values() if "| bug |" not in block]
    parts += ["## Planted bugs", *(block for block in blocks.values() if "| bug |" in block)]
    parts += ["## Audited code", _DIGESTS]
    parts.append(table(("part", "code"), [(name, ", ".join(paths)) for name, paths in audited().items()]))
    return "\n\n".join(parts) + "\n"


def title_of(audit: Audit) -> str:
    """The title of the section that has the audit. That of a planted bug is its mechanism."""
    return audit.group.capitalize()


def _stamped(run: str, code: str, rows: str) -> str:
    return f"{run}, code `{code}`\n\n{rows}"


def summary(record: str) -> str:
    """The page for readers: of each audit what it proved, and of each section how many bugs were caught."""
    figures = record.split("\n\n")[1].partition(" Each section names")[0]
    attacks: list[list[str]] = []
    planted: list[str] = []
    for title, text in sections(record).items():
        rows = [re.split(r" (?<!\\)\| ", line[2:-2]) for line in text.splitlines() if line.startswith("| ")][2:]
        if "| bug |" in text:
            planted.append(f"{title} {len(rows)}")
        else:
            attacks += [[*row[:2], *row[4:6]] for row in rows]
    head = ("mechanism", "guarantee", "bound of the claim", "ratio")
    parts = [_TOP.read_text().rstrip(), "## Last run", figures, table(head, attacks)]
    parts.append(f"Planted bugs that were caught: {'; '.join(planted)}.")
    return "\n\n".join(parts) + "\n"
