"""Which language model fills, by the operator's setting. One row a kind of model; none is ever fetched from a hub."""

from __future__ import annotations

from pathlib import Path

from core.text.infill_model import InfillModel
from gpu_workers.messages import INFILL_BUNDLED
from gpu_workers.models.infill import embedded_infill, pretrained_infill
from gpu_workers.models.masked_infill import MaskedInfill


def infill_model(source: str, *, device: str) -> InfillModel:
    """`source`: `INFILL_BUNDLED`, or the folder of a masked language model (BERT, RoBERTa, ...).

    Raises: ValueError for a folder that holds no such model.
    """
    if source == INFILL_BUNDLED:
        return MaskedInfill(embedded_infill(device=device))
    return MaskedInfill(pretrained_infill(Path(source), device=device))
