"""What follows a name, and whether it looks like a secret value, a placeholder, source code, or the name of an account.

The tests of a value depend on the string alone and take time linear in its length. Names of accounts that many systems
share, such as `root` or `admin`, identify nobody.

`named_values` finds what follows a name: `api_key = "..."`, `"token": "..."`, `--password ...`, `the password is ...`.
A name is found by the caller's pattern. What may stand between it and its value is the same for every name: an end of
the name (`API_KEY_2`), quotes and brackets, a type, an assignment, a colon, a word such as `is`, a tag's end.
"""

from collections.abc import Iterator
from typing import NamedTuple

import regex  # type: ignore[import-untyped]

from core.text.recogniser import REGEX_TIMEOUT_S, around, lower, matches_in, texts_of

_TEXTS = texts_of(__name__)

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


CHARS_MIN = 3
_SHARED_WORDS = _TEXTS["shared_words"]
_SHARED = frozenset(_SHARED_WORDS.split())


def identifies(value: str) -> bool:
    """Whether `value` may be the name of an account that is not shared."""
    name = value.casefold().strip(".-_")
    return (
        len(value) >= CHARS_MIN
        and name not in _SHARED
        and any(map(str.isalpha, value))
        and not placeholder(value)
        and not reference(value.replace("\\", ""))
        and not dotted_code(value)
    )


def dotted_code(value: str) -> bool:
    """Whether `value` is an attribute of an object in source code."""
    return value.startswith(("self.", "this.", "request.", "settings.", "config.", "args.", "os.", "user."))


def login(value: str) -> bool:
    """As `identifies`, and dots may separate the parts of the name."""
    dotted = "." in value and not dotted_code(value)
    return identifies(value.replace(".", "") if dotted else value) and " " not in value and "/" not in value


NAME_CHARS_MAX = 50
LONG_CHARS = 300

_SUFFIX = regex.compile(r"(?:[A-Z0-9_-][A-Za-z0-9_-]{0,30}+)?")
CHANGED = _TEXTS["changed"]
IS = _TEXTS["is"]
# functions that turn the text of a key into bytes
DECODERS = r"from_?hex|unhex(?:lify)?|(?:base?64_?)?decode(?:_?string|_?bytes)?|\.from|atob|a2b_(?:hex|base64)"
DECODERS += r"|md5|sha(?:1|2|224|256|384|512)|(?:old_)?password|encrypt|crypt|hash_?pw|(?:make|hash)_?password"
DECODERS += r"|password_hash"
_BETWEEN = regex.compile(
    rf"""
    (?:
        [\"'`\])*_]{{0,3}}                                             # end of the name
        (?:\s{{0,2}}:\s{{0,2}}[&*]?[A-Za-z_][\w.\[\]|, ]{{0,30}}?(?=\s{{0,3}}=[ ]{{0,2}}[^\s=]))?   # a type
        (?P<operator>\s{{0,20}}(?::=|=>|->|→|===?|!=|<=|\|\|=|&&=|\?\?=|\?=|=|:|：)\s{{0,8}}(?:[>|][-+]?\s{{1,12}})?
          (?:(?:(?:[A-Za-z_][\w.:]{{0,30}}?)?(?i:{DECODERS})|\[\]byte)\(\s{{0,8}}(?=[rb]?[\"'`]))?)
      | \\?[\"'`]\s{{0,3}}[,)]\s{{0,8}}(?:value[ ]?=[ ]?)?(?=[\"'`])      # header("X-Api-Key", "value")
      | [\"'](?:[ ]type=[\"']\w{{1,10}}[\"'])?[ ]{{1,3}}(?:value|content|default)[ ]?=[ ]?(?=[\"'])
      | [\"']\s{{0,2}}\{{\s{{0,12}}(?:(?:type|description|sensitive|nullable)[ ]{{0,12}}=[^\n]{{1,100}}
          \n\s{{0,12}}){{0,3}}(?:default|value)\s{{0,4}}=\s{{0,4}}(?=[\"'])
      | (?P<tag>[ ]{{0,2}}>)
      | (?P<cell>\*{{0,2}}[ ]{{0,20}}\|[ ]{{0,20}}|\t)
      | (?P<word>(?:[ ]\([^()\n]{{1,40}}\))?(?:[ ][\p{{L}}'’/][\p{{L}}\p{{M}}\d'’./_-]{{0,24}}){{0,7}}?
          (?:(?:[ ](?:{CHANGED}|{IS})|['’]s)[:]?[ ]{{1,2}}|[ ]{{0,2}}[:=][ ]{{0,3}}))
      | (?P<gap>[ ]{{1,3}})
    )
    (?:(?:[rbfRBFN@]{{1,2}}(?=[\"'])|\\?(?=[\"'])))?
    """,
    regex.VERBOSE,
)
_QUOTED = regex.compile(
    r"\\?(?P<quote>\"\"\"|[\"'`„“»«‘’”])(?P<value>[^\"'`\n“”„«»\\]{1,500}+(?:\\"
    r"(?![\"'])[^\"'`\n“”\\]{1,200}+){0,4})\\?[\"'`“”«»’]"
)
_BARE = regex.compile(r"(?:(?:[Bb]earer|[Bb]asic|[Tt]oken)[ ])?(?P<value>[^\s\"'`<>(){}\[\],;|&„“”«»]{1,500}+)")
_TRAILING = ".,;:"


