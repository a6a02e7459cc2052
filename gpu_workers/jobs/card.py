"""Parts of the Markdown cards that several kinds of jobs use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def left_out(result: Mapping[str, Any]) -> list[str]:
    """The rows that a job did not use, from its warnings."""
    warnings = [f"* {row['code']}: {row['count']} of {result['rows']} rows" for row in result["warnings"]]
    return warnings or ["Nothing."]


def cell(value: str) -> str:
    """Escape a value for a table cell."""
    return " ".join(value.split()).replace("|", "\\|")
