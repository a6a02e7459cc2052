"""The Markdown cards beside what jobs make: facts alone, never text of the corpus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from core.mechanisms.sentences.pack_facts import DomainPackInfo

if TYPE_CHECKING:
    from gpu_workers.models.adapter_file import AdapterInfo  # with torch, which a domain of vectors needs late


def domain(info: DomainPackInfo, result: Mapping[str, Any]) -> str:
    """The card of a pack that a domain job built; `result` is what the job tells of its corpus."""
    return "\n".join(
        [
            f"# Domain pack `{info.name}`",
            "",
            "Computed from public documents by a domain job. The file holds vectors and weights, no text.",
            "",
            "| | |",
            "| --- | --- |",
            f"| source, as the caller declared it | {cell(info.source)} |",
            f"| licence, as the caller declared it | {cell(info.licence)} |",
            f"| encoder | {cell(info.encoder)} (`{info.encoder_fingerprint}`) |",
            f"| dimension | {info.dimension} |",
            f"| documents used | {result['documents']} of {result['rows']} rows |",
            f"| sentences | {result['sentences']} |",
            f"| candidates | {info.candidates} |",
            "",
            "## What was left out",
            "",
            *_left_out(result),
            "",
            "The guarantee of a release does not depend on this file, its utility does: the corpus must be public and",
            "like the documents that will be released.",
            "",
        ]
    )


def infill(info: AdapterInfo, result: Mapping[str, Any]) -> str:
    """The card of a fine-tuned language model."""
    return "\n".join(
        [
            f"# Language model `{result['model']}`",
            "",
            "The gateway's masked language model, fine-tuned on documents whose masked places it had filled itself.",
            "The file holds weights, no text. **Guarantee: none.** What no mask covered was trained on, and whoever",
            "has the file may learn of it: keep it as you keep the documents.",
            "",
            "| | |",
            "| --- | --- |",
            f"| documents used | {result['documents']} of {result['rows']} rows |",
            f"| word pieces | {result['pieces']} |",
            f"| masked places | {result['places']} |",
            f"| masks | {', '.join(result['techniques'])} |",
            f"| fill | {result['fill']} |",
            f"| rounds | {info.rounds} of {info.steps} steps |",
            f"| encoder | `{info.encoder_fingerprint}` |",
            f"| licence of the model it began as | {cell(info.licence)} |",
            "",
            "## What was left out",
            "",
            *_left_out(result),
            "",
        ]
    )


def synthesis(result: Mapping[str, Any]) -> str:
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


def _left_out(result: Mapping[str, Any]) -> list[str]:
    warnings = [f"* {row['code']}: {row['count']} of {result['rows']} rows" for row in result["warnings"]]
    return warnings or ["Nothing."]


def cell(value: str) -> str:
    """A value as a table takes it."""
    return " ".join(value.split()).replace("|", "\\|")
