"""Surrogates of given finds, as if a recogniser had found them."""

from core.text.fill_surrogate import fill
from core.text.mask_words import AllowLists
from core.text.policy import Mask, MaskPolicy

KEY = b"k" * 32


def surrogates_of(*finds: tuple[str, str], language: str = "en", key: bytes | None = None) -> list[str]:
    """Return the surrogates of (type, original) pairs of one document."""
    text, masks = "", []
    for type_, original in finds:
        text += "· "
        masks.append(Mask(len(text), len(text) + len(original), type_, "entity"))
        text += f"{original} "
    return fill(text, masks, MaskPolicy(), AllowLists(), key=key, language=language)


def all_of(type_: str, *originals: str, language: str = "en", key: bytes | None = None) -> list[str]:
    return surrogates_of(*((type_, original) for original in originals), language=language, key=key)
