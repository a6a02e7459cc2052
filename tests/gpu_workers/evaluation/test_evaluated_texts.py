"""The rows of an evaluation, and the figures of its texts: what is refused, kept, lost and linked."""

import json
import tomllib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from core.errors import BadCorpus
from core.text.policy import ENTITIES, PROFILES, MaskPolicy, Sanitised
from gpu_workers.engine.protocol import Role
from gpu_workers.evaluation.advice import advice_on_masking, policy_file
from gpu_workers.evaluation.linkage import halves, linkage
from gpu_workers.evaluation.masking import GROUPS, Attribute, Masking, measured, ordinary_lost, sanitised, values_of
from gpu_workers.evaluation.spec import TEXTS_MAX, TEXTS_MIN, SanitizingMethod, Texts, read_texts
from gpu_workers.evaluation.utility import Estimate
from gpu_workers.handlers.sanitiser import Sanitiser
from gpu_workers.handlers.sanitize_tasks import DocumentTask

FLAT = Estimate(0.5, 0.4, 0.6)


def lines(rows: list[Any]) -> Iterator[tuple[int, bytes]]:
    return (
        (number, each if isinstance(each, bytes) else json.dumps(each).encode()) for number, each in enumerate(rows, 1)
    )


def test_rows_are_read_with_the_members_of_the_first_one() -> None:
    row = {"text": "One.", "label": "a", "person": "p"}
    found = read_texts(lines([row] * TEXTS_MIN), chars_max=10)
    assert (found.texts[0], found.labels, found.persons) == ("One.", ("a",) * TEXTS_MIN, ("p",) * TEXTS_MIN)
    assert read_texts(lines([{"text": "One."}] * TEXTS_MIN), chars_max=10).labels is None


@pytest.mark.parametrize(
    ("rows", "reason", "line"),
    [
        ([{"text": "walrus"}] * (TEXTS_MIN - 1), "too-few-texts", None),
        ([{"text": "walrus"}] * (TEXTS_MAX + 1), "too-many-texts", TEXTS_MAX + 1),
        ([{"text": "walrus"}, {"text": "walrus", "label": "x"}], "other-members", 2),
        ([{"text": "walrus", "walrus": 1}], "wrong-row", 1),
        ([{"text": " "}], "wrong-row", 1),
        ([{"text": 7}], "wrong-row", 1),
        ([["walrus"]], "wrong-row", 1),
        ([{"text": "w" * 31}], "too-long", 1),
        ([b"walrus"], "malformed-json", 1),
    ],
)
def test_a_row_that_cannot_be_used_is_named_and_not_quoted(rows: list[Any], reason: str, line: int | None) -> None:
    with pytest.raises(BadCorpus) as caught:
        read_texts(lines(rows), chars_max=30)
    assert (caught.value.reason, caught.value.line) == (reason, line)
    assert "walrus" not in str(caught.value)


def results(entities: tuple[str, ...]) -> list[Sanitised]:
    task = DocumentTask("", MaskPolicy(entities=entities, language="en"), explain=0)
    return sanitised(Sanitiser(), task, TEXTS.texts, lambda _: None)


FOUND = ("EMAIL_ADDRESS", "OCCUPATION", "NATIONALITY", "RELATIONSHIP", "PHONE_NUMBER")
TEXTS = Texts(
    ("A Polish plumber wrote to ann@example.org.", "My mother is a nurse.", "It rained all day."), None, ("a", "b", "c")
)


def figures(entities: tuple[str, ...]) -> Masking:
    return measured("few", TEXTS, values_of(TEXTS.texts, results(FOUND)), results(entities), FLAT, FLAT)


def test_what_a_policy_leaves_makes_persons_unique() -> None:
    some, all_ = figures(("EMAIL_ADDRESS",)), figures(FOUND)
    assert some.attributes == (
        Attribute("contact", 1, 0),
        Attribute("nationality", 1, 1),
        Attribute("occupation", 2, 2),
        Attribute("family", 1, 1),
    )
    assert (some.persons, some.unique, some.bare) == (3, pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert (all_.unique, all_.bare) == (0, 1)
    assert {attribute.surviving for attribute in all_.attributes} == {0}
    assert dict(some.finds) == {"EMAIL_ADDRESS": 1}
    assert all_.masked > some.masked > 0


def test_ordinary_words_are_frequent_and_written_in_small_letters() -> None:
    assert ordinary_lost("He is a good man in Rome.", "He is a <X> man in <Y>.", "en") == (1, 4)
    assert ordinary_lost("Sie ist eine gute Frau.", "Sie ist eine gute Frau.", "de") == (0, 3)


def test_advice_adds_what_survives_and_its_file_is_a_policy() -> None:
    task = DocumentTask("", MaskPolicy(entities=("EMAIL_ADDRESS", "OCCUPATION")))
    mask = {"entities": ["EMAIL_ADDRESS", "OCCUPATION"], "thresholds": {"EMAIL_ADDRESS": 0.6}}
    methods = [
        SanitizingMethod("few", {"mask": mask}, Role.SANITIZE, task),
        SanitizingMethod("all", {}, Role.SANITIZE, DocumentTask("", MaskPolicy())),
    ]
    few = figures(("EMAIL_ADDRESS",))
    advice = advice_on_masking(methods, [few, Masking(**{**vars(few), "name": "all", "unique": 1.0})], texts=3)
    assert advice is not None
    assert advice.name == "few"
    assert advice.body["mask"] == {
        "entities": ["EMAIL_ADDRESS", "OCCUPATION", "NATIONALITY", "RELATIONSHIP"],
        "thresholds": {"EMAIL_ADDRESS": 0.6, "OCCUPATION": 0.25},
    }
    other = advice_on_masking(methods, [Masking(**{**vars(few), "name": "all"})], texts=3)
    assert other is not None
    assert other.body == {"mask": {"profile": "default", "entities": ["NATIONALITY", "OCCUPATION", "RELATIONSHIP"]}}
    read = tomllib.loads(advice.policy_file or "")
    assert read == {"policies": {"evaluated": {"mask": advice.body["mask"]}}}
    body = {"mask": {"profile": "hipaa", "thresholds": {"PERSON": 0.5}}, "fill": {"mode": "surrogate"}}
    assert tomllib.loads(policy_file(body)) == {"policies": {"evaluated": body}}
    assert advice_on_masking([], [], texts=3) is None


def test_halves_of_persons_link_by_their_vectors() -> None:
    persons = [f"p{row % 20}" for row in range(60)] + ["alone"]
    pairs = halves(persons)
    assert len(pairs) == 20
    assert (pairs[3][0], pairs[3][1]) == ([3, 43], [23])
    own = np.vstack([np.eye(20, dtype=np.float32)[[row % 20 for row in range(60)]], np.zeros((1, 20), np.float32)])
    found = linkage("texts", None, own, pairs)
    assert (found.found, found.chance, found.persons, found.high) == (1, 0.05, 20, 1)
    assert found.low == pytest.approx(20 / (20 + 1.959964**2))
    other = np.random.default_rng(0).normal(size=(61, 20)).astype(np.float32)
    assert linkage("noise", 1.0, other, pairs).found < 0.4


def test_the_profile_that_finds_attributes_names_types_of_every_group() -> None:
    for group, entities in GROUPS.items():
        assert {*entities} <= {*ENTITIES}, group
        assert {*entities} & {*PROFILES["anonymise"]}, group
