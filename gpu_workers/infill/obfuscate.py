"""Mask and fill documents, as `POST /sanitize` does, with a network that may still be in training.

Guarantee: none, as for the fills `top1` and `topk` (`core.text.fill_top_k`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

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
from gpu_workers.models.embedded import embedded_vocabulary
from gpu_workers.models.infill import MaskedLM
from gpu_workers.models.masked_infill import MaskedInfill
from gpu_workers.models.nets import InfillNet
from gpu_workers.models.precision import fastest_dtype
from gpu_workers.models.sources import TAGGER_OFF


@dataclass(frozen=True)
class Filled:
    """The filled documents, and the numbers of skipped ones. `places`: masked regions that were filled. `refused`:
    documents in a language that the policy refuses."""

    texts: list[str]
    places: int = 0
    empty: int = 0
    crowded: int = 0
    refused: int = 0

    def __add__(self, other: Filled) -> Filled:
        return Filled(
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

    def filled(self, texts: Sequence[str], net: InfillNet) -> Filled:
        """Raises RecogniserFailed, because a text that was not inspected is not used, and TaskFailed if a text is not
        filled."""
        present = [text for text in texts if text.strip()]
        inspected = self._inspected([text for text in present if language_of(text, self._policy) is not None])
        used = [each for each in inspected if len(each.masks) <= self._spec.places_max]
        model = _model(net)
        strategies = [top_1() if self._spec.fill == TOP_1 else self._top_k(each, model.considered) for each in used]
        return Filled(
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
