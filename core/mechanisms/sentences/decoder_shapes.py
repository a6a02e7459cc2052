"""The limits and shapes of a histogram decoder. Light: the pack's loader reads them without torch."""

from __future__ import annotations

DECODED_CODES_MAX = 64  # with more codes, a network adds nothing to the linear map
DECODER_LAYERS = 3
LENGTH_FEATURES = 2  # 1/sqrt(k) and log(k)


def decoder_shapes(codes: int, hidden: int, dimension: int) -> list[tuple[int, int]]:
    """Return `(outputs, inputs)` of each layer for histograms of `codes` bins."""
    return [(hidden, 2 * codes + LENGTH_FEATURES), (hidden, hidden), (dimension, hidden)]
