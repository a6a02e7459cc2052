"""The Markdown card of a domain pack: facts only, never text of the corpus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.mechanisms.sentences.pack_facts import DomainPackInfo
from gpu_workers.jobs.card import cell, left_out


def domain_card(info: DomainPackInfo, result: Mapping[str, Any]) -> str:
    """The card of a pack that a domain job built. `result` is the job's result."""
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
            f"| documents with a label | {result['labelled_documents']} |",
            f"| sentences | {result['sentences']} |",
            f"| candidates | {info.candidates} |",
            f"| steps of each training, at most | {result['steps']} |",
            "",
            "## What was left out",
            "",
            *left_out(result),
            "",
            "The guarantee of a release does not depend on this file, but its utility does: the corpus must be public",
            "and similar to the documents that will be released.",
            "",
        ]
    )
