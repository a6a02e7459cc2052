"""The restorers of one answer, as dialects need them (`service.proxy.dialects.protocol.Restorers`)."""

from collections.abc import Mapping as AbstractMapping
from types import MappingProxyType

from core.text.reversible.mapping import Mapping
from service.proxy.dialects.protocol import Restorer


class MappingRestorers:
    """`pseudonyms`: of the names of users in the request, and the names. An answer repeats them whole."""

    def __init__(self, surrogates: Mapping, pseudonyms: AbstractMapping[str, str] = MappingProxyType({})) -> None:
        self._surrogates = surrogates
        self._pseudonyms = pseudonyms

    def text(self) -> Restorer:
        return self._surrogates.restorer()

    def json(self) -> Restorer:
        return self._surrogates.restorer("json")

    def whole(self, text: str) -> str:
        return self._pseudonyms.get(text) or self._surrogates.restore(text)

    def whole_json(self, text: str) -> str:
        restorer = self._surrogates.restorer("json")
        return restorer.feed(text) + restorer.end()
