"""The file of a privately fine-tuned classifier, and its model card.

The file is safetensors, with its description and privacy cost in the metadata. It holds the optimised tensors (`lora`:
adapter and head; `rgp`: the encoder's linear layers and the head; `full`: everything except the embeddings), in
float32. It fits only the encoder whose fingerprint it names. No pickle.

The card shows the classifier's certificate and the epsilon of every accountant.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from core.accounting.plans import Kind, Line
from core.finetune.inputs import Hyperparameters
from core.finetune.plan import Sampling, epoch_steps
from gpu_workers.finetune.classifier import Base, Classifier, Metrics, Rows, load_base, probabilities
from gpu_workers.finetune.gradients import Method, prepare
from gpu_workers.finetune.spec import BUNDLED
from gpu_workers.jobs.protocol import cell
from gpu_workers.models.tensor_file import read_tensors, write_tensors

_FORMAT = "privacy-gateway/classifier/1"
_HYPERPARAMETERS = tuple(field.name for field in fields(Hyperparameters))


@dataclass(frozen=True)
class ClassifierInfo:
    """`labels` in the order of the logits; `epsilon` is the certified one, add-remove. `hyperparameters` as they were
    used: with the method's learning rate where none was given, and rank 0 for `full`."""

    method: str
    base: str
    base_fingerprint: str
    labels: tuple[str, ...]
    pairs: bool
    hyperparameters: Hyperparameters
    rows: int
    batch: int
    steps: int
    clip_norm: float
    noise_multiplier: float
    epsilon: float
    delta: float
    sampling: str = "poisson"  # `random_allocation`: each row in one of round(rows / batch) steps of each epoch
    counts_epsilon: float = 0.0  # the part of epsilon for counts of the labels
    model: str = BUNDLED  # the name of the encoder in the settings of the gateway that trained it


