"""What recognisers find in the texts of a conversation.

Clients send the whole conversation with every request, so most of its texts were read before. `Finds` keeps where and
of which type the finds were, in memory, by a keyed hash of tenant, policy and text. It holds no text.
"""

from __future__ import annotations

import hashlib
import hmac
import pickle
import secrets

from core.memory import ByteCache
from gpu_workers.handlers.sanitize_tasks import DocumentTask
from service.sanitize.reversible import Read


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
