"""The mean of taggers: tensors by weight, and rows of labels only from the files that have them."""

import torch

from gpu_workers.models.embedded import AdapterInfo
from training.tagger_mean import mean


def part(value: float, *labels: str) -> tuple[AdapterInfo, dict[str, torch.Tensor]]:
    info = AdapterInfo("tagger", "encoder", 0, 1, "source", "licence", labels)
    return info, {"head.weight": torch.full((len(labels), 2), value), "case": torch.full((3,), value)}


def test_a_mean_weighs_its_parts_and_keeps_the_rows_of_new_labels() -> None:
    info, tensors = mean([part(1, "O", "PERSON"), part(5, "O", "PERSON", "SECRET")], [3, 1])
    assert info.labels == ("O", "PERSON", "SECRET")
    assert tensors["head.weight"].tolist() == [[2, 2], [2, 2], [5, 5]]
    assert tensors["case"].tolist() == [2, 2, 2]
