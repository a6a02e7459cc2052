"""Fine-tune a language model that fills on a tenant's texts: the bundled one, or an operator's masked or causal one.

A masked model (`MaskedLearner`) reads full rows of running text with hidden pieces. A causal one (`CausalLearner`)
reads the prompts of its fills, with hidden words, and the text as the answer. peft trains a low-rank adapter, whose
tensors are named as an adapter's file names them. That of the bundled encoder targets the weight of each linear layer
(peft's `target_parameters`), so that peft forms W + up·down before the product with the tokens. For a model this small,
this costs less than the two thin products beside every layer that peft computes for target modules
(docs/adr/0034-tagger-and-adapters.md). The bundled model's head is trained, too.

`Obfuscator` masks and fills documents, as `POST /sanitize` does, with a model that may still be in training.
Guarantee: none, as for the fills `top1` and `topk` (`core.text.fill_top_k`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer
from torch import nn

from core.errors import GatewayError
from core.text.fill_top_k import top_1, top_k
from core.text.languages import language_of
from core.text.mask_words import AllowLists
from core.text.model_fills import InfillModel, Ranked, fill_left_to_right
from core.text.policy import TOP_1, Sanitised, SanitizeTask
from core.text.sanitize import Inspected, inspect
from gpu_workers.handlers.entity_tagger import NameFinder
from gpu_workers.handlers.own_finder import OwnFinder
from gpu_workers.handlers.recognition import joined, recognise
from gpu_workers.infill.spec import InfillSpec
from gpu_workers.models.embedded import AdapterInfo, InfillNet, backbone, embedded_vocabulary, load_adapter, shipped
from gpu_workers.models.encoder import bundled_fingerprint
from gpu_workers.models.encoder_model import fastest_dtype
from gpu_workers.models.infill import Forward, MaskedInfill, MaskedLM
from gpu_workers.models.infill_sources import MASK, CausalInfill, PretrainedInfill, model_path, pretrained
from gpu_workers.models.lora import RANK, base_fingerprint, slot
from gpu_workers.models.pieces import continuations, padded
from gpu_workers.models.sources import INFILL_BUNDLED, TAGGER_OFF
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
_LENGTHS = (64, ROW_PIECES_MAX)
_SHARE = 0.25
_SHOWN, _OTHER = 0.10, 0.05  # of the pieces to predict: unchanged, replaced by any piece
_ENCODE_AT_ONCE = 2_000

IntArray = npt.NDArray[np.int64]
Stream = npt.NDArray[np.int32]


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


@dataclass(frozen=True)
class Specials:
    """The pieces that frame a row, the one that hides others, and for each piece whether it stands for text."""

    start: int
    end: int
    mask: int
    ordinary: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Specials:
        """Raises: ValueError for a vocabulary without exactly one piece that hides others."""
        added = {number: token for number, token in tokenizer.get_added_tokens_decoder().items() if token.special}
        masks = [number for number, token in added.items() if "mask" in token.content.lower()]
        frame = tokenizer.encode("").ids
        if len(masks) != 1 or len(frame) != 2:
            raise ValueError("the vocabulary has no pieces that hide a word or frame a text")
        ordinary = np.ones(tokenizer.get_vocab_size(), dtype=np.bool_)
        ordinary[list(added)] = False
        return cls(frame[0], frame[1], masks[0], ordinary)


def stream_of(tokenizer: Tokenizer, texts: Iterator[str]) -> Stream:
    """Concatenate the pieces of all texts, with the end of each text marked."""
    end = Specials.of(tokenizer).end
    rows = [np.array([*row, end], dtype=np.int32) for row in encoded(tokenizer, texts) if row]
    return np.concatenate([np.zeros(0, dtype=np.int32), *rows])


def guessable(stream: Stream, tokenizer: Tokenizer) -> int:
    """How many pieces can be predicted: all except end marks and pieces that the vocabulary lacks."""
    return int(Specials.of(tokenizer).ordinary[stream].sum())


class InfillBatches:
    """`batch(step)` depends on the seed and the step alone."""

    def __init__(
        self,
        streams: Sequence[tuple[float, Stream]],
        tokenizer: Tokenizer,
        seed: int,
        length_max: int = ROW_PIECES_MAX,
    ) -> None:
        """`streams`: for each, its share of the rows and its pieces, which must be more than `ROW_PIECES_MAX`."""
        self._seed = seed
        self._weights = [weight for weight, _ in streams]
        self._streams = [stream for _, stream in streams]
        self._lengths = [min(length, length_max) for length in _LENGTHS]
        self._specials = Specials.of(tokenizer)
        self._continues = np.zeros_like(self._specials.ordinary)
        self._continues[list(continuations(tokenizer, str.isalnum))] = True

    def batch(self, step: int, pieces: int) -> Masked:
        """Return rows of one length, with `pieces` pieces in total, without padding."""
        rng = np.random.default_rng([self._seed, step])
        length = int(rng.choice(self._lengths))
        ids = np.empty((pieces // length, length), dtype=np.int64)
        for row in ids:
            stream = self._streams[rng.choice(len(self._weights), p=self._weights)]
            start = rng.integers(len(stream) - length)
            row[0], row[-1] = self._specials.start, self._specials.end
            row[1:-1] = stream[start : start + length - 2]
        return self._mask(ids, rng)

    def _mask(self, ids: IntArray, rng: np.random.Generator) -> Masked:
        # Half of the rows hide whole words, as the service does. The others hide single pieces.
        whole = rng.random((len(ids), 1)) < 0.5
        unit = np.where(whole, np.cumsum(~self._continues[ids], axis=1), np.arange(ids.shape[1]))
        guessed = np.take_along_axis(rng.random((len(ids), ids.shape[1] + 1)) < _SHARE, unit, axis=1)
        guessed &= self._specials.ordinary[ids]
        flat = ids.reshape(-1).copy()
        positions = np.flatnonzero(guessed)
        truth = flat[positions]
        draw = rng.random(len(positions))
        flat[positions[draw >= _SHOWN]] = self._specials.mask
        other = positions[(draw >= _SHOWN) & (draw < _SHOWN + _OTHER)]
        flat[other] = rng.choice(np.flatnonzero(self._specials.ordinary), len(other))
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


def trained(net: InfillNet | PretrainedInfill) -> dict[str, torch.nn.Parameter]:
    """Return the trained parameters, by their names in an adapter's file."""
    if isinstance(net, InfillNet):
        return {**adapter_parameters(net.bert), **net.own_parameters()}
    return slot(net.net)


