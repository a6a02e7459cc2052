"""Random allocation: in each epoch every row joins one of t steps, chosen uniformly, and each sum gets Gaussian noise.

Guarantee: `hockey_stick` returns upper bounds on delta(epsilon) of one epoch, and `distribution` a privacy loss
distribution that dominates it, for add-remove and for replace-one. Gradients may be chosen adaptively: those of a
step may depend on the releases of earlier steps. Epochs compose, because each has its own allocation. Rows are
allocated independently, so the proof may condition on the steps of the other rows. The noise multiplier s is the
standard deviation over the clipping norm, which is the unit of length below.

**Densities.** Let R be the law of the t releases without the row, and F_i the ratio of the densities of the release
of step i with and without the row in it, given the earlier releases. With the row in a uniform step the releases have
the density f = (F_1 + ... + F_t) / t relative to R. H_i and h are the same for another value of the row. Then

    delta(log g) = E_R (p - g q)_+ = E_R (X_1 + ... + X_t)_+ / t,     X_i = p_i - g q_i,

where (p_i, q_i) is (F_i, 1) for removing the row, (1, F_i) for adding it and (F_i, H_i) for replacing it.

**The worst gradients.** Given the past, F_i and H_i are the density ratios of N(u, s^2) and N(v, s^2) to N(0, s^2),
with |u|, |v| <= 1. Claim: X_i is at most X* in convex order, where X* has |u| = 1 and v = -u. The means are equal, so
it is enough to compare E (X_i - c)_+ for all real c.

* Replacing, c >= 0. Under N(u, s^2), A = 1 / F_i and B = H_i / F_i are lognormal variables of mean 1 with the
  parameters |u| / s <= 1 / s and |u - v| / s <= 2 / s, and E_R (F_i - g H_i - c)_+ = E (1 - c A - g B)_+, which is
  the constant 1 - c - g plus E (c A + g B - 1)_+. For X* the parameters are 1 / s and 2 / s, and A*, B* are
  decreasing functions of one normal variable. Let a and b be the values of c A* and g B* where they add up to 1. Then
  E (c A + g B - 1)_+ <= E (c A - a)_+ + E (g B - b)_+ <= E (c A* - a)_+ + E (g B* - b)_+ = E (c A* + g B* - 1)_+. The
  first step is (x + y)_+ <= x_+ + y_+. The second holds since a lognormal variable of mean 1 grows in convex order
  with its parameter. The last holds since c A* - a and g B* - b have the same sign everywhere.
* Replacing, c < 0. By x_+ = x + (-x)_+, E (F_i - g H_i - c)_+ is a constant plus g E (H_i - F_i / g + c / g)_+, which
  is the case above with u and v exchanged.
* Removing and adding: F_i is a lognormal variable of mean 1 with the parameter |u| / s <= 1 / s.

**Adaptive gradients.** Replace X_t, X_(t-1), ... in turn by independent copies of X*. Given the past, E psi(x + X_i)
<= E psi(x + X*) for every convex psi, and E psi(x + X*) is a convex function of x. So delta(log g) is at most E (X*_1
+ ... + X*_t)_+ / t with independent X*_i. Constant gradients u and v = -u attain it.

Sources: the pair of distributions for add-remove is that of Chua et al. 2024 ("balls and bins") and of Feldman and
Shenfeld 2025 (arXiv 2502.08202). The proof for replacing a row and the numerical method are this project's.
docs/adr/0018-private-training.md lists independent checks.

**Numerical method.** For independent X_i with a law that `Law` bounds, `total(law, n).positive_part` is at least
E (X_1 + ... + X_n)_+. A law is defined on the grid {0, +-e^(spacing k)}. The grid is fine near zero, where the kink is,
and has a constant relative spacing elsewhere. A value between two grid points becomes a random choice of the two with
the same mean. This makes a law larger in convex order, and sums of independent variables preserve that order (Shaked
and Shanthikumar 2007, Theorem 3.A.12). The grid is closed under scaling, so the position of a sum between two grid
points depends only on the difference of the two indices. A value below the lowest grid value becomes a choice of that
and zero. A value below the range of the grid is raised to its end, which can only increase the result. The excess of a
value above the range is cut off, and its mean is added to `cut`: (a + b)_+ <= a_+ + b for b >= 0. All numbers that are
added and multiplied are non-negative, so rounding errors are relative. For a sum of n variables `positive_part` adds
RELATIVE_ERROR * n.
"""

