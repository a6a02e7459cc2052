"""DATE_TIME, DATE_OF_BIRTH and AGE, in eight languages.

DATE_TIME: every date and time of day in its written forms. A date is numeric (`03/05/1984`, `3. 5. 84`, `1984-05-03`)
or has the name of a month (`3 May 1984`, `3. Mai 1984`, `1er mai 1984`, `3 de mayo de 1984`, `May 3rd, '84`,
`03-MAY-1984`, `May 1984`), also after several days (`3, 7 and 9 May 1984`, `3.-7. Mai`). Days and months are in range;
a month has up to 31 days. The patterns have bounded repeats only.

DATE_OF_BIRTH: a date that a context names as one, before it (`born on`, `geb.`, `né le`, `fecha de nacimiento`) or
after it (`in Köln geboren`). No digit and no end of a sentence may lie between the context and the date, unless the
date is the answer to a question or a request (`What is your date of birth?`). Rows of records without headings:
`core.text.recognisers.records`.

AGE: ages over 89, which the HIPAA Safe Harbor rule removes. A hit is the number with its unit (`93-year-old`, `92
ans`). A duration (`for 92 years`) and a percentage are none: the number needs a word of age before it, or a unit that
only ages have after it.
"""

from collections.abc import Iterator

import regex  # type: ignore[import-untyped]

from core.text.recogniser import REGEX_TIMEOUT_S, Hit, Recogniser, matches, matches_in, merged, texts_of

_TEXTS = texts_of(__name__)

BEFORE_CHARS_MAX = 40
DAYS_MAX = 8  # of a list of days in one month, beside its last one
LIST_CHARS_MAX = 64

_MONTHS = _TEXTS["months"]
_SHORT = "jan feb apr jun jul aug sep sept oct nov dec"  # unmistakable without a year as well
_SHORT_WITH_YEAR = (
    "mar mär mrz okt dez janv févr fev fév avr juil août sept déc ene abr ago dic gen mag giu lug set ott mrt mei"
    " fev abr mai out dez sty lut kwi maj cze lip sie wrz paź lis gru may"
)


def _words(*lines: str) -> str:
    words = dict.fromkeys(word for line in lines for word in line.split())
    return "|".join(sorted(words, key=len, reverse=True))


MONTH = rf"(?:(?:{_words(*_MONTHS)})(?!\p{{L}})|(?:{_words(_SHORT)})(?!\p{{L}})\.?)"
_ANY_MONTH = rf"(?:(?:{_words(*_MONTHS)})(?!\p{{L}})|(?:{_words(_SHORT, _SHORT_WITH_YEAR)})(?!\p{{L}})\.?)"
_ROMAN = r"(?:VIII|VII|VI|IV|IX|XII|XI|III|II|I|V|X)"
_WEEKDAY = _words(
    "monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur thurs fri sat sun",
    "montag dienstag mittwoch donnerstag freitag samstag sonnabend sonntag",
    "lundi mardi mercredi jeudi vendredi samedi dimanche lunes martes miércoles jueves viernes sábado domingo",
    "lunedì martedì mercoledì giovedì venerdì sabato domenica",
    "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag",
    "segunda-feira terça-feira quarta-feira quinta-feira sexta-feira",
    "poniedziałek wtorek środa środę czwartek piątek sobota sobotę niedziela niedzielę",
)
_D = r"(?:0?[1-9]|[12]\d|3[01])"
_M = r"(?:0?[1-9]|1[0-2])"
_YEAR = r"(?:1[89]\d{2}|20\d{2})"
_SHORT_YEAR = r"['’]?\d{2}"
_ORDINAL = r"(?:st|nd|rd|th|er|re|ère|ème|e|de|º|ª|°|\.)?"
_OF = r"(?:[ ]?of(?:[ ]the)?[ ]|[ ]de[ ]|[ ]di[ ]|[ ]|-|/|\.|,[ ]|[ ]?)"
_BEFORE_YEAR = r"(?:[ ]del?[ ]|[ ]do[ ]ano[ ]de[ ]|,[ ]?|[ ]|-|/|\.[ ]?|)"
_ERA = r"(?:[ ](?:r\.|roku|r(?=[ ,;)]|$)))?"

