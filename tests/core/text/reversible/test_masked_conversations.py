"""Masked texts give back the originals, and a surrogate cannot be taken for anything else."""

import html
import json
import pickle
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from table_kit import rows

from core.errors import InvalidInput
from core.text.policy import ENTITIES
from core.text.reversible.conversation import FILLS, VALUES_MAX, Region, mask_conversation
from core.text.reversible.mapping import MaskedConversation

KEY = b"k" * 32


def regions(text: str, *values: tuple[str, str]) -> list[Region]:
    return [
        Region(found.start(), found.end(), type_)
        for value, type_ in values
        for found in re.finditer(re.escape(value), text)
    ]


def masked(
    *texts: str, values: tuple[tuple[str, str], ...] = (), only: int = 0, **options: object
) -> MaskedConversation:
    """Mask texts. The regions are those of `values` in the text `only`."""
    found = [regions(text, *values) if number == only else [] for number, text in enumerate(texts)]
    done = mask_conversation(texts, found, key=KEY, **options)  # type: ignore[arg-type]
    assert [done.mapping.restore(text) for text in done.texts] == list(texts)
    return done


def test_a_packed_mapping_restores_the_same() -> None:
    done = masked("Anna Kowalska called.", values=ANNA)
    sent = pickle.loads(pickle.dumps(done.mapping.packed()))
    assert sent.restore(done.texts[0]) == "Anna Kowalska called."
    assert sent.content == done.mapping.content


def test_a_word_of_two_finds_leaves_neither() -> None:
    number, date = "4111111111111111", "19850312"
    for name, value, type_ in (("Keller", number, "CREDIT_CARD"), ("Gro\u00dfmann\u0301", date, "DATE_OF_BIRTH")):
        done = masked(f"{name}{value} paid.", values=((name, "PERSON"), (value, type_)))
        assert name not in done.texts[0]
        assert value not in done.texts[0]


ANNA = (("Anna Kowalska", "PERSON"),)
_SNIPPETS = st.sampled_from(
    ["Anna", "anna", "ANNA", "Anna Kowalska", "Kowalska", "O'Neil", "O&#39;Neil", "&amp;", "%20", "%C3%BC", "\\", "\\n",
     "\\_", "_", " ", "\n", "\r\n", "  ", "+", "4111 1111 1111 1111", "4111-1111-1111-1111", "+49 30 1234567", "王伟",
     "さん", "[PERSON_1]", "[person_2]", "PERSON_1", "a@b.de", ".", ",", "'s", "s", "é", "e\u0301", "\u0301", "ß",
     "STRASSE", "Straße", "İ", "ﬁ", "12", "3 May 2021", "van", "der", "Herr", "\u00a0", "&", "%", "\U0001f600",
     "Ａｎｎａ", "𝐊owalska", "anna-kowalska", "ANNA_KOWALSKA", "%41nna", "&Ａ", "&ouml;",
     "&#246;", "&#xF6;", "&#65;", "Ren&eacute;"]
)  # fmt: skip
_TEXTS = st.lists(st.one_of(_SNIPPETS, st.text(max_size=3)), max_size=14).map("".join)
_TYPES = st.sampled_from([*ENTITIES, "WORD", "PROJECT"])


@st.composite
def _conversations(draw: st.DrawFn) -> tuple[list[str], list[list[Region]]]:
    texts = draw(st.lists(_TEXTS, min_size=1, max_size=3))
    found = []
    for text in texts:
        ends = st.integers(0, len(text))
        found.append([Region(*sorted((draw(ends), draw(ends))), draw(_TYPES)) for _ in range(draw(st.integers(0, 3)))])
    return texts, found


