"""The declaration of a table: its columns, at most one label, and the columns that are read and not released.

Guarantee: nothing in this module depends on private rows. A minimum, a maximum or a list of categories taken from the
data would leak it, so the caller declares them all, and a missing one is an error. Errors contain the place in the
declaration, never its content.

A caller declares a table of columns, or embeddings of one dimension as a table of that many columns (`declared_table`).
Embeddings `{"embedding": {"dimension": 384, "minimum": -0.3, "maximum": 0.3}, "label": ...}` have rows `{"embedding":
[...], <label>: "..."}`. Internally they are the numeric columns `embedding.0`, `embedding.1`, ..., all with these
bounds.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final, NoReturn, TypeGuard

import numpy as np

from core.errors import BadRow, InvalidInput
from core.synthesis.columns import (
    DATE_CHARS_MAX,
    NAME_CHARS_MAX,
    STEP_S,
    BinnedColumn,
    BooleanColumn,
    CategoricalColumn,
    Column,
    DateForm,
    FloatArray,
    Missing,
    NumberForm,
    NumericColumn,
)

COLUMNS_MAX = 1_024
WIDTH_MAX = 2_048  # coordinates of an encoded row
CLASSES_MAX = 64
CATEGORIES_MAX = 1_024  # for each column
BOUND_MAX = 1e15
BINS_DEFAULT, BINS_MAX = 32, 256
POINTS_MAX = WORDS_MAX = 16


@dataclass(frozen=True)
class TableSchema:
    """The declared columns in order, and the separate label column. Use `table_schema` to build it.

    `order`: lists of columns whose values ascend in a synthetic row; it changes no release.
    """

    columns: tuple[Column, ...]
    label: CategoricalColumn | None
    order: tuple[tuple[str, ...], ...] = ()

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
        label = None if self.label is None else self.label.as_json()
        order = {"order": [list(names) for names in self.order]} if self.order else {}
        return {"columns": [column.as_json() for column in self.columns], "label": label} | order


def table_schema(declared: Mapping[str, Any]) -> TableSchema:
    """Parse a declaration from JSON and return the schema.

    `{"columns": [{"name", "kind", ...}], "label": {...} or null}`; docs/reference/synthesis.md has the kinds. A label
    is categorical or boolean and has at least two categories. Raises: InvalidInput with the place as `field`, for
    anything else.
    """
    if not isinstance(declared, Mapping) or not set(declared) <= {"columns", "label", "order"}:
        _refuse("A schema has columns, a label, order, ignore and subject.", "schema")
    columns, label = declared.get("columns"), declared.get("label")
    if not _is_list(columns) or not 1 <= len(columns) <= COLUMNS_MAX:
        _refuse(f"A schema has between 1 and {COLUMNS_MAX} columns.", "schema.columns")
    read: list[Column] = []
    width = 0
    for i, one in enumerate(columns):
        read.append(_column(one, f"schema.columns.{i}"))
        width += read[-1].width
        if width > WIDTH_MAX:  # before the cells of further columns are made
            _refuse(f"A row may have at most {WIDTH_MAX} numbers, categories and bins in total.", "schema.columns")
    read_label = None if label is None else _column(label, "schema.label")
    if isinstance(read_label, NumericColumn | BinnedColumn):
        _refuse("The label must be categorical or boolean.", "schema.label.kind")
    if read_label is not None and not 2 <= len(read_label.categories) <= CLASSES_MAX:
        _refuse(f"A label has between 2 and {CLASSES_MAX} classes.", "schema.label.categories")
    schema = TableSchema(tuple(read), read_label, _order(declared.get("order", ()), read))
    if len(set(schema.names)) < len(schema.names):
        _refuse("Two columns have the same name.", "schema.columns")
    return schema


def _order(declared: object, columns: Sequence[Column]) -> tuple[tuple[str, ...], ...]:
    place, forms = "schema.order", {column.name: column.as_json() for column in columns}
    if not _is_list(declared) or not all(_is_list(names) and 2 <= len(names) <= COLUMNS_MAX for names in declared):
        _refuse("order is a list of lists of at least two columns, whose values ascend in a row.", place)
    named = [name for names in declared for name in names]
    if not all(_is_text(name) and name in forms for name in named) or len(set(named)) < len(named):
        _refuse("order has names of columns, each of them once.", place)
    for names in declared:
        alike = [{key: forms[name].get(key, other) for key, other in _ALIKE.items()} for name in names]
        if alike[0]["kind"] not in ("numeric", "date") or any(other != alike[0] for other in alike):
            _refuse("The columns of an order are dates or numbers of the same bounds, steps and points.", place)
    return tuple(map(tuple, declared))


_ALIKE: Final[dict[str, Any]] = {
    "kind": None, "minimum": None, "maximum": None, "integer": False, "step": "day", "points": []
}  # fmt: skip
_MEMBERS: Final[dict[str, frozenset[str]]] = {
    "numeric": frozenset(
        {"minimum", "maximum", "integer", "decimal", "thousands", "missing", "points", "scale", "bins"}
    ),
    "categorical": frozenset({"categories", "missing"}),
    "boolean": frozenset({"true", "false", "missing"}),
    "date": frozenset({"minimum", "maximum", "step", "format", "missing", "bins"}),
}
_THOUSANDS = (",", ".", " ", "'", "\u2019", "\u00a0", "\u202f")
PLACEHOLDER = "?"


def _column(declared: object, place: str) -> Column:
    """Parse the declaration of a column. Raises: InvalidInput with the place as `field`."""
    if not isinstance(declared, Mapping):
        _refuse("A column is an object.", place)
    kind = declared.get("kind")
    if not isinstance(kind, str) or kind not in _MEMBERS:
        _refuse(f"A column has one of the kinds {', '.join(_MEMBERS)}.", f"{place}.kind")
    if not set(declared) <= _MEMBERS[kind] | {"name", "kind"}:
        members = ", ".join(sorted(_MEMBERS[kind]))
        _refuse(f"The column has a field that its kind does not support. A {kind} column has {members}.", place)
    name = declared.get("name")
    if not _is_text(name):
        _refuse(f"A column has a name of 1 to {NAME_CHARS_MAX} characters.", f"{place}.name")
    missing = _missing(declared.get("missing", False), f"{place}.missing")
    if kind == "numeric":
        return _numeric(name, declared, missing, place)
    if kind == "date":
        return _date(name, declared, missing, place)
    if kind == "boolean":
        words = _words(declared, place)
        names = (*(words or ("false", "true")), *missing.names)
        return BooleanColumn(name, names, missing, words=words, declaration=dict(declared))
    categories, codes = _categories(declared.get("categories"), f"{place}.categories")
    return CategoricalColumn(name, (*categories, *missing.names), missing, codes, declaration=dict(declared))


def _numeric(name: str, declared: Mapping[str, Any], missing: Missing, place: str) -> Column:
    minimum, maximum = (_bound(declared.get(end), f"{place}.{end}") for end in ("minimum", "maximum"))
    if not minimum < maximum:
        _refuse("The minimum must lie below the maximum.", f"{place}.maximum")
    integer = declared.get("integer", False)
    if not isinstance(integer, bool):
        _refuse("integer is true or false.", f"{place}.integer")
    if integer and not (minimum.is_integer() and maximum.is_integer()):
        _refuse("The bounds of whole numbers are whole.", f"{place}.minimum")
    form = _number_form(declared, place)
    scale = declared.get("scale", "linear")
    if scale not in ("linear", "log"):
        _refuse("A scale is linear or log.", f"{place}.scale")
    if scale == "log" and minimum <= 0:
        _refuse("The minimum of a log scale is above zero; declare zero as one of the points.", f"{place}.minimum")
    points = _points(declared.get("points", ()), f"{place}.points", integer=integer)
    if not (points or missing.allowed or scale == "log" or "bins" in declared):
        return NumericColumn(name, minimum, maximum, integer, form, declaration=dict(declared))
    ends = (minimum, maximum, scale == "log")
    return _binned(name, declared, missing, place, form=form, ends=ends, integer=integer, points=points)


def _binned(
    name: str,
    declared: Mapping[str, Any],
    missing: Missing,
    place: str,
    *,
    form: NumberForm | DateForm,
    ends: tuple[float, float, bool],
    integer: bool,
    points: tuple[float, ...] = (),
) -> BinnedColumn:
    """`ends`: the bounds, and whether the bins between them have a logarithmic scale."""
    bins = declared.get("bins", BINS_DEFAULT)
    if not isinstance(bins, int) or isinstance(bins, bool) or not 1 <= bins <= BINS_MAX:
        _refuse(f"A column has 1 to {BINS_MAX} bins.", f"{place}.bins")
    minimum, maximum, log = ends
    top = maximum + integer
    spaced: FloatArray = (np.geomspace if log else np.linspace)(minimum, top, bins + 1)
    if integer:
        spaced = np.rint(spaced)
    spaced[0], spaced[-1] = minimum, top
    edges = tuple(np.unique(spaced).tolist())

    def shown(number: float) -> str:
        return form.write(number, integer=True) if isinstance(form, DateForm) else f"{number:.4g}"

    bars = [
        shown(low) if integer and high - low == 1 else f"{shown(low)} to {shown(high - integer)}"
        for low, high in pairwise(edges)
    ]
    cells = (*map(shown, points), *bars, *missing.names)
    return BinnedColumn(
        name,
        cells,
        missing,
        form=form,
        edges=edges,
        points=points,
        integer=integer,
        log=log,
        declaration=dict(declared),
    )


def _date(name: str, declared: Mapping[str, Any], missing: Missing, place: str) -> BinnedColumn:
    step = declared.get("step", "day")
    if not isinstance(step, str) or step not in STEP_S:
        _refuse(f"A step is one of {', '.join(STEP_S)}.", f"{place}.step")
    ends = [_moment(declared.get(end), f"{place}.{end}") for end in ("minimum", "maximum")]
    if (ends[0].tzinfo is None) != (ends[1].tzinfo is None):
        _refuse("Either both bounds have an offset from UTC, or none.", f"{place}.maximum")
    if len(declared["maximum"]) == len("2024-12-31"):  # the whole last day
        ends[1] += timedelta(days=1) - timedelta(seconds=STEP_S[step])
    form = DateForm(ends[0], step, ends[0].tzinfo is not None, _pattern(declared.get("format", ""), place))
    last = (ends[1] - ends[0]) // timedelta(seconds=STEP_S[step])
    if last < 1:
        _refuse("The minimum must lie a step or more below the maximum.", f"{place}.maximum")
    return _binned(name, declared, missing, place, form=form, ends=(0, last, False), integer=True)


def _moment(value: object, place: str) -> datetime:
    _declared_bound(value, place)
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) and len(value) <= DATE_CHARS_MAX else None
    except ValueError:
        moment = None
    if moment is None or not 1000 <= moment.year <= 9000:
        _refuse("A bound is a date or time in ISO 8601, such as 2024-12-31 or 2024-12-31T23:59:00Z.", place)
    return moment.astimezone(UTC) if moment.tzinfo is not None else moment


_PATTERN = re.compile(r"(?:%[dmYHMS]|[^%\w]|T){5,20}", re.ASCII)


def _pattern(value: object, place: str) -> str:
    if value == "":
        return ""
    signs = re.findall("%.", value) if isinstance(value, str) and _PATTERN.fullmatch(value) else []
    if not isinstance(value, str) or not {"%d", "%m", "%Y"} <= set(signs) or len(set(signs)) < len(signs):
        _refuse("A format has %d, %m and %Y, and may have %H, %M and %S, such as %d.%m.%Y.", f"{place}.format")
    return value


def _number_form(declared: Mapping[str, Any], place: str) -> NumberForm:
    decimal, thousands = declared.get("decimal", "."), declared.get("thousands", "")
    if decimal not in (".", ","):
        _refuse("decimal is a point or a comma.", f"{place}.decimal")
    if (thousands != "" and thousands not in _THOUSANDS) or thousands == decimal:
        _refuse("thousands is another sign than decimal: , . ' or a space.", f"{place}.thousands")
    return NumberForm(decimal, thousands)


def _points(value: object, place: str, *, integer: bool) -> tuple[float, ...]:
    if not _is_list(value) or len(value) > POINTS_MAX:
        _refuse(f"points is a list of at most {POINTS_MAX} numbers.", place)
    points = tuple(_bound(point, place) for point in value)
    if len(set(points)) < len(points) or (integer and not all(point.is_integer() for point in points)):
        _refuse("The points are different, and whole if the numbers are.", place)
    return points


def _missing(value: object, place: str) -> Missing:
    if isinstance(value, bool):
        return Missing(value)
    if not _is_list(value) or not 1 <= len(value) <= WORDS_MAX or not all(_is_text(word) for word in value):
        _refuse(f"missing is true, false, or a list of at most {WORDS_MAX} texts that mean it.", place)
    return Missing(True, tuple(word.strip() for word in value))


def _words(declared: Mapping[str, Any], place: str) -> tuple[str, str] | None:
    words = declared.get("false"), declared.get("true")
    if words == (None, None):
        return None
    no, yes = words
    if not _is_text(no) or not _is_text(yes) or no.lower() == yes.lower():
        _refuse("true and false are two different texts, or both are left out.", f"{place}.true")
    return no, yes


def _declared_bound(value: object, place: str) -> None:
    if value is None or value == PLACEHOLDER:
        _refuse("Declare public bounds. Bounds derived from private rows would leak them.", place)


def _bound(value: object, place: str) -> float:
    _declared_bound(value, place)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= BOUND_MAX:
        _refuse(f"A bound is a number within {BOUND_MAX:g} of zero.", place)
    return float(value)


def _categories(value: object, place: str) -> tuple[tuple[str, ...], bool]:
    """Return the categories as texts, and whether they are whole numbers."""
    if not _is_list(value):
        _refuse("Declare public categories. A list derived from private rows would leak them.", place)
    codes = bool(value) and all(isinstance(entry, int) and not isinstance(entry, bool) for entry in value)
    texts = tuple(str(entry) for entry in value) if codes else tuple(value)
    if not 1 <= len(texts) <= CATEGORIES_MAX or not all(_is_text(entry) for entry in texts):
        _refuse(f"A column has 1 to {CATEGORIES_MAX} categories of 1 to {NAME_CHARS_MAX} characters.", place)
    if len(set(texts)) < len(texts):
        _refuse("A category is declared twice.", place)
    return texts, codes


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether a value is a JSON list."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and 1 <= len(value) <= NAME_CHARS_MAX


def _refuse(detail: str, place: str) -> NoReturn:
    """Raise InvalidInput."""
    raise InvalidInput(detail, field=place)


EMBEDDING = "embedding"
IGNORE, SUBJECT = "ignore", "subject"


@dataclass(frozen=True)
class Subject:
    """The column that says whose row it is, and how many rows of one subject are used. See `subjects`."""

    name: str
    rows_max: int


SUBJECT_ROWS_MAX = 100


@dataclass(frozen=True)
class DeclaredTable:
    """A schema and the format of its rows: `dimension` is that of embeddings, None for a table of columns. `ignore`:
    the names of columns, such as an id, that a row may have and that are not released; `subject` is one of them."""

    schema: TableSchema
    dimension: int | None
    ignore: frozenset[str] = frozenset()
    subject: Subject | None = None

    @property
    def rows_per_subject(self) -> int | None:
        """How many rows of one subject the release covers; None without subjects."""
        return None if self.subject is None else self.subject.rows_max

    def row(self, written: Any, *, number: int) -> Any:
        """Convert a row from the caller's format to columns. Raises BadRow with `number` for an invalid embedding."""
        if self.dimension is None:
            return written  # the encoding validates it
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
    ignore: frozenset[str] = frozenset()
    subject: Subject | None = None
    if isinstance(declared, Mapping):
        ignore = _ignored(declared.get(IGNORE, ()))
        subject = _subject(declared.get(SUBJECT))
        declared = {member: value for member, value in declared.items() if member not in (IGNORE, SUBJECT)}
    schema, dimension = _schema(declared)
    released = {*schema.names, *([] if dimension is None else [EMBEDDING])}
    if ignore & released:
        _refuse("A column is either released or ignored.", f"schema.{IGNORE}")
    if subject is not None and subject.name in released:
        _refuse("The column of the subject is not released.", f"schema.{SUBJECT}.name")
    return DeclaredTable(schema, dimension, ignore | ({subject.name} if subject else set()), subject)


