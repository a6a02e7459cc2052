"""A link that signs in once, for whoever has started the gateway on this machine.

Guarantee: a link works once, for `LINK_S` after it was made, from this machine, in the process that made it. Its token
has 128 random bits and is in the memory of that process alone. The session is that of its key and ends with it.
"""

import hmac
import ipaddress
import secrets
import time

from fastapi import Request

from core.errors import SignOnFailed
from core.state.keystore import ApiKey, KeyRole, KeyStore

LINK_S = 600


class SignInLink:
    """The link of a gateway; it has at most one."""

    def __init__(self, keys: KeyStore) -> None:
        self._keys = keys
        self._made: tuple[str, str, float] | None = None  # the token, the key, when it ends

    async def make(self, key: str) -> str:
        """Return the token of a new link for a key. Raises SignOnFailed for a key that signs nobody in."""
        key = key.strip()
        await self._found(key)
        token = secrets.token_urlsafe(16)
        self._made = (token, key, time.monotonic() + LINK_S)
        return token

    async def use(self, request: Request, token: str) -> ApiKey:
        """Return the facts about the key of a link, which does not work again. Raises SignOnFailed."""
        made = self._made
        if made is None or not _is_local(request) or not hmac.compare_digest(token.encode(), made[0].encode()):
            raise SignOnFailed(reason="link")
        self._made = None
        if time.monotonic() >= made[2]:
            raise SignOnFailed(reason="link")
        return await self._found(made[1])

    async def _found(self, key: str) -> ApiKey:
        found = await self._keys.authenticate(key)
        if found is None or KeyRole.READ not in found.roles:
            raise SignOnFailed(reason="link")
        return found


def _is_local(request: Request) -> bool:
    """Whether a request comes from this machine, as far as trusted proxies say whom they forward."""
    try:
        return request.client is not None and ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False
