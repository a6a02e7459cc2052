"""The files of domain packs and of routes: what is written is read, and what is malformed is refused."""

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pack_kit import make_pack, make_routes
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from table_kit import texts

from core.mechanisms.sentences.domain_pack import DomainPack, DomainPackInfo, InvalidPack
from core.mechanisms.sentences.registry import SENTENCE_MECHANISMS, sentence_mechanism
from core.mechanisms.sentences.routes import Routes, RoutesInfo
from core.mechanisms.space import Space
from gpu_workers.models.encoder import weights_fingerprint
from gpu_workers.models.encoder_model import bundled_path
from gpu_workers.packs import pack_paths

READERS: dict[str, tuple[Callable[..., object], Callable[..., object]]] = {
    "domain_pack": (DomainPack.load, DomainPackInfo.read),
    "routes": (Routes.load, RoutesInfo.read),
}
TENSORS = {
    "domain_pack": ("space.directions", "codebook.8", "centre", "space.factor"),
    "routes": ("space.directions", "centroids", "owners", "space.factor"),
}


class File:
    """A file of one of the two kinds, as it was saved; each change is made to that."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path, self.kind = path, kind
        self.whole, self.tensors = path.read_bytes(), load_file(path)
        with safe_open(path, framework="numpy") as file:
            self.facts: dict[str, Any] = json.loads(file.metadata()[kind])

    def described(self, facts: dict[str, object], tensors: dict[str, np.ndarray] | None = None) -> None:
        save_file(self.tensors if tensors is None else tensors, self.path, metadata={self.kind: json.dumps(facts)})

    def with_header(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Change the header of a safetensors file in place of what its writer would allow."""
        (size,) = struct.unpack("<Q", self.whole[:8])
        header = json.loads(self.whole[8 : 8 + size])
        change(header)
        text = json.dumps(header).encode()
        self.path.write_bytes(struct.pack("<Q", len(text)) + text + self.whole[8 + size :])

    def check_refused(self, what: object) -> None:
        load, _ = READERS[self.kind]
        try:
            load(self.path)
        except InvalidPack:
            return
        pytest.fail(f"not refused: {what}")


@pytest.fixture
def routes() -> Routes:
    centroids = np.random.default_rng(3).normal(size=(5, 16))
    return make_routes(centroids / 4, [0, 0, 1, 2, 1], ("news", "reviews", "general"), default_percent=20)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file.safetensors"


@pytest.fixture(params=READERS)
def file(request: pytest.FixtureRequest, path: Path, random_pack: DomainPack, routes: Routes) -> File:
    (random_pack if request.param == "domain_pack" else routes).save(path)
    return File(path, request.param)


# JSON of the facts that replace those of a good file
FACTS = {
    "domain_pack": """
{"name": "Bad Name"} || {"name": null} || {"dimension": 63} || {"candidates": 1000000000} || {"projections": 0}
{"source": ""} || {"knobs": []} || {"knobs": [3]}
""",
    "routes": """
{"encoder": ""} || {"encoder": 3} || {"dimension": 15} || {"centroids": 4097} || {"centroids": 4}
{"packs": ["news"]} || {"packs": ["news", "reviews"], "default": "news"} || {"packs": ["news", "reviews", "news"]}
{"packs": ["news", "reviews", "Bad Name"]} || {"packs": ["news", "reviews", 3]} || {"packs": "news"}
{"packs": ["news", "reviews", "auto"]} || {"default": "law"} || {"default": ["news"]} || {"default_percent": 101}
{"source": null}
""",
}
BOTH = """
{"format": "other"} || {"encoder_fingerprint": "x"} || {"dimension": true} || {"rank": 0} || {"rank": 1025}
"""


KNOBS = """
{"epsilon": 0} || {"epsilon": "1"} || {"codes": 1} || {"codes": 65537} || {"code_noise": "none"} || {"threshold": 1.5}
{"threshold": NaN} || {"cosine_candidates": 301} || {"projections": 7} || {"depth_candidates": 0} || {"epsilon": 6}
"""


