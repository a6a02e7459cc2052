"""What a recogniser of a tenant or of the operator consists of, its limits, and its encrypted file.

    patterns   regular expressions in the syntax of RE2; each find has the recogniser's score
    deny       terms that are always masked
    allow      terms in which no find of a pattern or of the tagger is masked, unless the find reaches beyond the term
    context    words near which a find of a pattern scores higher

A file holds a line of facts, then the definition. Guarantee: as `core.files.encrypted_file`. Patterns and terms are on
the disk in encrypted form alone. The facts contain counts, and the name and type that requests use.

This module is light: the front end builds definitions from it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from core.errors import InvalidInput, JobFilesLost, RecogniserBroken
from core.files.disk import FileVersion
from core.files.encrypted_file import decrypt, encrypt, read_encrypted

ENTITY = re.compile(r"[A-Z][A-Z0-9_]{1,62}[A-Z0-9]")
RESERVED_ENTITIES = frozenset({"WORD", "NUMBER"})  # types of words outside a list
SCORE_DEFAULT = 0.6
LISTS = ("patterns", "deny", "allow", "context")


@dataclass(frozen=True)
class RecogniserLimits:
    """The largest definition. `terms_max`, `terms_chars_max`: of `deny` and `allow` together. `program_bytes_max`: the
    memory that RE2 may use for one pattern, compiled and while it searches."""

    patterns_max: int = 64
    pattern_chars_max: int = 1_000
    program_bytes_max: int = 1 << 20
    terms_max: int = 100_000
    term_chars_max: int = 256  # a window of the text shows as much around a find
    terms_chars_max: int = 4_000_000
    context_max: int = 64


@dataclass(frozen=True)
class Definition:
    """A recogniser of finds of the type `entity`, which is empty if it has an allow list alone. `repr` contains none of
    its patterns and terms, which may be sensitive.

    case_sensitive, whole_words: of patterns and terms. A whole word has no letter, mark, digit or underscore beside it.
    program_bytes_max: see `RecogniserLimits`.
    """

    entity: str = ""
    patterns: tuple[str, ...] = field(default=(), repr=False)
    deny: tuple[str, ...] = field(default=(), repr=False)
    allow: tuple[str, ...] = field(default=(), repr=False)
    context: tuple[str, ...] = field(default=(), repr=False)
    score: float = SCORE_DEFAULT
    case_sensitive: bool = False
    whole_words: bool = True
    program_bytes_max: int = RecogniserLimits.program_bytes_max

    @property
    def size(self) -> int:
        """The characters of its patterns and terms."""
        return sum(len(each) for name in LISTS for each in getattr(self, name))

    def counts(self) -> dict[str, int]:
        """Return the length of each list."""
        return {name: len(getattr(self, name)) for name in LISTS}

    def packed(self) -> bytes:
        """Return the definition in the form of its file."""
        return json.dumps(asdict(self), ensure_ascii=False).encode("utf-8", "surrogatepass")

    @classmethod
    def unpacked(cls, content: bytes) -> Definition:
        """Return what was `packed`. Raises RecogniserBroken."""
        try:
            found = json.loads(content)
            return cls(**found | {name: tuple(found[name]) for name in LISTS})
        except (ValueError, TypeError, KeyError):
            raise RecogniserBroken from None


def check_shape(definition: Definition, limits: RecogniserLimits) -> None:
    """Raise InvalidInput for a definition beyond a limit, without anything to find or to allow, or without the type of
    what it finds. The errors repeat nothing of it."""
    finds = bool(definition.patterns or definition.deny)
    if not finds and not definition.allow:
        raise InvalidInput("A recogniser has at least one of `patterns`, `deny` and `allow`.", field="patterns")
    if finds and not definition.entity:
        raise InvalidInput("A recogniser with patterns or a deny list names the type of its finds.", field="entity")
    if definition.entity and (not ENTITY.fullmatch(definition.entity) or definition.entity in RESERVED_ENTITIES):
        raise InvalidInput(
            "The type of an entity has 3 to 64 of A-Z, 0-9 and _, begins with a letter, does not end with _, and is "
            "not WORD or NUMBER.",
            field="entity",
        )
    if definition.context and not definition.patterns:
        raise InvalidInput("Context words need patterns.", field="context")
    _check_list(definition.patterns, "patterns", count_max=limits.patterns_max, chars_max=limits.pattern_chars_max)
    _check_list(definition.context, "context", count_max=limits.context_max, chars_max=limits.term_chars_max)
    for name in ("deny", "allow"):
        terms = getattr(definition, name)
        _check_list(terms, name, count_max=limits.terms_max, chars_max=limits.term_chars_max)
    terms = (*definition.deny, *definition.allow)
    if len(terms) > limits.terms_max or sum(map(len, terms)) > limits.terms_chars_max:
        raise InvalidInput(
            f"The terms of `deny` and `allow` together are at most {limits.terms_max}, "
            f"of {limits.terms_chars_max} characters.",
            field="deny",
        )


def _check_list(values: tuple[str, ...], name: str, *, count_max: int, chars_max: int) -> None:
    if len(values) > count_max:
        raise InvalidInput(f"`{name}` has at most {count_max} items.", field=name)
    for index, value in enumerate(values):
        if not 0 < len(value) <= chars_max:
            raise InvalidInput(f"An item of `{name}` has 1 to {chars_max} characters.", field=f"{name}.{index}")


@dataclass(frozen=True)
class RecogniserFile(FileVersion):
    """A version of the file, with what decrypts it."""

    key: bytes = field(repr=False)
    label: str


@dataclass(frozen=True)
class OwnReference:
    """A recogniser that a mask uses. `entity`: the type of its finds, empty if it only allows."""

    name: str
    entity: str
    file: RecogniserFile


def write(path: Path, key: bytes, label: str, facts: Mapping[str, Any], definition: Definition) -> None:
    """Replace the file at once. Raises OSError."""
    encrypt(path, key, label, json.dumps(facts).encode() + b"\n" + definition.packed())


def read_facts(file: RecogniserFile) -> dict[str, Any]:
    """Return the facts. Reads only the beginning of the file. Raises RecogniserBroken."""
    try:
        first = next(read_encrypted(Path(file.path), file.key, file.label), b"")
        found = json.loads(first.partition(b"\n")[0])
    except (JobFilesLost, ValueError):
        raise RecogniserBroken from None
    if not isinstance(found, dict):
        raise RecogniserBroken
    return found


def read_definition(file: RecogniserFile) -> bytes:
    """Return the definition as `Definition.packed`. Raises RecogniserBroken."""
    try:
        return decrypt(Path(file.path), file.key, file.label).partition(b"\n")[2]
    except JobFilesLost:
        raise RecogniserBroken from None
