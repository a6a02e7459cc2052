"""Privacy audits of the releases of synthesis, with few runs; `make audit` has more (tests/audits/tables.py).

AUDIT_RUNS enlarges the audits.
"""

import pytest
from audit_kit import RUNS
from audits.bug import Bug, tried
from audits.bugs_tables import BUGS
from audits.kit import Scale
from audits.tables import KINDS, audited

pytestmark = pytest.mark.slow("statistics")


@pytest.mark.parametrize("name", KINDS)
def test_the_empirical_bound_stays_under_the_claim(name: str) -> None:
    found = audited(KINDS[name], Scale(RUNS, 200, 1), seed=1)
    assert found.bound <= found.claim
    assert found.bound >= 0.8 * found.claim  # the audit has power: a quarter more would be seen


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_caught(bug: Bug) -> None:
    assert tried(bug) is not None
