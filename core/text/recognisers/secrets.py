"""SECRET: keys, tokens, private keys, credentials in web addresses and connection strings, backup codes and phrases.

Three kinds of evidence: a published format (secrets.toml), a structure (the block of a private key, the credentials of
a URL, an HTTP header), and a name such as `api_key` before a value that looks random. A random string without such
evidence is not a secret: commits, checksums and identifiers look the same. A hit covers the value, and not its name. In
a URL it covers the user and the password, and not the host.

Two secrets are lists. Backup codes are two codes or more after a word for them. A recovery phrase is exactly 12, 15,
18, 21 or 24 small words after a word for it, in one of eight languages, with or without their numbers. A sentence is
none: it holds words such as `the` that no word list of recovery phrases holds, or words of fewer than three letters.

From detect-secrets come compiled patterns alone (its `denylist`). Its scans of files, its processes and its requests to
the services that issued a key are not used. Its pattern of web tokens is quadratic in a long word, its pattern of npm
tokens in a long line, and its keyword rules depend on the type of a file, so that this project has its own. A pattern
is tried only on a text that contains one of its literals, which makes a row cheap. Each pattern takes time linear in
the text: it has bounded repeats, or possessive ones that begin at the start of a word.

Cost: linear in the text. Each label of a list is followed over at most `LIST_CHARS` characters.
"""

import base64
import binascii
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import NamedTuple

import regex  # type: ignore[import-untyped]

from core.text.labelled import phrases
from core.text.recogniser import REGEX_TIMEOUT_S, Hit, Recogniser, around, lower, matches, matches_in, merged, texts_of
from core.text.recognisers.credentials import written_secrets
from core.text.recognisers.public_values import public
from core.text.recognisers.secret_values import (
    Name,
    NamedValue,
    dotted_token,
    made_of_words,
    named_values,
    placeholder,
    random_looking,
    reference,
)

_TEXTS = texts_of(__name__)

SCORE = 0.85
LIST_CHARS = 600
LABEL_CHARS = 60
CODES_MIN = 2
CODES_MAX = 40
PHRASE_WORDS = (24, 21, 18, 15, 12)
DISTINCT_SHARE = 0.75  # of the words of a phrase, which are drawn at random

_CODES = regex.compile(_TEXTS["codes"], regex.IGNORECASE)
_CODE_WORDS = ("code", "código", "codici", "kody")
_ITEM = regex.compile(
    r"(?:\d{1,2}[.)][ ]|[-*•][ ])?(?P<code>[A-Za-z0-9]{4,12}(?:[ -]?\d{4}|-[A-Za-z0-9]{3,12}){0,3})(?![\w-])"
)
_GAP = regex.compile(r"[\s,;|/\"'`]{1,12}(?:(?:and|und|et|y|e|en|i)[ ])?")

_PHRASE = regex.compile(_TEXTS["phrase"], regex.IGNORECASE)
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


FORMAT_SCORE = 0.95
STRUCTURE_SCORE = 0.9
NAMED_SCORE = 0.7
GROUP_CHARS_MIN = 16  # a shorter group of a format is a prefix, and not the secret
PASSWORD_SCORE = 0.6  # below that of PASSWORD, whose type a password has if both are requested

# ---------------------------------------------------------------- private keys

