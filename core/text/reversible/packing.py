"""A mapping as bytes, for storage under encryption."""

from __future__ import annotations

import json
import zlib

from core.text.reversible.mapping import Earlier, Pair


def packed(mapping: Earlier) -> bytes:
    """Return the bytes, compressed. Their number shows about how much was masked."""
    content = {
        "language": mapping.language,
        "blocked": sorted(mapping.blocked),
        "pairs": [list(pair) for pair in mapping.pairs],
    }
    return zlib.compress(json.dumps(content).encode())


def unpacked(content: bytes, *, bytes_max: int) -> Earlier:
    """Return the mapping of bytes that `packed` made. Raises ValueError for more than `bytes_max` bytes."""
    reader = zlib.decompressobj()
    plain = reader.decompress(content, bytes_max)
    if reader.unconsumed_tail:
        raise ValueError("a mapping larger than expected")
    found = json.loads(plain)
    pairs = tuple(Pair(*pair) for pair in found["pairs"])
    return Earlier(pairs, found["language"], frozenset(found["blocked"]))
