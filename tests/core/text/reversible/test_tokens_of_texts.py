"""How a text is split into tokens."""

from hypothesis import given
from hypothesis import strategies as st

from core.text.reversible.lexing import lex

_ASCII = st.text(
    st.one_of(st.sampled_from("aZ09. \t\n\r\x0b\x0c\x1c\x1f\\&%_"), st.characters(max_codepoint=127)), max_size=40
)


@given(_ASCII)
def test_texts_of_ascii_are_split_as_in_other_texts(text: str) -> None:
    assert lex(text).tokens == lex(f"ß,{text}").tokens[2:]
    assert "".join(lex(text).raws) == text
