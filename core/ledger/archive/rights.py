"""Whether the users of Redis have the rights that an archiver needs: found at the start, not by the first removal."""

from __future__ import annotations

from core.errors import LedgerUnavailable
from core.ledger import names
from core.ledger.client import NOT_PERMITTED, LedgerClient

_ABSENT = "{seals}:absent"  # no such key
# Commands of a round, with arguments that change nothing.
_OF_THE_LEDGER: tuple[tuple[str | int, ...], ...] = (
    ("XRANGE", names.SEAL_CHAIN_KEY, "-", "+", "COUNT", 1),
    ("ZRANGEBYSCORE", _ABSENT, 0, 0),
    ("ZADD", _ABSENT, "XX", 0, "x"),
    ("ZREMRANGEBYSCORE", _ABSENT, 0, 0),
    ("HMGET", _ABSENT, "x"),
    ("HGETALL", _ABSENT),
    ("HDEL", _ABSENT, "x"),
)
_OF_THE_ARCHIVER: tuple[tuple[str | int, ...], ...] = (
    ("XRANGE", names.SEAL_CHAIN_KEY, "-", "+", "COUNT", 1),
    ("HMGET", _ABSENT, "x"),
    ("XTRIM", names.SEAL_CHAIN_KEY, "MINID", 0),
)


async def check_archive_rights(client: LedgerClient, trim_client: LedgerClient) -> None:
    """Try each command of an archiver's round in a way that changes nothing. Raises LedgerUnavailable.

    `client` is the ledger's user, and `trim_client` the one that removes archived entries.
    """
    for command in _OF_THE_LEDGER:
        await _try(client, "REDIS_URL", command)
    for command in _OF_THE_ARCHIVER:
        await _try(trim_client, "ARCHIVE_REDIS_URL (without it: REDIS_URL)", command)
    try:
        await trim_client.run("trim", key=names.SEAL_CHAIN_KEY, args={"keep": 0})
    except LedgerUnavailable as error:
        raise LedgerUnavailable(f"{error.detail} The archiver cannot run scripts; see deploy/users.acl.") from error


async def _try(client: LedgerClient, setting: str, command: tuple[str | int, ...]) -> None:
    try:
        await client.call(*command)
    except LedgerUnavailable as error:
        if error.detail != NOT_PERMITTED:
            raise LedgerUnavailable(f"{error.detail} The archive needs the Redis user of {setting}.") from error
        raise LedgerUnavailable(
            f"The Redis user of {setting} may not call {command[0]}, which the archive needs. deploy/users.acl has the "
            "rights; or set ARCHIVE=off."
        ) from error
