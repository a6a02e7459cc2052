"""SECRET and PASSWORD: random characters of the same kinds in the same places.

No prefix by which a scanner would take the surrogate for a token of a provider is kept: a scanner that verifies what it
finds would call that provider. Kept are the lines that begin and end a block of a key, and the scheme of a connection
string, which name no provider's account.
"""

from __future__ import annotations

import regex  # type: ignore[import-untyped]

from core.text.surrogates.draw import Draw
from core.text.surrogates.shape import longer, same_shape

SAME_MAX = 3  # the first characters that must not all be those of the original

_MARKER = regex.compile(r"-{4,5} ?(?:BEGIN|END) [A-Z0-9 ]{1,60}-{4,5}|^[a-z][a-z0-9+]{1,15}://|\\[nr]")


def secret(original: str, draw: Draw) -> str:
    pieces, read = [], 0
    for marker in _MARKER.finditer(original):
        pieces += [_random(original[read : marker.start()], draw), marker.group()]
        read = marker.end()
    return "".join((*pieces, _random(original[read:], draw))) + longer(draw)


def _random(text: str, draw: Draw) -> str:
    fresh = same_shape(text, draw)[: len(text)]
    while len(text) > SAME_MAX and text[:SAME_MAX].isalnum() and fresh[:SAME_MAX] == text[:SAME_MAX]:
        fresh = same_shape(text, draw)[: len(text)]
    return fresh
