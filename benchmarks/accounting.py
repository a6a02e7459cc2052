"""Bounds against the truth, the estimate's under-reports, and the time of a calibration beside dp-accounting.

    python -m benchmarks.accounting [--figure docs/reference/accounting/under-reports.svg]

The truth is bracketed by the PLD's pessimistic and optimistic values on the same grid. Exits 1 if an answer labelled a
bound is under the optimistic value. The peer of the calibration is dp-accounting's `calibrate_dp_mechanism` with its
`PLDAccountant` at its default loss interval (1e-4), a bracket of [0.4, 4] and the same tolerance, 1e-3.
"""

import itertools
import sys
import time
from collections import defaultdict
from functools import lru_cache
from pathlib import Path

import dp_accounting
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

from benchmarks.kit import arguments, head, row
from core.accounting.additive import BasicAccountant, RdpAccountant
from core.accounting.edgeworth import EdgeworthAccountant
from core.accounting.fourier import FourierAccountant
from core.accounting.planning import calibrate_noise
from core.accounting.plans import Direction, Kind, SubsampledGaussian
from core.accounting.pld import compose, epsilon_of, grid_interval

PLANS = list(
    itertools.product((1e-4, 1e-3, 0.01, 0.05, 0.2), (0.5, 0.7, 1.0, 1.5, 3.0, 8.0), (1, 10, 100, 1000, 10_000))
)
DELTAS = (1e-9, 1e-7, 1e-5, 1e-3)
UNDER = 0.998  # below this part of the tight epsilon an estimate counts as an under-report
SHARE = 0.05
ORDERS = (1, 2, 3)
EWTUNE = (
    ("MNLI", 2000 / 393000, 3930),
    ("QNLI", 2000 / 105000, 1050),
    ("QQP", 2000 / 364000, 3640),
    ("SST-2", 2000 / 68800, 688),
)
Point = tuple[float, float]


@lru_cache(maxsize=2)
def distribution(rate: float, noise: float, steps: int, *, optimistic: bool) -> PrivacyLossDistribution:
    plan = ((SubsampledGaussian(rate, noise), steps),)
    return compose(plan, grid_interval(plan, SHARE), optimistic=optimistic)


def check_bounds() -> tuple[int, dict[int, list[Point]], dict[int, list[int]]]:
    """Violations; for each order (tight, estimate) where there is one; and counts of [under, over, no root]."""
    violations = 0
    ratios: defaultdict[str, list[float]] = defaultdict(list)
    points: dict[int, list[Point]] = {order: [] for order in ORDERS}
    counts = {order: [0, 0, 0] for order in ORDERS}
    for (rate, noise, steps), delta in itertools.product(PLANS, DELTAS):
        event = SubsampledGaussian(rate, noise)
        low = epsilon_of(distribution(rate, noise, steps, optimistic=True), delta, optimistic=True)
        high = epsilon_of(distribution(rate, noise, steps, optimistic=False), delta)
        bounds = {"pld": high}
        for kind in (BasicAccountant, RdpAccountant, FourierAccountant):
            result = kind().compose(event, steps).epsilon(delta)
            if result.value is not None:
                bounds[kind.name] = result.value
        for order in ORDERS:
            result = EdgeworthAccountant(order=order, direction=Direction.REMOVE).compose(event, steps).epsilon(delta)
            if result.value is None or result.kind is not Kind.ESTIMATE:
                counts[order][2] += 1
                continue
            counts[order][0 if result.value < UNDER * high else 1] += 1
            points[order].append((high, result.value))
        if high > 1e-4:
            for name, value in bounds.items():
                ratios[name].append(value / high)
        for name, value in bounds.items():
            if value < low - 1e-9:
                violations += 1
                print(f"VIOLATION {name} {value} under {low} at {(rate, noise, steps, delta)}")
    head("bound", "over the PLD: median", "p95", "worst", "points")
    for name, found in ratios.items():
        ordered = sorted(found)
        row(name, *(f"{ordered[int(share * (len(ordered) - 1))]:.4g}" for share in (0.5, 0.95, 1.0)), len(ordered))
    return violations, points, counts


def draw(points: dict[int, list[Point]], path: Path) -> None:
    """Every estimate over the tight epsilon; under the line it under-reports."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "accounting"
    from matplotlib import pyplot

    figure, panes = pyplot.subplots(1, 3, figsize=(10, 3.6), sharey=True)
    for pane, order in zip(panes, ORDERS, strict=True):
        shown = [(tight, value / tight) for tight, value in points[order] if tight > 1e-4]
        for under, colour in ((True, "#c0392b"), (False, "#7f8c8d")):
            part = [(x, max(y, 1e-2)) for x, y in shown if (y < UNDER) is under]
            label = f"{'under' if under else 'not under'} ({len(part)})"
            pane.plot(*zip(*part, strict=True), ".", markersize=3, color=colour, label=label, rasterized=True)
        pane.axhline(1, color="black", linewidth=0.8)
        pane.set(xscale="log", yscale="log", ylim=(8e-3, 20), xlabel="tight epsilon (PLD)", title=f"order {order}")
        pane.legend(fontsize=7, loc="upper right")
    panes[0].set_ylabel("estimate / tight (0.01: that or less)")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None}, dpi=130)


def time_calibration() -> None:
    head("plan", "noise", "seconds", "peer's noise", "peer's seconds", "evaluations", "ratio")
    for name, rate, steps in EWTUNE:
        calls = [0]

        def fresh(calls: list[int] = calls) -> PLDAccountant:
            calls[0] += 1
            return PLDAccountant()

        def event(noise: float, rate: float = rate, steps: int = steps) -> dp_accounting.DpEvent:
            one = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
            return dp_accounting.SelfComposedDpEvent(one, steps)

        start = time.perf_counter()
        bracket = dp_accounting.ExplicitBracketInterval(0.4, 4.0)
        peer = dp_accounting.calibrate_dp_mechanism(fresh, event, 8.0, 1e-6, bracket, tol=1e-3)
        theirs = time.perf_counter() - start
        start = time.perf_counter()
        found = calibrate_noise(8.0, 1e-6, sampling_rate=rate, steps=steps)
        ours = time.perf_counter() - start
        counts = f"{found.evaluations} / {calls[0]}"
        cells = (f"{found.noise_multiplier:.4f}", f"{ours:.3f}", f"{peer:.4f}", f"{theirs:.2f}", counts)
        row(name, *cells, f"{theirs / ours:.0f}")


def main() -> int:
    chosen = arguments(__doc__, figure=(Path, "file of the SVG"))
    time_calibration()
    start = time.perf_counter()
    violations, points, counts = check_bounds()
    seconds, points_all = time.perf_counter() - start, len(PLANS) * len(DELTAS)
    print(f"{points_all} points, {violations} bounds under the optimistic PLD ({seconds:.0f} s)")
    for order in ORDERS:
        under, over, none = counts[order]
        print(f"edgeworth order {order} (remove): {under} under-report, {over} do not, {none} have no single root")
    if chosen.figure:
        draw(points, chosen.figure)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
