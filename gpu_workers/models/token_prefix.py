"""The part of a long text that determines its first tokens, so that the rest is not tokenised."""

from __future__ import annotations

from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

_CHARS_PER_TOKEN = 16


class TokenPrefix:
    """Shortens texts for a tokenizer that truncates them to `tokens_max` tokens.

    Guarantee: the tokenizer gives the same token ids for `of(text)` as for `text`.

    Proof, for a BERT tokenizer. It finds added tokens such as `[MASK]` from left to right. It normalises the text
    between them, which may reorder characters inside a combining sequence, but no such sequence contains the end of a
    word. It ends words by looking at single characters. Each word gives at least one token, and its tokens depend on
    this word alone. So text that is appended to a prefix changes at most the last word of the prefix, or the words that
    its end shares with an added token.

    Let W be the number of words of the longest added token, read as ordinary text. An added token replaces at most
    W + 2 words, two of them in part. Therefore a prefix of (W + 2) * (n + 2) words has n tokens that no appended text
    changes. The words are counted in parts of the text. A part has at most one word more than it adds to the text
    before it, because its start can divide one word.

    A text without so many words, and any text of another tokenizer, is not shortened.
    """

    def __init__(self, tokenizer: Tokenizer, tokens_max: int) -> None:
        self._tokenizer = tokenizer
        self._chars = _CHARS_PER_TOKEN * tokens_max
        added = tokenizer.get_added_tokens_decoder().values()
        self._is_bert = (
            isinstance(tokenizer.model, WordPiece)
            and isinstance(tokenizer.normalizer, BertNormalizer)
            and isinstance(tokenizer.pre_tokenizer, BertPreTokenizer)
            and not any(token.normalized for token in added)
        )
        if self._is_bert:
            longest = max((self._words(token.content) for token in added), default=0)
            self._words_min = (longest + 2) * (tokens_max + 2)

    def of(self, text: str) -> str:
        """A prefix of `text` with the same tokens up to the limit, or `text` itself."""
        if not self._is_bert:
            return text
        words = 0
        for stop in range(self._chars, len(text), self._chars):
            words += max(0, self._words(text[stop - self._chars : stop]) - 1)
            if words >= self._words_min:
                return text[:stop]
        return text

    def _words(self, text: str) -> int:
        normal = self._tokenizer.normalizer.normalize_str(text)
        return len(self._tokenizer.pre_tokenizer.pre_tokenize_str(normal))
