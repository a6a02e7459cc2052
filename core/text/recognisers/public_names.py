"""Names that identify nobody where they stand: of works, medicines, diseases, halls and schools.

`public_name` looks at what a tagger takes for a name and at the words beside it:

* A part of the title of a work (`Anna Karenina`), or of any title in quotes after a word for a work (`the film "Emma
  Blue"`). The title of one name (`Emma`) without quotes needs a word for a work near it.
* Medicines alone (`Lexapro, Keppra`).
* A person after whom a disease, a sign or a score is called, beside a word for one (`Lewy body dementia`, `Morbus
  Crohn`), or without one near a word for a diagnosis, for those that are often written so (`Sjögren was ruled out`).
* A part of a name in a program (`Bee::Dee`).
* A person of history beside a word for a hall or a school (`Raum Albert Einstein`, `lycée Victor Hugo`), and any name
  of one word after a word for a hall alone (`lecture hall Doe`).
* A word that stands before a colon in files and conversations, as `domanda:`, and a part of a name of a package.

Other persons of these names stay: `Peter Crohn has Crohn's disease`. The lists are short and no register of all such
names.

Cost: constant for each find.
"""

import re

import regex  # type: ignore[import-untyped]

from core.text.recogniser import BOUNDARY, texts_of
from core.text.recognisers.public_things import public_thing
from core.text.recognisers.speakers import OTHERS

_TEXTS = texts_of(__name__)

SEEN_CHARS = 64
NAME_CHARS_MAX = 80
HYPHENS_MIN = 2
_LINE_START = re.compile(r"(?:\A|\n)[ \t]*\Z")
_HYPHENS_BEFORE = regex.compile(r"(?r)(?<![\w@./-])(?:\p{Ll}[\p{Ll}\d]*-)*\Z")
_HYPHENS_AFTER = regex.compile(r"(?:-[\p{Ll}\d]+)*+(?![\w@]|[.]\w)")


def _words(text: str) -> str:
    return rf"(?<![\p{{L}}\d])(?:{text})(?![\p{{L}}\d])"


_WORKS = regex.compile(_words(_TEXTS["works"]), regex.IGNORECASE)
_WORK_OF_ONE_NAME = regex.compile(_TEXTS["works_of_one_name"], regex.IGNORECASE)
_WORK_WORD = regex.compile(_words(_TEXTS["work_words"]), regex.IGNORECASE)
_QUOTED_BEFORE = regex.compile(
    rf"(?r)(?<![\p{{L}}\d])(?:{_TEXTS['work_nouns']})[,:]?[ ][\"“„«‘‚'][ \u00a0]?[^\"“”„»\n]{{0,40}}\Z",
    regex.IGNORECASE,
)
_QUOTED_AFTER = regex.compile(r"[^\"“„«\n.!?]{0,40}[\"”“»’']")
_SCOPE_BEFORE, _SCOPE_AFTER = regex.compile(r"\w::\Z"), regex.compile(r"::\w")
_DRUG = rf"(?:{_TEXTS['drugs']})(?:[ -](?:{_TEXTS['drug_makers']}))?+(?:[ ]\d{{1,4}}(?:[.,/]\d{{1,3}})?)?+"
_DRUGS = regex.compile(rf"{_DRUG}(?:(?:{_TEXTS['drugs_joint']})+{_DRUG})*", regex.IGNORECASE)
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
_EPONYM_LIST = regex.compile(rf"['’]s(?:(?:,[ ]?|[ ](?:and|or)[ ])+{_EPONYM}['’]s)+(?!\p{{L}})", regex.IGNORECASE)
_LIST_BEFORE = regex.compile(rf"(?r){_EPONYM}['’]s(?:,[ ]?|[ ](?:and|or)[ ])+\Z", regex.IGNORECASE)
_SIGN = regex.compile(_TEXTS["signs"], regex.IGNORECASE)
_SIGN_AFTER = regex.compile(rf"(?:['’]s?)?(?:[ -]|:[ ])(?:{_TEXTS['sign_after']})(?!\p{{L}})", regex.IGNORECASE)
_TITLE = regex.compile(rf"(?r)(?<!\p{{L}})(?:{_TEXTS['titles']})\.?[ ]\Z", regex.IGNORECASE)
_DIAGNOSED = regex.compile(_words(_TEXTS["diagnosed"]) + r"[^.!?\n]{0,40}\Z", regex.IGNORECASE)
_RULED_OUT = regex.compile(rf"[ ](?:{_TEXTS['ruled_out']})|:[ ](?:{_TEXTS['sign_words']})", regex.IGNORECASE)
_PLACE_AFTER = rf"(?:{_TEXTS['halls_after']}|{_TEXTS['schools_after']})"
_PLACE_BEFORE = rf"(?:{_TEXTS['halls_before']}|{_TEXTS['schools_before']})"
_CALLED = r"(?:[ ](?:called|named|namens|im\.))?"
_PERSON = regex.compile(
    rf"(?:{_PLACE_BEFORE}[ ])?(?:im\.[ ])?(?:{_TEXTS['persons']})(?:[- ](?:{_PLACE_AFTER}))?",
    regex.IGNORECASE,
)
_AFTER = regex.compile(rf"[- ]{_PLACE_AFTER}(?!\p{{L}})", regex.IGNORECASE)
_BEFORE = regex.compile(
    rf"(?r)(?<!\p{{L}}){_PLACE_BEFORE}(?:{_CALLED}[ ]|[\"']?[ ]?[:=][ ]?)[\"“„«'’]?\Z", regex.IGNORECASE
)
_HALL_BEFORE = regex.compile(
    rf"(?r)(?<!\p{{L}})(?:{_TEXTS['named_halls']})(?:{_CALLED}[ ]|[\"']?[ ]?[:=][ ]?)[\"“„«'’]?\Z", regex.IGNORECASE
)
_IN_PLACE = regex.compile(
    rf"(?<!\p{{L}}){_PLACE_BEFORE}[ ](?:\p{{Lu}}[\p{{L}}.]*[ ]){{0,3}}(?:\p{{Ll}}{{1,3}}[ ])?\Z", regex.IGNORECASE
)
_CALLED_PLACE = regex.compile(
    rf"(?<!\p{{L}}){_PLACE_BEFORE}{_CALLED}[ ](?P<name>{_TEXTS['persons']})(?!\p{{L}})", regex.IGNORECASE
)
_ONE_WORD = regex.compile(r"\p{Lu}[\p{L}'’-]{1,20}")
_JOINED_BEFORE, _JOINED_AFTER = (
    regex.compile(r"(?r)(?<!\p{L})\p{Lu}\p{L}+-\Z"),
    regex.compile(r"-\p{Lu}\p{Ll}+(?!\p{L})"),
)
_INSIDE = regex.compile(
    _words(rf"{_TEXTS['halls_before']}|{_PLACE_AFTER}|{_TEXTS['schools_before']}"), regex.IGNORECASE
)