def masked_loss(net: Forward, batch: Masked) -> torch.Tensor:
    """Mean cross-entropy of the hidden pieces; 0 if there is none."""
    logits = _autocast(net)(batch.ids, torch.ones_like(batch.ids), batch.positions)
    return torch.nn.functional.cross_entropy(logits.float(), batch.truth, reduction="sum") / max(1, len(batch.truth))


def _autocast(net: Forward) -> Forward:
    """The network in the fastest type of the device that its input is on."""

    def forward(ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        device = ids.device
        with torch.autocast(device.type, torch.bfloat16, enabled=fastest_dtype(device) is torch.bfloat16):
            return net(ids, mask, positions)

    return forward


def fine_tune(
    net: InfillNet | PretrainedInfill,
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
    window = ROW_PIECES_MAX if isinstance(net, InfillNet) else net.vocabulary.window + 2
    batches = InfillBatches([(1.0, stream)], tokenizer, SEED, window)
    pieces = int(np.clip(len(stream) // _BATCHES_MIN, ROW_PIECES_MAX, BATCH_PIECES))
    forward: Forward = net if isinstance(net, InfillNet) else net.forward
    parameters = trained(net)
    device = next(iter(parameters.values())).device

    def loss_of(step: int) -> torch.Tensor:
        batch = batches.batch(step, pieces)
        return masked_loss(forward, Masked(batch.ids.to(device), batch.positions.to(device), batch.truth.to(device)))

    _train(parameters, loss_of, steps, checkpoint, progress)


def _train(
    parameters: dict[str, torch.nn.Parameter],
    loss: Callable[[int], torch.Tensor],
    steps: int,
    checkpoint: Checkpoint,
    progress: Callable[[float], None],
) -> None:
    schedule = Schedule(steps=steps, rate=RATE, warmup=max(1, min(100, steps // 10)))
    training = Training(parameters, schedule, checkpoint)

    def loss_of(step: int) -> torch.Tensor:
        progress(step / steps)
        return loss(step)

    training.run(loss_of, lambda _: None, every_steps=_SAVED_STEPS)
    training.use_average()


class FineTunable(Protocol):
    """A language model that is trained. `model` fills with it in its present state. `info` describes its file."""

    info: AdapterInfo

    @property
    def model(self) -> InfillModel: ...

    def parameters(self) -> dict[str, torch.nn.Parameter]:
        """The trained ones, by their names in an adapter's file."""
        ...

    def pieces(self, texts: Sequence[str]) -> int:
        """How many pieces can be predicted."""
        ...

    def fine_tune(
        self, texts: Sequence[str], *, steps: int, checkpoint: Checkpoint, progress: Callable[[float], None]
    ) -> None:
        """Train on the texts, or resume from the checkpoint. Needs about a thousand pieces."""
        ...


class MaskedLearner:
    def __init__(self, net: InfillNet | PretrainedInfill, info: AdapterInfo) -> None:
        self.info = info
        self._net = net
        if isinstance(net, InfillNet):
            vocabulary = embedded_vocabulary()
            self.model = MaskedInfill(
                MaskedLM(vocabulary=vocabulary, forward=_autocast(net), device=net.bias.device, name="embedded")
            )
        else:
            vocabulary, self.model = net.vocabulary, net
        self._tokenizer = vocabulary.tokenizer

    def parameters(self) -> dict[str, torch.nn.Parameter]:
        return trained(self._net)

    def pieces(self, texts: Sequence[str]) -> int:
        return guessable(stream_of(self._tokenizer, iter(texts)), self._tokenizer)

    def fine_tune(self, texts: Sequence[str], **how: Any) -> None:
        fine_tune(self._net, stream_of(self._tokenizer, iter(texts)), self._tokenizer, **how)


PROMPTS = 8  # in a step
_WORD = re.compile(r"\w+")


class CausalLearner:
    """The prompts are those of `CausalInfill`, with a quarter of the words of a text hidden. The answer is the text, in
    parts of half as many pieces as the model reads around a blank."""

    def __init__(self, model: CausalInfill, info: AdapterInfo) -> None:
        self.info, self.model = info, model
        self._slot = slot(model.net)

    def parameters(self) -> dict[str, torch.nn.Parameter]:
        return self._slot

    def pieces(self, texts: Sequence[str]) -> int:
        return sum(map(len, encoded(self.model.tokenizer, iter(texts))))

    def fine_tune(self, texts: Sequence[str], **how: Any) -> None:
        parts = [part for text in texts for part in self._parts(text)]

        def loss(step: int) -> torch.Tensor:
            rng = np.random.default_rng([SEED, step])
            rows = [self._row(parts[number], rng) for number in rng.integers(len(parts), size=PROMPTS)]
            device = self._slot[next(iter(self._slot))].device
            ids = padded([np.array(prompt + answer) for prompt, answer in rows], 0, device)
            mask = padded([np.ones(len(prompt + answer), dtype=np.int64) for prompt, answer in rows], 0, device)
            labels = padded([np.array([-100] * len(prompt) + answer) for prompt, answer in rows], -100, device)
            answered: torch.Tensor = self.model.net(input_ids=ids, attention_mask=mask, labels=labels).loss
            return answered

        _train(self._slot, loss, **how)

    def _parts(self, text: str) -> Iterator[str]:
        offsets = self.model.tokenizer.encode(text, add_special_tokens=False).offsets
        length = self.model.window // 2
        for part in (offsets[first : first + length] for first in range(0, len(offsets), length)):
            yield text[part[0][0] : part[-1][1]]

    def _row(self, text: str, rng: np.random.Generator) -> tuple[list[int], list[int]]:
        """A prompt, and its answer."""
        hidden = _WORD.sub(lambda word: MASK if rng.random() < _SHARE else word[0], text)
        asked, answer = self.model.tokenizer.encode_batch([hidden, text], add_special_tokens=False)
        return self.model.prompt(asked.ids), answer.ids


def learner(source: str, device: torch.device) -> FineTunable:
    """The language model that `source` names, as it is, ready to be trained: not an endpoint and not off.

    Raises: ValueError for a folder whose model does not fill or cannot be trained.
    """
    if source == INFILL_BUNDLED:
        info, net = shipped_net(device)
        return MaskedLearner(net, replace(info, source="the shipped adapter, fine-tuned on a tenant's documents"))
    path = model_path(source)
    model = pretrained(path, device=device)
    info = AdapterInfo("infill", base_fingerprint(path), RANK, 0, "an operator's model", "that of the operator's model")
    return CausalLearner(model, info) if isinstance(model, CausalInfill) else MaskedLearner(model, info)


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

    def filled(self, texts: Sequence[str], model: InfillModel) -> FilledTexts:
        """Raises RecogniserFailed, because a text that was not inspected is not used, and TaskFailed if a text is not
        filled."""
        present = [text for text in texts if text.strip()]
        inspected = self._inspected([text for text in present if language_of(text, self._policy) is not None])
        used = [each for each in inspected if len(each.masks) <= self._spec.places_max]
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
