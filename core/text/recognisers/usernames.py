"""USERNAME: account names that a context shows, in eight languages.

Contexts: a word such as `username`, `login` or `Benutzername` with a colon, `=` or a verb; `user jdoe from` and `user
"jdoe"` in logs; the folder of a user (`/home/jdoe`, `C:\\Users\\jdoe`); `@jdoe` as social networks write it. A hit
covers the name. Names that many systems share, such as `root` or `admin`, identify nobody and are not hits.
"""

from collections.abc import Iterator

import regex  # type: ignore[import-untyped]

from core.text.labelled import phrases
from core.text.recogniser import Hit, Recogniser, around, lower, matches, matches_in, texts_of
from core.text.recognisers.credentials import credential_pairs
from core.text.recognisers.secret_values import Name, NamedValue, identifies, login, named_values
from core.text.recognisers.speakers import speakers

_TEXTS = texts_of(__name__)

SCORE = 0.8
STATED_WORDS_MAX = 4  # `the username is jdoe`; a longer sentence says something else

_NAMES = _TEXTS["names"]
_NAMED = Name(
    regex.compile(rf"(?<![\p{{L}}\d])(?:\w{{0,20}}_|--)?(?:{_NAMES})(?![\p{{L}}])", regex.IGNORECASE),
    phrases(_TEXTS["named"]),
)
_USER = Name(
    regex.compile(r"(?<![\p{L}\d.])(?:\w{1,20}[_-])?user(?=[\"']?[ ]?[=:]|[ ]is[ ]|[ ]?>)(?!\w)", regex.IGNORECASE),
    ("user",),
)
_VALUE = regex.compile(r"(?P<value>[\w][\w.+\\@-]{2,63}+)(?![\w(\[])")

_IN_LOGS = tuple(map(regex.compile, _TEXTS["in_logs"]))
_LOG_WORDS = phrases(_TEXTS["log_words"])
_LOG_CHARS = 100
OWNER_CHARS = 45
_ACCESS = regex.compile(r"(?<=\S[ ]-[ ])(?P<value>[\w][\w.+@\\-]{2,63}+)[ ]\[\d{1,2}/[A-Z][a-z]{2}/\d{4}:\d\d:")
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec"
_ACCESS_WORDS = tuple(f"/{month}/" for month in _MONTHS.split())
_TASK = regex.compile(r"(?<!\w)(?:TODO|FIXME|HACK|XXX|NOTE|BUG|OPTIMIZE)\(@?(?P<value>[a-z][\w.-]{2,31})\)[: ]")
_TASK_WORDS = ("todo(", "fixme(", "hack(", "xxx(", "note(", "bug(", "optimize(")
_TOPIC_WORDS = (
    "perf performance security docs doc api i18n later soon next cleanup refactor tests bug bugs feature upstream ui ux"
    " compat types typing speed memory release blocking windows linux macos legacy deprecation deps style a11y"
)
_TOPICS = frozenset(_TOPIC_WORDS.split())
_FOLDER_WORDS = ("/home/", "/users/", ":\\users", ":/users", "documents and settings")
_FOLDERS = regex.compile(_TEXTS["folders"])
_HANDLE = regex.compile(
    r"(?<![\w@./:\\&=+$-])@(?!h[e]re(?!\w))(?P<value>[A-Za-z_]\w{2,30}+)(?![\w@/(<{\[\\=-]|\.\w|:[:\w])"
)

_REMARKS = frozenset(
    [
        *phrases("taken|available|correct|incorrect|wrong|valid|unique|yours|locked|displayed|optional"),
        *phrases("used|empty|blank|known|free|case-sensitive|mandatory|needed|stored|visible|hidden"),
        *phrases("falsch|richtig|vergeben|frei|gesperrt|belegt|notwendig|erforderlich|incorrecto|correcto"),
        *phrases("obligatorio|obligatoire|inconnu|pris|requis|errato|obbligatorio|sconosciuto|bezet|onjuist"),
        *phrases("verplicht|incorreto|inválido|obrigatório|wymagana|wymagany|zajęta|zajęty|nieprawidłowy"),
    ]
)
_PASSWORD_FOLLOWS = regex.compile(_TEXTS["password_follows"], regex.IGNORECASE)
_DIRECT = regex.compile(_TEXTS["direct"], regex.IGNORECASE)
_FIELD_NAME = regex.compile(
    r"_(?:id|ids|name|key|type|data|list|count|info|email|table|profile|model|service|role|group|token)$"
    r"|\.(?:py|js|ts|json|txt|xml|yml|yaml|csv|html|php|java|sql|md|log|conf|cfg|ini)$|^(?:v|version)?\d"
)
_AFTER_ACCOUNT = regex.compile(_TEXTS["after_account"], regex.IGNORECASE)
_BEFORE_ACCOUNT = regex.compile(_TEXTS["before_account"])
_OWNERS = ("'s ", "’s ", "' ", "’ ")
_ACCOUNT_WORDS = phrases(_TEXTS["account_words"])
_NO_ACCOUNT = regex.compile(_TEXTS["no_account"])
_LINE_END = regex.compile(r"[ \t]*(?:$|\n)")


def _named(text: str) -> Iterator[Hit]:
    for pattern in (_NAMED, _USER):
        for found in named_values(text, pattern, _VALUE):
            value = found.value
            if found.suffix or found.joint in ("gap", "cell", "call") or not login(value):
                if not found.suffix and found.joint == "gap" and _beside(text, found):
                    yield Hit(found.start, found.end, SCORE)
                continue
            if not found.quoted and not (
                _stated(text, found) if found.joint == "word" else _in_text(text, found.start, found.end)
            ):
                continue
            if found.quoted and found.joint == "operator" and value.isalpha() and not value.islower():
                continue
            yield Hit(found.start, found.end, SCORE)


