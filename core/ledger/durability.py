"""The Redis settings that the ledger's promises rest on, in one place.

An acknowledged write survives the loss of power, the log is never cut short in silence, and no key is evicted.
The embedded server is started with these settings, `deploy/redis.conf` repeats them, and every start checks them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from core.errors import LedgerUnavailable

REQUIRED_SETTINGS: dict[str, str] = {
    # every transition goes to the append-only file
    "appendonly": "yes",
    # ... and is on the disk before the reply; `everysec` lost acknowledged holds in a simulated loss of power
    "appendfsync": "always",
    # ... also while the file is being rewritten
    "no-appendfsync-on-rewrite": "no",
    # a full server refuses writes; any other policy may evict an account
    "maxmemory-policy": "noeviction",
    # a file with a torn end is shown to the operator, not shortened and served
    "aof-load-truncated": "no",
}


async def check_configuration(call: Callable[..., Awaitable[Any]]) -> None:
    """Refuse a server on which an acknowledged write could be lost or evicted; `call` sends it one command.

    Raises LedgerUnavailable naming the setting; also when the server does not let its settings be read.
    """
    for name, wanted in REQUIRED_SETTINGS.items():
        if await call("CONFIG", "GET", name) != [name.encode(), wanted.encode()]:
            raise LedgerUnavailable(f"Redis must run with `{name} {wanted}`.")


def _quoted(path: Path) -> str:
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def embedded_conf(*, directory: Path, socket: Path) -> str:
    """The configuration file of the embedded server: a unix socket, no TCP port, data in `directory`."""
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
        # an account is a small hash with longer texts than the default allows in the compact encoding; these names
        # are known to 6.2, and to 7.0 as aliases
        "hash-max-ziplist-value 512",
        "hash-max-ziplist-entries 64",
        *(f"{name} {value}" for name, value in REQUIRED_SETTINGS.items()),
    ]
    return "\n".join(lines) + "\n"
