"""Random changes of current limits among releases, against a model that sums costs in Python.

The ledger admits exactly what the model admits, and never more than the guarantee. Its headroom is that of the model.
"""

import itertools
from dataclasses import dataclass, field

from division_kit import division_of
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from ledger_kit import MASTER_KEY, event, limits

from core.accounting.events import ACCOUNT_ADJACENCY, PrivacyEvent, Unit
from core.accounting.filters import Arms, Division, Sums, admits, cost_of, divisions, filter_arms
from core.amounts import FEMTO, NANO
from core.errors import BudgetExhausted
from core.ledger.hash_chain.audit import audit_tenant
from core.ledger.records import Charge
from core.ledger.transitions import Ledger

DELTA = FEMTO // 10**6
EVENTS = (
    event("pure", 1e-9), event("pure", 0.02), event("exponential", 0.3), event("pure", 2.5),
    event("pure", 0.5, delta_femto=DELTA // 8), event("approximate", 0.4, delta_femto=DELTA // 8),
    event("gaussian", 0, noise=9.0), event("gaussian", 0.6, delta_femto=DELTA // 8, noise=9.0),
    event("pure", 0.4, unit=Unit.TOKEN), event("metric", 0.7, unit=Unit.VECTOR),
)  # fmt: skip
TERMS = ((3, 0, None), (3, DELTA, None), (3, DELTA, 0), (3, DELTA, DELTA // 3), (3, DELTA, DELTA), (0, DELTA, None))
# of the guarantee: thousandths, and the smallest epsilon
SHARES = st.sampled_from([0, 1, 10, 100, 300, 500, 900, 999, 1000])
_names = itertools.count()


@dataclass
class Account:
    """What the ledger should do with one account. `lowered` are its current limits, if it has any."""

    offered: dict[Division, Arms]
    lowered: dict[Division, Arms] | None = None
    division: Division = Division.PURE
    spent: list[Sums] = field(default_factory=list)

    @property
    def orders(self) -> tuple[str, ...]:
        return self.offered[Division.PURE].orders

    def total(self, cost: Sums, times: int) -> Sums:
        total = Sums.zero(self.orders)
        for each in [*self.spent, *[cost] * times]:
            total = total + each
        return total

    def chosen(self, cost: Sums) -> Division:
        return self.division if self.spent else division_of(self.lowered or self.offered, cost)

    def admits(self, first: Sums, total: Sums) -> bool:
        division = self.chosen(first)
        limits = [self.offered, *([self.lowered] if self.lowered else [])]
        return all(admits(each[division], total) for each in limits)


def scaled(cost: Sums, times: int) -> Sums:
    numbers = {name: value * times for name, value in vars(cost).items() if name != "rho_nano"}
    return Sums(**numbers, rho_nano=tuple(rho * times for rho in cost.rho_nano))


def machine(go, client):
    class LimitMachine(RuleBasedStateMachine):
        holds = Bundle("holds")

        @initialize(terms=st.sampled_from(TERMS))
        def opens(self, terms) -> None:
            self.ledger = Ledger(client, MASTER_KEY)
            self.tenant = f"limits-{next(_names)}"
            self.epsilon, self.delta, self.basic = round(terms[0] * NANO), terms[1], terms[2]
            go(self.ledger.open_tenant(self.tenant, limits=limits(terms[0], self.delta, basic_delta_femto=self.basic)))
            self.accounts = {
                unit: Account(
                    divisions(self.epsilon, self.delta, adjacency=ACCOUNT_ADJACENCY[unit], basic_delta_femto=self.basic)
                )
                for unit in Unit
            }
            self.open: dict[str, list[tuple[Account, Sums]]] = {}

        @rule(unit=st.sampled_from(list(Unit)), share=SHARES, least=st.booleans())
        def sets(self, unit, share, least) -> None:
            epsilon = min(self.epsilon, self.epsilon * share // 1000 + least)
            state = go(self.ledger.set_current_limit(self.tenant, f"{self.tenant}/{unit.value}", epsilon))
            account = self.accounts[unit]
            account.lowered = None
            if epsilon < self.epsilon:
                account.lowered = {
                    division: filter_arms(
                        epsilon, self.delta, adjacency=ACCOUNT_ADJACENCY[unit], basic_delta_femto=self.basic,
                        division=division, orders_epsilon_nano=self.epsilon,
                    )
                    for division in Division
                }  # fmt: skip
            assert state.limit.epsilon_nano == self.epsilon
            assert (state.current is None) == (account.lowered is None)

        def costs(self, what: PrivacyEvent) -> list[tuple[Account, Sums]]:
            accounts = [self.accounts[unit] for unit in what.debited_units]
            return [(account, Sums.of(cost_of(what), account.orders)) for account in accounts]

        def admitted(self, what: PrivacyEvent, times: int) -> bool:
            """Whether so many releases are admitted one after the other."""
            return all(
                account.admits(cost, account.total(Sums.zero(account.orders), 0) + scaled(cost, times))
                for account, cost in self.costs(what)
            )

        @rule(target=holds, what=st.sampled_from(EVENTS), times=st.sampled_from([1, 1, 2, 7, 40]))
        def reserves(self, what, times):
            costs = [(account, scaled(cost, times)) for account, cost in self.costs(what)]
            expected = all(account.admits(cost, account.total(cost, 1)) for account, cost in costs)
            charges = [Charge(what, times=times)]
            assert go(self.ledger.estimate(self.tenant, charges)).allowed == expected
            try:
                found = go(self.ledger.reserve(self.tenant, charges))
            except BudgetExhausted:
                assert not expected
                return None
            assert expected
            for account, cost in costs:
                account.division = account.chosen(cost)
                account.spent.append(cost)
            self.open[found.release_id] = costs
            return found.release_id

        @rule(hold=holds, how=st.sampled_from(["commit", "cancel", "cancel", "expire"]))
        def ends(self, hold, how) -> None:
            if hold not in self.open:
                return
            reason = {} if how == "commit" else {"reason": "test"}
            go(getattr(self.ledger, how)(self.tenant, hold, **reason))
            for account, cost in self.open.pop(hold):
                if how == "cancel":
                    account.spent.remove(cost)

        @rule(what=st.sampled_from(EVENTS))
        def promises(self, what) -> None:
            account = f"{self.tenant}/{what.unit.value}"
            releases = go(self.ledger.headroom(self.tenant, account, [[Charge(what)]]))[1][0].headroom.binding.releases
            assert releases == 0 or self.admitted(what, releases)
            assert not self.admitted(what, releases + 1)

        @invariant()
        def what_is_shown_is_possible(self) -> None:
            for state in go(self.ledger.accounts(self.tenant)):
                assert state.within_limit
                assert min(state.remaining.epsilon_nano, state.remaining.delta_femto) >= 0
                assert 0 <= state.committed_share <= state.used_share <= 1

        def teardown(self) -> None:
            assert go(audit_tenant(client, self.tenant)).ok

    return LimitMachine


def test_random_changes_of_limits(go, ledger, client) -> None:
    run_state_machine_as_test(
        machine(go, client),
        settings=settings(
            max_examples=40, stateful_step_count=25, deadline=None, database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip
