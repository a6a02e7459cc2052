"""Choose the language model for fills by the operator's setting: one row for each kind. Workers download no model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from core.text.model_fills import InfillModel
from gpu_workers.models.causal_infill import causal_infill
from gpu_workers.models.endpoint import Endpoint
from gpu_workers.models.infill import embedded_infill, pretrained_infill
from gpu_workers.models.masked_infill import MaskedInfill
from gpu_workers.models.pretrained import architectures
from gpu_workers.models.remote_infill import RemoteInfill
from gpu_workers.models.sources import INFILL_BUNDLED, InfillSource


def _masked(path: Path, device: str) -> InfillModel:
    return MaskedInfill(pretrained_infill(path, device=device))


def _causal(path: Path, device: str) -> InfillModel:
    return causal_infill(path, device=device)


# Maps the suffix of a checkpoint's architecture to its loader.
FOLDERS: dict[str, Callable[[Path, str], InfillModel]] = {
    "ForMaskedLM": _masked,
    "ForCausalLM": _causal,
    "LMHeadModel": _causal,  # the name that GPT-2 uses
}


def infill_model(source: InfillSource, *, device: str) -> InfillModel:
    """`source`: `INFILL_BUNDLED`, the folder of a masked or causal language model, or an endpoint.

    Raises: ValueError for a folder that holds no such model.
    """
    if isinstance(source, Endpoint):
        return RemoteInfill(source)
    if source == INFILL_BUNDLED:
        return MaskedInfill(embedded_infill(device=device))
    path = Path(source)
    for name in (named := architectures(path)):
        for ending, load in FOLDERS.items():
            if name.endswith(ending):
                return load(path, device)
    found = ", ".join(named) or "nothing"
    raise ValueError(f"the folder holds {found}, not a model that fills; architectures end in {', '.join(FOLDERS)}")
