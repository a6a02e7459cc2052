"""`sentence_codes`: a sentence's code is its own, the noise is what the proof says, and what is released follows it."""

from typing import Any

import numpy as np
import torch
from pack_kit import document

from core.mechanisms.integer_vectors import code_scale
from core.mechanisms.sentences.code_space import CodeSpace
from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.sentence_codes import SentenceCodes

NANO = 10**9


def test_a_sentence_has_its_code_whatever_stands_beside_it(random_pack: DomainPack) -> None:
    """Bitwise: alone, in any order, across the chunks of a large batch."""
    mechanism = SentenceCodes(random_pack)
    rows = document(5_000, 1)
    for size in random_pack.codebooks:
        together = mechanism.codes([rows], size)
        for i in (0, 1, 17, 1_023, 1_024, 4_999):
            assert mechanism.codes([rows[i : i + 1]], size)[0] == together[i]
        order = np.random.default_rng(size).permutation(5_000)
        assert np.array_equal(mechanism.codes([rows[torch.from_numpy(order)]], size), together[order])
        for k in (2, 3, 13, 37):
            assert np.array_equal(mechanism.codes([rows[:k]], size), together[:k])


def test_one_replaced_sentence_changes_one_code(random_pack: DomainPack) -> None:
    mechanism = SentenceCodes(random_pack)
    for seed in range(50):
        before, after = document(9, seed), document(9, seed)
        after[seed % 9] = document(1, 1_000 + seed)[0]
        for size in random_pack.codebooks:
            changed = np.flatnonzero(mechanism.codes([before], size) != mechanism.codes([after], size))
            assert set(changed) <= {seed % 9}


def test_the_code_is_the_nearest_centroid(random_pack: DomainPack) -> None:
    """Against plain 64-bit arithmetic on the same integers; the first of equally near ones."""
    rows = document(400, 3)
    scaled = np.clip(np.round(rows.numpy() * np.float32(code_scale(64))), -127, 127)
    space = random_pack.space
    places = np.clip(np.round((scaled @ space.directions.T).astype(np.float32) * space.factor + space.shift), -127, 127)
    for size, centroids in random_pack.codebooks.items():
        distance = np.square(places[:, None, :] - centroids[None].astype(np.int64)).sum(axis=2)
        assert np.array_equal(SentenceCodes(random_pack).codes([rows], size), distance.argmin(axis=1))
        twice = np.concatenate([centroids, centroids])
        assert CodeSpace(space, {2 * size: twice}, torch.device("cpu")).nearest(rows, 2 * size).max() < size


def test_every_vector_has_a_code(random_pack: DomainPack) -> None:
    """The guarantee holds for every input: zero, huge, infinite and undefined coordinates too."""
    odd = document(5, 3)
    odd[0], odd[1], odd[2, 3], odd[3, 5] = 0.0, 1e30, float("nan"), float("-inf")
    for size in random_pack.codebooks:
        codes = SentenceCodes(random_pack).codes([odd], size)
        assert codes.min() >= 0
        assert codes.max() < size
        assert np.array_equal(codes[4:], SentenceCodes(random_pack).codes([odd[4:]], size))


def test_without_noise_a_release_is_the_mean_of_what_the_codes_mean(random_pack: DomainPack, noise: Any) -> None:
    for epsilon in [1, 5, 20]:
        mechanism = SentenceCodes(random_pack)
        documents = [document(k, k) for k in (1, 2, 7, 30)]
        table = random_pack.code_table(epsilon * NANO)
        released = mechanism.release(documents, [epsilon * NANO] * 4)
        for rows, vector in zip(documents, released, strict=True):
            expected = table.vectors[mechanism.codes([rows], table.size)].mean(axis=0) + table.offset
            assert np.allclose(vector, expected, atol=1e-5)


def test_documents_of_one_call_have_the_noise_of_their_own_epsilon(random_pack: DomainPack, noise: Any) -> None:
    epsilons = [NANO, 6 * NANO, NANO // 2, 6 * NANO, 30 * NANO]
    SentenceCodes(random_pack).release([document(k, k) for k in (3, 4, 5, 6, 7)], epsilons)
    assert sorted(noise.drawn) == [
        ("counts", 8, 2, NANO // 2),
        ("counts", 8, 2, NANO),
        ("responses", 7, 300, 30 * NANO),
        ("responses", 10, 64, 6 * NANO),
    ]


def test_a_release_does_not_repeat(random_pack: DomainPack) -> None:
    mechanism = SentenceCodes(random_pack)
    for epsilon in (1, 5):
        released = mechanism.release([document(12, 1)] * 50, [epsilon * NANO] * 50)
        assert len({row.tobytes() for row in released}) > 40
