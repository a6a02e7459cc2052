"""Strings that look like a password or a key, and that everybody may read.

`public` looks at the string alone: the number of an advisory (`GHSA-7rjr-3q55-vv33`), the name of an algorithm or a
curve (`EC_secp384r1`), a public key in a form of SSH, X.509 or age, and the name of a pod of Kubernetes, whose parts
are of 27 characters that spell no word. `read_by_all` also looks at what is beside it:

* A block between `BEGIN PUBLIC KEY` or `BEGIN CERTIFICATE` and its end, and a value after `public key`, `clé publique`
  and so on, in eight languages.
* A value after a name such as `key_algorithm` or `token type`.
* A formula: numbers, one or two letters and operators, of which one stands between spaces (`E = mc^2`), unless a word
  for a password stands near it.
* Words with hyphens between (`eslint-plugin-react-hooks`), unless a word for a password stands near them. A password
  that consists of words is one because of such a word; nothing else tells it from the name of a package, a container
  or a class of a style sheet.

It decides what a tagger finds. Patterns find passwords by a word beside them, so that the last three do not concern
them.

Cost: constant for each string, which has a bounded length.
"""

import regex  # type: ignore[import-untyped]

from core.text.recogniser import BOUNDARY, REGEX_TIMEOUT_S, Span, texts_of

_TEXTS = texts_of(__name__)

BLOCK_CHARS = 10_000
NAME_CHARS = 80
TOKEN_CHARS = 200
WORD_BEFORE_CHARS = 100
WORD_AFTER_CHARS = 40
NUMBERS_SHARE = 0.25  # of the characters of an identifier of words
SPOKEN_SHARE = 0.6  # of its letters, in words of three letters or more with a vowel

_ADVISORY = regex.compile(_TEXTS["advisory"], regex.IGNORECASE)
_ALGORITHM_NAMES = "|".join(sorted(_TEXTS["algorithm_names"].split("|"), key=len, reverse=True))
_ALGORITHM = regex.compile(rf"(?>{_ALGORITHM_NAMES}|\d{{1,5}}|[-_./@+: ])++", regex.IGNORECASE)
_LONG_NAME = regex.compile(
    r"aes|rsa|sha|ecd|secp|sect|prime|brainpool|nistp|ed\d|curve|chacha|hmac|crypt|argon|pbkdf|[HREP]S(?:256|384|512)",
    regex.IGNORECASE,
)
_PUBLIC_FORM = regex.compile(_TEXTS["public_forms"])
_FORMULA = regex.compile(
    r"(?=.*\S[ ][=+*/<>≤≥·-][ ]\S)(?>(?!\p{L}{3})[\p{L}\d]{1,4}+(?![\p{L}\d])|[-+*/^=<>≤≥·().,² ])++"
)
_JOINT = r"[\"'\])]{0,3}(?:[ ]?(?:[:=]>?|->|→)|[ ](?:is|ist|lautet|est|es|è|é|to|jest))[\s\"'`>|]{0,6}"
_PUBLIC_NAME = regex.compile(
    rf"(?r)(?<!\p{{L}})(?:\p{{L}}{{1,20}}[ _.-])?(?:{_TEXTS['public_names']})"
    rf"(?:[ ](?!priv|secr|geheim|tajn)\p{{L}}{{1,15}}){{0,3}}{_JOINT}(?:ssh-\S{{2,12}}[ ]|0x)?\Z",
    regex.IGNORECASE,
)
_DESCRIBED = regex.compile(
    rf"(?r)(?<![\p{{L}}])(?:\w{{1,20}}[_.-])?(?:{_TEXTS['described']}){_JOINT}\Z", regex.IGNORECASE
)
_PASSWORD_WORD = regex.compile(
    rf"(?<![\p{{L}}])(?:{_TEXTS['password_words']})(?![\p{{L}}]|[-_.]\p{{L}})", regex.IGNORECASE
)
_BEFORE = regex.compile(r"(?r)[\w.+/@-]*\Z")
_AFTER = regex.compile(r"[\w.+/@-]*")
_WORD = r"(?:[a-z]+\d{0,3}|[A-Z][a-z]+|[A-Z]{1,6}|\d{1,4})"
_WORDS = regex.compile(rf"(?=[^-_]*[-_]){_WORD}(?:[-_./@]+{_WORD})+")
_VOWEL = regex.compile(r"[aeiouy]", regex.IGNORECASE)
_CONSONANTS = regex.compile(r"[b-df-hj-np-tv-xz]{6}", regex.IGNORECASE)
_LETTERS = regex.compile(r"[a-z]+|[A-Z][a-z]+|[A-Z]+")