def test_a_value_is_replaced_wherever_it_stands() -> None:
    for fill in FILLS:
        done = masked(
            "Anna Kowalska called.",
            "Ask ANNA KOWALSKA, Anna's mail, kowalska_cv.pdf, ?n=Anna%20Kowalska, Anna\nKowalska.",
            values=ANNA,
            fill=fill,
        )
        assert not re.search("anna|kowalska", "".join(done.texts), re.IGNORECASE)
        assert "Annabel" in masked("Anna Kowalska", "Annabel", values=ANNA, fill=fill).texts[1]


def test_markers_are_numbered_by_first_appearance_and_avoid_those_that_stand_there() -> None:
    values = (("Bob Stone", "PERSON"), ("Anna Kowalska", "PERSON"))
    assert masked("Bob Stone met Anna Kowalska.", values=values, fill="numbered").texts == [
        "[PERSON_1] met [PERSON_2]."
    ]
    done = masked("Bob Stone met Anna Kowalska.", "What is [person_1]?", values=values, fill="numbered")
    assert done.texts == ["[PERSON_2] met [PERSON_3].", "What is [person_1]?"]


def test_the_same_key_gives_the_same_surrogates_in_a_longer_conversation() -> None:
    first = masked("Anna Kowalska called.", values=ANNA)
    later = masked("Anna Kowalska called.", "Anna is late.", values=ANNA)
    assert later.texts[0] == first.texts[0]
    other = mask_conversation(["Anna Kowalska called."], [regions("Anna Kowalska", *ANNA)], key=b"o" * 32)
    assert other.texts != first.texts


def test_two_writings_of_a_number_come_back_as_they_were() -> None:
    text = "4111 1111 1111 1111, 4111-1111-1111-1111"
    values = tuple((number, "CREDIT_CARD") for number in text.split(", "))
    done = masked(text, values=values)
    spaced, hyphened = done.texts[0].split(", ")
    assert spaced.replace(" ", "-") == hyphened
    assert done.mapping.restore(f"It is {hyphened}, or {spaced}.") == f"It is {values[1][0]}, or {values[0][0]}."
    assert done.mapping.restore(spaced.replace(" ", "")) == "4111111111111111"


def test_no_surrogate_stands_in_the_conversation() -> None:
    first = masked("Anna Kowalska called.", values=ANNA)
    taken = first.texts[0].removesuffix(" called.")
    for kept in (taken, *taken.split(), taken.upper(), taken.lower()):
        again = masked("Anna Kowalska called.", f"Who is {kept}?", values=ANNA)
        assert again.texts[1] == f"Who is {kept}?"
        assert not set(again.texts[0].split()[:2]) & set(kept.title().split())


def test_different_persons_share_no_part() -> None:
    names = [f"{given} {name}" for given in ("Anna", "Olga", "Jan") for name in ("Nowak", "Stone", "Lopez", "Berg")]
    done = masked(", ".join(names), values=tuple((name, "PERSON") for name in names))
    found = [name.split() for name in done.texts[0].split(", ")]
    assert len({given_name for given_name, _ in found}) == 3
    assert len({name for _, name in found}) == 4
    for (given_name, _), name in zip(found, names, strict=True):
        assert done.mapping.restore(f"{given_name} left") == f"{name.split()[0]} left"


def test_names_of_two_genders_in_polish() -> None:
    values = (("Anna Kowalska", "PERSON"), ("Jan Kowalski", "PERSON"))
    done = masked("Anna Kowalska i Jan Kowalski", values=values, language="pl")
    (_, her), (_, him) = (name.split() for name in done.texts[0].split(" i "))
    assert her[:-1] == him[:-1]
    assert done.mapping.restore(f"Widzę {him[:-1]}iego i {her[:-1]}ą.") == "Widzę Kowalskiego i Kowalską."


def test_a_region_inside_a_word_masks_the_word_and_its_value_elsewhere() -> None:
    done = mask_conversation(["xAnnax", "Anna"], [[Region(1, 5, "PERSON")], []], key=KEY)
    assert not any("Anna" in text for text in done.texts)
    assert done.mapping.restore(done.texts[0]) == "xAnnax"
    found = [[], [Region(0, 6, "EMAIL_ADDRESS"), Region(10, 11, "EMAIL_ADDRESS")]]
    done = mask_conversation(["Neil", "AnnaO&#39;Neil"], found, key=KEY)
    assert done.texts[0] != "Neil"


