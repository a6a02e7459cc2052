"""Fill `marker`: one fixed marker, which reveals only that something was masked."""

from collections.abc import Sequence

from core.text.mask_words import AllowLists
from core.text.policy import Mask, MaskPolicy

MARKER = "[MASK]"


def fill(text: str, masks: Sequence[Mask], policy: MaskPolicy, lists: AllowLists) -> list[str]:  # noqa: ARG001
    return [MARKER] * len(masks)
