"""The masked language model: the logits of the model itself, at every requested place, in documents of any length."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tiers import cells
from tiny_models import PLAIN, adapter, checkpoint
from transformers import AutoModelForMaskedLM

from gpu_workers.models.infill import MaskedLM, Question, embedded_infill, pretrained_infill


@pytest.fixture(scope="module", params=cells(["bert", "roberta"]))
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoint(tmp_path_factory.mktemp(request.param), request.param, AutoModelForMaskedLM)


@pytest.fixture(scope="module")
def model(folder: Path) -> MaskedLM:
    return pretrained_infill(folder)


def question(model: MaskedLM, words: int, places: list[int]) -> Question:
    text = " ".join(PLAIN[i * i % len(PLAIN)] for i in range(words))
    ids = model.pieces([text])[0].ids.copy()
    wanted = np.array(places, dtype=np.int64)
    ids[wanted] = model.mask
    return Question(ids, wanted)


def test_logits_are_those_of_the_model(model: MaskedLM, folder: Path) -> None:
    wanted = question(model, 12, [0, 4, 5, 11])
    own = AutoModelForMaskedLM.from_pretrained(folder).eval()
    start, end = (2, 3) if own.config.model_type == "bert" else (0, 2)
    ids = torch.tensor([[start, *wanted.ids.tolist(), end]])
    with torch.inference_mode():
        expected = own(input_ids=ids).logits[0, 1 + wanted.positions]
    assert np.allclose(model.logits([wanted])[0], expected.numpy(), atol=1e-5)


def test_a_long_document_is_answered_everywhere(model: MaskedLM) -> None:
    """Forty positions, hundreds of pieces: far text changes nothing, near text does."""
    length = len(question(model, 300, []).ids)
    places = list(range(0, length, 7))
    wanted = question(model, 300, places)
    logits = model.logits([wanted])[0]
    assert logits.shape == (len(places), model.size)
    assert np.isfinite(logits).all()
    far, near = wanted.ids.copy(), wanted.ids.copy()
    far[-3:] = model.mask
    near[places[2] + 1] = model.mask
    assert np.allclose(model.logits([Question(far, wanted.positions)])[0][:5], logits[:5], atol=1e-5)
    assert not np.allclose(model.logits([Question(near, wanted.positions)])[0][2], logits[2], atol=1e-5)


def test_companions_and_candidates_change_nothing(model: MaskedLM) -> None:
    questions = [question(model, 5, [1]), question(model, 80, [0, 40, 79]), question(model, 9, [])]
    together = model.logits(questions)
    candidates = np.array([40, 7, 99], dtype=np.int64)
    chosen = model.logits(questions, candidates)
    for own, rows, few in zip(questions, together, chosen, strict=True):
        assert np.allclose(model.logits([own])[0], rows, atol=1e-4)
        assert np.allclose(few, rows[:, candidates], atol=1e-4)
    assert together[2].shape == (0, model.size)


def test_the_served_adapter_is_the_trained_one(tmp_path: Path) -> None:
    net = adapter(tmp_path / "a.safetensors", "infill")
    served = embedded_infill(tmp_path / "a.safetensors", dtype=torch.float32)
    ids = served.pieces(["The road to the coast was closed and nobody knew."])[0].ids.copy()
    ids[3] = served.mask
    with torch.inference_mode():
        row = torch.tensor([[101, *ids.tolist(), 102]])
        expected = net(row, torch.ones_like(row), torch.tensor([4]))
    given = served.logits([Question(ids, np.array([3]))])[0]
    assert np.allclose(given, expected.numpy(), atol=1e-4)
