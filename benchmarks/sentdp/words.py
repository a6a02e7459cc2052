"""Word-level metric DP: every word of a document is exchanged for a public word near its noisy vector.

Guarantee: for a single word w replaced by w', eps * distance(w, w'); for a whole sentence the exponents of its words
add up. Unit of distance: the median distance of two words of the vocabulary, so two typical words are
eps-indistinguishable. At the same number eps this is far weaker than sentence-level eps. The number of words of each
sentence is public; punctuation is dropped. Source: Feyisetan, Balle, Drake and Diethe 2020, as the baseline of Meehan,
Mrini and Chaudhuri 2022.

Word vectors: the bundled encoder's token table, whole lower-case words of two letters or more; a word outside the
vocabulary has the mean vector of its word pieces. Floating-point noise: these documents are released to nobody.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import torch

from benchmarks.sentdp.baselines import FloatArray, ball_noise
from gpu_workers.models.encoder import Encoder
from training.public_text import Document

_WORD = re.compile(r"[^\W_]+")
_WHOLE = re.compile(r"[a-z]{2,}")
_CHUNK = 2_048
_PAIRS = 100_000


class WordMechanism:
    """The mechanism over one encoder's words."""

    def __init__(self, encoder: Encoder) -> None:
        from safetensors import safe_open
        from tokenizers import Tokenizer

        self._encoder = encoder
        self._tokenizer = Tokenizer.from_file(str(encoder.path / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        with safe_open(encoder.path / "model.safetensors", framework="numpy") as file:
            name = next(key for key in file.keys() if key.endswith("word_embeddings.weight"))  # noqa: SIM118
            table = file.get_tensor(name).astype(np.float32)
        words = {word: i for word, i in self._tokenizer.get_vocab().items() if _WHOLE.fullmatch(word)}
        self.words = sorted(words)
        own = table[[words[word] for word in self.words]]
        pairs = np.random.default_rng(0).integers(0, len(own), (2, _PAIRS))
        self.unit = float(np.median(np.linalg.norm(own[pairs[0]] - own[pairs[1]], axis=1)))
        self._table = table / self.unit
        # bfloat16 products are three times as fast, and a near tie between two words changes no average
        self._public = torch.from_numpy(own / self.unit)
        self._halves = self._public.square().sum(dim=1) / 2
        self._public_t = self._public.to(encoder.dtype).t()

    def vectors(self, words: Sequence[str]) -> FloatArray:
        """One vector a word, in units of the median distance."""
        found = self._tokenizer.encode_batch(list(words), add_special_tokens=False)
        return np.stack([self._table[item.ids or [0]].mean(axis=0) for item in found])

    def nearest(self, vectors: FloatArray) -> list[str]:
        """The nearest public word of each vector."""
        chosen: list[str] = []
        for rows in torch.from_numpy(vectors).split(_CHUNK):
            near = (rows.to(self._public_t.dtype) @ self._public_t).float() - self._halves
            chosen += [self.words[i] for i in near.argmax(dim=1).tolist()]
        return chosen

    def release(
        self, documents: Sequence[Document], epsilon: float, source: np.random.Generator
    ) -> tuple[list[FloatArray], float]:
        """Sentence embeddings of the randomised documents, one `[k, d]` each, and the share of words unchanged."""
        split = [[_WORD.findall(sentence.lower()) for sentence in document.sentences] for document in documents]
        flat = [word for document in split for sentence in document for word in sentence]
        known = sorted(set(flat))
        index = {word: i for i, word in enumerate(known)}
        vectors = self.vectors(known)[[index[word] for word in flat]]
        chosen = self.nearest((vectors + ball_noise(vectors.shape, source) / epsilon).astype(np.float32))
        kept = float(np.mean([a == b for a, b in zip(flat, chosen, strict=True)]))
        stream = iter(chosen)
        texts = [[" ".join(next(stream) for _ in sentence) for sentence in document] for document in split]
        encoded = self._encoder.encode([sentence for document in texts for sentence in document])
        ends = np.cumsum([len(document) for document in texts])[:-1]
        return np.split(encoded, ends), kept
