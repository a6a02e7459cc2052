"""The encoder in 8-bit integers gives each sentence the same bits, whatever is encoded with it and wherever it runs."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from tiers import cells

from gpu_workers.models.device import Measured
from gpu_workers.models.encoder import Encoder
from gpu_workers.models.encoder_model import bundled_weights
from gpu_workers.models.integer.bert import WAYS, IntegerBert, exact_ways, fastest_way, plainly
from gpu_workers.models.integer.encoder import IntegerEncoder
from gpu_workers.models.integer.layers import STEPS, StepsFile
from gpu_workers.models.tensor_file import read_tensors, write_tensors

SENTENCES = (
    "I", "The parcel had left the warehouse, but nobody could say when it would arrive.",
    "Version 2.4 fixes the crash on start, adds a dark theme, and drops support for the oldest of the drivers.",
    "What a film! I laughed, I cried, and I would see it again tomorrow.",
    "¿Dónde está la estación? 東京都 は 日本 の 首都 です。 😀 🎉", "zxqv " * 40, "word " * 300,
)  # fmt: skip
# SHA-256 of the vectors of SENTENCES: the same on every processor. It changes with the steps and the rounding rules.
VECTORS = "9710f2280cc1dea853c286763d78c66f4750eb807713cb993cef4b06d674cc25"


@pytest.fixture(scope="module")
def encoder() -> IntegerEncoder:
    return IntegerEncoder()


def bits(vectors: np.ndarray) -> bytes:
    return np.ascontiguousarray(vectors, dtype="<f4").tobytes()


def test_the_vectors_are_the_same_on_every_processor(encoder: IntegerEncoder) -> None:
    vectors = encoder.encode(SENTENCES)
    assert hashlib.sha256(bits(vectors)).hexdigest() == VECTORS
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize(("shortest", "counts", "sizes", "most"), cells([(5, (2,), 2, 12), (7, (1, 2, 3, 4), 6, 40)]))
def test_a_vector_depends_on_its_sentence_alone(
    encoder: IntegerEncoder, threads: None, shortest: int, counts: tuple[int, ...], sizes: int, most: int
) -> None:
    random = np.random.default_rng(7)
    tokens = encoder.tokenise(SENTENCES[:shortest])
    alone = [bits(encoder.encode_tokens([ids])) for ids in tokens]
    for count in counts:
        torch.set_num_threads(count)
        for size in random.integers(1, most, sizes):
            assert torch.get_num_threads() == count
            chosen = random.integers(0, len(tokens), size)
            vectors = encoder.encode_tokens([tokens[i] for i in chosen])
            assert [bits(vector) for vector in vectors] == [alone[i] for i in chosen]


@pytest.mark.slow("matrix")
def test_every_kind_of_product_gives_the_same_vectors(encoder: IntegerEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WAYS, "plainly", plainly)
    expected = bits(encoder.encode(SENTENCES))
    for name in (*exact_ways(), "plainly"):
        assert bits(IntegerEncoder(way=name).encode(SENTENCES)) == expected


def test_the_products_are_exact_at_their_bounds() -> None:
    assert fastest_way() in WAYS
    random = np.random.default_rng(1)
    for inner, outer in ((384, 64), (1536, 64)):
        weight = torch.from_numpy(random.integers(-127, 128, (inner, outer), dtype=np.int8))
        rows = torch.from_numpy(random.integers(-128, 128, (9, inner), dtype=np.int8))
        weight[:, 0], rows[0], rows[1] = -127, -128, 127
        expected = rows.numpy().astype(np.int64) @ weight.numpy().astype(np.int64)
        for way in (*(WAYS[name] for name in exact_ways()), plainly):
            assert (way(weight)(rows).numpy() == expected).all()
            assert (way(weight)(rows[:1]).numpy() == expected[:1]).all()


def test_an_inexact_product_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on processors that add 8-bit products in 16 bits."""
    monkeypatch.setitem(WAYS, "integers", lambda weight: lambda rows: plainly(weight)(rows).clamp(-(2**15), 2**15))
    exact_ways.cache_clear()
    try:
        assert list(exact_ways()) == ["floats"]
    finally:
        exact_ways.cache_clear()


def test_the_vectors_are_near_those_in_floating_point(encoder: IntegerEncoder) -> None:
    cosines = (encoder.encode(SENTENCES) * Encoder(dtype=torch.float32).encode(SENTENCES)).sum(axis=1)
    assert cosines.min() > 0.98
    assert cosines.mean() > 0.995