class NamedValue(NamedTuple):
    """`start:end` of `value`. `suffix`: the end of the name. `quoted`: the value is in quotes. `joint`: what is between
    name and value: `operator`, `tag`, `cell`, `word`, `gap` (a space), `call`."""

    start: int
    end: int
    value: str
    suffix: str
    quoted: bool
    joint: str
    name_start: int


class Name(NamedTuple):
    """`literals`: in lower case. Every match of `pattern` holds one, and lies within `NAME_CHARS_MAX` characters."""

    pattern: regex.Pattern[str]
    literals: tuple[str, ...]


def named_values(text: str, name: Name, bare: regex.Pattern[str] = _BARE) -> Iterator[NamedValue]:
    """Yield what follows each match of `name`. `bare`: what a value without quotes is; its group is `value`."""
    parts = around(lower(text), name.literals, before=NAME_CHARS_MAX, after=NAME_CHARS_MAX)
    done = 0
    for match in matches_in(name.pattern, text, parts):
        if match.start() < done:
            continue  # inside a long value: a hostile text would hold a name at every few characters
        suffix = _SUFFIX.match(text, match.end())
        between = _BETWEEN.match(text, suffix.end(), timeout=REGEX_TIMEOUT_S)
        if between is None:
            continue
        joint = between.lastgroup or "call"
        quoted = _QUOTED.match(text, between.end(), timeout=REGEX_TIMEOUT_S)
        found = quoted or bare.match(text, between.end(), timeout=REGEX_TIMEOUT_S)
        if found is None:
            continue
        start, end = found.span("value")
        if not quoted:
            end = _trimmed(text, start, end)
            done = end if end - start >= LONG_CHARS else done
        if start < end and not (joint == "operator" and _of_another_line(text, between.start(), start)):
            yield NamedValue(start, end, text[start:end], suffix.group(), bool(quoted), joint, match.start())


_OTHER_LINE = regex.compile(
    r"[ \t]*(?:\#[ \t#]|//[ \t]|;[ \t]|--[ ]|\[[\w .:-]{1,40}\][ \t]*(?:$|[\r\n])"
    r"|(?:\#[ \t]?)?(?:(?:export|set|setx|declare|ENV|ARG|-)[ ]+)?[\"']?(?P<name>[A-Za-z_][\w.-]{0,60}+)[\"']?[ \t]*"
    r"(?:=(?!=)|:(?=[ \t\r\n]|$)))"
)


def _of_another_line(text: str, joint: int, start: int) -> bool:
    """Whether the value at `start` is on a later line than its name, and that line is a comment, a section, or another
    name with its own value: in `DB_PASSWORD=` above `DB_HOST=localhost` the password is empty."""
    line = text.rfind("\n", joint, start) + 1
    if line == 0:
        return False
    other = _OTHER_LINE.match(text, line)
    return other is not None and not (other["name"] and random_looking(other["name"]))


def _trimmed(text: str, start: int, end: int) -> int:
    """Return the end of a value without punctuation of the sentence around it."""
    while end > start and (
        text[end - 1] in _TRAILING
        or any(text[end - 1] == shut and opening not in text[start:end] for opening, shut in ("()", "[]", "{}"))
    ):
        end -= 1
    return end
