"""The file of a classifier works with transformers and the same encoder, by the lines of docs/reference/finetune.md."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from finetune_kit import CPU, LABELS, Memory, checkpoint, labels, texts
from tiers import cells

from core.accounting.plans import Certificate
from core.finetune.inputs import Hyperparameters, Split
from core.finetune.plan import PrivacyPlan
from gpu_workers.finetune.artifact import LoadedClassifier, save_classifier
from gpu_workers.finetune.gradients import Method
from gpu_workers.finetune.training import Task, fine_tune

PAGE = Path(__file__).parents[3] / "docs/reference/finetune.md"


@pytest.mark.parametrize("method", cells([Method.HEAD, Method.FULL]))
def test_the_documented_lines_give_the_same_scores(folder: Path, method: Method, tmp_path: Path) -> None:
    encoder = checkpoint(folder, "bert")
    plan = PrivacyPlan(8.0, 1e-3, 24, 24, 3, 0.1, Certificate(8.0, 1e-3, 0.0))
    task = Task(labels=LABELS, pairs=False, method=method, hyperparameters=Hyperparameters(pieces_max=12))
    split = Split(texts(24), labels(24))
    made = fine_tune(split, None, task, plan, base_path=encoder, device=CPU, checkpoint=Memory(), report=lambda _: None)
    path = tmp_path / "reviews.safetensors"
    save_classifier(path, made.info, made.tensors)
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names = {"encoder_folder": str(encoder), "path": str(path), "texts": [text for (text,) in texts(7)]}
    exec(block.replace("max_length=128", "max_length=12"), names)
    save_classifier(path, replace(made.info, model="tiny"), made.tensors)
    own = LoadedClassifier(path, {"tiny": str(encoder)}, device=CPU).probabilities(texts(7))
    assert np.allclose(names["scores"].detach().numpy(), own, atol=1e-5)
    assert own.std() > 1e-3