def public_name(kind: str, text: str, start: int, end: int) -> bool:
    """Whether `text[start:end]`, which looks like a name, is that of a work, a medicine, a disease, a hall, a school or
    a thing that everybody knows. `kind`: PERSON, LOCATION or ORGANIZATION."""
    name = text[start:end]
    if len(name) > NAME_CHARS_MAX:
        return False
    before = text[max(0, start - SEEN_CHARS) : start].rpartition(BOUNDARY)[2]
    after = text[end : end + SEEN_CHARS].partition(BOUNDARY)[0]
    return (
        _SCOPE_BEFORE.search(before) is not None
        or _SCOPE_AFTER.match(after) is not None
        or _DRUGS.fullmatch(name) is not None
        or (after[:1] == ":" and name in OTHERS and _LINE_START.search(before) is not None)
        or (name.islower() and _joined(name, before, after))
        or _of_work(name, before, after)
        or _of_disease(name, before, after)
        or _of_place(name, before, after)
        or public_thing(kind, name, before, after)
    )


def _joined(name: str, before: str, after: str) -> bool:
    """Whether `name` is a part of three words or more in small letters with hyphens between, as of a package."""
    left, right = _HYPHENS_BEFORE.search(before), _HYPHENS_AFTER.match(after)
    return bool(left and right and (left.group() + name + right.group()).count("-") >= HYPHENS_MIN)


def _of_work(name: str, before: str, after: str) -> bool:
    if _QUOTED_BEFORE.search(before) and _QUOTED_AFTER.match(after):
        return True
    if _WORK_OF_ONE_NAME.fullmatch(name):
        return _WORK_WORD.search(f"{before}\n{after}") is not None
    titles = _WORKS.finditer(before + name + after)
    return any(title.start() <= len(before) and len(before + name) <= title.end() for title in titles)


def _of_disease(name: str, before: str, after: str) -> bool:
    if _EPONYMS.fullmatch(name) is None or _TITLE.search(before):
        return False
    if "-" in name or _EPONYM_LIST.match(after) or (_LIST_BEFORE.search(before) and after[:1] in ("'", "’")):
        return True
    if _EPONYM_BEFORE.search(before) or _EPONYM_AFTER.match(after) or _EPONYM_AFTER.search(name):
        return True
    if _SIGN.fullmatch(name):
        return _SIGN_AFTER.match(after) is not None
    alone = _ALONE.fullmatch(name) is not None
    return alone and (_DIAGNOSED.search(before) is not None or _RULED_OUT.match(after) is not None)


def _of_place(name: str, before: str, after: str) -> bool:
    if _HALL_BEFORE.search(before) and _ONE_WORD.fullmatch(name):
        return True
    if (left := _JOINED_BEFORE.search(before)) or (right := _JOINED_AFTER.match(after)):  # `Victor` and `Hugo`
        first, last = (left.group(), "") if left else ("", right.group())
        name, before, after = first + name + last, before[: len(before) - len(first)], after[len(last) :]
    if _PERSON.fullmatch(name.replace("-", " ")) is None:
        return _IN_PLACE.search(before) is not None and any(
            hall.start("name") <= len(before) and len(before + name) <= hall.end("name")
            for hall in _CALLED_PLACE.finditer(before + name + after)
        )
    return _BEFORE.search(before) is not None or _AFTER.match(after) is not None or _INSIDE.search(name) is not None
