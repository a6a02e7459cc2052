"""The text that recognisers read."""

from __future__ import annotations

import re

# Invisible characters between visible ones. They would split a number or an address for a recogniser, but not for a
# reader. In other places (emoji, joining scripts) they have a meaning and stay. The pattern begins with the class of
# invisible characters because a search for a rare character is fast.
INVISIBLE = r"[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]"
HIDDEN = re.compile(rf"{INVISIBLE}(?<=[!-~]{INVISIBLE}){INVISIBLE}*(?=[!-~])")


def visible(text: str) -> str:
    """Return the text without invisible characters inside visible ones: the text that inspection and taggers use."""
    return text if text.isascii() else HIDDEN.sub("", text)
