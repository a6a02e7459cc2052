"""SECRET: keys, tokens, private keys, credentials in web addresses and connection strings, backup codes and phrases.

Three kinds of evidence: a published format (`core.text.recognisers.secret_formats`), a structure (the block of a
private key, the credentials of a URL, an HTTP header), and a name such as `api_key` before a value that looks random. A
random string without such evidence is not a secret: commits, checksums and identifiers look the same. A hit covers the
value, and not its name. In a URL it covers the user and the password, and not the host.

Two secrets are lists. Backup codes are two codes or more after a word for them. A recovery phrase is exactly 12, 15,
18, 21 or 24 small words after a word for it, in one of eight languages, with or without their numbers. A sentence is
none: it holds words such as `the` that no word list of recovery phrases holds, or words of fewer than three letters.

Cost: linear in the text. Each label of a list is followed over at most `LIST_CHARS` characters.
"""

import base64
import binascii
from collections.abc import Iterator
from functools import cache

import regex  # type: ignore[import-untyped]

from core.text.labelled import phrases
from core.text.recogniser import REGEX_TIMEOUT_S, Hit, Recogniser, around, lower, matches, matches_in, merged
from core.text.recognisers.credentials import written_secrets
from core.text.recognisers.secret_formats import Format, formats
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
    r"|mnemonic|seed|(?:seed|wiederherstellungs|mnemonik|sicherungs)[ -]?(?:phrase|wörter|satz)"
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

_STRUCTURES = (
    # user and password in a URL or a connection string
    regex.compile(
        r"(?<![a-zA-Z0-9])[a-zA-Z][a-zA-Z0-9+.-]{1,30}://"
        r"(?P<secret>[^\s/@:\"'<>\[\]{}|`]{0,200}:(?P<password>[^\s/@\"'<>`]{1,200}))@[\w\[]"
    ),
    # a password that holds `/` or `@`, which should have been escaped
    regex.compile(
        r"(?<![a-zA-Z0-9])[a-zA-Z][a-zA-Z0-9+.-]{1,30}://"
        r"(?P<secret>[\w.+-]{1,100}:(?P<password>[^\s:\"'<>`,]{1,120}))@[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}(?::\d|/)"
    ),
    # a token alone before the host
    regex.compile(r"(?<![a-zA-Z0-9])https?://(?P<secret>(?P<password>[\w.~-]{16,300}))(?::x-oauth-basic)?@[\w]"),
    regex.compile(
        r"\b(?i:authorization|auth)[\"']?\s{0,3}[:=,]\s{0,3}[\"']?"
        r"(?i:bearer|token|basic|apikey|api-key|digest|negotiate|key|splunk|sso-key|bot)[ =:]\s{0,3}"
        r"(?P<secret>(?P<password>[\w.~+/=:|-]{6,4000}))"
    ),
    regex.compile(r"(?<!\w)(?:[Bb]earer|BEARER)[ ]{1,2}[\"'`]?(?P<secret>(?P<random>[\w.~+/-]{16,4000}=*))"),
    regex.compile(r"(?<!\w)Basic[ ]{1,2}(?P<secret>(?P<basic>[A-Za-z0-9+/]{8,400}={0,2}))"),
    # command line: curl -u user:password, --user user:password
    regex.compile(
        r"(?<!\S)(?:-u|--user|--proxy-user|-U|--auth|-a|--creds)[ =]{1,2}[\"']?"
        r"(?P<secret>[\w.@+%-]{1,80}:(?P<password>[^\s\"']{3,200}))"
    ),
    # cookies of sessions
    regex.compile(
        r"(?i:(?:sess(?:ion)?(?:[_-]?id)?|sid|csrf(?:[_-]?token)?|xsrf-token|remember_me|auth\w{0,12}|jwt))="
        r"(?P<secret>(?P<random>[\w.~+/%=-]{12,2000}))"
    ),
    # the signature or key in the query of a web address
    regex.compile(
        r"[?&;](?i:[\w.-]{0,24}(?:key|token|sig|signature|secret|password|passwd|pwd|auth|credential|code|sid))="
        r"(?P<secret>(?P<random>[\w.~+/%-]{12,2000}=*))"
    ),
)
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