def public(value: str) -> bool:
    """Whether `value` is the number of an advisory, the name of an algorithm, or a public key."""
    if _ADVISORY.fullmatch(value) or _PUBLIC_FORM.match(value):
        return True
    return len(value) <= TOKEN_CHARS and algorithm(value)


def algorithm(value: str) -> bool:
    """Whether `value` is made of the names of algorithms, curves and modes alone."""
    return _LONG_NAME.search(value) is not None and _ALGORITHM.fullmatch(value, timeout=REGEX_TIMEOUT_S) is not None


def read_by_all(text: str, start: int, end: int) -> bool:
    """Whether `text[start:end]`, which looks like a password or a key, is for everybody to read."""
    first, last = _token(text, start, end)
    token = text[first:last]
    if public(token) or public(text[start:end]) or _ADVISORY.search(token):
        return True
    if _in_public_block(text, start):
        return True
    if _FORMULA.fullmatch(text, start, end, timeout=REGEX_TIMEOUT_S) and not _near_password_word(text, start, start):
        return True
    before = text[max(0, first - NAME_CHARS) : first].rpartition(BOUNDARY)[2]
    if _PUBLIC_NAME.search(before) or _DESCRIBED.search(before):
        return True
    if text[end : end + 1] == "@":  # of a user and a password before a host
        return False
    return _joined_words(token) and not _near_password_word(text, first, last)


def _token(text: str, start: int, end: int) -> Span:
    """Return the whole run of characters that `text[start:end]` is a part of, without punctuation at its ends."""
    left = _BEFORE.search(text, max(0, start - TOKEN_CHARS), start).start()
    right = _AFTER.match(text, end, end + TOKEN_CHARS).end()
    token = text[left:right]
    return right - len(token.lstrip("./@+")), left + len(token.rstrip("./@+"))


def _in_public_block(text: str, start: int) -> bool:
    begin = text.rfind("-----BEGIN ", max(0, start - BLOCK_CHARS), start)
    if begin < 0 or text.find("-----END ", begin, start) >= 0:
        return False
    head = text[begin : begin + 60].partition("\n")[0]
    return "PRIVATE" not in head and ("PUBLIC KEY" in head or "CERTIFICATE" in head)


def _joined_words(token: str) -> bool:
    """Whether `token` is an identifier of words with hyphens or underscores between."""
    if _WORDS.fullmatch(token) is None:
        return False
    numbers = sum(map(str.isdecimal, token))
    if numbers and (not token.islower() or numbers > NUMBERS_SHARE * len(token)):
        return False
    words = _LETTERS.findall(token)
    spoken = sum(len(word) for word in words if len(word) > 2 and _VOWEL.search(word))
    return spoken >= SPOKEN_SHARE * sum(map(len, words)) and not _CONSONANTS.search(token)


def _near_password_word(text: str, start: int, end: int) -> bool:
    before = text[max(0, start - WORD_BEFORE_CHARS) : start].rpartition(BOUNDARY)[2]
    after = text[end : end + WORD_AFTER_CHARS].partition(BOUNDARY)[0]
    return _PASSWORD_WORD.search(f"{before}\n{after}", timeout=REGEX_TIMEOUT_S) is not None
