"""The front matter of Markdown: YAML between lines `---`, or TOML between lines `+++`.

The scalars and comments are values, and a key is the label of its value. Keys that are simple names, anchors and
aliases, `null`, `true` and `false` are kept. A masked scalar stays a string, in the quotes that it has or in new ones.
A masked number or date becomes a string. What is not YAML or TOML is no front matter: it is read as Markdown.
"""

from __future__ import annotations

import re

from core.text.formats.builder import NEW_VALUE, Builder
from core.text.formats.toml_matter import read_toml
from core.text.formats.yaml_matter import read_yaml

_READERS = {"-": read_yaml, "+": read_toml}
_FRONT_MATTER = re.compile(
    r"\ufeff?(?P<mark>---|\+\+\+)[ \t]*\r?\n(?P<content>(?:(?!(?P=mark)[ \t]*\r?$)[^\n]*\n)*?)(?P=mark)[ \t]*\r?$",
    re.MULTILINE,
)


def read_front_matter(builder: Builder) -> int:
    """Add the values of the front matter, and return its end; where there is none, the start of the document.

    Raises InvalidInput for front matter that is nested too deep, or that has a type of its own for a scalar.
    """
    source = builder.content
    match = _FRONT_MATTER.match(source)
    if match is None or not _READERS[match["mark"][0]](builder, *match.span("content")):
        return int(source.startswith("\ufeff"))
    builder.show(NEW_VALUE)
    return match.end()
