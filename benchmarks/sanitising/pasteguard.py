"""The accuracy files of PasteGuard, by the rule of its `run.ts`.

An expected value is found if a find of its type holds it, regardless of letter case. Other finds are wrong. A case
passes if every value is found and nothing is wrong. Seven types are asked for. Finds of Presidio below PasteGuard's
threshold do not count. Presidio reads every language with its English model, which is its default.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.kit import head, row
from benchmarks.sanitising.finders import Find, finds_of

TYPES = ("PERSON", "EMAIL_ADDRESS", "PHONE_NUMBER", "CREDIT_CARD", "IBAN_CODE", "IP_ADDRESS", "LOCATION")
THRESHOLD = 0.7


@dataclass
class Figures:
    passed: int = 0
    expected: int = 0
    found: int = 0
    wrong: int = 0

    def add(self, case: dict[str, Any], finds: Sequence[Find]) -> None:
        left = [find for find in finds if find.type in TYPES and find.score >= THRESHOLD]
        missed = 0
        for wanted in case["expected"]:
            holding = (
                find
                for find in left
                if find.type == wanted["type"] and wanted["text"].lower() in case["text"][find.start : find.end].lower()
            )
            if match := next(holding, None):
                left.remove(match)
            else:
                missed += 1
        self.expected += len(case["expected"])
        self.found += len(case["expected"]) - missed
        self.wrong += len(left)
        self.passed += not missed and not left


def report(folder: Path, *, peers: bool) -> None:
    """Print the figures of the files in a folder, over all cases and over the English ones."""
    files = sorted(folder.glob("*.yaml"))
    cases = [case for path in files for case in yaml.safe_load(path.read_text(encoding="utf-8"))["test_cases"]]
    found = finds_of([case["text"] for case in cases], {"gateway": TYPES}, peers=peers)
    for title, languages in (("all", None), ("English", ("en",))):
        chosen = [languages is None or case["language"] in languages for case in cases]
        print(f"\n{title}: {sum(chosen)} cases\n")
        head("finder", "cases passed", "recall", "precision", "wrong finds")
        for name, finds in found.items():
            figures = Figures()
            for case, own, counts in zip(cases, finds, chosen, strict=True):
                if counts:
                    figures.add(case, own)
            precision = figures.found / max(1, figures.found + figures.wrong)
            row(name, figures.passed, f"{figures.found / figures.expected:.3f}", f"{precision:.3f}", figures.wrong)
