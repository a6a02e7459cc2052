"""Domain packs: what is written is read, and what is malformed is refused."""

import json
import struct
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


def facts_of(path: Path) -> dict[str, object]:
    with safe_open(path, framework="numpy") as file:
        facts: dict[str, object] = json.loads(file.metadata()["domain_pack"])
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


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"name": "Bad Name"},
        {"name": None},
        {"encoder_fingerprint": "x"},
        {"dimension": 63},
        {"dimension": True},
        {"candidates": 10**9},
        {"projections": 0},
        {"rank": 0},
        {"rank": 1_025},
        {"source": ""},
        {"knobs": []},
        {"knobs": [3]},
    ],
)
def test_malformed_facts_are_refused(path: Path, change: dict[str, object]) -> None:
    facts = facts_of(path)
    save_file(load_file(path), path, metadata={"domain_pack": json.dumps({**facts, **change})})
    with pytest.raises(InvalidPack):
        DomainPack.load(path)


@pytest.mark.parametrize(
    "change",
    [
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
    ],
)
def test_malformed_knobs_are_refused(path: Path, change: dict[str, object]) -> None:
    facts = facts_of(path)
    parameters = facts["knobs"]
    assert isinstance(parameters, list)
    parameters[0] |= change
    save_file(load_file(path), path, metadata={"domain_pack": json.dumps(facts)})
    with pytest.raises(InvalidPack):
        DomainPackInfo.read(path)


def test_malformed_tensors_are_refused(path: Path) -> None:
    facts = {"domain_pack": json.dumps(facts_of(path))}
    good = load_file(path)
    for change in (
        {"candidates": good["candidates"][:, :-1].copy()},
        {"candidates": good["candidates"][:-1].copy()},
        {"candidates": good["candidates"].astype(np.int32)},
        {"centre": np.full_like(good["centre"], np.inf)},
        {"extra": good["centre"]},
        {"codebook.8": np.full_like(good["codebook.8"], -128)},
        {"codebook.8": good["codebook.8"].astype(np.float16)},
        {"codes.1.vectors": good["codes.1.vectors"][:-1].copy()},
        {"space.factor": np.full_like(good["space.factor"], np.nan)},
    ):
        save_file({**good, **change}, path, metadata=facts)
        with pytest.raises(InvalidPack):
            DomainPack.load(path)
    save_file({k: v for k, v in good.items() if k != "recoded"}, path, metadata=facts)
    with pytest.raises(InvalidPack):
        DomainPack.load(path)


def with_header(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the header of a safetensors file in place of what its writer would allow."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size :])


@pytest.mark.parametrize(
    "description",
    ["[" * 60_000, "[]", "3", "null", '{"a": ' + "1" * 5_000 + "}", "", " " * 70_000, "\x00"],
    ids=["nested", "list", "number", "null", "long-integer", "empty", "too-long", "nul"],
)
def test_a_description_that_is_no_facts_is_refused(path: Path, description: str) -> None:
    with_header(path, lambda header: header.update(__metadata__={"domain_pack": description}))
    with pytest.raises(InvalidPack):
        DomainPack.load(path)


@pytest.mark.parametrize(
    "value",
    [{}, [[]], None, True, 10**400, float("nan"), float("inf"), "\ud800", -1, 0.5],
    ids=["object", "list", "null", "bool", "long-integer", "nan", "infinity", "surrogate", "negative", "fraction"],
)
def test_a_fact_of_another_type_is_refused(path: Path, value: object) -> None:
    good = facts_of(path)
    tensors = load_file(path)
    for key in good:
        save_file(tensors, path, metadata={"domain_pack": json.dumps({**good, key: value})})
        with pytest.raises(InvalidPack):
            DomainPack.load(path)


@pytest.mark.parametrize("kind", ["F8_E4M3", "F8_E5M2", "F8_E8M0", "BF16", "F64", "I64", "U8", "BOOL", "F4", "C64"])
def test_tensors_of_another_type_are_refused(path: Path, kind: str) -> None:
    for tensor in ("space.directions", "codebook.8", "centre", "space.factor"):
        original = path.read_bytes()
        with_header(path, lambda header, tensor=tensor: header[tensor].update(dtype=kind))  # type: ignore[misc]
        with pytest.raises(InvalidPack):
            DomainPack.load(path)
        path.write_bytes(original)


@pytest.mark.parametrize("shape", [(), (0,), (0, 64), (1, 0)])
def test_tensors_without_numbers_are_refused(path: Path, shape: tuple[int, ...]) -> None:
    facts = {"domain_pack": json.dumps(facts_of(path))}
    good = load_file(path)
    for name, dtype in (("centre", np.float16), ("codebook.8", np.int8), ("space.directions", np.int8)):
        save_file({**good, name: np.zeros(shape, dtype=dtype)}, path, metadata=facts)
        with pytest.raises(InvalidPack):
            DomainPack.load(path)


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


def test_other_files_are_refused(tmp_path: Path) -> None:
    junk = tmp_path / "junk.safetensors"
    junk.write_bytes(b"\x00" * 100)
    for file in (junk, tmp_path / "missing.safetensors"):
        with pytest.raises(InvalidPack):
            DomainPackInfo.read(file)
        with pytest.raises(InvalidPack):
            DomainPack.load(file)
    save_file({"a": np.zeros(3)}, junk)
    with pytest.raises(InvalidPack):
        DomainPackInfo.read(junk)


def test_a_malformed_pack_is_not_written(tmp_path: Path, random_pack: DomainPack) -> None:
    bad = replace(random_pack, info=replace(random_pack.info, name="No Such Name"))
    with pytest.raises(InvalidPack):
        bad.save(tmp_path / "pack.safetensors")
    assert not list(tmp_path.iterdir())
