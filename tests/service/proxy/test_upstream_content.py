"""Content of answers: small pieces, whatever it expands to."""

import gzip
import tracemalloc

from service.proxy.call import CallContent, content

MIB = 1024 * 1024


def pieces(reader: CallContent, raw: bytes) -> list[int]:
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
