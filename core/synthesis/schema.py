"""The declaration of a table: public bounds, public categories, at most one label.

Guarantee: nothing in this module depends on private rows. A minimum, a maximum or a list of categories taken from the
data would leak it, so the caller declares them all, and a missing one is an error. Errors contain the place in the
declaration, never its content.

A caller declares a table of columns, or embeddings of one dimension as a table of that many columns (`declared_table`).
Embeddings `{"embedding": {"dimension": 384, "minimum": -0.3, "maximum": 0.3}, "label": ...}` have rows `{"embedding":
[...], <label>: "..."}`. Internally they are the numeric columns `embedding.0`, `embedding.1`, ..., all with these
bounds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NoReturn, TypeGuard

from core.errors import BadRow, InvalidInput

COLUMNS_MAX = 1_024
CATEGORIES_MAX = 1_024  # for each column
WIDTH_MAX = 2_048  # coordinates of an encoded row
CLASSES_MAX = 64
NAME_CHARS_MAX = 256
BOUND_MAX = 1e15


@dataclass(frozen=True)
class NumericColumn:
    """Numbers between public bounds. `integer`: whole numbers; decoding rounds."""

    name: str
    minimum: float
    maximum: float
    integer: bool = False

    @property
    def width(self) -> int:
        """The number of coordinates in an encoded row."""
        return 1


@dataclass(frozen=True)
class CategoricalColumn:
    """One of several public categories."""

    name: str
    categories: tuple[str, ...]

    @property
    def width(self) -> int:
        """The number of coordinates in an encoded row, one-hot."""
        return len(self.categories)


Column = NumericColumn | CategoricalColumn


@dataclass(frozen=True)
class TableSchema:
    """The declared columns in order, and the separate label column. Use `table_schema` to build it."""

    columns: tuple[Column, ...]
    label: CategoricalColumn | None

    @property
    def classes(self) -> int:
        """The number of classes on which a release is conditional: 1 without a label."""
        return 1 if self.label is None else len(self.label.categories)

    @property
    def width(self) -> int:
        """The number of coordinates of an encoded row."""
        return sum(column.width for column in self.columns)

    @property
    def squared_diameter(self) -> int:
        """The squared diameter of the encoded rows' domain.

        A numeric column spans [0, 1], and the distance of two categories is sqrt(2).
        """
        return sum(1 if isinstance(column, NumericColumn) else 2 for column in self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns, the label last."""
        return tuple(column.name for column in self.columns) + (() if self.label is None else (self.label.name,))

    def as_json(self) -> dict[str, Any]:
        """Return the declaration that `table_schema` parses."""
        label = None if self.label is None else _as_json(self.label)
        return {"columns": [_as_json(column) for column in self.columns], "label": label}


def table_schema(declared: Mapping[str, Any]) -> TableSchema:
    """Parse a declaration from JSON and return the schema.

    `{"columns": [{"name", "kind": "numeric", "minimum", "maximum", "integer"?}, {"name", "kind": "categorical",
    "categories"}], "label": {"name", "kind": "categorical", "categories"} or null}`. A label has at least two
    categories. Raises: InvalidInput with the place as `field`, for anything else.
    """
    if not isinstance(declared, Mapping) or not set(declared) <= {"columns", "label"}:
        _refuse("A schema has columns and a label.", "schema")
    columns, label = declared.get("columns"), declared.get("label")
    if not _is_list(columns) or not 1 <= len(columns) <= COLUMNS_MAX:
        _refuse(f"A schema has between 1 and {COLUMNS_MAX} columns.", "schema.columns")
    read = tuple(_column(column, f"schema.columns.{i}") for i, column in enumerate(columns))
    read_label = None if label is None else _column(label, "schema.label")
    if isinstance(read_label, NumericColumn):
        _refuse("The label must be categorical.", "schema.label.kind")
    if read_label is not None and not 2 <= len(read_label.categories) <= CLASSES_MAX:
        _refuse(f"A label has between 2 and {CLASSES_MAX} classes.", "schema.label.categories")
    schema = TableSchema(read, read_label)
    if len(set(schema.names)) < len(schema.names):
        _refuse("Two columns have the same name.", "schema.columns")
    if schema.width > WIDTH_MAX:
        _refuse(f"A row may have at most {WIDTH_MAX} numbers and categories in total.", "schema.columns")
    return schema


def _column(declared: object, place: str) -> Column:
    if not isinstance(declared, Mapping):
        _refuse("A column is an object.", place)
    kind = declared.get("kind")
    keys = {"numeric": {"minimum", "maximum", "integer"}, "categorical": {"categories"}}
    if not isinstance(kind, str) or kind not in keys:
        _refuse("A column is numeric or categorical.", f"{place}.kind")
    if not set(declared) <= keys[kind] | {"name", "kind"}:
        _refuse("The column has a field that its kind does not support.", place)
    name = declared.get("name")
    if not _is_text(name):
        _refuse(f"A column has a name of 1 to {NAME_CHARS_MAX} characters.", f"{place}.name")
    if kind == "categorical":
        return CategoricalColumn(name, _categories(declared.get("categories"), place))
    minimum, maximum = (_bound(declared.get(end), f"{place}.{end}") for end in ("minimum", "maximum"))
    if not minimum < maximum:
        _refuse("The minimum must lie below the maximum.", f"{place}.maximum")
    integer = declared.get("integer", False)
    if not isinstance(integer, bool):
        _refuse("integer is true or false.", f"{place}.integer")
    if integer and not (minimum.is_integer() and maximum.is_integer()):
        _refuse("The bounds of whole numbers are whole.", f"{place}.minimum")
    return NumericColumn(name, minimum, maximum, integer)


def _bound(value: object, place: str) -> float:
    if value is None:
        _refuse("Declare public bounds. Bounds derived from private rows would leak them.", place)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= BOUND_MAX:
        _refuse(f"A bound is a number within {BOUND_MAX:g} of zero.", place)
    return float(value)


def _categories(value: object, place: str) -> tuple[str, ...]:
    place = f"{place}.categories"
    if not _is_list(value):
        _refuse("Declare public categories. A list derived from private rows would leak them.", place)
    if not 1 <= len(value) <= CATEGORIES_MAX or not all(_is_text(entry) for entry in value):
        _refuse(f"A column has 1 to {CATEGORIES_MAX} categories of 1 to {NAME_CHARS_MAX} characters.", place)
    if len(set(value)) < len(value):
        _refuse("A category is declared twice.", place)
    return tuple(value)


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and 1 <= len(value) <= NAME_CHARS_MAX


def _refuse(detail: str, field: str) -> NoReturn:
    raise InvalidInput(detail, field=field)


def _as_json(column: Column) -> dict[str, Any]:
    kind = "numeric" if isinstance(column, NumericColumn) else "categorical"
    fields = asdict(column)
    if isinstance(column, CategoricalColumn):
        fields["categories"] = list(column.categories)
    return {"kind": kind} | fields


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
