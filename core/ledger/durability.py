"""The Redis settings that the ledger's guarantees depend on.

With them, an acknowledged write survives a power failure, the log is never truncated silently, and no key is evicted.
The embedded server starts with these settings, and `deploy/redis.conf` repeats them. The gateway checks them at its
start, on every new connection and at intervals, because `CONFIG SET` can change them while Redis runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from core.errors import LedgerNotDurable

REQUIRED_SETTINGS: dict[str, str] = {
    # write every transition to the append-only file
    "appendonly": "yes",
    # sync the file before the reply; `everysec` lost acknowledged holds in a simulated power failure
    "appendfsync": "always",
    # sync also while the file is being rewritten
    "no-appendfsync-on-rewrite": "no",
    # refuse writes when the memory is full; any other policy may evict an account
    "maxmemory-policy": "noeviction",
    # refuse to start with a torn file instead of truncating it, so that the operator decides
    "aof-load-truncated": "no",
}


async def check_configuration(call: Callable[..., Awaitable[Any]]) -> None:
    """Reject a server that could lose or evict an acknowledged write. `call` sends one command to that server.

    Raises LedgerNotDurable with the name of the setting. Raises LedgerUnavailable if the settings cannot be read.
    """
    for name, wanted in REQUIRED_SETTINGS.items():
        if await call("CONFIG", "GET", name) != [name.encode(), wanted.encode()]:
            raise LedgerNotDurable(f"Redis must run with `{name} {wanted}`.")


def _quoted(path: Path) -> str:
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def embedded_conf(*, directory: Path, socket: Path) -> str:
    """Return the configuration file of the embedded server: a unix socket, no TCP port, data in `directory`."""
    lines = [
        "# written at every start; edits are lost",
        "port 0",
        f"unixsocket {_quoted(socket)}",
        "unixsocketperm 700",
        f"dir {_quoted(directory)}",
        'appendfilename "ledger.aof"',
        'save ""',
        "daemonize no",
        "databases 1",
        "loglevel notice",
        # An account is a small hash whose texts are longer than the default limit of the compact encoding.
        # Redis 6.2 uses these setting names, and 7.0 accepts them as aliases.
        "hash-max-ziplist-value 512",
        "hash-max-ziplist-entries 64",
        *(f"{name} {value}" for name, value in REQUIRED_SETTINGS.items()),
    ]
    return "\n".join(lines) + "\n"