import math
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from dp_accounting.pld import pld_pmf
from dp_accounting.pld import privacy_loss_distribution as google
from scipy.special import ndtr

from core.accounting.plans import PlanAdjacency, RandomAllocation

Array = npt.NDArray[np.float64]

RELATIVE_ERROR = 1e-11  # for each term: some thousand additions with an error of 2^-53 each


@dataclass(frozen=True)
class Grid:
    """Zero and the values +-e^(spacing (lowest + i)) for i in 0..size-1."""

    spacing: float
    lowest: int
    size: int

    @property
    def values(self) -> Array:
        """The positive values, ascending: `[size]`."""
        found: Array = np.exp(self.spacing * (self.lowest + np.arange(self.size)))
        return found


@dataclass(frozen=True)
class Law:
    """G laws on one grid. One bounds X if E phi(X) <= E phi(law) + cut for every increasing convex phi of slope <= 1.

    `sides` `[2, G, size]`: the masses at positive and at negative values. `zero` `[G]`: the masses at zero. `cut`:
    `[G]`. `terms`: the number of variables in the sum.
    """

    grid: Grid
    sides: Array
    zero: Array
    cut: Array
    terms: int = 1

    @property
    def positive_part(self) -> Array:
        """Return an upper bound on E (X)_+, `[G]`."""
        found: Array = (self.sides[0] @ self.grid.values + self.cut) * (1 + RELATIVE_ERROR * self.terms)
        return found


def total(law: Law, count: int) -> Law:
    """Return the law of the sum of `count` independent variables. Raises ValueError if `count` is below 1."""
    if count < 1:
        raise ValueError("a sum has at least one term")
    found: Law | None = None
    while True:
        if count & 1:
            found = law if found is None else _added(found, law)
        count >>= 1
        if not count:
            return found or law
        law = _added(law, law)


def _added(one: Law, two: Law) -> Law:
    spacing, size = one.grid.spacing, one.grid.size
    a, b = one.sides, two.sides
    below = 1 - _place(math.log(-math.expm1(-spacing)), spacing)[0]  # the largest decrease of an index
    above = 1 + _place(math.log(2.0), spacing)[0]
    out = np.zeros((*a.shape[:2], below + size + above))
    for gap in range(size):
        # the larger value first, then the smaller one, with the same sign and with the opposite sign
        for c, d, sign in ((a, b, 1.0), (a[::-1], b[::-1], -1.0))[: 2 if gap else 1]:
            mass = a[..., gap:] * d[..., : size - gap]
            if gap:
                mass = 2 * mass if one is two else mass + b[..., gap:] * c[..., : size - gap]
            index, upper = _place(math.log1p(sign * math.exp(-gap * spacing)), spacing)
            start = below + gap + index
            raised = upper * mass
            out[..., start + 1 : start + 1 + size - gap] += raised
            out[..., start : start + size - gap] += mass - raised
    zero = one.zero * two.zero + (a * b[::-1]).sum(axis=(0, 2))
    out[..., below : below + size] += a * two.zero[:, None] + b * one.zero[:, None]
    return _folded(Law(one.grid, out, zero, one.cut + two.cut, one.terms + two.terms), below)


def _place(log_value: float, spacing: float) -> tuple[int, float]:
    """Return the index of the grid point below a value, and the weight of the point above that keeps the mean."""
    index = math.floor(log_value / spacing)
    return index, min(1.0, max(0.0, math.expm1(log_value - index * spacing) / math.expm1(spacing)))


def _folded(law: Law, below: int) -> Law:
    """Move the masses below the grid and above its range onto the grid."""
    grid = law.grid
    under, sides, over = np.split(law.sides, [below, below + grid.size], axis=-1)
    shares = np.exp(grid.spacing * np.arange(-below, 0))
    sides[..., 0] += under @ shares
    sides[..., -1] += over.sum(axis=-1)
    excess = grid.values[-1] * np.expm1(grid.spacing * np.arange(1, over.shape[-1] + 1))
    zero = law.zero + (under @ (1 - shares)).sum(axis=0)
    return Law(grid, sides.copy(), zero, law.cut + over[0] @ excess, law.terms)


_SPACING, _SPACING_COARSE = 0.04, 0.1  # of a grid, at a noise multiplier of 1 or more
_DEPTH = 0.01  # the smallest grid value, as a fraction of the variation of a sum without its rare large terms,
_MANY_STEPS = 30  # for at least this number of terms
_REACH = 9.5  # standard deviations of a Gaussian that a grid covers
_KNOTS, _KNOTS_COARSE = 80, 32
_COARSE_STEP = 0.2  # fraction of the loss's deviation: for a coarser requested grid the quick computation is used
_TAIL = 1e-13  # delta of one epoch at the largest epsilon of its distribution
_FLOOR = 1e-40  # smaller deltas are raised to this, because dp-accounting takes logarithms of probabilities
_NDTR_ERROR = 2.0**-44  # relative error of scipy's normal distribution function


