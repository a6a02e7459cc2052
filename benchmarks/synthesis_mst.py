"""MST (McKenna, Miklau and Sheldon 2021) by OpenDP, an optional peer: `pip install 'opendp[mbi]' pandas`.

Its neighbours are tables with one row more or less, an easier promise than ours: for replacing a row its noise would
be greater.
"""

from __future__ import annotations

import importlib.util
import math
import warnings

import numpy as np

from core.synthesis.encoding import STEPS, EncodedTable
from core.synthesis.schema import CategoricalColumn, TableSchema

WHY_NOT = "skipped: `opendp[mbi]` and pandas are not installed"


def installed() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in ("opendp", "mbi", "polars", "pandas"))


def mst(table: EncodedTable, *, epsilon: float, delta: float, bins: int, count: int) -> EncodedTable:
    """`count` rows of MST's model; numbers in even bins, uniform in them."""
    import opendp.prelude as dp
    import polars as pl

    warnings.simplefilter("ignore")
    rho = zero_concentrated(epsilon, delta)
    dp.enable_features("contrib")
    schema = table.schema
    edges = np.arange(bins + 1) * (STEPS + 1) // bins
    columns = {f"c{j}": _binned(schema, table, j, edges) for j in range(len(schema.columns))}
    frame = pl.LazyFrame({**columns, "label": table.labels.astype(np.int32)})
    sizes = {f"c{j}": _size(schema, j, bins) for j in range(len(schema.columns))} | {"label": schema.classes}
    context = dp.Context.compositor(
        data=frame,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=rho),
    )
    keys = {name: list(range(size)) for name, size in sizes.items()}
    released = context.query(rho=rho).contingency_table(keys=keys, algorithm=dp.mbi.MST()).release()
    known = released.synthesize().drop_nulls()  # a missing value is one of its own, which noise may fill
    made = known.sample(count, with_replacement=True, shuffle=True)
    draw = np.random.default_rng()
    codes = np.empty((count, len(schema.columns)), dtype=np.int16)
    for j, column in enumerate(schema.columns):
        values = made[f"c{j}"].to_numpy().astype(np.int64)
        numeric = not isinstance(column, CategoricalColumn)
        codes[:, j] = draw.integers(edges[values], edges[values + 1]) if numeric else values
    return EncodedTable(schema, codes, made["label"].to_numpy().astype(np.int16))


def zero_concentrated(epsilon: float, delta: float) -> float:
    """The greatest rho whose zCDP is (epsilon, delta)-DP (Canonne, Kamath and Steinke 2020, proposition 12)."""
    alpha = 1 + np.geomspace(1e-3, 1e4, 20_000)
    low, high = 0.0, epsilon
    for _ in range(60):
        rho = (low + high) / 2
        log_delta = (alpha - 1) * (alpha * rho - epsilon) + (alpha - 1) * np.log1p(-1 / alpha) - np.log(alpha)
        low, high = (rho, high) if log_delta.min() <= np.log(delta) else (low, rho)
    return math.floor(low * 2**16) / 2**16  # its own sums of shares overrun a longer number


def _binned(schema: TableSchema, table: EncodedTable, j: int, edges: np.ndarray) -> np.ndarray:
    codes = table.codes[:, j].astype(np.int32)
    if isinstance(schema.columns[j], CategoricalColumn):
        return codes
    return (np.searchsorted(edges, codes, side="right") - 1).astype(np.int32)


def _size(schema: TableSchema, j: int, bins: int) -> int:
    column = schema.columns[j]
    return len(column.categories) if isinstance(column, CategoricalColumn) else bins
