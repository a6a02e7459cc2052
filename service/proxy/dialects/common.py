"""What the wire formats have in common."""

from __future__ import annotations

from typing import Any

from service.proxy.dialects.protocol import Restorers
from service.proxy.dialects.requests import flag, model_of
from service.proxy.dialects.restoring import restore_error


class CommonDialect:
    """The methods of `protocol.Dialect` that do not depend on the format, or that most formats have in common."""

    def model(self, body: Any) -> str:
        return model_of(body)

    def streams(self, body: Any) -> bool:
        return flag(body, "stream", default=False)

    def continues(self, body: Any) -> str | None:
        del body
        return None

    def answer_id(self, data: Any) -> str | None:
        del data
        return None

    def restore_error(self, body: Any, restorers: Restorers) -> None:
        restore_error(body, restorers)
