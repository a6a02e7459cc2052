"""Documents of few sentences: which table and noise they get, what that costs, and what a pack may say about them."""

from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pack_kit import document, with_decoders, with_short_tables

from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.pack_facts import InvalidPack
from core.mechanisms.sentences.sentence_codes import SentenceCodes, covered_epsilon

NANO = 10**9


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
        {"short_codes": 4},
        {"short_codes": 0},
        {"short_codes": 2_000},
        {"short_sentences": -1},
        {"short_sentences": 65},
    ]:
        rows = tuple(replace(row, **changes) for row in short_pack.info.mechanism_parameters)  # type: ignore[arg-type]
        with pytest.raises(InvalidPack, match="short"):
            replace(short_pack.info, mechanism_parameters=rows).metadata()
