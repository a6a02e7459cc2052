"""A low-rank adapter on an operator's language model, by peft (Hu et al. 2021): trained by a job, used by a worker.

The network has one slot, an adapter on each linear layer except the output. An empty slot changes nothing. The file of
an adapter is `gpu_workers.models.embedded`'s, with the network's tensors by peft's names.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from core.text.model_fills import Blank, FloatArray, InfillModel
from gpu_workers.models.embedded import load_adapter
from gpu_workers.models.encoder import weights_fingerprint

RANK = 8
_SLOT = "default"  # peft's name of the only adapter


class Adaptable(InfillModel, Protocol):
    """An infill model that runs on a transformers network."""

    net: Any


@cache
def base_fingerprint(path: Path) -> str:
    """SHA-256 of a model's folder, as `weights_fingerprint`, or of its only file."""
    if path.is_dir():
        return weights_fingerprint(path)
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def slot(net: Any) -> dict[str, nn.Parameter]:
    """The parameters of the network's slot, float32, by their names in a file. The first call freezes the network and
    adds an empty slot."""
    if not _parameters(net):
        from peft import LoraConfig, inject_adapter_in_model

        net.requires_grad_(False)
        inject_adapter_in_model(LoraConfig(r=RANK, lora_alpha=RANK, target_modules="all-linear"), net, _SLOT)
        for parameter in _parameters(net).values():
            parameter.data = parameter.data.float()
    return _parameters(net)


def _parameters(net: Any) -> dict[str, nn.Parameter]:
    mark = f".{_SLOT}."
    return {name.replace(mark, "."): own for name, own in net.named_parameters() if ".lora_" in name and mark in name}


class TunedInfill:
    """`base` with an adapter, which its network holds only during a call, also if that fails: nobody else's fill is by
    it. Not for two threads at the same time.

    Raises: ValueError for a file that is no adapter of a base with this fingerprint.
    """

    def __init__(self, base: Adaptable, fingerprint: str, file: Path) -> None:
        _, self._tensors = load_adapter(file, "infill", fingerprint)
        self._base, self._slot = base, slot(base.net)
        self.name, self.candidates, self.considered = base.name, base.candidates, base.considered
        if {name: own.shape for name, own in self._slot.items()} != {n: t.shape for n, t in self._tensors.items()}:
            raise ValueError("the adapter has other tensors than the model")

    def ranked(self, blanks: Sequence[Blank], *, count: int) -> list[list[str]]:
        with self._held():
            return self._base.ranked(blanks, count=count)

    def logits(self, blanks: Sequence[Blank]) -> FloatArray:
        with self._held():
            return self._base.logits(blanks)

    @contextmanager
    def _held(self) -> Iterator[None]:
        try:
            with torch.no_grad():
                for name, own in self._slot.items():
                    own.copy_(self._tensors[name])
            yield
        finally:
            with torch.no_grad():
                for own in self._slot.values():
                    own.zero_()