def test_names_beside_letters_of_another_script() -> None:
    done = masked("请联系Anna Kowalska谢谢", values=ANNA)
    assert done.texts[0].startswith("请联系")
    assert done.texts[0].endswith("谢谢")


def test_nothing_shows_a_value() -> None:
    done = masked("Anna Kowalska", values=ANNA)
    for shown in (repr(done), repr(done.mapping), repr(done.mapping.content)):
        assert "Anna" not in shown
        assert done.texts[0] not in shown


def test_more_different_values_than_allowed_are_refused_before_any_is_replaced() -> None:
    texts = [f"m{number}@example.org" for number in range(VALUES_MAX + 1)]
    regions = [[Region(0, len(text), "email")] for text in texts]
    with pytest.raises(InvalidInput, match="10000"):
        mask_conversation(texts, regions, key=bytes(32))


def continued(done: MaskedConversation, *texts: str, **options: object) -> MaskedConversation:
    """Mask the texts of the next turn, whose regions are `values`, by the mapping of the earlier one alone."""
    return masked(*texts, earlier=done.mapping.content, **options)  # type: ignore[arg-type]


def test_a_later_turn_keeps_the_surrogates_of_earlier_ones() -> None:
    for fill in FILLS:
        first = masked("Anna Kowalska called from Lisbon.", values=(*ANNA, ("Lisbon", "LOCATION")), fill=fill)
        surrogate = first.mapping.content.pairs[0].surrogate
        later = continued(first, "Anna Kowalska met Bob Stone.", values=(("Bob Stone", "PERSON"),), fill=fill)
        assert later.texts[0].startswith(f"{surrogate} met ")
        assert later.mapping.content.pairs[:2] == first.mapping.content.pairs
        assert len(later.mapping) == 3
        assert later.mapping.restore(first.texts[0]) == "Anna Kowalska called from Lisbon."
        last = continued(later, "Who is Bob Stone?", fill=fill)
        assert last.mapping.content.pairs == later.mapping.content.pairs
        assert "Stone" not in last.texts[0]


def test_a_part_of_an_earlier_name_has_the_part_of_its_surrogate() -> None:
    first = masked("Anna Kowalska called.", values=ANNA, language="en")
    given_name, name = first.mapping.content.pairs[0].surrogate.split()
    later = mask_conversation(
        ["Anna, or Kowalska?"], [[Region(0, 4, "PERSON")]], key=b"o" * 32, earlier=first.mapping.content
    )
    assert later.texts == [f"{given_name}, or {name}?"]


def test_an_old_surrogate_in_a_new_text_is_not_taken_for_its_original() -> None:
    for fill in FILLS:
        first = masked("Anna Kowalska called.", values=ANNA, fill=fill)
        taken = first.mapping.content.pairs[0].surrogate
        later = continued(first, f"{taken} is not Anna Kowalska, nor {taken.upper()} nor {taken[:-1]}x.", fill=fill)
        assert later.texts[0].count(taken) == 1
        assert f" is not {taken}, nor " in later.texts[0]


def test_no_new_surrogate_is_an_old_surrogate_or_an_old_original() -> None:
    names = [f"{given} {name}" for given in ("Anna", "Olga", "Jan", "Bob") for name in ("Nowak", "Stone", "Lopez")]
    done = masked(names[0], values=((names[0], "PERSON"),))
    for name in names[1:]:
        done = continued(done, name, values=((name, "PERSON"),))
    found = {pair.surrogate for pair in done.mapping.content.pairs}
    assert len(found) == len(done.mapping) == len(names)
    assert not found & set(names)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(_conversations(), _conversations(), st.sampled_from(["en", "pl", "de", "pt"]), st.sampled_from(FILLS))
