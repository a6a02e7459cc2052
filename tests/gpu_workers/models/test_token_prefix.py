"""A shortened text has the token ids of the whole text."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import cells
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from gpu_workers.models.encoder_model import bundled_path
from gpu_workers.models.pieces import TokenPrefix

TOKENS_MAX = 16


def bundled(tokens_max: int) -> Any:
    tokenizer = Tokenizer.from_file(str(bundled_path() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(tokens_max)
    return tokenizer


TOKENIZER = bundled(TOKENS_MAX)
PREFIX = TokenPrefix(TOKENIZER, TOKENS_MAX)

# Words, separators, characters without a token, combining marks that the normaliser keeps or reorders, added tokens and
# parts of them, characters that are decomposed, words above the longest word of a WordPiece.
UNITS = [
    *"aZ9é漢あ각!，。_-'[]#\t\n\r ",
    *"\u00a0\u2003\u200b\ufeff\ufffd\x00\x1c\x0b\u0301\u0338\u0591\u302e\U0001d165\u0345\u1160\u0f71İßΣ😀\ue000",
    *["[MASK]", "[MAS", "K]", "[CLS]", "[mask]", "##a", "word ", "telecommunications ", "a" * 101, "é" * 99, " " * 300],
]
RUNS = st.tuples(st.sampled_from(UNITS), st.integers(1, 400)).map(lambda run: run[0] * run[1])
MIXED = st.lists(st.sampled_from(UNITS), min_size=1, max_size=12).flatmap(
    lambda units: st.integers(1, 300).map(lambda times: "".join(units) * times)
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(RUNS, MIXED, st.text(max_size=20)), min_size=1, max_size=6).map("".join))
def test_the_token_ids_are_those_of_the_whole_text(text: str) -> None:
    assert text.startswith(PREFIX.of(text))
    assert TOKENIZER.encode(PREFIX.of(text)).ids == TOKENIZER.encode(text).ids


@pytest.mark.parametrize("unit", cells(["word ", "漢", "a ", "!", "[MASK]", "é, ", "telecommunications "], fast=2))
def test_a_long_text_is_cut(unit: str) -> None:
    text = unit * 100_000
    assert len(PREFIX.of(text)) <= 10_000
    assert TOKENIZER.encode(PREFIX.of(text)).ids == TOKENIZER.encode(text).ids


def test_characters_without_a_token_do_not_count() -> None:
    text = "\x00 " * 50_000 + "word " * 50_000
    assert 100_000 < len(PREFIX.of(text)) < 110_000
    assert TOKENIZER.encode(PREFIX.of(text)).ids == TOKENIZER.encode(text).ids


def test_texts_of_other_tokenizers_are_left_as_they_are() -> None:
    """Nothing is known about which characters of a text can change its first tokens."""
    unknown = Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
    unknown.normalizer = normalizers.NFKC()
    unknown.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    text = "word " * 100_000
    assert TokenPrefix(unknown, TOKENS_MAX).of(text) == text
