"""`document_selection`: its contract, its price and the law of what it releases."""

import math

import numpy as np
import pytest
import torch
from law_kit import follows
from pack_kit import document, make_pack

from core.mechanisms.sentences.document_selection import DocumentSelection, subset_size
from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.release import SENTENCES_MAX

NANO = 10**9
LENGTHS = [1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 127, 128, 129, 300]


@pytest.fixture
def mechanism(random_pack: DomainPack) -> DocumentSelection:
    return DocumentSelection(random_pack)


def test_a_document_has_the_same_subset_alone_and_in_any_batch(mechanism: DocumentSelection) -> None:
    """Bitwise, for mixed lengths and positions, across chunks of rows."""
    for members in [1, 20, 299]:
        documents = [document(k, seed) for seed, k in enumerate(LENGTHS)]
        alone = np.concatenate([mechanism.subsets([each], members) for each in documents])
        for seed in range(5):
            order = np.random.default_rng(seed).permutation(len(documents))
            shuffled = [documents[i] for i in order]
            assert np.array_equal(mechanism.subsets(shuffled, members), alone[order])


def test_a_batch_of_more_documents_than_a_chunk(mechanism: DocumentSelection) -> None:
    documents = [document(1 + seed % 3, seed) for seed in range(300)]
    together = mechanism.subsets(documents, 7)
    assert np.array_equal(together, np.concatenate([mechanism.subsets([each], 7) for each in documents]))
    nearest = mechanism.subsets(documents, 1)[:, 0]
    assert np.array_equal(mechanism.select(documents, [60 * NANO] * 300), nearest)


def test_the_order_of_the_sentences_does_not_matter(mechanism: DocumentSelection) -> None:
    rows = document(200, 3)
    assert np.array_equal(mechanism.subsets([rows], 9), mechanism.subsets([rows.flip(0)], 9))


def test_the_subset_holds_the_nearest_candidates(mechanism: DocumentSelection) -> None:
    """Against centred cosines of means in double precision, up to the rounding of codes."""
    documents = [document(k, k) for k in range(1, 30)]
    pack = mechanism.pack
    directions = (pack.candidates - pack.centre).astype(np.float64)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    for each, subset in zip(documents, mechanism.subsets(documents, 12), strict=True):
        mean = each.numpy().astype(np.float64).mean(axis=0) - pack.centre
        cosines = directions @ mean / np.linalg.norm(mean)
        assert cosines[subset].min() > np.delete(cosines, subset).max() - 0.01
        assert (np.diff(subset) > 0).all()


def test_a_document_of_one_sentence(mechanism: DocumentSelection) -> None:
    """A sentence that is a candidate has itself as its nearest; so has that sentence many times over."""
    candidates = torch.from_numpy(mechanism.pack.candidates)
    assert np.array_equal(mechanism.subsets(list(candidates[:, None]), 1)[:, 0], np.arange(300))
    assert mechanism.subsets([candidates[17:18].repeat(SENTENCES_MAX, 1)], 1).tolist() == [[17]]
    assert mechanism.release([candidates[17:18]], [50 * NANO])[0] == pytest.approx(mechanism.pack.candidates[17])


def test_ties_go_to_the_smaller_index() -> None:
    """Equal candidates, a document at the centre and one without a finite number: always exactly n."""
    e = np.eye(8, dtype=np.float32)
    mechanism = DocumentSelection(make_pack(np.concatenate([e[:1]] * 3 + [e[1:2]] * 4 + [-e[:1]])))
    first, second = torch.from_numpy(e[:1]), torch.from_numpy(e[1:2])
    nowhere = torch.full((2, 8), float("nan"))
    for members, expected in (
        (2, [[0, 1], [3, 4], [0, 1], [0, 1]]),
        (5, [[0, 1, 2, 3, 4], [0, 3, 4, 5, 6], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]),
    ):
        documents = [first, second, torch.cat([first, -first]), nowhere]
        assert mechanism.subsets(documents, members).tolist() == expected


def test_odd_vectors_are_ranked(mechanism: DocumentSelection) -> None:
    odd = document(5, 3)
    odd[0], odd[1] = 0.0, 1e30
    odd[2, 3], odd[3, 5] = float("nan"), -float("inf")
    plain = document(5, 3)
    subsets = mechanism.subsets([odd, plain], 20)
    assert subsets.shape == (2, 20)
    assert np.array_equal(subsets[1:], mechanism.subsets([plain], 20))


