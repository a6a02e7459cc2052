"""Lines of bytes that arrive in chunks: their numbers, and the limit on their length."""

from __future__ import annotations

import pytest

from gpu_workers.jobs.corpus import LineTooLong, lines


def test_lines_across_chunks_and_their_limit() -> None:
    chunks = [b"ab", b"c\n\n  \nde", b"f\r\n", b"g"]
    assert list(lines(chunks, bytes_max=10)) == [(1, b"abc"), (4, b"def"), (5, b"g")]
    assert list(lines([], bytes_max=10)) == []
    with pytest.raises(LineTooLong) as found:
        list(lines([b"a\n", b"12345", b"678901", b"2"], bytes_max=10))
    assert found.value.number == 2
