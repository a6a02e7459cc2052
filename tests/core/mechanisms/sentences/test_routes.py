"""Routes files: what is written is read, and what is malformed is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pack_kit import make_pack, make_routes

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


def test_routes_come_back(path: Path, routes: Routes) -> None:
    read = Routes.load(path)
    assert read.info == routes.info == RoutesInfo.read(path)
    assert np.array_equal(read.centroids, routes.centroids)
    assert np.array_equal(read.owners, routes.owners)
    assert np.array_equal(read.space.directions, routes.space.directions)
    assert not read.centroids.flags.writeable


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


def test_routes_fit_packs_of_their_encoder_alone(routes: Routes) -> None:
    info = make_pack(np.eye(16)).info
    installed = dict.fromkeys(("news", "reviews", "general"), info)
    assert routes.info.fits(installed | {"law": replace(info, dimension=3)})
    assert not routes.info.fits({name: installed[name] for name in ("news", "general")})
    assert not routes.info.fits(installed | {"news": replace(info, encoder_fingerprint="1" * 64)})
    assert not routes.info.fits(installed | {"news": replace(info, dimension=3)})
