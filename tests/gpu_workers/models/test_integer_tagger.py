"""The tagger in 8-bit integers gives each window the same logits in any company, and finds what float32 finds."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from tiers import cells

from gpu_workers.models import tagger
from gpu_workers.models.encoder_model import fastest_dtype
from gpu_workers.models.integer import bert
from gpu_workers.models.integer.bert import STEPS, IntegerTagger
from gpu_workers.models.integer.layers import STEPS as STEPS_OF_ENCODER
from gpu_workers.models.pieces import Case
from gpu_workers.models.tagger import EntityTagger, PackedTagger, embedded_tagger
from gpu_workers.models.tensor_file import read_tensors, write_tensors

TEXTS = (
    "Maria Keller flew from Lisbon to Norway.",
    "Ask Paul Schmidt in Vienna. " + "It was wet. " * 15,
    "nobody was there",
)
# Fictitious texts of other kinds, which the steps were not made with.
KINDS = (
    "😀 Yesterday Maria Keller flew from Lisbon to Norway. She works for Siemens in Munich.",
    "Invoice no. 4711-A: 12,500.00 EUR due 2024-05-01; pay to IBAN GB82 WEST 1234 5698 7654 32 or call (202) 555-0143.",
    "SYDNEY 1996-08-22\nWELLINGTON 3 HARBOUR ROVERS 1 (halftime 2-0), attendance: 14,210.",
)
Rows = list[tuple[torch.Tensor, torch.Tensor]]
# SHA-256 of the logits of the first `rows`: the same on every processor. They change with the steps and the rounding.
LOGITS = [
    (3, "cacdc518e7ba9d9c10b3bf66462e7a8a806b85dcd508c6682b1bc0057540bac0"),
    (5, "af84959478d3988dfd2587ff6ade0feb3a5e50e3ff00c33704b012667d2ac697"),
]


@pytest.fixture(scope="module")
def integers() -> IntegerTagger:
    return IntegerTagger()


@pytest.fixture(scope="module")
def rows() -> Rows:
    """Ids and cases of windows of several lengths."""
    random = np.random.default_rng(5)
    return [
        (
            torch.from_numpy(random.integers(1_000, 20_000, length)),
            torch.from_numpy(random.integers(0, len(Case), length)),
        )
        for length in (1, 9, 40, 126, 254)
    ]


def logits(net: IntegerTagger | PackedTagger, chosen: Rows) -> list[bytes]:
    """Of each window of a padded batch."""
    ids, cases, mask = torch.zeros((3, len(chosen), max(len(own) for own, _ in chosen)), dtype=torch.int64)
    for row, (own, kinds) in enumerate(chosen):
        ids[row, : len(own)], cases[row, : len(own)], mask[row, : len(own)] = own, kinds, 1
    found = net(ids, cases, mask)
    assert not found[mask == 0].any()
    return [found[row, : len(own)].numpy().tobytes() for row, (own, _) in enumerate(chosen)]


@pytest.mark.parametrize(("count", "digest"), cells(LOGITS))
def test_the_logits_are_the_same_on_every_processor(
    integers: IntegerTagger, rows: Rows, count: int, digest: str
) -> None:
    assert hashlib.sha256(b"".join(logits(integers, rows[:count]))).hexdigest() == digest


@pytest.mark.parametrize(("shortest", "counts", "sizes"), cells([(3, (2,), (4,)), (5, (1, 2, 3), (2, 5, 9))]))
def test_logits_depend_on_their_window_alone(
    integers: IntegerTagger, rows: Rows, threads: None, shortest: int, counts: tuple[int, ...], sizes: tuple[int, ...]
) -> None:
    rows = rows[:shortest]
    alone = [logits(integers, [row])[0] for row in rows]
    random = np.random.default_rng(6)
    for count in counts:
        torch.set_num_threads(count)
        for size in sizes:
            places = random.integers(0, len(rows), size)
            assert logits(integers, [rows[place] for place in places]) == [alone[place] for place in places]


@pytest.mark.slow("matrix")
def test_every_kind_of_product_gives_the_same_logits(integers: IntegerTagger, rows: Rows) -> None:
    for way in bert.exact_ways():
        assert logits(IntegerTagger(way=way), rows) == logits(integers, rows)


def names_in(read: EntityTagger) -> list[list[tuple[int, int, str]]]:
    return [[(e.start, e.end, e.type) for e in found] for found in read.tag(TEXTS)]


def test_the_tagger_finds_what_it_finds_in_float32_with_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    names = names_in(embedded_tagger(dtype=torch.float32))
    assert names[0]
    assert not names[2]
    texts = [*TEXTS, " ".join(KINDS), ""]
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(tagger.torch, "get_num_threads", lambda threads=threads: threads)
        several = embedded_tagger()
        assert (several._pool is not None) == (threads > 1)
        found.append([[(e.start, e.end, e.type) for e in own] for own in several.tag(texts)])
        assert found[-1][:3] == names
    assert found[0] == found[1]


def test_a_processor_without_fast_products_of_integers_uses_floating_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tagger, "fastest_way", lambda: "floats")
    served = embedded_tagger()
    assert isinstance(served._forward, PackedTagger)
    assert names_in(served) == names_in(embedded_tagger(dtype=fastest_dtype(torch.device("cpu"))))


def test_steps_of_another_tagger_are_refused(tmp_path: Path) -> None:
    kind, facts, arrays = read_tensors(STEPS)
    write_tensors(tmp_path / "steps", kind, facts | {"adapter_digest": "0" * 64}, arrays)
    for path in (tmp_path / "steps", STEPS_OF_ENCODER):
        with pytest.raises(ValueError, match="another tagger"):
            IntegerTagger(path)
