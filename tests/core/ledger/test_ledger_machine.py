"""Random histories with lost, late and refused commands against a model: the counters never leave what the model says.

Whatever is lost, a release is held once, ends once, and counts until it is refunded.
"""

import itertools

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from ledger_kit import ERRORS, LATE, LOST_REPLY, LOST_REQUEST, MASTER_KEY, charge, claim, limits
from redis_kit import DeployedServer

from core.amounts import NANO, Amount, cost_nano
from core.errors import (
    BudgetExhausted,
    HoldNotOpen,
    IdempotencyConflict,
    LedgerError,
    LedgerUnavailable,
    ReleaseGone,
    ReleaseInFlight,
)
from core.ledger.hash_chain.audit import audit_tenant
from core.ledger.records import Replay
from core.ledger.tenant_rounds import TenantActivity
from core.ledger.transitions import Ledger

SUBJECT_LIMIT, QUOTA = 3, 5
COSTS = st.sampled_from([0.1, 0.7, 1, 1.5, 3])
SUBJECTS = st.sampled_from(["p1", "p2", "p3"])
ENDS = {"commit": "committed", "cancel": "cancelled", "expire": "spent"}
# The client sends a script twice at most. After one lost connection it gets the answer, after two or an error it fails.
FAULTS = st.one_of(
    st.just(()),
    st.sampled_from([(LOST_REQUEST,), (LOST_REPLY,), (LATE,)]),
    st.sampled_from([(LOST_REPLY, LOST_REPLY), (LOST_REPLY, LATE), (LATE, LOST_REQUEST), (LATE, LATE)]),
    st.sampled_from([(error,) for error in ERRORS]),
)
_names = itertools.count()


def fail(faults):
    return len(faults) > 1 or (bool(faults) and faults[0] in ERRORS)


