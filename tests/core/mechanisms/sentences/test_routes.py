"""Routes files: what is written is read, and what is malformed is refused."""

import json
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pack_kit import make_pack, make_routes
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from core.mechanisms.sentences.pack_facts import InvalidPack
from core.mechanisms.sentences.routes import Routes, RoutesInfo


@pytest.fixture
def routes() -> Routes:
    centroids = np.random.default_rng(3).normal(size=(5, 16))
    return make_routes(centroids / 4, [0, 0, 1, 2, 1], ("news", "reviews", "general"), default_percent=20)


@pytest.fixture
def path(tmp_path: Path, routes: Routes) -> Path:
    file = tmp_path / "routes.safetensors"
    routes.save(file)
    return file


def change_facts(path: Path, change: dict[str, object]) -> None:
    with safe_open(path, framework="numpy") as file:
        facts = json.loads(file.metadata()["routes"])
    save_file(load_file(path), path, metadata={"routes": json.dumps({**facts, **change})})


def change_tensors(path: Path, change: dict[str, np.ndarray | None]) -> None:
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
    tensors = {name: array for name, array in (load_file(path) | change).items() if array is not None}
    save_file(tensors, path, metadata=metadata)


def test_routes_come_back(path: Path, routes: Routes) -> None:
    read = Routes.load(path)
    assert read.info == routes.info == RoutesInfo.read(path)
    assert np.array_equal(read.centroids, routes.centroids)
    assert np.array_equal(read.owners, routes.owners)
    assert np.array_equal(read.space.directions, routes.space.directions)
    assert not read.centroids.flags.writeable


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"encoder": ""},
        {"encoder": 3},
        {"encoder_fingerprint": "x"},
        {"dimension": 15},
        {"dimension": True},
        {"rank": 0},
        {"rank": 1_025},
        {"centroids": 4_097},
        {"centroids": 4},
        {"packs": ["news"]},
        {"packs": ["news", "reviews"], "default": "news"},  # a centroid is of the third
        {"packs": ["news", "reviews", "news"]},
        {"packs": ["news", "reviews", "Bad Name"]},
        {"packs": ["news", "reviews", 3]},
        {"packs": "news"},
        {"packs": ["news", "reviews", "auto"]},
        {"default": "law"},
        {"default": ["news"]},
        {"default_percent": 101},
        {"default_percent": -1},
        {"default_percent": 0.5},
        {"source": None},
    ],
)
def test_malformed_facts_are_refused(path: Path, change: dict[str, object]) -> None:
    change_facts(path, change)
    with pytest.raises(InvalidPack):
        Routes.load(path)


@pytest.mark.parametrize(
    "change",
    [
        {"owners": None},
        {"further": np.zeros(3, dtype=np.float32)},
        {"owners": np.array([0, 0, 1, 3, 1], dtype=np.uint8)},
        {"owners": np.array([0, 0, 1, 2, 1], dtype=np.int64)},
        {"owners": np.array([0, 0, 1, 2], dtype=np.uint8)},
        {"centroids": np.full((5, 16), -128, dtype=np.int8)},
        {"centroids": np.zeros((5, 16), dtype=np.float32)},
        {"centroids": np.zeros((5, 15), dtype=np.int8)},
        {"space.directions": np.full((16, 16), -128, dtype=np.int8)},
        {"space.factor": np.full(16, np.nan, dtype=np.float32)},
        {"space.shift": np.full(16, np.inf, dtype=np.float32)},
        {"space.shift": np.zeros(16, dtype=np.int8)},
    ],
)
def test_malformed_tensors_are_refused(path: Path, change: dict[str, np.ndarray | None]) -> None:
    change_tensors(path, change)
    with pytest.raises(InvalidPack):
        Routes.load(path)


@pytest.mark.parametrize(
    "value",
    [{}, [[]], None, True, 10**400, float("nan"), float("inf"), "\ud800", -1, 0.5],
    ids=["object", "list", "null", "bool", "long-integer", "nan", "infinity", "surrogate", "negative", "fraction"],
)
def test_a_fact_of_another_type_is_refused(path: Path, value: object) -> None:
    with safe_open(path, framework="numpy") as file:
        good = json.loads(file.metadata()["routes"])
    for key in good:
        change_facts(path, good | {key: value})
        with pytest.raises(InvalidPack):
            Routes.load(path)


def test_a_description_that_is_nested_too_deeply_is_refused(path: Path) -> None:
    save_file(load_file(path), path, metadata={"routes": "[" * 60_000})
    with pytest.raises(InvalidPack):
        Routes.load(path)


@pytest.mark.parametrize("kind", ["F8_E4M3", "F8_E5M2", "F8_E8M0", "BOOL", "F4"])
@pytest.mark.parametrize("tensor", ["space.directions", "centroids", "owners"])
def test_tensors_of_a_type_that_numpy_lacks_are_refused(path: Path, tensor: str, kind: str) -> None:
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    header[tensor]["dtype"] = kind
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size :])
    with pytest.raises(InvalidPack):
        Routes.load(path)


@pytest.mark.parametrize("shape", [(), (0,), (0, 16), (1, 0)])
def test_tensors_without_numbers_are_refused(path: Path, shape: tuple[int, ...]) -> None:
    for name, dtype in (("owners", np.uint8), ("centroids", np.int8), ("space.shift", np.float32)):
        original = path.read_bytes()
        change_tensors(path, {name: np.zeros(shape, dtype=dtype)})
        with pytest.raises(InvalidPack):
            Routes.load(path)
        path.write_bytes(original)


def test_a_space_with_inexact_sums_is_refused(tmp_path: Path) -> None:
    wide = make_routes(np.zeros((2, 2_000)), [0, 1], ("news", "general"))
    rank_one = replace(
        wide,
        info=replace(wide.info, rank=1),
        space=replace(
            wide.space,
            directions=np.full((1, 2_000), 127, dtype=np.int8),
            factor=np.ones(1, dtype=np.float32),
            shift=np.zeros(1, dtype=np.float32),
        ),
        centroids=np.zeros((2, 1), dtype=np.int8),
    )
    rank_one.save(tmp_path / "routes.safetensors")
    with pytest.raises(InvalidPack, match="not exact"):
        Routes.load(tmp_path / "routes.safetensors")


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "routes.safetensors"
    with pytest.raises(InvalidPack):
        Routes.load(path)
    path.write_bytes(b"nothing")
    with pytest.raises(InvalidPack):
        Routes.load(path)
    make_pack(np.eye(4)).save(path)
    with pytest.raises(InvalidPack, match="routes"):
        Routes.load(path)


def test_routes_fit_packs_of_their_encoder_alone(routes: Routes) -> None:
    info = make_pack(np.eye(16)).info
    installed = dict.fromkeys(("news", "reviews", "general"), info)
    assert routes.info.fits(installed | {"law": replace(info, dimension=3)})
    assert not routes.info.fits({name: installed[name] for name in ("news", "general")})
    assert not routes.info.fits(installed | {"news": replace(info, encoder_fingerprint="1" * 64)})
    assert not routes.info.fits(installed | {"news": replace(info, dimension=3)})
