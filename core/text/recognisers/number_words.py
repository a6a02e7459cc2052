"""Words in eight languages that say what a number beside them is: a phone, a card, or a thing that has a number.

`invoice 2024-0815-33` is no phone number, and `version 1.2.3.4` is no address: directly before a number, a word for a
thing speaks against other types. Only words for "number", a verb and punctuation may stand between; any other word,
such as one for a phone, wins. A label for a phone decides as well: `phone: 4915112345678` is no card, although its
check digit is valid by chance.
"""

import regex  # type: ignore[import-untyped]

from core.text.recogniser import texts_of

_TEXTS = texts_of(__name__)

THING_CHARS = 50

_ARTICLES = _TEXTS["articles"]
_REFERENCES = r"réf(?:érence)?|ref(?:erence|erencia|erenz|erentie|erência|\.)?|référence|riferimento|numer referencyjny"
_VERSIONS = _TEXTS["versions"]
_OTHERS = _TEXTS["others"]
_IDENTITIES = (
    r"SSN|social[ -]security|NSS|INSS|NUSS|NISS|sécurité sociale|seguridad social|segurança social|previdenza sociale"
    r"|Sozialversicherungs?"
)
_NUMBER_WORD = (
    r"(?:[\s._-]{0,2}(?:numbers?|nummern?|codes?|nos?|nr|nbr|num|núm|numéro|número|numero|numer|numeru|n[°ºo]?|id|key|#)"
    r"(?!\p{L}))?"
)
# `order number please?: 7004512` is how the answer to a question is read
_ASKED = r"(?:(?:,?[ ](?:please|bitte|s['’]il vous plaît|por favor|per favore|alstublieft|proszę))?[ ]?\??(?=:))?"
_END = _ASKED + r"[\s.:=#(\"'–/-]{0,6}+(?:(?:is|ist|est|es|è|é|to|jest|lautet|of|van|von|de)[ ])?v?\Z"


def _before(words: str) -> regex.Pattern[str]:
    return regex.compile(rf"(?r)(?<!\p{{L}})(?:{words}){_NUMBER_WORD}{_END}", regex.IGNORECASE)


_ARTICLE = _before(f"{_ARTICLES}|{_REFERENCES}")
_THING = _before(f"{_ARTICLES}|{_VERSIONS}|{_OTHERS}|{_IDENTITIES}")
_MACHINE = _before(_TEXTS["machines"])
# `CVE-2024-3094`, `INV_2024-30941`, `KB5034441`; capitals, since a dash may also stand between a name and its number
_CODE = regex.compile(
    r"(?r)(?<![\p{L}\d])(?:\p{Lu}{2,10}|(?:\p{Lu}{2,10}|\p{Lu}{1,6}\d{1,4})[-_/\u2010\u2011])(?:\d{1,6}[-_/])?\Z"
)
_PLAIN_WORD = regex.compile(
    r"(?r)(?<![\p{L}'’])(?:\p{Ll}{4,20}(?:[ ]|[=:])|\p{Ll}[\p{Ll}\d]*(?:_[\p{Ll}\d]+)+(?:[ ]|[ ]?[=:][ ]?))\Z"
    r"|(?<![\p{L}\d])\p{Ll}{2,20}[-_]\Z"
)
_UNIT = regex.compile(rf"[ \u00a0]?(?:{_TEXTS['units']})(?![\p{{L}}\d])")
_VERSION = _before(f"{_VERSIONS}|v|Chrome|Chromium|Edg|OPR")


def _stands_before(words: regex.Pattern[str], text: str, start: int) -> bool:
    return words.search(text, max(0, start - THING_CHARS), start) is not None


def is_article(text: str, start: int, piece: str) -> bool:
    """Whether digits in one group are the number of an article: 12 to 14 of them after a word for one."""
    return piece.isdecimal() and 12 <= len(piece) <= 14 and _stands_before(_ARTICLE, text, start)


