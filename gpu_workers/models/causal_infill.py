"""A causal language model (LLaMA type) as `core.text.model_fills.InfillModel`.

The prompt asks the model to write the text again with each [MASK] filled in, as Vats et al. 2023 prompt LLaMA. The text
to the left of the blank is the beginning of the model's answer, so the next word that it would write is the word for
the blank. The model reads both sides of the blank, in a window of pieces around it. Blanks that are not filled yet are
[MASK].

A text cannot make the model fill more than one word for its own blank: each blank has a row of its own, a text that
spells a special token is read as plain letters, and only pieces that consist of letters are taken from the answer, up
to the end of the word. Nothing is sampled. For a number's blank, digits replace letters, if the vocabulary has digits.

Candidates, for the fill `dp`: every piece of the vocabulary that begins a word and has only letters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from core.errors import InfillFailed
from core.text.model_fills import Blank, Candidates, FloatArray
from gpu_workers.models.one_word import is_number, is_word
from gpu_workers.models.pieces import IntArray
from gpu_workers.models.pretrained import load_checkpoint, plain
from gpu_workers.models.windows import batches
from gpu_workers.models.word_pieces import (
    number_beginnings,
    number_continuations,
    word_beginnings,
    word_continuations,
)

WINDOW_PIECES = 128  # around a blank; the pieces to its left are read twice
WINDOW_PIECES_MIN = 32
WORD_PIECES = 8  # the most pieces of one word; a longer sequence is rejected
FIRSTS_MIN = 4  # beginnings that are continued, so that one that makes no word does not fail the fill

_INSTRUCTION = "Predict the [MASK] tokens in the given text. Write the text again, with one word for each [MASK]."
_MASK = "[MASK]"
_TEXT = "\ue000"  # placeholder for the text: a character that no template contains
_POSITIONS = 2_048  # for a model that does not report its number of positions
_TOKENS_MAX = 4_096
_TOKENS_MAX_GPU = 65_536


def causal_infill(path: Path, *, device: torch.device | str = "cpu") -> CausalInfill:
    """Load a transformers causal language model from a local folder, in the precision of its file.

    Raises: ValueError for a folder that `load_checkpoint` refuses, a vocabulary without words, or too few positions.
    """
    from transformers import AutoModelForCausalLM

    own = torch.device(device)
    model, tokenizer = load_checkpoint(path, AutoModelForCausalLM, device=own, dtype="auto")
    return CausalInfill(model, tokenizer, device=own, name=path.name)


@dataclass(frozen=True, eq=False)
class _Spelling:
    """The spelling of words, or of numbers, in a vocabulary. `begins` and `continues` map pieces by number; `usable`
    marks, among all pieces, those that can come first.

    If no piece `begins` a word or number (as for numbers in a vocabulary of single digits), the space before it is a
    piece of its own, followed by the pieces of `continues`.
    """

    begins: dict[int, str]
    continues: dict[int, str]
    whole: Callable[[str], bool]

    @cached_property
    def usable(self) -> torch.Tensor:
        return torch.tensor([*self.begins, *self.continues])


class CausalInfill:
    """`model`, `tokenizer`: as loaded by transformers."""

    considered = FIRSTS_MIN

    def __init__(self, model: Any, tokenizer: Any, *, device: torch.device, name: str) -> None:
        self.name = name
        self._model = model
        self._device = device
        self._tokens_max = _TOKENS_MAX_GPU if device.type == "cuda" else _TOKENS_MAX
        head, tail = _frame(tokenizer)
        pieces = tokenizer.backend_tokenizer
        self._head, self._tail = (pieces.encode(part, add_special_tokens=False).ids for part in (head, tail))
        self._tokenizer = plain(pieces)
        positions = int(getattr(model.config, "max_position_embeddings", None) or _POSITIONS)
        self._window = min(WINDOW_PIECES, (positions - len(self._head) - len(self._tail) - WORD_PIECES) // 2)
        if self._window < WINDOW_PIECES_MIN:
            raise ValueError("the model has too few positions")
        begins = dict(sorted(word_beginnings(pieces).items()))
        self._words = _Spelling(begins, word_continuations(pieces), is_word)
        numbers = _Spelling(number_beginnings(pieces), number_continuations(pieces), is_number)
        self._numbers = numbers if numbers.begins or numbers.continues else self._words
        self.candidates = Candidates(tuple(begins.values()))
        self._begins = torch.tensor(list(begins), device=device)

    def ranked(self, blanks: Sequence[Blank], *, count: int) -> list[list[str]]:
        """Rank by the probability of the first piece. The likeliest pieces then continue each one to the end of its
        word.

        Raises: InfillFailed if none of them makes a word.
        """
        answers: list[list[str]] = [[] for _ in blanks]
        for spelling in {self._words, self._numbers}:
            own = [place for place, blank in enumerate(blanks) if self._spelling(blank) is spelling]
            firsts = min(max(count, FIRSTS_MIN), len(spelling.begins or spelling.continues))
            rows = [self._row(blanks[place]) for place in own]
            for numbers in batches([len(row) * firsts for row in rows], self._tokens_max):
                inside = [blanks[own[number]].before.endswith(" ") for number in numbers]
                found = self._written([rows[number] for number in numbers], inside, firsts, spelling)
                for number, words in zip(numbers, found, strict=True):
                    answers[own[number]] = words[:count]
        if not all(answers):
            raise InfillFailed(reason="no-word")
        return answers

    def _spelling(self, blank: Blank) -> _Spelling:
        return self._numbers if blank.number else self._words

    @torch.inference_mode()
    def logits(self, blanks: Sequence[Blank]) -> FloatArray:
        out = np.zeros((len(blanks), len(self.candidates)), dtype=np.float32)
        rows = [self._row(blank) for blank in blanks]
        for numbers in batches([len(row) for row in rows], self._tokens_max):
            _, answer = self._read([rows[number] for number in numbers])
            out[numbers] = _numbers(answer.logits)[:, self._begins].cpu().numpy()
        return out

    @torch.inference_mode()
    def _written(
        self, rows: Sequence[IntArray], inside: Sequence[bool], firsts: int, spelling: _Spelling
    ) -> list[list[str]]:
        """Return the words of each row, the best first. `inside`: whether a space precedes the blank; otherwise the
        word may begin with any letters."""
        begins, continues = spelling.begins, spelling.continues
        mask, answer = self._read(rows)
        usable = spelling.usable.to(self._device)
        scores = _numbers(answer.logits)[:, usable]
        if begins:
            scores[torch.tensor(inside, device=self._device), len(begins) :] = -torch.inf
        pieces = usable[scores.topk(firsts).indices].flatten()
        words = [begins.get(piece) or continues[piece] for piece in pieces.tolist()]
        cache = answer.past_key_values
        cache.batch_repeat_interleave(firsts)
        mask = mask.repeat_interleave(firsts, dim=0)
        unfinished = set(range(len(words)))
        for _ in range(WORD_PIECES):
            mask = torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)
            answer = self._model(
                input_ids=pieces[:, None],
                attention_mask=mask,
                position_ids=mask.sum(dim=1, keepdim=True) - 1,
                past_key_values=cache,
                use_cache=True,
            )
            pieces = _numbers(answer.logits).argmax(dim=1)
            following = pieces.tolist()
            unfinished = {row for row in unfinished if following[row] in continues}
            if not unfinished:
                break
            for row in unfinished:
                words[row] += continues[following[row]]
        whole = [word if row not in unfinished and spelling.whole(word) else "" for row, word in enumerate(words)]
        own = [whole[first : first + firsts] for first in range(0, len(whole), firsts)]
        return [[word for word in dict.fromkeys(each) if word] for each in own]

    def _read(self, rows: Sequence[IntArray]) -> tuple[torch.Tensor, Any]:
        """Read the rows, padded on the left. Return their attention mask and the model's output."""
        longest = max(map(len, rows))
        ids = torch.zeros((len(rows), longest), dtype=torch.int64)
        mask = torch.zeros_like(ids)
        for number, row in enumerate(rows):
            ids[number, longest - len(row) :] = torch.from_numpy(row)
            mask[number, longest - len(row) :] = 1
        ids, mask = ids.to(self._device), mask.to(self._device)
        answer = self._model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=(mask.cumsum(dim=1) - 1).clamp(min=0),
            use_cache=True,
            logits_to_keep=1,
        )
        return mask, answer

    def _row(self, blank: Blank) -> IntArray:
        """Return the prompt and the beginning of the answer. What does not fit is cut from both ends of the text."""
        text = self._tokenizer.encode(_MASK.join((blank.before, *blank.after)), add_special_tokens=False)
        at = len(blank.before)
        first = sum(end <= at for _, end in text.offsets)
        last = sum(start < at + len(_MASK) for start, _ in text.offsets)
        available = self._window - (last - first)
        left = min(first, max(available // 2, available - (len(text) - last)))
        kept = text.ids[first - left : last + available - left]
        # A vocabulary that marks the beginnings of words counts the space before a word as part of the word.
        begun = blank.before[text.offsets[first - left][0] :]
        if self._spelling(blank).begins:
            begun = begun.rstrip(" ")
        answer = self._tokenizer.encode(begun, add_special_tokens=False).ids[-self._window :]
        return np.array(self._head + kept + self._tail + answer, dtype=np.int64)


def _frame(tokenizer: Any) -> tuple[str, str]:
    """Return the part before the text and the part between the text and the answer, special tokens included.

    Raises: ValueError for a chat template that does not contain the text exactly once.
    """
    prompt = f"{_INSTRUCTION}\n\n{_TEXT}"
    if tokenizer.chat_template:
        turns = [{"role": "user", "content": prompt}]
        whole = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    else:
        whole = f"{tokenizer.bos_token or ''}{prompt}\n\nFilled in:\n"
    if whole.count(_TEXT) != 1:
        raise ValueError("the model's chat template does not contain the text exactly once")
    head, _, tail = whole.partition(_TEXT)
    return head, tail


def _numbers(logits: torch.Tensor) -> torch.Tensor:
    """Return the logits at the last position, float32 `[rows, vocabulary]`. Raises RuntimeError if one is not
    finite."""
    last = logits[:, -1].float()
    if not torch.isfinite(last).all():
        raise RuntimeError("the causal language model gave a logit that is not finite")
    return last
