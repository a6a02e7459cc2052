"""Routes that are built from public documents: they tell the packs apart, and come back from their file."""

from pathlib import Path

import numpy as np
import pytest

from core.mechanisms.sentences.routes import Routes
from core.mechanisms.sentences.routing import Router
from gpu_workers.domains.spec import Embedded
from training import build_routes
from training.build_routes import choices, held_out, majority_accuracy, sentence_accuracy

DIMENSION = 48
PACKS = ("law", "news", "sport")


def corpus(topic: int, seed: int, documents: int = 80) -> Embedded:
    """Documents of six sentences around one of two places of a topic."""
    draw = np.random.default_rng(seed)
    places = np.random.default_rng(100 + topic).normal(size=(2, DIMENSION)) / 4
    lengths = np.full(documents, 6, dtype=np.int64)
    vectors = np.repeat(places[draw.integers(2, size=documents)], 6, axis=0)
    vectors = vectors + draw.normal(size=vectors.shape) / 5
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return Embedded(vectors.astype(np.float32), lengths, [""] * documents)


def test_routes_tell_the_packs_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_routes, "_START_ROWS", 600)
    halves = {name: held_out(corpus(number, number), 0) for number, name in enumerate(PACKS)}
    routes = build_routes.build_routes(
        {name: [kept, kept] for name, (kept, _) in halves.items()}, encoder="test", encoder_fingerprint="0" * 64,
        source="made up", licence="none", steps=100,
    )  # fmt: skip
    routes.save(tmp_path / "routes.safetensors")
    router = Router(Routes.load(tmp_path / "routes.safetensors"))
    assert router.routes.info.packs == (*PACKS, "general")
    assert router.self_check()
    for name, (kept, held) in halves.items():
        assert len(kept.lengths) == 72
        assert sentence_accuracy(router, held, name) > 0.8  # a third by chance
        assert majority_accuracy(router, held, name) > 0.9
        certain = choices(router, held, 6, 100.0)
        assert certain is not None
        assert certain[PACKS.index(name)] > 0.9
        assert choices(router, held, 7, 1.0) is None


def test_every_corpus_is_of_one_pack() -> None:
    named = [name for corpora in build_routes.PACK_CORPORA.values() for name in corpora]
    assert sorted(named) == sorted(build_routes.CORPORA)
