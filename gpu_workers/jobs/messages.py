"""What the gateway and a job's process say to each other, over a socket that only these two hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from core.errors import JobFailed
from core.files.encrypted_file import read_encrypted
from core.finetune.hyperparameters import Hyperparameters
from core.text.policy import MaskPolicy
from gpu_workers.handlers.options import TAGGER_OFF

if TYPE_CHECKING:  # with scipy, which the other jobs and the front end do without
    from core.finetune.pricing import TrainingBudget
    from core.synthesis.pricing import RecordBudget

INPUT = "input"  # the file that holds what was sent
# How a job shares the cores with requests: see `gpu_workers/jobs/process.py`.
Priority = Literal["idle", "low", "normal"]
# Returns once the job's cost is spent in the ledger; noise is drawn after it, never before.
Charge = Callable[[], None]


class ReportProgress(Protocol):
    """Stage (a fixed label), fraction of the whole job in [0, 1], and numbers that are public or released, by the
    names of `core.ledger.jobs.METRICS`; those told before stay unless told anew."""

    def __call__(self, stage: str, fraction: float, metrics: Mapping[str, float] | None = None, /) -> None: ...


@dataclass(frozen=True)
class JobOrder:
    """One job. `folder` holds its encrypted files under `key`; `spec` is what the kind of job takes."""

    kind: str
    folder: Path
    key: bytes = field(repr=False)
    spec: Any
    priority: Priority = "idle"

    def received(self) -> Iterator[bytes]:
        """What was sent, in chunks. Raises JobFilesLost."""
        return read_encrypted(self.folder / INPUT, self.key, INPUT)


@dataclass(frozen=True)
class Progress:
    stage: str
    fraction: float
    metrics: Mapping[str, float] | None = None


@dataclass(frozen=True)
class ChargeAsked:
    """The job is about to draw noise, and draws none before it is answered `Charged`."""


@dataclass(frozen=True)
class Charged:
    """The gateway's answer: the ledger has spent the job's hold, now or in an earlier attempt."""


@dataclass(frozen=True)
class Succeeded:
    """`result` holds counts, names and fixed words, never text."""

    result: dict[str, Any]


@dataclass(frozen=True)
class Failed:
    problem: JobFailed


@dataclass(frozen=True)
class DomainSpec:
    """What a domain job takes besides its corpus. `targets` are files that the pack is written to, in this order.

    `device`, `threads` and `encoder_path` are the operator's, as a worker has them.
    """

    name: str
    source: str
    licence: str
    targets: tuple[str, ...]
    device: str = "cpu"
    threads: int = 0
    encoder_path: str | None = None
    documents_max: int = 10_000
    document_chars_max: int = 1_000_000
    seed: int = 20221


@dataclass(frozen=True)
class InfillSpec:
    """What an infill job takes besides its corpus. `targets`: as a domain's.

    `fill` and `k`: how masked places are filled before each of the `rounds`, of `steps` steps each. `places_max`:
    masked places of a document that is used.
    """

    name: str
    targets: tuple[str, ...]
    policy: MaskPolicy
    fill: str
    k: int
    rounds: int
    steps: int
    device: str = "cpu"
    threads: int = 0
    tagger: str = TAGGER_OFF
    allow_lists_dir: str | None = None
    documents_max: int = 5_000
    document_chars_max: int = 1_000_000
    places_max: int = 2_048


@dataclass(frozen=True)
class SynthesisSpec:
    """What a synthesis job takes besides its rows. `targets`: as a domain's; `report`: where the page is written.

    `declared`: the schema as the caller wrote it. `outside`: a value of `core.synthesis.encoding.Outside`. `budget`
    is what the ledger holds for the job. `design`, `frequencies` and `steps` of the training are for `pearl`,
    `bins` for `marginals`.
    """

    name: str
    targets: tuple[str, ...]
    report: str
    declared: dict[str, Any]
    method: Literal["pearl", "marginals"]
    budget: RecordBudget
    rows_are_public: bool
    outside: str
    design: str
    frequencies: int
    bins: int
    steps: int
    rows_max: int
    device: str = "cpu"
    threads: int = 0


@dataclass(frozen=True)
class FinetuneSpec:
    """What a fine-tuning job takes besides its rows. `targets`: as a domain's.

    `model` is the encoder's name among the operator's, `model_path` its folder, None for the bundled one. `budget`:
    the plan that will be run, and what the ledger holds for it.
    """

    name: str
    targets: tuple[str, ...]
    labels: tuple[str, ...]
    pairs: bool
    method: str
    model: str
    model_path: str | None
    budget: TrainingBudget
    hyperparameters: Hyperparameters
    public_rows_max: int
    text_chars_max: int
    device: str = "cpu"
    threads: int = 0
