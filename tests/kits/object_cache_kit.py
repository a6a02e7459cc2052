"""Objects for the cache of a worker server."""

from __future__ import annotations

import hashlib

from gpu_workers.engine.constants import group_of_tenant
from gpu_workers.engine.remote.object_cache import Key, ObjectCache


def named(tenant: str, content: bytes) -> Key:
    return group_of_tenant(tenant), hashlib.sha256(content).hexdigest()


def keep(cache: ObjectCache, tenant: str, content: bytes, *, size: int | None = None, key: Key | None = None) -> Key:
    key = key or named(tenant, content)
    arrival = cache.arrival(key, len(content) if size is None else size)
    try:
        arrival.write(memoryview(content))
        arrival.finish()
    finally:
        arrival.close()
    return key
