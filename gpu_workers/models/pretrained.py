"""Load a transformers model from a local folder: safetensors only, no code from the model's repository, no network.

A GGUF file is loaded only where a package brings it (`gpu_workers.models.sources.smollm2_file`)."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from tokenizers import Tokenizer

GGUF = ".gguf"
_PIECES_MAX = 254  # the cost of attention grows with the window, and longer contexts hardly improve a word's type


@dataclass(frozen=True)
class Vocabulary:
    """A tokeniser and the ids that frame and pad a row. `window`: the pieces of a row without the special ones."""

    tokenizer: Tokenizer
    start: int
    end: int
    pad: int
    mask: int | None
    window: int


def plain(tokenizer: Tokenizer) -> Tokenizer:
    """Return the tokeniser without truncation and padding, which reads spelled special tokens as plain text."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer


def architectures(path: Path) -> list[str]:
    """Return the architectures that the folder's configuration names, such as `BertForMaskedLM`.

    Raises: ValueError for a folder without safetensors weights or without a configuration.
    """
    _check_weights(path)
    try:
        named = json.loads((path / "config.json").read_bytes())["architectures"]
        return [str(name) for name in named]
    except (OSError, ValueError, LookupError, TypeError):
        raise ValueError("the model's folder has no config.json that names its architecture") from None


def load_checkpoint(
    path: Path, auto_class: Any, *, device: torch.device, dtype: torch.dtype | Literal["auto"]
) -> tuple[Any, Any]:
    """Load model and tokeniser of a local checkpoint with `auto_class` (a transformers `AutoModelFor...`).

    `path`: a folder, or a GGUF file, whose weights are dequantised: packed ones compute slower in batches and cannot be
    trained.

    Raises: ValueError if the folder lacks safetensors weights or a fast tokeniser.
    """
    from transformers import AutoTokenizer, GgufConfig

    safe: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    form: dict[str, Any] = {"use_safetensors": True}
    if path.suffix == GGUF:
        safe, form = safe | {"gguf_file": path.name}, {"quantization_config": GgufConfig(dequantize=True)}
        path = path.parent
    else:
        _check_weights(path)
    model = auto_class.from_pretrained(path, dtype=dtype, **form, **safe).eval().to(device)
    tokenizer: Any = AutoTokenizer.from_pretrained(path, use_fast=True, **safe)
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError("the model has no fast tokeniser")
    return model, tokenizer


def load_pretrained(path: Path, auto_class: Any, *, device: torch.device) -> tuple[Any, Vocabulary]:
    """Load the model, in float32, and the vocabulary of a checkpoint that reads a framed text in both directions.

    Raises: ValueError if `load_checkpoint` does, or if there are no tokens that frame a text.
    """
    model, tokenizer = load_checkpoint(path, auto_class, device=device, dtype=torch.float32)
    start, end, pad = tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id
    if start is None or end is None or pad is None:
        raise ValueError("the model's tokeniser has no tokens to frame or pad a text")
    # The positions of RoBERTa start after the padding index.
    positions = int(getattr(model.config, "max_position_embeddings", 512)) - int(pad) - 1
    window = min(positions - 2, _PIECES_MAX)
    if window < 1:
        raise ValueError("the model has too few positions")
    return model, Vocabulary(plain(tokenizer.backend_tokenizer), start, end, pad, tokenizer.mask_token_id, window)


def _check_weights(path: Path) -> None:
    if not path.is_dir() or not any(path.glob("*.safetensors")):
        raise ValueError("the model's folder has no safetensors weights")
