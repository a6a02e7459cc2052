"""Presidio's patterns and checksums as recognisers of this project.

Used: the regular expressions, scores, context words and checksum methods of its predefined recognisers. Not used:
its engine, registry, NLP engine and `analyze` loops, which fail open (see `core.text.recogniser`). Therefore no
spaCy pipeline is loaded and no text reaches a vocabulary that would retain it. Its loggers may log text, so this module
silences them.
"""

import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import regex  # type: ignore[import-untyped]

from core.text.recogniser import Hit, Pattern, Recogniser, Scan, context_of, pattern_scan, stands_near
from core.text.recognisers.ip_addresses import addresses
from core.text.recognisers.number_words import counts_units, follows_word, names_machine

_NLP_ENGINE = "presidio_analyzer.nlp_engine"
BARE_CHARS = 10  # one number in eleven is valid by chance
_LOGGERS = ("presidio-analyzer", "decision_process", "tldextract", "filelock")


@dataclass(frozen=True)
class _Row:
    """`digits_min`, `sign`: decimal digits that every pattern needs, and what each match has and is found faster.
    `valid_score`: score of a match with a valid checksum. It is below the threshold if one number in ten is valid by
    chance, so that such a number needs context as well."""

    recognizer: str
    digits_min: int = 0
    sign: str = ""
    valid_score: float = 1.0
    context: tuple[str, ...] | None = None
    patterns: int | None = None  # use only this many, from the first
    excluded: regex.Pattern[str] | None = None  # a value of this form is another number
    more: tuple[Pattern, ...] = ()  # written forms that its patterns lack
    filtered: Callable[[Scan], Scan] | None = None  # what drops hits that are none by what is beside them
    in_counts: bool = False  # a number of a machine or a sum is valid by chance, and needs a context word


_TIME = regex.compile(r"20\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:[01]\d|2[0-3])[0-5]\d")
_NINO = Pattern(regex.compile(r"(?<!\w)[A-Z]{2} ?\d{2} ?\d{2} ?\d{2} ?[A-D](?!\w)"), 0.2)
_NIE = Pattern(regex.compile(r"(?<![\w])[XYZ][- ]\d{7}[- ]?[A-Z](?![\w])"), 0.5)


_ROUND = regex.compile(r"[1-9]\d{0,2}(?:[ .,\u00a0\u202f]?000)?(?:[ .,\u00a0\u202f]?000){2}")


def _no_counts(scan: Scan, context: regex.Pattern[str]) -> Scan:
    """Return `scan` without round numbers, and those of machines and units that no word of `context` is near."""

    def filtered(text: str) -> Iterator[Hit]:
        for hit in scan(text):
            value = text[hit.start : hit.end]
            bare = len(value) == BARE_CHARS and value.isdecimal()
            counted = (
                _ROUND.fullmatch(value)
                or names_machine(text, hit.start, value)
                or counts_units(text, hit.end)
                or (bare and follows_word(text, hit.start))
            )
            if not counted or stands_near(context, text, hit.start, hit.end):
                yield hit

    return filtered


