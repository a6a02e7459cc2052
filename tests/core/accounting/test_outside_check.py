"""Every bound against privacy curves and accountants that are not this project's.

The truth from below: exact formulas in mpmath (`exact_kit`) where there are any, else Google's `dp-accounting` with
losses rounded down, composed and searched by the library alone. No answer labelled a bound may lie under it. The grids
reach every limit of every parameter; `make test-all` runs the short ones, `make test-long` the whole ones.
"""

import itertools
import math
import random
from collections.abc import Iterator

import exact_kit
import mpmath
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
from dp_accounting.pld import privacy_loss_distribution as google
from dp_accounting.privacy_accountant import NeighboringRelation
from dp_accounting.rdp import RdpAccountant as GoogleRdpAccountant
from mpmath import mpf

from core.accounting.additive import BasicAccountant, RdpAccountant
from core.accounting.edgeworth import EdgeworthAccountant
from core.accounting.exact import epsilon_of_gaussian, epsilon_of_pure
from core.accounting.fourier import FourierAccountant
from core.accounting.planning import compare
from core.accounting.plans import (
    COUNT_MAX,
    NOISE_MULTIPLIER_MAX,
    NOISE_MULTIPLIER_MIN,
    PURE_EPSILON_MAX,
    PURE_EPSILON_MIN,
    SAMPLING_RATE_MIN,
    Accountant,
    Gaussian,
    Kind,
    Laplace,
    Line,
    PlanAdjacency,
    PlanEvent,
    Pure,
    SubsampledGaussian,
)
from core.accounting.pld import PldCertificate, certified_epsilon, compose, epsilon_of, grid_interval
from core.errors import UnsupportedEvent
from core.finetune.plan import training_budget

pytestmark = pytest.mark.slow("grid")

Plan = list[tuple[PlanEvent, int]]
ADD, REPLACE = PlanAdjacency.ADD_REMOVE, PlanAdjacency.REPLACE_ONE
DELTAS = (1e-13, 1e-6, 0.3, 1 - 1e-9)
LIBRARY_EPSILON_MAX = 600.0  # from 700 on the library's own search leaves the range of a double


@pytest.fixture(autouse=True)
def digits() -> Iterator[None]:
    with mpmath.workdps(exact_kit.DIGITS):
        yield


class TestFullBatches:
    """Where the batch is all rows, replacing one row is a Gaussian release of half the multiplier, whatever that is."""

    def test_training_is_charged_what_is_run(self) -> None:
        for epsilon, steps, charged in [(200, 1, 664.187084704), (1000, 12, 3655.832616798), (8, 100, None)]:
            budget = training_budget(epsilon=epsilon, delta=1e-5, rows=1000, batch=1000, steps=steps)
            true = exact_kit.gaussian(2 * mpmath.sqrt(steps) / mpf(budget.plan.noise_multiplier))
            assert true(mpf(budget.epsilon_nano) / 10**9) <= mpf("1e-5")
            assert true(mpf(budget.epsilon_nano) / 10**9 * mpf("0.9999999")) > mpf("1e-5")
            if charged is not None:
                assert budget.epsilon_nano / 10**9 == pytest.approx(charged, rel=1e-6)

    @pytest.mark.parametrize("noise", [NOISE_MULTIPLIER_MIN, 0.06, 0.0999, 0.1, 1.0, NOISE_MULTIPLIER_MAX])
    @pytest.mark.parametrize("adjacency", [ADD, REPLACE])
    def test_no_line_of_a_comparison_is_under_the_truth(self, noise: float, adjacency: PlanAdjacency) -> None:
        norms = 1 if adjacency is ADD else 2
        for steps, delta in itertools.product((1, 10**6, COUNT_MAX), (*DELTAS, 1e-5)):
            lines = compare(SubsampledGaussian(1.0, noise, adjacency), steps, delta)
            check_lines(lines, exact_kit.gaussian(norms * mpmath.sqrt(steps) / mpf(noise)), delta, (noise, steps))
            assert {line.name for line in lines if line.result.kind is Kind.BOUND} >= {"basic", "rdp", "pld"}


def check_lines(lines: tuple[Line, ...], curve: exact_kit.Curve, delta: float, case: object) -> None:
    for line in lines:
        if line.result.kind is Kind.BOUND:
            assert line.result.value is not None
            assert curve(mpf(line.result.value)) <= mpf(delta), (line.name, line.order, delta, case)


AT_LIMITS = [
    ((SAMPLING_RATE_MIN,), NOISE_MULTIPLIER_MAX, (1e-13, 1e-6)),
    ((0.5,), NOISE_MULTIPLIER_MIN, (1e-13, 1e-6)),
    ((1 - 1e-9,), NOISE_MULTIPLIER_MAX, (1e-13, 1e-6)),
]
ON_A_GRID = [
    pytest.param(
        (SAMPLING_RATE_MIN, 1e-3, 0.5, 0.99, 1 - 1e-9, math.nextafter(1, 0)), noise, DELTAS, marks=pytest.mark.long
    )
    for noise in (NOISE_MULTIPLIER_MIN, 0.07, 0.1, 0.3, 1, 4, 1e2, 1e4, NOISE_MULTIPLIER_MAX)
]