def test_no_sentence_gives_no_vector(encoder: IntegerEncoder) -> None:
    assert encoder.encode([]).shape == (0, encoder.dimension)


def test_a_text_that_is_longer_than_the_limit_is_truncated(encoder: IntegerEncoder) -> None:
    assert {len(ids) for ids in encoder.tokenise(["word " * 300, "word " * 5_000])} == {encoder.length_max}


def test_its_space_is_its_own_and_serves_the_packs_of_the_encoder_in_floating_point(encoder: IntegerEncoder) -> None:
    floating = Encoder()
    assert encoder.fingerprint != floating.fingerprint
    assert encoder.packs_of == floating.packs_of
    facts = encoder.facts()
    assert (facts.dtype, facts.packs_of, facts.name) == ("int8", floating.packs_of, floating.name)


def test_the_check_is_kept_for_a_processor(encoder: IntegerEncoder, tmp_path: Path) -> None:
    measured = Measured(tmp_path)
    assert encoder.self_check(measured)
    speed = encoder.facts().tokens_per_s
    assert speed > 0
    (file,) = tmp_path.iterdir()
    file.write_text('{"tokens_per_s": 123}')
    assert encoder.self_check(measured)
    assert encoder.facts().tokens_per_s == 123


def test_malformed_steps_and_those_of_another_encoder_are_refused(tmp_path: Path) -> None:
    found, facts, arrays = read_tensors(STEPS)
    files = [
        ("something/1", facts, arrays, "not a file of the steps"),
        (found, facts | {"encoder_fingerprint": "0" * 64}, arrays, "another encoder"),
    ]
    for name, change, reason in [
        ("output.copies", lambda copies: copies + 1_536, "another shape"),
        ("output.copies", lambda copies: copies - 1_536, "another shape"),
        ("output.up", lambda up: up[:, 1:], "another shape"),
        ("output.up", lambda up: up.astype(np.int16), "another type"),
        ("output.copies", lambda copies: copies[None], "another type"),
        ("output.up", lambda up: up | np.uint8(255), "too large"),
        ("output.step", lambda step: step * (np.arange(len(step)) > 0), "must be positive"),
        ("output.step", lambda step: step / 1e6, "too large"),
        ("output.step", lambda step: step[1:], "another shape"),
        ("output.shift", lambda shift: shift[:1], "another shape"),
        ("output.shift", lambda shift: shift * np.float32(np.nan), "must be finite"),
        ("output.middle", lambda middle: middle + np.float32(0.3), "whole number"),
        ("output.middle", lambda middle: middle + np.float32(2**21), "too large"),
        ("largest", lambda largest: largest * np.float32(0), "must be positive"),
        (
            "largest",
            lambda largest: largest * np.where(np.arange(1_152) < 768, 1e30, 1).astype(np.float32),
            "too large",
        ),
    ]:
        changed = arrays | {f"0.{name}": change(arrays[f"0.{name}"])}
        files.append((found, facts, changed, reason))
    for lacking in ("0.output.up", "5.largest"):
        files.append((found, facts, {name: arrays[name] for name in arrays if name != lacking}, "lacks a part"))
    for kind, own_facts, own, reason in files:
        write_tensors(tmp_path / "steps", kind, own_facts, own)
        with pytest.raises(ValueError, match=reason):
            IntegerEncoder(tmp_path / "steps")


def test_a_model_beyond_the_bounds_of_the_proof_is_refused() -> None:
    weights, config = bundled_weights()
    plain = {key: tensor.numpy() for key, tensor in weights.items()}
    for name, factor in [
        ("embeddings.word_embeddings.weight", 1e4), ("embeddings.word_embeddings.weight", np.nan),
        ("embeddings.position_embeddings.weight", 1e12), ("encoder.layer.2.output.LayerNorm.weight", 1e4),
        ("encoder.layer.2.output.dense.weight", 1e12), ("encoder.layer.2.output.dense.bias", 1e12),
        ("encoder.layer.2.output.dense.bias", np.nan),
    ]:  # fmt: skip
        own = plain | {name: plain[name] * factor}
        with pytest.raises(ValueError, match="too large"):
            IntegerBert(own, config, StepsFile.load())


def test_a_model_of_another_shape_is_refused() -> None:
    weights, config = bundled_weights()
    own = {key: tensor.numpy() for key, tensor in weights.items()}
    for change in ({"num_attention_heads": 32}, {"num_attention_heads": 500}, {"max_position_embeddings": 600}):
        with pytest.raises(ValueError, match="shape"):
            IntegerBert(own, config | change, StepsFile.load())
