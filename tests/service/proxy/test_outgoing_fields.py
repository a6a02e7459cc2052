"""Too much text in a request is refused before it is decoded, and texts within texts count."""

import pytest

from core.errors import InvalidInput
from service.proxy.outgoing import by_system, sources_of
from service.proxy.slots import Slot, SlotKind
from service.proxy.texts import TextLimits, read_texts
from service.sanitize.policies import ProxyTerms

LIMITS = TextLimits(1_000, 100)


def test_too_much_text_is_refused_before_it_is_decoded() -> None:
    for text in ("%4D" * 500, "&amp;" * 300, '["' + "a" * 1_000 + '"]'):
        slots = [Slot({"a": text}, "a", SlotKind.TEXT, "messages.0.content")]
        with pytest.raises(InvalidInput) as refused:
            sources_of(slots, ProxyTerms(), LIMITS, pseudonym_key=b"k")
        assert refused.value.field == "messages.0.content"


def test_texts_within_texts_count() -> None:
    with pytest.raises(InvalidInput) as refused:
        read_texts([(SlotKind.TEXT, "b"), (SlotKind.TEXT, "[" + '"d",' * 100 + '"e"]')], LIMITS, False)
    assert refused.value.field == "1"


def test_system_prompts_are_known_from_other_turns_however_many_there_are() -> None:
    turns = [{"role": "user" if number % 100 == 1 else "system", "content": "a"} for number in range(50_000)]
    slots = [Slot(turn, "content", SlotKind.TEXT, f"messages.{number}.content") for number, turn in enumerate(turns)]
    read, _ = by_system(slots, {"messages": turns}, "pass")
    assert {slot.owner["role"] for slot in read} == {"user"}
