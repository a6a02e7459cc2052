"""The rows of the utility benchmark: every one answers, and what is computed from them is what it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.sentdp.baselines import Box
from benchmarks.sentdp.corpus import EPSILONS, gap_closed
from benchmarks.sentdp.methods import GENERAL, NON_PRIVATE, OWN, methods
from benchmarks.sentdp.speed import choices, random_pack
from benchmarks.sentdp.table import Cell, Row, Table
from core.amounts import NANO
from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.registry import SENTENCE_MECHANISMS, sentence_mechanism

PACK = Path(__file__).parents[2] / "gpu_workers" / "packs" / "general.safetensors"


@pytest.fixture(scope="module")
def pack() -> DomainPack:
    return DomainPack.load(PACK)


@pytest.fixture(scope="module")
def documents(pack: DomainPack) -> list[np.ndarray]:
    rows = np.random.default_rng(0).standard_normal((3, 9, pack.info.dimension)).astype(np.float32)
    return list(rows / np.linalg.norm(rows, axis=2, keepdims=True))


def test_every_row_releases_one_vector_a_document(pack: DomainPack, documents: list[np.ndarray]) -> None:
    rows = methods({OWN: pack, GENERAL: pack}, pack, Box.around(pack.candidates))

    assert len({row.name for row in rows}) == len(rows)
    assert {f"{name}, {title}" for name in SENTENCE_MECHANISMS for title in (OWN, GENERAL)} <= {r.name for r in rows}
    for row in rows:
        released = row.release(documents, 3)
        assert released.shape == (3, pack.info.dimension)
        assert np.isfinite(released).all()


@pytest.mark.parametrize("mechanism", SENTENCE_MECHANISMS)
def test_the_random_pack_is_used_whole(mechanism: str, pack: DomainPack, documents: list[np.ndarray]) -> None:
    drawn = random_pack(pack, 500)

    assert choices(mechanism, drawn, 10).startswith("500 ")
    released = sentence_mechanism(mechanism, drawn).release([torch.from_numpy(documents[0])], [10 * NANO])
    assert released.shape == (1, pack.info.dimension)


def test_the_share_of_the_gap() -> None:
    table = Table("T", EPSILONS, [])
    for title, ours in ((OWN, 0.75), (GENERAL, 0.5)):
        table.rows[f"deep_candidate, {title}"] = Row("", [Cell(0.5)] * len(EPSILONS))
        table.rows[f"sentence_codes, {title}"] = Row("", [Cell(ours)] * len(EPSILONS))
    table.rows[NON_PRIVATE] = Row("", [Cell(1.0)])

    own, general = gap_closed(table).splitlines()

    assert "50% at eps 3, 50% at eps 10" in own
    assert "0% at eps 3, 0% at eps 10" in general
