"""The decoder of noisy histograms: what it computes, what it sees, and how a pack keeps it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pack_kit import document, with_decoders

from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.histogram_decoder import HistogramDecoder
from core.mechanisms.sentences.pack_facts import InvalidPack
from core.mechanisms.sentences.sentence_codes import SentenceCodes

NANO = 10**9


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
