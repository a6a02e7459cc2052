"""What a caller may ask for, and that a refusal repeats nothing of it."""

import pickle

import pytest

from core.errors import GatewayError, InvalidInput
from core.text.mask_words import AllowLists
from core.text.policy import DEFAULT_ENTITIES, ENTITIES, MaskPolicy, SanitizeTask
from core.text.sanitize import sanitize

SECRET = "SECRETVALUE"


def test_a_policy_that_cannot_be_met_is_refused_without_echo():
    for options in [
        {"techniques": ()}, {"techniques": (SECRET,)}, {"entities": (SECRET,)}, {"thresholds": (("PERSON", 0.2),)},
        {"techniques": ("vocabulary",), "entities": ("URL",)}, {"vocabulary_size": 99}, {"vocabulary_size": 100_001},
        {"allow_list": f"../{SECRET}"}, {"thresholds": ((SECRET, 0.5),)}, {"thresholds": (("URL", 0.0),)},
        {"thresholds": (("URL", float("nan")),)},
    ]:  # fmt: skip
        with pytest.raises(InvalidInput) as caught:
            MaskPolicy(**options)
        assert SECRET not in repr(caught.value)
        assert caught.value.field


def test_a_refused_entity_lists_the_supported_ones():
    with pytest.raises(InvalidInput, match="EMAIL_ADDRESS, PHONE_NUMBER"):
        MaskPolicy(entities=("SHOE_SIZE",))
    with pytest.raises(InvalidInput, match=r"EMAIL_ADDRESS, PHONE_NUMBER.*, PERSON\.$"):
        MaskPolicy(entities=("LOCATION",)).completed(["PERSON"])


def test_names_are_default_where_a_tagger_finds_them_and_refused_where_none_does():
    assert MaskPolicy().completed(["PERSON", "MISC"]).entities == (*DEFAULT_ENTITIES, "PERSON")
    assert MaskPolicy().completed([]).entities == DEFAULT_ENTITIES
    assert MaskPolicy(techniques=("vocabulary",)).completed(["PERSON"]).entities == ()
    with pytest.raises(InvalidInput):
        MaskPolicy(entities=("PERSON",)).completed([])


def test_an_unknown_fill_and_a_text_over_the_limit_are_refused(monkeypatch):
    for fill in ["", SECRET]:
        with pytest.raises(InvalidInput) as caught:
            SanitizeTask("text", MaskPolicy(), fill)
        assert SECRET not in str(caught.value)
    monkeypatch.setattr("core.text.policy.TEXT_CHARS_MAX", 10)
    with pytest.raises(InvalidInput):
        SanitizeTask("x" * 11, MaskPolicy())


def test_the_text_of_a_task_is_not_in_its_repr():
    task = SanitizeTask(SECRET, MaskPolicy(), "marker")
    assert SECRET not in repr(task)
    assert pickle.loads(pickle.dumps(task)) == task


def test_thresholds_replace_the_table_and_defaults_leave_dates_alone():
    policy = MaskPolicy(thresholds=(("URL", 0.9),))
    assert policy.requested()["URL"] == 0.9
    assert policy.requested()["EMAIL_ADDRESS"] == ENTITIES["EMAIL_ADDRESS"].threshold
    assert not {"DATE_TIME", "US_DRIVER_LICENSE"} & set(DEFAULT_ENTITIES)


def test_an_unknown_allow_list_is_refused_even_for_an_empty_text():
    with pytest.raises(GatewayError, match="general"):
        sanitize("", MaskPolicy(techniques=("allow_list",), allow_list="nosuch"), "marker")


def test_an_operator_adds_a_list(tmp_path):
    (tmp_path / "clinic.txt").write_text("# words\nThe patient\nslept 5\n")
    lists = AllowLists(tmp_path)
    assert lists.names == ("clinic", "general", "general-5000")
    policy = MaskPolicy(techniques=("allow_list",), allow_list="clinic")
    assert sanitize("the Patient slept 5 or 6 hours", policy, "class_marker", lists=lists).text == (
        "the Patient slept 5 [WORD]"
    )
