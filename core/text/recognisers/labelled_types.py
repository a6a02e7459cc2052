"""Types whose values a label names, or that are written in a form with check digits near such a word.

Each row of `ROWS` is one way to find a type: `Labelled` values after a label, values of one form `After` a label,
`Checked` numbers of a country with valid check digits, alone or near a word for such a number, and `Formed` values,
which need such a word nearby if their score is low. A labelled national number scores less than a valid number of a
type of its own (`PL_PESEL`, `ES_NIF`), which therefore gives the type where both fit.
"""

import re
from typing import NamedTuple

import regex  # type: ignore[import-untyped]

from core.text.labelled import (
    GROUPED_CODE,
    LABELLED_SCORE,
    LETTERED_CODE,
    Label,
    LabelledValue,
    labelled_forms,
    labelled_scan,
    phrases,
)
from core.text.recogniser import Pattern, Recogniser, context_of, pattern_scan, texts_of
from core.text.recognisers import records
from core.text.recognisers.numbers import machine_readable
from core.text.recognisers.written_numbers import NUMBERS, Number, number_scan


class Labelled(NamedTuple):
    """Values after a label: one of `names`, or of `nouns` beside a word for "number"."""

    entity: str
    digits_min: int
    value: LabelledValue
    names: tuple[str, ...] = ()
    nouns: tuple[str, ...] = ()
    score: float = LABELLED_SCORE

    def recogniser(self) -> Recogniser:
        scan = labelled_scan(Label(names=self.names, nouns=self.nouns), self.value, score=self.score)
        return Recogniser(self.entity, scan, digits_min=self.digits_min, copies=True)


class After(NamedTuple):
    """Values of one form after a label: one of `names`, or of `nouns` beside a word for "number". Each holds
    a `sign`."""

    entity: str
    digits_min: int
    form: regex.Pattern[str]
    names: tuple[str, ...] = ()
    nouns: tuple[str, ...] = ()
    sign: re.Pattern[str] = re.compile(r"\d")

    def recogniser(self) -> Recogniser:
        scan = labelled_forms(Label(names=self.names, nouns=self.nouns, far=False), self.form, self.sign)
        return Recogniser(self.entity, scan, digits_min=self.digits_min, copies=True)


class Checked(NamedTuple):
    """Numbers in their written forms. One of `words` stands near a number that does not pass alone."""

    entity: str
    digits_min: int
    numbers: tuple[Number, ...]
    words: tuple[str, ...]

    def recogniser(self) -> Recogniser:
        return Recogniser(self.entity, number_scan(self.numbers, self.words), digits_min=self.digits_min, copies=True)


class Formed(NamedTuple):
    """Values of one of `forms`, near one of `words` if the score of the form is below the threshold."""

    entity: str
    digits_min: int
    forms: tuple[Pattern, ...]
    words: tuple[str, ...] = ()

    def recogniser(self) -> Recogniser:
        return Recogniser(self.entity, pattern_scan(self.forms), context_of(self.words), digits_min=self.digits_min)


_WORDS_OF = texts_of(__name__)
_WORDS = {key: phrases(text) for key, text in _WORDS_OF.items()}

_IMEI_VALUE = LabelledValue(
    r"\d{14,16}|\d{2}[ -]?\d{6}[ -]?\d{6}[ -]?\d{1,2}|\d{6}[ -]\d{2}[ -]\d{6}[ -]\d", spaced=True
)
# Germany, France and the Netherlands
_NINE = r"(?-i:(?=[A-Z]*\d[A-Z]*\d)[A-Z0-9]{9})"
_PORTUGUESE_CARD = regex.compile(r"(?<!\w)\d{8} ?\d ?[A-Z]{2}\d(?!\w)")
_PASSPORT_VALUE = LabelledValue(
    rf"{_NINE}|"
    r"(?=(?:\D*\d){4})(?:[A-Z]{0,3}[ -]?\d{5,9}|[A-Z0-9]{8,10}|\d{2} ?[A-Z]{2} ?\d{5}|\d{2} \d{7})",
    spaced=True,
)
_LICENCE_VALUE = LabelledValue(r"(?=(?:[^\W_][-/. ]{0,2}){5,20}\Z)(?=(?:\D*\d){4})[A-Za-z0-9/. -]+", spaced=True)
_INSURANCE_VALUE = LabelledValue(r"(?=(?:[^\W_][-/. ]{0,2}){6,22}\Z)(?=(?:\D*\d){5})[A-Za-z0-9/. -]+", spaced=True)
_ACCOUNT_VALUE = LabelledValue(
    r"(?=(?:[^\W_][-/. \u00a0]{0,2}){5,30}\Z)(?:[A-Z]{1,2}[ -]?)?\d[\d/. \u00a0-]*", spaced=True
)
_ROUTING_VALUE = LabelledValue(
    r"\d{5,9}|(?!19|20)\d{4}|\d{2}-\d{2}-\d{2}|\d{2} \d{2} \d{2}|\d{3} \d{3} \d{2}|\d{3}-\d{3}|[A-Z]{4}0[A-Z0-9]{6}",
    spaced=True,
    dates=True,
)
_NATIONAL_VALUE = LabelledValue(
    r"(?=(?:[^\W_][-/. \u00a0\u202f]{0,2}){6,20}\Z)(?=(?:\D*\d){5})[A-Za-z0-9/.\u00a0\u202f -]+"
    rf"|{_NINE}",
    spaced=True,
)
# Poland and Chile
_IN_SERIES = (
    Pattern(
        regex.compile(
            r"(?<=\b[Ss]eri[aąię][ ](?:i[ ](?:nr|numer)[ ])?)[A-Z]{2,3},?[ ](?:nr|numer)\.?[ ]?\d{6,7}(?!\w)"
        ),
        0.7,
    ),
    Pattern(regex.compile(r"(?<=\bRUN[ :nN.º°]{1,5})\d{1,2}\.?\d{3}\.?\d{3}-[\dkK](?!\w)"), 0.7),
)
# Most countries: one to three letters and digits. Germany: letters without vowels among digits. France: 12AB34567.
_PASSPORT_FORMS = (
    Pattern(regex.compile(r"(?<![\w])(?:[A-Z]{1,3}\d{6,8}|\d{2}[A-Z]{2}\d{5})(?![\w]|[-.]\d)"), 0.1),
    Pattern(regex.compile(r"(?<![\w])(?=(?:[A-Z]*\d){3})[CFGHJKLMNPRTVWXYZ][CFGHJKLMNPRTVWXYZ0-9]{8}(?![\w])"), 0.1),
)
# United Kingdom: five letters of the surname, birth date, initials, check characters.
_UK_LICENCE = (
    Pattern(
        regex.compile(r"(?<![\w])[A-Z]{2}[A-Z9]{3}\d[0156]\d[0-3]\d{2}[A-Z][A-Z9]\d[A-Z]{2}(?:[ ]?\d{2})?(?![\w])"), 0.6
    ),
)
# Postcodes of Europe, the Americas and Asia, with the letters of a country before them.
_POSTCODE = regex.compile(
    r"(?<![\w.,/-])(?:\d{4} ?(?-i:[A-Z]{2})|\d{4}[a-z]{2}|\d{5}-\d{3,4}|\d{4}-\d{3}|\d{2}[- ]\d{3}|\d{3}[ -]\d{2,4}"
    r"|(?:[A-Z]{1,3}-)?\d{4,8}|[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}|[A-Z]\d[A-Z][ -]?\d[A-Z]\d|[A-Z]\d[\dW] ?[A-Z\d]{4})"
    r"(?![\w]|[.,:/-]\d)",
    regex.IGNORECASE,
)
_UUID = regex.compile(r"(?<![\w-])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![\w-])", regex.IGNORECASE)
_UUID_PART = re.compile(r"[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-")
_ITALIAN_POSTCODE = regex.compile(_WORDS_OF["italian_postcode"])
_NATIONAL_SCORE = 0.72

