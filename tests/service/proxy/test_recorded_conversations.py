"""Recorded conversations through a gateway in this process: a fixed share of `benchmarks.conversations`, and names that
are written in ways that recognisers do not read."""

from collections.abc import Iterator

import pytest
from model_kit import left_in

from benchmarks.conversations.measure import Bench, Figures, bench
from benchmarks.conversations.recorded import recorded
from core.text.reversible.mapping import Pair

EVERY = 107  # of 300: three
RESTORED_MIN = 0.995


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench(tmp_path_factory.mktemp("conversations")) as running:
        yield running


def test_a_share_of_the_recorded_conversations(running: Bench) -> None:
    chosen = recorded()[::EVERY]
    assert len({each.path for each in chosen}) == 3
    figures = running.run(chosen, Figures())
    assert not figures.leaked
    assert not figures.wrong
    assert figures.share >= RESTORED_MIN
    assert figures.probes["echo"] == figures.restored["echo"] == 5 * len(chosen)


def test_the_figures_find_originals_and_wrong_answers(running: Bench) -> None:
    conversation = next(each for each in recorded() if each.name.startswith("de-mail"))
    figures = Figures()
    pairs = [Pair("PERSON", original.value, "x") for original in conversation.originals[:2]]
    figures.see(conversation, {"text": "Lieber J%C3%BCrgen Gro&szlig;, aus Kassel"}, pairs)
    assert [(type_, value) for _, type_, value in figures.leaked] == [("PERSON", "Jürgen")]
    assert [(type_, value) for _, type_, value in figures.missed] == [("LOCATION", "Kassel")]


WRITINGS = [
    ("The log says: failed\\nMaria Keller was told.\\tJonas Weber was not.", ["Maria", "Keller", "Jonas", "Weber"]),
    ("name=Maria%20Keller&city=Lisbon and name=J%C3%B6rg+M%C3%BCller", ["Keller", "Lisbon", "Jörg", "Müller"]),
    ("<td>J&ouml;rg&nbsp;M&uuml;ller</td><td>Maria&#32;Keller</td>", ["Jörg", "Müller", "Maria", "Keller"]),
    ("Please write to Ｍａｒｉａ Ｋｅｌｌｅｒ and to 𝐉𝐨𝐧𝐚𝐬 𝐖𝐞𝐛𝐞𝐫.", ["Maria", "Keller", "Jonas", "Weber"]),
    ("My card is ４１１１ １１１１ １１１１ １１１１.", ["1111 1111"]),
    ("Ask Grace Hill, then open /people/grace-hill and grace_hill.pdf.", ["Grace", "Hill", "grace", "hill"]),
]


def test_names_in_other_writings_do_not_leave_and_come_back(running: Bench) -> None:
    for text, names in WRITINGS:
        answer, seen = running.asked(text)
        assert answer == text
        assert not left_in(seen, names)