def test_a_release_is_a_public_candidate_and_near_at_a_large_epsilon(mechanism: DocumentSelection) -> None:
    documents = [document(k, k) for k in range(1, 40)]
    candidates = {row.tobytes() for row in mechanism.pack.candidates}
    for epsilon in (1, 60):
        released = mechanism.release(documents, [epsilon * NANO] * 39)
        assert released.dtype == np.float32
        assert all(row.tobytes() in candidates for row in released)
    assert np.array_equal(released, mechanism.pack.candidates[mechanism.subsets(documents, 1)[:, 0]])


def test_each_document_has_its_own_epsilon(mechanism: DocumentSelection) -> None:
    """In one call: certain ones at epsilon 60, next to uniform ones at 1e-9."""
    documents = [document(2, seed) for seed in range(400)]
    released = mechanism.select(documents, [60 * NANO, 1] * 200)
    nearest = mechanism.subsets(documents, 1)[:, 0]
    assert np.array_equal(released[::2], nearest[::2])
    assert (released[1::2] == nearest[1::2]).sum() < 20


def test_one_candidate_is_released_whatever_the_document() -> None:
    mechanism = DocumentSelection(make_pack(np.eye(8, dtype=np.float32)[:1]))
    assert mechanism.self_check()
    assert mechanism.select([document(3, 1, 8)] * 2, [NANO, 1]).tolist() == [0, 0]


def test_an_inexact_sum_fails_the_check(mechanism: DocumentSelection, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = DocumentSelection._means
    monkeypatch.setattr(DocumentSelection, "_means", lambda self, documents: exact(self, documents).bfloat16().double())
    assert not mechanism.self_check()


def test_a_document_that_sees_its_companions_fails_the_check(
    mechanism: DocumentSelection, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = DocumentSelection.subsets

    def leaking(self: DocumentSelection, documents: list[torch.Tensor], members: int) -> np.ndarray:
        return alone(self, documents, members) ^ (len(documents) > 1)

    monkeypatch.setattr(DocumentSelection, "subsets", leaking)
    assert not mechanism.self_check()


def information(candidates: int, members: int, epsilon: float) -> float:
    """Mutual information of the release and a uniform item, in nats."""
    inside = members / (members + (candidates - members) * math.exp(-epsilon))
    other = 1 - inside
    return inside * math.log(inside * candidates / members) + other * math.log(
        other * candidates / (candidates - members)
    )


def test_the_subset_size_maximises_the_information() -> None:
    """Of all sizes, up to the rounding of the real optimum to an integer."""
    for epsilon in [0.01, 0.5, 1.0, 3.0, 6.0, 8.0, 10.0]:
        for candidates in [2, 3, 64, 4096]:
            chosen = subset_size(candidates, round(epsilon * NANO))
            best = max(range(1, candidates), key=lambda n: information(candidates, n, epsilon))
            assert abs(chosen - best) <= 1
            assert information(candidates, chosen, epsilon) > 0.95 * information(candidates, best, epsilon)


def test_the_subset_size_is_public_and_never_out_of_range() -> None:
    for epsilon_nano in (1, 10**5, 999_999, 10**6, NANO, 30 * NANO, 1_000 * NANO, 4_000_000 * NANO):
        for candidates in (2, 3, 5, 300, 65_536):
            assert 1 <= subset_size(candidates, epsilon_nano) <= candidates - 1
    assert [subset_size(4096, e * NANO) for e in (1, 3, 6, 10, 25)] == [1387, 463, 51, 2, 1]
    assert abs(subset_size(65_536, 999_999) - subset_size(65_536, 1_000_001)) <= 1


LABEL = 1e-3  # a candidate's last coordinate is its number times this, so that a release tells which it is
NEAR, FAR = 8, 13


def test_releases_follow_the_law() -> None:
    """Candidates around a direction and around its opposite. The false-alarm rate of the chi-square test is 1e-6."""
    for epsilon in [1.0, 4.0]:
        e = np.eye(8, dtype=np.float32)
        side = np.where(np.arange(NEAR + FAR) < NEAR, 1.0, -1.0)[:, None]
        candidates = (side * e[0] + LABEL * np.arange(NEAR + FAR)[:, None] * e[7]).astype(np.float32)
        runs = 20_000
        mechanism = DocumentSelection(make_pack(candidates))
        vectors = mechanism.release([torch.from_numpy(e[:1])] * runs, [round(epsilon * NANO)] * runs)
        counts = np.bincount(np.round(vectors[:, 7] / LABEL).astype(int), minlength=NEAR + FAR)
        law = np.ones(NEAR + FAR)
        law[: subset_size(NEAR + FAR, round(epsilon * NANO))] = math.exp(epsilon)
        assert follows(counts, law)
