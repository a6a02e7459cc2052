"""Deterministic checks and distribution tests that flag planted bugs which no bound on epsilon would show."""

import os
import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from audits.sentences import clusters, pool
from audits.vectors import mechanism_of
from pack_kit import make_pack
from scipy import stats

from core.amounts import NANO
from core.mechanisms.samplers import exact
from core.mechanisms.sentences.clipped_cosine import ClippedCosine
from core.mechanisms.sentences.deep_candidate import DeepCandidate
from core.mechanisms.sentences.document_selection import DocumentSelection
from core.mechanisms.vectors.codebook import CodebookMechanism

FALSE_ALARM = 1e-6


def sentences_ignore_their_company() -> bool:
    """Scores and subsets of a document, alone and between others; and the mechanisms' own check of the device."""
    rng = np.random.default_rng(31)
    for _ in range(4):
        points = clusters(rng)
        pack = make_pack(points)
        sentences = pool(rng, points)
        documents = [torch.from_numpy(sentences[rng.integers(len(sentences), size=k)]) for k in (1, 3, 2, 17, 1, 5)]
        for kind in (ClippedCosine, DeepCandidate):
            mechanism = kind(pack)
            if not mechanism.self_check():
                return False
            together = mechanism.scores(documents, [NANO] * len(documents))
            for document, row in zip(documents, together, strict=True):
                if not np.array_equal(mechanism.scores([document], [NANO])[0], row):
                    return False
        selection = DocumentSelection(pack)
        alone = np.concatenate([selection.subsets([each], 1) for each in documents])
        if not np.array_equal(selection.subsets(documents, 1), alone):
            return False
    return True


def draws_follow_the_laws() -> bool:
    """Chi-square tests of the samplers at a false-alarm rate of 1e-6 each."""
    scores = np.array([0, 6, 9, 9, 30], dtype=np.int64)
    weights = np.exp(2.0 * (scores - 30) / (2 * 3))
    counts = np.bincount(
        [exact.exponential_mechanism(scores, epsilon_nano=2 * NANO, sensitivity=3) for _ in range(20_000)], minlength=5
    )
    if stats.chisquare(counts, weights / weights.sum() * counts.sum()).pvalue < FALSE_ALARM:
        return False
    ones = np.bincount([exact.uniform_below(3) for _ in range(20_000)], minlength=3)
    if stats.chisquare(ones).pvalue < FALSE_ALARM:
        return False
    many = exact.uniform_indices(50_000, 3 << 30)
    return bool(stats.chisquare(np.bincount(many >> 30, minlength=3)).pvalue >= FALSE_ALARM)


class _Zeros(Exception):
    """The stream of zeros was read too often."""


def every_outcome_can_occur() -> bool:
    """The smallest uniform there is accepts a coin of any positive bias."""
    scores = np.array([0, 10_000], dtype=np.int64)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "urandom", lambda count: bytes(count))
        coin = bool(exact.bernoulli_exp(np.array([2_000]), 1)[0])
    reads = iter(range(1_000))

    def zeros(count: int) -> bytes:
        if next(reads, None) is None:
            raise _Zeros
        return bytes(count)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "urandom", zeros)
        try:
            return coin and exact.exponential_mechanism(scores, epsilon_nano=2 * NANO, sensitivity=10) == 0
        except _Zeros:
            return False


def in_two_children(draw: Callable[[], bytes]) -> tuple[bytes, bytes]:
    """What `draw` gives in two children forked from one parent that has drawn before."""
    draw()
    found = []
    for _ in range(2):
        out, into = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.write(into, draw()[:1_024])
            finally:
                os._exit(0)
        os.close(into)
        with os.fdopen(out, "rb") as stream:
            found.append(stream.read())
        os.waitpid(pid, 0)
    return found[0], found[1]


def forks_have_streams_of_their_own() -> bool:
    random.seed(1)  # a state that a child would inherit
    one, other = in_two_children(lambda: exact.random_words(16).tobytes())
    return one != other


def vectors_ignore_their_company() -> bool:
    """The subset of a vector, alone and between others of very different lengths."""
    mechanism = mechanism_of("codebook", 2.0, 16, projection="identity")
    assert isinstance(mechanism, CodebookMechanism)
    rows = np.random.default_rng(32).normal(size=(20, 16)).astype(np.float32)
    rows *= np.float32(10.0) ** np.arange(-10, 10, dtype=np.float32)[:, None]
    alone = np.concatenate([mechanism.subsets(rows[i : i + 1]) for i in range(len(rows))])
    return np.array_equal(np.sort(mechanism.subsets(rows)), np.sort(alone))