class TestOneRelease:
    """A single step has a closed form under either adjacency."""

    @pytest.mark.parametrize("adjacency", [ADD, REPLACE])
    @pytest.mark.parametrize(("rates", "noise", "deltas"), [*AT_LIMITS, *ON_A_GRID])
    def test_sampled(
        self, rates: tuple[float, ...], noise: float, deltas: tuple[float, ...], adjacency: PlanAdjacency
    ) -> None:
        for rate, delta in itertools.product(rates, deltas):
            lines = compare(SubsampledGaussian(rate, noise, adjacency), 1, delta)
            for curve in exact_kit.subsampled(rate, noise, replace_one=adjacency is REPLACE):
                check_lines(lines, curve, delta, (rate, noise))

    def test_laplace_noise(self) -> None:
        for epsilon in [PURE_EPSILON_MIN, 0.1, 1.0, 10.0, PURE_EPSILON_MAX]:
            for delta in DELTAS:
                check_lines(compare(Laplace(epsilon), 1, delta), exact_kit.laplace(epsilon), delta, epsilon)


def test_pure_releases_from_one_to_the_most() -> None:
    for epsilon in [PURE_EPSILON_MIN, 1e-3, 0.1, PURE_EPSILON_MAX]:
        for count, delta in itertools.product((1, 7, 10_000), DELTAS):
            check_lines(compare(Pure(epsilon), count, delta), exact_kit.pure(epsilon, count), delta, (epsilon, count))
        least = epsilon_of_pure(1e-6, epsilon, COUNT_MAX)  # itself against mpmath: test_exact_lines.py
        for account in (BasicAccountant(), RdpAccountant()):
            assert account.compose(Pure(epsilon), COUNT_MAX).epsilon(1e-6).require() >= least * (1 - 1e-9)


def test_the_most_releases_with_laplace_noise() -> None:
    """Which side of the middle the noisy number is on is randomised response, so the latter's curve is below."""
    for epsilon in [PURE_EPSILON_MIN, 1e-3, 0.1, PURE_EPSILON_MAX]:
        flip = math.exp(-epsilon / 2) / 2
        for account in (BasicAccountant(), RdpAccountant()):
            bound = account.compose(Laplace(epsilon), COUNT_MAX).epsilon(1e-6).require()
            assert bound >= epsilon_of_pure(1e-6, math.log((1 - flip) / flip) * (1 - 1e-12), COUNT_MAX) * (1 - 1e-9)


def from_below(plan: Plan, delta: float, interval: float) -> float:
    """The library's epsilon with losses rounded down, by its own composition and search; at most the truth."""
    total: google.PrivacyLossDistribution | None = None
    for event, count in plan:
        options = {"pessimistic_estimate": False, "value_discretization_interval": interval}
        if isinstance(event, Gaussian | SubsampledGaussian):
            rate = event.sampling_rate if isinstance(event, SubsampledGaussian) else 1.0
            relation = (
                NeighboringRelation.ADD_OR_REMOVE_ONE if event.adjacency is ADD else NeighboringRelation.REPLACE_ONE
            )
            if isinstance(event, Gaussian):  # its multiplier is over the sensitivity of its own adjacency
                relation = NeighboringRelation.ADD_OR_REMOVE_ONE
            one = google.from_gaussian_mechanism(
                event.noise_multiplier, sampling_prob=rate, use_connect_dots=False, neighboring_relation=relation,
                **options,
            )  # fmt: skip
        elif isinstance(event, Laplace):
            one = google.from_laplace_mechanism(1 / event.epsilon, use_connect_dots=False, **options)
        else:
            flip = 2 / (1 + math.exp(event.epsilon))
            one = google.from_randomized_response(flip, 2, **options)
        part = one.self_compose(count)
        total = part if total is None else total.compose(part)
    # it counts the tails that it cuts, 1e-15 of each part, as an infinite loss in this case too
    try:
        least = float(total.get_epsilon_for_delta(delta + 2e-15 * len(plan)))
    except OverflowError:
        return 0.0  # which says nothing
    return least if least <= LIBRARY_EPSILON_MAX else 0.0


def random_plan(rng: random.Random, adjacency: PlanAdjacency) -> Plan:
    """One to four kinds of events, with counts and parameters across orders of magnitude."""
    plan: dict[PlanEvent, int] = {}
    for _ in range(rng.randint(1, 4)):
        count = int(10 ** rng.uniform(0, 3.3))
        noise = 10 ** rng.uniform(-0.5, 1.5) * math.sqrt(count)
        size = 10 ** rng.uniform(-1.5, 0.5) / math.sqrt(count)
        kinds: list[PlanEvent] = [
            Gaussian(noise, adjacency),
            SubsampledGaussian(10 ** rng.uniform(-4, -0.1), 10 ** rng.uniform(-0.4, 1.3), adjacency),
            Laplace(size, adjacency),
            Pure(size, adjacency),
        ]
        plan[rng.choice(kinds)] = count
    return list(plan.items())