class Change(Enum):
    """The change of the row: the factors of F and of H and the constant in p - g q, each as (a, b) for a + b g."""

    REMOVE = ((1, 0), (0, 0), (0, -1))
    ADD = ((0, 0), (0, 1), (1, 0))
    REPLACE = ((1, 0), (0, 1), (0, 0))


def hockey_stick(change: Change, *, noise: float, steps: int, epsilons: Array, coarse: bool = False) -> Array:
    """Return upper bounds on delta of one epoch at each epsilon >= 0, not increasing. `coarse` is looser and faster."""
    ratios = np.exp(epsilons)
    gain, loss, constant = (a + b * ratios for a, b in change.value)
    spread = math.expm1(noise**-2) * (gain**2 + loss**2) - 2 * gain * loss * math.expm1(-(noise**-2))
    scale = np.sqrt(steps * spread)
    peak = np.exp((_REACH + 1 / noise) / noise - noise**-2 / 2)
    reach = np.max(np.maximum(peak * (gain + loss) + np.abs(constant), 2 * steps * (ratios - 1)) / scale)
    spacing = (_SPACING_COARSE if coarse else _SPACING) * max(1.0, 1 / noise)
    usual = min(1.0, min(1.0, math.sqrt(steps) * math.exp(-(noise**-2) / 2)) * np.min((gain + loss) / scale))
    # small values matter only where there are few terms
    depth = _DEPTH * min(1.0, steps / _MANY_STEPS) ** 4
    lowest = math.floor(math.log(depth * usual) / spacing)
    grid = Grid(spacing, lowest, math.ceil(math.log(max(30.0, reach)) / spacing) - lowest)
    found = total(_term(noise, gain, loss, constant, scale, grid), steps).positive_part * scale / steps
    bounds: Array = np.minimum.accumulate(np.minimum(found, 1.0))
    return bounds


def _term(noise: float, gain: Array, loss: Array, constant: Array, scale: Array, grid: Grid) -> Law:
    """Return the law of gain F - loss H + constant, over `scale`.

    F = e^(z / s - 1 / 2 s^2) and H = e^(-z / s - 1 / 2 s^2) with z normal, so the term increases with z. The
    probability of a cell of the grid and the expectation in it follow from the normal distribution function, shifted by
    1 / s for F and by -1 / s for H.
    """
    a, b, c = gain[:, None], loss[:, None], constant[:, None]
    edges = np.concatenate([-grid.values[::-1], [0.0], grid.values]) * scale[:, None]
    z = np.pad(_normal(edges - c, noise, a, b), ((0, 0), (1, 1)), constant_values=((0, 0), (-np.inf, np.inf)))
    (mass, mass_error), (of_f, f_error), (of_h, h_error) = (
        _inside(z - shift) for shift in (0.0, 1 / noise, -1 / noise)
    )
    mean = a * of_f - b * of_h + c * mass
    error = a * f_error + b * h_error + np.abs(c) * mass_error
    low, width = edges[:, :-1], np.diff(edges)
    inner = slice(1, -1)
    # rounded up: slightly more mass, and slightly more of it at the upper edge
    most = mass + mass_error
    above_low = (mean - np.pad(low, ((0, 0), (1, 1))) * mass)[:, inner]
    raised = np.clip((above_low + error[:, inner] + np.abs(low) * mass_error[:, inner]) / width, 0.0, most[:, inner])
    at = np.zeros_like(edges)
    at[:, :-1] += most[:, inner] - raised
    at[:, 1:] += raised
    at[:, 0] += most[:, 0]
    at[:, -1] += most[:, -1]
    cut = np.maximum(mean[:, -1] - edges[:, -1] * mass[:, -1] + error[:, -1], 0.0) / scale
    size = grid.size
    return Law(grid, np.stack([at[:, size + 1 :], at[:, :size][:, ::-1]]), at[:, size].copy(), cut)


