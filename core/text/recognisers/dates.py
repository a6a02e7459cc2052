"""DATE_OF_BIRTH and DATE_TIME, in eight languages.

DATE_TIME: every date and time of day in a form of `core.text.recognisers.date_forms`. DATE_OF_BIRTH: a date that a
context names as one, before it (`born on`, `geb.`, `né le`, `fecha de nacimiento`) or after it (`in Köln geboren`). No
digit and no end of a sentence may lie between the context and the date.
"""

from __future__ import annotations

from collections.abc import Iterator

import regex  # type: ignore[import-untyped]

from core.text.recogniser import Hit, Recogniser, matches
from core.text.recognisers.date_forms import dates, first_date

SCORE = 0.85
AFTER_CHARS = 60
DATE_CHARS_MAX = 40
BEFORE_CHARS = 120

_BORN = regex.compile(
    r"""
    (?<!\p{L})(?:
      (?:date|day|place[ ]and[ ]date)[ ]of[ ]birth | birth[ _-]?(?:date|day)s? | born(?![ ]out) | b\.(?=[
      ]?[\d\p{Lu}]) | d\.?o\.?b\.? | bday
      | (?:dob|birth_?date|date_?of_?birth|birth_?day|bdate|born_on|born_at|birth_dt|geburtsdatum|birthdt
        |naissance)(?=["'_]|\b)
      | geb(?:oren(?:e[rmn]?)?|\.|urts?(?:datum|tag)(?:es|s)?)? | geburtsdat\. | geboren
      | né(?:e|s|es|\(e\)|·e|\.e|e\(s\))? | date[ ]de[ ]naissance | naissance | anniversaire | nait | naquit | ddn
      | nacid[oa]s? | nació | nací | fecha[ ](?:de[ ])?nac(?:imiento|\.) | f\.?[ ]?nac\.? | nacimiento | cumpleaños |
      natalicio
      | nat[oaie](?=[ ](?:a|ad|il|in|l['’]|nel|nella)) | nacque | data[ ]di[ ]nascita | nascita | compleanno
      | geboorte(?:datum|dag|dd) | geb\.?[ ]?(?:datum|dat\.) | verjaardag | jarig
      | nascid[oa]s? | nasceu | nasci | data[ ]de[ ]nasc(?:imento|\.) | dt\.?[ ]?nasc\.? | nascimento | aniversário
      | urodz(?:on[yaei]|ił(?:a|am|em)?[ ]się|eni[ae]|iny|in) | ur\. | dat[aąęy][ ]ur(?:odzenia|\.) | data_urodzenia
    )
    """,
    regex.VERBOSE | regex.IGNORECASE,
)
_STAR = regex.compile(r"(?:(?<=\p{L}[ ]\()\*|(?<=,[ ])\*|(?<=\()\*)[ ]?")
_SENTENCE_END = regex.compile(r"[\d;!?†]|\p{L}{3}\.\s+\p{Lu}")
_LABEL_END = " \t\r\n:|*>\"'()-_/"
_OTHER_EVENT = regex.compile(
    r"(?<!\p{L})(?:died|dead|death|deceased|issued?|expir\w*|valid|since|until|till|signed|joined|hired|admitted"
    r"|updated|created|wed|married"
    r"|gestorben|verstorben|gest|ausgestellt|gültig|seit|bis|mort|morte|décédé|décédée|délivré|depuis|jusqu|murió"
    r"|falleci\w+|expedid\w+|desde|hasta"
    r"|morto|morta|rilasciat\w+|dal|fino|overleden|afgegeven|sinds|tot|morreu|faleceu|emitid\w+|até|zmarł\w?|wydan\w"
    r"|od|do|ważn\w+)(?!\p{L})",
    regex.IGNORECASE,
)
_AFTER = regex.compile(
    r"(?<!\p{L})(?:geboren(?:e[rn]?)?|geb\.|born|date[ ]of[ ]birth|dob|birthdate|urodzon[yaą]|urodziła?"
    r"|geboortedatum|née?|nacid[oa]"
    r"|nat[oa]|nascid[oa])(?!\p{L})",
    regex.IGNORECASE,
)
_WORDS_BETWEEN = regex.compile(r"[ ]?,?(?:[ ](?:r\.|roku))?(?:[ ,(]{1,3}[\p{L}'’.-]{1,20}){0,5}[ (,]{1,3}")
_YEAR = regex.compile(r"\d{4}|\d[./-]\d{2}(?!\d)")


def _births(text: str) -> Iterator[Hit]:
    for pattern in (_BORN, _STAR):
        for named in matches(pattern, text):
            date = first_date(text, named.end(), named.end() + AFTER_CHARS + DATE_CHARS_MAX)
            if date and _belong(text[named.end() : date[0]]) and (pattern is _BORN or _YEAR.search(text, *date)):
                yield Hit(*date, SCORE)
    for named in matches(_AFTER, text):
        begin = max(0, named.start() - BEFORE_CHARS)
        if not _YEAR.search(text, begin, named.start()):
            continue
        for start, end in dates(text, begin, named.start()):
            if _YEAR.search(text, start, end) and _WORDS_BETWEEN.fullmatch(text, end, named.start()):
                yield Hit(start, end, SCORE)


def _belong(gap: str) -> bool:
    """Whether what lies between a word of birth and a date leaves the date one of birth."""
    if len(gap) > AFTER_CHARS or _SENTENCE_END.search(gap) or _OTHER_EVENT.search(gap):
        return False
    return "\n" not in gap or not gap.strip(_LABEL_END)


def _dates(text: str) -> Iterator[Hit]:
    for start, end in dates(text):
        yield Hit(start, end, SCORE)


def recognisers() -> tuple[Recogniser, ...]:
    return (
        Recogniser("DATE_OF_BIRTH", _births, digits_min=1),
        Recogniser("DATE_TIME", _dates, digits_min=1),
    )