_LINES = r"(?:(?:\s|\\[nr]|[\"'+,>|\\])*[A-Za-z0-9+/=]{16,100}(?![^\s\\\"'<,+-]))*"
_BEGIN = regex.compile(r"-{4,5} ?BEGIN (?:[A-Z0-9]{1,12} ){0,4}?(?:PRIVATE KEY(?: BLOCK)?|PRIVATE KEY-?) ?-{4,5}")
_BODY = regex.compile(_LINES)
_END = regex.compile(r"-{4,5} ?END (?:[A-Z0-9]{1,12} ){0,4}?PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_PUTTY = regex.compile(r"Private-Lines: \d{1,4}\s" + _LINES)
_KEY_LINE = regex.compile(r"[A-Za-z0-9+/=]{1,100}")


def _private_keys(text: str) -> Iterator[Hit]:
    """Yield whole blocks, and the parts of a block whose begin or end is in another window of a long text."""
    if "PRIVATE KEY" in text:
        ends = [match.span() for match in matches(_END, text)]
        begins = [match.span() for match in matches(_BEGIN, text)]
        number, done = 0, 0
        for index, (start, after) in enumerate(begins):
            limit = begins[index + 1][0] if index + 1 < len(begins) else len(text)
            while number < len(ends) and ends[number][1] <= after:
                number += 1
            if number < len(ends) and ends[number][0] < limit:
                done = ends[number][1]
            else:
                body = _BODY.match(text, after)
                done = body.end() if body else after
            yield Hit(start, done, STRUCTURE_SCORE)
        if ends and (not begins or ends[0][0] < begins[0][0]):
            yield Hit(_first_key_line(text, ends[0][0]), ends[0][1], STRUCTURE_SCORE)
    if "Private-Lines:" in text:
        for match in matches(_PUTTY, text):
            yield Hit(match.start(), match.end(), STRUCTURE_SCORE)


def _first_key_line(text: str, end: int) -> int:
    """Return where the lines of base64 before `end` begin."""
    start = end
    while start > 0:
        line = text.rfind("\n", 0, start - 1) + 1
        if not _KEY_LINE.fullmatch(text[line:start].strip()):
            break
        start = line
    return start


# ---------------------------------------------------------------- structures

_STRUCTURES = tuple(map(regex.compile, _TEXTS["structures"]))
_CREDENTIALS_NEEDED = regex.compile(
    r"://|auth|bearer|basic|sess|sid|csrf|xsrf|jwt|remember|[?&]|(?<!\S)-[uUa]|--user|--proxy"
    r"|--creds",
    regex.IGNORECASE,
)


def _structures(text: str) -> Iterator[Hit]:
    if _CREDENTIALS_NEEDED.search(text) is None:
        return
    for pattern in _STRUCTURES:
        for match in matches(pattern, text):
            groups = match.groupdict()
            if value := groups.get("password"):
                valid = not placeholder(value) and not reference(value)
            elif value := groups.get("random"):
                valid = random_looking(value) and not placeholder(value)
            else:
                value = groups["basic"]
                valid = _basic(value)
            if valid:
                start, end = match.span("secret")
                yield Hit(start, end, STRUCTURE_SCORE)


def _basic(value: str) -> bool:
    """Whether `value` is base64 of `user:password`."""
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return b":" in decoded and decoded.isascii()


# ---------------------------------------------------------------- formats and names


class _Format(NamedTuple):
    """`literals`: in lower case; the pattern is tried on a text that contains one. A group, if the pattern has one,
    covers the secret."""

    literals: tuple[str, ...]
    pattern: regex.Pattern[str]


@cache
def _formats() -> tuple[_Format, ...]:
    def format_of(literals: str, pattern: str, flags: int = 0) -> _Format:
        return _Format(tuple(literals.split("|")), regex.compile(rf"(?<![A-Za-z0-9_])(?:{pattern})", flags))

    rows = [format_of(literals, pattern) for literals, pattern in _TEXTS["formats"]]
    for module, name, literals in _TEXTS["detect_secrets"]:
        for source in getattr(import_module(f"detect_secrets.plugins.{module}"), name).denylist:
            rows.append(format_of(literals, source.pattern, source.flags & ~regex.UNICODE))
    return tuple(rows)


# every format holds a run of this many characters without a space; in ordinary text such runs are rare
_LONG_RUN = regex.compile(r"[^\s\"'`<>(){}\[\],;|]{16,}+")
_MORE_THAN_LETTERS = regex.compile(r"\d|[A-Za-z]{16}")
LABEL_CHARS_MAX = 60


def _by_format(text: str) -> Iterator[Hit]:
    low = lower(text)
    for part in merged(
        (max(0, start - LABEL_CHARS_MAX), end + 2)
        for start, end in (run.span() for run in matches(_LONG_RUN, text))
        if _MORE_THAN_LETTERS.search(text, start, end)
    ):
        held = low[slice(*part)]
        for literals, pattern in _formats():
            if any(literal in held for literal in literals):
                for match in matches_in(pattern, text, [part]):
                    yield from _of_format(match)


def _of_format(match: regex.Match[str]) -> Iterator[Hit]:
    groups = [number for number in range(1, match.re.groups + 1) if match.group(number)]
    last = groups[-1] if groups else 0
    if len(match.group(last)) < GROUP_CHARS_MIN:
        last = 0
    value = match.group(last)
    if (value.isupper() or not made_of_words(value)) and not placeholder(value):
        start, end = match.span(last)
        yield Hit(start, end, FORMAT_SCORE)


_NAMES = _TEXTS["names"]
_KEY = Name(
    regex.compile(rf"(?:(?<![a-z])|(?<=(?-i:[a-z]))(?=(?-i:[A-Z])))(?:{_NAMES})", regex.IGNORECASE),
    phrases(
        "key|secret|token|credential|bearer|webhook|hmac|salt|pepper|sas|connection|encryption|schlüssel|"
        "sleutel|jeton|clé|cle|clave|chiave|chave|klucz"
    ),
)
_NO_SECRET = regex.compile(_TEXTS["no_secret"], regex.IGNORECASE)
_PREFIX = regex.compile(r"(?:base64|base32|hex|plain|raw):|django-insecure-")
_PASSWORD_KEY = Name(
    regex.compile(r"(?<![a-z])(?:pass(?:word|wd|phrase)|pwd)", regex.IGNORECASE), ("passw", "passphrase", "pwd")
)


# any other key, whose value must be longer; the excluded ones name an entry of a store
_OTHER_KEY = Name(
    regex.compile(
        r"(?<=[a-z0-9])(?<!(?i:cache|sort|partition|foreign|public|object|idempotency|query|file|map|index"
        r"|hash|lookup|item|row|group|primary|etag|dedup|image|host|s3|commit|build))(?:Key|_key|_KEY)(?![A-Za-z])"
    ),
    ("key",),
)
OTHER_KEY_CHARS_MIN = 24


def _named(text: str) -> Iterator[Hit]:
    for found in named_values(text, _OTHER_KEY):
        if len(found.value) >= OTHER_KEY_CHARS_MIN and found.joint == "operator" and _is_secret(found):
            yield Hit(found.start, found.end, NAMED_SCORE)
    for found in named_values(text, _KEY):
        if not _NO_SECRET.search(found.suffix) and _is_secret(found):
            yield Hit(_after_prefix(text, found), found.end, NAMED_SCORE)
    for found in named_values(text, _PASSWORD_KEY):
        if not _NO_SECRET.search(found.suffix) and _is_secret(found):
            yield Hit(found.start, found.end, PASSWORD_SCORE)


def _is_secret(found: NamedValue) -> bool:
    value = found.value
    if placeholder(value) or not random_looking(value) or public(value):
        return False
    return "://" not in value and (found.quoted or dotted_token(value) or not reference(value))


def _after_prefix(text: str, found: NamedValue) -> int:
    """Return where the random part of a value starts, after a prefix that says how it is written."""
    prefix = _PREFIX.match(text, found.start, found.end)
    return prefix.end() if prefix else found.start


def _secrets(text: str) -> Iterator[Hit]:
    yield from _private_keys(text)
    yield from _structures(text)
    yield from _by_format(text)
    yield from _named(text)
    low = lower(text)
    yield from written_secrets(text, low)
    yield from secret_lists(text)


def recognisers() -> tuple[Recogniser, ...]:
    return (Recogniser("SECRET", _secrets),)
