"""Domain packs of the data directory in a worker."""

from __future__ import annotations

from pathlib import Path

import torch

from core.files.disk import FileVersion
from core.mechanisms.sentences.domain_pack import DomainPack, InvalidPack
from core.mechanisms.sentences.registry import SENTENCE_MECHANISMS, sentence_mechanism
from core.mechanisms.sentences.release import SentenceMechanism
from gpu_workers.engine.handler import UnfitDevice
from gpu_workers.handlers.file_cache import FileCache


class PackCache:
    """Holds at most `packs_max` packs with all their mechanisms, in a `FileCache`."""

    def __init__(self, device: torch.device, *, packs_max: int) -> None:
        self._device = device
        self._loaded = FileCache(self._load, loaded_max=packs_max)

    def mechanism(self, file: FileVersion, name: str, encoder_fingerprint: str | None) -> SentenceMechanism:
        """Return the mechanism over that pack. With `encoder_fingerprint`, the pack must be made for that encoder.

        Raises: InvalidPack; UnfitDevice if this device does not compute the pack's scores exactly.
        """
        made_for, mechanisms = self._loaded.get(file)
        if encoder_fingerprint is not None and encoder_fingerprint != made_for:
            raise InvalidPack("the pack was made for another encoder")
        return mechanisms[name]

    def _load(self, file: FileVersion) -> tuple[str, dict[str, SentenceMechanism]]:
        pack = DomainPack.load(Path(file.path))
        mechanisms = {name: sentence_mechanism(name, pack, self._device) for name in SENTENCE_MECHANISMS}
        if not all(mechanism.self_check() for mechanism in mechanisms.values()):
            raise UnfitDevice("this device does not compute scores exactly")
        return pack.info.encoder_fingerprint, mechanisms
