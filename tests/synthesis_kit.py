"""Small declared tables that the tests of synthesis share."""

import numpy as np

from core.synthesis.encoding import EncodedTable
from core.synthesis.schema import TableSchema, table_schema


def toy_schema(*, labelled: bool = True, numeric: int = 1) -> TableSchema:
    """`numeric` columns of 0..10, one of three colours, and a label of two classes or none."""
    columns: list[dict[str, object]] = [
        {"name": f"n{i}", "kind": "numeric", "minimum": 0, "maximum": 10} for i in range(numeric)
    ]
    columns.append({"name": "colour", "kind": "categorical", "categories": ["red", "green", "blue"]})
    label = {"name": "label", "kind": "categorical", "categories": ["no", "yes"]}
    return table_schema({"columns": columns, "label": label if labelled else None})


def table_of(schema: TableSchema, rows: list[tuple[int, ...]]) -> EncodedTable:
    """Encoded rows written out: the codes of the columns, then the label's."""
    array = np.array(rows, dtype=np.int16)
    return EncodedTable(schema, array[:, :-1], array[:, -1])
