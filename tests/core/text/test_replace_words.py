"""The fill `metric_dp`: what of a text is replaced, and that nothing but the promised pattern comes through."""

import re

import pytest

from core.errors import InvalidInput
from core.mechanisms.words.replacement import ExponentialWords, shipped
from core.text import mask_entity
from core.text.mask_words import AllowLists
from core.text.masks import Recognised
from core.text.model_fills import slots_of
from core.text.policy import Mask, MaskPolicy, Sanitised, SanitizeTask
from core.text.sanitize import Inspected, inspect_words, replace_words
from core.text.segment import visible

EXACT = 10**15  # a million per unit: hardly any noise
LOOSE = 10**9
WORDS = ExponentialWords(shipped())
VOCABULARY = set(shipped().words)
ALL = MaskPolicy(techniques=("all",))


def replaced(*texts: str, policy: MaskPolicy = ALL, epsilon_nano: int = LOOSE) -> list[Sanitised]:
    found = [inspect_words(text, policy, AllowLists()) for text in texts]
    return replace_words(found, [epsilon_nano] * len(texts), WORDS)


def test_of_a_whole_text_only_the_number_of_words_stays() -> None:
    plain, shouted = replaced("the cat sat", "THE Cat,\n\n  --sat!?", epsilon_nano=EXACT)
    assert plain.text == shouted.text == "the cat sat"
    assert plain == shouted
    hidden, empty = replaced("\u200bthe c\u00ada\u200bt\u200b sat", "?! -- ...", epsilon_nano=EXACT)
    assert plain == hidden, "invisible characters inside words divide none"
    assert (empty.text, list(empty.spans), empty.tokens) == ("", [], 0)


def test_every_word_that_comes_out_is_of_the_public_vocabulary() -> None:
    text = "Zworykin's e-mail: v.zworykin@rca.com, tel. 555-0143; 42 % of 北京 said so."
    for result in replaced(*[text] * 50):
        assert set(result.text.split(" ")) <= VOCABULARY
        assert len(result.text.split(" ")) == result.tokens == result.masked_tokens
        assert [(span.start, span.end, span.type, span.technique) for span in result.spans] == [
            (0, len(result.text), "WORD", "all")
        ]


def test_no_recogniser_reads_a_whole_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*arguments):
        raise AssertionError

    monkeypatch.setattr(mask_entity, "find", explode)
    (result,) = replaced("jo@example.org", policy=MaskPolicy(techniques=("entity", "all")))
    assert result.tokens == len(result.text.split()) == 3


def test_kept_text_stays_and_each_masked_word_has_a_draw_of_its_own() -> None:
    policy = MaskPolicy(techniques=("vocabulary", "entity"), vocabulary_size=100)
    text = "They said (Xenon Zworykin\tqux), by 4111 1111 1111 1111 and jo@example.org."
    for result in replaced(*[text] * 20, policy=policy):
        assert result.text.startswith("They said (")
        assert result.text.endswith(".")
        inner, _, rest = result.text.removeprefix("They said (").partition("), by ")
        assert len(inner.split(" ")) == 3, "merged masks tell how many words they hold"
        words = rest.removesuffix(".").split(" ")
        assert (len(words), words[4]) == (8, "and"), "four words for the card, three for the address; one may be `and`"
        assert VOCABULARY.issuperset([*inner.split(" "), *words[:4], *words[5:]])
        assert {(span.type, span.technique) for span in result.spans} == {("WORD", "vocabulary+entity")}
        for span in result.spans:
            assert VOCABULARY.issuperset(result.text[span.start : span.end].split(" "))


def test_the_case_of_a_masked_word_is_not_copied() -> None:
    policy = MaskPolicy(techniques=("vocabulary",), vocabulary_size=100)
    one, other = replaced("the Doctor said", "the DOCTOR said", policy=policy, epsilon_nano=EXACT)
    assert one.text == other.text == "the doctor said"


def test_texts_of_different_epsilon_share_a_call() -> None:
    found = [inspect_words("good morning " * 50, ALL, AllowLists())] * 2
    exact, loose = replace_words(found, [EXACT, LOOSE], WORDS)
    assert set(exact.text.split()) == {"good", "morning"}
    assert len(set(loose.text.split())) > 20


def test_an_epsilon_belongs_to_metric_dp_alone() -> None:
    for fill, epsilon in (("metric_dp", None), ("marker", LOOSE)):
        with pytest.raises(InvalidInput):
            SanitizeTask("text", MaskPolicy(), fill, epsilon)


ADDRESSES = MaskPolicy(entities=("EMAIL_ADDRESS",))


def masked(text: str, original: str) -> Inspected:
    """The text with each place of an original masked, as if a recogniser had found it."""
    found = re.finditer(re.escape(visible(original)), visible(text))
    patterns = [Mask(*match.span(), "EMAIL_ADDRESS", "entity") for match in found]
    return inspect_words(text, ADDRESSES, AllowLists(), Recognised(patterns, None))


def test_invisible_characters_beside_a_masked_place_do_not_depend_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Greek letter is beside them, an Arabic one is not, so that they are removed for one and kept for the other."""
    monkeypatch.setattr(ExponentialWords, "release", lambda self, words, epsilons: ["drawn"] * len(words))
    for before, after in (("", ""), (" ", " "), ("\u05d0", "."), ("é", "\u05d0"), ("\U0001f642", "\U0001f642")):
        for hidden in ("\u200b", "\u00ad\u200d", "\ufe0f"):
            left = set()
            for original in ("ν", "ن", "νν", "نν", "9", "ν\u200bν"):
                text = f"{before}{hidden}{original}{hidden}{after}"
                found = masked(text, original)
                left.add(replace_words([found], [LOOSE], WORDS)[0].text)
                spans = slots_of(found, ADDRESSES).masks
                assert (text.index(original), len(spans)) == (len(before + hidden), 1)
            assert left == {f"{before}drawn{after}"}, ascii(left)


def test_the_numbers_of_words_count_regions_and_kept_text_apart() -> None:
    counted = set()
    for original in ("Zworykin", "zworykin)", "zwory9", "-zwor"):
        found = masked(f"they said {original},5 or {original}-the", original)
        (result,) = replace_words([found], [LOOSE], WORDS)
        counted.add((result.masked_tokens, result.tokens))
    assert counted == {(2, 7)}