ROWS: tuple[Labelled | After | Checked | Formed, ...] = (
    Labelled("EMPLOYEE_ID", 3, GROUPED_CODE, _WORDS["employee_names"], _WORDS["employee_nouns"]),
    Labelled("EMPLOYEE_ID", 5, LETTERED_CODE, _WORDS["employee_nouns"]),
    Labelled("CUSTOMER_ID", 3, GROUPED_CODE, _WORDS["customer_names"], _WORDS["customer_nouns"]),
    Labelled("CUSTOMER_ID", 5, LETTERED_CODE, _WORDS["customer_nouns"]),
    After("CUSTOMER_ID", 1, _UUID, nouns=_WORDS["customer_nouns"], sign=_UUID_PART),
    Labelled("IMEI", 14, _IMEI_VALUE, _WORDS["imei"]),
    Checked("IMEI", 14, NUMBERS["devices"], _WORDS["imei"]),
    Labelled("PASSPORT", 4, _PASSPORT_VALUE, _WORDS["passport"]),
    Formed("PASSPORT", 3, _PASSPORT_FORMS, _WORDS["passport"]),
    Labelled("DRIVER_LICENSE", 4, _LICENCE_VALUE, _WORDS["licence"]),
    Formed("DRIVER_LICENSE", 6, _UK_LICENCE),
    Labelled("MEDICAL_RECORD_NUMBER", 3, GROUPED_CODE, _WORDS["record"], _WORDS["patient"]),
    Labelled("HEALTH_INSURANCE_NUMBER", 5, _INSURANCE_VALUE, _WORDS["insurance"]),
    Checked("HEALTH_INSURANCE_NUMBER", 9, NUMBERS["health"], _WORDS["insurance"]),
    Labelled("BANK_ACCOUNT", 5, _ACCOUNT_VALUE, _WORDS["account"]),
    Checked("BANK_ACCOUNT", 10, NUMBERS["accounts"], _WORDS["account"]),
    Labelled("BANK_ROUTING", 4, _ROUTING_VALUE, _WORDS["routing"]),
    Checked("NATIONAL_ID", 6, NUMBERS["national"], _WORDS["national"]),
    Formed("NATIONAL_ID", 6, _IN_SERIES),
    After("NATIONAL_ID", 10, _PORTUGUESE_CARD, _WORDS["national"], sign=re.compile(r"\d{8} ?\d ?[A-Z]")),
    Labelled("NATIONAL_ID", 2, _NATIONAL_VALUE, _WORDS["national"], score=_NATIONAL_SCORE),
    Formed("NATIONAL_ID", 4, (Pattern(regex.compile(_WORDS_OF["national_last"], regex.IGNORECASE), LABELLED_SCORE),)),
    Checked("TAX_ID", 6, NUMBERS["tax"], _WORDS["tax"]),
    Labelled("TAX_ID", 5, _NATIONAL_VALUE, _WORDS["tax"], score=_NATIONAL_SCORE),
    After("POSTCODE", 2, _POSTCODE, _WORDS["postcode"]),
    Formed("POSTCODE", 4, (Pattern(_ITALIAN_POSTCODE, LABELLED_SCORE),)),
)


def recognisers() -> tuple[Recogniser, ...]:
    rows = (row.recogniser() for row in ROWS)
    return (*rows, Recogniser("PASSPORT", machine_readable), *records.recognisers())
