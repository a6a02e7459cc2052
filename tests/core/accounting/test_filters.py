"""What an event costs against slow exact arithmetic, and what a filter admits."""

import math
from fractions import Fraction

import exact_kit
import mpmath
import pytest
from division_kit import division_of
from hypothesis import given, settings
from hypothesis import strategies as st

from core.accounting.events import ACCOUNT_ADJACENCY, Adjacency, Guarantee, PrivacyEvent, Unit
from core.accounting.exact import epsilon_of_gaussian, epsilon_of_pure
from core.accounting.filters import (
    COST_ORDERS,
    COUNTED_MAX,
    FILTER_ORDERS,
    GAUSSIAN,
    Arms,
    Division,
    Sums,
    admits,
    cost_of,
    divisions,
    filter_arms,
    largest_pure_nano,
)
from core.amounts import EPSILON_MAX, FEMTO, NANO
from core.errors import UnitMismatch

PURE_KINDS = ("pure", "metric", "exponential", "permute_and_flip", "laplace", "two_geometric")
MICRO = 10**9  # a delta of 1e-6, in femto

epsilons = st.one_of(
    st.integers(1, 10**4), st.integers(1, 100 * NANO), st.integers(1, EPSILON_MAX * NANO),
    st.sampled_from([1, 2, NANO, 700 * NANO, 745 * NANO, EPSILON_MAX * NANO]),
)  # fmt: skip


def event(kind: str, epsilon_nano: int = 0, delta_femto: int = 0, noise: float | None = None) -> PrivacyEvent:
    return PrivacyEvent(
        mechanism="test-mechanism", kind=kind, unit=Unit.SENTENCE, adjacency=Adjacency.REPLACE_ONE,
        guarantee=Guarantee.APPROX_DP, epsilon_nano=epsilon_nano, delta_femto=delta_femto, noise_multiplier=noise,
    )  # fmt: skip


def true_divergence(kind: str, epsilon_nano: int, order: str) -> mpmath.mpf:
    """The Renyi divergence of the worst pair of the kind, from its definition."""
    epsilon, alpha = mpmath.mpf(epsilon_nano) / NANO, mpmath.mpf(order)
    if kind in ("laplace", "permute_and_flip"):
        # |x| - |x - 1| has atoms at both ends and is uniform in x between them
        rising, falling = mpmath.exp((alpha - 1) * epsilon), mpmath.exp(-alpha * epsilon)
        inner = (rising - falling) / (2 * alpha - 1)
        return mpmath.log((rising + falling + inner) / 2) / (alpha - 1)
    if kind == "exponential":
        # loss t or t - eps; the t below is where the moment is largest
        def moment(t: mpmath.mpf) -> mpmath.mpf:
            p = (mpmath.exp(epsilon) - mpmath.exp(t)) / mpmath.expm1(epsilon)
            return p * mpmath.exp((alpha - 1) * t) + (1 - p) * mpmath.exp((alpha - 1) * (t - epsilon))

        rise = -mpmath.expm1(-(alpha - 1) * epsilon)
        t = mpmath.log((alpha - 1) * mpmath.exp(epsilon) * -mpmath.expm1(-alpha * epsilon) / (alpha * rise))
        assert moment(t) >= max(moment(t * (1 - mpmath.mpf("1e-3"))), moment(t * (1 + mpmath.mpf("1e-3"))))
        return mpmath.log(moment(t)) / (alpha - 1)
    if kind == "two_geometric":
        # P(z) ~ f^|z| against P(z - 1): the sums over z <= 0 and z >= 1 of each of two equal, independent numbers
        f = mpmath.exp(-epsilon / 2)
        one = (f ** (1 - alpha) + f**alpha) / (1 + f)
        return 2 * mpmath.log(one) / (alpha - 1)
    p = 1 / (1 + mpmath.exp(-epsilon))
    q = mpmath.exp(-epsilon) * p
    return mpmath.log(p**alpha * q ** (1 - alpha) + q**alpha * p ** (1 - alpha)) / (alpha - 1)


