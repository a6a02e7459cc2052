"""The two embedded models: the bundled encoder with an adapter and a head, which labels word pieces or predicts masked
ones.

The file of an adapter is safetensors with a description in the metadata. No pickle. An adapter of a rank holds float16
tensors, a low-rank update that `merged` adds to the encoder's weights: a served model holds the sum W + up·down in
place of W, so an adapter costs nothing at serving time. One of rank 0 holds weights that replace the encoder's: its
matrices are 8-bit integers with one float32 scale a row (`NAME.scale`).

The networks serve training and inference. `gpu_workers.infill.fine_tuning.attach` prepares the inner encoder for
training, with peft. `load_embedded` builds a network on transformers. `packed_adapter` runs an adapter on a CPU without
it: importing transformers takes longer than all other steps of a worker's start together, and `PackedBert` reads the
weights only once for a batch. This module therefore imports peft and transformers in no start of a worker on a
processor (docs/adr/0034-tagger-and-adapters.md).
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import nn

from gpu_workers.models.encoder import bundled_fingerprint
from gpu_workers.models.encoder_model import bundled_path, bundled_weights, fastest_dtype
from gpu_workers.models.packed_bert import PackedBert
from gpu_workers.models.pieces import Case
from gpu_workers.models.pretrained import Vocabulary, plain
from gpu_workers.models.tensor_file import read_tensors, write_tensors

_FORMAT = "privacy-gateway/adapter/1"
_FORMAT_WHOLE = "privacy-gateway/adapter/2"
_SCALE = ".scale"
_INT8_MAX = 128
_ROWS_MIN = 64  # a smaller matrix stays in float16
SHIPPED = Path(__file__).parent.parent / "adapters"


def shipped(kind: str) -> Path:
    return SHIPPED / f"{kind}.safetensors"


@dataclass(frozen=True)
class AdapterInfo:
    """`kind`: tagger or infill. `rank`: 0 if whole weights replace the encoder's. `labels`: a tagger's labels, in the
    order of its logits. `steps`: the training steps.

    `documents`, `rounds`: only for a fine-tuned adapter, where `steps` counts the steps of one round.
    """

    kind: str
    encoder_fingerprint: str
    rank: int
    steps: int
    source: str
    licence: str
    labels: tuple[str, ...] = ()
    documents: int = 0
    rounds: int = 0


def save_adapter(path: Path, info: AdapterInfo, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write the file atomically."""
    arrays: dict[str, Any] = {}
    for name, tensor in tensors.items():
        whole = tensor.detach().float().cpu()
        if info.rank == 0 and whole.ndim == 2 and len(whole) >= _ROWS_MIN:
            scale = (whole.abs().amax(dim=1, keepdim=True) / 127).clamp_min(torch.finfo(torch.float32).tiny)
            arrays[name] = (whole / scale).round().to(torch.int8).numpy()
            arrays[name + _SCALE] = scale[:, 0].numpy()
        else:
            arrays[name] = whole.to(torch.float16).numpy()
    write_tensors(path, _FORMAT if info.rank else _FORMAT_WHOLE, asdict(info), arrays)


def load_adapter(path: Path, kind: str, encoder_fingerprint: str) -> tuple[AdapterInfo, dict[str, torch.Tensor]]:
    """Return the metadata and float32 tensors of an adapter of that kind, made for that encoder.

    Raises: ValueError for another format, kind or encoder, or for a number that is not finite.
    """
    file_format, facts, arrays = read_tensors(path)
    if file_format not in (_FORMAT, _FORMAT_WHOLE):
        raise ValueError("not an adapter file of a known format")
    info = AdapterInfo(**{**facts, "labels": tuple(facts["labels"])})
    if info.kind != kind:
        raise ValueError(f"the adapter is not a {kind} adapter")
    if info.encoder_fingerprint != encoder_fingerprint:
        raise ValueError("the adapter was made for another encoder")
    scales = {name: arrays.pop(name).astype(np.float32) for name in list(arrays) if name.endswith(_SCALE)}
    floats = [array for array in arrays.values() if array.dtype != np.int8] + [
        _INT8_MAX * scale for scale in scales.values()
    ]
    if not all(np.isfinite(array).all() for array in floats):
        raise ValueError("the adapter holds a number that is not finite")
    tensors = {name: torch.from_numpy(array).float() for name, array in arrays.items()}
    for name, scale in scales.items():
        tensors[name.removesuffix(_SCALE)].mul_(torch.from_numpy(scale)[:, None])
    return info, tensors