def test_malformed_facts_are_refused(file: File) -> None:
    knobs = file.facts.get("knobs", [])
    of_knobs = [{"knobs": [{**knobs[0], **json.loads(change)}, *knobs[1:]]} for change in texts(KNOBS) if knobs]
    for change in (*map(json.loads, texts(BOTH)), *map(json.loads, texts(FACTS[file.kind])), *of_knobs):
        file.described({**file.facts, **change})
        file.check_refused(change)


def test_a_fact_of_another_type_is_refused(file: File) -> None:
    for value in ({}, [[]], None, True, 10**400, float("nan"), float("inf"), "\ud800", -1, 0.5):
        for key in file.facts:
            file.described({**file.facts, key: value})
            file.check_refused((key, value))


def test_a_description_that_is_no_facts_is_refused(file: File) -> None:
    for text in ("[" * 60_000, "[]", "3", "null", '{"a": ' + "1" * 5_000 + "}", "", " " * 70_000, "\x00"):
        file.with_header(lambda header, text=text: header.update(__metadata__={file.kind: text}))  # type: ignore[misc]
        file.check_refused(text[:20])


CHANGED: dict[str, Callable[[dict[str, np.ndarray]], list[dict[str, np.ndarray | None]]]] = {
    "domain_pack": lambda good: [
        {"recoded": None}, {"candidates": good["candidates"][:, :-1].copy()},
        {"candidates": good["candidates"][:-1].copy()}, {"candidates": good["candidates"].astype(np.int32)},
        {"centre": np.full_like(good["centre"], np.inf)}, {"codebook.8": np.full_like(good["codebook.8"], -128)},
        {"codebook.8": good["codebook.8"].astype(np.float16)},
        {"codes.1.vectors": good["codes.1.vectors"][:-1].copy()},
    ],
    "routes": lambda good: [
        {"owners": None}, {"owners": np.array([0, 0, 1, 3, 1], dtype=np.uint8)},
        {"owners": good["owners"].astype(np.int64)}, {"owners": good["owners"][:-1].copy()},
        {"centroids": np.full_like(good["centroids"], -128)}, {"centroids": good["centroids"].astype(np.float32)},
        {"centroids": good["centroids"][:, :-1].copy()},
    ],
}  # fmt: skip


def test_malformed_tensors_are_refused(file: File) -> None:
    good = file.tensors
    both: list[dict[str, np.ndarray | None]] = [
        {"further": np.zeros(3, dtype=np.float32)},
        {"space.directions": np.full_like(good["space.directions"], -128)},
        {"space.factor": np.full_like(good["space.factor"], np.nan)},
        {"space.shift": np.full_like(good["space.shift"], np.inf)},
        {"space.shift": good["space.shift"].astype(np.int8)},
    ]
    shapes: list[dict[str, np.ndarray | None]] = [
        {name: np.zeros(shape, dtype=good[name].dtype)}
        for name in TENSORS[file.kind]
        for shape in ((), (0,), (0, good["space.directions"].shape[1]), (1, 0))
    ]
    for change in (*both, *shapes, *CHANGED[file.kind](good)):
        changed = {name: array for name, array in {**good, **change}.items() if array is not None}
        file.described(file.facts, changed)
        file.check_refused(
            {name: None if array is None else (array.shape, array.dtype) for name, array in change.items()}
        )


def test_tensors_of_another_type_are_refused(file: File) -> None:
    for kind in ("F8_E4M3", "F8_E5M2", "F8_E8M0", "BF16", "F64", "I64", "BOOL", "F4", "C64"):
        for name in TENSORS[file.kind]:
            file.with_header(lambda header, name=name, kind=kind: header[name].update(dtype=kind))  # type: ignore[misc]
            file.check_refused((name, kind))


def test_other_files_are_refused(tmp_path: Path) -> None:
    junk, empty = tmp_path / "junk.safetensors", tmp_path / "other.safetensors"
    junk.write_bytes(b"\x00" * 100)
    save_file({"a": np.zeros(3)}, empty)
    pack = tmp_path / "pack.safetensors"
    make_pack(np.eye(4)).save(pack)
    for kind, readers in READERS.items():
        for read in readers:
            for path in (junk, empty, tmp_path / "missing.safetensors", *([pack] if kind == "routes" else [])):
                with pytest.raises(InvalidPack):
                    read(path)


