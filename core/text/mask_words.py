"""The techniques `allow_list`, `vocabulary` (Vats et al. 2023) and `all` (ours): mask every token not in a list.

A token is kept if the list contains it, its base before a possessive `'s`, or every part of its hyphenation. A token
with a digit is masked unless the list contains exactly that token, because numbers identify people too. Possessives
and hyphenations are our rule.

An allow list has the words that an operator considers safe to keep. It is a text file of words, one or more on a line;
`#` starts a comment. The package ships `general` and `general-5000`. An operator's directory adds `<name>.txt` files
and may replace a shipped one. Names never come from a path of the caller.
"""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from core.errors import InvalidInput
from core.mechanisms.words.normal_form import normal
from core.text.policy import ALLOW_LIST_NAME, NUMBER, VOCABULARY_SIZE_MAX, WORD, Mask, MaskPolicy
from core.text.segment import Token, has_letter

_SHIPPED = Path(__file__).parent / "data"


@cache
def _words(path: Path) -> frozenset[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return frozenset(normal(word) for line in lines for word in line.split("#", 1)[0].split())


class AllowLists:
    """The lists of this installation. `directory` is the operator's; each list is read once."""

    def __init__(self, directory: Path | None = None) -> None:
        self._paths: dict[str, Path] = {}
        for folder in (_SHIPPED, directory):
            if folder is not None:
                for path in sorted(folder.glob("*.txt")):
                    if ALLOW_LIST_NAME.fullmatch(path.stem):
                        self._paths[path.stem] = path

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._paths))

    def words(self, name: str) -> frozenset[str]:
        """Return the words of a list. Raises InvalidInput if it does not exist."""
        path = self._paths.get(name)
        if path is None:
            raise InvalidInput(f"There is no such allow list. Available: {', '.join(self.names)}.", field="allow_list")
        return _words(path)


@cache
def ranked() -> tuple[tuple[str, ...], dict[str, int]]:
    """Return (words by rank, rank of each word) of `wordfreq`'s English list. One table serves every size.

    Entries with a digit are left out: single digits are frequent, and a number spelt digit by digit would be kept.
    Frequent names (`john`, `london`) **are** on the list, so the technique keeps them. Combine it with another
    technique if names matter.
    """
    import wordfreq

    words = wordfreq.top_n_list("en", VOCABULARY_SIZE_MAX)
    ranks: dict[str, int] = {}
    for rank, word in enumerate(words):
        if not any(char.isnumeric() for char in word):
            ranks.setdefault(normal(word), rank)
    return tuple(ranks), ranks


def _kept(word: str, holds: Callable[[str], bool]) -> bool:
    if holds(word):
        return True
    base = word.removesuffix("'s")
    parts = base.split("-")
    if base == word and len(parts) == 1:
        return False
    return not any(char.isnumeric() for char in base) and all(part and holds(part) for part in parts)


def outside(text: str, tokens: Sequence[Token], holds: Callable[[str], bool], technique: str) -> list[Mask]:
    """Return one mask for each token of `text` for which `holds` (called with the normalised token) is false."""
    types: dict[str, str | None] = {}  # of each distinct token, None for one that is kept
    found = []
    for start, end in tokens:
        token = text[start:end]
        if token not in types:
            types[token] = None if _kept(normal(token), holds) else WORD if has_letter(token) else NUMBER
        if kind := types[token]:
            found.append(Mask(start, end, kind, technique, 0.0))
    return found


def outside_list(text: str, tokens: Sequence[Token], policy: MaskPolicy, lists: AllowLists) -> list[Mask]:
    """Technique `allow_list`. Raises InvalidInput if the list does not exist, whatever the text."""
    return outside(text, tokens, lists.words(policy.allow_list).__contains__, "allow_list")


def outside_vocabulary(text: str, tokens: Sequence[Token], policy: MaskPolicy, _: AllowLists) -> list[Mask]:
    """Technique `vocabulary`: mask every token outside the N most frequent words (Vats et al. 2023, N = 10,000).

    Entries with a digit are ranked and then left out, so fewer than N are kept. The list is wordfreq's; the paper's is
    the vocabulary of its downstream model."""
    ranks, size = ranked()[1], policy.vocabulary_size
    return outside(text, tokens, lambda word: ranks.get(word, size) < size, "vocabulary")


def every_token(text: str, tokens: Sequence[Token], _: MaskPolicy, __: AllowLists) -> list[Mask]:
    """Technique `all`: mask every word and number."""
    return outside(text, tokens, lambda _: False, "all")