@cache
def _formats() -> tuple[Format, ...]:
    return formats()


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


_NAMES = (
    r"(?:api|app|application|access|auth|authentication|secret|private|client|consumer|account|storage|service|signing"
    r"|sign|encryption|encrypt|decryption|master|shared|session|license|licence|subscription|deploy|ssh|hmac"
    r"|aes|cipher"
    r"|integration|write|read|admin|webhook|root|host|function|primary|secondary|publishable|server|project|bot|ingest"
    r"|functions|provider|oauth|jwt|cookie|crypto|gpg|pgp|activation|product|developer|merchant|partner|user|sas"
    r"|instrumentation|rest|push|fcm|map|maps|site|recovery|backup|pre-?shared"
    r"|unseal)[_. -]?key(?:(?<=unseal[_. -]key)[ _]\d{1,2})?"
    r"|(?:api|client|consumer|app|shared|webhook|signing|jwt|session|cookie|oauth|bot|hmac|totp|mfa|otp)[_ -]?secret"
    r"|secret(?:[_. -]?(?:access[_-]?key|key|token|value|id|base|hash))?"
    r"|(?:api|access|auth|refresh|id|bearer|bot|session|csrf|deploy|personal[_ -]access|security|push|device|sas|pat"
    r"|runner|registration|oauth|app|user|service|verification|reset|invite|id|sso)?[_. -]?token"
    r"|apikey|authkey|secretkey|accesskey|webhook(?:[_ -]?url)?|credentials?|bearer|sas|hmac|salt|pepper"
    r"|connection[_ -]?string|encryption[_ -]?password"
    # German, French, Spanish, Italian, Dutch, Portuguese, Polish
    r"|(?:api|zugriffs|zugangs|geheim|sicherheits|lizenz|geheimer|privater)[- ]?(?:schlüssel|token)|zugangstoken"
    r"|cl[ée] (?:d['’ ]?)?(?:api|acc[èe]s|secr[èe]te|priv[ée]e)|jeton(?: d['’](?:acc[èe]s|api|authentification))?"
    r"|clave (?:de )?(?:la )?(?:api|acceso|secreta|privada)|clave api"
    r"|chiave (?:di )?(?:api|accesso|segreta|privata)"
    r"|(?:api|toegangs|geheime|privé|licentie)[- ]?sleutel|toegangstoken"
    r"|chave (?:de |da )?(?:api|acesso|secreta|privada)"
    r"|klucz(?:em|a)? (?:do )?(?:api|dostępu|tajny|prywatny|licencyjny)|token(?:u|em)?"
)
_KEY = Name(
    regex.compile(rf"(?:(?<![a-z])|(?<=(?-i:[a-z]))(?=(?-i:[A-Z])))(?:{_NAMES})", regex.IGNORECASE),
    phrases(
        "key|secret|token|credential|bearer|webhook|hmac|salt|pepper|sas|connection|encryption|schlüssel|"
        "sleutel|jeton|clé|cle|clave|chiave|chave|klucz"
    ),
)
_NO_SECRET = regex.compile(
    r"(?:type|name|url|uri|endpoint|file|filename|path|hash|sha\d*|fingerprint|digest|len|length|size|count|version"
    r"|expir\w*|ttl|lifetime|algorithm|alg|format|prefix|suffix|class|index|position|ids|public|issuer|scope|dir|regex"
    r"|pattern|field|header|param|column|label|description|hint|help|text|title|method|provider|status|state|limit"
    r"|usage|date|at)\d*$",
    regex.IGNORECASE,
)
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
    if placeholder(value) or not random_looking(value):
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
