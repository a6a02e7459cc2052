"""Parts of the Markdown cards beside what jobs make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def left_out(result: Mapping[str, Any]) -> list[str]:
    """The rows that a job has left out, by its warnings."""
    warnings = [f"* {row['code']}: {row['count']} of {result['rows']} rows" for row in result["warnings"]]
    return warnings or ["Nothing."]


def cell(value: str) -> str:
    """A value as a table takes it."""
    return " ".join(value.split()).replace("|", "\\|")