def _beside(text: str, found: NamedValue) -> bool:
    """Whether a name follows its word directly, as in `utente anna.b`: it has a digit, a dot or `_`, or a password
    follows it."""
    value = found.value
    if found.quoted or not login(value) or "/" in value or not value[0].isalpha():
        return False
    if _PASSWORD_FOLLOWS.match(text, found.end):
        return True
    marked = any(map(str.isdecimal, value)) or "." in value or "_" in value
    direct = _DIRECT.match(text, found.name_start) is not None and text[found.end : found.end + 1] not in (
        "(",
        "=",
        "[",
    )
    return direct and marked and value.islower() and not _FIELD_NAME.search(value)


def _stated(text: str, found: NamedValue) -> bool:
    """Whether what follows `the username is` is a name, and not a remark such as `taken`."""
    value = found.value
    if value.isalpha():
        short = len(text[found.name_start : found.start].split()) <= STATED_WORDS_MAX
        ends = text[found.end : found.end + 1] in ("", ".", ",", ";", "\n")
        return short and ends and value.islower() and value not in _REMARKS
    return "/" not in value and not value[0].isdecimal()


def _in_text(text: str, start: int, end: int) -> bool:
    """Whether an unquoted value is one of a log, a form or a letter rather than an expression of source code."""
    value = text[start:end]
    after = text[end : end + 1]
    if after in ("(", "[", "."):
        following = text[end + 1 : end + 2]
        if after != "." or following.isalnum() or following == "_":
            return False
    name_starts = text.rfind("\n", max(0, start - 200), start) + 1
    line = text[name_starts:start]
    spaced_equals = line.rstrip().endswith("=") and line.endswith(" ")
    in_call = "(" in line and line.rstrip().endswith("=")
    if any(map(str.isdecimal, value)) or "\\" in value:
        return not (spaced_equals or in_call)
    if spaced_equals or in_call:
        return False
    if line.rstrip().endswith("="):
        return after not in (")", ";") and not (after == "," and (_LINE_END.match(text, end + 1) or "_" in value))
    # after a colon a name alone on its line; a type would be as well, so that only lower case counts
    return "." in value or (value.islower() and bool(_LINE_END.match(text, end) or after in ",.;"))


def _in_logs(text: str) -> Iterator[Hit]:
    parts = around(lower(text), _LOG_WORDS, before=_LOG_CHARS, after=_LOG_CHARS)
    for pattern in _IN_LOGS:
        for match in matches_in(pattern, text, parts):
            value = match.group("value").rstrip(".-")
            if login(value):
                yield Hit(match.start("value"), match.start("value") + len(value), SCORE)


def _beside_accounts(text: str) -> Iterator[Hit]:
    """Yield names of letters with a dot or `_` inside, or digits behind, directly beside a word for an account."""
    low = lower(text)
    for pattern, words, chars in (
        (_AFTER_ACCOUNT, _ACCOUNT_WORDS, _LOG_CHARS),
        (_BEFORE_ACCOUNT, _OWNERS, OWNER_CHARS),
    ):
        for match in matches_in(pattern, text, around(low, words, before=OWNER_CHARS, after=chars)):
            value = match.group("value")
            if value.islower() and login(value) and not _NO_ACCOUNT.search(value):
                yield Hit(match.start("value"), match.end("value"), SCORE)


def _in_lines(text: str) -> Iterator[Hit]:
    """Yield the users of access logs and those to whom a comment gives a task."""
    low = lower(text)
    for pattern, words in ((_ACCESS, _ACCESS_WORDS), (_TASK, _TASK_WORDS)):
        for match in matches_in(pattern, text, around(low, words, before=_LOG_CHARS, after=_LOG_CHARS)):
            if login(match.group("value")) and match.group("value") not in _TOPICS:
                yield Hit(match.start("value"), match.end("value"), SCORE)


def _folders(text: str) -> Iterator[Hit]:
    for match in matches_in(_FOLDERS, text, around(lower(text), _FOLDER_WORDS, before=30, after=_LOG_CHARS)):
        value = match.group("value").rstrip(".")
        if login(value.replace(" ", "")):
            yield Hit(match.start("value"), match.start("value") + len(value), SCORE)


def _handles(text: str) -> Iterator[Hit]:
    if "@" not in text:
        return
    for match in matches(_HANDLE, text):
        if identifies(match.group("value")) and not _decorator(text, match):
            yield Hit(match.start(), match.end(), SCORE)


def _decorator(text: str, match: regex.Match[str]) -> bool:
    """Whether `@name` is a decorator, an annotation, a tag of documentation or a rule of a style sheet: the first word
    of its line, and no prose follows."""
    line = text.rfind("\n", max(0, match.start() - 80), match.start()) + 1
    if text[line : match.start()].strip(" \t*/#;-") and (line or match.start() < 80):
        return False
    value = match.group("value")
    if any(map(str.isdecimal, value)) and value.islower():
        return False
    return regex.match(r"(?:[,:]?[ ]\p{Ll}{1,15}){2}|[,:][ ]\p{L}", text, pos=match.end()) is None


def _usernames(text: str) -> Iterator[Hit]:
    yield from _named(text)
    for span, _ in credential_pairs(text, lower(text)):
        if login(text[slice(*span)]):
            yield Hit(*span, SCORE)
    yield from _in_logs(text)
    yield from _beside_accounts(text)
    yield from speakers(text)
    yield from _in_lines(text)
    yield from _folders(text)
    yield from _handles(text)


def recognisers() -> tuple[Recogniser, ...]:
    return (Recogniser("USERNAME", _usernames),)