def _normal(x: Array, noise: float, a: Array, b: Array) -> Array:
    """Return the z at which a F - b H is `x`. One of a and b may be zero."""
    half = noise**-2 / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        up = np.log(np.maximum(x, 0.0) / a) + half
        down = -np.log(np.maximum(-x, 0.0) / b) - half
        both = np.arcsinh(x * math.exp(half) / (2 * np.sqrt(a * b))) + np.log(b / a) / 2
    z: Array = noise * np.where(b == 0, up, np.where(a == 0, down, both))
    return z


def _inside(z: Array) -> tuple[Array, Array]:
    """Return the normal probability between neighbours, and a bound on its error."""
    below, above = ndtr(z), ndtr(-z)
    right = z[:, :-1] > 0
    found = np.where(right, above[:, :-1] - above[:, 1:], below[:, 1:] - below[:, :-1])
    return np.maximum(found, 0.0), 2 * _NDTR_ERROR * np.where(right, above[:, :-1], below[:, 1:])


@dataclass(frozen=True)
class Spread:
    """The privacy loss of one epoch: its approximate standard deviation, and its largest relevant value."""

    deviation: float
    reach: float


@lru_cache(maxsize=256)
def spread(event: RandomAllocation) -> Spread:
    """Return the values from which a grid for the losses of this event is chosen. They need not be bounds."""
    noise, steps = event.noise_multiplier, event.steps
    # one step has a loss of at most 2 (8 + 1 / s) / s, except with probability 1e-15
    epsilons = np.geomspace(1e-3, 2 * (8 + 1 / noise) / noise, 40)
    deltas = np.max(
        [hockey_stick(each, noise=noise, steps=steps, epsilons=epsilons, coarse=True) for each in _changes(event)],
        axis=0,
    )
    reach = float(epsilons[np.argmax(deltas <= _TAIL)]) if deltas[-1] <= _TAIL else float(epsilons[-1])
    # E L_+^2 = 2 int_0^inf eps Pr(L > eps), and Pr(L > eps) is about delta at a slightly smaller epsilon
    square = 2 * float(np.trapezoid(epsilons * deltas, epsilons))
    return Spread(math.sqrt(square), reach)


def distribution(event: RandomAllocation, step: float) -> google.PrivacyLossDistribution:
    """Return a dominating privacy loss distribution of one epoch, on a grid of `step`."""
    noise, steps, reach = event.noise_multiplier, event.steps, spread(event).reach
    coarse = step > _COARSE_STEP * spread(event).deviation
    knots = _KNOTS_COARSE if coarse else _KNOTS
    # denser near zero, where most of the loss lies
    places = np.unique(np.ceil(reach / step * (np.arange(knots + 1) / knots) ** 1.5).astype(np.int64))
    epsilons = np.asarray(places * step, dtype=np.float64)
    deltas = [
        hockey_stick(each, noise=noise, steps=steps, epsilons=epsilons, coarse=coarse) for each in _changes(event)
    ]
    return google.PrivacyLossDistribution(
        *(_pmf(places, step, *pair) for pair in zip(deltas, deltas[::-1], strict=True))
    )


def _changes(event: RandomAllocation) -> tuple[Change, ...]:
    if event.adjacency is PlanAdjacency.REPLACE_ONE:
        return (Change.REPLACE,)  # the same in both directions
    return (Change.REMOVE, Change.ADD)


def _pmf(places: npt.NDArray[np.int64], step: float, deltas: Array, reverse: Array) -> pld_pmf.PLDPmf:
    """Connect the dots between the bounds at `places * step`, with negative epsilons from the reversed pair.

    For any pair delta(-eps) = 1 - e^-eps + e^-eps delta'(eps), where delta' is that of the reversed pair. Delta is
    convex in e^eps, so it lies below the lower convex hull of upper bounds.
    """
    falls = np.exp(-places[:0:-1] * step)
    found = np.concatenate([1 - falls + falls * reverse[:0:-1], deltas])
    everywhere = np.concatenate([-places[:0:-1], places])
    hull = np.minimum.accumulate(np.clip(_lower_hull(np.exp(everywhere * step), found), _FLOOR, 1.0))
    return pld_pmf.create_pmf_pessimistic_connect_dots(step, everywhere, hull)


def _lower_hull(x: Array, y: Array) -> Array:
    """Return the greatest convex function below the points, evaluated at `x`, which is ascending."""
    kept: list[int] = []
    for i in range(len(x)):
        while len(kept) > 1:
            k, m = kept[-2:]
            if (y[m] - y[k]) * (x[i] - x[m]) < (y[i] - y[m]) * (x[m] - x[k]):
                break
            kept.pop()
        kept.append(i)
    return np.interp(x, x[kept], y[kept])
