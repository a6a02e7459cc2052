"""Fine-tune the shipped language model on a tenant's texts: the same adapter, the same head, the same file format.

A batch has full rows of running text with hidden pieces. peft trains a low-rank adapter of the encoder, whose tensors
are named as an adapter's file names them. The adapter targets the weight of each linear layer (peft's
`target_parameters`), so that peft forms W + up·down before the product with the tokens. For a model this small, this
costs less than the two thin products beside every layer that peft computes for target modules
(docs/adr/0034-tagger-and-adapters.md).

`Obfuscator` masks and fills documents, as `POST /sanitize` does, with a network that may still be in training.
Guarantee: none, as for the fills `top1` and `topk` (`core.text.fill_top_k`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer
from torch import nn

from core.errors import GatewayError
from core.text.fill_top_k import top_1, top_k
from core.text.languages import language_of
from core.text.mask_words import AllowLists
from core.text.model_fills import Ranked, fill_left_to_right
from core.text.policy import TOP_1, Sanitised, SanitizeTask
from core.text.sanitize import Inspected, inspect
from gpu_workers.handlers.entity_tagger import NameFinder
from gpu_workers.handlers.own_finder import OwnFinder
from gpu_workers.handlers.recognition import joined, recognise
from gpu_workers.infill.spec import InfillSpec
from gpu_workers.models.embedded import AdapterInfo, InfillNet, backbone, embedded_vocabulary, load_adapter, shipped
from gpu_workers.models.encoder import bundled_fingerprint
from gpu_workers.models.encoder_model import fastest_dtype
from gpu_workers.models.infill import MaskedInfill, MaskedLM
from gpu_workers.models.sources import TAGGER_OFF
from gpu_workers.models.training_loop import Checkpoint, Schedule, Training

_LINEAR = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)
_NAME = "default"  # peft's name of the only adapter


def attach(model: Any, rank: int) -> None:
    """Freeze a transformers `BertModel` and put a trainable adapter on each linear layer of its encoder.

    The adapted model initially equals the model. The numbers of `down` have variance 1 / in, three times that of peft's
    own initialisation; the learning rates of the trainings are tuned for it.
    """
    from peft import LoraConfig, inject_adapter_in_model

    model.requires_grad_(False)
    weights = [f"{path}.weight" for path in _LINEAR]
    inject_adapter_in_model(
        # lora_alpha / r is the factor of up·down.
        LoraConfig(r=rank, lora_alpha=rank, target_modules=[], target_parameters=weights),
        model,
        adapter_name=_NAME,
    )
    for name, parameter in adapter_parameters(model).items():
        if name.endswith(".down"):
            nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)


def adapter_parameters(model: Any) -> dict[str, nn.Parameter]:
    """The trained part of a model that `attach` has prepared, by its name in an adapter's file."""
    tensors: dict[str, nn.Parameter] = {}
    for number, layer in enumerate(model.encoder.layer):
        for path in _LINEAR:
            adapted = layer.get_submodule(path)
            tensors[f"lora.{number}.{path}.up"] = adapted.lora_B[_NAME].weight
            tensors[f"lora.{number}.{path}.down"] = adapted.lora_A[_NAME].weight
    return tensors


ROW_PIECES_MAX = 128
CLS, SEP, MASK = 101, 102, 103
SPECIAL_MAX = 999  # ids up to this one are [PAD], [UNK], [CLS], [SEP], [MASK] and unused ones
_LENGTHS = (64, ROW_PIECES_MAX)
_SHARE = 0.25
_SHOWN, _OTHER = 0.10, 0.05  # of the pieces to predict: unchanged, replaced by any piece
_ENCODE_AT_ONCE = 2_000

IntArray = npt.NDArray[np.int64]
Stream = npt.NDArray[np.uint16]


def encoded(tokenizer: Tokenizer, texts: Iterator[str]) -> Iterator[list[int]]:
    """Yield the pieces of each text."""
    rows: list[str] = []
    for text in texts:
        rows.append(text)
        if len(rows) == _ENCODE_AT_ONCE:
            yield from (item.ids for item in tokenizer.encode_batch_fast(rows, add_special_tokens=False))
            rows = []
    yield from (item.ids for item in tokenizer.encode_batch_fast(rows, add_special_tokens=False))


