"""The Markdown card of a file that generates synthetic rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def synthesis_card(result: Mapping[str, Any]) -> str:
    """Return the card of a file that generates synthetic rows."""
    privacy = result["privacy"]
    count = "public" if result["row_count"] == "public" else "estimated from the noisy counts"
    return "\n".join(
        [
            f"# Synthetic rows `{result['name']}`",
            "",
            "Derived from one private release of a table. The file and every row drawn from it are post-processing, so",
            "drawing rows costs no budget.",
            "",
            "| | |",
            "| --- | --- |",
            f"| guarantee | epsilon {privacy['epsilon']:g}, delta {privacy['delta']:g}, for replacing one record |",
            f"| mechanism | `{privacy['mechanism']}`, noise multiplier {privacy['noise_multiplier']:.4g} |",
            f"| rows | {result['rows']} ({count}) |",
            f"| columns | {result['columns']} |",
            f"| classes | {result['classes']} |",
            "",
        ]
    )
