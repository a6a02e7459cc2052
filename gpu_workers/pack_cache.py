"""Domain packs of the data directory in a worker: loaded at their first use, the least recently used go."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import torch

from core.mechanisms.domain_pack import DomainPack
from core.mechanisms.pack_facts import InvalidPack
from core.mechanisms.pricing import SENTENCE_MECHANISMS
from core.mechanisms.release import SentenceMechanism
from core.mechanisms.sentence import sentence_mechanism
from gpu_workers.tasks import PackFile


class PackCache:
    """At most `packs_max` packs with all their mechanisms. A file that changes has another stamp and is read anew."""

    def __init__(self, device: torch.device, *, packs_max: int) -> None:
        self._device = device
        self._packs_max = packs_max
        self._loaded: OrderedDict[PackFile, tuple[str, dict[str, SentenceMechanism]]] = OrderedDict()

    def mechanism(self, file: PackFile, name: str, encoder_fingerprint: str | None) -> SentenceMechanism:
        """The mechanism over that pack. With `encoder_fingerprint` the pack must be of that encoder.

        Raises: InvalidPack; RuntimeError when this device does not compute the pack's scores exactly.
        """
        if file not in self._loaded:
            self._loaded[file] = self._load(file)
        self._loaded.move_to_end(file)
        while len(self._loaded) > self._packs_max:
            self._loaded.popitem(last=False)
        made_for, mechanisms = self._loaded[file]
        if encoder_fingerprint is not None and encoder_fingerprint != made_for:
            raise InvalidPack("the pack was made for another encoder")
        return mechanisms[name]

    def _load(self, file: PackFile) -> tuple[str, dict[str, SentenceMechanism]]:
        pack = DomainPack.load(Path(file.path))
        mechanisms = {name: sentence_mechanism(name, pack, self._device) for name in SENTENCE_MECHANISMS}
        if not all(mechanism.self_check() for mechanism in mechanisms.values()):
            raise RuntimeError("this device does not compute scores exactly")
        return pack.info.encoder_fingerprint, mechanisms
