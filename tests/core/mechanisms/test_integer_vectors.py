"""Products of codes are exact on every processor, or are not served."""

from collections.abc import Iterator

import pytest
import torch

from core.mechanisms import integer_vectors
from core.mechanisms.integer_vectors import CODE_MAX, CodeMatrix

CPU = torch.device("cpu")
DIMENSION = 96


@pytest.fixture
def overflowing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """int8 products as on a processor with the flags whose library keeps to older instructions: pairs of products are
    added in 16 bits."""

    def pairs_in_16_bits(rows: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        products = (rows.int() + 128)[:, :, None] * codes.int()[None]
        pairs = products.unflatten(1, (-1, 2)).sum(dim=2).clamp(-(2**15), 2**15 - 1)
        return (pairs.sum(dim=1) - 128 * codes.int().sum(dim=0)).int()

    monkeypatch.setattr(torch, "_int_mm", pairs_in_16_bits)
    monkeypatch.setattr(integer_vectors, "_has_int8_units", lambda: True)
    integer_vectors._int8_is_exact.cache_clear()
    yield
    integer_vectors._int8_is_exact.cache_clear()


@pytest.mark.usefixtures("overflowing")
def test_int8_products_that_overflow_are_not_used() -> None:
    codes = torch.full((5, DIMENSION), CODE_MAX, dtype=torch.int8)
    codes[1:3, ::2] = -CODE_MAX
    matrix = CodeMatrix(codes, CPU)
    assert torch.equal(matrix.dots(codes).long(), codes.long() @ codes.long().t())
    assert matrix.self_check()


def test_products_are_exact_at_the_extremes() -> None:
    codes = (torch.randint(0, 2, (40, DIMENSION)) * 2 - 1).to(torch.int8) * CODE_MAX
    matrix = CodeMatrix(codes, CPU)
    for count in (1, 2, 7, 40):
        assert torch.equal(matrix.dots(codes[:count]).long(), codes[:count].long() @ codes.long().t())


@pytest.mark.parametrize(("row", "column"), [(0, 0), (-1, -1), (1, 4097)])
def test_one_wrong_product_is_found(row: int, column: int, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = torch.randint(-CODE_MAX, CODE_MAX + 1, (9_000, DIMENSION), dtype=torch.int8)
    matrix = CodeMatrix(codes, CPU)
    assert matrix.self_check()
    dots = matrix.dots

    def wrong(rows: torch.Tensor) -> torch.Tensor:
        found = dots(rows).clone()
        if len(rows) == 128:
            found[row, column] += 1
        return found

    monkeypatch.setattr(matrix, "dots", wrong)
    assert not matrix.self_check()
