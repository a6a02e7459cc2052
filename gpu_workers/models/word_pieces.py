"""The pieces of a vocabulary that begin or continue a word of letters, or a number of digits 0 to 9."""

from __future__ import annotations

from collections.abc import Callable

from tokenizers import Tokenizer

from gpu_workers.models.one_word import is_digits

_BEGINS = ("Ġ", "▁")  # byte-level BPE and unigram vocabularies mark the pieces that begin a word
_CONTINUES = "##"  # WordPiece vocabularies mark the pieces that continue a word


def word_beginnings(tokenizer: Tokenizer) -> dict[int, str]:
    """Every piece that begins a word and has only letters, by its number, as it reads inside a text."""
    return _beginnings(tokenizer, str.isalpha)


def number_beginnings(tokenizer: Tokenizer) -> dict[int, str]:
    """The same for digits."""
    return _beginnings(tokenizer, is_digits)


def word_continuations(tokenizer: Tokenizer) -> dict[int, str]:
    """Every piece that directly follows another one and has only letters, by its number, as it reads there."""

    return _continuations(tokenizer, str.isalpha)


def number_continuations(tokenizer: Tokenizer) -> dict[int, str]:
    """The same for digits."""
    return _continuations(tokenizer, is_digits)


def _beginnings(tokenizer: Tokenizer, wanted: Callable[[str], bool]) -> dict[int, str]:
    pieces = tokenizer.get_vocab()
    marked = _marked(pieces)
    spelt = {}
    for piece, number in pieces.items():
        text = tokenizer.decode([number]).strip() if piece in marked else "" if marked else piece
        if wanted(text):
            spelt[int(number)] = text
    return spelt


def _continuations(tokenizer: Tokenizer, wanted: Callable[[str], bool]) -> dict[int, str]:
    pieces = tokenizer.get_vocab()
    marked = _marked(pieces)
    spelt = {}
    for piece, number in pieces.items():
        if marked:
            part = "" if piece in marked else tokenizer.decode([number])
        else:
            part = piece.removeprefix(_CONTINUES) if piece.startswith(_CONTINUES) else ""
        if wanted(part):
            spelt[int(number)] = part
    return spelt


def _marked(pieces: dict[str, int]) -> set[str]:
    return {piece for piece in pieces if piece[:1] in _BEGINS}
