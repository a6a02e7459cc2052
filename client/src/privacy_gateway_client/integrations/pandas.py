"""pandas: private vectors and sanitised texts of a column.

`pip install privacy-gateway-client[pandas]`
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from privacy_gateway_client import Gateway
from privacy_gateway_client.answers import Release
from privacy_gateway_client.inputs import numbered
from privacy_gateway_client.integrations import calls
from privacy_gateway_client.integrations.calls import Column, Endpoint, OnRelease, TextEmbedder


def embed(
    texts: pd.Series[Any],
    gateway: Gateway,
    *,
    epsilon: float,
    endpoint: Endpoint = "sentdp",
    on_release: OnRelease | None = None,
    **options: Any,
) -> pd.DataFrame:
    """A table of private vectors with the index of the column. Each text costs `epsilon`; a missing one nothing, and
    its row is NaN.

    endpoint: `sentdp` protects one sentence of each text, `vector` each text as a whole.
    options: further arguments of `Gateway.embed_documents` or `Gateway.embed_texts`.
    `attrs["privacy"]` of the table lists the facts of each release.
    """
    column = _column(texts)
    with numbered(column.places):
        result = TextEmbedder(epsilon, endpoint, options, on_release).embed(gateway, column.texts)
    vectors = np.full((column.size, result.dimension), np.nan, dtype=np.float32)
    vectors[column.places] = result.vectors
    table = pd.DataFrame(vectors, index=texts.index)
    table.attrs["privacy"] = calls.facts_of_releases(result.releases)
    return table


def sanitize(
    texts: pd.Series[Any], gateway: Gateway, *, on_release: OnRelease | None = None, **options: Any
) -> pd.Series[Any]:
    """The column with masked and filled texts; missing ones stay missing. No formal guarantee, except by the fills
    `dp` and `metric_dp`, which cost budget.

    options: `mask`, `fill`, `policy` of `Gateway.sanitize`.
    `attrs["privacy"]` of the column lists the facts of each release.
    """
    releases: list[Release] = []

    def keep(release: Release) -> None:
        releases.append(release)
        if on_release is not None:
            on_release(release)

    column = _column(texts)
    with numbered(column.places):
        cleaned = column.cleaned(calls.sanitize(gateway, column.texts, options, keep), None)
    kind = object if isinstance(texts.dtype, pd.CategoricalDtype) else texts.dtype  # the texts are no old categories
    made = pd.Series(cleaned, index=texts.index, name=texts.name, dtype=kind)
    made.attrs["privacy"] = calls.facts_of_releases(releases)
    return made


def _column(texts: pd.Series[Any]) -> Column:
    if not isinstance(texts, pd.Series):
        raise TypeError(f'pass one column, such as table["text"], not {type(texts).__name__}')
    return Column.of(texts, missing=texts.isna())
