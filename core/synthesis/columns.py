"""The kinds of columns: what a table may declare, and how a value becomes a small integer and an integer a value.

Guarantee: a code depends on one value and the public declaration alone. Every release method has its own proof for
integers of a domain that the declaration fixes, so a kind of column needs no proof of its own.

A method sees two kinds. A `NumericColumn` has `STEPS` + 1 even steps between its bounds. Every other column is a
`CategoricalColumn`: a code is the index of a public cell. A `BinnedColumn` has cells for values that are common by
declaration (`points`, such as 0), for bins between its bounds, and for "missing".

Decoding draws a value uniformly within a bin, on a logarithmic scale between logarithmic edges. It is post-processing.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from core.mechanisms.vectors.release import noise_generator

NAME_CHARS_MAX = 256
STEPS = 1 << 12
_NUMBER_CHARS_MAX = 64
_SHOWN_MAX, _SHOWN_CHARS_MAX = 5, 40
_MISSING_NAME = "(missing)"
_BLANKS = " \u00a0\u202f"  # nobody sees which of them a table has

CodeArray = npt.NDArray[np.int16]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
Bad = dict[str, BoolArray]  # for each reason, which values it concerns


class Outside(StrEnum):
    """The treatment of a number outside the declared bounds."""

    REFUSE = "refuse"
    CLIP = "clip"


class _Unreadable(Exception):
    """A value that its column does not read. `reason` is a fixed word."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class NumberForm:
    """How a text writes a number: the sign of the fraction, and what separates thousands ("" for nothing)."""

    decimal: str = "."
    thousands: str = ""

    def read(self, value: object) -> float:
        """Return a JSON number, or the number of a text. Raises _Unreadable."""
        if isinstance(value, str):
            value = self._plain(value.strip())
        elif isinstance(value, bool) or not isinstance(value, int | float):
            raise _Unreadable("not-a-number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise _Unreadable("not-finite")
        return number

    def _plain(self, text: str) -> str:
        if len(text) > _NUMBER_CHARS_MAX or not _number_pattern(self.decimal, self.thousands).fullmatch(text):
            raise _Unreadable("not-a-number")
        if self.thousands:
            text = "".join(text.split()).replace(self.thousands, "")
        return text.replace(self.decimal, ".")

    def write(self, number: float, *, integer: bool) -> float | int:
        """Return the number as a sample has it: a plain JSON number, whatever the form."""
        return round(number) if integer else number

    def example(self) -> str:
        """An example of the form for messages."""
        return f"1{self.thousands}234{self.decimal}5"


@lru_cache(maxsize=64)
def _number_pattern(decimal: str, thousands: str) -> re.Pattern[str]:
    decimal, thousands = re.escape(decimal), f"[{_BLANKS}]" if thousands in tuple(_BLANKS) else re.escape(thousands)
    grouped = rf"\d{{1,3}}(?:{thousands}\d{{3}})+|" if thousands else ""
    return re.compile(rf"[+-]?(?:(?:{grouped}\d+)(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][+-]?\d{{1,3}})?", re.ASCII)


STEP_S: Final[dict[str, int]] = {"day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
DATE_CHARS_MAX = 40


@dataclass(frozen=True)
class DateForm:
    """Dates or times as whole steps since `origin`, which is in UTC if `utc`. `pattern` is of `strptime`, "" for
    ISO 8601."""

    origin: datetime
    step: str = "day"
    utc: bool = False
    pattern: str = ""

    def read(self, value: object) -> float:
        """Return the number of the step that contains the date or time of a text. Raises _Unreadable."""
        if not isinstance(value, str) or len(value) > DATE_CHARS_MAX:
            raise _Unreadable("not-a-date")
        try:
            text = value.strip()
            moment = datetime.strptime(text, self.pattern) if self.pattern else datetime.fromisoformat(text)
        except ValueError:
            raise _Unreadable("not-a-date") from None
        return float(self._steps(moment))

    def _steps(self, moment: datetime) -> int:
        if self.utc:
            moment = moment.replace(tzinfo=moment.tzinfo or UTC)
        elif moment.tzinfo is not None:
            raise _Unreadable("unexpected-offset")
        return (moment - self.origin) // timedelta(seconds=STEP_S[self.step])

    def write(self, number: float, *, integer: bool) -> str:  # noqa: ARG002 - as of numbers
        """Return the first moment of a step in ISO 8601."""
        moment = self.origin + timedelta(seconds=round(number) * STEP_S[self.step])
        return moment.date().isoformat() if self.step == "day" else moment.isoformat().replace("+00:00", "Z")

    def example(self) -> str:
        """An example of the form for messages."""
        return self.origin.strftime(self.pattern) if self.pattern else self.write(0, integer=True)


@dataclass(frozen=True)
class _Declared:
    """`declaration`: what the caller has declared."""

    declaration: Mapping[str, Any] = field(default_factory=dict, hash=False, kw_only=True)

    def as_json(self) -> dict[str, Any]:
        """Return the declaration."""
        return dict(self.declaration)


@dataclass(frozen=True)
class NumericColumn(_Declared):
    """Numbers between public bounds. `integer`: whole numbers; decoding rounds. `form`: of numbers written as texts."""

    name: str
    minimum: float
    maximum: float
    integer: bool = False
    form: NumberForm = NumberForm()

    @property
    def width(self) -> int:
        """The number of coordinates in an encoded row."""
        return 1

    @property
    def permitted(self) -> str:
        """What a value may be, for messages."""
        return _permitted_numbers(self.form, self.minimum, self.maximum, integer=self.integer)

    def encode(self, values: Sequence[object], outside: Outside) -> tuple[CodeArray, Bad]:
        """Return the steps, and the values that have none; their steps are arbitrary."""
        numbers, bad = _numbers(self.form, values, Missing())
        inside = np.clip(np.where(np.isnan(numbers), self.minimum, numbers), self.minimum, self.maximum)
        _check_numbers(numbers, inside, bad, integer=self.integer, outside=outside)
        steps = np.rint((inside - self.minimum) / (self.maximum - self.minimum) * STEPS)
        return steps.astype(np.int16), bad

    def decode(self, codes: CodeArray) -> list[Any]:
        """Return the numbers of steps."""
        numbers = self.minimum + codes.astype(np.float64) / STEPS * (self.maximum - self.minimum)
        return [int(number) for number in np.rint(numbers)] if self.integer else numbers.tolist()


@dataclass(frozen=True)
class Missing:
    """Whether a column has a category for missing values, and the texts that mean it besides the empty one and null."""

    allowed: bool = False
    words: tuple[str, ...] = ()

    def means(self, value: object) -> bool:
        """Whether a value is missing."""
        if value is None:
            return True
        if isinstance(value, str):
            return not value or (text := value.strip()) == "" or text in self.words
        return bool(self.words) and isinstance(value, int | float) and str(value) in self.words

    @property
    def names(self) -> tuple[str, ...]:
        """The further category."""
        return (_MISSING_NAME,) if self.allowed else ()


@dataclass(frozen=True)
class CategoricalColumn(_Declared):
    """One of several public cells. `categories` are their names: those declared, then "missing" if it is declared.

    `codes`: the categories are whole numbers, such as 1, 2 and 3.
    """

    name: str
    categories: tuple[str, ...]
    missing: Missing = Missing()
    codes: bool = False

    @property
    def width(self) -> int:
        """The number of coordinates in an encoded row, one-hot."""
        return len(self.categories)

    @property
    def declared(self) -> tuple[str, ...]:
        """The categories without "missing"."""
        return self.categories[: len(self.categories) - self.missing.allowed]

    @property
    def permitted(self) -> str:
        """What a value may be, for messages."""
        shown = [name[:_SHOWN_CHARS_MAX] for name in self.declared[:_SHOWN_MAX]]
        more = len(self.declared) - len(shown)
        return "one of " + ", ".join(shown) + (f" and {more} more" if more else "")

    def encode(self, values: Sequence[object], outside: Outside) -> tuple[CodeArray, Bad]:  # noqa: ARG002
        """Return the cells, and the values that have none; their cells are arbitrary."""
        index = self._index()
        codes = np.zeros(len(values), dtype=np.int16)
        bad: Bad = {}
        for i, value in enumerate(values):
            code = index.get(value) if isinstance(value, str) else None
            if code is None:
                code = self._other(value, index, bad, i, len(values))
            codes[i] = code
        return codes, bad

    def _other(self, value: object, index: Mapping[str, int], bad: Bad, i: int, count: int) -> int:
        """The cell of a value that is not exactly a category's text."""
        if self.missing.means(value):
            if self.missing.allowed:
                return len(self.declared)
            _mark(bad, "missing", i, count)
            return 0
        for text in self._texts(value):
            if text in index:
                return index[text]
        _mark(bad, "unknown-category", i, count)
        return 0

    def _index(self) -> dict[str, int]:
        return {category: i for i, category in enumerate(self.declared)}

    def _texts(self, value: object) -> list[str]:
        """What a value may stand for: itself without spaces around it, then a whole number in its plain form."""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return []
        text = value.strip() if isinstance(value, str) else str(value)[:_NUMBER_CHARS_MAX]
        is_number = self.codes or not isinstance(value, str)
        return [text, str(int(whole[1]))] if is_number and (whole := _WHOLE.fullmatch(text)) else [text]

    def decode(self, codes: CodeArray) -> list[Any]:
        """Return the categories of cells; None for a missing value."""
        values: list[Any] = [int(name) if self.codes else name for name in self.declared]
        values += [None] * self.missing.allowed
        return [values[code] for code in codes]


_WHOLE = re.compile(r"([+-]?\d{1,15})(?:\.0*)?", re.ASCII)


@dataclass(frozen=True)
class BooleanColumn(CategoricalColumn):
    """True or false in the usual words and in those that are declared, whatever the case. `words`: (false, true)."""

    words: tuple[str, str] | None = None

    @property
    def permitted(self) -> str:
        """What a value may be, for messages."""
        return " or ".join(self.words[::-1]) if self.words else "true or false, yes or no, 1 or 0"

    def _index(self) -> dict[str, int]:
        own = {word.lower(): i for i, word in enumerate(self.words or ())}
        return dict.fromkeys(_FALSE, 0) | dict.fromkeys(_TRUE, 1) | own

    def _texts(self, value: object) -> list[str]:
        return [str(value).strip().lower()[:NAME_CHARS_MAX]] if isinstance(value, str | bool | int | float) else []

    def decode(self, codes: CodeArray) -> list[Any]:
        """Return the declared words, or JSON booleans; None for a missing value."""
        values = [*(self.words or (False, True)), None]
        return [values[code] for code in codes]


_FALSE, _TRUE = ("false", "no", "n", "f", "0", "0.0"), ("true", "yes", "y", "t", "1", "1.0")


@dataclass(frozen=True)
class BinnedColumn(CategoricalColumn):
    """Numbers or dates in public cells: the points, the bins between `edges`, then "missing" if it is declared.

    `edges`: ascending, one more than bins; of whole numbers, a bin's first number and one past its last. `log`: values
    within a bin are drawn on a logarithmic scale.
    """

    form: NumberForm | DateForm = NumberForm()
    edges: tuple[float, ...] = ()
    points: tuple[float, ...] = ()
    integer: bool = False
    log: bool = False

    @property
    def permitted(self) -> str:
        """What a value may be, for messages."""
        least, most = self.edges[0], self.edges[-1] - self.integer
        return _permitted_numbers(self.form, least, most, integer=self.integer, points=self.points)

    def encode(self, values: Sequence[object], outside: Outside) -> tuple[CodeArray, Bad]:
        """Return the cells, and the values that have none; their cells are arbitrary."""
        numbers, bad = _numbers(self.form, values, self.missing)
        missing = np.isnan(numbers)
        inside = np.clip(numbers, self.edges[0], self.edges[-1] - self.integer)
        last_bin = len(self.edges) - 2
        codes = np.clip(np.searchsorted(self.edges, inside, side="right") - 1, 0, last_bin) + len(self.points)
        for i, point in enumerate(self.points):
            codes[numbers == point] = i
        is_point = codes < len(self.points)
        _check_numbers(numbers, np.where(is_point, numbers, inside), bad, integer=self.integer, outside=outside)
        codes[missing] = len(self.declared) if self.missing.allowed else 0
        return codes.astype(np.int16), bad

    def decode(self, codes: CodeArray) -> list[Any]:
        """Draw a value of each cell; None for a missing one."""
        draw = noise_generator()
        bins = np.clip(codes.astype(np.int64) - len(self.points), 0, len(self.edges) - 2)
        edges = np.array(self.edges)
        low, high = edges[bins], edges[bins + 1]
        if self.integer:
            numbers = draw.integers(low.astype(np.int64), high.astype(np.int64)).astype(np.float64)
        elif self.log:
            numbers = np.clip(low * (high / low) ** draw.random(len(codes)), low, high)
        else:
            numbers = low + draw.random(len(codes)) * (high - low)
        for i, point in enumerate(self.points):
            numbers[codes == i] = point
        missing = len(self.declared) if self.missing.allowed else -1
        return [
            None if code == missing else self.form.write(number, integer=self.integer)
            for code, number in zip(codes.tolist(), numbers.tolist(), strict=True)
        ]


Column = NumericColumn | CategoricalColumn


def _numbers(form: NumberForm | DateForm, values: Sequence[object], missing: Missing) -> tuple[FloatArray, Bad]:
    """Read numbers; NaN for a missing value and for one that is not read."""
    numbers = np.full(len(values), np.nan)
    bad: Bad = {}
    for i, value in enumerate(values):
        if missing.means(value):
            if not missing.allowed:
                _mark(bad, "missing", i, len(values))
            continue
        try:
            numbers[i] = form.read(value)
        except _Unreadable as error:
            _mark(bad, error.reason, i, len(values))
    return numbers, bad


def _mark(bad: Bad, reason: str, i: int, count: int) -> None:
    bad.setdefault(reason, np.zeros(count, dtype=np.bool_))[i] = True


def _check_numbers(numbers: FloatArray, inside: FloatArray, bad: Bad, *, integer: bool, outside: Outside) -> None:
    """Add numbers that are not whole, and those outside the bounds; NaN is neither."""
    read = ~np.isnan(numbers)
    if integer and (wrong := read & (numbers != np.rint(numbers))).any():
        bad["not-whole"] = wrong
    if outside is Outside.REFUSE and (wrong := read & (inside != numbers)).any():
        bad["outside-bounds"] = wrong


def _permitted_numbers(
    form: NumberForm | DateForm, least: float, most: float, *, integer: bool, points: Sequence[float] = ()
) -> str:
    if isinstance(form, DateForm):
        ends = (form.write(end, integer=True) for end in (least, most))
        return f"a date such as {form.example()}, from {' to '.join(ends)}"
    kind = "a whole number" if integer else "a number" if form == NumberForm() else f"a number such as {form.example()}"
    others = f", or {' or '.join(f'{point:.10g}' for point in points)}" if points else ""
    return f"{kind} from {least:.10g} to {most:.10g}{others}"
