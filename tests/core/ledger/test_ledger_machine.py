"""Random histories against a model: the counters never leave what the model says, nor the limit."""

from __future__ import annotations

import itertools

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from ledger_kit import MASTER_KEY, charge, claim, limits

from core.amounts import NANO, Amount, cost_nano
from core.errors import BudgetExhausted, HoldNotOpen, IdempotencyConflict, LedgerError, ReleaseGone, ReleaseInFlight
from core.ledger.activity import TenantActivity
from core.ledger.hash_chain.audit import audit_tenant
from core.ledger.ledger import Ledger
from core.ledger.records import Replay

SUBJECT_LIMIT, QUOTA = 3, 5
COSTS = st.sampled_from([0.1, 0.7, 1, 1.5, 3])
SUBJECTS = st.sampled_from(["p1", "p2", "p3"])
ENDS = {"commit": "committed", "cancel": "cancelled", "expire": "spent"}
_names = itertools.count()


def machine(go, client):
    def attempt(coroutine):
        try:
            return go(coroutine)
        except LedgerError as error:
            return error

    class LedgerMachine(RuleBasedStateMachine):
        releases = Bundle("releases")

        def __init__(self):
            super().__init__()
            self.now = 1_000_000
            self.ledger = Ledger(client, MASTER_KEY, hold_ttl_ms=100, clock=lambda: self.now)
            self.activity = TenantActivity(client)
            self.tenant = f"machine-{next(_names)}"
            go(self.ledger.open_tenant(self.tenant, limits=limits(QUOTA), subject_limits=limits(SUBJECT_LIMIT)))
            self.model = {}  # release id -> [state, subject, cost, key, deadline]
            self.answers = {}  # release id -> what ended it
            self.keys = {}  # key -> (fingerprinted cost and subject, release id, or the denial)

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

        @rule(target=releases, epsilon=COSTS, subject=SUBJECTS, key=st.sampled_from([None, "a", "b", "c"]))
        def reserve(self, epsilon, subject, key):
            request, cost = (epsilon, subject), cost_nano(epsilon)
            expected = self.expected_outcome(request, key, cost)
            mine = claim(key, repr(request).encode(), self.tenant) if key else None
            before = self.keys.get(key)
            got = attempt(self.ledger.reserve(self.tenant, [charge(epsilon, subject=subject)], claim=mine))
            if isinstance(got, Exception):
                assert type(got) is expected
                if isinstance(got, BudgetExhausted) and key:
                    if before is not None and isinstance(before[1], BudgetExhausted):
                        assert vars(before[1]) == vars(got)
                    self.keys[key] = (request, got)
                return None
            if expected is Replay:
                assert got == Replay(before[1], before[1].encode())
                return None
            assert expected is None
            self.model[got.release_id] = ["held", subject, cost, key, self.now + 100]
            if key:
                self.keys[key] = (request, got.release_id)
            return got.release_id

        @rule(release=releases, how=st.sampled_from(sorted(ENDS)))
        def end(self, release, how):
            if release is None:
                return
            options = {"response": release.encode()} if how == "commit" else {"reason": "test"}
            state = self.model[release][0]
            answer = attempt(getattr(self.ledger, how)(self.tenant, release, **options))
            if isinstance(answer, HoldNotOpen):
                assert state not in ("held", ENDS[how])
                assert answer.state == state
                return
            assert state in ("held", ENDS[how])
            assert self.answers.setdefault(release, answer) == answer or state == "spent"
            self.model[release][0] = ENDS[how]

        @rule(passed_ms=st.integers(0, 150))
        def sweep(self, passed_ms):
            self.now += passed_ms
            overdue = [r for r in self.model.values() if r[0] == "held" and r[4] <= self.now]
            position = go(self.activity.positions())[self.tenant]
            assert go(self.ledger.expire_overdue({self.tenant: position})) == len(overdue)
            for release in overdue:
                release[0] = "spent"

        @invariant()
        def counters_are_the_model(self):
            for state in go(self.ledger.accounts(self.tenant)):
                assert min(state.remaining.epsilon_nano, state.committed.epsilon_nano) >= 0
                if state.unit.value == "sentence" and state.subject_hash is None:
                    held = sum(cost for state, _, cost, *_ in self.model.values() if state == "held")
                    assert state.reserved == Amount(held)
                    assert state.committed == Amount(self.used() - held)

        def teardown(self):
            assert go(audit_tenant(self.ledger._client, self.tenant)).ok

    return LedgerMachine


def test_random_histories(go, ledger, client):
    run_state_machine_as_test(
        machine(go, client),
        settings=settings(
            max_examples=60,
            stateful_step_count=30,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
