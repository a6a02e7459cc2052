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

from core.mechanisms.sentences.decoder_shapes import LENGTH_FEATURES
from core.mechanisms.sentences.domain_pack import Layers

_SHARE_SCALE = 3.0  # brings the features, and the targets of the training, to a scale near 1
_LOG_SCALE = 1 / 3


def features(histograms: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Return the network's inputs for float32 `[n, N]` noisy histograms of documents of `lengths` `[n]` sentences."""
    k = lengths.to(torch.float32)[:, None]
    return torch.cat([histograms * (_SHARE_SCALE / k), histograms * k.rsqrt(), length_features(k)], dim=1)


def length_features(k: torch.Tensor) -> torch.Tensor:
    """Return 1/sqrt(k) and log(k), scaled, of numbers of sentences `[n, 1]`: `[n, LENGTH_FEATURES]`."""
    return torch.cat([k.rsqrt(), k.log() * _LOG_SCALE], dim=1)


def averages_of_codes(
    table: torch.Tensor, codes: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> npt.NDArray[np.float32]:
    """Return H/k @ table of each document: float32 `[n, m]`, from `table` `[N, m]` and the documents' codes.

    `codes` are those of all documents, concatenated; `lengths` `[n]`.
    """
    starts = torch.from_numpy(np.cumsum(lengths) - lengths)
    return np.asarray(torch.nn.functional.embedding_bag(torch.from_numpy(codes), table, starts, mode="mean").numpy())


class HistogramDecoder:
    """The network of one row of a pack's parameters, in main memory."""

    def __init__(self, layers: Layers) -> None:
        (weight, bias), *rest = ((torch.tensor(weight), torch.tensor(bias)) for weight, bias in layers)
        self._codes = (weight.shape[1] - LENGTH_FEATURES) // 2
        self._first, self._bias = weight, bias
        of_shares, of_scaled = weight[:, : self._codes].T * _SHARE_SCALE, weight[:, self._codes : 2 * self._codes].T
        self._by_code = torch.cat([of_shares, of_scaled], dim=1)  # the first layer's terms for one code of H/k
        self._rest = rest

    @torch.inference_mode()
    def of_histograms(
        self, histograms: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """Map int64 `[n, N]` noisy histograms and `[n]` lengths to float32 `[n, d]`."""
        inputs = features(torch.from_numpy(histograms.astype(np.float32)), torch.from_numpy(lengths))
        return self._after(torch.nn.functional.linear(inputs, self._first, self._bias))

    @torch.inference_mode()
    def of_codes(self, codes: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Map the histograms of codes, as of `averages_of_codes`, to float32 `[n, d]`. For large N this is faster."""
        k = torch.from_numpy(lengths).to(torch.float32)[:, None]
        of_shares, of_scaled = torch.from_numpy(averages_of_codes(self._by_code, codes, lengths)).chunk(2, dim=1)
        of_lengths = length_features(k) @ self._first[:, 2 * self._codes :].T
        return self._after(of_shares + of_scaled * k.sqrt() + of_lengths + self._bias)

    def _after(self, hidden: torch.Tensor) -> npt.NDArray[np.float32]:
        for weight, bias in self._rest:
            hidden = torch.nn.functional.linear(torch.nn.functional.gelu(hidden), weight, bias)
        return np.asarray(hidden.numpy())
