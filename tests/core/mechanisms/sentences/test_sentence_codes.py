"""`sentence_codes`: a sentence's code is its own, the noise is what the proof says, and what is released follows it.

The decoder of noisy histograms: what it computes, what it reads, and how a pack keeps it. Documents of few sentences:
which table and noise they get, what that costs, and what a pack may say about them.
"""

from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pack_kit import document, with_decoders, with_short_tables

from core.mechanisms.integer_vectors import CodeSpace, code_scale
from core.mechanisms.sentences.domain_pack import DomainPack, InvalidPack
from core.mechanisms.sentences.sentence_codes import HistogramDecoder, SentenceCodes, covered_epsilon

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


@pytest.fixture(scope="module")
def decoding_pack(random_pack: DomainPack) -> DomainPack:
    return with_decoders(random_pack, hidden=5, seed=7)


def test_a_decoder_maps_each_histogram_by_itself(decoding_pack: DomainPack) -> None:
    decode = HistogramDecoder(decoding_pack.code_tables[0].decoder)
    histograms = np.random.default_rng(1).integers(-3, 9, size=(40, 8))
    lengths = np.arange(1, 41)
    together = decode.of_histograms(histograms, lengths)
    alone = np.concatenate([decode.of_histograms(histograms[i : i + 1], lengths[i : i + 1]) for i in range(40)])
    assert together.shape == (40, 64)
    assert np.allclose(together, alone, atol=1e-5)


def test_a_release_is_the_linear_map_and_the_network_of_one_noisy_histogram(
    decoding_pack: DomainPack, noise: Any
) -> None:
    """With noise that the test knows, for both kinds of noise. The last row has more codes than a decoder takes."""
    noise.silent = False
    mechanism = SentenceCodes(decoding_pack)
    rows = document(9, 2)
    for row, epsilon in enumerate((1, 5, 20)):
        table = decoding_pack.code_tables[row]
        codes = mechanism.codes([rows], table.size)
        if epsilon == 1:
            noisy = np.bincount(codes, minlength=table.size) + np.arange(table.size) % 3 - 1
        else:
            noisy = np.bincount((codes + 1) % table.size, minlength=table.size)
        expected = noisy / 9 @ table.vectors + table.offset
        if epsilon < 20:
            network = HistogramDecoder(table.decoder).of_histograms(noisy[None], np.array([9]))[0]
            expected = expected + network
            assert np.abs(network).max() > 0.01
        assert np.allclose(mechanism.release([rows], [epsilon * NANO])[0], expected, atol=1e-4)


def test_a_decoder_of_an_impossible_size_is_refused(decoding_pack: DomainPack) -> None:
    for hidden in [-1, 1_025, True, "256"]:
        rows = tuple(replace(row, decoder=hidden) for row in decoding_pack.info.mechanism_parameters)  # type: ignore[arg-type]
        with pytest.raises(InvalidPack, match="decoder"):
            replace(decoding_pack.info, mechanism_parameters=rows).metadata()


def test_a_decoder_of_too_many_codes_is_refused(random_pack: DomainPack) -> None:
    rows = tuple(replace(row, decoder=5) for row in random_pack.info.mechanism_parameters)
    with pytest.raises(InvalidPack, match="at most 64 codes"):
        replace(random_pack.info, mechanism_parameters=rows).metadata()


@pytest.fixture(scope="module")
def short_pack(random_pack: DomainPack) -> DomainPack:
    return with_short_tables(random_pack, sentences=2, codes=16)


def hockey_stick(first: np.ndarray, second: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(first - np.exp(epsilon) * second, 0).sum())


