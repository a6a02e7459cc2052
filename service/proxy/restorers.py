"""The restorers of one answer, as dialects need them (`service.proxy.dialects.protocol.Restorers`)."""

from __future__ import annotations

from core.text.reversible.mapping import Mapping
from service.proxy.dialects.protocol import Restorer


class MappingRestorers:
    def __init__(self, surrogates: Mapping) -> None:
        self._surrogates = surrogates

    def text(self) -> Restorer:
        return self._surrogates.restorer()

    def json(self) -> Restorer:
        return self._surrogates.restorer("json")

    def whole(self, text: str) -> str:
        return self._surrogates.restore(text)

    def whole_json(self, text: str) -> str:
        restorer = self._surrogates.restorer("json")
        return restorer.feed(text) + restorer.end()
