"""The Markdown card of a fine-tuned language model: facts only, never text of the corpus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_workers.jobs.card import cell, left_out
from gpu_workers.models.adapter_file import AdapterInfo


def infill_card(info: AdapterInfo, result: Mapping[str, Any]) -> str:
    """The card of a fine-tuned language model."""
    return "\n".join(
        [
            f"# Language model `{result['model']}`",
            "",
            "The gateway's masked language model, fine-tuned on documents whose masked places it had filled itself.",
            "The file holds weights, no text. **Guarantee: none.** The model was trained on all text that no mask",
            "covered, and anyone who has the file may learn this text. Protect the file like the documents.",
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
            f"| licence of the initial model | {cell(info.licence)} |",
            "",
            "## What was left out",
            "",
            *left_out(result),
            "",
        ]
    )
