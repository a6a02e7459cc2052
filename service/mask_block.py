"""The block `mask` of a request: what is masked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from core.errors import InvalidInput
from core.text.policy import ALLOW_LIST_DEFAULT, VOCABULARY_SIZE_DEFAULT, MaskPolicy
from service.body import Strict

Technique = Literal["entity", "vocabulary", "allow_list", "all"]


class Mask(Strict):
    """What is masked. Techniques combine by union."""

    techniques: list[Technique] = Field(default=["entity"], min_length=1, max_length=4)
    entities: list[str] | None = Field(None, max_length=64, description="Default: the catalogue at GET /entities.")
    vocabulary_size: int = VOCABULARY_SIZE_DEFAULT
    allow_list: str = Field(ALLOW_LIST_DEFAULT, max_length=64)

    def check(self, allow_lists: Sequence[str]) -> None:
        """Raises InvalidInput for an allow list that is none of these."""
        if self.allow_list not in allow_lists:
            raise InvalidInput("no such allow list; GET /models names them", field="mask.allow_list")

    def policy(self, techniques: Sequence[str] | None = None) -> MaskPolicy:
        """The block as a policy, with other techniques where they are given. Raises InvalidInput."""
        return MaskPolicy.of_block(self.model_dump() | ({"techniques": techniques} if techniques else {}))
