"""PASSWORD: passwords, PINs and one-time codes that a context names, in eight languages.

A word such as `password`, `Kennwort` or `mot de passe` must precede the value, or `is your verification code` follow
it. A hit covers the value. Plain words are passwords only where the form leaves no doubt: in quotes, or alone after a
colon or an equals sign at the end of a line. `Password: required` and `password: str` are none.

In a conversation the value may stand away from its word: `the root pw? - its ...`, `a bad password, I changed mine to
...`. Then it holds a letter and a digit, and is no amount or time.
"""

from collections.abc import Iterator

import regex  # type: ignore[import-untyped]

from core.text.labelled import phrases
from core.text.recogniser import Hit, Recogniser, around, lower, matches_in, texts_of
from core.text.recognisers.credentials import credential_pairs, written_passwords
from core.text.recognisers.public_values import algorithm
from core.text.recognisers.secret_values import Name, NamedValue, named_values, placeholder, reference

_TEXTS = texts_of(__name__)

SAID_SCORE = 0.75
CHARS_MIN = 5
CHARS = 240

_WORD = (
    r"(?<!\p{L})(?:pass(?:word|phrase|wd|code)?|pwd|pw|passwort|kennwort|mot[ ]de[ ]passe|mdp|contraseña|contrasena"
    r"|clave|wachtwoord|senha|palavra-passe|parola[ ]d['’]ordine|hasł[oa]|wifi[ -]?key)s?(?!\p{L})"
)
_CHANGED = _TEXTS["changed"]
_ITS = (
    r"(?:it['’]?s|it[ ]is|should[ ]be|das[ ]ist|es[ ]ist|ist|lautet|c['’]est|es|è|het[ ]is|is|é|to)(?:[ ](?:still|now"
    r"|noch|jetzt|toujours|sigue|ancora|nog|ainda|nadal))?"
)
_VALUE = r"[ ][\"'`“„«]?(?P<value>[^\s\"'`“”„«»<>]{5,64})"
# the answer to a question that unlocks an account, whatever it is
_ANSWER = regex.compile(_TEXTS["answer"], regex.IGNORECASE)
_ANSWER_WORDS = ("question", "frage", "pregunta", "domanda", "vraag", "pergunta", "pytanie")
_USER_AND_VALUE = regex.compile(_TEXTS["user_and_value"], regex.IGNORECASE)
_FORMS = (
    _USER_AND_VALUE,
    regex.compile(rf"{_WORD}[^\n]{{0,60}}?[ ](?:{_CHANGED}){_VALUE}", regex.IGNORECASE),
    regex.compile(
        rf"{_WORD}[^\n.!?]{{0,40}}(?:[?!.…,]|[ ][-–—]"
        rf"|(?=\n))[\s>*•–—-]{{1,4}}(?:\p{{L}}{{1,20}}(?:[ ]\d\d:\d\d)?[:>|]?[ ]){{0,2}}?(?:{_ITS}){_VALUE}",
        regex.IGNORECASE,
    ),
)
_LITERALS = phrases("pass|pwd|pw|kennwort|mdp|contrase|clave|wachtwoord|senha|parola|hasł|wifi| / ")
_AMOUNT = regex.compile(
    r"[\d.,:/%€$£+-]+(?:-?\p{L}{1,12})?"
    r"|(?:\p{L}{1,3}|version|release|level|step|phase|page|part)\d{1,4}"
)


def conversation_passwords(text: str, low: str) -> Iterator[Hit]:
    """Yield the passwords. `low`: the text in lower case, of equal length."""
    for match in matches_in(_ANSWER, text, around(low, _ANSWER_WORDS, before=20, after=CHARS)):
        yield Hit(match.start("value"), match.end("value"), SAID_SCORE)
    for pattern in _FORMS:
        for match in matches_in(pattern, text, around(low, _LITERALS, before=20, after=CHARS)):
            start, end = match.span("value")
            end = start + len(text[start:end].rstrip(".,;:)!?"))
            value = text[start:end]
            mixed = any(map(str.isdecimal, value)) and any(map(str.isalpha, value))
            other = _AMOUNT.fullmatch(value) or placeholder(value) or reference(value) or "://" in value or "=" in value
            if len(value) >= CHARS_MIN and mixed and not other:
                yield Hit(start, end, SAID_SCORE)


