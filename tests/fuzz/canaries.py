"""Marked strings in everything that a caller can send, and the search for them where none may be."""

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import redis

MARK = "zqcanary"
# Members that the gateway stores or repeats by design: names of jobs and domains, ids of documents.
_PUBLIC = {"name", "id", "source", "licence", "labels", "schema", "domain", "model"}


def canary(rng: random.Random) -> str:
    return f"{MARK}{rng.getrandbits(48):012x}"


def marked(value: Any, rng: random.Random) -> Any:
    """A JSON value with canaries in some of its texts, and sometimes in an unknown key."""
    if isinstance(value, str):
        return f"{value} {canary(rng)}" if rng.random() < 0.5 else value
    if isinstance(value, list):
        return [marked(item, rng) for item in value]
    if isinstance(value, dict):
        found = {key: item if key in _PUBLIC else marked(item, rng) for key, item in value.items()}
        return found | {canary(rng): canary(rng)} if rng.random() < 0.05 else found
    return value


def found_in_files(folder: Path, *others: Path) -> list[str]:
    """The files that hold a canary."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [f"file {path.name}" for path in (*files, *others) if _holds(path)]


def _holds(path: Path) -> bool:
    mark, carried = MARK.encode(), b""
    try:
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                if mark in carried + piece:
                    return True
                carried = piece[-len(mark) :]
    except OSError:  # a file of a job that has ended meanwhile
        return False
    return False


def found_in_redis(socket: Path) -> list[str]:
    """The keys that hold a canary in their name or in their value."""
    client = redis.Redis(unix_socket_path=str(socket))
    return [f"Redis {key[:60]!r}" for key, value in _stored(client) if MARK.encode() in key or MARK in repr(value)]


def _stored(client: Any) -> Iterator[tuple[bytes, Any]]:
    reading = {b"string": client.get, b"hash": client.hgetall, b"set": client.smembers, b"stream": client.xrange}
    reading |= {b"zset": partial(client.zrange, start=0, end=-1), b"list": partial(client.lrange, start=0, end=-1)}
    for key in client.scan_iter(count=1000):
        if read := reading.get(client.type(key)):  # a key may have expired since
            yield key, read(key)
