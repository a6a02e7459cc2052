"""The parameters of a synthesis job. The front end builds them, so this module does not import torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:  # imports scipy, which the front end does not load
    from core.synthesis.pricing import RecordBudget


@dataclass(frozen=True)
class SynthesisSpec:
    """The parameters of a synthesis job besides its rows. `targets`: as in `DomainSpec`. `report`: the path of the
    page.

    `declared`: the schema as the caller wrote it. `outside`: a value of `core.synthesis.encoding.Outside`. `budget` is
    what the ledger holds for the job. `design`, `frequencies` and `steps` of the training are for `pearl`, `bins` for
    `marginals`.
    """

    name: str
    targets: tuple[str, ...]
    report: str
    declared: dict[str, Any]
    method: Literal["pearl", "marginals", "aim"]
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
