"""Fills `top1` and `topk`: the model's best word for a region, or one drawn from its K best (Vats et al. 2023).

Guarantee: none. A word depends on the kept text, on the words to its left, on whether the mask is of the type NUMBER
(then it is a number), and for `topk` on fresh randomness. Two texts that differ only in masked strings, and have
numbers in the same places, are filled alike. Therefore a masked word may reappear if the model guesses it.

Unlike the paper, which draws from the K best until a word off the list comes or none is left, `topk` draws among the
K best words off the list, of the `considered` best.
"""

from collections.abc import Callable, Sequence
from itertools import islice

from core.errors import TaskFailed
from core.mechanisms.samplers.exact import uniform_below
from core.mechanisms.words.normal_form import normal
from core.text.mask_words import AllowLists, ranked
from core.text.model_fills import Ranked
from core.text.policy import Mask, MaskPolicy


def top_1() -> Ranked:
    return Ranked(1, lambda _, words: _some(words)[0])


def top_k(masks: Sequence[Mask], policy: MaskPolicy, lists: AllowLists, *, count: int, considered: int) -> Ranked:
    """Choose uniformly among the `count` best words, or, where a list masked the region, among those not on the list.

    A masked word is not on the list either, so its replacement should not be. The choice is among the `count` best of
    the words that are not on the list, within the `considered` best. If there are none, words of the list are used.
    Raises InvalidInput if the list does not exist.
    """
    on_list = {technique: _on_list(technique, policy, lists) for technique in policy.techniques}

    def choose(place: int, words: Sequence[str]) -> str:
        is_kept = on_list[masks[place].technique]
        preferred = list(islice((word for word in _some(words) if not is_kept(word)), count)) or words[:count]
        return preferred[uniform_below(len(preferred))]

    return Ranked(count if policy.techniques == ("entity",) else max(count, considered), choose)


def _some(words: Sequence[str]) -> Sequence[str]:
    if not words:
        raise TaskFailed(reason="no-fill")
    return words


def _on_list(technique: str, policy: MaskPolicy, lists: AllowLists) -> Callable[[str], bool]:
    """Return whether `technique` keeps a word. A technique without a list keeps none."""
    if technique == "allow_list":
        words = lists.words(policy.allow_list)
        return lambda word: normal(word) in words
    if technique == "vocabulary":
        ranks, size = ranked()[1], policy.vocabulary_size
        return lambda word: ranks.get(normal(word), size) < size
    return lambda _: False
