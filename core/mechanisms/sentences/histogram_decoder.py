"""The decoder of `sentence_codes`: a network that adds to the linear map what that map misses.

A noisy histogram H of a document of k sentences becomes the features H/k, H/sqrt(k), 1/sqrt(k) and log(k), and three
linear layers with GELU between them map these to a vector. The network is trained on public documents through the
mechanism's own noise to minimise the squared error, so linear map and network together estimate the posterior mean of
the document's vector. It is post-processing of H, k and public weights, so it may use inexact arithmetic.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from core.mechanisms.sentences.domain_pack import Layers

_SHARE_SCALE = 3.0  # brings the features, and the targets of the training, to a scale near 1
_LOG_SCALE = 1 / 3


def features(histograms: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Return the network's inputs for float32 `[n, N]` noisy histograms of documents of `lengths` `[n]` sentences."""
    k = lengths.to(torch.float32)[:, None]
    return torch.cat([histograms * (_SHARE_SCALE / k), histograms * k.rsqrt(), k.rsqrt(), k.log() * _LOG_SCALE], dim=1)


class HistogramDecoder:
    """The network of one row of a pack's parameters, in main memory."""

    def __init__(self, layers: Layers) -> None:
        self._layers = [(torch.tensor(weight), torch.tensor(bias)) for weight, bias in layers]

    @torch.inference_mode()
    def of_histograms(
        self, histograms: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """Map int64 `[n, N]` noisy histograms and `[n]` lengths to float32 `[n, d]`."""
        hidden = features(torch.from_numpy(histograms.astype(np.float32)), torch.from_numpy(lengths))
        for index, (weight, bias) in enumerate(self._layers):
            if index:
                hidden = torch.nn.functional.gelu(hidden)
            hidden = torch.nn.functional.linear(hidden, weight, bias)
        return np.asarray(hidden.numpy())
