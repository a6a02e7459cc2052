"""Each row has its own gradient: that of a loop over single rows, whatever the method, the model and the company."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from finetune_kit import CPU, Tiny, checkpoint, tiny
from tiers import cells
from torch import nn

from core.errors import InvalidInput
from gpu_workers.finetune.classifier import Batch, load_base
from gpu_workers.finetune.gradients import UNIT, Method, PrivateGradient, RgpLinear, Tensors, clipped_sum
from gpu_workers.finetune.training import BATCH_PIECES, ROW_BY_ROW, batch_pieces

FORMS = [("bert", False), ("bert", True), ("roberta", False), ("roberta", True)]


def private(made: Tiny, **changed: float) -> PrivateGradient:
    numbers = {"clip_norm": 0.5, "noise_multiplier": 1e-9, "expected_batch": 4, **changed}
    return PrivateGradient(made.model, made.trained.own, **numbers)  # type: ignore[arg-type]


def one_by_one(made: Tiny, chosen: list[int]) -> list[dict[str, torch.Tensor]]:
    """By plain backward passes over a copy without hooks, each row alone and padded by itself."""
    model = copy.deepcopy(made.model).train()
    named = dict(zip(made.trained.own, [p for p in model.parameters() if p.requires_grad], strict=True))
    assert [n for n, p in made.model.named_parameters() if p.requires_grad]
    found = []
    for row in chosen:
        model.zero_grad()
        batch = made.batch(row)
        nn.functional.cross_entropy(model(batch.parts), batch.labels).backward()
        found.append({name: parameter.grad.clone() for name, parameter in named.items()})
    return found


def norm(tensors: dict[str, torch.Tensor]) -> float:
    return float(sum(tensor.double().square().sum() for tensor in tensors.values()) ** 0.5)


@pytest.mark.parametrize("method", list(Method))
@pytest.mark.parametrize(("family", "pairs"), cells(FORMS))
def test_gradients_are_those_of_a_loop(folder: Path, family: str, pairs: bool, method: Method) -> None:
    made = tiny(checkpoint(folder, family), method, pairs=pairs)
    alone = one_by_one(made, list(range(12)))
    gradient = private(made)
    seen = 0
    for chosen, batch in made.rows.batches(np.arange(12), pieces_max=60):
        own = gradient.own(batch)
        for place, row in enumerate(chosen):
            mine = {name: tensor[place] for name, tensor in own.items()}
            gap = {name: mine[name] - alone[row][name] for name in mine}
            assert norm(gap) <= 1e-5 * norm(alone[row])
            assert norm(mine) == pytest.approx(norm(alone[row]), rel=1e-5)
            seen += 1
    assert seen == 12


@pytest.mark.parametrize("method", cells([Method.LORA, Method.RGP]))
def test_the_bundled_encoder_reads_a_pair_as_two_texts_and_each_row_keeps_one_gradient(method: Method) -> None:
    made = tiny(None, method, pairs=True, count=2)
    alone = one_by_one(made, [0, 1])
    gradient = private(made)
    for chosen, batch in made.rows.batches(np.arange(2), pieces_max=10_000):
        assert len(batch.parts) == 2
        own = gradient.own(batch)
        for place, row in enumerate(chosen):
            gap = {name: tensor[place] - alone[row][name] for name, tensor in own.items()}
            assert norm(gap) <= 1e-5 * norm(alone[row])


def test_carriers_keep_the_weight_and_project_its_gradient(folder: Path) -> None:
    torch.manual_seed(1)
    layer = RgpLinear(nn.Linear(12, 9), 4)
    inputs, wanted = torch.randn(7, 12), torch.randn(7, 9)
    for step in (0, 1_000):
        with torch.no_grad():
            layer.weight.add_(0.1 * torch.randn_like(layer.weight))
        layer.new_carriers(step)
        left, right = layer.left.weight, layer.right.weight

        assert torch.allclose(left.T @ left, torch.eye(4), atol=1e-5)
        assert torch.allclose(right @ right.T, torch.eye(4), atol=1e-5)
        assert torch.allclose(layer.train()(inputs), layer.eval()(inputs), atol=1e-5)

        layer.train()
        layer.zero_grad()
        (layer(inputs) * wanted).sum().backward()
        whole = wanted.T @ inputs  # the gradient of the weight itself
        columns, rows = left @ left.T, right.T @ right
        expected = columns @ whole + whole @ rows - columns @ whole @ rows
        found = layer.projected(left.grad, right.grad)
        assert torch.allclose(found, expected, atol=1e-4)


def test_carriers_come_from_the_weights_alone(folder: Path) -> None:
    """They are drawn before a row is read, and span what one power iteration on W - W_0 finds."""
    torch.manual_seed(0)  # a draw may be of nearly one rank
    layer = RgpLinear(nn.Linear(16, 10), 2)
    direction = torch.randn(10, 2) @ torch.randn(2, 16)
    with torch.no_grad():
        layer.weight.add_(direction)
    layer.new_carriers(1_000)
    left, right = layer.left.weight, layer.right.weight
    assert torch.allclose(left @ (left.T @ direction), direction, atol=1e-4)
    assert torch.allclose((direction @ right.T) @ right, direction, atol=1e-4)


def test_clipping_is_over_all_tensors_and_a_broken_row_counts_nothing() -> None:
    def total(rows: int) -> Tensors:
        a, b = [[3.0, 0.0], [0.03, 0.0], [torch.nan, 0.0]], [[4.0], [0.04], [1.0]]
        found = clipped_sum({"a": torch.tensor(a[:rows]), "b": torch.tensor(b[:rows])}, clip_norm=0.5)
        return {name: tensor * UNIT * 0.5 for name, tensor in found.items()}

    assert total(3)["a"].tolist() == pytest.approx([0.3 + 0.03, 0.0], rel=2e-3)
    assert total(3)["b"].tolist() == pytest.approx([0.4 + 0.04], rel=2e-3)
    assert norm(total(1)) < 0.5


@pytest.mark.parametrize("size", cells([1.0, 1e-30, 1e-8, 0.0999, 0.1, 1e30]))
def test_a_clipped_row_is_never_longer_than_the_norm(size: float) -> None:
    """With as many parameters as the bundled encoder has, all of them rounded the same way."""
    clip_norm, width = 0.1, 10_000_000
    row = torch.full((1, width), size / width**0.5)
    added = clipped_sum({"a": row}, clip_norm=clip_norm)["a"].double().norm() * UNIT * clip_norm
    assert min(size, clip_norm) * (1 - 2e-3) - 1e-6 <= added <= clip_norm


def test_a_clipped_sum_is_the_same_in_any_order_and_division() -> None:
    generator = torch.Generator().manual_seed(3)
    rows = torch.randn(5_000, 7, generator=generator) * torch.logspace(-9, 9, 5_000)[:, None]

    def total(order: torch.Tensor, size: int) -> torch.Tensor:
        parts = (rows[part].clone() for part in order.split(size))
        return sum((clipped_sum({"a": part}, clip_norm=0.1)["a"] for part in parts), torch.zeros(7, dtype=torch.int64))

    expected = total(torch.arange(5_000), 64)
    for size in (1, 37, 5_000):
        assert torch.equal(total(torch.randperm(5_000, generator=generator), size), expected)


@pytest.mark.parametrize(("family", "pairs"), cells([*FORMS, (None, True)], kind="planted bug"))
def test_a_device_on_which_a_rows_place_matters_takes_rows_one_by_one(
    folder: Path, family: str | None, pairs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tiny(checkpoint(folder, family) if family else None, Method.LORA, pairs=pairs, count=2, stirred=False)
    before = {name: parameter.detach().clone() for name, parameter in made.trained.own.items()}
    assert batch_pieces(made.model, made.trained, made.base, pairs=pairs) in (BATCH_PIECES, ROW_BY_ROW)

    inner = PrivateGradient.own

    def moved_by_place(gradient: PrivateGradient, batch: Batch) -> Tensors:
        found = inner(gradient, batch)
        tensor = next(iter(found.values()))
        last = tensor.flatten(1)[-1]
        last.copy_(torch.nextafter(last, last + 1))
        return found

    monkeypatch.setattr(PrivateGradient, "own", moved_by_place)

    assert batch_pieces(made.model, made.trained, made.base, pairs=pairs) == ROW_BY_ROW
    assert all(torch.equal(before[name], parameter) for name, parameter in made.trained.own.items())
    sizes = [len(batch.labels) for _, batch in made.rows.batches(np.arange(2), pieces_max=ROW_BY_ROW)]
    assert sizes == [1, 1]


def test_a_model_that_mixes_rows_is_refused(folder: Path) -> None:
    mixed = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    with pytest.raises(ValueError, match="mixes rows"):
        PrivateGradient(mixed, dict(mixed.named_parameters()), clip_norm=1.0, noise_multiplier=1.0, expected_batch=2)
    plain = nn.Linear(3, 2)
    with pytest.raises(ValueError, match="those that the model trains"):
        PrivateGradient(plain, {"weight": plain.weight}, clip_norm=1.0, noise_multiplier=1.0, expected_batch=2)


def test_dropout_is_off_and_what_stays_random_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = checkpoint(folder, "bert")
    assert load_base(path, device=CPU).model.config.hidden_dropout_prob > 0  # what the checkpoint asks for
    monkeypatch.setattr("gpu_workers.finetune.classifier._still", lambda model: None)
    with pytest.raises(InvalidInput) as refusal:
        load_base(path, device=CPU)
    assert refusal.value.field == "model"
