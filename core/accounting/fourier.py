"""The Fourier accountant: a proven upper bound whose evaluation time does not depend on the number of releases.

Guarantee: for every accepted input, `epsilon_bound` is at least the true epsilon(delta) of a fixed plan of Gaussian and
Poisson-subsampled Gaussian releases, for the stated direction (theorem and proof below). Adjacency: add/remove. The
guarantee does not cover adaptively chosen parameters, so this accountant serves displays and planning and admits no
charges. It complements the certificate and does not replace it: nobody outside this project has checked the proof.

A composition of k kinds of release is given: kind g is a Gaussian mechanism of multiplier sigma_g on Poisson samples of
rate q_g (sensitivity 1, adjacency add/remove of one unit), used m_g times. Parameters and counts are fixed in advance;
each release may depend on the earlier outputs. Put mu = 1/sigma, W(x) = 1 - q + q exp(mu x - mu^2/2), L = ln W, and let
x ~ N(0,1) have density phi.

* remove: P = W phi, Q = phi, privacy loss L under P. add: P = phi, Q = W phi, privacy loss -L under P.
* delta(e) = E (1 - exp(e - S))_+, S the sum of the independent losses under P. These pairs dominate the mechanism in
  their direction and stay dominating under adaptive composition (Zhu, Dong and Wang 2022), so this delta is the tight
  curve of the composition of the pairs and a valid (e, delta) guarantee.

Theorem. For each direction, the computed bound B of delta has B(e) >= delta(e) for all e >= 0, and
`epsilon_bound` >= inf{e >= 0 : delta(e) <= delta}. The number of operations depends on q, sigma and the tilt but not
otherwise on the counts: it is bounded by fixed limits on nodes and frequencies.

Assumption on arithmetic: IEEE double precision; exp, expm1, log, log1p, sin, cos and atan2 have an error of at most 8
units in the last place (stated by their vendors: at most 4); complex sums and products in any order obey the textbook
bound. u = 2^-53. The error analysis is by hand, first order with constants rounded up several times over; it is not a
machine-checked interval computation.

1. The transform

Fix theta > 0, z = theta + i t, M(z) = E exp(z S). All M(theta) are finite: S grows at most linearly in Gaussians. Put
D(e) = exp(theta e) delta(e) >= 0, e real. For one value s of S, the integral of exp(z e)(1 - exp(e - s))_+ over e < s
is exp(z s)(1/z - 1/(z+1)) = exp(z s)/(z(z+1)); by Fubini (theta > 0)

    integral D(e) exp(i t e) de = M(z) / (z (z+1)) =: H(t).

2. Adding one tiny Gaussian mechanism

Let eta ~ N(tau^2/2, tau^2), independent of S: the loss of a Gaussian mechanism of multiplier 1/tau; E exp(-eta) = 1.
For fixed e the map v -> (1 - exp(e) v)_+ is convex, so by Jensen (1 - exp(e - S))_+ <= E [(1 - exp(e - S - eta))_+ |
S]. Hence

    delta(e) <= delta_tau(e), the curve of S + eta,    and    H_tau(t) = M(z) exp(z(z+1) tau^2/2) / (z(z+1)).

(The same in words: forgetting the output of the additional mechanism is post-processing.) |exp(z(z+1)tau^2/2)| =
exp(theta(theta+1)tau^2/2 - tau^2 t^2/2), so H_tau has a Gaussian tail whatever the law of S. The law of S needs no
property: no density, no lower bound on a variance. The cost is about theta(theta+1)tau^2/2 in ln delta.

3. The trapezoidal rule errs upwards

Let h > 0, p = 2 pi/h. D_tau is continuous; it is at most exp(theta e) for all e and at most C exp(-e) for e > 0 (Markov
with moment theta+1), so sum_k D_tau(e + k p) converges locally uniformly to a continuous p-periodic function; its
Fourier coefficients are (h/2pi) H_tau(jh), absolutely summable. Therefore, for every e,

    (h/2pi) sum_{j in Z} H_tau(j h) exp(-i j h e) = sum_{k in Z} D_tau(e + k p) >= D_tau(e) >= exp(theta e) delta(e).

So the step causes no error in the unsafe direction, for every h. Since H_tau(-t) is the conjugate of H_tau(t), the left
side is (h/pi) [H_tau(0)/2 + Re sum_{j>=1} ...].

Cut-off. Keep j < n, T = n h, tau = c/T with c one of 4, 5, 7, 9 (the least bound is taken). |M(z)| <= M(theta), the
remaining summand is decreasing in t, and the integral of exp(-tau^2 t^2/2) over t > T is at most exp(-c^2/2) T/c^2. The
rest is at most

    M(theta) exp(theta(theta+1)tau^2/2) exp(-c^2/2) (h + T/c^2) / (pi |theta + iT| |theta + 1 + iT|),

and is added. M is a product, M(z) = prod_g F_g(z)^{m_g}, with F(z) = E_phi W^{a + i t}, a = 1 + theta (remove), and
F(z) = E_phi W^{a - i t}, a = -theta (add; the conjugate of the + case). Counts enter nowhere else.

Chernoff. delta(e) <= M(theta) exp(-theta e) max_{y>0} exp(-theta y)(1 - exp(-y)) and the maximum is
theta^theta/(1+theta)^(1+theta). With alpha = 1 + theta this is the known best conversion from one Renyi order. It is
used where it is the smaller one, so the result is no worse than that conversion over the grid of real orders (ratio
1.105 between neighbours in theta).

Add. -L < -ln(1-q), so delta(e) = 0 for e >= -sum m_g ln(1-q_g).

Any theta, h, n give a valid bound. They are chosen (without guarantee, by a table over theta) near the saddle point of
ln M(theta) - theta e - ln theta(theta+1), with p the larger of 12 standard deviations of the normalised D and (7 - ln
delta)/theta; below the order at which M explodes two smaller values of theta are tried as well. Accepted: q in [1e-12,
1], sigma in [.1, 1000], m in [1, 1e9], delta in [1e-30, 1). `epsilon_bound` returns a value at which the bound was
evaluated and found <= delta; delta is non-increasing, so the search needs no proof.

4. F by the trapezoidal rule, with its error

f(x) = phi(x) W(x)^{a+it}. Let A = 1-q, B = q exp(mu x - mu^2/2), posterior p = B/(A+B), which increases in x. At x +
iy, |y| <= d < pi/mu: W = A + B exp(i mu y) avoids the negative axis, so f is analytic in the strip and

* |phi(x+iy)| = phi(x) exp(y^2/2);
* W(x) sqrt(1-s) <= |W(x+iy)| <= W(x), s = 4 p(1-p) sin^2(mu y/2) < 1, since |A + B e^{iv}|^2 = (A+B)^2 - 2AB(1 - cos
  v);
* |arg W| <= mu|y|, and also |arg W| <= mu|y| p/sqrt(1-s), because d/dy arg W = Re(mu B e^{i mu y}/W).

Hence |f(x+iy)| <= phi(x) W(x)^a exp(d^2/2) (1-s)^{-|a|/2 if a<0} exp(|t| mu d min(1, p/sqrt(1-s))). The integral over
x, call its bound Mm(d), is bounded by cells: on [l, r] p(1-p) <= min(1/4, p(r)(1-p(l))), p <= p(r), and phi W^a is at
most the maximum over the cell of exp(-x^2/2 + line), the line being the chord of aL if a >= 0 (L is convex) and the
tangent at l if a < 0 (aL is concave). Beyond +-X, X >= |a| mu + 40, ln W has slope between 0 and mu, so the integral is
at most the value at the end over 40. A function analytic in the strip, tending to 0, with integral of |f(x+iy)| at most
Mm, has (Trefethen and Weideman 2014, Theorem 5.1)

    | integral f - k sum_j f(jk) | <= 2 Mm(d) / (exp(2 pi d/k) - 1).

k is chosen so that this is below exp(-39) of F(0) at the largest t for the best of 18 values of d; the bound is then
evaluated for that k, not assumed. Mm at the largest t serves all smaller t. The nodes left out are bounded by the same
cells (value times width plus k, k <= 1/2); they sum to about exp(-44) F(0). If either is not below e^-20 of the
computed sum, or more than 60000 nodes are needed, the attempt is given up and fewer frequencies are tried, at last
Chernoff alone; if that fails too the answer is the explicit vacuous one (1 or infinity).

Rounding. The computed loss differs from L by at most 16u [|L| + p(1 + mu|x| + mu^2)]: ln is 1-Lipschitz with factor
p in the exponent, log1p(q expm1(v)) is used when W > 1/2 and log-sum-exp otherwise, when |L| > .69. The rounding of the
node jk enters with the same factors. So a weight phi W^a has relative error at most 32u(1 + x^2 + |a| [...] + |top|), a
phase at most 32u t [...]; these are averaged with the computed weights. The double sum is a product of two short tables
of exp(i t L); it and the sum add 4(N+64)u. Altogether |F - F~| <= eta_j F~(0) at t = jh, eta_j explicit.

Powers. With r = F~(t)/F~(0): |prod F_g^{m_g} - prod F~_g^{m_g}| <= prod F~_g(0)^{m_g} [prod (|r_g|+eta_g)^{m_g} -
prod |r_g|^{m_g}], by expanding the product. The computed powers (logarithm, angle, multiplication by m, exponential)
add a relative 16u(1 + sum m(|ln r|+1)). All of it is added to the sum with weight |exp(..)/(z(z+1))| h/pi; the rounding
of t e and of the final sum, too. M(theta) itself is taken as prod [F~_g(0)(1+eta_g0)]^{m_g}, rounded up. If m eta
passes 1/2 only Chernoff is left. QED

Limits

* Only add/remove adjacency, Poisson sampling and counts fixed in advance. It is not a filter for parameters that are
  chosen adaptively.
* One tilt must resolve the whole curve. If almost nothing is ever sampled (m q well below 1), the bound stays valid,
  but it may be a multiple of the true epsilon (measured up to 2) and cost up to a second.
* For m above about 10^9 at typical parameters the rounding term m eta dominates.

Sources

The inversion integral and its saddle point: Alghamdi et al. (ICML 2023). Characteristic functions with quadrature: Zhu,
Dong, Wang (2022). Fourier accountants with aliasing bounds: Koskela, Jalko, Honkela (2020), Gopi, Lee, Wutschitz
(2021). Best one-order conversion: Asoodeh et al. (2021), Canonne, Kamath, Steinke (2020). Steps 2 and 3 were combined
in this project.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from core.accounting.plans import Accountant, Gaussian, Kind, PlanAdjacency, PlanEvent, Result, SubsampledGaussian
from core.errors import UnsupportedEvent

Direction = Literal["remove", "add", "max"]
OneWay = Literal["remove", "add"]
_WAYS: dict[Direction, tuple[OneWay, ...]] = {"remove": ("remove",), "add": ("add",), "max": ("remove", "add")}
Floats = npt.NDArray[np.float64]

_U = 2.0**-53
_PERIOD = 12.0  # period of the inversion in standard deviations of the tilted curve
_CUTS = (4.0, 5.0, 7.0, 9.0)  # the auxiliary Gaussian factor at the cut-off is exp(-c^2/2); the best c is used
_BLOCKS = (24, 48, 96)  # square root of the number of frequencies, in order of effort
_FINE = 1e-3  # if the auxiliary mechanism costs more of epsilon than this relative loss, the effort is increased
_MAX_NODES = 60_000
_ENDS = (slice(None, -1), slice(1, None))
_LOG_THETA = np.linspace(math.log(1e-4), math.log(1e7), 254)
_THETA: Floats = np.exp(_LOG_THETA)
_PEAK: Floats = -np.log1p(_THETA) - _THETA * np.log1p(1.0 / _THETA)  # ln max of exp(-theta z)(1-exp(-z))


@dataclass(frozen=True)
class Releases:
    """``count`` releases of a Gaussian of multiplier sigma on Poisson samples of rate q.

    Valid: 1e-12 <= q <= 1, .1 <= sigma <= 1000 and 1 <= count <= 1e9. Raises ValueError for anything else.
    """

    sampling_probability: float
    noise_multiplier: float
    count: int

    def __post_init__(self) -> None:
        count, real = self.count, 1e-12 <= self.sampling_probability <= 1.0 and 0.1 <= self.noise_multiplier <= 1e3
        if not real or isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 10**9:
            raise ValueError("out of range: sampling_probability, noise_multiplier or count")


Events = Sequence[Releases]


def _loss(x: Floats, q: float, mu: float) -> tuple[Floats, Floats]:
    """L(x) = ln W(x), W = 1-q + q exp(mu x - mu^2/2), and p(x) = L'(x)/mu, the posterior of the sampled component."""
    u = mu * x - 0.5 * mu * mu
    if q == 1.0:
        return u, np.ones_like(u)
    loss = np.logaddexp(math.log1p(-q), math.log(q) + u)
    small = q * np.expm1(np.minimum(u, 50.0))
    near = (small > -0.5) & (u < 50.0)
    loss = np.where(near, np.log1p(np.where(near, small, 0.0)), loss)
    return loss, np.exp(np.minimum(math.log(q) + u - loss, 0.0))


