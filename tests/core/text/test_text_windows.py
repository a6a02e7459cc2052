"""Windows find what one run over the whole text finds."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from table_kit import texts
from tiers import cells

from core.errors import RecogniserFailed
from core.text import mask_entity
from core.text import windows as windows_module
from core.text.mask_entity import Tagged
from core.text.mask_words import AllowLists
from core.text.masks import Recognised, WindowFinds, join
from core.text.policy import ENTITIES, Mask, MaskPolicy
from core.text.sanitize import inspect
from core.text.windows import CONTEXT_CHARS, estimated_pieces, near_core, windows

SIZE, OVERLAP = 1_000, 200
LISTS = AllowLists()
EVERYTHING = MaskPolicy(entities=tuple(name for name, entity in ENTITIES.items() if not entity.needs_tagger))
PLANTED = texts("""
jo.van+news@mail.example.co.uk || jo at example dot com || (202) 555-0143 ext. 22 || +44 20 7946 0958
4111 1111 1111 1111 || DE89 3704 0044 0532 0130 00 || 536 22 8145 || 2001:db8:85a3::8a2e:370:7334
https://example.org/a?b=1 || AB 12 34 56 C || 00:1B:44:11:3A:B7 || passport number X12345678
bank account 12345678901
""")
_SENTENCE = "the parcel that we sent in spring came back to our office and nobody in town had opened it"
WORDS = _SENTENCE.split(" ")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows small enough for many boundaries in one test."""
    monkeypatch.setattr(windows_module, "WINDOW_CHARS", SIZE)
    monkeypatch.setattr(windows_module, "WINDOW_PIECES", SIZE // 3)
    monkeypatch.setattr(windows_module, "OVERLAP_CHARS", OVERLAP)


def masks(text: str, policy: MaskPolicy = EVERYTHING) -> list[Mask]:
    return list(inspect(text, policy, LISTS).masks)


def masks_of_whole(text: str, monkeypatch: pytest.MonkeyPatch, policy: MaskPolicy = EVERYTHING) -> list[Mask]:
    with monkeypatch.context() as patched:
        patched.setattr(windows_module, "WINDOW_CHARS", len(text))
        patched.setattr(windows_module, "WINDOW_PIECES", len(text))
        return masks(text, policy)


def filled_to(text: str, length: int, rng: random.Random) -> str:
    """`text` with words up to `length` characters, the last of which is a space."""
    while len(text) < length - 20:
        text += rng.choice(WORDS) + " "
    return text + "x" * (length - len(text) - 1) + " " if len(text) < length else text


def covered(found: list[Mask], start: int, end: int) -> bool:
    inside = {at for mask in found for at in range(max(start, mask.start), min(end, mask.end))}
    return len(inside) == end - start


def planted_text(rng: random.Random) -> str:
    parts = [rng.choice((*PLANTED, *WORDS, *WORDS, str(rng.randrange(10**9)), "\n")) for _ in range(1_500)]
    return rng.choice((" ", "\n", ", ", "")).join(parts)


def test_windows_of_dense_text_are_smaller() -> None:
    for unit in ["a,", "漢字 ", "::,", "\u0301", "1 "]:
        text = (unit * 100_000)[:100_000]
        cut = windows(text)
        assert all(estimated_pieces(text[window.core_start : window.core_end]) <= 1_251 for window in cut)
        assert len(cut) <= estimated_pieces(text) / 800 + 1


def test_cores_cover_a_text_and_windows_have_a_margin() -> None:
    for text in ["word " * 9_000, "x" * 50_000, "x" * 15_500 + " " + "y" * 40_000, "a," * 20_000, "漢" * 20_000]:
        cut = windows(text)
        assert [cut[0].core_start, cut[-1].core_end] == [0, len(text)]
        for window, following in pairwise(cut):
            assert window.core_end == following.core_start
            assert following.start == max(0, following.core_start - 1_000)
            assert window.end == min(len(text), window.core_end + 1_000)
        assert all(0 < window.core_end - window.core_start <= 16_000 for window in cut)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("planted", cells(PLANTED, fast=2))
def test_everything_planted_around_a_boundary_is_masked(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One boundary for each position of the planted text relative to it, and the same masks as without windows."""
    rng = random.Random(planted)
    text, places = "", []
    for offset in range(-3, len(planted) + 4):
        boundary = windows(filled_to(text, len(text) + 2 * SIZE, rng))[len(places)].core_end
        text = filled_to(text, boundary - offset, rng)
        places.append(len(text))
        text += planted + " "
        text = filled_to(text, boundary + SIZE // 2, rng)
    text = filled_to(text, len(text) + 2 * SIZE, rng)
    found = masks(text)

    assert len(windows(text)) > len(planted)
    assert found == masks_of_whole(text, monkeypatch)
    last = planted.split("number ")[-1].split("account ")[-1]
    for start in places:
        end = start + len(planted)
        assert covered(found, end - len(last), end), text[start - 5 : end + 5]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", cells(range(6)))
def test_random_texts_have_the_masks_of_one_run_over_the_whole(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    text = planted_text(rng)
    for policy in (EVERYTHING, MaskPolicy(techniques=("entity", "allow_list"))):
        assert masks(text, policy) == masks_of_whole(text, monkeypatch, policy)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "long",
    [
        "https://example.org/" + "a" * 5_000, "https://example.org/" + "a/." * 2_000 + "...",
        "jo" * 3_000 + "@example.org", "jo@" + "example." * 700 + "org",
    ],
)  # fmt: skip
@pytest.mark.parametrize("before", [0, 700, 995])
def test_an_entity_without_white_space_is_masked_whatever_its_length(long: str, before: int) -> None:
    text = filled_to("", before, random.Random(0)) + long + " and more words after it"
    letters = [at for at in range(before, before + len(long)) if text[at].isalnum()]
    found = masks(text, MaskPolicy(entities=("URL", "EMAIL_ADDRESS")))
    assert all(covered(found, at, at + 1) for at in letters)
    assert not any(covered(found, at, at + 1) for at in range(before + len(long) + 1, len(text)))


@pytest.mark.usefixtures("small")
def test_a_string_that_passes_in_one_window_is_masked_in_all() -> None:
    text = "bank account 12345678901 " + "nothing happened " * 200 + "12345678901 again"
    found = masks(text, MaskPolicy(entities=("US_BANK_NUMBER",)))
    assert [text[mask.start : mask.end] for mask in found] == ["12345678901"] * 2


@pytest.mark.usefixtures("small")
def test_names_at_a_boundary_are_kept_once_and_those_beyond_the_margin_are_left_to_the_next_window() -> None:
    text = "word " * 600
    cut = windows(text)
    at = cut[0].core_end
    names = [
        Tagged(
            text[window.start : window.end],
            frozenset({"PERSON"}),
            tuple(
                (start - window.start, end - window.start, "PERSON", 0.9)
                for start, end in ((at - 5, at + 4), (at + 50, at + 54))
                if window.start <= start < end <= window.end
            ),
        )
        for window in cut
    ]
    joined = mask_entity.join_tagged(text, names)

    assert joined.text == text
    assert joined.found == ((at - 5, at + 4, "PERSON", 0.9), (at + 50, at + 54, "PERSON", 0.9))


@pytest.mark.usefixtures("small")
def test_missing_and_foreign_finds_are_errors() -> None:
    text, policy = "word " * 600, MaskPolicy(entities=("URL",))
    cut = windows(text)
    parts = [mask_entity.search(text[window.start : window.end], policy) for window in cut]
    names = [Tagged(text[window.start : window.end], frozenset({"PERSON"}), ()) for window in cut]

    for hits, tagged in (
        (parts[1:], names[1:]), (parts, [names[1], *names[1:]]), (parts, [*names[:-1], None]),
        (parts, [names[0], replace(names[1], found=((-1, 5, "PERSON", 0.9),)), *names[2:]]),
        (parts, [names[0], replace(names[1], found=((5, OVERLAP + 99 * SIZE, "PERSON", 0.9),)), *names[2:]]),
        ([(), *parts[1:]], names),
    ):  # fmt: skip
        with pytest.raises(RecogniserFailed):
            join(text, policy, [WindowFinds(*each) for each in zip(hits, tagged, strict=True)])
    finds = [WindowFinds(*each) for each in zip(parts, names, strict=True)]
    assert join(text, policy, finds) == Recognised([], Tagged(text, frozenset({"PERSON"}), ()))
    assert "word" not in repr(finds)


def test_a_hit_without_a_letter_or_digit_is_dropped() -> None:
    policy = MaskPolicy(entities=("IP_ADDRESS",))
    assert masks("::,::, std::vector :: and", policy) == []
    assert [(mask.start, mask.end) for mask in masks("the address fe80::1 here", policy)] == [(12, 19)]
    assert sum(len(hits.passed) + len(hits.weak) for hits in mask_entity.search("::," * 1_000, policy)) == 0


def test_a_tagger_reads_the_core_and_its_context_and_cuts_nothing_without_white_space() -> None:
    for text in ["word " * 4_000, "x" * 20_000, "x" * 4_700 + " " + "y" * 9_000, "漢字 " * 4_000]:
        for window in windows(text):
            own = text[window.start : window.end]
            start, end = near_core(window, own)
            core = window.core_start - window.start, window.core_end - window.start
            assert start == 0 or (start <= core[0] - CONTEXT_CHARS and own[start - 1].isspace())
            assert end == len(own) or (end >= core[1] + CONTEXT_CHARS and own[end].isspace())
