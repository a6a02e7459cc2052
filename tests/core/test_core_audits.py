"""Privacy audits of the mechanisms of core, with few runs, and the bugs planted for them; `make audit` has more."""

import pytest
from audits import (
    bugs_routing,
    bugs_samplers,
    bugs_sentences,
    bugs_tables,
    bugs_texts,
    bugs_vectors,
    routing,
    sentences,
    tables,
    texts,
    vectors,
)
from audits.bug import Bug, tried
from audits.kit import QUICK, Audit

pytestmark = pytest.mark.slow("statistics")

AUDITS = [audit for module in (sentences, routing, vectors, texts, tables) for audit in module.audits()]
PLANTED = (bugs_samplers, bugs_sentences, bugs_routing, bugs_vectors, bugs_texts, bugs_tables)


@pytest.mark.parametrize("audit", AUDITS, ids=lambda audit: audit.name)
def test_the_empirical_bound_stays_under_the_claim(audit: Audit) -> None:
    found = audit.run(QUICK)
    assert found.bound <= found.claim
    assert found.bound >= 0.7 * audit.bar * found.claim  # the audit has power


@pytest.mark.parametrize("bug", [bug for module in PLANTED for bug in module.BUGS], ids=lambda bug: bug.name)
def test_a_planted_bug_is_caught(bug: Bug) -> None:
    assert tried(bug) is not None