def _subject(declared: Any) -> Subject | None:
    if declared is None:
        return None
    place = f"schema.{SUBJECT}"
    if not isinstance(declared, Mapping) or set(declared) != {"name", "rows_max"}:
        _refuse("A subject has the name of a column, and rows_max.", place)
    name, rows_max = declared["name"], declared["rows_max"]
    if not _is_text(name):
        _refuse(f"A column has a name of 1 to {NAME_CHARS_MAX} characters.", f"{place}.name")
    if not isinstance(rows_max, int) or isinstance(rows_max, bool) or not 1 <= rows_max <= SUBJECT_ROWS_MAX:
        _refuse(f"A subject has 1 to {SUBJECT_ROWS_MAX} rows.", f"{place}.rows_max")
    return Subject(name, rows_max)


def _ignored(names: Any) -> frozenset[str]:
    if not _is_list(names) or len(names) > COLUMNS_MAX or not all(map(_is_text, names)):
        _refuse(f"ignore is a list of at most {COLUMNS_MAX} names of columns.", f"schema.{IGNORE}")
    return frozenset(names)


def _schema(declared: Any) -> tuple[TableSchema, int | None]:
    """Return the schema, and the dimension of embeddings."""
    if not isinstance(declared, Mapping) or EMBEDDING not in declared:
        return table_schema(declared), None
    if not set(declared) <= {EMBEDDING, "label"}:
        _refuse("A schema of embeddings has an embedding and a label.", "schema")
    terms = declared[EMBEDDING]
    place = f"schema.{EMBEDDING}"
    if not isinstance(terms, Mapping) or not set(terms) <= {"dimension", "minimum", "maximum"}:
        _refuse("An embedding has a dimension, a minimum and a maximum.", place)
    dimension = terms.get("dimension")
    if not isinstance(dimension, int) or isinstance(dimension, bool) or not 1 <= dimension <= COLUMNS_MAX:
        _refuse(f"An embedding has between 1 and {COLUMNS_MAX} dimensions.", f"{place}.dimension")
    bounds = {"minimum": terms.get("minimum"), "maximum": terms.get("maximum")}
    label = declared.get("label")
    columns = [{"kind": "numeric", "name": f"{EMBEDDING}.{i}"} | bounds for i in range(dimension)]
    try:
        schema = table_schema({"columns": columns, "label": label})
    except InvalidInput as error:
        field = (error.field or "schema").replace("schema.columns.0", place)
        raise InvalidInput(error.detail, field=field) from None
    if schema.label is not None and schema.label.name == EMBEDDING:
        _refuse("The label must not have the name of the embedding.", "schema.label.name")
    return schema, dimension
