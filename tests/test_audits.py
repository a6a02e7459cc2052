"""The audits' own parts: bounds that hold, attacks that find what there is, bugs that are caught."""

import math
import re

import numpy as np
import pytest
from audit_kit import epsilon_bound, mu_bound, one_run_bound
from audits.audited import RECORD, digests, recorded
from audits.bug import Bug, check, tried
from audits.kit import Case, Found, Scale, audit, by_law, promised, search
from audits.page import AuditRow, BugRow, sections, title_of, written
from audits.registry import AUDITS, BUGS, codes
from audits.sentences import exponential_law, permute_and_flip_law
from audits.vectors import mechanism_of, metric_case
from scipy import stats

from core.amounts import NANO
from core.mechanisms.samplers.exact import permute_and_flip
from core.mechanisms.vectors.metric import MetricMechanism

pytestmark = pytest.mark.slow("planted bug")

DIGESTS = digests()
CODES = codes(DIGESTS)


def responses(epsilon: float, *, claimed: float | None = None, known: bool = True) -> Case:
    """Randomised response of one bit at `epsilon`, which claims `claimed`."""
    stays = 1 / (1 + math.exp(-epsilon))
    rng = np.random.default_rng()

    def draw(side: int, runs: int) -> np.ndarray:
        return (rng.random(runs) < (stays, 1 - stays)[side]).astype(np.float64)

    _, law = by_law(np.array([stays, 1 - stays]), np.array([1 - stays, stays]))
    law = type(law)(np.array([1.0, 0.0]), law.first, law.second)
    return Case("one bit", claimed or epsilon, draw, law if known else None)


def test_the_bound_is_below_the_truth_as_often_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit_kit.ERROR_RATE", 0.05)
    rng = np.random.default_rng(3)
    stays = 1 / (1 + math.exp(-1.0))
    often, seldom = rng.binomial(500, [[stays], [1 - stays]], size=(2, 1_000))
    above = sum(epsilon_bound(int(a), int(b), 500) > 1.0 for a, b in zip(often, seldom, strict=True))
    assert above <= 50 + 25


@pytest.mark.parametrize("known", [True, False])
def test_an_audit_of_randomised_response_stays_under_its_epsilon_and_near_it(known: bool) -> None:
    found = audit(iter([responses(2.0, claimed=1.0, known=known)]), Scale(50_000, 1, 5_000))
    assert found.claim == 1.0
    assert 1.8 < found.bound <= 2.0


def test_laplace_with_half_its_noise_is_over_the_claim() -> None:
    mechanism = mechanism_of("laplace", 1.0, 1)
    assert isinstance(mechanism, MetricMechanism)
    points = np.array([[1.0], [-1.0]], dtype=np.float32)
    assert audit(metric_case(mechanism, *points), Scale(30_000, 3, 5_000)).bound <= 2.0
    mechanism.scale /= 2
    assert audit(metric_case(mechanism, *points), Scale(30_000, 3, 5_000)).bound > 2.0


@pytest.mark.parametrize("known", [True, False])
def test_the_search_keeps_the_pair_that_proves_most_of_its_claim(known: bool) -> None:
    cases = [responses(truth, claimed=3.0, known=known) for truth in (0.5, 2.5, 1.0)]
    strongest, looked = search(iter(cases), Scale(20_000, 10, 5_000))
    assert (strongest.case, looked) == (cases[1], 3)


def test_the_threshold_weighs_ratio_against_frequency() -> None:
    """An outcome of a larger ratio that hardly ever comes out proves less than a common one."""
    ratio, law = by_law(np.array([1e-5, 0.5, 0.49999]), np.array([1e-8, 0.1, 0.89999999]))
    assert promised(law, 10_000)[1] == ratio[1]
    assert promised(law, 100_000_000)[1] == ratio[0]


def test_an_event_at_delta_proves_less() -> None:
    assert epsilon_bound(600, 100, 1_000) > epsilon_bound(600, 100, 1_000, delta=0.2) > 0
    assert epsilon_bound(100, 100, 1_000, delta=0.2) == -math.inf


def test_the_bound_on_mu_is_that_of_two_normal_laws() -> None:
    rng = np.random.default_rng(5)
    hits = [int((rng.normal(mean, 1, 100_000) > 0.5).sum()) for mean in (1.0, 0.0)]
    assert 0.95 < mu_bound(*hits, 100_000) <= 1.0