_DAY_MONTH_YEAR = rf"{_D}{_ORDINAL}{_OF}{_ANY_MONTH}{_BEFORE_YEAR}(?:{_YEAR}|{_SHORT_YEAR})(?!\d){_ERA}"
_DAY_MONTH = rf"{_D}{_ORDINAL}(?:[ ]?of[ ]|[ ]de[ ]|[ ]){MONTH}(?!\p{{L}})"
_ENGLISH_DAY = rf"(?:the[ ])?{_D}(?:st|nd|rd|th)?"
_MONTH_DAY_YEAR = (
    rf"{_ANY_MONTH}(?:[ ]|-|/){_ENGLISH_DAY}(?:(?:,?[ ](?:and|&|or|to|through)[ ]|,[ ]|[ ]?[-–][ ]?){_ENGLISH_DAY})"
    rf"{{0,{DAYS_MAX}}}(?:,[ ]?|[ ]|-|/)(?:{_YEAR}|['’]\d{{2}})(?!\d)"
)
_MONTH_DAY = rf"{MONTH}[ ]{_ENGLISH_DAY}(?:[ ]?[-–][ ]?{_ENGLISH_DAY})?(?![\w:])"
_MONTH_YEAR = rf"{_ANY_MONTH}(?:,?[ ]|[ ]del?[ ]|-)(?:{_YEAR})(?!\d){_ERA}"
_YEAR_MONTH_DAY = rf"{_YEAR}[ ,-]{{1,2}}{_ANY_MONTH}[ -]{_D}(?!\d)"
_ROMAN_DATE = rf"{_D}(?:[ ]{_ROMAN}[ ]|\.{_ROMAN}\.)(?:{_YEAR})(?!\d){_ERA}"

ISO = rf"{_YEAR}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])(?!\d)"
_ISO_OTHER = rf"{_YEAR}(?P<y>[./])[ ]?{_M}(?P=y)[ ]?{_D}(?!\d)"
_NUMERIC = (
    rf"(?:{_D}(?P<a>[./-])[ ]?{_M}(?P=a)[ ]?|{_M}(?P<b>[./-])[ ]?{_D}(?P=b)[ ]?)(?:{_YEAR}|['’]?\d{{2}})(?![\d\w]"
    rf"|[./-]\d){_ERA}"
)
_MONTH_AND_YEAR = r"(?:0[1-9]|1[0-2])/(?:19|20)\d{2}(?![\d\w/])"
_SPACED = rf"(?:{_D}[ ]{_M}[ ]{_YEAR}|{_YEAR}[ ]{_M}[ ]{_D}|{_D}[-–][ ]?{_M}[-–][ ]?{_YEAR})(?!\d)"
_COMPACT = (
    r"(?:(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])|(?:0[1-9]|[12]\d|3[01])(?:0[1-9]|1[0-2])(?:19"
    r"|20)\d{2})(?!\d)"
)
_NUMERIC_NO_YEAR = rf"{_D}[./]{_M}\.?(?![\d\w]|[./-]\d)"

_START = r"(?<![\p{L}\d]|\d[.,/:-])"
_NAMED = "|".join((_YEAR_MONTH_DAY, _DAY_MONTH_YEAR, _MONTH_DAY_YEAR, _ROMAN_DATE, _MONTH_YEAR, _DAY_MONTH, _MONTH_DAY))
_THE_DAY = rf"(?:(?:{_WEEKDAY})(?!\p{{L}})\.?,?[ ](?:(?:the|den|der|le|el)[ ])?)?"
_FROM_DAY = rf"(?:{_D}[.º°]?[ ]?[-/][ ]?)?"  # `3-7 May`
_DATE = rf"{_START}{_THE_DAY}(?:{ISO}|{_ISO_OTHER}|{_NUMERIC}|{_FROM_DAY}(?:{_NAMED})|{_MONTH_AND_YEAR})"
# beside a word of birth, a run of digits and a day without a year are dates as well
_DATE_IN_CONTEXT = (
    rf"{_START}{_THE_DAY}(?:{ISO}|{_ISO_OTHER}|{_NUMERIC}|{_NAMED}|{_SPACED}|{_COMPACT}|{_NUMERIC_NO_YEAR})"
)

