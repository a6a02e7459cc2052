"""What recognisers find in the texts of a conversation.

Clients send the whole conversation with every request, so most of its texts were read before. `Finds` keeps where and
of which type the finds were, in memory, by a keyed hash of tenant, policy and text. It holds no text.
"""

from __future__ import annotations

import hashlib
import hmac
import pickle
import secrets
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from core.byte_cache import ByteCache
from core.text.policy import Sanitised
from gpu_workers.handlers.sanitize_tasks import DocumentTask

_ENTRY_BYTES = 400
_REGION_BYTES = 150


Region = tuple[int, int, str]  # code points [start, end) of a text, and the type of the find


@dataclass(frozen=True)
class Read:
    """What was found in one text. `refused`: its language is one that the policy refuses."""

    regions: tuple[Region, ...] = ()
    language: str | None = None
    refused: bool = False

    @property
    def size(self) -> int:
        return _ENTRY_BYTES + _REGION_BYTES * len(self.regions)


NOTHING = Read()


class Finds:
    """Used on the event loop only, without locks."""

    def __init__(self, bytes_max: int) -> None:
        self._key = secrets.token_bytes(32)
        self._kept: ByteCache[bytes, Read] = ByteCache(bytes_max)

    def name(self, tenant: str, task: DocumentTask) -> bytes:
        """The name of what is found by a task: a keyed hash, which tells nothing without the key of this process."""
        parts = pickle.dumps((tenant, task.policy, task.text), protocol=5)
        return hmac.digest(self._key, parts, hashlib.sha256)

    def get(self, name: bytes) -> Read | None:
        return self._kept.get(name)

    def keep(self, name: bytes, read: Read) -> None:
        if self._kept.get(name) is None:
            self._kept.put(name, read, read.size)


def read_of(result: Sanitised) -> Read:
    """The finds of a dry run with origins."""
    if result.refused:
        return Read(refused=True)
    if result.origins is None:
        raise TypeError("the finds have no places")
    pairs = zip(result.origins, result.spans, strict=True)
    regions = tuple((origin.start, origin.end, span.type) for origin, span in pairs)
    return Read(regions, result.language)


def main_language(texts: Sequence[str], reads: Sequence[Read], known: Collection[str]) -> str | None:
    """The known language in which most of a conversation is written; None without one."""
    sizes: Counter[str] = Counter()
    for text, read in zip(texts, reads, strict=True):
        if read.language is not None and read.language in known:
            sizes[read.language] += len(text)
    return max(sizes, key=lambda language: sizes[language], default=None)
