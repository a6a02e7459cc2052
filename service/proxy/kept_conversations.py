"""Conversations that an upstream keeps: their surrogates are in the vault until a request continues them.

Guarantee: an answer whose identifier a client has read is in the vault, for the entry is durable before the first byte
with the identifier leaves. What a tenant stores is found by this tenant alone, for the same upstream and identifier. An
entry changes at the end of its answer, by what the answer asks for, and then no more: requests that continue the same
answer each make an entry of their own. An entry that was deleted before does not come back.
"""

from dataclasses import dataclass, field

from core.errors import InvalidInput, UpstreamAnswerInvalid
from core.state.vault import Vault
from core.text.recognisers.asked import QUESTION_CHARS_MAX, REQUESTS_MAX, Asked
from core.text.reversible.mapping import Content
from service.config.settings import Settings
from service.preparation import Preparation
from service.proxy.dialects.protocol import CONTINUED

KEY_BYTES = 32
ASKED_BYTES = 4 * REQUESTS_MAX * QUESTION_CHARS_MAX  # no character takes more in an entry, which is compressed
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

    def packed(self, asked: Asked) -> bytes:
        """The bytes of an entry. `asked`: by the turns up to its answer."""
        is_open = () if asked.answered else asked.sentences
        return self.key + self.content._replace(asked=is_open, turns=asked.turns).packed()


class Keeping:
    """The entry of one answer, which is written once the answer tells its identifier."""

    def __init__(
        self,
        vault: Vault,
        preparation: Preparation,
        tenant: str,
        upstream: str,
        kept: Kept,
        asked: Asked,
        *,
        lifetime_s: float,
    ) -> None:
        self._vault = vault
        self._preparation = preparation
        self._tenant = tenant
        self._upstream = upstream
        self._kept = kept
        self._before = self._asked = asked
        self._lifetime_s = lifetime_s
        self._name: str | None = None  # of the entry
        self._written: Asked | None = None  # in the entry

    async def answered(self, answer_id: str | None, said: str) -> None:
        """Write the entry under the first identifier, and once more when it is known what the answer says. Return once
        it is durable. A later identifier changes nothing: an event may have that of something else.

        Raises UpstreamAnswerInvalid for the identifier of another answer: an upstream that answers equal requests from
        a cache would give one conversation the names of another. Raises TenantLimitReached, LedgerUnavailable."""
        is_new = self._written is None
        if is_new and answer_id is not None:
            self._name = _name(self._upstream, answer_id)
        if said:
            self._asked = self._before.after(said)
        if self._name is None or self._asked == self._written:
            return
        packed = await self._preparation.run(self._tenant, self._kept.chars, self._kept.packed, self._asked)
        kept = await self._vault.put(
            self._tenant, self._name, packed, lifetime_s=self._lifetime_s, only_new=is_new, only_old=not is_new
        )
        if is_new and not kept:
            raise UpstreamAnswerInvalid(reason="repeated-id")
        self._written = self._asked


class KeptConversations:
    """The conversations of all tenants."""

    def __init__(self, vault: Vault, settings: Settings, preparation: Preparation) -> None:
        self._vault = vault
        self._lifetime_s = settings.vault_lifetime_s
        self._bytes_max = settings.vault_entry_bytes_max
        self._preparation = preparation

    async def known(self, tenant: str, upstream: str, answer_id: str) -> Kept | None:
        """The conversation up to an answer; None for one that is not in the vault. Raises LedgerUnavailable."""
        packed = await self._vault.get(tenant, _name(upstream, answer_id))
        if packed is not None:
            try:
                return await self._preparation.run(tenant, len(packed), self._unpacked, packed)
            except ValueError:
                pass
        return None

    async def find(self, tenant: str, upstream: str, answer_id: str) -> Kept:
        """The same. Raises InvalidInput for one that is not in the vault."""
        if (kept := await self.known(tenant, upstream, answer_id)) is not None:
            return kept
        raise InvalidInput(
            "The vault has no such response of this tenant and model, or no longer: send the conversation itself.",
            field=CONTINUED,
        )

    async def keeping(self, tenant: str, upstream: str, kept: Kept, asked: Asked) -> Keeping:
        """The entry of an answer that is to come. `asked`: by the turns before it. Raises InvalidInput for too much,
        TenantLimitReached if the vault is full, LedgerUnavailable."""
        packed = await self._preparation.run(tenant, kept.chars, kept.packed, asked)
        size = len(packed) + ASKED_BYTES
        if kept.chars > _CHARS_FACTOR * self._bytes_max or size > self._bytes_max:
            raise InvalidInput("So much is masked in this conversation that the vault does not keep it.", field="store")
        await self._vault.check_space(tenant, size)
        return Keeping(self._vault, self._preparation, tenant, upstream, kept, asked, lifetime_s=self._lifetime_s)

    def _unpacked(self, packed: bytes) -> Kept:
        content = Content.unpacked(packed[KEY_BYTES:], bytes_max=_CONTENT_FACTOR * self._bytes_max)
        return Kept(packed[:KEY_BYTES], content)


def _name(upstream: str, answer_id: str) -> str:
    return f"response\0{upstream}\0{answer_id}"