_LETTER = "[A-Za-z\u0130\u0131\u017f\u212a]"  # that a pattern takes for one of ASCII in any case
_ROWS = {
    "IP_ADDRESS": _Row("IpRecognizer", filtered=addresses),
    "MAC_ADDRESS": _Row("MacAddressRecognizer"),
    "CRYPTO": _Row("CryptoRecognizer"),
    "US_ITIN": _Row("UsItinRecognizer", 9),
    "US_PASSPORT": _Row(
        "UsPassportRecognizer", 8, r"[0-9]{8}", context=("passport", "passport number", "travel document")
    ),
    "US_BANK_NUMBER": _Row("UsBankRecognizer", 8),
    "ABA_ROUTING_NUMBER": _Row("AbaRoutingRecognizer", 9, valid_score=0.35),
    "US_MBI": _Row("UsMbiRecognizer", 5),
    "US_NPI": _Row("UsNpiRecognizer", 10, valid_score=0.35),
    "MEDICAL_LICENSE": _Row("MedicalLicenseRecognizer", 7, rf"{_LETTER}\d{{7}}"),
    "UK_NHS": _Row("NhsRecognizer", 10, valid_score=0.6, in_counts=True),
    "UK_NINO": _Row(
        "UkNinoRecognizer",
        6,
        rf"{_LETTER} ?\d{{2}} ?\d{{2}} ?\d",
        more=(_NINO,),
        context=("national insurance", "ni number", "ni no", "nino"),
    ),
    "UK_PASSPORT": _Row("UkPassportRecognizer", 7),
    "CA_SIN": _Row("CaSinRecognizer", 9, in_counts=True),
    "AU_ABN": _Row("AuAbnRecognizer", 11, valid_score=0.5, in_counts=True),
    "AU_TFN": _Row("AuTfnRecognizer", 9, valid_score=0.35),
    "AU_MEDICARE": _Row("AuMedicareRecognizer", 10, valid_score=0.35),
    "IN_AADHAAR": _Row("InAadhaarRecognizer", 12, valid_score=0.75, excluded=_TIME, in_counts=True),
    # the third pattern looks ahead over the whole text at every word
    "IN_PAN": _Row("InPanRecognizer", 4, rf"{_LETTER}[0-9]{{4}}{_LETTER}", patterns=2),
    "SG_NRIC_FIN": _Row("SgFinRecognizer", 7, rf"{_LETTER}\d{{7}}"),
    "ES_NIF": _Row("EsNifRecognizer", 7, rf"[0-9]{{7}}-?{_LETTER}"),
    "ES_NIE": _Row("EsNieRecognizer", 7, rf"\d{{7}}[- ]?{_LETTER}", more=(_NIE,)),
    "IT_FISCAL_CODE": _Row("ItFiscalCodeRecognizer", sign=r"[^\W_]{16}"),
    "PL_PESEL": _Row("PlPeselRecognizer", 11, valid_score=0.75, in_counts=True),
    "DE_TAX_ID": _Row("DeTaxIdRecognizer", 11, valid_score=0.75, in_counts=True),
    "UUID": _Row("UuidRecognizer"),
    "UK_POSTCODE": _Row("UkPostcodeRecognizer"),
    "US_DRIVER_LICENSE": _Row("UsLicenseRecognizer", 1),
}


def _silence() -> None:
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = False
        logger.addFilter(lambda record: False)  # noqa: ARG005 - stays effective if a later configuration resets levels


class _Unused(ModuleType):
    """Stands for a module of Presidio whose names its recognisers mention in annotations alone."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def _predefined() -> Any:
    os.environ["TLDEXTRACT_PUBLIC_SUFFIX_LIST_URLS"] = ""  # read at import; its default makes network requests
    # Presidio imports these for NLP engines that this project does not use. Without them it takes a third of the time
    # and of the memory. A module that is None in this table cannot be imported.
    names = ("torch", "transformers", "stanza", _NLP_ENGINE)
    hidden: dict[str, Any] = dict.fromkeys(name for name in names if name not in sys.modules)
    if _NLP_ENGINE in hidden:
        hidden[_NLP_ENGINE] = _Unused(_NLP_ENGINE)
    sys.modules.update(hidden)
    try:
        from presidio_analyzer import predefined_recognizers
    finally:
        for name in hidden:
            del sys.modules[name]

    _silence()
    return predefined_recognizers


def recognisers() -> tuple[Recogniser, ...]:
    predefined = _predefined()
    built = []
    for entity, row in _ROWS.items():
        source = getattr(predefined, row.recognizer)()
        patterns = [
            Pattern(regex.compile(pattern.regex, source.global_regex_flags), pattern.score)
            for pattern in source.patterns[: row.patterns]
        ]
        patterns += row.more
        invalid = source.invalidate_result if row.excluded is None else row.excluded.fullmatch
        scan = pattern_scan(patterns, source.validate_result, invalid, valid_score=row.valid_score)
        scan = row.filtered(scan) if row.filtered else scan
        words = source.context if row.context is None else row.context
        context = context_of(words or ())
        scan = _no_counts(scan, context) if row.in_counts and context else scan
        name = f"presidio.{row.recognizer}"
        sign = re.compile(row.sign) if row.sign else None
        built.append(Recogniser(entity, scan, context, row.digits_min, name=name, sign=sign))
    return tuple(built)