_HOUR, _MINUTE = r"(?:[01]?\d|2[0-3])", r"[0-5]\d"
_ZONE = r"(?:[ ]?(?:Z|UTC|GMT|CES?T|[ECMP][SD]T|BST|WES?T|[+-][01]\d:?[0-5]\d)(?![\w]))?"
TIME = (
    rf"{_HOUR}:{_MINUTE}(?::{_MINUTE}(?:[.,]\d{{1,9}})?)?(?:[ ]?(?:[ap]\.?m\.?|uhr|h|hrs|uur)(?!\w))?{_ZONE}(?![\d:])"
    rf"|{_HOUR}(?:[.:h]{_MINUTE})?[ ]?(?:uhr|uur)(?!\w)|{_HOUR}[ ]?h(?:{_MINUTE})?(?!\w)|{_HOUR}h{_MINUTE}(?!\w)"
    r"|(?:0?[1-9]|1[0-2])(?:[.:][0-5]\d)?[ ]?[ap]\.?m(?!\w)\.?"
    rf"|(?<=godz\.[ ]|godzinie[ ]|kl\.[ ]|ore[ ]|alle[ ]|las[ ]){_HOUR}[.:,]{_MINUTE}(?!\d)"
)
_JOIN = r"(?:T|,?[ ](?:(?:at|um|à|a[ ]las|alle(?:[ ]ore)?|om|às|o[ ]godz\.|o)[ ])?)"
_DATE_TIME = regex.compile(rf"{_DATE}(?:{_JOIN}(?:{TIME}))?|(?<![\p{{L}}\d.:,/])(?:{TIME})", regex.IGNORECASE)
_IN_CONTEXT = regex.compile(_DATE_IN_CONTEXT, regex.IGNORECASE)

_ANY_NUMBER = regex.compile(r"(?<!\d)\d")
# A number at which a date or time can begin, or that can follow its month or day of the week: a superset, because the
# full pattern takes 10 microseconds for each number.
_MONTH_WORDS = _words(*_MONTHS, _SHORT, _SHORT_WITH_YEAR).split("|")
_ENDINGS = "|".join(
    sorted({word[-2:] for word in (*_MONTH_WORDS, *_WEEKDAY.split("|"), "the", "den", "le", "el", "del")})
)
_STARTS = "|".join(sorted({word[:2] for word in _MONTH_WORDS}))
_LETTERS_AFTER = rf"(?i:{_STARTS}|of|d[ei]|u[hu]|h|[ap]\.?m|[ivx]+[ .])"  # a month, a unit of time, a Roman number
_LIKELY = regex.compile(
    rf"(?<![\p{{L}}\d]|\d[.,/:])\d(?:(?<=(?i:{_ENDINGS})\.?,?[ /-]['’]?\d)|(?=\d?(?:[:.,]\d\d|[ ]?{_LETTERS_AFTER}))"
    rf"|(?=\d?[.º°]?[ ]?[-/][ ]?\d\d?[.º°]?[ ]{_LETTERS_AFTER})"
    r"|(?<!\d-\d)(?=\d?([./-])[ ]?\d{1,2}\1[ ]?['’]?\d\d|\d/\d{4}|\d{3}[./-][ ]?\d"
    rf"|\d{{0,3}}+(?:[ºª°.]?[-/., ]{{0,2}}{_LETTERS_AFTER}|(?i:st|nd|rd|th|r?e|è[rm]))))"
)
_LISTED_DAY = rf"{_D}(?:st|nd|rd|th|er|re|e|de|º|ª|°|\.)?"
_ARTICLE = r"(?:(?:the|den|dem|der|le|el|il|op|o|dia)[ ])?"
_DAYS_BEFORE = regex.compile(  # matched backwards from a date: `3, 7 and` 9 May
    rf"(?r){_START}(?:{_LISTED_DAY},[ ]{_ARTICLE}){{0,{DAYS_MAX}}}{_LISTED_DAY}"
    rf"(?:,?[ ](?:{_TEXTS['between_days']})[ ]{_ARTICLE}|[ ]?[-–—/][ ]?)",
    regex.IGNORECASE,
)
_DAY_FIRST = regex.compile(rf"{_THE_DAY}{_D}(?:{_ORDINAL}{_OF}{_ANY_MONTH}|[ ]{_ROMAN}|\.[ ]?{_M}\.)", regex.IGNORECASE)
_WORDS_BEFORE = regex.compile(  # matched backwards from a number
    rf"(?r)(?<!\p{{L}})(?:(?:{_WEEKDAY})\.?,?[ ](?:(?:the|den|der|le|el)[ ])?)?(?:{_ANY_MONTH}(?:,?[ ]|-|/"
    rf"|[ ]del?[ ])(?:the[ ])?)?['’]?",
    regex.IGNORECASE,
)


