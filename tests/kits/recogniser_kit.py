"""What recognisers find in a text, and stored recognisers for tests of workers."""

import re
from pathlib import Path

from table_kit import plain, texts

from core.files.disk import file_digest
from core.files.encrypted_file import new_key
from core.text.formats.builder import FormatLimits, FormatOptions, parse
from core.text.mask_words import AllowLists
from core.text.own_recognisers.definition import Definition, OwnReference, RecogniserFile, write
from core.text.policy import MaskPolicy
from core.text.sanitize import fill_masks, inspect


def finds(entity: str, text: str) -> list[str]:
    """The strings that are found where this type alone is asked for."""
    found = inspect(text, MaskPolicy(entities=(entity,)), AllowLists())
    return [found.text[mask.start : mask.end] for mask in found.masks]


def shown(text: str, format_name: str = "text") -> str:
    """The text, or the document of a format, as the default policy shows it without a tagger."""
    policy, lists = MaskPolicy(), AllowLists()
    if format_name == "text":
        return fill_masks(inspect(text, policy, lists), policy, "class_marker", lists).text
    form = parse(format_name, text, FormatOptions(), FormatLimits())
    return fill_masks(inspect(form.view, policy, lists, form=form), policy, "class_marker", lists).text


def left(table: str, entity: str, format_name: str = "text") -> list[str]:
    """The texts of a table whose value, between `«` and `»`, does not become a mark of this type."""
    return [text for text in texts(table) if shown(plain(text), format_name) != re.sub("«.*»", f"[{entity}]", text)]


def stored(folder: Path, definition: Definition, name: str = "codes") -> OwnReference:
    """A reference to `definition` in a file of `folder`, under a key of its own."""
    path, key = folder / f"{name}.recogniser", new_key()
    write(path, key, name, {"entity": definition.entity}, definition)
    return OwnReference(name, definition.entity, RecogniserFile(str(path), file_digest(path), key, name))
