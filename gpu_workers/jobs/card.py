"""The Markdown card of what a job of documents has made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def card(title: str, text: Sequence[str], facts: Mapping[str, object], result: Mapping[str, Any], *end: str) -> str:
    """A title, lines of text, a table of facts, and the rows that the job did not use, from its warnings."""
    warnings = [f"* {row['code']}: {row['count']} of {result['rows']} rows" for row in result["warnings"]]
    table = ["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in facts.items())]
    rest = ["## What was left out", "", *(warnings or ["Nothing."]), "", *end]
    return "\n".join([f"# {title}", "", *text, "", *table, "", *rest])


def cell(value: str) -> str:
    """Escape a value for a table cell."""
    return " ".join(value.split()).replace("|", "\\|")
