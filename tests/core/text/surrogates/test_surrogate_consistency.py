"""Which documents share surrogates, and what a document never contains."""

import pytest
from surrogate_kit import KEY, all_of, surrogates_of
from table_kit import rows
from tiers import cells

from core.errors import TaskFailed
from core.text import fill_surrogate
from core.text.policy import ENTITIES, MaskPolicy
from core.text.sanitize import sanitize
from core.text.surrogates.draw import Draw, Originals
from core.text.surrogates.table import SURROGATES

FINDS = rows("""
PERSON | Mary Jones || EMAIL_ADDRESS | mary@corp.com || LOCATION | 12 High Street, Leeds LS1 4AP
ORGANIZATION | Acme Widgets Ltd || CREDIT_CARD | 4111 1111 1111 1111 || DATE_TIME | 3 May 2024
SECRET | hunter2hunter2hunter2 || CUSTOMER_ID | C-12345678
""")


def test_documents_share_no_surrogates_without_a_key_of_the_tenant():
    documents = [surrogates_of(*FINDS) for _ in range(10)]
    for drawn in zip(*documents, strict=True):
        assert len(set(drawn)) >= 6, "some are of short lists, where two documents meet by chance"


def test_documents_share_all_surrogates_under_one_key_whatever_their_order():
    first = dict(zip(FINDS, surrogates_of(*FINDS, key=KEY), strict=True))
    second = dict(zip(FINDS[::-1], surrogates_of(*FINDS[::-1], key=KEY), strict=True))
    assert first == second
    for find in FINDS:
        assert surrogates_of(find, key=KEY) == [first[find]]
    assert not set(first.values()) & set(surrogates_of(*FINDS, key=b"x" * 32))


def test_two_writings_of_one_number_share_a_surrogate():
    spaced, plain = all_of("CREDIT_CARD", "4111 1111 1111 1111", "4111111111111111")
    assert spaced.replace(" ", "") == plain
    upper, lower = all_of("MAC_ADDRESS", "00:1B:44:11:3A:B7", "00-1b-44-11-3a-b7")
    assert upper.replace(":", "-").lower() == lower


def test_two_originals_never_share_a_surrogate():
    for entity, form in rows("""
        PERSON | Mary Xa{} || LOCATION | Xa{}ton || ORGANIZATION | Xa{} Works || EMAIL_ADDRESS | xa{}@corp.com
        MAC_ADDRESS | 00:1B:44:11:{:02X}:B7 || CUSTOMER_ID | C{:04d} || UK_NHS | 943476{:04d}
    """):
        letters = str.maketrans("0123456789", "abcdefghij")
        numbers = [number if ":" in form else str(number).translate(letters) for number in range(256)]
        originals = [form.format(number) for number in numbers]
        new = all_of(entity, *originals)
        assert len({each.casefold() for each in new}) == len(originals)
        assert not {each.casefold() for each in new} & {each.casefold() for each in originals}


def test_no_surrogate_contains_an_original():
    names = [f"{first} {last}" for first in ("Mary", "James", "Linda") for last in ("Smith", "Jones", "Brown")]
    towns = ["Leeds", "Lake", "Smith", "East", "Port"]
    finds = [("PERSON", name) for name in names] + [("LOCATION", town) for town in towns]
    for _ in range(10):
        new = [each.casefold() for each in surrogates_of(*finds)]
        assert not [each for each in new for _, original in finds if original.casefold() in each]


def test_any_text_has_a_surrogate_of_any_type():
    for entity in [name for name in ENTITIES if name not in ("DATE_TIME", "DATE_OF_BIRTH")]:
        for original in (
            "x", "7", "Ünïcödé Ωμέγα", "名前 太郎", "½", "-", "a\nb", "٣٤٥", "9" * 60, "' OR 1=1", "@", "+",
            "\U0001f600", "İ",
        ):  # fmt: skip
            (new,) = all_of(entity, original)
            assert new
            assert new != original


def test_a_surrogate_that_only_repeats_is_an_error(monkeypatch):
    monkeypatch.setattr(fill_surrogate, "fake", lambda kind, original, drawing: "same@example.org")
    with pytest.raises(TaskFailed) as caught:
        sanitize("Write to jo@corp.org and al@corp.org", MaskPolicy(entities=("EMAIL_ADDRESS",)), "surrogate")
    assert "jo@" not in repr(caught.value)
    monkeypatch.setattr(fill_surrogate, "fake", lambda kind, original, drawing: original)
    with pytest.raises(TaskFailed):
        sanitize("Write to jo@example.org", MaskPolicy(), "surrogate")


def test_a_long_original_is_not_contained_either():
    known = Originals({"ab" * 100, "a" * 64, "abc"})
    assert known.repeated_by("x" + "AB" * 100 + "y")
    assert known.repeated_by("x" + "a" * 64)
    assert known.repeated_by("abc")
    assert not known.repeated_by("xabcx"), "shorter ones may be parts of a word"
    assert not known.repeated_by("ab" * 99)


@pytest.mark.parametrize("entity", cells(ENTITIES, fast=12))
def test_long_finds_have_surrogates(entity):
    for original in ("9" * 9_000, "Ab" * 4_500, "Ab 1, " * 1_000, "a" + " " * 9_000 + "b", "a'b" * 3_000):
        (new,) = all_of(entity, original)
        assert new != original


def test_numbers_that_use_up_their_form_take_few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them would be drawn again until its range is widened, and no longer number is free of them."""
    draws = []
    monkeypatch.setattr(fill_surrogate, "Draw", lambda *parts, **more: draws.append(parts) or Draw(*parts, **more))
    pins = [f"{number:04}" for number in range(10_000)]
    surrogates = all_of("SECRET", *pins)
    assert len(set(surrogates)) == len(pins)
    assert not set(surrogates) & set(pins)
    assert len(draws) < 2 * len(pins)


@pytest.mark.parametrize("kind", cells(sorted(SURROGATES), fast=6))
def test_no_value_takes_many_draws(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a document has used up a range for which nobody has counted the values."""
    draws = []
    monkeypatch.setattr(fill_surrogate, "Draw", lambda *parts, **more: draws.append(parts) or Draw(*parts, **more))
    values = [f"{number:03}" for number in range(1_000)]
    try:
        all_of(kind, *values)
    except TaskFailed:
        return  # after the draws of one value
    assert len(draws) <= 30 * len(values)
