"""The contract of the sentence-level mechanisms, and what each promises besides."""

import os

import numpy as np
import pytest
import torch
from pack_kit import document

from core.mechanisms.integer_vectors import CodeMatrix
from core.mechanisms.sentences.clipped_cosine import ClippedCosine, clip_level
from core.mechanisms.sentences.deep_candidate import DeepCandidate
from core.mechanisms.sentences.document_selection import DocumentSelection
from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.registry import sentence_mechanism
from core.mechanisms.sentences.release import SENTENCES_MAX, CandidateMechanism, SentenceMechanism
from core.mechanisms.sentences.sentence_codes import SentenceCodes

NANO = 10**9
NAMES = ("clipped_cosine", "deep_candidate")
ALL_NAMES = ("sentence_codes", "document_selection", *NAMES)


@pytest.fixture(params=NAMES)
def mechanism(request: pytest.FixtureRequest, random_pack: DomainPack) -> CandidateMechanism:
    return sentence_mechanism(request.param, random_pack)


@pytest.fixture(params=ALL_NAMES)
def any_mechanism(request: pytest.FixtureRequest, random_pack: DomainPack) -> SentenceMechanism:
    return sentence_mechanism(request.param, random_pack)


def sensitivity_of(mechanism: CandidateMechanism, epsilon_nano: int) -> int:
    if isinstance(mechanism, ClippedCosine):
        return clip_level(mechanism.pack.info.parameters_for(epsilon_nano).threshold, 64)
    return 2


def test_a_batch_scores_every_document_as_alone(mechanism: CandidateMechanism) -> None:
    """Bitwise, for mixed lengths, positions and epsilons, across groups and row chunks."""
    documents = [
        document(k, seed) for seed, k in enumerate([1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 127, 128, 129, 300])
    ]
    epsilons = [NANO * (1 + 7 * (i % 4)) for i in range(len(documents))]
    alone = [mechanism.scores([d], [e])[0] for d, e in zip(documents, epsilons, strict=True)]
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(documents))
        together = mechanism.scores([documents[i] for i in order], [epsilons[i] for i in order])
        for i, scores in zip(order, together, strict=True):
            assert np.array_equal(scores, alone[i])


