"""Black-box privacy audits of `sentence_codes`, for both kinds of noise, on worst-case neighbours.

Codes mean the coordinates of their own, so that a release shows the whole noisy histogram. The event is the one with
the largest likelihood ratio; the bound is Clopper-Pearson's, one-sided, at a joint error rate of 1e-6. AUDIT_RUNS
enlarges the audits.
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from audit_kit import RUNS, epsilon_bound

from core.mechanisms.samplers.exact import IntArray
from core.mechanisms.sentences import sentence_codes
from core.mechanisms.sentences.domain_pack import CodeArray, CodeTable, DomainPack
from core.mechanisms.sentences.pack_facts import CodeNoise, MechanismParameters
from core.mechanisms.sentences.sentence_codes import SentenceCodes

pytestmark = pytest.mark.slow("statistics")

SIZE = 3
E = torch.eye(8)[:1]
# one sentence against another, beside companions that stay
DOCUMENT, NEIGHBOUR = torch.cat([E, E, E]), torch.cat([E, E, -E])
Documents = tuple[torch.Tensor, torch.Tensor]


@pytest.fixture(params=list(CodeNoise))
def mechanism(request: pytest.FixtureRequest, pack_of: Callable[..., DomainPack]) -> SentenceCodes:
    """Centroids -e, e and one far from both."""
    parameters = (MechanismParameters(0.5, SIZE, request.param, 1.0, 1, 1, 1),)
    pack = pack_of(E.numpy(), parameters=parameters)
    grid = np.zeros((SIZE, 8), dtype=np.int8)
    grid[:, 0] = (-100, 100, 0)
    grid[2, 1] = 127
    table = CodeTable(request.param, np.eye(8, dtype=np.float32)[:SIZE], np.zeros(8, dtype=np.float32))
    return SentenceCodes(_with(pack, grid, table))


def _with(pack: DomainPack, grid: CodeArray, table: CodeTable) -> DomainPack:
    return DomainPack(
        info=pack.info,
        space=pack.space,
        codebooks={SIZE: grid},
        code_tables=(table,),
        candidates=pack.candidates,
        centre=pack.centre,
        recoded=pack.recoded,
        projections=pack.projections,
        recoder=pack.recoder,
    )


def histograms(mechanism: SentenceCodes, document: torch.Tensor, epsilon: float, runs: int) -> IntArray:
    released = mechanism.release([document] * runs, [round(epsilon * 1e9)] * runs)
    return np.rint(released[:, :SIZE] * len(document)).astype(np.int64)


def epsilon_lower(mechanism: SentenceCodes, documents: Documents, epsilon: float, runs: int) -> float:
    """A lower bound on epsilon that holds but with probability 1e-6."""
    # nothing more likely under the neighbour than: no fewer of code 0, no more of code 1, than it has itself
    often, seldom = (
        int(((h[:, 0] >= 1) & (h[:, 1] <= 2)).sum())
        for h in (histograms(mechanism, document, epsilon, runs) for document in documents)
    )
    return epsilon_bound(often, seldom, runs)


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_the_empirical_bound_stays_under_the_claim(mechanism: SentenceCodes, epsilon: float) -> None:
    one = (NEIGHBOUR[2:], DOCUMENT[2:]) if _responds(mechanism) else (NEIGHBOUR, DOCUMENT)
    bound = epsilon_lower(mechanism, one, epsilon, RUNS)
    assert bound <= epsilon
    assert bound >= 0.75 * epsilon  # the audit has power


def _responds(mechanism: SentenceCodes) -> bool:
    return mechanism.pack.code_tables[0].noise is CodeNoise.RESPONSES


@pytest.mark.parametrize("bug", ["half noise", "sensitivity halved", "off by one", "data-dependent projection"])
def test_planted_bugs_are_caught(mechanism: SentenceCodes, bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    respond, add = sentence_codes.randomised_response, sentence_codes.two_sided_geometric
    documents = (NEIGHBOUR[2:], DOCUMENT[2:]) if _responds(mechanism) else (NEIGHBOUR, DOCUMENT)
    if bug == "half noise":
        monkeypatch.setattr(
            sentence_codes,
            "randomised_response",
            lambda codes, *, size, epsilon_nano: respond(codes, size=size, epsilon_nano=2 * epsilon_nano),
        )
        monkeypatch.setattr(
            sentence_codes,
            "two_sided_geometric",
            lambda count, *, epsilon_nano, sensitivity: add(
                count, epsilon_nano=2 * epsilon_nano, sensitivity=sensitivity
            ),
        )
    elif bug == "sensitivity halved":  # one bin's change instead of two; for responses, the odds of two sentences
        monkeypatch.setattr(sentence_codes, "HISTOGRAM_SENSITIVITY", 1)
        monkeypatch.setattr(
            sentence_codes,
            "randomised_response",
            lambda codes, *, size, epsilon_nano: respond(codes, size=size, epsilon_nano=2 * epsilon_nano),
        )
    elif bug == "off by one":  # all sentences but the last, all bins but one
        monkeypatch.setattr(
            sentence_codes,
            "randomised_response",
            lambda codes, *, size, epsilon_nano: np.append(
                respond(codes[:-1], size=size, epsilon_nano=epsilon_nano), codes[-1:]
            ),
        )
        monkeypatch.setattr(sentence_codes, "two_sided_geometric", _without_one(add))
        if _responds(mechanism):
            documents = (NEIGHBOUR[2:], DOCUMENT[2:])
            assert _last_bound(mechanism, documents) > 1.0
            return
    else:  # each sentence seen from its own document's mean
        plain = SentenceCodes.codes
        monkeypatch.setattr(
            SentenceCodes, "codes", lambda self, rows, size: plain(self, [r - r.mean(dim=0) for r in rows], size)
        )
        documents = (DOCUMENT, NEIGHBOUR)
        assert _shifted_bound(mechanism, documents) > 1.0
        return
    assert epsilon_lower(mechanism, documents, 1.0, 60_000) > 1.0


def _without_one(add: Callable[..., IntArray]) -> Callable[..., IntArray]:
    def broken(count: int, *, epsilon_nano: int, sensitivity: int) -> IntArray:
        noise = add(count, epsilon_nano=epsilon_nano, sensitivity=sensitivity)
        noise[1::SIZE] = 0
        return noise

    return broken


def _last_bound(mechanism: SentenceCodes, documents: Documents) -> float:
    """The last of many documents is the one that the noise forgot."""
    runs = 300
    often, seldom = (
        sum(int(histograms(mechanism, document, 1.0, 2)[-1, 0] >= 1) for _ in range(runs)) for document in documents
    )
    return epsilon_bound(often, seldom, runs)


def _shifted_bound(mechanism: SentenceCodes, documents: Documents) -> float:
    """All sentences of the first document fall on one code, two of the second's on another."""
    runs = 60_000
    often, seldom = (
        int((h[:, 1] <= 0).sum()) if _responds(mechanism) else int(((h[:, 0] >= 3) & (h[:, 1] <= 0)).sum())
        for h in (histograms(mechanism, document, 1.0, runs) for document in documents)
    )
    return epsilon_bound(often, seldom, runs)