REPLACED = "bert."  # before the name of a weight of the encoder that an adapter replaces
_LAYERS = "encoder.layer."


def merged(weights: Mapping[str, torch.Tensor], tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The weights of a `BertModel`, by name, with the adapter `tensors` in every linear layer, in float32.

    `tensors`: as in an adapter's file, `lora.{layer}.up` `[out, rank]` and `lora.{layer}.down` `[rank, in]`, or
    `bert.{name}`, which replaces a weight.

    Raises: KeyError if the adapter lacks a linear layer of the encoder; RuntimeError if a shape does not fit.
    """
    whole = {name: tensors.get(REPLACED + name, tensor).float() for name, tensor in weights.items()}
    if any(whole[name].shape != tensor.shape for name, tensor in weights.items()):
        raise RuntimeError("a weight of the adapter has another shape than the encoder's")
    for name, tensor in weights.items():
        if REPLACED + name in tensors:
            continue
        if name.startswith(_LAYERS) and tensor.ndim == 2:
            layer = "lora." + name.removeprefix(_LAYERS).removesuffix(".weight")
            whole[name] = whole[name] + tensors[f"{layer}.up"].float() @ tensors[f"{layer}.down"].float()
    return whole


def backbone(dtype: torch.dtype = torch.float32, attention: str = "sdpa") -> Any:
    """Return a new transformers `BertModel` of the bundled encoder, without its pooling head."""
    from transformers import BertModel
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call]
    model: Any = BertModel.from_pretrained(
        bundled_path(),
        local_files_only=True,
        use_safetensors=True,
        add_pooling_layer=False,
        attn_implementation=attention,
        dtype=dtype,
    )
    return model.eval()


class TaggerNet(nn.Module):
    """Logits of the labels for every piece. The encoder's vocabulary is uncased; `case` is the case of each word."""

    def __init__(self, bert: Any, labels: int) -> None:
        super().__init__()
        width = int(bert.config.hidden_size)
        self.bert = bert
        self.case = nn.Embedding(len(Case), width)
        nn.init.zeros_(self.case.weight)
        self.head = nn.Linear(width, labels)

    def forward(self, ids: torch.Tensor, cases: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Map `ids`, `cases` int64 and `mask` `[rows, length]` to logits `[rows, length, labels]`."""
        embedded = self.bert.embeddings.word_embeddings(ids) + self.case(cases)
        states = self.bert(inputs_embeds=embedded, attention_mask=mask).last_hidden_state
        logits: torch.Tensor = self.head(states)
        return logits

    def own_parameters(self) -> dict[str, nn.Parameter]:
        """The parameters that are trained in addition to the encoder's adapter."""
        return {"case": self.case.get_parameter("weight"), **dict(self.head.named_parameters("head"))}


class InfillNet(nn.Module):
    """BERT's masked-language-model head on the encoder: a transform, then the word embeddings as output matrix."""

    def __init__(self, bert: Any) -> None:
        super().__init__()
        config = bert.config
        self.bert = bert
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Map `ids` int64 and `mask` `[rows, length]` to logits `[positions, vocabulary]`.

        `positions`: int64 indices into the flattened `[rows * length]`.
        """
        states = self.bert(input_ids=ids, attention_mask=mask).last_hidden_state
        chosen = states.reshape(-1, states.shape[-1])[positions]
        transformed = self.norm(nn.functional.gelu(self.dense(chosen)))
        return nn.functional.linear(transformed, self.bert.embeddings.word_embeddings.weight, self.bias)

    def own_parameters(self) -> dict[str, nn.Parameter]:
        """The parameters that are trained in addition to the encoder's adapter."""
        layers = (*self.dense.named_parameters("head.dense"), *self.norm.named_parameters("head.norm"))
        return {**dict(layers), "head.bias": self.bias}


@dataclass(frozen=True)
class AdapterWeights:
    """`bert`: the weights of the encoder with the adapter merged into them, by the names of a transformers `BertModel`.
    `config`: of that encoder. `tensors`: the adapter's other tensors. All are of one type."""

    info: AdapterInfo
    bert: Mapping[str, torch.Tensor]
    config: Mapping[str, Any]
    tensors: Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class PackedAdapter:
    """`bert` with the adapter merged into it. `tensors`: the adapter's other tensors, all of one type.

    `words`: the encoder's word embeddings `[vocabulary, d]`. `eps`: the epsilon of its layer norms.
    """

    info: AdapterInfo
    bert: PackedBert
    words: torch.Tensor
    tensors: Mapping[str, torch.Tensor]
    eps: float


def adapter_weights(kind: str, path: Path | None, dtype: torch.dtype) -> AdapterWeights:
    """Load the adapter of that kind at `path`, or the shipped one by default. Sums of weights are computed in float32.

    Raises: ValueError for a file that is not such an adapter.
    """
    info, tensors = load_adapter(path or shipped(kind), kind, bundled_fingerprint())
    weights, config = bundled_weights()
    whole = {name: tensor.to(dtype) for name, tensor in merged(weights, tensors).items()}
    extra = {name: tensor.to(dtype) for name, tensor in tensors.items() if not name.startswith(("lora.", REPLACED))}
    return AdapterWeights(info, whole, config, extra)


def packed_adapter(kind: str, path: Path | None, dtype: torch.dtype | None) -> PackedAdapter:
    """`adapter_weights` as a net. `dtype`: the processor's fastest by default."""
    own = adapter_weights(kind, path, dtype or fastest_dtype(torch.device("cpu")))
    words, eps = own.bert["embeddings.word_embeddings.weight"], float(own.config["layer_norm_eps"])
    return PackedAdapter(own.info, PackedBert(own.bert, own.config), words, own.tensors, eps)


_WINDOW = 126  # the adapters were trained on rows of this length

Net = TypeVar("Net", TaggerNet, InfillNet)


def embedded_vocabulary() -> Vocabulary:
    """Return the vocabulary of the bundled encoder."""
    tokenizer = plain(Tokenizer.from_file(str(bundled_path() / "tokenizer.json")))
    ids = tokenizer.get_vocab()
    return Vocabulary(tokenizer, ids["[CLS]"], ids["[SEP]"], ids["[PAD]"], ids["[MASK]"], _WINDOW)


def load_embedded(
    kind: str,
    make: Callable[[Any, AdapterInfo], Net],
    path: Path | None,
    *,
    device: torch.device,
    dtype: torch.dtype | None,
) -> tuple[AdapterInfo, Net]:
    """Load the adapter of that kind (the shipped one by default) on the bundled encoder, ready to serve.

    `make`: builds the network around the merged encoder. `dtype`: the device's fastest by default. Sums of weights are
    computed in float32.

    Raises: ValueError for a file that is not such an adapter.
    """
    file = path or shipped(kind)
    info, tensors = load_adapter(file, kind, bundled_fingerprint())
    bert = backbone()
    bert.load_state_dict(merged(bert.state_dict(), tensors))
    net = make(bert, info)
    with torch.no_grad():
        for name, parameter in net.own_parameters().items():
            parameter.copy_(tensors[name])
    return info, net.eval().requires_grad_(False).to(device, dtype or fastest_dtype(device))
