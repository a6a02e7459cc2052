"""Choose the type of the encoder's numbers by measuring it on the device.

That a processor has instructions for bfloat16 does not say that they are faster. On an Intel Xeon, bfloat16 encoded
twice as many sentences a second as float32 with AMX, and .6 times as many without it.
"""

from __future__ import annotations

import time
from functools import cache

import torch

from core.mechanisms.torch_threads import at_most
from gpu_workers.models.measured import Measured
from gpu_workers.models.measured_folder import MeasuredFolder
from gpu_workers.models.packed_bert import Group, PackedBert

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
