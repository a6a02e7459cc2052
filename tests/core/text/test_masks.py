"""Union, overlap and merge; the two list techniques."""

from table_kit import rows

from core.mechanisms.words.normal_form import normal
from core.text.mask_words import AllowLists, ranked
from core.text.masks import NOT_RECOGNISED, findings, regions_of, union
from core.text.policy import Mask, MaskPolicy
from core.text.sanitize import sanitize
from core.text.segment import tokenize


def masks_of(text: str, *techniques: str, **options) -> list[Mask]:
    policy = MaskPolicy(techniques=techniques, **options)
    return regions_of(text, findings(text, tokenize(text), policy, AllowLists(), NOT_RECOGNISED))


def test_overlapping_finds_become_one_region_and_touching_ones_stay_apart():
    """The region covers both. Its type is of an entity before a word, and then of the higher score."""
    for found, regions in [
        (
            [Mask(5, 12, "URL", "entity", 0.6), Mask(0, 9, "EMAIL_ADDRESS", "entity", 1.0)],
            [Mask(0, 12, "EMAIL_ADDRESS", "entity", 1.0)],
        ),
        (
            [Mask(0, 9, "PHONE_NUMBER", "entity", 0.5), Mask(0, 9, "US_SSN", "entity", 0.6)],
            [Mask(0, 9, "US_SSN", "entity", 0.6)],
        ),
        (
            [Mask(0, 9, "WORD", "vocabulary", 0.0), Mask(2, 5, "IP_ADDRESS", "entity", 0.6)],
            [Mask(0, 9, "IP_ADDRESS", "entity", 0.6)],
        ),
        ([Mask(0, 3, "URL", "entity"), Mask(3, 6, "URL", "entity")],) * 2,
    ]:
        assert union(found) == union(found[::-1]) == regions


def test_consecutive_word_masks_merge_over_spaces_only_and_entities_never_do():
    for text, merged in rows(r"""
        zzyq zzyx | [WORD] || zzyq 17 | [WORD] || 17 18 | [NUMBER] || zzyq, zzyx | [WORD], [WORD]
        zzyq\nzzyx | [WORD]\n[WORD] || zzyq and zzyx | [WORD] and [WORD]
        a@example.org b@example.org | [EMAIL_ADDRESS] [EMAIL_ADDRESS]
    """):
        assert sanitize(text, MaskPolicy(techniques=("vocabulary", "entity")), "class_marker").text == merged


def test_techniques_combine_by_union():
    text = "Zzyq wrote the otolaryngologist at jo@example.org about 42 things."
    single = [masks_of(text, name) for name in ("entity", "vocabulary", "allow_list")]
    covered = {place for masks in single for mask in masks for place in range(mask.start, mask.end)}
    together = masks_of(text, "allow_list", "entity", "vocabulary")
    assert covered <= {place for mask in together for place in range(mask.start, mask.end)}
    assert [mask for mask in together if mask.type == "EMAIL_ADDRESS"]


def test_every_kept_token_is_on_the_list():
    for technique in ["vocabulary", "allow_list"]:
        text = "John Smith's 3 well-known e-mails, 12:30, the DON’T-list; naïve ½ ٤٢ Ωmega don't go home x_y cat2."
        held = (
            AllowLists().words("general")
            if technique == "allow_list"
            else {w for w, r in ranked()[1].items() if r < 10000}
        )
        masks = masks_of(text, technique)
        for start, end in tokenize(text):
            if any(mask.start <= start and end <= mask.end for mask in masks):
                continue
            word = normal(text[start:end])
            assert word in held or all(part in held for part in word.removesuffix("'s").split("-"))
        result = sanitize(text, MaskPolicy(techniques=(technique,)), "marker").text
        assert not any(char.isnumeric() for char in result)


def test_the_vocabulary_grows_with_its_size():
    text = "the otolaryngologist and the notary saw a marmoset by the fjord"
    small, large = (masks_of(text, "vocabulary", vocabulary_size=size) for size in (100, 100_000))
    assert sum(m.end - m.start for m in small) > sum(m.end - m.start for m in large)


def test_masking_is_deterministic():
    text = "Zzyq, jo@example.org and (202) 555-0143 or 555-0143."
    assert masks_of(text, "entity", "vocabulary") == masks_of(text, "vocabulary", "entity")


def test_given_names_and_months_are_not_on_the_shipped_lists():
    lists = AllowLists()
    names = {"john", "mary", "may", "april", "mark", "bill", "rose", "london", "smith", "keller", "lisbon"}
    assert not names & (lists.words("general") | lists.words("general-5000"))
    assert lists.words("general") < lists.words("general-5000")
    assert len(lists.words("general-5000")) == 5_000