def machine(go, client, redis):
    def attempt(coroutine, faults):
        redis.plan[:] = faults
        try:
            return go(coroutine)
        except LedgerError as error:
            return error
        finally:
            redis.plan.clear()

    class LedgerMachine(RuleBasedStateMachine):
        releases = Bundle("releases")

        def __init__(self):
            super().__init__()
            self.now = 1_000_000
            self.ledger = Ledger(redis.client, MASTER_KEY, hold_ttl_ms=100, clock=lambda: self.now)
            self.reader = Ledger(client, MASTER_KEY, clock=lambda: self.now)
            self.activity = TenantActivity(client)
            self.tenant = f"machine-{next(_names)}"
            go(self.reader.open_tenant(self.tenant, limits=limits(QUOTA), subject_limits=limits(SUBJECT_LIMIT)))
            go(self.ledger.estimate(self.tenant, [charge(0.1, subject="p1")]))  # learns the orders of the accounts
            self.model = {}  # release id -> [state, subject, cost, key, deadline]
            self.answers = {}  # release id -> what ended it
            self.keys = {}  # key -> (cost and subject, release id, or the denial)
            self.lost = {}  # route -> hold that no caller knows of, and that Redis may have or get: as in `model`
            self.late_ends = set()  # (release id, how) that Redis may have or get
            self.retired = set()  # keys of late requests that may have been denied, which the journal does not show
            self.seen = 1  # the last entry of the journal that the model has

        def used(self, subject=None):
            return sum(
                cost
                for state, owner, cost, *_ in self.model.values()
                if state != "cancelled" and subject in (None, owner)
            )

        def expected_outcome(self, request, key, cost):
            earlier = self.keys.get(key)
            if earlier is not None:
                if earlier[0] != request:
                    return IdempotencyConflict
                if isinstance(earlier[1], BudgetExhausted):
                    return BudgetExhausted
                state = self.model[earlier[1]][0]
                if state != "cancelled":
                    return {"held": ReleaseInFlight, "committed": Replay, "spent": ReleaseGone}[state]
            subject = request[1]
            if cost + self.used(subject) > SUBJECT_LIMIT * NANO or cost + self.used() > QUOTA * NANO:
                return BudgetExhausted
            return None

        def news(self):
            """What the journal has that the model did not have. The model has it from now on."""
            found = []
            for entry in go(self.reader.journal(self.tenant, limit=1000)).entries:
                if entry.seq <= self.seen:
                    continue
                self.seen = entry.seq
                if entry.transition == "reserve":
                    if entry.release_id not in self.model:
                        hold = self.lost.pop(entry.route)
                        self.model[entry.release_id] = hold
                        if hold[3]:
                            self.keys[hold[3]] = ((hold[2] / NANO, hold[1]), entry.release_id)
                elif entry.transition in ENDS:
                    release = self.model[entry.release_id]
                    assert release[0] == "held"
                    release[0] = ENDS[entry.transition]
                else:
                    continue  # the account of a new subject
                found.append((entry.transition, entry.release_id))
            return found

        @rule(
            target=releases, epsilon=COSTS, subject=SUBJECTS, key=st.sampled_from([None, "a", "b", "c"]), faults=FAULTS
        )
        def reserve(self, epsilon, subject, key, faults):
            if key in self.retired:
                return None
            request, cost = (epsilon, subject), cost_nano(epsilon)
            hold = ["held", subject, cost, key, self.now + 100]
            expected = self.expected_outcome(request, key, cost)
            if expected is not None and len(faults) > 1:
                faults = faults[:1]  # whether a denial is remembered shows nowhere
            mine = claim(key, repr(request).encode(), self.tenant) if key else None
            before = self.keys.get(key)
            route = f"attempt-{next(_names)}"  # by which the journal shows whose hold it is
            charges = [charge(epsilon, subject=subject)]
            got = attempt(self.ledger.reserve(self.tenant, charges, claim=mine, route=route), faults)
            if isinstance(got, LedgerUnavailable):
                assert fail(faults)
                if faults[0] not in ERRORS:
                    self.lost[route] = hold
                found = self.news()
                assert [transition for transition, _ in found] == ["reserve"] * (LOST_REPLY in faults)
                return found[0][1] if found else None
            if LATE in faults and isinstance(got, BudgetExhausted) and not key:
                self.lost[route] = hold  # it may fit when it arrives
            if isinstance(got, Exception):
                assert type(got) is expected
                assert self.news() == []
                if isinstance(got, BudgetExhausted) and key:
                    if before is not None and isinstance(before[1], BudgetExhausted):
                        assert vars(before[1]) == vars(got)
                    self.keys[key] = (request, got)
                return None
            if expected is Replay:
                assert got == Replay(before[1], before[1].encode())
                assert self.news() == []
                return None
            assert expected is None
            self.model[got.release_id] = hold
            assert self.news() == [("reserve", got.release_id)]
            if key:
                self.keys[key] = (request, got.release_id)
            return got.release_id

        @rule(release=releases, how=st.sampled_from(sorted(ENDS)), faults=FAULTS)
        def end(self, release, how, faults):
            if release is None:
                return
            options = {"response": release.encode()} if how == "commit" else {"reason": "test"}
            state = self.model[release][0]
            answer = attempt(getattr(self.ledger, how)(self.tenant, release, **options), faults)
            if isinstance(answer, LedgerUnavailable):
                assert fail(faults)
                if LATE in faults:
                    self.late_ends.add((how, release))
                assert self.news() == [(how, release)] * (LOST_REPLY in faults and state == "held")
                return
            if isinstance(answer, HoldNotOpen):
                assert state not in ("held", ENDS[how])
                assert answer.state == state
                assert self.news() == []
                return
            assert state in ("held", ENDS[how])
            assert self.news() == [(how, release)] * (state == "held")
            assert self.answers.setdefault(release, answer) == answer or state == "spent"

        @rule()
        def what_is_late_arrives(self):
            go(redis.deliver())
            found = self.news()
            assert {end for end in found if end[0] != "reserve"} <= self.late_ends
            self.retired.update(hold[3] for hold in self.lost.values() if hold[3])
            self.lost.clear()
            self.late_ends.clear()

        @rule(passed_ms=st.integers(0, 150))
        def sweep(self, passed_ms):
            self.now += passed_ms
            overdue = {name for name, one in self.model.items() if one[0] == "held" and one[4] <= self.now}
            position = go(self.activity.positions())[self.tenant]
            assert go(self.reader.expire_overdue({self.tenant: position})) == len(overdue)
            assert {release for _, release in self.news()} == overdue

        @invariant()
        def counters_are_the_model(self):
            assert self.used() <= QUOTA * NANO
            assert all(self.used(subject) <= SUBJECT_LIMIT * NANO for subject in ("p1", "p2", "p3"))
            for state in go(self.reader.accounts(self.tenant)):
                assert min(state.remaining.epsilon_nano, state.committed.epsilon_nano) >= 0
                if state.unit.value == "sentence" and state.subject_hash is None:
                    held = sum(cost for state, _, cost, *_ in self.model.values() if state == "held")
                    assert state.reserved == Amount(held)
                    assert state.committed == Amount(self.used() - held)

        def teardown(self):
            go(redis.deliver())
            assert go(audit_tenant(client, self.tenant)).ok

    return LedgerMachine


@pytest.fixture
def run_machine(go, ledger, client, faulty):
    def run(examples):
        run_state_machine_as_test(
            machine(go, client, faulty),
            settings=settings(
                max_examples=examples,
                stateful_step_count=30,
                derandomize=examples < 100,  # the fast tier fails by a change, not by chance
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
        assert faulty.met > 0

    return run


def test_random_histories(run_machine):
    run_machine(40)


@pytest.mark.slow("crash")
@pytest.mark.parametrize("server", [DeployedServer], indirect=True)
def test_many_random_histories_on_a_deployment(run_machine):
    run_machine(400)