class TestEvents:
    def test_a_gaussian_event_needs_its_noise(self) -> None:
        for noise in [None, 0.0, -1.0, math.inf, math.nan]:
            with pytest.raises(ValueError, match="noise"):
                event("gaussian", noise=noise)

    def test_what_makes_no_sense_is_refused(self) -> None:
        for kind, epsilon_nano, delta_femto, noise in [
            ("gaussian", NANO, 0, 2.0), ("gaussian", 0, 1, 2.0), ("gaussian", -1, -1, 2.0), ("pure", NANO, 0, 2.0),
            ("pure", 0, 0, None), ("pure", NANO, -1, None), ("unheard-of", NANO, 0, None),
        ]:  # fmt: skip
            with pytest.raises(ValueError, match="event"):
                event(kind, epsilon_nano, delta_femto, noise)

    def test_an_event_of_another_adjacency_than_its_accounts_is_refused(self) -> None:
        assert ACCOUNT_ADJACENCY[Unit.VECTOR] is Adjacency.METRIC
        with pytest.raises(UnitMismatch):
            PrivacyEvent("m", "pure", Unit.VECTOR, Adjacency.REPLACE_ONE, Guarantee.PURE_DP, NANO)


class TestCosts:
    @given(kind=st.sampled_from(PURE_KINDS), epsilon_nano=epsilons, order=st.sampled_from(FILTER_ORDERS))
    @settings(deadline=None, max_examples=400)
    def test_a_renyi_cost_is_the_true_one_rounded_up(self, kind: str, epsilon_nano: int, order: str) -> None:
        cost = cost_of(event(kind, epsilon_nano))
        if cost.rho_nano is None:
            # the Gaussian arm's cost is the largest, and is rounded up
            assert 8 * epsilon_nano * (10**6 + 1) > COUNTED_MAX * 10**6
            return
        with mpmath.workdps(80):
            true = true_divergence(kind, epsilon_nano, order) * NANO
            found = cost.rho_nano[FILTER_ORDERS.index(order)]
            rounding = mpmath.mpf("1e-70")  # of the true value itself, which 80 digits cannot tell from a large epsilon
            assert true * (1 - rounding) <= found <= true * (1 + mpmath.mpf("1e-6")) + 2

    @given(noise=st.floats(1e-3, 1e7), order=st.sampled_from(COST_ORDERS))
    def test_a_gaussian_cost_is_the_true_one_rounded_up(self, noise: float, order: str) -> None:
        rho = cost_of(event("gaussian", noise=noise)).rho_nano
        true = [Fraction(each) * NANO / (2 * Fraction(noise) ** 2) for each in FILTER_ORDERS]
        true.append(Fraction(NANO) / Fraction(noise) ** 2)
        if rho is None:
            assert max(true) > COUNTED_MAX
            return
        index = COST_ORDERS.index(order)
        assert true[index] <= rho[index] <= true[index] + 1

    @given(epsilon_nano=epsilons, kind=st.sampled_from(["pure", "two_geometric"]))
    def test_a_square_is_rounded_up_or_not_priced(self, epsilon_nano: int, kind: str) -> None:
        square = cost_of(event(kind, epsilon_nano)).square_nano
        unit = NANO if kind == "pure" else 2 * NANO  # two releases of half of it
        if square is None:
            assert epsilon_nano**2 > (COUNTED_MAX - 1) * unit
        else:
            assert (square - 1) * unit < epsilon_nano**2 <= square * unit

    def test_each_arm_takes_only_what_it_can_price(self) -> None:
        alone = cost_of(event("gaussian", noise=5.0))
        assert (alone.epsilon_nano, alone.delta_femto, alone.square_nano) == (None, 0, None)
        assert alone.rho_nano is not None

        known = cost_of(event("gaussian", NANO, MICRO, 5.0))
        assert (known.epsilon_nano, known.delta_femto, known.square_nano) == (NANO, MICRO, None)
        assert known.rho_nano == alone.rho_nano

        for kind in ("approximate", "pure"):
            approximate = cost_of(event(kind, NANO, MICRO))
            assert (approximate.epsilon_nano, approximate.delta_femto) == (NANO, MICRO)
            assert approximate.square_nano is approximate.rho_nano is None

        assert cost_of(event("gaussian", noise=1e-4)).rho_nano is None
        assert cost_of(event("approximate", COUNTED_MAX + 1)).epsilon_nano is None


