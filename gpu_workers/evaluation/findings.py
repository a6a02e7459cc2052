"""What an evaluation has found: the numbers of its report."""

from dataclasses import dataclass

from core.evaluation.attack_bounds import AttackBounds
from gpu_workers.evaluation.advice import Advice
from gpu_workers.evaluation.inversion import Inversion
from gpu_workers.evaluation.linkage import Linkage
from gpu_workers.evaluation.masking import Masking
from gpu_workers.evaluation.membership import Membership
from gpu_workers.evaluation.utility import MethodUtility


@dataclass(frozen=True)
class Meaning:
    """What one epsilon of a method allows an attacker who sees the planned releases of one unit. `unit`: what is
    replaced."""

    name: str
    unit: str
    epsilon: float
    worst_case: float
    bounds: AttackBounds


@dataclass(frozen=True)
class Findings:
    """Everything that an evaluation has found."""

    name: str
    texts: int
    labels: int
    labelled: bool
    persons: int | None
    tolerance: float
    releases: int
    repetitions: int
    utilities: tuple[MethodUtility, ...]
    meanings: tuple[Meaning, ...]
    memberships: tuple[Membership, ...]
    inversions: tuple[Inversion, ...]
    maskings: tuple[Masking, ...]
    linkages: tuple[Linkage, ...]
    advice: tuple[Advice, ...]
