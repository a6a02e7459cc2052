"""Lines of bytes that arrive in chunks, with a limit on the length of a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class LineTooLong(ValueError):
    """A line above the limit; `number` counts from 1."""

    def __init__(self, number: int) -> None:
        super().__init__("a line is too long")
        self.number = number


def lines(chunks: Iterable[bytes], *, bytes_max: int) -> Iterator[tuple[int, bytes]]:
    """Number (from 1) and bytes of each line that is not blank. Raises LineTooLong."""
    rest = b""
    number = 0
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n") if b"\n" in chunk else (rest + chunk,)
        for line in whole:
            number += 1
            if len(line) > bytes_max:
                raise LineTooLong(number)
            if stripped := line.strip(b" \t\r"):
                yield number, stripped
        if len(rest) > bytes_max:
            raise LineTooLong(number + 1)
    if stripped := rest.strip(b" \t\r"):
        yield number + 1, stripped