class TestDivisions:
    @given(
        epsilon_nano=st.integers(1, 1000 * NANO), delta_femto=st.integers(1, FEMTO - 1),
        basic_part=st.none() | st.floats(0, 1), parts=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    )  # fmt: skip
    @settings(deadline=None, max_examples=60)
    def test_an_account_admits_every_single_release_that_its_limit_covers(
        self, epsilon_nano: int, delta_femto: int, basic_part: float | None, parts: tuple[float, float]
    ) -> None:
        basic = None if basic_part is None else int(delta_femto * basic_part)
        offered = divisions(epsilon_nano, delta_femto, basic_delta_femto=basic)
        epsilon, delta = max(1, int(epsilon_nano * parts[0])), max(1, int(delta_femto * parts[1]))
        for made in (
            event("pure", epsilon),
            event("approximate", epsilon, delta),
            event("gaussian", epsilon, delta, noise=0.3),
        ):
            first = Sums.of(cost_of(made), offered[Division.PURE].orders)
            assert admits(offered[division_of(offered, first)], first)

    def test_the_kind_of_the_first_release_decides(self) -> None:
        offered = divisions(10 * NANO, 100 * MICRO)
        orders = offered[Division.PURE].orders

        def of(*made: PrivacyEvent) -> Division:
            return division_of(offered, sum((Sums.of(cost_of(each), orders) for each in made), Sums.zero(orders)))

        pure, gaussian, approximate = (
            event("laplace", NANO), event("gaussian", noise=4.0), event("approximate", NANO, 1),
        )  # fmt: skip
        assert of(pure) is Division.PURE
        assert of(gaussian) is of(pure, gaussian) is Division.GAUSSIAN
        assert of(approximate) is of(gaussian, approximate) is Division.BASIC
        # a Gaussian release with an (epsilon, delta) of its own that takes nearly all of the limit
        assert of(event("gaussian", 10 * NANO, 100 * MICRO, noise=0.45)) is Division.BASIC

    def test_a_metric_account_adds_up(self) -> None:
        """At a distance C the arms that grow with its square would admit six times what the sum does."""
        arms = filter_arms(10 * NANO, MICRO, adjacency=Adjacency.METRIC)
        made = PrivacyEvent("laplace", "metric", Unit.VECTOR, Adjacency.METRIC, Guarantee.METRIC_DP, NANO // 20)
        assert admitted(arms, Sums.of(cost_of(made), arms.orders)) == 200


class TestArms:
    @given(
        epsilon_nano=st.integers(0, 200 * NANO) | st.just(EPSILON_MAX * NANO), delta_femto=st.integers(1, FEMTO),
        basic_part=st.none() | st.floats(0, 1), division=st.sampled_from(Division),
    )  # fmt: skip
    @settings(deadline=None)
    def test_the_deltas_of_all_arms_sum_to_at_most_delta(
        self, epsilon_nano: int, delta_femto: int, basic_part: float | None, division: Division
    ) -> None:
        """The delta behind each cap, recovered from the cap by the forward conversion."""
        basic = None if basic_part is None else int(delta_femto * basic_part)
        arms = filter_arms(epsilon_nano, delta_femto, basic_delta_femto=basic, division=division)
        *renyi, last = arms.orders
        assert 1 <= len(renyi) <= 4
        assert set(renyi) <= set(FILTER_ORDERS)
        assert last == GAUSSIAN
        with mpmath.workdps(60 + min(1000, epsilon_nano // NANO)):
            epsilon = mpmath.mpf(epsilon_nano) / NANO
            spent = mpmath.mpf(arms.delta_femto) / FEMTO
            gaussian_cap = arms.rho_nano[-1]
            if gaussian_cap > 0 and epsilon < 1000:  # beyond, the exact curve takes as many digits as epsilon
                spent += exact_kit.gaussian(mpmath.sqrt(mpmath.mpf(gaussian_cap) / NANO))(epsilon)
            for order, cap in zip(renyi, arms.rho_nano[:-1], strict=True):
                alpha, rho = mpmath.mpf(order), mpmath.mpf(cap) / NANO
                if cap >= 0:
                    spent += mpmath.exp((alpha - 1) * (rho - epsilon + mpmath.log((alpha - 1) / alpha))) / alpha
            square = mpmath.mpf(arms.square_nano) / NANO
            if arms.square_nano > 0:  # epsilon = sqrt(2 L s) + s/2
                spent += mpmath.exp(-(((epsilon - square / 2) ** 2) / (2 * square)))
            assert spent <= mpmath.mpf(delta_femto) / FEMTO

    def test_without_delta_only_basic_composition_is_offered(self) -> None:
        for epsilon_nano in [NANO // 10, NANO, 10 * NANO]:
            arms = filter_arms(epsilon_nano, 0)
            assert arms.orders
            assert arms == Arms(epsilon_nano, 0, -1, arms.orders, (-1,) * len(arms.orders))
            assert arms.orders == filter_arms(epsilon_nano, MICRO).orders

    def test_limits_out_of_range_are_refused(self) -> None:
        for epsilon_nano, delta, basic in [(-1, 0, 0), (1, -1, 0), (1, 5, 6), (1, FEMTO + 1, 0)]:
            with pytest.raises(ValueError, match="filter"):
                filter_arms(epsilon_nano, delta, basic_delta_femto=basic)

    def test_an_event_closes_the_arms_that_cannot_price_it(self) -> None:
        arms = filter_arms(10 * NANO, 2 * MICRO, basic_delta_femto=MICRO, division=Division.GAUSSIAN)
        gaussian = Sums.of(cost_of(event("gaussian", noise=5.0)), arms.orders)
        approximate = Sums.of(cost_of(event("approximate", NANO, 1)), arms.orders)
        assert admits(arms, gaussian)
        assert admits(arms, approximate)
        assert not admits(arms, gaussian + approximate)
        assert largest_pure_nano(arms, gaussian + approximate) == 0

    def test_basic_delta_is_a_cap_of_its_own(self) -> None:
        arms = filter_arms(10 * NANO, 2 * MICRO, basic_delta_femto=MICRO)
        assert admits(arms, Sums.of(cost_of(event("approximate", NANO, MICRO)), arms.orders))
        assert not admits(arms, Sums.of(cost_of(event("approximate", NANO, MICRO + 1)), arms.orders))

    @given(
        epsilon_nano=st.integers(10**6, 100 * NANO),
        delta_femto=st.sampled_from([0, 10**5, MICRO]),
        spent=st.lists(st.tuples(st.sampled_from([*PURE_KINDS, "gaussian"]), st.integers(10**6, 3 * NANO)), max_size=6),
        division=st.sampled_from(Division),
    )
    @settings(deadline=None, max_examples=200)
    def test_the_largest_further_release_is_admitted_and_no_larger_one(
        self, epsilon_nano: int, delta_femto: int, spent: list[tuple[str, int]], division: Division
    ) -> None:
        arms = filter_arms(epsilon_nano, delta_femto, division=division)
        sums = Sums.zero(arms.orders)
        for kind, size in spent:
            made = event(kind, noise=NANO / size) if kind == "gaussian" else event(kind, size)
            sums += Sums.of(cost_of(made), arms.orders)
        largest = largest_pure_nano(arms, sums)
        if largest:
            assert admits(arms, sums + Sums.of(cost_of(event("pure", largest)), arms.orders))
        assert not admits(arms, sums + Sums.of(cost_of(event("pure", largest + 1)), arms.orders))
        if delta_femto == 0 and not sums.no_epsilon:
            assert largest == max(0, epsilon_nano - sums.epsilon_nano)


def admitted(arms: Arms, charge: Sums) -> int:
    """How many equal charges the filter admits."""
    count, sums = 0, Sums.zero(arms.orders)
    while admits(arms, sums := sums + charge):
        count += 1
    return count


def test_a_filter_admits_nearly_as_much_as_its_best_order() -> None:
    """At (10, 1e-6): far more than basic composition, and never more than the tight certificate of a fixed plan."""
    for made, least, plan_epsilon in [
        (event("pure", NANO // 10), 305, lambda count: epsilon_of_pure(1e-6, 0.1, count)),
        (event("two_geometric", NANO // 10), 610, lambda count: epsilon_of_pure(1e-6, 0.05, 2 * count)),
        (event("gaussian", noise=5.0), 83, lambda count: epsilon_of_gaussian(1e-6, math.sqrt(count) / 5)),
    ]:
        cost = cost_of(made)
        offered = divisions(10 * NANO, MICRO)
        charge = Sums.of(cost, offered[Division.PURE].orders)
        count = admitted(offered[division_of(offered, charge)], charge)
        best = max(
            (10 - math.log((alpha - 1) / alpha) + (math.log(1e-6) + math.log(alpha)) / (alpha - 1)) / rho * NANO
            for alpha, rho in zip(map(float, FILTER_ORDERS), cost.rho_nano[:-1], strict=True)
        )

        assert count >= least
        assert count >= math.floor(0.97 * best)
        assert plan_epsilon(count) <= 10
