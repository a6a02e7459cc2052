"""Passwords and keys in commands, configurations, pairs and tables, which `PASSWORD`, `SECRET` and `USERNAME` use.

* Commands, SQL statements, files of fixed form and calls of functions: `IDENTIFIED BY 'x'`, `~/.pgpass`,
  `htpasswd -b FILE USER x`, `lftp -u USER,x`, `net use ... /user:USER x`, `AUTH x`, `echo USER:x | chpasswd`,
  `ConvertTo-SecureString "x"`, `HTTPBasicAuth("USER", "x")`, `jwt.sign(claims, "x")`, `set("x", forKey: "token")`.
* Pairs of a user name and a password: `login: jdoe / hunter2`, `credentials admin:Secret123`.
* Rows with `|`, tabs, commas or semicolons between cells below a header such as `| Host | User | Password |`, and
  `INSERT INTO users (name, password) VALUES ('x', 'y')`. A row is read once, and a table ends at the first line of
  another number of cells.
* Configurations of network devices and flags: lines such as `enable secret 5 ...` and `snmp-server community ... RO`,
  `jdbc:oracle:thin:user/password@`, `sqlplus user/password@`, keys and vectors of `openssl`, `-storepass` and similar
  flags, `WIFI:S:...;P:...;;`.

Cost: linear in the text.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import regex  # type: ignore[import-untyped]

from core.text.labelled import phrases
from core.text.recogniser import REGEX_TIMEOUT_S, Hit, Span, around, matches_in, texts_of
from core.text.recognisers.secret_values import placeholder, random_looking, reference

_TEXTS = texts_of(__name__)

COMMAND_SCORE = 0.88
AROUND_CHARS = 400


class SecretForm(NamedTuple):
    """`literals`: in lower case; every match of `pattern` lies near one. `mixed`: only values with a digit or a symbol
    count, because words may follow. `random`: only values that look random count. The group `value` is the password
    or the key."""

    literals: tuple[str, ...]
    pattern: regex.Pattern[str]
    mixed: bool
    random: bool


def _forms(name: str) -> tuple[SecretForm, ...]:
    return tuple(
        SecretForm(
            tuple(row["literals"]),
            regex.compile(row["pattern"], regex.IGNORECASE if row.get("ignore_case") else 0),
            row.get("mixed", False),
            row.get("random", False),
        )
        for row in _TEXTS[name]
    )


_COMMAND_PASSWORDS = _forms("command_passwords")
_CALL_SECRETS = _forms("call_secrets")
_DIGIT_OR_SIGN = regex.compile(r"[\d!@#$%^&*+=?~]")


def _in_forms(forms: tuple[SecretForm, ...], text: str, low: str, *, refused: Callable[[str], bool]) -> Iterator[Hit]:
    """Yield the values of these forms, without those that are `refused`."""
    for form in forms:
        for match in matches_in(
            form.pattern, text, around(low, form.literals, before=AROUND_CHARS, after=AROUND_CHARS)
        ):
            value = match.group("value")
            if refused(value):
                continue
            if (form.mixed and not _DIGIT_OR_SIGN.search(value)) or (form.random and not random_looking(value)):
                continue
            yield Hit(match.start("value"), match.end("value"), COMMAND_SCORE)


def _other_than_a_value(value: str) -> bool:
    return placeholder(value) or "://" in value or value.startswith(("$", "{")) or reference(value)


_PAIR = regex.compile(_TEXTS["pair"], regex.IGNORECASE)
_WORDS = phrases(
    "credential|creds|login|log-in|user|zugangsdaten|anmeldedaten|identifiant|credencia|credenzia|"
    "inloggegevens|dane|account"
)
_MIXED = regex.compile(r"[\d!@#$%^&*+=?~]|\p{Ll}\p{Lu}")


def credential_pairs(text: str, low: str) -> Iterator[tuple[Span, Span]]:
    """Yield where the user name and the password of each pair are. `low`: the text in lower case, of equal length."""
    for match in matches_in(_PAIR, text, around(low, _WORDS, before=150, after=200)):
        start, end = match.span("value")
        end = start + len(text[start:end].rstrip(".,;:"))
        value = text[start:end]
        if value and _MIXED.search(value) and not placeholder(value) and "://" not in value:
            yield match.span("user"), (start, end)


TABLE_SCORE = 0.85
LINE_CHARS = 2000
VALUE_CHARS_MIN = 4

_PASSWORD = regex.compile(_TEXTS["password"], regex.IGNORECASE)
_SECRET = regex.compile(
    r"(?:\p{L}{1,12}[ _-]){0,2}(?:secret|token|api[ _-]?key|secret[ _-]?key|access[ _-]?key|private[ _-]?key)",
    regex.IGNORECASE,
)
_PASSWORD_WORDS = phrases("pass|pwd|pw|kennwort|mdp|contrase|clave|parola|wachtwoord|senha|hasło|pin|puk")
_SECRET_WORDS = ("secret", "token", "key")
_INSERT = regex.compile(
    r"INSERT[ ]INTO[ ][\w.\"`\[\]]{1,80}\s{0,4}\((?P<columns>[^()\n]{1,400})\)\s{0,4}VALUES\s{0,4}(?=\()",
    regex.IGNORECASE,
)
_ROW = regex.compile(r"\s{0,4},?\s{0,4}\((?P<row>(?:'(?:[^'\n]|'')*+'|[^'()\n])*+)\)")
_ITEM = regex.compile(r"\s*+(?:N?'(?P<value>(?:[^'\n]|'')*+)'|[^,'\n]*+)\s*+(?:,|$)")


def _in_tables(text: str, low: str, name: regex.Pattern[str], words: tuple[str, ...]) -> Iterator[Hit]:
    if "insert into" in low:
        yield from _inserted(text, low, name)
    done = 0
    for start, end in around(low, words, before=0, after=0):
        if start < done:
            continue
        left = text.rfind("\n", max(0, start - LINE_CHARS), start) + 1
        right = text.find("\n", end, end + LINE_CHARS)
        if right < 0 or right - left > LINE_CHARS:
            continue
        done = right
        for separator in "|\t,;":
            cells = _cells(text, left, right, separator)
            columns = [number for number, cell in enumerate(cells) if name.fullmatch(_plain(text, cell))]
            if len(cells) > 1 and columns:
                done, hits = _rows(text, right + 1, separator, len(cells), columns)
                yield from hits
                break


def _cells(text: str, left: int, right: int, separator: str) -> list[Span]:
    cells, at = [], left
    for part in text[left:right].split(separator):
        cells.append((at, at + len(part)))
        at += len(part) + 1
    return cells


def _plain(text: str, cell: Span) -> str:
    return text[slice(*cell)].strip(" *_`\"'\r")


def _rows(text: str, at: int, separator: str, count: int, columns: list[int]) -> tuple[int, list[Hit]]:
    """Return where the rows end, and the values of `columns` in them."""
    hits = []
    while at < len(text):
        right = text.find("\n", at, at + LINE_CHARS)
        right = min(len(text), at + LINE_CHARS) if right < 0 else right
        cells = _cells(text, at, right, separator)
        if len(cells) != count:
            break
        for column in columns:
            value = _plain(text, cells[column])
            if _is_value(value):
                start = text.index(value, *cells[column])
                hits.append(Hit(start, start + len(value), TABLE_SCORE))
        at = right + 1
    return at, hits


def _is_value(value: str) -> bool:
    plain = " " in value or not any(map(str.isalnum, value)) or value.replace("_", "").isalpha()
    return len(value) >= VALUE_CHARS_MIN and not plain and not placeholder(value) and not reference(value)


def _inserted(text: str, low: str, name: regex.Pattern[str]) -> Iterator[Hit]:
    for match in matches_in(_INSERT, text, around(low, ("insert into",), before=0, after=600)):
        names = [column.strip(" \"`[]'") for column in match.group("columns").split(",")]
        columns = {number for number, column in enumerate(names) if name.fullmatch(column)}
        at = match.end()
        while columns and (row := _ROW.match(text, at, at + LINE_CHARS, timeout=REGEX_TIMEOUT_S)):
            at, item = row.end(), row.start("row")
            for number in range(len(names)):
                found = _ITEM.match(text, item, row.end("row"), timeout=REGEX_TIMEOUT_S)
                if found is None or found.end() == item:
                    break
                item = found.end()
                value = found.group("value")
                if number in columns and value and len(value) >= VALUE_CHARS_MIN and not placeholder(value):
                    yield Hit(found.start("value"), found.end("value"), TABLE_SCORE)


_DEVICE_SECRETS = _forms("device_secrets")
_FLAG_PASSWORDS = _forms("flag_passwords")


def written_passwords(text: str, low: str) -> Iterator[Hit]:
    """Yield the passwords of flags, wireless networks, commands, statements, calls and tables. `low`: the text in lower
    case, of equal length."""
    yield from _in_forms(_FLAG_PASSWORDS, text, low, refused=placeholder)
    yield from _in_forms(_COMMAND_PASSWORDS, text, low, refused=_other_than_a_value)
    yield from _in_tables(text, low, _PASSWORD, _PASSWORD_WORDS)


def written_secrets(text: str, low: str) -> Iterator[Hit]:
    """Yield the keys and tokens of devices, databases, ciphers, calls, files and tables. `low`: the text in lower case,
    of equal length."""
    yield from _in_forms(_DEVICE_SECRETS, text, low, refused=placeholder)
    yield from _in_forms(_CALL_SECRETS, text, low, refused=_other_than_a_value)
    yield from _in_tables(text, low, _SECRET, _SECRET_WORDS)