def dates(text: str, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield the dates and times of `text[start:end]`.

    Every date holds a number, so that only what is around numbers is examined.
    """
    end = len(text) if end is None else end
    floor = start
    for number in _LIKELY.finditer(text, start, end, timeout=REGEX_TIMEOUT_S):
        if number.start() >= floor and (found := _around(_DATE_TIME, text, number.start(), floor, end)):
            yield _with_days_before(text, *found, floor)
            floor = found[1]


def _with_days_before(text: str, start: int, end: int, floor: int) -> tuple[int, int]:
    """Return the date with the days before it that have its month: `3, 7 and 9 May 1998`, `du 3 au 7 mai`."""
    if _DAY_FIRST.match(text, start, end):
        days = _DAYS_BEFORE.match(text, max(floor, start - LIST_CHARS_MAX), start, timeout=REGEX_TIMEOUT_S)
        start = days.start() if days else start
    return start, end


def first_date(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Return the date at the first number of `text[start:end]`, in any form that a word of birth before it allows."""
    number = _ANY_NUMBER.search(text, start, end, timeout=REGEX_TIMEOUT_S)
    return _around(_IN_CONTEXT, text, number.start(), start, end) if number else None


def _around(pattern: regex.Pattern[str], text: str, at: int, floor: int, end: int) -> tuple[int, int] | None:
    """Return the match of `pattern` that begins at the number `at`, or at the month or day of the week before it."""
    before = _WORDS_BEFORE.match(text, max(floor, at - BEFORE_CHARS_MAX), at, timeout=REGEX_TIMEOUT_S)
    for first in dict.fromkeys((before.start() if before else at, at)):
        found = pattern.match(text, first, end, timeout=REGEX_TIMEOUT_S)
        if found and found.end() > at:
            start, stop = found.span()
            return start, stop
    return None


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
      | nacid[oa]s? | nació | nací | fecha[ _]?(?:de[ _])?nac(?:imiento|\.|(?!\p{L})) | f\.?[ ]?nac\.?
      | nacimiento | cumpleaños | natalicio
      | nat[oaie](?=[ ](?:a|ad|il|in|l['’]|nel|nella)) | nacque | data[ ]di[ ]nascita | nascita | compleanno
      | geboorte(?:datum|dag|dd) | geb\.?[ ]?(?:datum|dat\.) | verjaardag | jarig
      | nascid[oa]s? | nasceu | nasci | data[ _](?:de[ _])?nasc(?:imento|\.|(?!\p{L}))
      | data_nascita | date_naissance | geb_?dat(?:um)? | dt\.?[ ]?nasc\.? | nascimento | aniversário
      | urodz(?:on[yaei]|ił(?:a|am|em)?[ ]się|eni[ae]|iny|in) | ur\. | dat[aąęy][ ]ur(?:odzenia|\.) | data_urodzenia
    )
    """,
    regex.VERBOSE | regex.IGNORECASE,
)
_STAR = regex.compile(r"(?:(?<=\p{L}[ ]\()\*|(?<=,[ ])\*|(?<=\()\*)[ ]?")
_SENTENCE_END = regex.compile(r"[\d;!?†]|\p{L}{3}\.\s+\p{Lu}")
_LABEL_END = " \t\r\n:|*>\"'()-_/"
_OTHER_EVENT = regex.compile(_TEXTS["other_event"], regex.IGNORECASE)
_ANSWER = regex.compile(_TEXTS["answer"], regex.IGNORECASE)
_QUESTIONS = regex.compile(_TEXTS["questions"], regex.IGNORECASE)
ANSWER_CHARS = 200
_AFTER = regex.compile(
    r"(?<!\p{L})(?:geboren(?:e[rn]?)?|geb\.|born|date[ ]of[ ]birth|dob|birthdate|urodzon[yaą]|urodziła?"
    r"|geboortedatum|née?|nacid[oa]|nat[oa]|nascid[oa])(?!\p{L})",
    regex.IGNORECASE,
)
_WORDS_BETWEEN = regex.compile(r"[ ]?,?(?:[ ](?:r\.|roku))?(?:[ ,(]{1,3}[\p{L}'’.-]{1,20}){0,5}[ (,]{1,3}")
_WITH_YEAR = regex.compile(r"\d{4}|\d[./-]\d{2}(?!\d)")


def _births(text: str) -> Iterator[Hit]:
    for pattern in (_BORN, _STAR):
        for named in matches(pattern, text):
            date = first_date(text, named.end(), named.end() + AFTER_CHARS + DATE_CHARS_MAX)
            if date and _belong(text[named.end() : date[0]]) and (pattern is _BORN or _WITH_YEAR.search(text, *date)):
                yield Hit(*date, SCORE)
            elif pattern is _BORN and (answer := _answer(text, named.end())):
                yield Hit(*answer, SCORE)
    for asked in matches(_QUESTIONS, text) if "?" in text else ():
        if answer := _answer(text, asked.end()):
            yield Hit(*answer, SCORE)
    for named in matches(_AFTER, text):
        begin = max(0, named.start() - BEFORE_CHARS)
        if not _WITH_YEAR.search(text, begin, named.start()):
            continue
        for start, end in dates(text, begin, named.start()):
            if _WITH_YEAR.search(text, start, end) and _WORDS_BETWEEN.fullmatch(text, end, named.start()):
                yield Hit(start, end, SCORE)


def _answer(text: str, asked: int) -> tuple[int, int] | None:
    """Return the date with which the answer begins to a question or a request that names a birth before `asked`."""
    number = _ANY_NUMBER.search(text, asked, asked + ANSWER_CHARS)
    while number:
        date = _around(_IN_CONTEXT, text, number.start(), asked, len(text))
        if date:
            whole = _ANSWER.fullmatch(text, asked, date[0], timeout=REGEX_TIMEOUT_S)
            return date if whole and _WITH_YEAR.search(text, *date) and not _other_event(text, asked, date[0]) else None
        number = _ANY_NUMBER.search(text, number.end(), asked + ANSWER_CHARS)
    return None


def _other_event(text: str, start: int, end: int) -> bool:
    return _OTHER_EVENT.search(text, start, end) is not None


def _belong(gap: str) -> bool:
    """Whether what lies between a word of birth and a date leaves the date one of birth."""
    if len(gap) > AFTER_CHARS or _SENTENCE_END.search(gap) or _OTHER_EVENT.search(gap):
        return False
    return "\n" not in gap or not gap.strip(_LABEL_END)


def _dates(text: str) -> Iterator[Hit]:
    for start, end in dates(text):
        yield Hit(start, end, SCORE)


AGE_SCORE = 0.8
AROUND_CHARS = 40

_PATTERNS = _TEXTS["patterns"]
_HIGH = regex.compile(r"(?<!\d)(?:9\d|1[0-2]\d)(?!\d)|ninety|hundred", regex.IGNORECASE)
_COMPILED = tuple(regex.compile(pattern, regex.IGNORECASE) for pattern in _PATTERNS)


def _ages(text: str) -> Iterator[Hit]:
    parts = merged(
        (max(0, found.start() - AROUND_CHARS), min(len(text), found.end() + AROUND_CHARS))
        for found in matches(_HIGH, text)
    )
    for pattern in _COMPILED:
        for match in matches_in(pattern, text, parts):
            start, end = match.span(match.lastgroup or 0)
            yield Hit(start, end, AGE_SCORE)


def recognisers() -> tuple[Recogniser, ...]:
    return (
        Recogniser("DATE_OF_BIRTH", _births, digits_min=1),
        Recogniser("DATE_TIME", _dates, digits_min=1),
        Recogniser("AGE", _ages),
    )