def save_classifier(path: Path, info: ClassifierInfo, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write the file atomically."""
    arrays = {name: tensor.detach().float().cpu().numpy() for name, tensor in tensors.items()}
    facts = asdict(info)
    write_tensors(path, _FORMAT, facts | facts.pop("hyperparameters"), arrays)


def load_classifier(
    path: Path, base_path: Path | None = None, *, device: torch.device | str = "cpu"
) -> tuple[ClassifierInfo, Base, Classifier]:
    """Load a file's classifier on its encoder (the bundled one by default), in evaluation mode.

    Raises: ValueError for a file of another format, for another encoder, or for a number that is not finite.
    """
    info, tensors = _read(path)
    place = torch.device(device)
    base = load_base(base_path, device=place, pieces_max=info.hyperparameters.pieces_max)
    if base.fingerprint != info.base_fingerprint:
        raise ValueError("the classifier was made for another encoder")
    model = Classifier(base, labels=len(info.labels), pairs=info.pairs)
    trained = prepare(model, Method(info.method), rank=info.hyperparameters.rank)
    shapes = {name: parameter.shape for name, parameter in trained.optimised.items()}
    if shapes != {name: tensor.shape for name, tensor in tensors.items()}:
        raise ValueError("the tensors do not match the classifier")
    with torch.no_grad():
        for name, parameter in trained.optimised.items():
            parameter.copy_(tensors[name])
    return info, base, model.eval()


class LoadedClassifier:
    """A file's classifier, ready to answer."""

    def __init__(self, path: Path, encoders: Mapping[str, str], *, device: torch.device) -> None:
        """`encoders`: folders of encoders by the names that files have of them. Raises ValueError as
        `load_classifier`, and for a name that is missing."""
        info, _ = _read(path)
        folder = None if info.model == BUNDLED else encoders.get(info.model)
        if folder is None and info.model != BUNDLED:
            raise ValueError("there is no encoder of this name")
        self._device = device
        self.info, self._base, self._model = load_classifier(path, Path(folder) if folder else None, device=device)

    def probabilities(self, texts: Sequence[tuple[str, ...]]) -> npt.NDArray[np.float32]:
        """The probability of each label, float32 `[rows, labels]`, in the order of the declared labels. The answer for
        a row is a function of the row and the weights: post-processing of what the training released."""
        rows = Rows(self._base, texts, [0] * len(texts), device=self._device)
        return probabilities(self._model, rows).numpy()


def _read(path: Path) -> tuple[ClassifierInfo, dict[str, torch.Tensor]]:
    kind, facts, arrays = read_tensors(path)
    if kind != _FORMAT:
        raise ValueError("not a classifier file of a known format")
    try:
        used = Hyperparameters(**{name: facts.pop(name) for name in _HYPERPARAMETERS if name in facts})
        if used.class_shares is not None:
            used = replace(used, class_shares=tuple(used.class_shares))
        info = ClassifierInfo(**{**facts, "labels": tuple(facts["labels"]), "hyperparameters": used})
        Method(info.method)
    except (ValueError, LookupError, TypeError):
        raise ValueError("the file's metadata does not describe a classifier") from None
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
        raise ValueError("the classifier holds a number that is not finite")
    return info, tensors


def classifier_card(
    name: str, info: ClassifierInfo, lines: Sequence[Line], *, replace_one: float, metrics: Metrics | None
) -> str:
    """Markdown. `lines`: `core.finetune.plan.by_every_accountant`; `replace_one`: epsilon of that adjacency."""
    scores = (
        [f"| accuracy, macro-F1 on {metrics.rows} public rows | {metrics.accuracy:.4f}, {metrics.macro_f1:.4f} |"]
        if metrics
        else []
    )
    return "\n".join(
        [
            f"# Classifier `{name}`",
            "",
            f"Fine-tuned under differential privacy: **({up(info.epsilon)}, {info.delta:g})-DP** for one row of the",
            "training data, where neighbours differ by one row more or less (add-remove). The certificate is a bound",
            "by privacy loss distributions for the whole run. It covers these weights and everything reported during",
            "training. Where neighbours differ in the value of one row, the same run is",
            f"({up(replace_one)}, {info.delta:g})-DP.",
            "",
            "| | |",
            "| --- | --- |",
            f"| method | {info.method} |",
            *(
                _hyperparameter(name, value)
                for name, value in asdict(info.hyperparameters).items()
                if value is not None
            ),
            f"| encoder | {cell(info.base)} (`{info.base_fingerprint}`) |",
            f"| labels | {cell(', '.join(info.labels))} |",
            f"| texts a row | {2 if info.pairs else 1} |",
            f"| rows, as declared (public) | {info.rows} |",
            f"| steps | {info.steps}, {_sampling(info)} |",
            f"| clipping norm | {info.clip_norm:g} |",
            *([f"| of epsilon, for counts of the labels | {info.counts_epsilon:g} |"] if info.counts_epsilon else []),
            f"| noise multiplier | {info.noise_multiplier:.6g} |",
            *scores,
            "",
            "## Epsilon by every accountant",
            "",
            f"Values for this run at delta {info.delta:g}. An estimate may be below the true value. It was not used to",
            "set the noise and is no guarantee.",
            "",
            "| accountant | claims | epsilon |",
            "| --- | --- | --- |",
            *(_row(line) for line in lines),
            "",
            "## What is not covered",
            "",
            "The number of rows, the labels' names and the public split count as public. One row is the unit: a person",
            "with several rows is protected for one of them. Gaussian noise is assumed to use real arithmetic.",
            "",
        ]
    )


def _hyperparameter(name: str, value: Any) -> str:
    shown = value if isinstance(value, str) else ", ".join(f"{each:g}" for each in np.atleast_1d(value))
    return f"| {name.replace('_', ' ')} | {shown} |"


def _sampling(info: ClassifierInfo) -> str:
    if info.sampling == Sampling.POISSON:
        return f"Poisson sampled, {info.batch} rows expected in each"
    epoch = epoch_steps(rows=info.rows, batch=info.batch)
    return f"random allocation: each row in one of the {epoch} steps of each epoch"


def up(epsilon: float) -> str:
    """Round up to four decimals."""
    return f"{math.ceil(epsilon * 1e4 - 1e-9) / 1e4:.4f}"


def _row(line: Line) -> str:
    name = line.name if line.order is None else f"{line.name}, order {line.order}"
    certificate = " (the certificate)" if line.name == "pld" else ""
    claims = {Kind.BOUND: "bound", Kind.ESTIMATE: "estimate"}.get(line.result.kind, "nothing")
    value = "–" if line.result.value is None else up(line.result.value)
    return f"| {name}{certificate} | {claims} | {value} |"