def test_a_pack_comes_back(path: Path, random_pack: DomainPack) -> None:
    random_pack.save(path)
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
    with pytest.raises(InvalidPack, match="another encoder"):
        DomainPack.load(path, encoder_fingerprint="1" * 64)


def test_knobs_are_those_of_the_next_lower_epsilon(random_pack: DomainPack) -> None:
    chosen = [random_pack.info.parameters_for(round(e * 10**9)).epsilon for e in (0.1, 1, 4.99, 5, 19, 20, 4_000_000)]
    assert chosen == [1, 1, 1, 5, 5, 20, 20]


def test_a_pack_whose_sums_are_not_exact_is_refused(path: Path) -> None:
    """127 * 127 * 1,100 is above 2^24: float32 would round such a sum, by its order."""
    pack = make_pack(np.eye(3, 1_100))
    line = Space(pack.space.directions[:1], pack.space.factor[:1], pack.space.shift[:1])
    codebooks = {size: codes[:, :1].copy() for size, codes in pack.codebooks.items()}
    replace(pack, info=replace(pack.info, rank=1), space=line, codebooks=codebooks).save(path)
    DomainPack.load(path)
    file = File(path, "domain_pack")
    file.described(file.facts, file.tensors | {"space.directions": np.full_like(file.tensors["space.directions"], 127)})
    with pytest.raises(InvalidPack, match="exact"):
        DomainPack.load(path)


def test_a_malformed_pack_is_not_written(tmp_path: Path, random_pack: DomainPack) -> None:
    bad = replace(random_pack, info=replace(random_pack.info, name="No Such Name"))
    with pytest.raises(InvalidPack):
        bad.save(tmp_path / "pack.safetensors")
    assert not list(tmp_path.iterdir())


def test_routes_come_back(path: Path, routes: Routes) -> None:
    routes.save(path)
    read = Routes.load(path)
    assert read.info == routes.info == RoutesInfo.read(path)
    assert np.array_equal(read.centroids, routes.centroids)
    assert np.array_equal(read.owners, routes.owners)
    assert np.array_equal(read.space.directions, routes.space.directions)
    assert not read.centroids.flags.writeable


def test_routes_whose_sums_are_not_exact_are_refused(path: Path) -> None:
    wide = make_routes(np.zeros((2, 2_000)), [0, 1], ("news", "general"))
    rank_one = replace(
        wide, info=replace(wide.info, rank=1),
        space=replace(
            wide.space, directions=np.full((1, 2_000), 127, dtype=np.int8), factor=np.ones(1, dtype=np.float32),
            shift=np.zeros(1, dtype=np.float32),
        ),
        centroids=np.zeros((2, 1), dtype=np.int8),
    )  # fmt: skip
    rank_one.save(path)
    with pytest.raises(InvalidPack, match="not exact"):
        Routes.load(path)


def test_routes_fit_packs_of_their_encoder_alone(routes: Routes) -> None:
    info = make_pack(np.eye(16)).info
    installed = dict.fromkeys(("news", "reviews", "general"), info)
    assert routes.info.fits(installed | {"law": replace(info, dimension=3)})
    assert not routes.info.fits({name: installed[name] for name in ("news", "general")})
    assert not routes.info.fits(installed | {"news": replace(info, encoder_fingerprint="1" * 64)})
    assert not routes.info.fits(installed | {"news": replace(info, dimension=3)})


def test_the_general_pack_is_small_serves_every_mechanism_and_has_a_card() -> None:
    path = pack_paths()["general"]
    pack = DomainPack.load(path, encoder_fingerprint=weights_fingerprint(bundled_path()))
    assert path.stat().st_size < 16_000_000
    assert pack.info.candidates >= 3_000
    assert all(sentence_mechanism(name, pack).self_check() for name in SENTENCE_MECHANISMS)
    assert "licence" in path.with_suffix(".md").read_text()
