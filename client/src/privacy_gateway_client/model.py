"""The base of the models in `generated/models.py`, which describe the answers of the gateway."""

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict

# Members with text or secrets, which no representation shows.
_HIDDEN = {"text", "key", "secret", "restore_token", "form_token", "patterns", "deny", "allow", "context", "embedding"}


class Answer(BaseModel):
    """An answer, or a part of one. A member that a later gateway adds is kept in `model_extra`."""

    model_config = ConfigDict(extra="allow", protected_namespaces=(), hide_input_in_errors=True, defer_build=True)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return [(name, value) for name, value in super().__repr_args__() if name not in _HIDDEN]
