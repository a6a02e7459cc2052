"""The formats of documents. A format is one module and one row of `FORMATS`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from core.errors import InvalidInput
from core.text.formats.builder import Builder, FormatLimits
from core.text.formats.form import Form
from core.text.formats.options import FormatOptions
from core.text.policy import FILLS
from core.text.visible import visible

TEXT = "text"

# name -> module with `read(builder, options)`, which adds the values of a document
FORMATS: Mapping[str, str] = MappingProxyType(
    {
        "json": "core.text.formats.json_form",
        "csv": "core.text.formats.csv_form",
        "email": "core.text.formats.email_form",
        "markdown": "core.text.formats.markdown_form",
        "html": "core.text.formats.html_form",
        "log": "core.text.formats.log_form",
    }
)
FORMAT_NAMES = (TEXT, *FORMATS)
FORMAT_FILLS = tuple(FILLS)


def check_format_fill(fill: str) -> None:
    """Raise InvalidInput for a fill that is for plain text alone."""
    if fill not in FORMAT_FILLS:
        raise InvalidInput(
            f"Documents of a format other than `{TEXT}` take one of the fills: {', '.join(FORMAT_FILLS)}.",
            field="fill.mode",
        )


def parse(name: str, source: str, options: FormatOptions, limits: FormatLimits) -> Form | None:
    """Return the form of a document, None for plain text. Linear in the document.

    Raises InvalidInput if there is no such format, or the document or an option cannot be used. The error shows the
    position and nothing of the document.
    """
    if name == TEXT:
        return None
    if name not in FORMATS:
        raise InvalidInput(f"The format is one of: {', '.join(FORMAT_NAMES)}.", field="format")
    builder = Builder(source, limits)
    import_module(FORMATS[name]).read(builder, options)
    form = builder.form()
    if visible(form.view) != form.view:
        raise RuntimeError("a view contains hidden characters, so that offsets of masks would be wrong")
    return form
