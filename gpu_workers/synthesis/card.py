"""The Markdown card of a file that makes synthetic rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def synthesis_card(result: Mapping[str, Any]) -> str:
    """The card of a file that makes synthetic rows."""
    privacy = result["privacy"]
    count = "public" if result["row_count"] == "public" else "as the noisy counts say"
    return "\n".join(
        [
            f"# Synthetic rows `{result['name']}`",
            "",
            "Made of one private release of a table. The file and every row that is drawn of it are post-processing:",
            "drawing costs nothing.",
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