SCORE = 0.85
PASSWORD_CHARS_MIN = 3
PASSWORD_CHARS_MAX = 128
STRONG_CHARS_MIN = 5

_NAMES = _TEXTS["names"]
_PASSWORD = Name(
    regex.compile(
        rf"(?<!\p{{L}})(?!{_TEXTS['passed_on']})(?:\w{{0,30}}_|--?|\p{{L}}{{1,12}}?(?=passw|pwd))?(?:{_NAMES})(?![\p{{Ll}}])",
        regex.IGNORECASE,
    ),
    phrases(
        "pass|pwd|pw|kennwort|losung|zugangsdaten|mdp|phrase|contrase|clave|palabra|parola|chiave|wachtwoord|"
        "senha|palavra|hasł|hasl|wpa|wifi|wi-fi|wlan|psk|ww"
    ),
)
_CAMEL = Name(
    regex.compile(r"(?<=[a-z])(?:Password|Passwd|Pwd|Passphrase|Kennwort|Passwort)(?![a-z])"),
    ("passw", "pwd", "phrase", "kennwort"),
)

_CODE = _TEXTS["code"]
_CODES = regex.compile(rf"(?<![\p{{L}}\d_])(?:{_CODE})(?:[ ]{_TEXTS['of_card']})?(?![\p{{L}}])", regex.IGNORECASE)
_CODE_WORDS = phrases(
    "code|kode|código|codice|kod|pin|tan|otp|o.t.p|t.a.n|cvv|cvc|cvn|digit|ziffern|zahlen|chiffres|dígitos|cifras"
    "|números|cifre|numeri|cijfers|cyfry|puk|prüf|cryptogramme|verification|passwort|comb"
    "|opens with"
)
_NUMBER = regex.compile(r"\d")
CODE_CHARS_AFTER = 120
_DIGITS = regex.compile(
    r"(?P<value>(?:\w{1,3}-)?\d(?:[ -]?\d){2,9}|[A-Z0-9]{4,10}(?:-[A-Z0-9]{3,8}){0,4}|\d[A-Za-z0-9]{3,11})(?![\w])"
)
_IS_YOUR_CODE = regex.compile(_TEXTS["is_your_code"], regex.IGNORECASE)

_SHORT_FLAG = regex.compile(_TEXTS["short_flag"])
_FLAGS = (" -p", " -w", " -a")

_PROSE_WORDS = _TEXTS["prose_words"]
_PROSE = frozenset(_PROSE_WORDS.split())
_FIELD = regex.compile(r"\p{L}+(?:[_.-]\p{L}+)+")
_SYMBOLS = "$%<{[(&*#-/\\|=+"
_GROUPS = r"[a-z0-9]{4}(?:[ ][a-z0-9]{4}){3}(?=[ \t]*(?:$|[\n\r;\"',.]))"  # as mail services issue them for programs
_IN_GROUPS = regex.compile(r"[a-z0-9]{4}(?:[ ][a-z0-9]{4}){3}")
_BARE = regex.compile(
    rf"(?P<value>{_GROUPS}|"
    r"(?:[^\s\"'`<>,;|&„“”«»]|&(?!\w{1,30}=)|[,;|](?=[^\s,;|\"'])(?![ ]?\w[\w ]{0,20}=)){1,128}+)"
)
_MIXED = regex.compile(r"[\d!@#$%^&*+=?~]|\p{Ll}\p{Lu}")


def _accepted(text: str, found: NamedValue) -> bool:
    value = found.value
    if not PASSWORD_CHARS_MIN <= len(value) <= PASSWORD_CHARS_MAX or value.casefold().strip(".:;") in _PROSE:
        return False
    if placeholder(value) or "://" in value or value.startswith("//") or algorithm(value):
        return False
    if _IN_GROUPS.fullmatch(value):
        return found.quoted or found.joint == "operator" or any(map(str.isdecimal, value))
    if found.quoted:
        return _quoted(found)
    if found.joint in ("word", "operator", "gap") and _in_words(value):
        return found.joint != "gap" or _named_network(text, found)
    if _expression(text, found) or (value[0] in _SYMBOLS and not _MIXED.search(value[1:])):
        return False
    if text.startswith("--", found.name_start):
        return True
    if _assigned(text, found):
        return True
    if found.joint == "tag" and not text.startswith("</", found.end):
        return False
    strong = len(value) >= STRONG_CHARS_MIN and any(map(str.isalnum, value)) and _MIXED.search(value) is not None
    if found.joint == "gap":
        return (
            strong and any(map(str.isdecimal, value)) and (any(map(str.isalpha, value)) or _named_network(text, found))
        )
    return strong or (found.joint in ("operator", "tag") and _alone(text, found))


