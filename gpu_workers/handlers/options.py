"""What a worker is given: its options, and the files of the data directory that its tasks name.

The files are domain packs, fine-tuned models and recognisers of tenants.

Guarantee of `absent`: the engine refuses a task without its files before it hands the task to a worker, so that the
task is not charged.

Guarantee of `FileCache`: what is loaded, on first use, is the version of the file that the gateway names by its digest,
or the task fails. Each tenant's files are in a folder of their own. The least recently used file of the folder with
most loaded files is evicted: a tenant that uses many files evicts its own, and the only file of another tenant stays.

`load_pack` loads an installed pack. The front end and the workers accept the same files.
"""

import os
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from core.errors import TaskFailed
from core.files.disk import FileVersion, file_digest, file_version
from core.mechanisms.sentences.domain_pack import NAME, DomainPack, InvalidPack
from core.mechanisms.sentences.routes import AUTO
from core.text.policy import MaskPolicy
from gpu_workers.models.sources import AUTO_PRECISION, INFILL_BUNDLED, TAGGER_BUNDLED, InfillSource


@dataclass(frozen=True)
class WorkerOptions:
    """What a worker needs to load. Paths and names come from the operator's settings, never from a request."""

    device: str = "cpu"
    threads: int = 0
    encoder_path: str | None = None
    encoder_precision: str = AUTO_PRECISION
    domain_packs_dir: str | None = None
    finetune_models: tuple[tuple[str, str], ...] = ()  # the operator's encoders of classifiers, by name
    measured_dir: str | None = None  # of `gpu_workers.models.device`
    allow_lists_dir: str | None = None
    tagger: str = TAGGER_BUNDLED
    infill: InfillSource = INFILL_BUNDLED
    fill_slots_max: int = 2048
    places_per_document_max: int = 100_000
    packs_loaded_max: int = 8
    infill_models_loaded_max: int = 4
    recognisers_loaded_max: int = 16


def absent(payloads: Sequence[Any]) -> list[int]:
    """Return the places of the payloads whose files are missing on this machine, or cannot be read.

    Reads no file: the local engine calls it on its event loop, and its gateway has just verified the files.
    """
    return [place for place, payload in enumerate(payloads) if not all(map(_exists, files_of(payload)))]


def files_of(payload: Any) -> Iterator[FileVersion]:
    """The files that a payload refers to."""
    for name in ("pack", "model"):
        if isinstance(found := getattr(payload, name, None), FileVersion):
            yield found
    if isinstance(policy := getattr(payload, "policy", None), MaskPolicy):
        yield from (own.file for own in policy.own)


def _exists(file: FileVersion) -> bool:
    return os.access(file.path, os.R_OK)  # unlike `Path.is_file`, it raises nothing for a folder that is closed


Loaded = TypeVar("Loaded")


class FileCache(Generic[Loaded]):
    """Holds at most `loaded_max` files, converted by `load`. A changed file has another version and is loaded again."""

    def __init__(self, load: Callable[[FileVersion], Loaded], *, loaded_max: int) -> None:
        self._load = load
        self._loaded_max = loaded_max
        self._loaded: OrderedDict[FileVersion, Loaded] = OrderedDict()

    def get(self, file: FileVersion) -> Loaded:
        """Raises what `load` raises, and TaskFailed for a file of another version."""
        if file not in self._loaded:
            self._loaded[file] = self._checked(file)
        self._loaded.move_to_end(file)
        while len(self._loaded) > self._loaded_max:
            self._evict()
        return self._loaded[file]

    def _checked(self, file: FileVersion) -> Loaded:
        """Load a file. It may have been replaced since the request was priced."""
        path = Path(file.path)
        before = file_version(path)
        loaded = self._load(file)
        if file.digest is not None and (file_digest(path) != file.digest or file_version(path) != before):
            raise TaskFailed(reason="file-changed")
        return loaded

    def _evict(self) -> None:
        loaded = Counter(_folder(file) for file in self._loaded)
        most = max(loaded.values())
        del self._loaded[next(file for file in self._loaded if loaded[_folder(file)] == most)]


def _folder(file: FileVersion) -> Path:
    return Path(file.path).parent


def load_pack(name: str, path: Path, *, encoder_fingerprint: str | None = None) -> DomainPack:
    """Load and check the installed pack `name`. Raises: InvalidPack as `DomainPack.load`, and for a name that no
    request can have."""
    if name == AUTO or not NAME.fullmatch(name):
        raise InvalidPack("no domain can have this name")
    return DomainPack.load(path, encoder_fingerprint=encoder_fingerprint)