@lru_cache(maxsize=256)
def _table(q: float, sigma: float, way: OneWay) -> tuple[Floats, Floats, Floats]:
    """ln M(theta) and its first two derivatives on the theta grid. They carry no guarantee: they only select theta."""
    mu = 1.0 / sigma
    edge, separation = 14.0 + mu, min(-2.0 * sigma * math.log(q), 400.0)
    x = np.linspace(-edge, edge + separation, 1 + int((2.0 * edge + separation) / min(0.2, 0.4 / mu)))
    loss, _ = _loss(x, q, mu)
    sign = 1.0 if way == "remove" else -1.0
    tilt = _THETA + 1.0 if way == "remove" else -_THETA
    e = -0.5 * x * x + tilt[:, None] * loss
    top = e.max(axis=1, keepdims=True)
    w = np.exp(np.maximum(e - top, -700.0))
    total = w.sum(axis=1)
    mean = w @ loss / total
    var = np.maximum((w * (loss - mean[:, None]) ** 2).sum(axis=1) / total, 1e-300)
    log_m = top[:, 0] + np.log(total) + math.log((x[1] - x[0]) / math.sqrt(2.0 * math.pi))
    if way == "remove":  # the sampled component alone, which dominates once its tilted centre leaves the window
        alone = tilt * (math.log(q) + 0.5 * (tilt - 1.0) * mu * mu)
        far = alone > log_m
        log_m, var = np.where(far, alone, log_m), np.where(far, mu * mu, var)
        mean = np.where(far, math.log(q) + (tilt - 0.5) * mu * mu, mean)
    return log_m, sign * mean, var


def _log_sum(v: Floats) -> Floats:
    top = v.max(axis=-1, keepdims=True)
    return np.asarray(top[..., 0] + np.log(np.exp(np.maximum(v - top, -745.0)).sum(axis=-1)))


@dataclass(frozen=True)
class _Transform:
    """F(t) = E_N(0,1) W^(a + i t) at t = j step: |F(t) - e^log_zero r_j| <= e^log_zero eta_j for every j."""

    log_zero: float
    r: npt.NDArray[np.complex128]
    eta: Floats


def _transform(q: float, sigma: float, a: float, step: float, block: int) -> _Transform | None:
    """F on the first block^2 multiples of ``step`` with a proven error; None if that would need too many nodes."""
    mu, n_t = 1.0 / sigma, block * block
    t_max = n_t * step
    d = np.geomspace(1e-4, 1.0, 18) * min(0.95 * math.pi / mu, 10.0)  # strip half-widths
    # Cells that cover the line; the two unbounded ones are the last. The proof has the bound for each.
    edge = abs(a) * mu + math.sqrt(2.0 * t_max * mu * float(d[-1])) + 40.0
    grow = 16.0 * np.exp(np.arange(1.0, 2.0 + math.log(edge / 16.0) / 0.02) * 0.02)
    half = np.concatenate((np.arange(0.0, 200.5) * 0.08, grow))
    knots = np.concatenate((-half[:0:-1], half))
    loss, p = _loss(knots, q, mu)
    (low, l_low), (high, l_high) = ((np.append(v[c], [v[0], v[-1]]) for v in (knots, loss)) for c in _ENDS)
    p_low, p_high = np.append(p[:-1], [0.0, p[-1]]), np.append(p[1:], [p[0], 1.0])
    width = np.append(np.diff(knots), [0.025, 0.025])
    # a L lies below a chord (a >= 0, L convex) or a tangent (a < 0); next is the largest value of a parabola
    lean = a * (l_high - l_low) / width if a >= 0.0 else a * mu * p_low
    peak = np.clip(lean, low, high)
    base = -0.5 * peak * peak + a * l_low + lean * (peak - low) - 0.5 * math.log(2.0 * math.pi) + 0.01
    s = 4.0 * np.minimum(0.25, p_high * (1.0 - p_low)) * (np.sin(0.5 * mu * d) ** 2)[:, None]
    grown = base + np.log(width) + (t_max * mu * d)[:, None] * np.minimum(1.0, p_high / np.sqrt(1.0 - s))
    if a < 0.0:
        grown = grown + (-0.5 * abs(a)) * np.log1p(-s)
    log_m = 0.5 * d * d + _log_sum(grown)
    mass = base + np.log(width + 0.5)
    log_total = float(_log_sum(base + np.log(width)))
    hx = min(0.5, float(np.max(2.0 * math.pi * d / (40.0 + np.maximum(log_m - log_total, 0.0)))))
    v = 2.0 * math.pi * d / hx
    log_trap = float(np.min(np.where(v >= 5.0, math.log(2.0) + log_m - v + 0.01, math.inf)))  # 1/(e^v-1) <= e^(.01-v)
    keep = mass > log_total - 44.0
    keep[-2:] = False
    if not keep.any() or float(np.abs(base).max()) > 1e12:  # above that the .01 would not cover rounding
        return None
    x_low, x_high = float(low[keep].min()), float(high[keep].max())
    if not 0.0 < (x_high - x_low) / hx <= _MAX_NODES:
        return None
    outside = (low >= x_high) | (high <= x_low)
    x = np.arange(math.floor(x_low / hx), math.ceil(x_high / hx) + 1.0) * hx
    loss, p = _loss(x, q, mu)
    e = -0.5 * x * x + a * loss
    top = float(e.max())
    w = np.exp(np.maximum(e - top, -700.0))
    total = float(w.sum())
    log_zero = top + math.log(total) + math.log(hx / math.sqrt(2.0 * math.pi))
    phase = loss * step
    fine = np.exp(1j * np.outer(phase, np.arange(float(block))))
    coarse = np.exp(1j * np.outer(np.arange(float(block)) * block, phase)) * w
    r = ((coarse @ fine) / total).ravel()
    slope = np.abs(loss) + p * (1.0 + mu * np.abs(x) + mu * mu)
    drift = 32.0 * _U * float(w @ (1.0 + x * x + abs(a) * slope + abs(top))) / total
    turn = 32.0 * _U * float(w @ slope) / total
    log_lost = max(float(_log_sum(mass[outside])), log_trap) + math.log(2.0) - log_zero
    if log_lost > -20.0:
        return None
    eta = math.exp(log_lost) + drift + 4.0 * (x.size + 64) * _U + turn * step * np.arange(float(n_t))
    return _Transform(log_zero, r.astype(np.complex128), eta)


