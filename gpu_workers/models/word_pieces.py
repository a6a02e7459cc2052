"""Which pieces of a vocabulary begin a word, and which go on one. Letters alone count."""

from __future__ import annotations

from tokenizers import Tokenizer

_BEGINS = ("Ġ", "▁")  # byte-level BPE and unigram mark the pieces that begin a word
_GOES_ON = "##"  # WordPiece those that go on one


def word_beginnings(tokenizer: Tokenizer) -> dict[int, str]:
    """Every piece that begins a word and has only letters, by its number, as it reads inside a text."""
    pieces = tokenizer.get_vocab()
    marked = _marked(pieces)
    spelt = {}
    for piece, number in pieces.items():
        word = tokenizer.decode([number]).strip() if piece in marked else "" if marked else piece
        if word.isalpha():
            spelt[int(number)] = word
    return spelt


def word_continuations(tokenizer: Tokenizer) -> dict[int, str]:
    """Every piece that stands right behind another one and has only letters, by its number, as it reads there."""
    pieces = tokenizer.get_vocab()
    marked = _marked(pieces)
    spelt = {}
    for piece, number in pieces.items():
        if marked:
            part = "" if piece in marked else tokenizer.decode([number])
        else:
            part = piece.removeprefix(_GOES_ON) if piece.startswith(_GOES_ON) else ""
        if part.isalpha():
            spelt[int(number)] = part
    return spelt


def _marked(pieces: dict[str, int]) -> set[str]:
    return {piece for piece in pieces if piece[:1] in _BEGINS}