def check_mixture(plan: Plan, delta: float, adjacency: PlanAdjacency) -> int:
    """How many bounds were compared; each is above the library's value from below."""
    interval = max(grid_interval(tuple(plan), 0.1), 2e-5)
    least = from_below(plan, delta, interval)
    accounts: list[Accountant] = [
        BasicAccountant(adjacency), RdpAccountant(adjacency), FourierAccountant(adjacency),
        EdgeworthAccountant(adjacency), PldCertificate(adjacency, interval=grid_interval(tuple(plan), 0.3)),
    ]  # fmt: skip
    compared = 0
    for account in accounts:
        try:
            for event, count in plan:
                account.compose(event, count)
        except UnsupportedEvent:
            continue
        result = account.epsilon(delta)
        if result.kind is Kind.BOUND:
            assert result.require() >= least * (1 - 1e-9) - 1e-12, (account.name, plan, delta)
            compared += 1
    return compared


SEEDS = [
    *((f"one {n}", 1) for n in range(6)),
    *(pytest.param(f"many {n}", 25, marks=pytest.mark.long) for n in range(20)),
]


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
@pytest.mark.parametrize(("seed", "plans"), SEEDS)
def test_mixtures(seed: str, plans: int, adjacency: PlanAdjacency) -> None:
    rng = random.Random(f"{seed} {adjacency}")
    compared = 0
    for _ in range(plans):
        compared += check_mixture(random_plan(rng, adjacency), 10 ** rng.uniform(-12, -0.1), adjacency)
    assert compared >= 0.8 * plans  # replace-one sampling has a certificate alone


@pytest.mark.long
def test_the_renyi_bound_is_the_librarys_and_above_the_truth_in_long_runs() -> None:
    for rate, noise, count, delta in itertools.product(
        (1e-9, 1e-5, 1e-3, 0.1), (0.3, 1.0, 10.0), (1, 1000, 30_000), (1e-9, 1e-3)
    ):
        event = SubsampledGaussian(rate, noise)
        account = RdpAccountant().compose(event, count)
        library = GoogleRdpAccountant()
        library.compose(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), count)
        theirs = library.get_epsilon(delta)
        assert account.epsilon(delta).require() >= theirs * (1 - 1e-9)
        if theirs > 0:  # where it is 0, the rounding that ours adds may hide it
            assert account.epsilon(delta).require() == pytest.approx(theirs, rel=1e-6)
        interval = grid_interval(((event, count),), 0.3)
        assert account.epsilon(delta).require() >= from_below([(event, count)], delta, max(interval, 1e-6)) - 1e-9


class TestTheCertificateAtItsLimits:
    def test_it_is_infinite_where_its_numbers_overflow(self) -> None:
        """The curve of one release is mostly rounding, and its power exceeds the range of a double."""
        value = certified_epsilon(((SubsampledGaussian(1e-9, 1000.0), 10_000),), 1e-13)
        assert value == math.inf

    def test_it_refuses_what_would_not_fit_into_memory(self) -> None:
        with pytest.raises(UnsupportedEvent):
            certified_epsilon(((SubsampledGaussian(1e-9, 1.0), COUNT_MAX),), 1e-6)

    def test_a_sampling_rate_within_rounding_of_one_is_refused_by_the_certificate_alone(self) -> None:
        lines = compare(SubsampledGaussian(math.nextafter(1, 0), 0.06), 1, 1e-5)
        found = {line.name: line.result for line in lines if line.order is None}
        assert found["pld"].kind is Kind.VACUOUS
        assert found["basic"].require() >= epsilon_of_gaussian(1e-5, 1 / 0.06) * (1 - 1e-9)

    def test_very_many_gaussian_releases_mix_with_others(self) -> None:
        """Together their multiplier is far below the least of a single release."""
        value = certified_epsilon(((Gaussian(0.1), 100), (Laplace(0.1), 3)), 1e-5)
        alone = epsilon_of_gaussian(1e-5, 100)
        assert alone <= value <= 1.001 * alone
        with pytest.raises(UnsupportedEvent):
            certified_epsilon(((Gaussian(NOISE_MULTIPLIER_MIN), COUNT_MAX), (Laplace(0.1), 3)), 1e-5)

    def test_the_transform_is_not_under_what_is_known_exactly(self) -> None:
        """A grid that the losses lie on discretises nothing: what differs is the rounding of the transform."""
        for count in [1, 100, 10_000]:
            epsilon = 2.0 ** round(math.log2(2 / math.sqrt(count)))
            for delta in (1e-9, 1e-6, 1e-3):
                value = epsilon_of(compose(((Pure(epsilon), count),), epsilon / 4), delta)
                assert value >= epsilon_of_pure(delta, epsilon, count) * (1 - 1e-10) - 1e-9