def test_two_turns_masked_then_restored_are_the_original(
    before: tuple[list[str], list[list[Region]]], after: tuple[list[str], list[list[Region]]], language: str, fill: str
) -> None:
    first = mask_conversation(*before, key=KEY, language=language, fill=fill)
    later = mask_conversation(*after, key=KEY, fill=fill, earlier=first.mapping.content)
    for done, texts in ((first, before[0]), (later, after[0])):
        assert [done.mapping.restore(text) for text in done.texts] == texts
        for text in done.texts:
            restorer = done.mapping.restorer()
            assert "".join(map(restorer.feed, text)) + restorer.end() == done.mapping.restore(text)
    assert later.mapping.content.pairs[: len(first.mapping)] == first.mapping.content.pairs
    assert later.mapping.content.language == first.mapping.content.language


def test_a_find_over_a_line_break_is_two_values() -> None:
    """The recognisers may take a town and a name on the next line for one. A model writes each alone, or in JSON."""
    text = "Lisbon\r\n  Maria Keller\nPlease call Maria Keller in Lisbon."
    done = mask_conversation([text], [[Region(0, 22, "LOCATION")]], key=b"k" * 32, language="en")
    assert {pair.original for pair in done.mapping.content.pairs} == {"Lisbon", "Maria Keller"}
    assert done.mapping.restore(done.texts[0]) == text
    written = json.dumps({"lines": done.texts[0]})
    assert json.loads(done.mapping.restore(written)) == {"lines": text}
    code = 'write("Lisbon\\nMaria Keller")'
    done = mask_conversation([code], [[Region(7, 27, "LOCATION")]], key=b"k" * 32, language="en")
    assert {pair.original for pair in done.mapping.content.pairs} == {"Lisbon", "Maria Keller"}
    key = "-----BEGIN KEY-----\nabc\n-----END KEY-----"
    kept = mask_conversation([key], [[Region(0, len(key), "SECRET")]], key=b"k" * 32, language="en")
    assert [pair.original for pair in kept.mapping.content.pairs] == [key]


def test_letters_in_entities_come_back_so_in_their_place_and_plain_elsewhere() -> None:
    for written, language in rows("""
        Dieter Sch&ouml;ne | de || Dieter Sch&#246;ne | de || Dieter Sch&#xf6;ne | en || Dieter Sch&#xF6;ne | fr
        Ren&eacute; M&uuml;ller | es || &Eacute;lise Martin-N&uacute;&ntilde;ez | pl
    """):
        plain = html.unescape(written)
        texts = (f"<td>{written}</td> <p>{written} &amp; R&amp;D</p>", f"Ask {plain}.")
        for text in (texts[:1], texts):
            done = masked(*text, values=((written, "PERSON"),), language=language)
            assert [pair.original for pair in done.mapping.content.pairs] == [plain]
            surrogate = done.mapping.content.pairs[0].surrogate
            assert all(html.unescape(each).count(surrogate) for each in done.texts)
            assert (
                done.mapping.restore(f"<td>{surrogate}</td> {surrogate.upper()}") == f"<td>{plain}</td> {plain.upper()}"
            )


def test_entities_that_no_surrogate_can_carry_come_back_as_they_were() -> None:
    for written in ("We&#98;er", "Ren&eacute; Müller", "&lstrok;ukasz", "Sch&#0246;ne", "Sch&#X00F6;ne", "A&#x308;nna"):
        masked(f"<b>{written}</b> and {html.unescape(written)}.", values=((written, "PERSON"),))


def test_no_name_has_a_word_that_is_an_original() -> None:
    towns = [(f"São {letter}{letter.lower()}nda", "LOCATION") for letter in "BCDFGLMNPRSTV"]
    text = "De São a São: " + "; ".join(town for town, _ in towns)
    done = masked(text, values=(*towns, ("São", "LOCATION")), language="pt")
    assert not re.search(r"\bSão\b", done.texts[0])