def names_thing(text: str, start: int) -> bool:
    """Whether a word for a thing that has a number, or for another number of a person, stands directly before
    `start`."""
    return _stands_before(_THING, text, start)


def names_machine(text: str, start: int, piece: str) -> bool:
    """Whether digits in one group are a number of a machine, a program or a table, such as `pid 2125551234`."""
    return piece.isdecimal() and _stands_before(_MACHINE, text, start)


def follows_word(text: str, start: int) -> bool:
    """Whether a word in small letters of four letters or more, or the name of a field, stands directly before
    `start`."""
    return _PLAIN_WORD.search(text, max(0, start - THING_CHARS), start) is not None


def starts_code(text: str, start: int) -> bool:
    """Whether capitals and a hyphen directly before `start` make the number a part of a code."""
    return _CODE.search(text, max(0, start - THING_CHARS), start) is not None


def counts_units(text: str, end: int) -> bool:
    """Whether a unit such as `bytes` follows directly after `end`."""
    return _UNIT.match(text, end) is not None


def names_version(text: str, start: int) -> bool:
    """Whether a word for a version stands directly before `start`."""
    return _stands_before(_VERSION, text, start)


LABEL_CHARS = 60
CARD_CHARS = 40

# A noun for a phone, a fax or a service that has the number of a phone.
_NOUNS = _TEXTS["nouns"]
# A verb for a call.
_CALLS = _TEXTS["calls"]
# Words that say less, so that they count near a number and are no labels.
_NEARBY = (
    r"numbers?|contact\p{L}{0,3}|kontakt\p{L}{0,4}|contatt[aoi]\p{L}{0,2}|contat[oe]\p{L}?|reach|text|message"
    r"|desk|office|answering|ext|extension|erreichbar|bereikbaar|raggiungibile|reachable"
)
_NUMBER = (
    r"numbers?|no|nos|nr|nbr|num|nummern?|numéros?|números?|numeri|numero|núm|numer|numeru|numerem|numery|n[°ºo]"
    r"|n\.º|#|id"
)
_KIND = _TEXTS["kind"]
_LINKS = _TEXTS["links"]
_PUNCTUATION = r"[\s.:=|()\[\]\"'„“”»«–—/>-]{1,8}+"

PHONE_CONTEXT = regex.compile(
    rf"(?<!\p{{L}})(?:{_NOUNS}|{_CALLS}|{_NEARBY})(?!\p{{L}})|(?<=\p{{Ll}})(?-i:Phone|Tel|Mobile|Fax)(?!\p{{Ll}})",
    regex.IGNORECASE,
)
_LABEL = regex.compile(
    rf"(?r)(?<!\p{{L}})(?:{_NOUNS}|{_CALLS})(?:[\s._(-]{{0,2}}(?:{_NUMBER}|{_KIND})(?!\p{{L}})){{0,2}}"
    rf"(?:{_PUNCTUATION}(?:{_LINKS}|{_NUMBER})(?!\p{{L}})){{0,4}}(?:{_PUNCTUATION})?\Z",
    regex.IGNORECASE,
)
_CARD = regex.compile(
    r"(?<!\p{L})(?:credit|debit|cards?|visa|mastercard|amex|american express|maestro|diners|jcb|cc|pan"
    r"|\p{L}{0,7}karten?|cartes?|tarjetas?|carta|kaart|cartão|cartões|kart[aęyą]|karcie)(?!\p{L})",
    regex.IGNORECASE,
)


def labels_phone(text: str, start: int) -> bool:
    """Whether a word for a phone or a call stands directly before `start`."""
    return _LABEL.search(text, max(0, start - LABEL_CHARS), start) is not None


def names_card(text: str, start: int, end: int) -> bool:
    """Whether a word for a payment card stands near `text[start:end]`."""
    return _CARD.search(text[max(0, start - CARD_CHARS) : start] + "\n" + text[end : end + CARD_CHARS]) is not None
