"""The recoder H: maps sentence embeddings into the space of `deep_candidate` (Meehan et al. 2022, section 4.3).

Each sentence is recoded independently. Rows are processed in chunks of one fixed size, padded with zeros, and in one
thread, so that the device runs the same kernel for every batch. `self_check` measures that rows do not affect each
other inside such a kernel; as for the encoder, this is not proven.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from core.mechanisms.torch_threads import at_most

Layers = Sequence[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]

_ROWS = 32


class Recoder:
    """Linear layers `[d, d]` with ReLU between them, as in a domain pack."""

    def __init__(self, layers: Layers, device: torch.device) -> None:
        self._device = device
        self._layers = [
            (torch.tensor(weight, device=device), torch.tensor(bias, device=device)) for weight, bias in layers
        ]

    @torch.inference_mode()
    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Map float32 `[n, d]` to float32 `[n, d]`."""
        padded = torch.nn.functional.pad(rows.to(self._device), (0, 0, 0, -len(rows) % _ROWS))
        with at_most(1):
            return torch.cat([self._chunk(chunk) for chunk in torch.split(padded, _ROWS)])[: len(rows)]

    def _chunk(self, hidden: torch.Tensor) -> torch.Tensor:
        for index, (weight, bias) in enumerate(self._layers):
            if index:
                hidden = torch.relu(hidden)
            hidden = torch.nn.functional.linear(hidden, weight, bias)
        return hidden

    def self_check(self) -> bool:
        """Whether a row's result is bitwise the same alone and at any position among other rows."""
        rows = torch.randn(3 * _ROWS + 5, self._layers[0][0].shape[1])
        alone = torch.cat([self(row[None]) for row in rows])
        order = torch.randperm(len(rows))
        return torch.equal(self(rows), alone) and torch.equal(self(rows[order]), alone[order])
