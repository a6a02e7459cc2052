"""The declaration of a caller: a table of columns, or embeddings of one dimension as a table of that many columns.

Guarantee: as `core.synthesis.schema`: nothing is derived from private rows, and errors contain only the place.

Embeddings `{"embedding": {"dimension": 384, "minimum": -0.3, "maximum": 0.3}, "label": ...}` have rows `{"embedding":
[...], <label>: "..."}`. Internally they are the numeric columns `embedding.0`, `embedding.1`, ..., all with these
bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.errors import BadRow, InvalidInput
from core.synthesis.schema import COLUMNS_MAX, TableSchema, table_schema

EMBEDDING = "embedding"


@dataclass(frozen=True)
class DeclaredTable:
    """A schema and the format of its rows: `dimension` is that of embeddings, None for a table of columns."""

    schema: TableSchema
    dimension: int | None

    def row(self, written: Any, *, number: int) -> Mapping[str, Any]:
        """Convert a row from the caller's format to columns. Raises BadRow with `number` for an invalid embedding."""
        if self.dimension is None:
            return written  # type: ignore[no-any-return]  # the encoding validates it
        if not isinstance(written, Mapping) or EMBEDDING not in written:
            raise BadRow("A row has an embedding.", reason="wrong-columns", row=number)
        vector = written[EMBEDDING]
        if not isinstance(vector, list) or len(vector) != self.dimension:
            raise BadRow("An embedding has the declared dimension.", reason="wrong-dimension", row=number)
        rest = {name: value for name, value in written.items() if name != EMBEDDING}
        return rest | {f"{EMBEDDING}.{i}": value for i, value in enumerate(vector)}

    def written(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Convert a row from columns to the caller's format."""
        if self.dimension is None:
            return dict(row)
        names = [column.name for column in self.schema.columns]
        written: dict[str, Any] = {EMBEDDING: [row[name] for name in names]}
        if self.schema.label is not None:
            written[self.schema.label.name] = row[self.schema.label.name]
        return written


def declared_table(declared: Any) -> DeclaredTable:
    """Parse a declaration. Raises InvalidInput with the place as `field`."""
    if not isinstance(declared, Mapping) or EMBEDDING not in declared:
        return DeclaredTable(table_schema(declared), None)
    if not set(declared) <= {EMBEDDING, "label"}:
        raise InvalidInput("A schema of embeddings has an embedding and a label.", field="schema")
    terms = declared[EMBEDDING]
    place = f"schema.{EMBEDDING}"
    if not isinstance(terms, Mapping) or not set(terms) <= {"dimension", "minimum", "maximum"}:
        raise InvalidInput("An embedding has a dimension, a minimum and a maximum.", field=place)
    dimension = terms.get("dimension")
    if not isinstance(dimension, int) or isinstance(dimension, bool) or not 1 <= dimension <= COLUMNS_MAX:
        raise InvalidInput(f"An embedding has between 1 and {COLUMNS_MAX} dimensions.", field=f"{place}.dimension")
    bounds = {"minimum": terms.get("minimum"), "maximum": terms.get("maximum")}
    label = declared.get("label")
    columns = [{"kind": "numeric", "name": f"{EMBEDDING}.{i}"} | bounds for i in range(dimension)]
    try:
        schema = table_schema({"columns": columns, "label": label})
    except InvalidInput as error:
        field = (error.field or "schema").replace("schema.columns.0", place)
        raise InvalidInput(error.detail, field=field) from None
    if schema.label is not None and schema.label.name == EMBEDDING:
        raise InvalidInput("The label must not have the name of the embedding.", field="schema.label.name")
    return DeclaredTable(schema, dimension)
