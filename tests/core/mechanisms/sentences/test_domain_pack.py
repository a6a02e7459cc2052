"""Domain packs: what is written is read, and what is malformed is refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.pack_facts import DomainPackInfo, InvalidPack
from core.mechanisms.space import Space


@pytest.fixture
def path(tmp_path: Path, random_pack: DomainPack) -> Path:
    file = tmp_path / "pack.safetensors"
    random_pack.save(file)
    return file


def facts_of(path: Path) -> dict[str, Any]:
    with safe_open(path, framework="numpy") as file:
        facts: dict[str, Any] = json.loads(file.metadata()["domain_pack"])
    return facts


def test_a_pack_comes_back(path: Path, random_pack: DomainPack) -> None:
    pack = DomainPack.load(path, encoder_fingerprint="0" * 64)
    assert pack.info == random_pack.info == DomainPackInfo.read(path)
    assert np.allclose(pack.candidates, random_pack.candidates, atol=1e-3)
    assert pack.candidates.dtype == np.float32
    assert not pack.candidates.flags.writeable
    assert len(pack.recoder) == 4
    assert set(pack.codebooks) == {8, 64, 300}
    assert np.array_equal(pack.codebooks[64], random_pack.codebooks[64])
    assert [table.noise for table in pack.code_tables] == [row.code_noise for row in pack.info.mechanism_parameters]
    assert np.array_equal(pack.space.directions, random_pack.space.directions)


def test_a_pack_of_another_encoder_is_refused(path: Path) -> None:
    with pytest.raises(InvalidPack, match="another encoder"):
        DomainPack.load(path, encoder_fingerprint="1" * 64)


def test_knobs_are_those_of_the_next_lower_epsilon(random_pack: DomainPack) -> None:
    chosen = [random_pack.info.parameters_for(round(e * 10**9)).epsilon for e in (0.1, 1, 4.99, 5, 19, 20, 4_000_000)]
    assert chosen == [1, 1, 1, 5, 5, 20, 20]


def test_malformed_knobs_are_refused(path: Path) -> None:
    facts, tensors = facts_of(path), load_file(path)
    first, *others = facts["knobs"]
    for change in [
        {"epsilon": 0},
        {"epsilon": "1"},
        {"codes": 1},
        {"codes": 65_537},
        {"code_noise": "none"},
        {"threshold": 1.5},
        {"threshold": float("nan")},
        {"cosine_candidates": 301},
        {"projections": 7},
        {"depth_candidates": 0},
        {"epsilon": 6},
    ]:
        knobs = [{**first, **change}, *others]
        save_file(tensors, path, metadata={"domain_pack": json.dumps({**facts, "knobs": knobs})})
        with pytest.raises(InvalidPack):
            DomainPackInfo.read(path)


def test_a_pack_whose_sums_are_not_exact_is_refused(tmp_path: Path, pack_of: Callable[..., DomainPack]) -> None:
    """127 * 127 * 1,100 is above 2^24: float32 would round such a sum, by its order."""
    file = tmp_path / "wide.safetensors"
    pack = pack_of(np.eye(3, 1_100, dtype=np.float32))
    line = Space(pack.space.directions[:1], pack.space.factor[:1], pack.space.shift[:1])
    codebooks = {size: codes[:, :1].copy() for size, codes in pack.codebooks.items()}
    replace(pack, info=replace(pack.info, rank=1), space=line, codebooks=codebooks).save(file)
    DomainPack.load(file)
    facts, tensors = {"domain_pack": json.dumps(facts_of(file))}, load_file(file)
    tensors["space.directions"] = np.full_like(tensors["space.directions"], 127)
    save_file(tensors, file, metadata=facts)
    with pytest.raises(InvalidPack, match="exact"):
        DomainPack.load(file)


def test_a_malformed_pack_is_not_written(tmp_path: Path, random_pack: DomainPack) -> None:
    bad = replace(random_pack, info=replace(random_pack.info, name="No Such Name"))
    with pytest.raises(InvalidPack):
        bad.save(tmp_path / "pack.safetensors")
    assert not list(tmp_path.iterdir())
