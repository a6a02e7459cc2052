"""Polars: private vectors and sanitised texts of a column.

`pip install privacy-gateway-client[polars]`

Call these functions on a series. In a lazy query, Polars may call a function more than once, which charges again.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from privacy_gateway_client import Gateway
from privacy_gateway_client.inputs import numbered
from privacy_gateway_client.integrations import calls
from privacy_gateway_client.integrations.calls import Column, Endpoint, OnRelease, TextEmbedder, lists_of


def embed(
    texts: pl.Series,
    gateway: Gateway,
    *,
    epsilon: float,
    endpoint: Endpoint = "sentdp",
    on_release: OnRelease | None = None,
    **options: Any,
) -> pl.Series:
    """A column of private vectors, `Array(Float32, dimension)`. Each text costs `epsilon`; a missing one nothing, and
    its vector is missing.

    endpoint: `sentdp` protects one sentence of each text, `vector` each text as a whole.
    options: further arguments of `Gateway.embed_documents` or `Gateway.embed_texts`.
    on_release: is called with each `Release`, which has the guarantee and the account's balance.
    """
    column = _column(texts)
    with numbered(column.places):
        result = TextEmbedder(epsilon, endpoint, options, on_release).embed(gateway, column.texts)
    rows: Any = result.vectors if hasattr(result.vectors, "shape") else lists_of(result)  # an array where NumPy is
    vectors = pl.Series(texts.name, rows, dtype=pl.Array(pl.Float32, result.dimension))
    order: list[int | None] = [None] * column.size
    for row, place in enumerate(column.places):
        order[place] = row
    return vectors.gather(pl.Series(order, dtype=pl.UInt32))


def sanitize(texts: pl.Series, gateway: Gateway, *, on_release: OnRelease | None = None, **options: Any) -> pl.Series:
    """The column with masked and filled texts; missing ones stay missing. No formal guarantee, except by the fills
    `dp` and `metric_dp`, which cost budget.

    options: `mask`, `fill`, `policy` of `Gateway.sanitize`.
    """
    column = _column(texts)
    with numbered(column.places):
        cleaned = calls.sanitize(gateway, column.texts, options, on_release)
    return pl.Series(texts.name, column.cleaned(cleaned, None), dtype=pl.String)


def _column(texts: pl.Series) -> Column:
    if not isinstance(texts, pl.Series):
        raise TypeError(f'pass one column, such as table["text"], not {type(texts).__name__}')
    return Column.of(texts, missing=texts.is_null())
