"""What flags a planted bug of the sentence-level mechanisms or of their samplers: small audits, tests and checks."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from audits.bug import Detector, check, over_claim
from audits.checks import (
    draws_follow_the_laws,
    every_outcome_can_occur,
    forks_have_streams_of_their_own,
    sentences_ignore_their_company,
)
from audits.kit import Case, FloatArray, Scale, audit, learned
from audits.sentences import DIMENSION, EPSILON, candidate_cases, code_case, code_cases, code_pack, selection_cases
from pack_kit import make_pack

from core.amounts import NANO
from core.mechanisms.samplers.exact import IntArray
from core.mechanisms.sentences import sentence_codes
from core.mechanisms.sentences.clipped_cosine import ClippedCosine
from core.mechanisms.sentences.deep_candidate import DeepCandidate
from core.mechanisms.sentences.document_selection import DocumentSelection
from core.mechanisms.sentences.domain_pack import CodeNoise
from core.mechanisms.sentences.sentence_codes import SentenceCodes


def _detector(name: str, cases: Callable[[], Iterator[Case]], pairs: int = 400, runs: int = 40_000) -> Detector:
    return over_claim(name, lambda: audit(cases(), Scale(runs, pairs, 10_000), batch=20_000))


RESPONSES = _detector("audit of responses", lambda: code_cases(CodeNoise.RESPONSES, 1), 100)
COUNTS = _detector("audit of counts", lambda: code_cases(CodeNoise.COUNTS, 2), 200)
DECODED = _detector("audit of decoded counts", lambda: code_cases(CodeNoise.COUNTS, 6, decoded=True), 200)
SHORT = _detector("audit of short documents", lambda: code_cases(CodeNoise.COUNTS, 7, short=True), 200)
COSINE = _detector("audit of clipped_cosine", lambda: candidate_cases(ClippedCosine, 3))
DEPTH = _detector("audit of deep_candidate", lambda: candidate_cases(DeepCandidate, 4), 300, 20_000)
SELECTION = _detector("audit of document_selection", lambda: selection_cases(5))

_E = np.eye(DIMENSION, dtype=np.float32)


def _codes(noise: CodeNoise) -> SentenceCodes:
    return SentenceCodes(code_pack(noise, np.stack([_E[0], -_E[0], _E[1]])))


def last_of_batch() -> Iterator[Case]:
    """The release of the last document of a batch of three."""
    mechanism = _codes(CodeNoise.RESPONSES)
    pair = (_E[:1], -_E[:1])

    def draw(side: int, runs: int) -> FloatArray:
        document = torch.from_numpy(pair[side])
        released = [mechanism.release([document] * 3, [round(EPSILON * NANO)] * 3)[-1] for _ in range(runs)]
        return np.asarray(np.rint(np.stack(released)[:, 0]))

    yield Case("the last document of a batch", EPSILON, draw)


def planted_companion(noise: CodeNoise) -> Iterator[Case]:
    """The attacker's own document in the batch: does the other one come out alike?"""
    mechanism = _codes(noise)
    pair = (np.concatenate([_E[:1], -_E[:1]]), np.concatenate([-_E[:1], -_E[:1]]))

    def draw(side: int, runs: int) -> FloatArray:
        documents = [torch.from_numpy(pair[side]), torch.from_numpy(pair[0])]
        alike = []
        for _ in range(runs // 50):
            released = mechanism.release(documents * 50, [round(EPSILON * NANO)] * 100)
            alike.append((released[::2] == released[1::2]).all(axis=1))
        return np.concatenate(alike).astype(np.float64)

    yield Case("beside a document of the attacker's", EPSILON, draw)


def equal_sentences() -> Iterator[Case]:
    """Two sentences that differ against two that are equal: do their responses differ?"""
    mechanism = _codes(CodeNoise.RESPONSES)
    pair = (np.concatenate([_E[:1], -_E[:1]]), np.concatenate([_E[:1], _E[:1]]))

    def draw(side: int, runs: int) -> FloatArray:
        document = torch.from_numpy(pair[side])
        released = mechanism.release([document] * runs, [round(EPSILON * NANO)] * runs)
        return np.asarray((released.max(axis=1) < 0.9).astype(np.float64))

    yield Case("two sentences, equal or not", EPSILON, draw)


def spread_documents(third: float = -1.0) -> Iterator[Case]:
    """Three sentences, of which the third is replaced by one in the same direction or the opposite one."""
    mechanism = _codes(CodeNoise.COUNTS)
    pair = (np.repeat(_E[:1], 3, axis=0), np.concatenate([_E[:1], _E[:1], np.float32(third) * _E[:1]]))
    histograms = [np.bincount(mechanism.codes([torch.from_numpy(each)], 3), minlength=3) for each in pair]
    yield code_case(mechanism, pair, [], histograms, EPSILON, "three sentences")


def chosen(mechanism: ClippedCosine | DocumentSelection, pair: tuple[FloatArray, FloatArray]) -> Iterator[Case]:
    """Which candidate comes out, both ways; the event is learnt from pilot runs."""
    for first, second in (pair, pair[::-1]):
        documents = [torch.from_numpy(each) for each in (first, second)]

        def draw(side: int, runs: int, documents: list[torch.Tensor] = documents) -> IntArray:
            return mechanism.select([documents[side]] * runs, [round(EPSILON * NANO)] * runs)

        yield learned(draw, len(mechanism.pack.candidates), EPSILON, "fixed candidates", pilot=10_000)


def two_candidates() -> Iterator[Case]:
    return chosen(ClippedCosine(make_pack(np.stack([_E[0], -_E[0]]))), (_E[:1], -_E[:1]))


def two_sides() -> Iterator[Case]:
    """Eight candidates on one side and thirteen on the other, and documents of unequal length."""
    points = np.concatenate([np.repeat(_E[:1], 8, axis=0), np.repeat(-_E[:1], 13, axis=0)])
    return chosen(DocumentSelection(make_pack(points)), (_E[:1], np.repeat(-_E[:1], 5, axis=0)))


ORDER = over_claim("audit of two candidates", lambda: audit(two_candidates(), Scale(20_000, 2, 5_000)))
SIDES = over_claim("audit of candidates on two sides", lambda: audit(two_sides(), Scale(40_000, 2, 10_000)))
MEAN = over_claim(
    "audit of sentences of unequal length", lambda: audit(spread_documents(3.0), Scale(40_000, 1, 10_000))
)
LAST = over_claim("audit of a batch's last document", lambda: audit(last_of_batch(), Scale(600, 1, 300)))
COMPANION = over_claim(
    "audit beside a planted document", lambda: audit(planted_companion(CodeNoise.COUNTS), Scale(5_000, 1, 2_000))
)
EQUALS = over_claim("audit of equal sentences", lambda: audit(equal_sentences(), Scale(20_000, 1, 5_000)))
SPREAD = over_claim("audit of sentences on one code", lambda: audit(spread_documents(), Scale(40_000, 1, 10_000)))
COMPANY = check("a document's law ignores its company", sentences_ignore_their_company)
LAWS = check("draws follow their laws (chi-square)", draws_follow_the_laws)
REACH = check("every outcome of positive probability can occur", every_outcome_can_occur)
FORKS = check("forked processes draw independently", forks_have_streams_of_their_own)


def responses_are_covered() -> bool:
    """Whether no hockey-stick divergence of the responses exceeds that of two binary responses at half epsilon."""
    for size, epsilon in ((6, 1.0), (8, 2.0), (16, 4.0), (32, 5.9)):
        odds = np.exp(sentence_codes.covered_epsilon(size, round(epsilon * NANO)) / NANO)
        kept, lied, half = odds / (odds + size - 1), 1 / (odds + size - 1), 1 / (1 + np.exp(-epsilon / 2))
        for factor in np.exp(np.linspace(0, epsilon, 30)):
            shown = max(0.0, kept - factor * lied)
            priced = max(0.0, half**2 - factor * (1 - half) ** 2)
            if shown > priced + 1e-12:  # the other outcomes are as likely for both documents
                return False
    return True


PRICE = check("the price of counts covers the responses of short documents", responses_are_covered)


def swap(module: object, name: str, make: Callable[[Any], Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """Replace `module.name` by what `make` makes of it."""
    return lambda patch: patch.setattr(module, name, make(getattr(module, name)))


def changed(**changes: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function with some of its keyword arguments changed."""

    def make(real: Any) -> Any:
        def broken(*args: Any, **given: Any) -> Any:
            return real(
                *args, **{key: changes[key](value) if key in changes else value for key, value in given.items()}
            )

        return broken

    return make


DOUBLE = changed(epsilon_nano=lambda nano: 2 * nano)
HALF_SENSITIVITY = changed(sensitivity=lambda value: value // 2)
