"""Answers of a model to a masked conversation: what is restored, what is not, and pieces of any size."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_kit import rows

from core.text.reversible import key_tree
from core.text.reversible.forms import mapping_of
from core.text.reversible.lexing import lex, normal
from core.text.reversible.mapping import Content, Mapping, Pair

MAPPING = mapping_of(
    Content(
        (
            Pair("PERSON", "Anna Kowalska", "Maria Weber"),
            Pair("PERSON", "Jörg O'Neil", "Petra D'Angelo"),
            Pair("PERSON", "van der Berg", "van der Lindt"),
            Pair("EMAIL_ADDRESS", "anna_k+1@acme.com", "maria_w@example.org"),
            Pair("ORGANIZATION", "Müller & Söhne", "Haas & Lindt"),
            Pair("CREDIT_CARD", "4111 1111 1111 1111", "4000 0012 3456 7899"),
            Pair("LOCATION", "Hauptstraße 5, 10115 Berlin", "Ringweg 9, 20999 Bremen"),
            Pair("URL", "https://acme.com/a%20b?x=1", "https://example.org/q%20z?x=7"),
            Pair("SECRET", "hunter2&\\n", "kwopts7&\\n"),
            Pair("AGE", "91", "97"),
            Pair("DATE_TIME", "3.5.2021", "7.8.2022"),
            Pair("PASSWORD", " ".join(["left"] * 60), " ".join(["word"] * 59 + ["last"])),
        ),
        "de",
    )
)

ANSWERS = [
    ("Maria Weber called.", "Anna Kowalska called."),
    ("MARIA WEBER and maria weber", "ANNA KOWALSKA and anna kowalska"),
    ("Maria's and Weber's", "Anna's and Kowalska's"), ("Marias Buch, die Webers", "Annas Buch, die Kowalskas"),
    ("Frau Weber, Maria!", "Frau Kowalska, Anna!"), ("M. Weber", "A. Kowalska"),
    ("**Maria Weber** _Maria_ `Weber`", "**Anna Kowalska** _Anna_ `Kowalska`"),
    ("Maria\nWeber, Maria\u00a0Weber, Maria&nbsp;Weber", "Anna\nKowalska, Anna\u00a0Kowalska, Anna&nbsp;Kowalska"),
    ("maria\\_w@example.org", "anna\\_k+1@acme.com"),
    ("?q=Maria%20Weber&r=Maria+Weber", "?q=Anna%20Kowalska&r=Anna+Kowalska"),
    ("maria_w%40example.org", "anna_k%2B1%40acme.com"),
    ("Petra D&#39;Angelo, D&#x27;Angelo, D'Angelo", "Jörg O&#39;Neil, O&#x27;Neil, O'Neil"),
    ("Petra%20D%27Angelo", "J%C3%B6rg%20O%27Neil"), ("<b>Haas &amp; Lindt</b>", "<b>Müller &amp; Söhne</b>"),
    ("Haas%20%26%20Lindt", "M%C3%BCller%20%26%20S%C3%B6hne"),
    ("4000 0012 3456 7899 or 4000001234567899", "4111 1111 1111 1111 or 4111111111111111"),
    ("Ringweg 9,\n20999 Bremen", "Hauptstraße 5,\n10115 Berlin"), ("Ringweg 9 in 20999", "Hauptstraße 5 in 10115"),
    ("see https://example.org/q%20z?x=7.", "see https://acme.com/a%20b?x=1."), ("kwopts7&\\n", "hunter2&\\n"),
    ("与Maria Weber谈", "与Anna Kowalska谈"), ("Van der Lindt", "Van der Berg"),
    ('print("\\nMaria Weber")', 'print("\\nAnna Kowalska")'),
    ("97, 97% and aged 97. On 7.8.2022. 97", "91, 91% and aged 91. On 3.5.2021. 91"),
    (" ".join(["word"] * 59 + ["last"]), " ".join(["left"] * 60)), (" ".join(["word"] * 70), " ".join(["word"] * 70)),
]  # fmt: skip
UNTOUCHED = [
    "Mariana", "xMaria", "Weberei", "Maria2", "Mari", "Marie Webber", "Marıa", "Weber\u0308", "mariaweber",
    "KWOPTS7&\\n", "4000 0012 3456 789", "Bremen", "van der", "Lend & Haas", "kwopts",
    "97.5", "1.97", "17.8.2022", "7.8.2022.1", "x97", "97.97", "",
]  # fmt: skip
_PIECES = st.sampled_from(
    [*(piece for answer, _ in ANSWERS for piece in answer.split(" ")), *UNTOUCHED, " ", "\n", "&", "%", "\\", "\u0308",
     "%C3", "&#3", "Mar", "ia", "D'", "+", "0000", "中", "97", ".", "7.8", "8."]
)  # fmt: skip
_TEXTS = st.lists(st.one_of(_PIECES, st.just(" "), st.text(max_size=2)), max_size=20).map("".join)


def streamed(mapping: Mapping, pieces: list[str]) -> str:
    restorer = mapping.restorer()
    return "".join(map(restorer.feed, pieces)) + restorer.end()


def test_the_forms_of_a_surrogate_are_restored() -> None:
    for answer, restored in ANSWERS:
        assert MAPPING.restore(answer) == restored
        assert streamed(MAPPING, list(answer)) == restored
        assert MAPPING.restore(f"({answer})") == f"({restored})"


def test_what_is_no_surrogate_is_not_touched() -> None:
    for answer in UNTOUCHED:
        assert MAPPING.restore(answer) == answer


@settings(max_examples=300, deadline=None)
@given(_TEXTS, st.randoms(use_true_random=False))
def test_any_split_gives_the_same(text: str, chance: random.Random) -> None:
    whole = MAPPING.restore(text)
    assert streamed(MAPPING, list(text)) == whole
    cuts = sorted(chance.randrange(len(text) + 1) for _ in range(chance.randrange(8)))
    assert streamed(MAPPING, [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]) == whole


def test_only_what_may_become_a_surrogate_is_held_back() -> None:
    for fed, expected in rows("""
        Hello  | Hello  || Hello mor | Hello mor || Hello Mar | Hello  || Maria Weber |  || Maria Webx | Anna Webx
        Maria,  | Anna,  || Hello.  | Hello.  || a &am | a  || Maria Weber  | Anna Kowalska  || xMar | xMar
    """):
        restorer = MAPPING.restorer()
        assert "".join(map(restorer.feed, fed)) == expected


@pytest.mark.parametrize(
    ("answer", "restored"),
    [
        ("[" * 20_000 + "x" + "]" * 100, "hunter2" + "]" * 100),
        ("[" * 10_000 + "y", "[" * 10_000 + "y"),
        ("[" * 40_000 + "x", "[" * 20_000 + "hunter2"),
    ],
    ids=["found", "ends otherwise", "begins late"],
)
def test_what_is_held_back_is_not_read_again_for_each_character(answer: str, restored: str, monkeypatch) -> None:
    read = 0

    def counted(token: str) -> str:
        nonlocal read
        read += 1
        return normal(token)

    restorer = mapping_of(Content((Pair("SECRET", "hunter2", "[" * 20_000 + "x"),), "en")).restorer()
    monkeypatch.setattr(key_tree, "normal", counted)
    assert "".join([*map(restorer.feed, answer), restorer.end()]) == restored
    assert read < 100 * len(answer), "the first 48 tokens of a key are compared one by one"


def test_restorers_share_nothing() -> None:
    first, second = MAPPING.restorer(), MAPPING.restorer()
    assert first.feed("Mar") == second.feed("xyz Web")[:0]
    assert first.feed("ia.") == "Anna."
    assert second.end() == "Web"


def test_a_form_that_two_originals_have_is_not_restored() -> None:
    mapping = mapping_of(
        Content((Pair("PERSON", "Ana Diaz", "Eva Stone"), Pair("PERSON", "Bob Diaz", "Ed Stone")), "en")
    )
    assert mapping.restore("E. Stone, Eva Stone") == "E. Diaz, Ana Diaz"


_ASCII = st.text(
    st.one_of(st.sampled_from("aZ09. \t\n\r\x0b\x0c\x1c\x1f\\&%_"), st.characters(max_codepoint=127)), max_size=40
)


@given(_ASCII)
def test_texts_of_ascii_are_split_as_in_other_texts(text: str) -> None:
    assert lex(text).tokens == lex(f"ß,{text}").tokens[2:]
    assert "".join(lex(text).raws) == text
