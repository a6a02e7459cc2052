"""Whether a string looks like a secret value, a placeholder, or an identifier of source code.

All tests depend on the string alone and take time linear in its length.
"""

from __future__ import annotations

import regex  # type: ignore[import-untyped]

RANDOM_CHARS_MIN = 8
RANDOM_DISTINCT_MIN = 5
RUN_CHARS = 2.5  # mean length of a run of letters of one case or of digits: 1.3 to 2 in base64, 4 and more in words
RUN_CHARS_MAX = 7.0  # a string of capitals and digits may reach this
NUMBERS_MIN = 3  # a name of words holds one or two numbers
WORD_CHARS_MIN = 4
WORDS_SHARE = 0.6
LETTERS_MIN = 16  # a random string without a digit is rarely shorter than a key

_PLACEHOLDER = regex.compile(
    r"""
    ^(?:
      <.*>?|\[.*\]|\{.*\}?|\(.*\)|%\w+%|%[({].*|\$\w+|\$[{(].*   # <token>, [token], {token}, %TOKEN%, $TOKEN, ${TOKEN}
      | .?(.)\1{3,}.?$                      # xxxx, ****, ----
      | (?:my|your|our|the|some|any|a|an|new|old|dein|ihr|votre|mon|tu|su|il|uw|jouw|seu|sua)
        (?:[-_ .]|(?<=my|your))(?:own[-_ ]?)?(?:[a-z]{1,12}[-_ ]){0,3}
        (?:secret|token|key|api|pass(?:word)?|pwd|credentials?|code|value|user|login|account|name|clave|schl\w+)[a-z_
        -]*\d?
      | (?:example|sample|dummy|fake|foo|bar|foobar|placeholder|replace|insert|enter|change|fill|todo|fixme|tbd)\b.*
      | (?:change|replace|insert|put|add|enter|fill)[-_ ]?(?:me|this|it|with|in|your)\D*
      | (?:redacted|masked|hidden|filtered|removed|censored|encrypted|secret|token|key|api[-_ ]?key|pass(?:word|wd)?|pwd
        |user(?:name)?|login|credentials?|value|string|str|bytes|int|integer|number|float|bool(?:ean)?|object|text|any
        |none|null|nil|nan|undefined|unset|empty|void|true|false|yes|no|on|off|default|optional|required|test|testing
        |unknown|n/?a|self|this|env|auto|basic|bearer|digest|oauth2?|public|private|invalid|missing|disabled|enabled)
    )$
    | (?:xxxx|\*\*\*|\.\.\.|…|____|placeholder|redacted|your[-_]|change[-_]?me(?![-_!@#.]?\d)|\$\{|\{\{|%\(|<[a-z])
    """,
    regex.VERBOSE | regex.IGNORECASE,
)
_RUN = regex.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_LETTERS = regex.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_VOWEL = regex.compile(r"[aeiouyAEIOUY]")
_CONSONANTS = regex.compile(r"[b-df-hj-np-tv-xzB-DF-HJ-NP-TV-XZ]{4}")
_CASE_RUN = regex.compile(r"[a-z]+|[A-Z]+")
_DIGITS = regex.compile(r"\d+")
_SEPARATORS = regex.compile(r"[-_.:/$ ]")
_SYMBOL_IN_CODE = regex.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|->|::|\?\.)[A-Za-z_$][\w$]*)+|[\w$.]+[(\[].*")
_DATE_OR_NUMBER = regex.compile(r"[\d.,:/ T_+-]+Z?")
_PRODUCT = regex.compile(r"[A-Za-z]{2,20}/v?\d{1,4}(?:\.\d{1,6}){0,3}")  # `HTTP/1.1`
TOKEN_PART_CHARS = 20
_UUID = regex.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def placeholder(value: str) -> bool:
    """Whether `value` stands for a secret that the author left out: `<your-key>`, `xxxx`, `${TOKEN}`, `None`."""
    return _PLACEHOLDER.search(value) is not None


def reference(value: str) -> bool:
    """Whether `value` is an expression of source code, such as `settings.token` or `os.environ["KEY"]`."""
    return _SYMBOL_IN_CODE.fullmatch(value) is not None


def dotted_token(value: str) -> bool:
    """Whether `value` is a token of parts with dots between them, one of which is too long and random for a name."""
    part = max(value.split("."), key=len)
    numbers = len(_DIGITS.findall(part))
    return len(part) >= TOKEN_PART_CHARS and numbers >= NUMBERS_MIN and part.isascii() and "(" not in value


def _wordy(value: str) -> bool:
    """Whether most letters of `value` lie in runs that could be words: at least four letters with vowels between."""
    runs = [run for run in _LETTERS.findall(value) if len(run) >= WORD_CHARS_MIN]
    words = sum(len(run) for run in runs if _VOWEL.search(run) and not _CONSONANTS.search(run))
    return words >= WORDS_SHARE * sum(map(str.isalpha, value))


def made_of_words(value: str) -> bool:
    """Whether the longest part of `value` between separators is made of words, such as `circle` in `sk-circle-2`."""
    longest = max(_SEPARATORS.split(value), key=len)
    return not any(map(str.isdecimal, longest)) and _wordy(longest)


_SENTENCE_PART = regex.compile(
    r"[a-z]{1,20}(?:-[a-z]{1,20})*?-(?:of|the|to|and|in|on"
    r"|up)-[a-z]{1,20}(?:-[a-z]{1,20})*"
)


def random_looking(value: str) -> bool:
    """Whether `value` looks drawn at random rather than made of words, a number, or a date."""
    if len(value) < RANDOM_CHARS_MIN or len(set(value)) < RANDOM_DISTINCT_MIN:
        return False
    if _UUID.fullmatch(value):
        return True
    if _SENTENCE_PART.fullmatch(value):
        return False
    if _DATE_OR_NUMBER.fullmatch(value) or _PRODUCT.fullmatch(value) or not any(map(str.isalpha, value)):
        return False
    digits = len(_DIGITS.findall(value))
    if digits == 0:
        mixed = not value.isupper() and not value.islower()
        runs = (_CASE_RUN if mixed else _LETTERS).findall(value)
        longest = RUN_CHARS * (1 if mixed else LETTERS_MIN)
        return len(value) >= LETTERS_MIN and len(value) <= longest * len(runs) and not _wordy(value)
    if digits >= NUMBERS_MIN and len(value) >= LETTERS_MIN and not _SEPARATORS.search(value):
        return True
    runs = _RUN.findall(value)
    length = sum(map(len, runs))
    return length <= RUN_CHARS * len(runs) or (length <= RUN_CHARS_MAX * len(runs) and not _wordy(value))
