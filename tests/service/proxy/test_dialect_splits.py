"""Any answer, split anywhere, in each wire format: a stream says what the whole answer says."""

import json
from bisect import bisect_left
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_formats_kit import Call, Said, events

from benchmarks.conversations.answers import heard
from core.text.reversible.forms import mapping_of
from core.text.reversible.mapping import Content, Pair
from service.proxy.endpoints import DIALECTS
from service.proxy.restorers import MappingRestorers

MAPPING = mapping_of(
    Content(
        (
            Pair("PERSON", "Anna Kowalska", "Grace Field"),
            Pair("PERSON", "Jörg O'Neil", "Petra D'Angelo"),
            Pair("EMAIL_ADDRESS", "anna_k@acme.com", "grace_f@example.org"),
            Pair("CREDIT_CARD", "4111 1111 1111 1111", "4000 0012 3456 7899"),
        ),
        "en",
    )
)
_SNIPPETS = st.sampled_from(
    ["Grace Field", "Grace", "FIELD", "grace-field", "G. Field", "Petra%20D%27Angelo", "D&#39;Angelo", "grace\\_f",
     "grace_f@example.org", "4000 0012 3456 7899", "4000001234567899", "Ｇｒａｃｅ", "'s", " ", "\n", "\\n", "&", "%",
     "{", '"', "é", "\U0001f600", ".", "12"]
)  # fmt: skip
_TEXTS = st.lists(st.one_of(_SNIPPETS, st.text(st.characters(exclude_categories=["Cs"]), max_size=2)), max_size=8)
_CUTS = st.lists(st.integers(0, 200), max_size=12).map(sorted)


@pytest.mark.parametrize("path", DIALECTS)
@settings(max_examples=60, deadline=None)
@given(text=_TEXTS.map("".join), values=_TEXTS, cuts=_CUTS)
def test_a_stream_says_what_the_whole_answer_says(path: str, text: str, values: list[str], cuts: list[int]) -> None:
    said = Said(text, (Call("find", json.dumps({"values": values, "note": text})),))

    def split(whole: str) -> list[str]:
        places = [0, *cuts[: bisect_left(cuts, len(whole))], len(whole)]
        return [piece for at, end in pairwise(places) if (piece := whole[at:end])]

    stream = DIALECTS[path].stream(MappingRestorers(MAPPING))
    written = [each for event in events(path, said, split) for each in stream.event(*parsed(event))] + stream.end()

    answer = "\n".join(f"data: {data if isinstance(data, str) else json.dumps(data)}" for _, data in written)
    result = heard(path, answer, stream=True)
    assert result.text == MAPPING.restore(text)
    assert json.loads(result.arguments[0]) == {
        "values": [MAPPING.restore(value) for value in values],
        "note": MAPPING.restore(text),
    }


def parsed(event: str) -> tuple[str | None, Any]:
    """The name and the data of a server-sent event."""
    lines = dict(line.split(": ", 1) for line in event.strip().split("\n"))
    data = lines["data"]
    return lines.get("event"), data if data == "[DONE]" else json.loads(data)
