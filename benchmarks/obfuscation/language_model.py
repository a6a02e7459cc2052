"""The downstream task: a small causal Transformer, pretrained on one corpus and adapted to another.

Its vocabulary is byte pairs of the pretraining corpus, lower case, so that no word is unknown. Perplexity is by *word*
(a run of letters, of digits or of other marks, and the end of a sentence), whatever the pieces are.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from torch import nn
from torch.nn.functional import cross_entropy

from core.text.fill_marker import MARKER
from training.public_text import show

END = "[END]"  # before and after every sentence
_PIECES = 8_000
_WIDTH, _LAYERS, _HEADS = 128, 2, 4
_LENGTH = 128
# passes over the text: sentences in a batch, and the highest rate
_PRETRAIN = ((32, 3e-3),)
_ADAPT = ((8, 1e-3),)  # best for clean text, on reviews that are in none of the tables
_TEST_ROWS = 32
_SEED = 20235


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            _WIDTH, _HEADS, 4 * _WIDTH, dropout=0.1, activation="gelu", batch_first=True, norm_first=True
        )
        self.pieces = nn.Embedding(_PIECES, _WIDTH)
        self.places = nn.Embedding(_LENGTH, _WIDTH)
        self.layers = nn.TransformerEncoder(layer, _LAYERS, norm=nn.LayerNorm(_WIDTH), enable_nested_tensor=False)
        self.bias = nn.Parameter(torch.zeros(_PIECES))
        nn.init.normal_(self.pieces.weight, std=_WIDTH**-0.5)
        nn.init.normal_(self.places.weight, std=_WIDTH**-0.5)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        length = ids.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        states = self.layers(self.pieces(ids) + self.places.weight[:length], mask=mask, is_causal=True)
        logits: torch.Tensor = states @ self.pieces.weight.T + self.bias
        return logits


class LanguageModel:
    """`pretrained` once; `perplexity` adapts a copy. All draws are seeded: two rows differ by their text alone."""

    def __init__(self, tokenizer: Tokenizer, net: _Net) -> None:
        self._tokenizer = tokenizer
        self._net = net
        self._end, self._marker = tokenizer.token_to_id(END), tokenizer.token_to_id(MARKER)

    @classmethod
    def pretrained(cls, texts: Sequence[str], cache: Path) -> LanguageModel:
        """From the cache, or trained: a quarter of an hour."""
        settings = (_PIECES, _WIDTH, _LAYERS, _HEADS, _LENGTH, _PRETRAIN, _SEED)
        digest = hashlib.sha256(repr((settings, texts)).encode()).hexdigest()[:16]
        path = cache / f"language-model-{digest}.pt"
        torch.manual_seed(_SEED)
        if path.exists():
            saved = torch.load(path, weights_only=True)
            model = cls(Tokenizer.from_str(saved["tokenizer"]), _Net())
            model._net.load_state_dict(saved["net"])
        else:
            model = cls(_tokenizer(texts), _Net())
            for rows, rate in _PRETRAIN:
                model._train(model._net, texts, rows=rows, rate=rate, marker_weight=1.0)
            torch.save({"tokenizer": model._tokenizer.to_str(), "net": model._net.state_dict()}, path)
        return model

    @property
    def fingerprint(self) -> str:
        """Of the weights, the vocabulary and how it is adapted."""
        digest = hashlib.sha256(repr((_ADAPT, _SEED)).encode())
        digest.update(self._tokenizer.to_str().encode())
        for tensor in self._net.state_dict().values():
            digest.update(tensor.numpy().tobytes())
        return digest.hexdigest()

    def perplexity(self, adapt: Sequence[str], test: Sequence[str], *, marker_weight: float) -> float:
        """By word of `test`, after training on `adapt`, if there is any. `marker_weight`: of a marker in the loss."""
        net = _Net()
        net.load_state_dict(self._net.state_dict())
        for rows, rate in _ADAPT if adapt else ():
            self._train(net, adapt, rows=rows, rate=rate, marker_weight=marker_weight)
        net.eval()
        with torch.inference_mode():
            total = sum(float(self._losses(net, ids).sum()) for ids in self._batches(test, _TEST_ROWS))
        words = sum(len(self._tokenizer.pre_tokenizer.pre_tokenize_str(text)) + 1 for text in test)
        return math.exp(total / words)

    def _train(self, net: _Net, texts: Sequence[str], *, rows: int, rate: float, marker_weight: float) -> None:
        """One pass: the rate rises over its first tenth, then falls to nothing."""
        torch.manual_seed(_SEED)
        batches = list(self._batches(texts, rows))
        optimiser = torch.optim.AdamW(net.parameters(), lr=rate)
        rates = torch.optim.lr_scheduler.OneCycleLR(
            optimiser, rate, total_steps=len(batches) + 1, pct_start=0.1, anneal_strategy="linear", cycle_momentum=False
        )
        net.train()
        for step, number in enumerate(np.random.default_rng(_SEED).permutation(len(batches))):
            ids = batches[number]
            weights = (ids[:, 1:] >= 0).float()
            weights[ids[:, 1:] == self._marker] = marker_weight
            loss = (self._losses(net, ids) * weights).sum() / weights.sum()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimiser.step()
            rates.step()
            optimiser.zero_grad()
            if step % 20 == 0:
                show(f"step {step} of {len(batches)}, loss {float(loss):.3f}")
        show("")

    def _losses(self, net: _Net, ids: torch.Tensor) -> torch.Tensor:
        """Of each piece but the first, `[rows, length - 1]`; 0 where there is none."""
        with torch.autocast("cpu", torch.bfloat16):
            logits = net(ids[:, :-1].clamp(min=0))
        truth = ids[:, 1:]
        losses = cross_entropy(logits.float().flatten(0, 1), truth.flatten(), ignore_index=-1, reduction="none")
        return losses.view(truth.shape)

    def _batches(self, texts: Sequence[str], count: int) -> Iterator[torch.Tensor]:
        """`count` sentences of like length together, int64 `[rows, length]`, -1 where a sentence has ended."""
        rows = [
            [self._end, *item.ids[: _LENGTH - 1], self._end] for item in self._tokenizer.encode_batch_fast(list(texts))
        ]
        rows.sort(key=len)
        for start in range(0, len(rows), count):
            chosen = rows[start : start + count]
            ids = np.full((len(chosen), len(chosen[-1])), -1, dtype=np.int64)
            for own, row in zip(ids, chosen, strict=True):
                own[: len(row)] = row
            yield torch.from_numpy(ids)


def _tokenizer(texts: Sequence[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=_PIECES, special_tokens=[END, MARKER], initial_alphabet=alphabet, show_progress=False
        ),
    )
    return tokenizer