def test_one_run_proves_what_its_guesses_do() -> None:
    """Without delta: the largest epsilon whose binomial tail stays within the error rate."""
    bound = one_run_bound(1_000, 200, 180, delta=0.0)
    chance = 1 / (1 + math.exp(-bound))
    assert stats.binom.sf(179, 200, chance) == pytest.approx(1e-6, rel=1e-3)
    assert one_run_bound(1_000, 200, 180, delta=1e-9) <= bound
    assert one_run_bound(1_000, 200, 105, delta=0.0) == -math.inf


def test_the_law_of_permute_and_flip_is_what_it_draws() -> None:
    scores = np.array([0, 3, 7, 10], dtype=np.int64)
    law = permute_and_flip_law(scores.astype(np.float64), 2.0, 5)
    drawn = np.bincount([permute_and_flip(scores, epsilon_nano=2 * NANO, sensitivity=5) for _ in range(20_000)])
    assert stats.chisquare(drawn, law * 20_000).pvalue > 1e-6
    assert exponential_law(np.array([0.0, 10.0]), 2.0, 5)[1] == pytest.approx(1 / (1 + math.exp(-2)))


def test_a_bug_is_planted_for_its_detector_alone() -> None:
    state = {"value": 1}
    holds = check("the value is 1", lambda: state["value"] == 1)
    planted = Bug("another value", "nothing", "the value", lambda patch: patch.setitem(state, "value", 2), holds)
    assert tried(planted) == "check: the value is 1"
    assert holds.flags() is None


def test_the_registry_has_enough_and_names_each_once() -> None:
    assert len({audit.name for audit in AUDITS}) == len(AUDITS)
    assert len({(bug.mechanism, bug.name) for bug in BUGS}) == len(BUGS) >= 130
    detectors = {bug.detector.name: bug.detector for bug in BUGS}
    assert all(detectors[bug.detector.name] is bug.detector for bug in BUGS), "a clean run stands for each by name"
    others = {"over HTTP", "conversations"}  # where the worst case of the claim may not exist
    assert all(audit.bar >= 0.6 for audit in AUDITS if audit.claim == "pure" and audit.group not in others)


def test_a_row_fails_above_its_claim_and_under_its_bar() -> None:
    (row, *_) = AUDITS
    found = audit(iter([responses(2.0)]), Scale(20_000, 1, 5_000))
    assert not AuditRow(row, found, 1.0).fails(bar=True)
    over = type(found)(2.1, 2.0, 1, "")
    under = type(found)(0.1, 2.0, 1, "")
    assert AuditRow(row, over, 1.0).fails(bar=False)
    assert AuditRow(row, under, 1.0).fails(bar=True)
    assert not AuditRow(row, under, 1.0).fails(bar=False)
    assert AuditRow(row, "an error", 1.0).fails(bar=False)
    page = written(
        [AuditRow(row, over, 1.0)], [BugRow(BUGS[0], None)], commit="", minutes=1, codes=dict.fromkeys(CODES, "0" * 16)
    )
    assert recorded(page) == {title_of(row): "0" * 16, BUGS[0].mechanism: "0" * 16}


def changed(row: str) -> set[str]:
    """The sections whose code is another one if this row of audited code is."""
    return {title for title, code in codes(DIGESTS | {row: "0" * 16}).items() if code != CODES[title]}


def test_the_sections_that_run_changed_code_are_found_by_imports() -> None:
    assert changed("tables") >= {"Tables", "synthesis"}
    assert not changed("service") & {"Sentences", "Vectors", "Tables", "Training"}
    assert changed("service") >= {"Over http", "Conversations"}
    assert changed("audits bugs_texts") == {"fill dp", "fill metric_dp"}
    assert changed("audits") == {title_of(audit) for audit in AUDITS} | {bug.mechanism for bug in BUGS}


def test_a_page_keeps_the_sections_that_a_run_has_not_repeated() -> None:
    page = RECORD.read_text()
    again = AuditRow(AUDITS[0], Found(1.9, 2.0, 100, "an attack"), 0.0)
    after = written([again], [], commit="abc", minutes=1, codes=CODES, kept=sections(page))
    assert sections(after).keys() == sections(page).keys()
    repeated = {title for title, text in sections(after).items() if text != sections(page)[title]}
    assert repeated == {title_of(AUDITS[0])}
    assert f"commit `abc`, code `{CODES[title_of(AUDITS[0])]}`" in sections(after)[title_of(AUDITS[0])]
    with pytest.raises(ValueError, match="run all audits"):
        sections(re.sub(r"\d+ of (\d+) audits held", r"0 of \1 audits held", page))
