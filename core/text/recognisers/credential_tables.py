"""Passwords and keys in the rows of a table, in a column that its header names.

Forms: rows with `|`, tabs, commas or semicolons between cells below a header such as `| Host | User | Password |`, and
`INSERT INTO users (name, password) VALUES ('x', 'y')`.

Cost: linear in the text. A row is read once, and a table ends at the first line of another number of cells.
"""

from __future__ import annotations

from collections.abc import Iterator

import regex  # type: ignore[import-untyped]

from core.text.labelled import phrases
from core.text.recogniser import REGEX_TIMEOUT_S, Hit
from core.text.recognisers.regions import Span, around, matches_in
from core.text.recognisers.secret_values import placeholder, reference

SCORE = 0.85
LINE_CHARS = 2000
VALUE_CHARS_MIN = 4

_PASSWORD = regex.compile(
    r"(?:(?:\p{L}{1,12}[ _-])?(?:password|passwd|pwd|pw|pass|passphrase|passcode|passwort|kennwort"
    r"|mot[ ]de[ ]passe|mdp"
    r"|contraseña|contrasena|clave|parola[ ]d['’]ordine|wachtwoord|senha|palavra-passe|hasło|pin|puk))"
    r"(?:[ _-](?:plain|initial|temp|default|wifi))?",
    regex.IGNORECASE,
)
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


def table_passwords(text: str, low: str) -> Iterator[Hit]:
    """Yield the passwords of tables. `low`: the text in lower case, of equal length."""
    return _found(text, low, _PASSWORD, _PASSWORD_WORDS)


def table_secrets(text: str, low: str) -> Iterator[Hit]:
    """Yield the keys and tokens of tables. `low`: the text in lower case, of equal length."""
    return _found(text, low, _SECRET, _SECRET_WORDS)


def _found(text: str, low: str, name: regex.Pattern[str], words: tuple[str, ...]) -> Iterator[Hit]:
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
                hits.append(Hit(start, start + len(value), SCORE))
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
                    yield Hit(found.start("value"), found.end("value"), SCORE)
