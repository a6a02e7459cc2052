"""Input files of the command, and the API key."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

KEY_VARIABLE, URL_VARIABLE = "PRIVACY_GATEWAY_API_KEY", "PRIVACY_GATEWAY_URL"
URL_DEFAULT = "http://127.0.0.1:8000"


class UsageError(Exception):
    """A message for the user that ends the command. It holds no content of a file."""


def api_key(key_file: str | None) -> str:
    """The key in the file, or in the environment. Raises UsageError."""
    key = Path(key_file).read_text().strip() if key_file else os.environ.get(KEY_VARIABLE, "").strip()
    if not key:
        raise UsageError(f"give the API key by --key-file or in {KEY_VARIABLE}")
    return key


def documents(path: Path) -> list[dict[str, Any]]:
    """The documents of a file: JSON lines with a member `text`, `sentences` or `embeddings`; else one text a line.

    Raises UsageError with the number of a line that cannot be read."""
    found = []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                found.append(_document(line, number) if path.suffix == ".jsonl" else {"text": line.rstrip("\r\n")})
    if not found:
        raise UsageError(f"{path.name} holds no document")
    return found


def _document(line: str, number: int) -> dict[str, Any]:
    value = _object(line, number)
    known: dict[str, Any] = {
        name: value[name] for name in ("id", "text", "sentences", "embeddings", "subject") if name in value
    }
    if not known.keys() & {"text", "sentences", "embeddings"}:
        raise UsageError(f"line {number} has no member text, sentences or embeddings")
    return known


def table(path: Path, schema: dict[str, Any]) -> Any:
    """The rows of a table: a file of JSON lines is sent as it is, CSV with a header is read with the schema's types."""
    if path.suffix != ".csv":
        return path
    columns = [*schema.get("columns", ()), *([schema["label"]] if schema.get("label") else ())]
    numeric = {column["name"] for column in columns if column.get("kind") == "numeric"}
    with path.open(newline="", encoding="utf-8") as file:
        return list(_typed(csv.DictReader(file), numeric))


def _typed(rows: csv.DictReader[str], numeric: set[str]) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(rows, start=2):
        typed: dict[str, Any] = dict(row)
        try:
            typed |= {name: _number(row[name]) for name in numeric if name in row}
        except ValueError:
            wrong = True
        else:
            wrong = False
        if wrong:
            raise UsageError(f"line {number} has a value that is no number in a numeric column")
        yield typed


def _number(text: str) -> float | int:
    try:
        return int(text)
    except ValueError:
        return float(text)


def json_file(path: Path) -> dict[str, Any]:
    return _object(path.read_text(encoding="utf-8"), None)


def _object(text: str, number: int | None) -> dict[str, Any]:
    value: Any = None
    with contextlib.suppress(ValueError):
        value = json.loads(text)
    if not isinstance(value, dict):
        raise UsageError("the file is no JSON object" if number is None else f"line {number} is no JSON object")
    return value


def digest(*paths: Path) -> str:
    """A hash of the content of files."""
    found = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                found.update(piece)
        found.update(b"|")
    return found.hexdigest()
