"""The masked language model: predicts words for masked places, for many documents in a batch.

`MaskedLM` serves two sources: the adapter shipped for the bundled encoder, and an operator's masked language model. On
a CPU, the former runs without transformers (`PackedInfill`).

`MaskedInfill` is a masked language model as `core.text.model_fills.InfillModel`. A blank is read in a window of pieces
around it, with as many pieces to its left as to its right if the text has them. Blanks that are not filled yet are the
model's mask piece.

Candidates: every piece of the vocabulary that is a whole word of letters (`MaskedLM.words`), in the order of its
number. A blank of a number is filled with a piece of digits (`MaskedLM.numbers`), or with a word if the vocabulary has
no such piece.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import gelu, layer_norm, linear

from core.text.model_fills import Blank, Candidates
from gpu_workers.models.embedded import InfillNet, embedded_vocabulary, load_embedded, packed_adapter
from gpu_workers.models.pieces import (
    IntArray,
    Pieces,
    Window,
    batches,
    number_beginnings,
    padded,
    pieces_of,
    windows,
    word_beginnings,
)
from gpu_workers.models.pretrained import Vocabulary, load_pretrained


class PackedInfill:
    """Logits of every piece at the requested positions, equal to those of `InfillNet` up to rounding."""

    def __init__(self, path: Path | None, dtype: torch.dtype | None) -> None:
        """See `packed_adapter`."""
        loaded = packed_adapter("infill", path, dtype)
        head = loaded.tensors
        self._bert, self._words, self._eps = loaded.bert, loaded.words, loaded.eps
        self._dense = head["head.dense.weight"], head["head.dense.bias"]
        self._norm = head["head.norm.weight"], head["head.norm.bias"]
        self._bias = head["head.bias"]

    def __call__(self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Map `ids` int64 and `mask` `[rows, length]` to logits `[positions, vocabulary]` at the given flat
        positions."""
        (states,) = self._bert([(ids, mask.bool())])
        chosen = states.reshape(-1, states.shape[-1])[positions]
        wide = gelu(linear(chosen, *self._dense))
        return linear(layer_norm(wide, wide.shape[1:], *self._norm, eps=self._eps), self._words, self._bias)


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


WINDOW_PIECES = 48  # around a blank: the time grows with it, and more pieces improve little


class MaskedInfill:
    """Raises ValueError for a vocabulary without words."""

    considered = 1_000

    def __init__(self, model: MaskedLM) -> None:
        self._model = model
        self.name = model.name
        words, numbers = dict(sorted(model.words.items())), dict(sorted(model.numbers.items()))
        self.candidates = Candidates(tuple(words.values()))
        self._ids = np.array(list(words), dtype=np.int64)
        self._with_numbers = np.array([*words, *numbers], dtype=np.int64)
        self._spelt = (*words.values(), *numbers.values())
        self._window = min(model.window, WINDOW_PIECES)

    def ranked(self, blanks: Sequence[Blank], *, count: int) -> list[list[str]]:
        words, spelt = len(self.candidates), self._spelt
        answers = []
        for row, blank in zip(self._rows(blanks, self._with_numbers), blanks, strict=True):
            first, end = (words, len(spelt)) if blank.number and len(spelt) > words else (0, words)
            answers.append([spelt[first + place] for place in _best(row[first:end], count)])
        return answers

    def logits(self, blanks: Sequence[Blank]) -> FloatArray:
        return self._rows(blanks, self._ids)

    def _rows(self, blanks: Sequence[Blank], ids: IntArray) -> FloatArray:
        if not blanks:
            return np.zeros((0, len(ids)), dtype=np.float32)
        return np.concatenate(self._model.logits(self._questions(blanks), ids))

    def _questions(self, blanks: Sequence[Blank]) -> list[Question]:
        # A vocabulary that marks the beginnings of words counts the space before a word as part of the word.
        parts = [part.rstrip(" ") for blank in blanks for part in (blank.before, *blank.after)]
        pieces = iter(self._model.ids(parts))
        questions = []
        for blank in blanks:
            before = next(pieces)
            after: list[IntArray] = []
            for number in range(len(blank.after)):
                after += [self._mask] * (number > 0) + [next(pieces)]
            questions.append(self._question(before, np.concatenate([*after, np.zeros(0, dtype=np.int64)])))
        return questions

    @property
    def _mask(self) -> IntArray:
        return np.array([self._model.mask], dtype=np.int64)

    def _question(self, before: IntArray, after: IntArray) -> Question:
        available = self._window - 1
        left = min(len(before), max(available // 2, available - len(after)))
        right = min(len(after), available - left)
        ids = np.concatenate([before[len(before) - left :], self._mask, after[:right]])
        return Question(ids, np.array([left], dtype=np.int64))


def _best(row: FloatArray, count: int) -> IntArray:
    """Return the indices of the `count` largest values, the largest first."""
    count = min(count, len(row))
    own = np.argpartition(-row, count - 1)[:count]
    placed: IntArray = own[np.argsort(-row[own], kind="stable")]
    return placed
