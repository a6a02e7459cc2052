"""What a tagger found becomes masks, and what cannot be a find is an error."""

import pytest

from core.errors import RecogniserFailed
from core.text.mask_tagged import Tagged
from core.text.masks import beside
from core.text.policy import Mask, MaskPolicy
from core.text.recognised import Recognised
from core.text.sanitize import sanitize

TEXT = "Maria left Lisbon"
TYPES = frozenset({"PERSON", "LOCATION"})
FOUND = ((0, 5, "PERSON", 0.9), (11, 17, "LOCATION", 0.6))
NAMES = MaskPolicy(entities=("PERSON", "LOCATION"))


RIGHT = Tagged(TEXT, TYPES, FOUND)


def run(policy: MaskPolicy = NAMES, tagged: Tagged | None = RIGHT) -> str:
    return sanitize(TEXT, policy, "class_marker", recognised=Recognised(None, tagged)).text


def test_finds_of_requested_types_over_their_threshold_are_masked():
    assert run() == "[PERSON] left [LOCATION]"
    assert run(MaskPolicy(entities=("PERSON",))) == "[PERSON] left Lisbon"
    assert run(MaskPolicy(entities=NAMES.entities, thresholds=(("LOCATION", 0.7),))) == "[PERSON] left Lisbon"
    assert run(MaskPolicy(entities=("URL",)), tagged=None) == TEXT


@pytest.mark.parametrize(
    "tagged",
    [
        None,
        Tagged(TEXT, frozenset({"PERSON"}), FOUND[:1]),
        Tagged(TEXT.upper(), TYPES, FOUND),
        Tagged(TEXT, TYPES, ((0, 99, "PERSON", 0.9),)),
        Tagged(TEXT, TYPES, ((5, 5, "PERSON", 0.9),)),
        Tagged(TEXT, TYPES, ((-1, 5, "PERSON", 0.9),)),
        Tagged(TEXT, TYPES, ((0, 5, "PERSON", float("nan")),)),
        Tagged(TEXT, TYPES, ((0, 5, "ORGANIZATION", 0.9),)),
    ],
)
def test_a_text_that_was_not_rightly_read_is_never_released(tagged):
    with pytest.raises(RecogniserFailed) as caught:
        run(tagged=tagged)
    assert "Maria" not in repr(caught.value) + repr(vars(caught.value)) + repr(tagged)


def test_a_pattern_keeps_its_place_and_the_rest_of_a_name_around_it_is_masked():
    text = "Call 4111 1111 1111 1111 or jo@example.org Lisbon . . now"
    everything = MaskPolicy(entities=("CREDIT_CARD", "EMAIL_ADDRESS", "LOCATION"))
    found = ((0, 53, "LOCATION", 0.9),)
    result = sanitize(text, everything, "class_marker", recognised=Recognised(None, Tagged(text, TYPES, found)))

    assert result.text == "[LOCATION] [CREDIT_CARD] [LOCATION] [EMAIL_ADDRESS] [LOCATION] now"


def test_what_a_pattern_covers_whole_is_the_patterns_alone():
    pattern = [Mask(2, 9, "URL", "entity", 0.5), Mask(5, 12, "IP_ADDRESS", "entity", 0.5)]
    inside = [Mask(3, 11, "PERSON", "entity", 0.9)]
    over = [Mask(0, 14, "PERSON", "entity", 0.9)]
    assert beside("a" * 20, inside, pattern) == []
    assert [(m.start, m.end) for m in beside("a" * 20, over, pattern)] == [(0, 2), (12, 14)]
    assert [(m.start, m.end) for m in beside("a" * 20, over, [])] == [(0, 14)]
