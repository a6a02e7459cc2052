"""The bundled sentence encoder in 8-bit integers, for processors that multiply them faster than other numbers.

Its vectors are near those of `gpu_workers.models.encoder.Encoder` and not the same: it has a fingerprint of its own. It
serves the packs that were made for the floating-point encoder (docs/reference/benchmarks/integer-encoder.md).
"""

import hashlib
import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numba
import numpy as np
import torch

from gpu_workers.facts import EncoderFacts
from gpu_workers.models import independence
from gpu_workers.models.device import Measured
from gpu_workers.models.encoder import NAME, FloatArray, bundled_fingerprint
from gpu_workers.models.encoder_model import bundled_length_max, bundled_tokenizer, bundled_weights
from gpu_workers.models.integer.bert import WAYS, IntegerBert, fastest_way
from gpu_workers.models.integer.layers import STEPS, StepsFile
from gpu_workers.models.pieces import TokenPrefix

_VERSION = b"integer-encoder-2"  # of the rounding rules: with others, vectors change
_BATCH_TOKENS_MAX = 1024  # for each thread
_SPEED_CALLS = 2
_CHECKED_STEP = 64  # tokens; few lengths confirm what is proven, and a first start waits for them
_CHECK = "integer encoder"
_CHECK_TEXT = (
    "The committee will meet again on Thursday to discuss the proposal. Version 2.4 fixes the crash on start, adds a "
    "dark theme, and drops support for the oldest of the drivers."
)


class IntegerEncoder:
    """Guarantee: the vector of a sentence depends on that sentence alone, on every processor (`IntegerBert`).

    Shapes: as `Encoder`.
    """

    def __init__(self, steps: Path = STEPS, way: str | None = None) -> None:
        """`way`: of `WAYS`; by default, the fastest one on this processor."""
        self.device, self.dtype = torch.device("cpu"), torch.int8
        self._way = way or fastest_way()
        file = StepsFile.load(steps)
        weights, config = bundled_weights()
        if file.encoder_fingerprint != bundled_fingerprint() or file.adapter_digest:
            raise ValueError("the steps were made for another encoder")
        self._bert = IntegerBert(
            {name: tensor.numpy() for name, tensor in weights.items()}, config, file, way=WAYS[self._way]
        )
        self.dimension = self._bert.width
        self.name = NAME
        self.fingerprint = hashlib.sha256(
            _VERSION + file.encoder_fingerprint.encode() + file.digest.encode()
        ).hexdigest()
        self.packs_of = file.encoder_fingerprint
        self.length_max = bundled_length_max()
        self._tokenizer = bundled_tokenizer()
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self.length_max)
        self._prefix = TokenPrefix(self._tokenizer, self.length_max)
        self._tokens_per_s = 0

    @cached_property
    def arithmetic(self) -> str:
        """`independence.arithmetic_of`: the same on every processor."""
        return independence.arithmetic_of(self.encode_tokens, self._check_sentences(), self._checked_lengths)

    def facts(self) -> EncoderFacts:
        return EncoderFacts(
            name=self.name,
            fingerprint=self.fingerprint,
            dimension=self.dimension,
            tokens_max=self.length_max,
            device=str(self.device),
            dtype="int8",
            packed=True,
            tokens_per_s=self._tokens_per_s,
            fixed_batches=False,
            packs_of=self.packs_of,
            arithmetic=self.arithmetic,
        )

    def tokenise(self, sentences: Sequence[str]) -> list[list[int]]:
        """Token ids of each sentence, truncated to the model's length."""
        encoded = self._tokenizer.encode_batch_fast([self._prefix.of(sentence) for sentence in sentences])
        return [item.ids for item in encoded]

    def encode(self, sentences: Sequence[str]) -> FloatArray:
        """Return one unit vector for each sentence, float32 `[n, dimension]`, each independent of the others."""
        return self.encode_tokens(self.tokenise(sentences))

    @torch.inference_mode()
    def encode_tokens(self, tokens: Sequence[Sequence[int]]) -> FloatArray:
        """`encode` for sentences that `tokenise` has processed."""
        out = np.empty((len(tokens), self.dimension), dtype=np.float32)
        for members in self._batches([len(ids) for ids in tokens]):
            out[members] = self._bert.vectors(tokens[members])
        return out

    def _batches(self, lengths: Sequence[int]) -> Iterator[slice]:
        """Yield consecutive sentences of at most `_BATCH_TOKENS_MAX` tokens for each thread, or one that is longer."""
        most = _BATCH_TOKENS_MAX * torch.get_num_threads()
        start = held = 0
        for i, length in enumerate(lengths):
            if i > start and held + length > most:
                yield slice(start, i)
                start, held = i, 0
            held += length
        if lengths:
            yield slice(start, len(lengths))

    def self_check(self, measured: Measured | None = None) -> bool:
        """Confirm on mixes of sentences what is proven, and measure the speed. `measured` keeps the outcome for a
        processor."""
        known = measured or Measured(None)
        decides = {"fingerprint": self.fingerprint, "way": self._way, "numba": numba.__version__}
        found = known.find(_CHECK, **decides)
        if found and isinstance(found.get("tokens_per_s"), int):
            self._tokens_per_s = found["tokens_per_s"]
            return True
        sentences = self._check_sentences()
        if not independence.mixes_are_independent(self.encode_tokens, sentences, self._checked_lengths):
            return False
        tokens = sentences.of(32, _BATCH_TOKENS_MAX // 32)
        seconds = []
        for _ in range(_SPEED_CALLS):
            started = time.perf_counter()
            self.encode_tokens(tokens)
            seconds.append(time.perf_counter() - started)
        self._tokens_per_s = round(sum(map(len, tokens)) / min(seconds))
        known.keep({"tokens_per_s": self._tokens_per_s}, _CHECK, **decides)
        return True

    @property
    def _checked_lengths(self) -> Sequence[int]:
        return range(independence.STEP, self.length_max + 1, _CHECKED_STEP)

    def _check_sentences(self) -> independence.Sentences:
        return independence.Sentences(self.tokenise([_CHECK_TEXT])[0])