@dataclass(frozen=True)
class _Curve:
    """An upper bound on ln delta at every epsilon, for one direction and one theta."""

    theta: float
    log_scale: float  # ln of M(theta), of its error and of the auxiliary mechanism, rounded up
    coefficients: npt.NDArray[np.complex128]
    frequencies: Floats
    error: float  # numerical errors and the remainder of the sum, in units of the scale

    def log_delta(self, epsilon: float) -> float:
        size = np.abs(self.coefficients)
        rounding = size @ (self.frequencies * (8.0 * _U * epsilon) + 4.0 * (size.size + 64) * _U)
        total = (self.coefficients * np.exp(-1j * self.frequencies * epsilon)).real.sum()
        core = float(total + rounding) + self.error
        shift = self.theta * epsilon
        return math.log(core) + self.log_scale - shift + 16.0 * _U * shift + 1e-12 if core > 0.0 else math.inf


Curves = list[_Curve]


def _least(curves: Curves, epsilon: float) -> float:
    return min(curve.log_delta(epsilon) for curve in curves)


def _log_moment(events: Events, parts: Sequence[_Transform]) -> float:
    """Return an upper bound on ln M(theta) of the composition."""
    pairs = [(e.count, p) for e, p in zip(events, parts, strict=True)]
    rounding = 32.0 * _U * sum(count * (abs(p.log_zero) + 1.0) for count, p in pairs)
    return sum(count * (p.log_zero + math.log1p(float(p.eta[0]))) for count, p in pairs) + rounding


