"""The shipped vector pack, and the release through its trained codebook.

Tests of distributions fail by chance with a probability of at most 1e-6 each.
"""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from scipy import stats
from table_kit import texts

from core.errors import InvalidInput
from core.mechanisms.sentences.domain_pack import InvalidPack
from core.mechanisms.vectors.codebook import TrainedCodebookMechanism
from core.mechanisms.vectors.pricing import vector_events
from core.mechanisms.vectors.projection import FORMAT, VectorPack
from core.mechanisms.vectors.pure import vector_mechanism
from core.mechanisms.vectors.spec import trained_size, vector_spec
from gpu_workers.models.encoder import Encoder, bundled_path, weights_fingerprint
from gpu_workers.packs import VECTOR_PACK, pack_paths

ERROR_RATE = 1e-6


@pytest.fixture(scope="module")
def pack() -> VectorPack:
    return VectorPack.load(VECTOR_PACK)


def trained(pack: VectorPack, epsilon: float) -> TrainedCodebookMechanism:
    spec = vector_spec(mechanism="codebook", dimension=384, epsilon=epsilon, projection="pca")
    return vector_mechanism(spec, None, pack)


def unit_rows(count: int) -> np.ndarray:
    rows = np.random.default_rng(5).normal(size=(count, 384))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_the_pack_is_small_has_a_card_and_is_for_the_bundled_encoder() -> None:
    VectorPack.load(VECTOR_PACK, encoder_fingerprint=weights_fingerprint(bundled_path()))
    assert VECTOR_PACK.stat().st_size < 1_000_000
    assert "licence" in VECTOR_PACK.with_suffix(".md").read_text()
    assert VECTOR_PACK not in pack_paths().values()  # no domain pack


def test_a_pack_of_another_encoder_or_form_is_refused(tmp_path: Path, pack: VectorPack) -> None:
    with pytest.raises(InvalidPack):
        VectorPack.load(VECTOR_PACK, encoder_fingerprint="another")
    bad = tmp_path / "bad.safetensors"
    bad.write_bytes(b"nothing")
    with pytest.raises(InvalidPack):
        VectorPack.load(bad)
    tensors = load_file(VECTOR_PACK)
    tensors["axes"] = tensors["axes"] * np.float32(1.01)
    save_file(tensors, bad, metadata={"format": FORMAT, **pack.texts})
    with pytest.raises(InvalidPack, match="orthonormal"):
        VectorPack.load(bad)


def test_pca_stretches_nothing(pack: VectorPack) -> None:
    for mechanism, epsilon, axes in [("privemb", 1.0, 4), ("privunit", 10.0, 12)]:
        spec = vector_spec(mechanism=mechanism, dimension=384, epsilon=epsilon, projection="pca")
        made = vector_mechanism(spec, None, pack)
        released = made.release(unit_rows(5))
        assert released.shape == (5, axes)
        assert np.linalg.norm(made.projection.matrix.astype(np.float64), 2) <= 1.0
        assert vector_events(spec, spectral_norm_bound=1.0)[0].epsilon_nano == epsilon * 10**9


def test_pca_where_it_does_not_fit() -> None:
    for mechanism, dimension, output, field in [
        ("codebook", 300, None, "projection"),
        ("codebook", 384, 64, "dimension"),
        ("privunit", 384, 65, "dimension"),
        ("laplace", 384, None, "projection"),
    ]:
        with pytest.raises(InvalidInput) as refused:
            vector_spec(mechanism=mechanism, dimension=dimension, epsilon=1, output_dimension=output, projection="pca")
        assert refused.value.field == field


def test_pca_needs_a_pack() -> None:
    with pytest.raises(ValueError, match="pack"):
        vector_mechanism(vector_spec(mechanism="codebook", dimension=384, epsilon=1, projection="pca"), None)


def test_the_codebook_grows_with_epsilon() -> None:
    sizes = [trained_size(round(epsilon * 10**9)) for epsilon in (1e-9, 1, 2, 3.9, 4, 6, 10, 12, 20, 1000)]
    assert sizes == [2, 2, 2, 2, 4, 16, 256, 1024, 4096, 4096]


def test_a_small_codebook_tells_praise_from_blame(pack: VectorPack) -> None:
    for epsilon in [2.0, 4.0, 6.0]:
        praise = texts("""
            A wonderful film. || I love this place! || The best service we ever had. || Great phone, great price.
        """)
        blame = texts("""
            A terrible film. || I hate this place! || The worst service we ever had. || Awful phone, a waste of money.
        """)
        mechanism = trained(pack, epsilon)
        codes = mechanism.codes(Encoder().encode(praise + blame))
        half = mechanism.size // 2
        assert (codes // half == [codes[0] // half] * 4 + [codes[-1] // half] * 4).all()
        assert codes[0] // half != codes[-1] // half


def test_a_released_vector_lies_where_its_code_does(pack: VectorPack) -> None:
    for epsilon in [4.0, 20.0]:
        mechanism = trained(pack, epsilon)
        found = mechanism.codes(mechanism.vectors)
        assert (found == np.arange(mechanism.size)).mean() > 0.99


def test_a_saved_pack_comes_back_whatever_its_memory_looks_like(tmp_path: Path, pack: VectorPack) -> None:
    turned = replace(pack, space=replace(pack.space, directions=np.asfortranarray(pack.space.directions)))
    turned.save(tmp_path / "turned.safetensors")
    again = VectorPack.load(tmp_path / "turned.safetensors")
    assert np.array_equal(again.space.directions, pack.space.directions)


@pytest.mark.slow("statistics")
def test_a_code_is_kept_as_often_as_promised_and_else_uniform(pack: VectorPack) -> None:
    epsilon = 5.0
    mechanism = trained(pack, epsilon)
    runs = 40_000
    row = unit_rows(1)
    own = mechanism.codes(row)[0]
    found = mechanism.release(np.repeat(row, runs, axis=0))
    distances = np.linalg.norm(found[:, None] - mechanism.vectors, axis=2)
    assert distances.min(axis=1).max() == 0  # nothing but the public vectors comes out
    counts = np.bincount(distances.argmin(axis=1), minlength=mechanism.size)
    expected = np.full(mechanism.size, runs / (math.exp(epsilon) + mechanism.size - 1))
    expected[own] *= math.exp(epsilon)
    assert stats.chisquare(counts, expected).pvalue > ERROR_RATE


def test_a_code_ignores_its_companions(pack: VectorPack) -> None:
    mechanism = trained(pack, 12.0)
    rows = unit_rows(40)
    alone = np.concatenate([mechanism.codes(rows[i : i + 1]) for i in range(len(rows))])
    assert np.array_equal(mechanism.codes(rows), alone)
    assert len(set(alone)) > 10
