"""The noise multipliers of Table I of EW-Tune (Behnia et al. 2022), ours beside the printed ones, and what each costs.

Epsilon 8 over 20 epochs at an expected batch of 2000. *Costs* is the certified epsilon at the multiplier before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scipy.optimize import brentq

from benchmarks.accounting import EWTUNE
from core.accounting.additive import RdpAccountant
from core.accounting.planning import calibrate_noise, estimated_noise
from core.accounting.plans import SubsampledGaussian
from core.accounting.pld import certified_epsilon

EPSILON = 8.0
TASKS = (*((name, rate, steps, 1e-6) for name, rate, steps in EWTUNE), ("SST-2", 2000 / 67000, 670, 1e-5))
PRINTED = {
    "MNLI": (0.65, 0.607, 0.573),
    "QNLI": (0.829, 0.768, 0.739),
    "QQP": (0.6575, 0.6135, 0.579),
    "SST-2": (0.921, 0.8485, 0.8215),
}


@dataclass(frozen=True)
class Calibrations:
    """Noise multipliers for one target: by the Renyi bound, certified, and by the order-1 estimate."""

    rdp: float
    certified: float
    estimate: float


def calibrations(epsilon: float, delta: float, *, sampling_rate: float, steps: int) -> Calibrations:
    def gap(noise: float) -> float:
        account = RdpAccountant().compose(SubsampledGaussian(sampling_rate, noise), steps)
        return account.epsilon(delta).require() - epsilon

    certified = calibrate_noise(epsilon, delta, sampling_rate=sampling_rate, steps=steps).noise_multiplier
    return Calibrations(
        rdp=float(brentq(gap, certified * 0.95, certified * 4, xtol=1e-5)),
        certified=certified,
        estimate=estimated_noise(epsilon, delta, sampling_rate=sampling_rate, steps=steps),
    )


def show(say: Callable[[str], None] = print) -> None:
    say("| task | | RDP | PRV / certified | Edgeworth, order 1 |\n|" + " --- |" * 5)
    for name, rate, steps, delta in TASKS:
        ours = calibrations(EPSILON, delta, sampling_rate=rate, steps=steps)
        rows = {"printed": PRINTED[name], "ours": (ours.rdp, ours.certified, ours.estimate)}
        for label, noises in rows.items():
            costs = [certified_epsilon(((SubsampledGaussian(rate, noise), steps),), delta) for noise in noises]
            cells = [f"{noise:.4f}, costs {cost:.3f}" for noise, cost in zip(noises, costs, strict=True)]
            say(f"| {name} | {label} | " + " | ".join(cells) + " |")
