"""Finders of personal data that read the same texts: the gateway, and its peers in an environment of their own."""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from benchmarks.kit import ROOT
from core.text.mask_words import AllowLists
from core.text.policy import MaskPolicy, SanitizeTask
from core.text.sanitize import inspect
from gpu_workers.handlers.entity_tagger import NameFinder
from gpu_workers.handlers.own_finder import OwnFinder
from gpu_workers.handlers.recognition import joined, recognise
from gpu_workers.models.sources import TAGGER_BUNDLED

PEERS = {"presidio": "Presidio", "rampart": "Rampart"}


class Find(NamedTuple):
    start: int
    end: int
    type: str
    score: float = 1.0


@cache
def _tagger() -> NameFinder:
    return NameFinder(TAGGER_BUNDLED, device="cpu")


def ours(texts: Sequence[str], entities: tuple[str, ...] = ()) -> Iterator[list[Find]]:
    """Yield what `/sanitize` masks of each text with the shipped tagger. No entities: the default ones.

    Raises ValueError for a text with invisible characters, whose masks have other positions.
    """
    lists, policy = AllowLists(), MaskPolicy(entities=entities).completed(tuple(_tagger().types))
    tasks = [SanitizeTask(text, policy) for text in texts]
    for text, task, finds in zip(texts, tasks, recognise(tasks, _tagger(), OwnFinder(loaded_max=1)), strict=True):
        found = inspect(text, policy, lists, joined(task, finds))
        if found.text != text:
            raise ValueError("positions would differ: the text holds invisible characters")
        yield [Find(mask.start, mask.end, mask.type) for mask in found.masks]


def installed(command: str) -> str:
    """Return the path of a command of the peers' environment. Raises SystemExit without it."""
    path = ROOT / ".venv-finders" / "bin" / command
    if not path.exists():
        raise SystemExit("The peers are not installed: benchmarks/sanitising/install_peers")
    return str(path)


def theirs(name: str, texts: Sequence[str]) -> list[list[Find]]:
    """Return what a peer finds in each text. `name`: a function of `peers.py`. Raises SystemExit without the peers."""
    command = [installed("python"), str(ROOT / "benchmarks/sanitising/peers.py"), name]
    answer = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=True).stdout
    return [[Find(*find) for find in found] for found in json.loads(answer)]


def finds_of(
    texts: Sequence[str], policies: Mapping[str, tuple[str, ...]], *, peers: bool
) -> dict[str, list[list[Find]]]:
    """Return the finds in each text by the name of the finder: the gateway's policies (with their entities), peers."""
    found = {name: list(ours(texts, entities)) for name, entities in policies.items()}
    return found | {shown: theirs(name, texts) for name, shown in PEERS.items() if peers}
