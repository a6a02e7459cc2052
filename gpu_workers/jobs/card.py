"""The Markdown card beside a domain pack: facts alone, never text of the corpus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.mechanisms.pack_facts import DomainPackInfo


def text(info: DomainPackInfo, result: Mapping[str, Any]) -> str:
    """The card of a pack that a domain job built; `result` is what the job tells of its corpus."""
    warnings = [f"* {row['code']}: {row['count']} of {result['rows']} rows" for row in result["warnings"]]
    return "\n".join(
        [
            f"# Domain pack `{info.name}`",
            "",
            "Computed from public documents by a domain job. The file holds vectors and weights, no text.",
            "",
            "| | |",
            "| --- | --- |",
            f"| source, as the caller declared it | {_cell(info.source)} |",
            f"| licence, as the caller declared it | {_cell(info.licence)} |",
            f"| encoder | {_cell(info.encoder)} (`{info.encoder_fingerprint}`) |",
            f"| dimension | {info.dimension} |",
            f"| documents used | {result['documents']} of {result['rows']} rows |",
            f"| sentences | {result['sentences']} |",
            f"| candidates | {info.candidates} |",
            "",
            "## What was left out",
            "",
            *(warnings or ["Nothing."]),
            "",
            "The guarantee of a release does not depend on this file, its utility does: the corpus must be public and",
            "like the documents that will be released.",
            "",
        ]
    )


def _cell(value: str) -> str:
    return " ".join(value.split()).replace("|", "\\|")
