"""The randomness of surrogates: a keyed function of what is replaced.

Guarantee: a `Draw` is a function of the key, the parts and the attempt alone, so that every process that has the key
draws the same surrogate for the same original. Without the key, its values are indistinguishable from random ones if
HMAC-SHA256 is a pseudorandom function.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import string
from collections.abc import Sequence
from typing import TypeVar

from core.text.policy import SURROGATE_KEY_BYTES
from core.text.surrogates.terms import Document

DIGITS_AT_ONCE = 18
# From this attempt on, a function widens its range. While half of a range is free, so many draws fail for one value in
# 4,000; where a document has used up a range, each of its values takes so many draws.
LONG_DRAWS = 12

_T = TypeVar("_T")


def new_key() -> bytes:
    """Return a random key for one document."""
    return secrets.token_bytes(SURROGATE_KEY_BYTES)


class Draw:
    """An endless stream of random values. `attempt`: how many values were drawn for the same original before."""

    def __init__(self, document: Document, *parts: str, attempt: int = 0) -> None:
        self.document = document
        self.attempt = attempt
        self.long = attempt >= LONG_DRAWS
        framed = "\0".join((*parts, str(attempt))).encode("utf-8", "surrogatepass")
        self._seed = hmac.digest(document.key, framed, "sha256")
        self._bytes = b""
        self._block = 0

    def below(self, limit: int) -> int:
        """Return an integer of [0, limit). The bias is below 2^-32."""
        count = (limit.bit_length() + 7) // 8 + 4
        while len(self._bytes) < count:
            block = hashlib.sha512(self._seed + self._block.to_bytes(4, "big")).digest()
            self._bytes, self._block = self._bytes + block, self._block + 1
        taken, self._bytes = self._bytes[:count], self._bytes[count:]
        return int.from_bytes(taken, "big") % limit

    def between(self, least: int, most: int) -> int:
        return least + self.below(most - least + 1)

    def choice(self, values: Sequence[_T]) -> _T:
        return values[self.below(len(values))]

    def digits(self, count: int) -> str:
        groups = [min(DIGITS_AT_ONCE, count - done) for done in range(0, count, DIGITS_AT_ONCE)]
        return "".join(str(self.below(10**group)).zfill(group) for group in groups)

    def letters(self, count: int) -> str:
        return "".join(self.choice(string.ascii_lowercase) for _ in range(count))

    def raw(self, count: int) -> bytes:
        return self.below(256**count).to_bytes(count, "big")

    def invented(self) -> str:
        """Return a random name, for a document that masks the names of the lists."""
        return self.letters(8 + self.attempt // LONG_DRAWS).capitalize()
