"""Content of answers: small pieces, whatever it expands to."""

from __future__ import annotations

import gzip
import tracemalloc

from service.proxy.content import Content, content

MIB = 1024 * 1024


def pieces(reader: Content, raw: bytes) -> list[int]:
    """The sizes of the pieces that `raw` expands to."""
    reader.feed(raw)
    found = []
    while piece := reader.piece():
        found.append(len(piece))
    reader.end()
    return found


def test_compressed_content_expands_in_small_pieces() -> None:
    raw = gzip.compress(b" " * 64 * MIB)
    tracemalloc.start()
    found = pieces(content("gzip"), raw)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert sum(found) == 64 * MIB
    assert max(found) <= MIB
    assert peak < 4 * MIB


def test_content_is_the_same_for_every_split_of_compressed_bytes() -> None:
    text = b"".join(b"%d;" % number for number in range(2000))
    raw = gzip.compress(text)
    for size in (1, 7, 64, len(raw)):
        reader, read = content("gzip"), b""
        for at in range(0, len(raw), size):
            reader.feed(raw[at : at + size])
            while piece := reader.piece():
                read += piece
        reader.end()
        assert read == text
