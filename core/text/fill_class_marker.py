"""Fill `class_marker`: the type of the masked region, such as [EMAIL_ADDRESS], [WORD] or [NUMBER]."""

from collections.abc import Sequence

from core.text.mask_words import AllowLists
from core.text.policy import Mask, MaskPolicy


def fill(text: str, masks: Sequence[Mask], policy: MaskPolicy, lists: AllowLists) -> list[str]:  # noqa: ARG001
    return [f"[{mask.type}]" for mask in masks]
