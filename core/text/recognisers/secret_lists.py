"""Secrets that are written as lists: backup codes of an account, and the recovery phrase of a wallet.

Backup codes are two codes or more after a word for them. A recovery phrase is exactly 12, 15, 18, 21 or 24 small words
after a word for it, in one of eight languages, with or without their numbers. A sentence is none: it holds words such
as `the` that no word list of recovery phrases holds, or words of fewer than three letters.

Cost: linear in the text. Each label is followed over at most `LIST_CHARS` characters.
"""

from __future__ import annotations

from collections.abc import Iterator

import regex  # type: ignore[import-untyped]

from core.text.labelled import phrases
from core.text.recogniser import REGEX_TIMEOUT_S, Hit
from core.text.recognisers.regions import around, lower, matches_in

SCORE = 0.85
LIST_CHARS = 600
LABEL_CHARS = 60
CODES_MIN = 2
CODES_MAX = 40
PHRASE_WORDS = (24, 21, 18, 15, 12)
DISTINCT_SHARE = 0.75  # of the words of a phrase, which are drawn at random

_OF = r"(?:[ ](?:for|of|to|für|zu[mr]?|de|del|du|pour|para|di|per|voor|van|do|da|dla)[ ][\p{L}\d ._-]{1,30}?)?"
_BEFORE_LIST = (
    rf"{_OF}[\"'`*_\])]{{0,3}}(?:(?:,[ ]|[ ]\()[^\n:.]{{1,40}}(?=:)|)(?:[ ]?[:=]"
    r"|[ ](?:are|is|sind|lauten|lautet|ist|sont|est|son|es|sono|è|zijn|são|é|to))[\s\"'`*\[]{1,6}"
)
_CODES = regex.compile(
    r"(?<!\p{L})(?:(?:backup|back-up|recovery|scratch|rescue|emergency|one-time|2fa|mfa)[ _-]?(?:login[ ])?codes"
    r"|(?:backup|wiederherstellungs|ersatz|notfall|sicherungs)[ -]?codes"
    r"|codes[ ]de[ ](?:secours|récupération|sauvegarde)"
    r"|códigos[ ]de[ ](?:respaldo|recuperación|recuperação|reserva|emergencia|emergência|backup|seguridad)"
    r"|codici[ ]di[ ](?:backup|recupero|riserva|emergenza)"
    r"|(?:herstel|back-?up|nood)[ -]?codes|kody[ ](?:zapasowe|odzyskiwania|awaryjne|jednorazowe))" + _BEFORE_LIST,
    regex.IGNORECASE,
)
_CODE_WORDS = ("code", "código", "codici", "kody")
_ITEM = regex.compile(
    r"(?:\d{1,2}[.)][ ]|[-*•][ ])?(?P<code>[A-Za-z0-9]{4,12}(?:[ -]?\d{4}|-[A-Za-z0-9]{3,12}){0,3})(?![\w-])"
)
_GAP = regex.compile(r"[\s,;|/\"'`]{1,12}(?:(?:and|und|et|y|e|en|i)[ ])?")

_PHRASE = regex.compile(
    r"(?<!\p{L})(?:(?:seed|recovery|mnemonic|backup|wallet|secret)[ _-]?(?:recovery[ ])?(?:phrase|words|seed|mnemonic)"
    r"|mnemonic|seed"
    r"|(?:seed|wiederherstellungs|mnemonik|sicherungs)[ -]?(?:phrase|wörter|satz)"
    r"|(?:phrase|mots)[ ](?:de[ ](?:récupération|secours|départ|passe)|secrète|secrets|mnémonique|seed)"
    r"|(?:frase|palabras|palavras|parole)[ -](?:(?:de|di)[ ](?:recuperación|recuperação|recupero|respaldo)|semilla"
    r"|semente|seme|secreta|segreta|mnemónica|mnemônica|mnemonica|seed)"
    r"|(?:herstel|seed|geheime)[ -]?(?:zin|woorden|frase)"
    r"|(?:fraz[aęy]|sł[oó]w[ay]?)[ ](?:odzyskiwania|seed|zapasow[ae]|mnemoniczn[ae]))" + _BEFORE_LIST,
    regex.IGNORECASE,
)
_PHRASE_WORDS = phrases(
    "seed|phrase|mnemonic|words|wörter|satz|mots|frase|palabras|palavras|parole|zin|woorden|fraz|słow|słów"
)
_WORD = regex.compile(r"(?:\d{1,2}[.):]?[ ])?(?P<word>\p{Ll}{3,10})(?![\w'’-])")
_WORD_GAP = regex.compile(r"(?:[ ]{1,3}|[ ]?,[ ]?|[ ]?\n[ ]?|[ ]-[ ])")
_SENTENCE_WORDS = (
    "the and for are not your our has was und der die das den dem ein eine ist nicht les des une est pas que pour los"
    " las una por con para che non per sono het een dat niet van voor são não como uma nie jest się oraz"
)
_SENTENCE = frozenset(_SENTENCE_WORDS.split())


def secret_lists(text: str) -> Iterator[Hit]:
    low = lower(text)
    for match in matches_in(_CODES, text, around(low, _CODE_WORDS, before=LABEL_CHARS, after=LABEL_CHARS)):
        yield from _codes_after(text, match.end())
    for match in matches_in(_PHRASE, text, around(low, _PHRASE_WORDS, before=LABEL_CHARS, after=LABEL_CHARS)):
        yield from _phrase_after(text, match.end())


def _codes_after(text: str, start: int) -> Iterator[Hit]:
    spans: list[tuple[int, int]] = []
    at, limit = start, start + LIST_CHARS
    while len(spans) < CODES_MAX and (item := _ITEM.match(text, at, limit, timeout=REGEX_TIMEOUT_S)):
        code = item.group("code")
        as_long = bool(spans) and len(code) == spans[0][1] - spans[0][0]
        if not any(map(str.isdecimal, code)) and not (as_long and not code.isalpha()):
            break
        spans.append(item.span("code"))
        gap = _GAP.match(text, item.end())
        if gap is None:
            break
        at = gap.end()
    if len(spans) >= CODES_MIN:
        yield from (Hit(*span, SCORE) for span in spans)


def _phrase_after(text: str, start: int) -> Iterator[Hit]:
    words: list[tuple[int, int]] = []
    at = start
    while len(words) <= max(PHRASE_WORDS) and (found := _WORD.match(text, at, timeout=REGEX_TIMEOUT_S)):
        words.append(found.span("word"))
        gap = _WORD_GAP.match(text, found.end())
        if gap is None:
            break
        at = gap.end()
    held = {text[slice(*word)] for word in words}
    if len(words) in PHRASE_WORDS and len(held) >= DISTINCT_SHARE * len(words) and held.isdisjoint(_SENTENCE):
        yield Hit(words[0][0], words[-1][1], SCORE)
