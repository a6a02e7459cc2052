"""Linear layers in 8 bits, and the tagger that is made of them: near float32, and the same at every start."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import gelu, linear

from gpu_workers.models import tagger
from gpu_workers.models.int8_linear import Int8Linear, RangedLinear, int8_supported, rounded
from gpu_workers.models.packed_tagger import SAMPLES
from gpu_workers.models.precision import fastest_dtype
from gpu_workers.models.tagger import EntityTagger, embedded_tagger

exact = pytest.mark.skipif(not int8_supported(), reason="this processor has no 8-bit products")

TEXTS = (
    "Maria Keller flew from Lisbon to Norway.",
    "Ask Paul Schmidt in Vienna. " + "It was wet. " * 60,
    "nobody was there",
)


@pytest.fixture(scope="module")
def ranged() -> RangedLinear:
    made = torch.Generator().manual_seed(1)
    ranged = RangedLinear(torch.randn(64, 384, generator=made) / 20, torch.randn(64, generator=made))
    ranged(torch.randn(500, 384, generator=made))
    return ranged


@pytest.fixture(scope="module")
def layer(ranged: RangedLinear) -> Int8Linear:
    """The layer for inputs that are measured from the middle 0."""
    return Int8Linear(ranged.weight, ranged.bias, step=ranged.step, zero=128)


def eight(rows: torch.Tensor, ranged: RangedLinear) -> torch.Tensor:
    return rounded(rows / ranged.step + 128.5)


def test_numbers_are_cut_to_a_byte() -> None:
    assert rounded(torch.tensor([-3.0, 0.9, 7.0, 254.99, 256.0, 1e9])).tolist() == [0, 0, 7, 254, 255, 255]


@exact
def test_a_layer_is_near_the_one_in_float32(layer: Int8Linear, ranged: RangedLinear) -> None:
    made = torch.Generator().manual_seed(2)
    rows = torch.randn(100, 384, generator=made)
    whole, inputs = linear(rows, ranged.weight, ranged.bias), eight(rows, ranged)
    assert float((whole - layer(inputs)).norm() / whole.norm()) < 0.03
    other = torch.randn(100, 64, generator=made)
    assert torch.allclose(layer.added_to(other.clone(), inputs), layer(inputs) + other, atol=1e-5)
    wide = layer.gelu(inputs, step=0.02, zero=10)
    assert float((0.02 * (wide.float() - 10) - gelu(layer(inputs)).clamp(-0.2, 4.9)).abs().max()) < 0.0101


@exact
def test_companions_change_no_bit_of_a_row(layer: Int8Linear, ranged: RangedLinear) -> None:
    made = torch.Generator().manual_seed(3)
    rows = torch.randn(100, 384, generator=made)
    loud = torch.cat([rows[7:8], 1_000 * torch.randn(30, 384, generator=made)])
    assert torch.equal(layer(eight(rows, ranged))[7], layer(eight(rows[7:8], ranged))[0])
    assert torch.equal(layer(eight(rows, ranged))[7], layer(eight(loud, ranged))[0])


def names_in(read: EntityTagger) -> list[list[tuple[int, int, str]]]:
    return [[(e.start, e.end, e.type) for e in found] for found in read.tag(TEXTS)]


@exact
def test_the_tagger_finds_what_it_finds_in_float32_and_the_same_at_every_start(monkeypatch: pytest.MonkeyPatch) -> None:
    first, whole = embedded_tagger(), embedded_tagger(dtype=torch.float32)
    names = names_in(whole)
    assert names_in(first) == names
    texts = [*TEXTS, " ".join(SAMPLES) * 3]
    found = first.tag(texts)
    for threads in (1, 3, 3, 3):
        monkeypatch.setattr(tagger.torch, "get_num_threads", lambda threads=threads: threads)
        assert embedded_tagger().tag(texts) == found
    assert names[0]
    assert not names[2]


@exact
def test_the_tagger_is_near_the_one_in_float32() -> None:
    texts = [*SAMPLES, " ".join(SAMPLES)]
    found, whole = (
        [(number, e.start, e.end, e.type, e.score) for number, own in enumerate(read.tag(texts)) for e in own]
        for read in (embedded_tagger(), embedded_tagger(dtype=torch.float32))
    )
    for some, others in ((found, whole), (whole, found)):
        sure = [each[:4] for each in some if each[4] > 0.95]
        assert len(sure) > 20
        assert {each[:4] for each in others}.issuperset(sure)


def test_several_threads_find_what_one_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [*TEXTS, " ".join(SAMPLES) * 3, ""]
    alone = embedded_tagger()
    monkeypatch.setattr(tagger.torch, "get_num_threads", lambda: 3)
    several = embedded_tagger()
    assert several._pool is not None
    for expected, found in zip(alone.tag(texts), several.tag(texts), strict=True):
        assert [(e.start, e.end, e.type) for e in found] == [(e.start, e.end, e.type) for e in expected]


def test_products_that_overflow_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on processors that add pairs of 8-bit products in 16 bits, whatever their flags say."""
    right = Int8Linear.__call__
    monkeypatch.setattr(Int8Linear, "__call__", lambda self, inputs: right(self, inputs).clamp(max=2**15 - 1) / 2)
    int8_supported.cache_clear()
    try:
        assert not int8_supported()
        names = names_in(embedded_tagger())
    finally:
        int8_supported.cache_clear()
    assert names == names_in(embedded_tagger(dtype=fastest_dtype(torch.device("cpu"))))
