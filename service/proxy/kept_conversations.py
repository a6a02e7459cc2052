"""Conversations that an upstream keeps: their surrogates are in the vault until a request continues them.

Guarantee: an answer whose identifier a client has read is in the vault, for the entry is durable before the first byte
with the identifier leaves. What a tenant stores is found by this tenant alone, for the same upstream and identifier. An
entry does not change: requests that continue the same answer each make an entry of their own.
"""

from dataclasses import dataclass, field

from core.errors import InvalidInput, UpstreamAnswerInvalid
from core.state.vault import Vault
from core.text.reversible.mapping import Content
from service.config.settings import Settings
from service.preparation import Preparation
from service.proxy.dialects.protocol import CONTINUED

KEY_BYTES = 32
_CHARS_FACTOR = 4  # characters of a mapping for each byte that an entry may have
_CONTENT_FACTOR = 64  # bytes that an entry may expand to, for each of its bytes


@dataclass(frozen=True)
class Kept:
    """What of a conversation is kept: the key of its surrogates, and its mapping."""

    key: bytes = field(repr=False)
    content: Content

    @property
    def chars(self) -> int:
        return sum(len(pair.original) + len(pair.surrogate) for pair in self.content.pairs)


class Keeping:
    """The entry of one answer, which is written once the answer tells its identifier."""

    def __init__(self, vault: Vault, tenant: str, upstream: str, packed: bytes, *, lifetime_s: float) -> None:
        self._vault = vault
        self._tenant = tenant
        self._upstream = upstream
        self._packed = packed
        self._lifetime_s = lifetime_s
        self._is_kept = False

    async def answered(self, answer_id: str | None) -> None:
        """Write the entry under the first identifier. Return once it is durable.

        Raises UpstreamAnswerInvalid for the identifier of another answer: an upstream that answers equal requests from
        a cache would give one conversation the names of another. Raises TenantLimitReached, LedgerUnavailable."""
        if answer_id is None or self._is_kept:
            return
        name = _name(self._upstream, answer_id)
        if not await self._vault.put(self._tenant, name, self._packed, lifetime_s=self._lifetime_s, only_new=True):
            raise UpstreamAnswerInvalid(reason="repeated-id")
        self._is_kept = True


class KeptConversations:
    """The conversations of all tenants."""

    def __init__(self, vault: Vault, settings: Settings, preparation: Preparation) -> None:
        self._vault = vault
        self._lifetime_s = settings.vault_lifetime_s
        self._bytes_max = settings.vault_entry_bytes_max
        self._preparation = preparation

    async def find(self, tenant: str, upstream: str, answer_id: str) -> Kept:
        """The conversation up to an answer. Raises InvalidInput for one that is not in the vault, LedgerUnavailable."""
        packed = await self._vault.get(tenant, _name(upstream, answer_id))
        if packed is not None:
            try:
                return await self._preparation.run(tenant, len(packed), self._unpacked, packed)
            except ValueError:
                pass
        raise InvalidInput(
            "The vault has no such response of this tenant and model, or no longer: send the conversation itself.",
            field=CONTINUED,
        )

    async def keeping(self, tenant: str, upstream: str, kept: Kept) -> Keeping:
        """The entry of an answer that is to come. Raises InvalidInput for too much, TenantLimitReached if the vault is
        full, LedgerUnavailable."""
        size = kept.chars
        packed = await self._preparation.run(tenant, size, lambda: kept.key + kept.content.packed())
        if size > _CHARS_FACTOR * self._bytes_max or len(packed) > self._bytes_max:
            raise InvalidInput("So much is masked in this conversation that the vault does not keep it.", field="store")
        await self._vault.check_space(tenant, len(packed))
        return Keeping(self._vault, tenant, upstream, packed, lifetime_s=self._lifetime_s)

    def _unpacked(self, packed: bytes) -> Kept:
        content = Content.unpacked(packed[KEY_BYTES:], bytes_max=_CONTENT_FACTOR * self._bytes_max)
        return Kept(packed[:KEY_BYTES], content)


def _name(upstream: str, answer_id: str) -> str:
    return f"response\0{upstream}\0{answer_id}"
