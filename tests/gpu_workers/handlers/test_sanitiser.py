"""The worker's handler: warm-up, and one answer a document."""

import pickle

import numpy as np
import pytest

from core.errors import InvalidInput, TaskFailed
from core.mechanisms.words.replacement import WordVectors
from core.text import mask_entity
from core.text.policy import MaskPolicy, SanitizeTask
from gpu_workers.engine.handler import CanaryMissed, UnfitDevice
from gpu_workers.handlers import sanitiser
from gpu_workers.handlers.sanitiser import Sanitiser

SECRET = "jo.doe@corp.internal"


def test_warm_up_reports_public_facts():
    facts = Sanitiser().warm_up()
    assert "general" in facts.allow_lists
    assert "EMAIL_ADDRESS" in facts.entities
    assert facts.versions["presidio-analyzer"]
    pickle.dumps(facts)


@pytest.mark.parametrize("entity", list(sanitiser.CANARY_VALUES))
def test_warm_up_refuses_a_worker_that_misses_planted_data(monkeypatch, entity):
    table = {**mask_entity.recognisers(), entity: ()}
    monkeypatch.setattr(mask_entity, "recognisers", lambda: table)
    with pytest.raises(CanaryMissed, match=entity):
        Sanitiser().warm_up()


def test_warm_up_refuses_a_processor_whose_distances_are_inexact(monkeypatch):
    exact = WordVectors.squared_distances
    monkeypatch.setattr(
        WordVectors, "squared_distances", lambda self, rows: exact(self, rows).astype(np.float16).astype(np.float32)
    )
    with pytest.raises(UnfitDevice, match="distances"):
        Sanitiser().warm_up()


def test_answers_come_in_order_and_one_failure_leaves_the_others_alone():
    tasks = [
        SanitizeTask(f"Write to {SECRET}", MaskPolicy(), "class_marker"),
        SanitizeTask(SECRET, MaskPolicy(techniques=("allow_list",), allow_list="nosuch"), "marker"),
        SanitizeTask("nothing", MaskPolicy(), "surrogate"),
    ]
    first, second, third = Sanitiser().run(tasks)
    assert first.text == "Write to [EMAIL_ADDRESS]"
    assert isinstance(second, InvalidInput)
    assert third.text == "nothing"


def test_each_task_of_a_batch_is_drawn_by_its_own_mechanism():
    text = "good morning friends " * 200
    policy, epsilon_nano = MaskPolicy(techniques=("all",)), 20 * 10**9
    mechanisms = ("laplace", "exponential", "laplace", "exponential")
    answers = Sanitiser().run([SanitizeTask(text, policy, "metric_dp", epsilon_nano, name) for name in mechanisms])
    for name, answer in zip(mechanisms, answers, strict=True):
        same = sum(old == new for old, new in zip(text.split(), answer.text.split(), strict=True))
        assert same < 300 if name == "laplace" else same > 450, (
            "noise keeps a fifth of the words, selection nine tenths"
        )


def test_an_unexpected_exception_says_nothing(monkeypatch):
    def explode(text, *args, **kwargs):
        raise ValueError(text)

    monkeypatch.setattr(sanitiser, "fill_masks", explode)
    (answer,) = Sanitiser().run([SanitizeTask(SECRET, MaskPolicy(), "marker")])
    assert isinstance(answer, TaskFailed)
    assert answer.__context__ is None
    assert answer.__traceback__ is None
    assert SECRET not in repr(answer) + repr(vars(answer))
