"""Small declared tables that the tests of synthesis share."""

import random

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


SHOP = {
    "columns": [
        {"name": "age", "kind": "numeric", "minimum": 0, "maximum": 100, "integer": True},
        {"name": "spent", "kind": "numeric", "minimum": 0, "maximum": 1},
        {"name": "colour", "kind": "categorical", "categories": ["red", "green", "blue"]},
    ],
    "label": {"name": "buys", "kind": "categorical", "categories": ["no", "yes"]},
}


def shop_rows(count: int) -> list[dict[str, object]]:
    """Rows of SHOP as a caller writes them: who buys is older, and likes red."""
    draw = random.Random(7)
    return [
        {
            "age": draw.randint(20, 50) + 30 * (i % 2),
            "spent": draw.random(),
            "colour": draw.choice(["red", "blue"] if i % 2 else ["green", "blue"]),
            "buys": ["no", "yes"][i % 2],
        }
        for i in range(count)
    ]


def shop_request(**fields: object) -> dict[str, object]:
    """What a request says besides its rows: few frequencies, so that a job takes seconds."""
    body = {"name": "shop", "schema": SHOP, "method": "pearl", "epsilon": 1.0, "delta": 1e-5, "row_count": "public"}
    own = {"frequencies": 20, "steps": 50} if fields.get("method", "pearl") == "pearl" else {}
    return body | own | fields
