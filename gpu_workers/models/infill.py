"""The masked language model: predicts words for masked places, for many documents in a batch.

One class serves two sources: the adapter shipped for the bundled encoder, and an operator's masked language model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from gpu_workers.models.embedded import embedded_vocabulary, load_embedded
from gpu_workers.models.nets import InfillNet
from gpu_workers.models.packed_infill import PackedInfill
from gpu_workers.models.pieces import IntArray, Pieces, pieces_of
from gpu_workers.models.pretrained import Vocabulary, load_pretrained
from gpu_workers.models.windows import Window, batches, padded, windows
from gpu_workers.models.word_pieces import number_beginnings, word_beginnings

FloatArray = npt.NDArray[np.float32]
# ids, attention mask `[rows, length]`, flat `positions` to logits `[positions, vocabulary]`
Forward = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

_TOKENS_MAX = 512  # on a CPU: the output of a layer stays in the cache
_TOKENS_MAX_GPU = 65_536


@dataclass(frozen=True)
class Question:
    """The pieces of a document, masked ones replaced by `MaskedLM.mask`, and the positions to predict, ascending."""

    ids: IntArray
    positions: IntArray


class MaskedLM:
    """Logits at a position depend only on the document's own pieces, up to rounding. No privacy guarantee relies on
    this: the model receives no original (`core.text.model_fills`).

    `mask`: the id of the mask piece. `size`: of the vocabulary. `window`: the pieces that are read together.
    """

    def __init__(self, *, vocabulary: Vocabulary, forward: Forward, device: torch.device, name: str) -> None:
        """Raises ValueError if the vocabulary has no mask token."""
        if vocabulary.mask is None:
            raise ValueError("the model's tokeniser has no mask token")
        self.mask = vocabulary.mask
        self.size = int(vocabulary.tokenizer.get_vocab_size())
        self.window = vocabulary.window
        self.name = name
        self._vocabulary = vocabulary
        self._forward = forward
        self._device = device
        self._tokens_max = _TOKENS_MAX_GPU if device.type == "cuda" else _TOKENS_MAX

    def pieces(self, documents: Sequence[str]) -> list[Pieces]:
        """Split each document into word pieces, without truncation and without special tokens."""
        encodings = self._vocabulary.tokenizer.encode_batch(list(documents), add_special_tokens=False)
        return [pieces_of(text, item) for text, item in zip(documents, encodings, strict=True)]

    def ids(self, texts: Sequence[str]) -> list[IntArray]:
        """Return the ids of each text's pieces, without truncation and without special tokens."""
        encodings = self._vocabulary.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.array(item.ids, dtype=np.int64) for item in encodings]

    def text(self, ids: IntArray) -> str:
        """Decode the pieces, without special tokens."""
        return str(self._vocabulary.tokenizer.decode(ids.tolist(), skip_special_tokens=True))

    @cached_property
    def words(self) -> dict[int, str]:
        """Every piece that begins a word and has only letters, as it reads inside a text: the candidates for a
        blank."""
        return word_beginnings(self._vocabulary.tokenizer)

    @cached_property
    def numbers(self) -> dict[int, str]:
        """The same for pieces that have only digits."""
        return number_beginnings(self._vocabulary.tokenizer)

    @torch.inference_mode()
    def logits(self, questions: Sequence[Question], candidates: IntArray | None = None) -> list[FloatArray]:
        """Return the logits at each question's positions, float32 `[positions, candidates or vocabulary]`.

        A long document is read in windows. A position uses the window in which it is farthest from an edge.

        Raises: RuntimeError if the model gives a number that is not finite.
        """
        width = self.size if candidates is None else len(candidates)
        columns = None if candidates is None else torch.from_numpy(candidates).to(self._device)
        out = [np.full((len(question.positions), width), np.nan, dtype=np.float32) for question in questions]
        cut = [window for number, question in enumerate(questions) for window in self._windows(number, question)]
        for numbers in batches([window.end - window.start + 2 for window in cut], self._tokens_max):
            chosen = [cut[number] for number in numbers]
            rows, flat, places = self._rows(questions, chosen)
            ids = padded(rows, self._vocabulary.pad, self._device)
            mask = padded([np.ones(len(row), dtype=np.int64) for row in rows], 0, self._device)
            logits = self._forward(ids, mask, torch.from_numpy(flat).to(self._device))
            answers = (logits[:, : self.size] if columns is None else logits[:, columns]).float().cpu().numpy()
            for (document, place), answer in zip(places, answers, strict=True):
                out[document][place] = answer
        if not all(np.isfinite(rows).all() for rows in out):
            raise RuntimeError("the masked language model gave a logit that is not finite")
        return out

    def _windows(self, number: int, question: Question) -> list[Window]:
        cut = windows(number, len(question.ids), size=self.window, overlap=self.window // 2)
        return [w for w in cut if ((question.positions >= w.own_start) & (question.positions < w.own_end)).any()]

    def _rows(
        self, questions: Sequence[Question], chosen: Sequence[Window]
    ) -> tuple[list[IntArray], IntArray, list[tuple[int, int]]]:
        """Return framed rows, the flat positions to predict, and (document, place) of each of those."""
        longest = max(window.end - window.start for window in chosen) + 2
        rows, flat, places = [], [], []
        for row, window in enumerate(chosen):
            question = questions[window.document]
            frame = ([self._vocabulary.start], question.ids[window.start : window.end], [self._vocabulary.end])
            rows.append(np.concatenate(frame).astype(np.int64))
            for place in np.flatnonzero(
                (question.positions >= window.own_start) & (question.positions < window.own_end)
            ):
                flat.append(row * longest + 1 + int(question.positions[place]) - window.start)
                places.append((window.document, int(place)))
        return rows, np.array(flat, dtype=np.int64), places


def embedded_infill(
    path: Path | None = None, *, device: torch.device | str = "cpu", dtype: torch.dtype | None = None
) -> MaskedLM:
    """Load the masked language model on the bundled encoder, from the shipped adapter or another one made for it.

    Raises: ValueError for a file that is not such an adapter.
    """
    own = torch.device(device)
    forward: Forward
    if own.type == "cpu":
        forward = PackedInfill(path, dtype)
    else:
        _, forward = load_embedded("infill", lambda bert, _: InfillNet(bert), path, device=own, dtype=dtype)
    return MaskedLM(vocabulary=embedded_vocabulary(), forward=forward, device=own, name="embedded")


def pretrained_infill(path: Path, *, device: torch.device | str = "cpu") -> MaskedLM:
    """Load a transformers masked language model (BERT, RoBERTa, ...) from a local folder.

    Raises: ValueError for a folder that `load_pretrained` refuses, or a tokeniser without a mask.
    """
    from transformers import AutoModelForMaskedLM

    own = torch.device(device)
    model, vocabulary = load_pretrained(path, AutoModelForMaskedLM, device=own)

    def forward(ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = model(input_ids=ids, attention_mask=mask).logits
        return logits.flatten(0, 1)[positions]

    return MaskedLM(vocabulary=vocabulary, forward=forward, device=own, name=path.name)
