"""Names that identify nobody where they stand: of works, medicines, diseases, halls and schools.

`public_name` looks at what a tagger takes for a name and at the words beside it:

* A part of the title of a work (`Anna Karenina`). The title of one name (`Emma`) needs a word for a work near it.
* Medicines alone (`Lexapro, Keppra`).
* A person after whom a disease, a sign or a score is called, beside a word for one (`Lewy body dementia`, `Morbus
  Crohn`), or without one near a word for a diagnosis, for those that are often written so (`Sjögren was ruled out`).
* A part of a name in a program (`Bee::Dee`).
* A person of history beside a word for a hall or a school (`Raum Albert Einstein`, `lycée Victor Hugo`).

Other persons of these names stay: `Peter Crohn has Crohn's disease`. The lists are short and no register of all such
names.

Cost: constant for each find.
"""

import regex  # type: ignore[import-untyped]

from core.text.recogniser import BOUNDARY, texts_of

_TEXTS = texts_of(__name__)

SEEN_CHARS = 64
NAME_CHARS_MAX = 80


def _words(text: str) -> str:
    return rf"(?<![\p{{L}}\d])(?:{text})(?![\p{{L}}\d])"


_WORKS = regex.compile(_words(_TEXTS["works"]), regex.IGNORECASE)
_WORK_OF_ONE_NAME = regex.compile(_TEXTS["works_of_one_name"], regex.IGNORECASE)
_WORK_WORD = regex.compile(_words(_TEXTS["work_words"]), regex.IGNORECASE)
_SCOPE_BEFORE, _SCOPE_AFTER = regex.compile(r"\w::\Z"), regex.compile(r"::\w")
_DRUGS = regex.compile(
    rf"(?:{_TEXTS['drugs']})(?:(?:{_TEXTS['drugs_joint']})+(?:{_TEXTS['drugs']}))*", regex.IGNORECASE
)
_EPONYM = rf"(?:{_TEXTS['eponyms']})(?:a|ego|iego|s)?"
_MORE = (
    rf"(?:,[ ]?|[ ](?:and|or|und|et|y|e|en|i)[ ])+(?:(?:{_TEXTS['eponym_before']})[ ](?:d[ei][ ])?)?{_EPONYM}"
    r"(?:['’]s?)?"
)
_EPONYMS = regex.compile(rf"{_EPONYM}(?:['’]s?)?(?:[ -](?:{_TEXTS['eponym_after']}))?", regex.IGNORECASE)
_ALONE = regex.compile(_TEXTS["eponyms_alone"], regex.IGNORECASE)
_EPONYM_BEFORE = regex.compile(
    rf"(?r)(?<!\p{{L}})(?:{_TEXTS['eponym_before']})(?:[ ](?:de|di|do|da|van|von|del|of)(?:[ ]l[ae])?)?[ ](?:d['’])?\Z",
    regex.IGNORECASE,
)
_EPONYM_AFTER = regex.compile(
    rf"(?:['’]s?)?(?:{_MORE}){{0,4}}[ -](?:{_TEXTS['eponym_after']})(?!\p{{L}})", regex.IGNORECASE
)
_SIGN = regex.compile(_TEXTS["signs"], regex.IGNORECASE)
_SIGN_AFTER = regex.compile(rf"(?:['’]s?)?[ -](?:{_TEXTS['sign_after']})(?!\p{{L}})", regex.IGNORECASE)
_TITLE = regex.compile(rf"(?r)(?<!\p{{L}})(?:{_TEXTS['titles']})\.?[ ]\Z", regex.IGNORECASE)
_DIAGNOSED = regex.compile(_words(_TEXTS["diagnosed"]) + r"[^.!?\n]{0,40}\Z", regex.IGNORECASE)
_RULED_OUT = regex.compile(rf"[ ](?:{_TEXTS['ruled_out']})", regex.IGNORECASE)
_PLACE_AFTER = rf"(?:{_TEXTS['halls_after']}|{_TEXTS['schools_after']})"
_PLACE_BEFORE = rf"(?:{_TEXTS['halls_before']}|{_TEXTS['schools_before']})"
_CALLED = r"(?:[ ](?:called|named|namens|im\.))?"
_PERSON = regex.compile(
    rf"(?:{_PLACE_BEFORE}[ ])?(?:im\.[ ])?(?:{_TEXTS['persons']})(?:[- ](?:{_PLACE_AFTER}))?",
    regex.IGNORECASE,
)
_AFTER = regex.compile(rf"[- ]{_PLACE_AFTER}(?!\p{{L}})", regex.IGNORECASE)
_BEFORE = regex.compile(rf"(?r)(?<!\p{{L}}){_PLACE_BEFORE}{_CALLED}[ ][\"“„«'’]?\Z", regex.IGNORECASE)
_INSIDE = regex.compile(
    _words(rf"{_TEXTS['halls_before']}|{_PLACE_AFTER}|{_TEXTS['schools_before']}"), regex.IGNORECASE
)


def public_name(text: str, start: int, end: int) -> bool:
    """Whether `text[start:end]`, which looks like a name, is that of a work, a medicine, a disease, a hall or a
    school."""
    name = text[start:end]
    if len(name) > NAME_CHARS_MAX:
        return False
    before = text[max(0, start - SEEN_CHARS) : start].rpartition(BOUNDARY)[2]
    after = text[end : end + SEEN_CHARS].partition(BOUNDARY)[0]
    return (
        _SCOPE_BEFORE.search(before) is not None
        or _SCOPE_AFTER.match(after) is not None
        or _DRUGS.fullmatch(name) is not None
        or _of_work(name, before, after)
        or _of_disease(name, before, after)
        or _of_place(name, before, after)
    )


def _of_work(name: str, before: str, after: str) -> bool:
    if _WORK_OF_ONE_NAME.fullmatch(name):
        return _WORK_WORD.search(f"{before}\n{after}") is not None
    titles = _WORKS.finditer(before + name + after)
    return any(title.start() <= len(before) and len(before + name) <= title.end() for title in titles)


def _of_disease(name: str, before: str, after: str) -> bool:
    if _EPONYMS.fullmatch(name) is None or _TITLE.search(before):
        return False
    if _EPONYM_BEFORE.search(before) or _EPONYM_AFTER.match(after) or _EPONYM_AFTER.search(name):
        return True
    if _SIGN.fullmatch(name):
        return _SIGN_AFTER.match(after) is not None
    alone = _ALONE.fullmatch(name) is not None
    return alone and (_DIAGNOSED.search(before) is not None or _RULED_OUT.match(after) is not None)


def _of_place(name: str, before: str, after: str) -> bool:
    if _PERSON.fullmatch(name.replace("-", " ")) is None:
        return False
    return _BEFORE.search(before) is not None or _AFTER.match(after) is not None or _INSIDE.search(name) is not None