@dataclass(frozen=True)
class Masked:
    """`ids` `[rows, length]` with hidden pieces; `positions`: flat positions to predict; `truth`: the hidden pieces."""

    ids: torch.Tensor
    positions: torch.Tensor
    truth: torch.Tensor


def stream_of(tokenizer: Tokenizer, texts: Iterator[str]) -> Stream:
    """Concatenate the pieces of all texts, with the end of each text marked."""
    rows = [np.array([*row, SEP], dtype=np.uint16) for row in encoded(tokenizer, texts) if row]
    return np.concatenate([np.zeros(0, dtype=np.uint16), *rows])


def guessable(stream: Stream) -> int:
    """How many pieces can be predicted: all except end marks and pieces that the vocabulary lacks."""
    return int((stream > SPECIAL_MAX).sum())


class InfillBatches:
    """`batch(step)` depends on the seed and the step alone."""

    def __init__(self, streams: Sequence[tuple[float, Stream]], tokenizer: Tokenizer, seed: int) -> None:
        """`streams`: for each, its share of the rows and its pieces, which must be more than `ROW_PIECES_MAX`."""
        self._seed = seed
        self._weights = [weight for weight, _ in streams]
        self._streams = [stream for _, stream in streams]
        vocabulary = tokenizer.get_vocab_size()
        self._vocabulary = vocabulary
        self._continues = np.zeros(vocabulary, dtype=np.bool_)
        for piece, number in tokenizer.get_vocab().items():
            self._continues[number] = piece.startswith("##")

    def batch(self, step: int, pieces: int) -> Masked:
        """Return rows of one length, with `pieces` pieces in total, without padding."""
        rng = np.random.default_rng([self._seed, step])
        length = int(rng.choice(_LENGTHS))
        ids = np.empty((pieces // length, length), dtype=np.int64)
        for row in ids:
            stream = self._streams[rng.choice(len(self._weights), p=self._weights)]
            start = rng.integers(len(stream) - length)
            row[0], row[-1] = CLS, SEP
            row[1:-1] = stream[start : start + length - 2]
        return self._mask(ids, rng)

    def _mask(self, ids: IntArray, rng: np.random.Generator) -> Masked:
        # Half of the rows hide whole words, as the service does. The others hide single pieces.
        whole = rng.random((len(ids), 1)) < 0.5
        unit = np.where(whole, np.cumsum(~self._continues[ids], axis=1), np.arange(ids.shape[1]))
        guessed = np.take_along_axis(rng.random((len(ids), ids.shape[1] + 1)) < _SHARE, unit, axis=1)
        guessed &= ids > SPECIAL_MAX
        flat = ids.reshape(-1).copy()
        positions = np.flatnonzero(guessed)
        truth = flat[positions]
        draw = rng.random(len(positions))
        flat[positions[draw >= _SHOWN]] = MASK
        other = positions[(draw >= _SHOWN) & (draw < _SHOWN + _OTHER)]
        flat[other] = rng.integers(SPECIAL_MAX + 1, self._vocabulary, len(other))
        hidden = flat.reshape(ids.shape)
        return Masked(torch.from_numpy(hidden), torch.from_numpy(positions), torch.from_numpy(truth))


SEED = 20232
BATCH_PIECES = 2_048
RATE = 4e-4
_SAVED_STEPS = 20
_BATCHES_MIN = 8  # a batch holds at most this part of the corpus, so that the steps on a small one differ


def shipped_net(device: torch.device) -> tuple[AdapterInfo, InfillNet]:
    """Return the shipped adapter on the bundled encoder, ready for further training."""
    info, tensors = load_adapter(shipped("infill"), "infill", bundled_fingerprint())
    bert = backbone(attention="eager")
    attach(bert, info.rank)
    net = InfillNet(bert)
    with torch.no_grad():
        for name, parameter in trained(net).items():
            parameter.copy_(tensors[name])
    return info, net.to(device)


def trained(net: InfillNet) -> dict[str, torch.nn.Parameter]:
    """Return the trained parameters, by their names in an adapter's file."""
    return {**adapter_parameters(net.bert), **net.own_parameters()}


def masked_loss(net: InfillNet, batch: Masked) -> torch.Tensor:
    """Mean cross-entropy of the hidden pieces; 0 if there is none."""
    device = batch.ids.device
    with torch.autocast(device.type, torch.bfloat16, enabled=fastest_dtype(device) is torch.bfloat16):
        logits = net(batch.ids, torch.ones_like(batch.ids), batch.positions)
    return torch.nn.functional.cross_entropy(logits.float(), batch.truth, reduction="sum") / max(1, len(batch.truth))


def fine_tune(
    net: InfillNet,
    stream: Stream,
    tokenizer: Tokenizer,
    *,
    steps: int,
    checkpoint: Checkpoint,
    progress: Callable[[float], None],
) -> None:
    """Train `net` in place, or resume from the checkpoint, and set its weights to their running average.

    `stream`: more than `ROW_PIECES_MAX` pieces. A quarter of the pieces of each row must be predicted.
    """
    batches = InfillBatches([(1.0, stream)], tokenizer, SEED)
    pieces = int(np.clip(len(stream) // _BATCHES_MIN, ROW_PIECES_MAX, BATCH_PIECES))
    device = net.bias.device
    schedule = Schedule(steps=steps, rate=RATE, warmup=max(1, min(100, steps // 10)))
    training = Training(trained(net), schedule, checkpoint)

    def loss_of(step: int) -> torch.Tensor:
        progress(step / steps)
        batch = batches.batch(step, pieces)
        return masked_loss(net, Masked(batch.ids.to(device), batch.positions.to(device), batch.truth.to(device)))

    training.run(loss_of, lambda _: None, every_steps=_SAVED_STEPS)
    training.use_average()


@dataclass(frozen=True)
class FilledTexts:
    """The filled documents, and the numbers of skipped ones. `places`: masked regions that were filled. `refused`:
    documents in a language that the policy refuses."""

    texts: list[str]
    places: int = 0
    empty: int = 0
    crowded: int = 0
    refused: int = 0

    def __add__(self, other: FilledTexts) -> FilledTexts:
        return FilledTexts(
            self.texts + other.texts,
            self.places + other.places,
            self.empty + other.empty,
            self.crowded + other.crowded,
            self.refused + other.refused,
        )


class Obfuscator:
    """Masks and fills as `spec` says. Raises InvalidInput for an entity that no recogniser of this worker finds."""

    def __init__(self, spec: InfillSpec, *, device: torch.device) -> None:
        self._spec = spec
        self._lists = AllowLists(Path(spec.allow_lists_dir) if spec.allow_lists_dir else None)
        self._names = None if spec.tagger == TAGGER_OFF else NameFinder(spec.tagger, device=str(device))
        self._own = OwnFinder(loaded_max=spec.recognisers_loaded_max)
        if self._names:
            self._names.check()
        self._policy = spec.policy.completed(self._names.types if self._names else ())

    def filled(self, texts: Sequence[str], net: InfillNet) -> FilledTexts:
        """Raises RecogniserFailed, because a text that was not inspected is not used, and TaskFailed if a text is not
        filled."""
        present = [text for text in texts if text.strip()]
        inspected = self._inspected([text for text in present if language_of(text, self._policy) is not None])
        used = [each for each in inspected if len(each.masks) <= self._spec.places_max]
        model = _model(net)
        strategies = [top_1() if self._spec.fill == TOP_1 else self._top_k(each, model.considered) for each in used]
        return FilledTexts(
            [_text(document) for document in fill_left_to_right(used, strategies, model)],
            places=sum(len(each.masks) for each in used),
            empty=len(texts) - len(present),
            crowded=len(inspected) - len(used),
            refused=len(present) - len(inspected),
        )

    def _top_k(self, found: Inspected, considered: int) -> Ranked:
        return top_k(found.masks, self._policy, self._lists, count=self._spec.k, considered=considered)

    def _inspected(self, texts: Sequence[str]) -> list[Inspected]:
        tasks = [SanitizeTask(text, self._policy) for text in texts]
        return [
            inspect(task.text, self._policy, self._lists, joined(task, finds))
            for task, finds in zip(tasks, recognise(tasks, self._names, self._own), strict=True)
        ]


def _text(document: Sanitised | GatewayError) -> str:
    if isinstance(document, GatewayError):
        raise document
    return document.text


def _model(net: InfillNet) -> MaskedInfill:
    """Return the network in its current state, ready to fill."""
    device = net.bias.device

    def forward(ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device.type, torch.bfloat16, enabled=fastest_dtype(device) is torch.bfloat16):
            logits: torch.Tensor = net(ids, mask, positions)
        return logits

    return MaskedInfill(MaskedLM(vocabulary=embedded_vocabulary(), forward=forward, device=device, name="embedded"))