def _transforms(events: Events, way: OneWay, theta: float, step: float, block: int) -> list[_Transform] | None:
    a = 1.0 + theta if way == "remove" else -theta
    found = [_transform(e.sampling_probability, e.noise_multiplier, a, step, block) for e in events]
    parts = [f for f in found if f is not None]
    return parts if len(parts) == len(events) else None


def _chernoff(events: Events, way: OneWay, theta: float, epsilon: float) -> float:
    """ln of M(theta) exp(-theta epsilon) max_z exp(-theta z)(1 - exp(-z)): the best conversion from one Renyi order."""
    parts = _transforms(events, way, theta, 0.0, 1)
    peak = -math.log1p(theta) - theta * math.log1p(1.0 / theta) + 1e-12
    return math.inf if parts is None else _log_moment(events, parts) + peak - theta * epsilon * (1.0 - 16.0 * _U)


def _curves(events: Events, way: OneWay, theta: float, period: float, block: int) -> tuple[Curves, Curves] | None:
    """Return the bounds at one theta and one period of the inversion, from all frequencies and from a quarter of them.

    The difference between the two estimates how much a finer bound could gain.
    """
    step = 2.0 * math.pi / period
    parts = _transforms(events, way, theta, step, block)
    if parts is None:
        return _curves(events, way, theta, period, block // 2) if block > 6 else None
    log_r, log_high, rounding = np.zeros(block * block, complex), np.zeros(block * block), np.full(block * block, 16.0)
    for event, part in zip(events, parts, strict=True):
        modulus = np.maximum(np.abs(part.r), 1e-200)
        one = np.log(modulus) + 1j * np.angle(part.r)
        log_r = log_r + event.count * one
        log_high = log_high + event.count * np.log(modulus + part.eta)
        rounding = rounding + 16.0 * event.count * (np.abs(one) + 1.0)
    if float(log_high.max()) > 0.5:
        return None
    log_size, high = np.maximum(log_r.real, -745.0), np.exp(log_high)
    gap = np.maximum(high - np.exp(log_size), 0.0) + high * np.minimum(_U * rounding, 10.0) + 1e-300
    r = np.exp(log_size + (1j if way == "remove" else -1j) * log_r.imag)
    t = step * np.arange(float(block * block))
    kernel = (step / math.pi) / ((theta + 1j * t) * (theta + 1.0 + 1j * t))
    kernel[0] *= 0.5
    made: dict[int, list[_Curve]] = {t.size: [], t.size // 4: []}
    for n, c in ((n, c) for n in made for c in _CUTS):
        cut = step * n
        tau = c / cut
        drift = (theta + 0.5) * tau * tau * t[:n]
        factor = kernel[:n] * np.exp(-0.5 * (tau * t[:n]) ** 2 + 1j * drift)
        beyond = (step + cut / c**2) / (math.pi * math.hypot(theta, cut) * math.hypot(theta + 1.0, cut))
        error = float(np.abs(factor) @ (gap[:n] + 64.0 * _U * (1.0 + drift)))
        error = (error + math.exp(-0.5 * c**2) * beyond) * (1.0 + 1e-9)
        log_scale = _log_moment(events, parts) + 0.5 * theta * (theta + 1.0) * tau * tau * (1.0 + 1e-12)
        made[n].append(_Curve(theta, log_scale, factor * r[:n], t[:n], error))
    return made[t.size], made[t.size // 4]


def _choose(events: Events, way: OneWay) -> tuple[Floats, Floats, Floats, Floats]:
    """Estimate on the theta grid: the epsilon whose saddle point is theta, the spread there, ln delta and ln M."""
    log_m, mean, var = np.zeros_like(_THETA), np.zeros_like(_THETA), np.zeros_like(_THETA)
    for event in events:
        one = _table(event.sampling_probability, event.noise_multiplier, way)
        log_m, mean, var = (s + event.count * o for s, o in zip((log_m, mean, var), one, strict=True))
    epsilon = mean - 1.0 / _THETA - 1.0 / (_THETA + 1.0)
    var = var + 1.0 / _THETA**2 + 1.0 / (_THETA + 1.0) ** 2
    log_delta = log_m - _THETA * epsilon - np.log(_THETA * (_THETA + 1.0)) - 0.5 * np.log(2.0 * math.pi * var)
    return epsilon, np.sqrt(var), log_delta, log_m


def _at(theta: float, values: Floats) -> float:
    return float(np.interp(math.log(theta), _LOG_THETA, values))


def _ceiling(events: Events, way: OneWay) -> float:
    """Return the largest possible loss, rounded up: infinite for remove, -sum m ln(1-q) for add."""
    if way == "remove" or any(e.sampling_probability >= 1.0 for e in events):
        return math.inf
    return -sum(e.count * math.log1p(-e.sampling_probability) for e in events) * (1.0 + 1e-12)


def _saddle(epsilon: float, grid: Floats) -> float:
    return math.exp(float(np.interp(epsilon, np.maximum.accumulate(grid), _LOG_THETA)))


def _tops(theta: float, spread: Floats, goal: float) -> list[float]:
    """Return upper limits for theta to try: none, and limits below the order where the moment explodes, if near."""
    steep = spread * _THETA > 1.5 * (math.sqrt(-2.0 * goal) + 3.0)
    top = float(_THETA[int(np.argmax(steep))])
    return [math.inf, 0.8 * top, 0.62 * top] if steep.any() and theta > 0.5 * top else [math.inf]


def _log_delta(events: Events, epsilon: float, way: OneWay) -> float:
    if epsilon >= _ceiling(events, way):
        return -math.inf
    grid, spread, log_delta, log_m = _choose(events, way)
    rival = float(_THETA[int(np.argmin(log_m + _PEAK - _THETA * epsilon))])
    first, best = _saddle(epsilon, grid), min(_chernoff(events, way, rival, epsilon), 0.0)
    goal = max(1.3 * best, -700.0)
    plan = [(min(first, top), block) for top in _tops(math.inf, spread, goal) for block in _BLOCKS]
    done = math.nan  # the theta for which no more effort is needed
    for theta, block in plan:
        if theta == done:
            continue
        period = max(_PERIOD * _at(theta, spread), (7.0 - max(_at(theta, log_delta), -60.0)) / theta)
        made = _curves(events, way, theta, period, block)
        value = math.inf if made is None else _least(made[0], epsilon)
        best = min(best, value)
        if made is None or not _least(made[1], epsilon) - value > 15.0 * _FINE * max(1.0, theta * epsilon):
            done = theta
    return best


def _search(events: Events, way: OneWay, goal: float, theta: float, top: float, epsilon: float) -> float:
    """Find a small epsilon whose bound is at most delta, with theta <= top. Every such epsilon is valid."""
    grid, spread, _, _ = _choose(events, way)
    best, effort = math.inf, 0
    for _ in range(16):
        start, reach = epsilon, _at(theta, spread)
        made = _curves(events, way, theta, max(_PERIOD * reach, (7.0 - goal) / theta), _BLOCKS[effort])
        if made is None:
            break
        low, high = max(start - reach, 0.0), start + reach
        for turn in range(30):
            over = _least(made[0], epsilon) - goal
            low, high, best = (low, epsilon, min(best, epsilon)) if over <= 0.0 else (epsilon, high, best)
            if -1e-9 < over <= 0.0 or high - low <= 1e-9 * high:
                break
            aim = epsilon + (over + 5e-10) / theta
            epsilon = aim if low < aim < high and turn < 8 else 0.5 * (low + high)
        if abs(epsilon - start) > 0.3 * reach:
            theta = min(_saddle(epsilon, grid), top)
        elif _least(made[1], epsilon) - goal > 15.0 * _FINE * theta * epsilon and effort + 1 < len(_BLOCKS):
            effort += 1
        else:
            break
    return best


def _epsilon(events: Events, delta: float, way: OneWay) -> float:
    goal, best = math.log(delta), _ceiling(events, way)
    grid, spread, log_delta, log_m = _choose(events, way)
    theta = math.exp(float(np.interp(-goal, -np.minimum.accumulate(log_delta), _LOG_THETA)))
    epsilon = max(_at(theta, grid), 0.0)
    if epsilon <= 0.0 and _log_delta(events, 0.0, way) <= goal:
        return 0.0
    for top in _tops(theta, spread, goal):
        best = min(best, _search(events, way, goal, min(theta, top), top, epsilon))
    renyi = (log_m + _PEAK - goal) / _THETA
    rival = int(np.argmin(renyi))
    if best > renyi[rival]:  # a Renyi order is better where almost nothing is ever sampled
        theta = float(_THETA[rival])
        level = max(_chernoff(events, way, theta, 0.0) - goal, 0.0) / theta * (1.0 + 1e-9) + 1e-12
        best = min(best, level) if _chernoff(events, way, theta, level) <= goal else best
    return best


def epsilon_bound(events: Events, delta: float, direction: Direction = "max") -> float:
    """Return an upper bound on the least epsilon with delta(epsilon) <= delta; ``math.inf`` is the vacuous result.

    ``remove`` is the pair (mixture, N(0,1)), ``add`` the pair (N(0,1), mixture), ``max`` the larger of the two bounds.
    """
    if not 1e-30 <= delta < 1.0 or direction not in _WAYS:
        raise ValueError("delta must lie in [1e-30, 1), direction be one of remove, add and max")
    return 0.0 if not events else max(_epsilon(events, float(delta), way) for way in _WAYS[direction])


@cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()


class FourierAccountant(Accountant):
    """Sums counts for each (sampling rate, noise multiplier). An update is O(1), an evaluation takes milliseconds."""

    name: ClassVar[str] = "fourier"

    def __init__(self, adjacency: PlanAdjacency = PlanAdjacency.ADD_REMOVE) -> None:
        super().__init__(adjacency)
        self._counts: dict[tuple[float, float], int] = {}

    def _check(self, event: PlanEvent) -> None:
        if not isinstance(event, Gaussian | SubsampledGaussian) or event.adjacency is not PlanAdjacency.ADD_REMOVE:
            raise UnsupportedEvent("the Fourier bound prices Gaussian steps under add-remove adjacency only")
        try:
            Releases(*_parameters(event), 1)
        except ValueError:
            raise UnsupportedEvent("the Fourier bound takes noise multipliers between 0.1 and 1000") from None

    def _add(self, event: PlanEvent, count: int) -> None:
        key = _parameters(event)
        self._counts[key] = self._counts.get(key, 0) + count

    def _epsilon(self, delta: float) -> Result:
        plan = [Releases(rate, noise, count) for (rate, noise), count in self._counts.items()]
        # The matrices are small: with several threads, synchronisation makes this about thirty times slower.
        with _threads().limit(limits=1, user_api="blas"):
            value = epsilon_bound(plan, delta)
        if not math.isfinite(value):
            return Result(None, Kind.VACUOUS, "the bound is vacuous for this plan")
        return Result(value, Kind.BOUND)


def _parameters(event: PlanEvent) -> tuple[float, float]:
    if isinstance(event, SubsampledGaussian):
        return event.sampling_rate, event.noise_multiplier
    if isinstance(event, Gaussian):
        return 1.0, event.noise_multiplier
    raise UnsupportedEvent