def _quoted(found: NamedValue) -> bool:
    """Whether a quoted value is a password: no sentence, and no name of a field or a form."""
    value = found.value
    if " " in value.strip():
        return False
    if found.joint == "word":
        return True
    return len(value) >= 4 and (_in_words(value) or not _FIELD.fullmatch(value))


def _expression(text: str, found: NamedValue) -> bool:
    """Whether a value without quotes is an expression of source code.

    After a name in capitals, words with dots between and a digit inside are none."""
    name = text[found.name_start : found.name_start + 4]
    literal = name.isupper() and found.value.replace(".", "").isalnum() and any(map(str.isdecimal, found.value))
    return reference(found.value) and not literal


def _assigned(text: str, found: NamedValue) -> bool:
    """Whether a variable in capitals takes the value, as before a command: `PGPASSWORD=x psql`."""
    tight = text[found.start - 1] == "=" and text[found.start - 2].isupper()
    return tight and found.value.isalnum() and len(found.value) >= PASSWORD_CHARS_MIN + 1


_HYPHENS = regex.compile(r"\p{Ll}{2,15}(?:-\p{Ll}{2,15}){2,6}")
_NO_PHRASE = regex.compile(_TEXTS["no_phrase"])


def _in_words(value: str) -> bool:
    """Whether a value is three words or more with hyphens between, and none of them is of a field or a sentence."""
    return _HYPHENS.fullmatch(value) is not None and _NO_PHRASE.search(value) is None


_NETWORK = regex.compile(r"wi-?fi|wlan|wpa|psk", regex.IGNORECASE)


def _named_network(text: str, found: NamedValue) -> bool:
    return _NETWORK.search(text, found.name_start, found.start) is not None


def _alone(text: str, found: NamedValue) -> bool:
    """Whether a plain word stands alone at the end of its line, after a colon or `=` without a comma or a bracket."""
    before = text[found.start - 1 : found.start]
    after = text[found.end : found.end + 2]
    at_end = not after.strip(" .") or after[0] in "\n<" or after.startswith((".\n", ". "))
    return at_end and found.value.isalnum() and len(found.value) >= 4 and (before in ": =>" and before != "")


def _passwords(text: str) -> Iterator[Hit]:
    for pattern in (_PASSWORD, _CAMEL):
        for found in named_values(text, pattern, _BARE):
            if not _OTHER_FIELD.search(found.suffix) and _accepted(text, found):
                yield Hit(found.start, found.end, SCORE)
    yield from _codes(text)
    low = lower(text)
    for _, (start, end) in credential_pairs(text, low):
        yield Hit(start, end, SCORE)
    for match in matches_in(_SHORT_FLAG, text, around(low, _FLAGS, before=150, after=200)):
        start, end = match.span("value")
        if text[start] in "\"'":
            start, end = start + 1, end - 1
        if not placeholder(text[start:end]) and "://" not in text[start:end]:
            yield Hit(start, end, SCORE)
    yield from written_passwords(text, low)
    yield from conversation_passwords(text, low)


def _codes(text: str) -> Iterator[Hit]:
    """Yield PINs and one-time codes. Each holds a digit, so that only words of codes near a digit are examined."""
    parts = [
        part
        for part in around(lower(text), _CODE_WORDS, before=CODE_CHARS_AFTER, after=CODE_CHARS_AFTER)
        if _NUMBER.search(text, *part)
    ]
    if not parts:
        return
    for found in named_values(text, Name(_CODES, _CODE_WORDS), _DIGITS):
        if found.joint not in ("tag", "cell") and _code(found.value):
            yield Hit(found.start, found.end, SCORE)
    for match in matches_in(_IS_YOUR_CODE, text, parts):
        start, end = match.span("value")
        yield Hit(start, end, SCORE)


_OTHER_FIELD = regex.compile(_TEXTS["other_field"], regex.IGNORECASE)


def _code(value: str) -> bool:
    digits = sum(map(str.isdecimal, value))
    return digits >= 3 and not placeholder(value)


def recognisers() -> tuple[Recogniser, ...]:
    return (Recogniser("PASSWORD", _passwords),)
