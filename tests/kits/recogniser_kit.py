"""What recognisers find in a text, and stored recognisers for tests of workers."""

from pathlib import Path

from core.files.disk import file_digest
from core.files.encrypted_file import new_key
from core.text.mask_words import AllowLists
from core.text.own_recognisers.definition import Definition, OwnReference, RecogniserFile, write
from core.text.policy import MaskPolicy
from core.text.sanitize import inspect


def finds(entity: str, text: str) -> list[str]:
    """The strings that are found where this type alone is asked for."""
    found = inspect(text, MaskPolicy(entities=(entity,)), AllowLists())
    return [found.text[mask.start : mask.end] for mask in found.masks]


def stored(folder: Path, definition: Definition, name: str = "codes") -> OwnReference:
    """A reference to `definition` in a file of `folder`, under a key of its own."""
    path, key = folder / f"{name}.recogniser", new_key()
    write(path, key, name, {"entity": definition.entity}, definition)
    return OwnReference(name, definition.entity, RecogniserFile(str(path), file_digest(path), key, name))