def test_the_price_of_counts_covers_the_responses_of_short_documents() -> None:
    """The hockey-stick divergence of the responses is at no epsilon above that of two responses at half epsilon."""
    for size in [5, 6, 8, 16, 32, 1_024]:
        for epsilon in [0.01, 0.5, 2.0, 3.0, 4.499, 12.0]:
            own = covered_epsilon(size, round(epsilon * NANO)) / NANO
            assert 0 < own <= epsilon
            kept = np.exp(own) / (np.exp(own) + size - 1)
            laws = np.full((2, size), (1 - kept) / (size - 1))
            laws[0, 0] = laws[1, 1] = kept
            half = np.exp(epsilon / 2) / (1 + np.exp(epsilon / 2))
            priced = np.array(
                [[half**2, 2 * half * (1 - half), (1 - half) ** 2], [(1 - half) ** 2, 2 * half * (1 - half), half**2]]
            )
            for threshold in np.linspace(0, epsilon, 41):
                assert hockey_stick(*laws, threshold) <= hockey_stick(*priced, threshold) + 1e-12


def test_more_codes_allow_the_whole_epsilon() -> None:
    assert covered_epsilon(16, 3 * NANO) == 3 * NANO
    assert covered_epsilon(16, 4 * NANO) == pytest.approx(2 * np.log(7) * NANO, abs=2)


def test_the_number_of_sentences_selects_the_table_and_its_noise(short_pack: DomainPack, noise: Any) -> None:
    mechanism = SentenceCodes(short_pack)
    documents = [document(k, k) for k in (3, 1, 2)]
    released = mechanism.release(documents, [NANO] * 3)
    assert noise.drawn == [("counts", 8, 2, NANO), ("responses", 3, 16, NANO)]
    short, table = short_pack.code_tables[0].short, short_pack.code_tables[0]
    for rows, vector in zip(documents[1:], released[1:], strict=True):
        codes = mechanism.codes([rows], 16)
        assert np.allclose(vector, short.vectors[codes].mean(axis=0), atol=1e-5)
    assert np.allclose(released[0], table.vectors[mechanism.codes(documents[:1], 8)].mean(axis=0), atol=1e-5)
    noise.drawn.clear()
    mechanism.release(documents[1:], [20 * NANO] * 2)  # a row of responses, whose price covers all of epsilon
    assert noise.drawn == [("responses", 3, 16, 20 * NANO)]


def test_a_pack_keeps_its_short_tables_and_its_decoders(short_pack: DomainPack, tmp_path: Path) -> None:
    pack = with_decoders(short_pack, hidden=5, seed=3)
    path = tmp_path / "pack.safetensors"
    pack.save(path)
    loaded = DomainPack.load(path)
    assert loaded.info == pack.info
    assert loaded.info.codebook_sizes == tuple(sorted(loaded.codebooks))
    for ours, theirs in zip(pack.code_tables, loaded.code_tables, strict=True):
        assert np.allclose(ours.short.vectors, theirs.short.vectors, atol=1e-3)
        for decoder, kept in ((ours.decoder, theirs.decoder), (ours.short.decoder, theirs.short.decoder)):
            assert [weight.shape for weight, _ in decoder] == [weight.shape for weight, _ in kept]
            numbers = zip(chain(*decoder), chain(*kept), strict=True)
            assert all(np.allclose(one, two, atol=1e-3) for one, two in numbers)


def test_a_pack_without_a_table_that_it_describes_is_refused(short_pack: DomainPack, tmp_path: Path) -> None:
    pack = with_decoders(short_pack, hidden=5, seed=3)
    path = tmp_path / "pack.safetensors"
    for first in (replace(pack.code_tables[0], short=None), replace(pack.code_tables[0], decoder=())):
        replace(pack, code_tables=(first, *pack.code_tables[1:])).save(path)
        with pytest.raises(InvalidPack, match="tensors"):
            DomainPack.load(path)


def test_an_impossible_short_table_is_refused(short_pack: DomainPack) -> None:
    for changes in [
        {"short_codes": 4}, {"short_codes": 0}, {"short_codes": 2_000}, {"short_sentences": -1},
        {"short_sentences": 65},
    ]:  # fmt: skip
        rows = tuple(replace(row, **changes) for row in short_pack.info.mechanism_parameters)  # type: ignore[arg-type]
        with pytest.raises(InvalidPack, match="short"):
            replace(short_pack.info, mechanism_parameters=rows).metadata()
