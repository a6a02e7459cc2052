"""What a tagger found becomes masks, and what cannot be a find is an error."""

import pytest

from core.errors import RecogniserFailed
from core.text.mask_tagged import Tagged
from core.text.masks import union
from core.text.policy import Mask, MaskPolicy
from core.text.sanitize import sanitize

TEXT = "Maria left Lisbon"
TYPES = frozenset({"PERSON", "LOCATION"})
FOUND = ((0, 5, "PERSON", 0.9), (11, 17, "LOCATION", 0.6))
NAMES = MaskPolicy(entities=("PERSON", "LOCATION"))


RIGHT = Tagged(TEXT, TYPES, FOUND)


def run(policy: MaskPolicy = NAMES, tagged: Tagged | None = RIGHT) -> str:
    return sanitize(TEXT, policy, "class_marker", tagged=tagged).text


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


def test_a_pattern_gives_the_type_of_what_a_tagger_found_too():
    found = [Mask(0, 30, "LOCATION", "entity", 0.99), Mask(5, 27, "IBAN_CODE", "entity", 0.5)]
    assert union(found) == [Mask(0, 30, "IBAN_CODE", "entity", 0.5)]
