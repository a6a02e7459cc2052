"""Linear layers in 8 bits: near the layer in float32, and blind to a row's companions."""

from __future__ import annotations

import pytest
import torch

from gpu_workers.models.encoder import fastest_dtype
from gpu_workers.models.int8_linear import Int8Linear, RangedLinear, int8_supported
from gpu_workers.models.tagger import embedded_tagger

exact = pytest.mark.skipif(not int8_supported(), reason="this processor has no 8-bit products")

TEXTS = (
    "Maria Keller flew from Lisbon to Norway.",
    "Ask Paul Schmidt in Vienna. " + "It was wet. " * 60,
    "nobody was there",
)


@pytest.fixture(scope="module")
def layer() -> RangedLinear:
    made = torch.Generator().manual_seed(1)
    ranged = RangedLinear(torch.randn(64, 384, generator=made) / 20, torch.randn(64, generator=made))
    ranged(torch.randn(500, 384, generator=made))
    return ranged


@exact
def test_it_is_near_the_layer_in_float32(layer: RangedLinear) -> None:
    rows = torch.randn(100, 384)
    whole, eight = layer(rows), layer.fixed()(rows)
    assert float((whole - eight).norm() / whole.norm()) < 0.03


@exact
def test_companions_change_no_bit_of_a_row(layer: RangedLinear) -> None:
    fixed, rows = layer.fixed(), torch.randn(100, 384)
    loud = torch.cat([rows[7:8], 1_000 * torch.randn(30, 384)])
    assert torch.equal(fixed(rows)[7], fixed(rows[7:8])[0])
    assert torch.equal(fixed(rows)[7], fixed(loud)[0])


@exact
def test_the_tagger_finds_what_it_finds_in_float32_and_the_same_at_every_start() -> None:
    eight, again, whole = embedded_tagger(), embedded_tagger(), embedded_tagger(dtype=torch.float32)
    names = [[(e.start, e.end, e.type) for e in found] for found in whole.tag(TEXTS)]
    assert [[(e.start, e.end, e.type) for e in found] for found in eight.tag(TEXTS)] == names
    assert eight.tag(TEXTS) == again.tag(TEXTS)
    assert names[0]
    assert not names[2]


def test_products_that_overflow_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on processors that add pairs of 8-bit products in 16 bits, whatever their flags say."""
    right = Int8Linear.__call__
    monkeypatch.setattr(Int8Linear, "__call__", lambda self, inputs: right(self, inputs).clamp(max=32))
    int8_supported.cache_clear()
    try:
        assert not int8_supported()
        names = [[(e.start, e.end, e.type) for e in found] for found in embedded_tagger().tag(TEXTS)]
    finally:
        int8_supported.cache_clear()
    whole = embedded_tagger(dtype=fastest_dtype(torch.device("cpu"))).tag(TEXTS)
    assert names == [[(e.start, e.end, e.type) for e in found] for found in whole]