def test_one_replaced_sentence_moves_no_score_by_more_than_the_sensitivity(mechanism: CandidateMechanism) -> None:
    for epsilon in (1, 5, 20):
        for seed in range(20):
            before = document(1 + seed, seed)
            after = before.clone()
            after[seed // 2] = document(1, 1000 + seed)[0] * (-1) ** seed
            x, y = (mechanism.scores([d], [epsilon * NANO])[0].astype(np.int64) for d in (before, after))
            assert np.abs(x - y).max() <= sensitivity_of(mechanism, epsilon * NANO)


def test_each_document_has_the_knobs_of_its_epsilon(mechanism: CandidateMechanism) -> None:
    lengths = [len(s) for s in mechanism.scores([document(3, 1)] * 4, [NANO // 2, NANO, 6 * NANO, 50 * NANO])]
    expected = [50, 50, 200, 300] if mechanism.name == "clipped_cosine" else [40, 40, 300, 300]
    assert lengths == expected


def test_a_release_is_a_candidates_vector(mechanism: CandidateMechanism) -> None:
    released = mechanism.release([document(k, k) for k in range(1, 40)], [(1 + k % 30) * NANO for k in range(1, 40)])
    source = mechanism.pack.candidates if mechanism.space == "encoder" else mechanism.pack.recoded
    assert released.dtype == np.float32
    candidates = {row.tobytes() for row in source}
    assert all(row.tobytes() in candidates for row in released)
    assert len({row.tobytes() for row in released}) > 5


def test_bad_documents_are_refused_before_anything_is_drawn(
    any_mechanism: SentenceMechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "urandom", lambda _: pytest.fail("a draw was made"))
    good = document(3, 1)
    for documents, epsilons in (
        ([good], [NANO, NANO]), ([good, good[:0]], [NANO, NANO]), ([good, good[:, :10]], [NANO, NANO]),
        ([good, good[0]], [NANO, NANO]), ([good], [0]), ([torch.zeros(SENTENCES_MAX + 1, 64)], [NANO]),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"must|one epsilon"):
            any_mechanism.release(documents, epsilons)


def test_odd_vectors_are_scored_within_bounds(mechanism: CandidateMechanism) -> None:
    """The guarantee holds for every input: zero, huge and non-finite rows still contribute within the bound."""
    odd = document(5, 3)
    odd[0] = 0.0
    odd[1] = 1e30
    odd[2, 3] = float("nan")
    odd[3, 5] = float("inf")
    plain = document(5, 3)
    scores = mechanism.scores([odd, plain], [NANO, NANO])
    assert np.abs(scores[0].astype(int) - scores[1]).max() <= 4 * sensitivity_of(mechanism, NANO)


def test_an_empty_batch_is_empty(any_mechanism: SentenceMechanism) -> None:
    assert any_mechanism.release([], []).shape == (0, 64)


def test_the_device_passes_its_check(any_mechanism: SentenceMechanism) -> None:
    assert any_mechanism.self_check()


def test_an_inexact_product_fails_the_check(random_pack: DomainPack, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = CodeMatrix.dots
    monkeypatch.setattr(CodeMatrix, "dots", lambda self, rows: exact(self, rows).bfloat16().to(torch.int32))
    assert not ClippedCosine(random_pack).self_check()
    assert not SentenceCodes(random_pack).self_check()
    assert not DocumentSelection(random_pack).self_check()


def test_a_row_that_sees_its_companions_fails_the_check(
    random_pack: DomainPack, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = DeepCandidate._project
    monkeypatch.setattr(DeepCandidate, "_project", lambda self, v, count: alone(self, v, count) + (len(v) > 16))
    assert not DeepCandidate(random_pack).self_check()


def test_the_recoder_uses_one_thread(random_pack: DomainPack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rounding must not depend on how many sentences a batch has, and the number of threads can."""
    linear, used, before = torch.nn.functional.linear, set(), torch.get_num_threads()

    def recorded(*arguments: torch.Tensor) -> torch.Tensor:
        used.add(torch.get_num_threads())
        return linear(*arguments)

    monkeypatch.setattr(torch.nn.functional, "linear", recorded)
    recoder = DeepCandidate(random_pack)._recoder
    torch.set_num_threads(3)
    try:
        for rows in (1, 500):
            recoder(torch.ones(rows, 64))
    finally:
        torch.set_num_threads(before)
    assert used == {1}


def test_depth_counts_sentences_at_or_above_each_candidate(random_pack: DomainPack) -> None:
    """Against the definition in plain integers, in the recoded space."""
    mechanism = DeepCandidate(random_pack)
    rows = document(13, 4)
    scores = mechanism.scores([rows], [20 * NANO])[0]
    recoded = rows.numpy()
    for index, (weight, bias) in enumerate(random_pack.recoder):
        recoded = np.maximum(recoded, 0.0) if index else recoded
        recoded = recoded @ weight.T + bias
    assert np.allclose(mechanism._recoder(rows).numpy(), recoded, atol=1e-5)
    factor = np.float32(1.0 / np.abs(random_pack.recoded).max())

    def projected(vectors: np.ndarray) -> np.ndarray:
        fine = np.round(np.clip((vectors * factor).astype(np.float64), -4, 4) * 2**14)
        return fine @ np.round(random_pack.projections.astype(np.float64) * 2**14).T

    s, f = projected(mechanism._recoder(rows).numpy()), projected(random_pack.recoded)
    above = (s[:, None, :] >= f[None, :, :]).sum(axis=0)
    assert np.array_equal(scores, -np.abs(2 * above - len(rows)).max(axis=1))


def test_unknown_names_are_refused(random_pack: DomainPack) -> None:
    with pytest.raises(ValueError, match="unknown"):
        sentence_mechanism("softmax", random_pack)
