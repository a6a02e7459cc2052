"""Planted bugs of the sentence-level mechanisms; each names the step of the proof it breaks."""

from typing import Any

import numpy as np
import torch
from audits.bug import Bug
from audits.detect_sentences import (
    COMPANY,
    COSINE,
    COUNTS,
    DECODED,
    DEPTH,
    DOUBLE,
    HALF_SENSITIVITY,
    MEAN,
    PRICE,
    SELECTION,
    SHORT,
    SIDES,
    SPREAD,
    swap,
)

from core.mechanisms import integer_vectors
from core.mechanisms.sentences import clipped_cosine, deep_candidate, document_selection, sentence_codes
from core.mechanisms.sentences.clipped_cosine import ClippedCosine
from core.mechanisms.sentences.deep_candidate import DeepCandidate
from core.mechanisms.sentences.document_selection import DocumentSelection
from core.mechanisms.sentences.sentence_codes import SentenceCodes, TableRelease


def _from_the_documents_mean(real: Any) -> Any:
    return lambda self, rows, size: real(self, [each - each.mean(dim=0) for each in rows], size)


def _without_one_bin(real: Any) -> Any:
    def broken(count: int, **given: Any) -> Any:
        noise = real(count, **given)
        noise[1::3] = 0
        return noise

    return broken


def _unclipped_above(_: Any) -> Any:
    def broken(self: Any, rows: Any, levels: Any) -> Any:
        return self._codes.dots(integer_vectors.direction_codes(rows, self._centre)).clamp_(min=0)

    return broken


def _unclipped_below(_: Any) -> Any:
    def broken(self: Any, rows: Any, levels: Any) -> Any:
        dots = self._codes.dots(integer_vectors.direction_codes(rows, self._centre))
        return torch.maximum(torch.minimum(dots, levels[:, None]), -levels[:, None])

    return broken


def _means_of_one_fewer(real: Any) -> Any:
    """Means over k sentences, against the sensitivity of means over k + 1."""
    return lambda self, documents, epsilons: [
        row * (len(document) + 1) // len(document)
        for row, document in zip(real(self, documents, epsilons), documents, strict=True)
    ]


def _centre_of_the_batch(real: Any) -> Any:
    def broken(self: Any, rows: Any, levels: Any) -> Any:
        return real(self, rows - torch.nan_to_num(rows).mean(dim=0), levels)

    return broken


def _best_five(real: Any) -> Any:
    """The draw is among the highest scores alone."""

    def broken(scores: Any, **given: Any) -> int:
        best = np.argsort(-scores, kind="stable")[: max(1, len(scores) // 2)]
        return int(best[real(scores[best], **given)])

    return broken


def _sum_of_directions(_: Any) -> Any:
    return staticmethod(lambda unbalance: unbalance.sum(dim=0))


def _scaled_by_the_batch(real: Any) -> Any:
    def broken(self: Any, vectors: Any, count: int) -> Any:
        largest = torch.nan_to_num(vectors).abs().max().clamp(min=1e-6)
        return real(self, vectors / largest, count)

    return broken


def _nearest_member(real: Any) -> Any:
    """A member comes out, but always the first."""

    def broken(subsets: Any, *, size: int, epsilon_nano: int) -> Any:
        drawn = real(subsets, size=size, epsilon_nano=epsilon_nano)
        return np.where((subsets == drawn[:, None]).any(axis=1), subsets[:, 0], drawn)

    return broken


def _all_on_its_side(real: Any) -> Any:
    """As many members as lie on the document's side."""

    def broken(self: Any, documents: Any, members: int) -> Any:
        near = int((self._codes.dots(integer_vectors.codes_of(self._means(documents[-1:]))) > 0).sum())
        return real(self, documents, min(max(1, near), self.pack.info.candidates - 1))

    return broken


def _one_mean(real: Any) -> Any:
    def broken(self: Any, documents: Any) -> Any:
        means = real(self, documents)
        return ((means + means.mean(dim=0)) / 2).round()

    return broken


def _sixteen_bits(real: Any) -> Any:
    return lambda self, rows: real(self, rows).to(torch.bfloat16).to(torch.int32)


def _decoder_of_a_second_draw(real: Any) -> Any:
    """Linear map and decoder read a histogram with noise of its own each."""

    def broken(self: Any, codes: Any, lengths: Any, epsilon_nano: int) -> Any:
        table, decoder = self.table, self.decoder
        if decoder is None:
            return real(self, codes, lengths, epsilon_nano)
        noisy = [sentence_codes.noisy_counts(table.size, codes, lengths, epsilon_nano) for _ in range(2)]
        return noisy[0] @ table.vectors / lengths[:, None] + decoder.of_histograms(noisy[1], lengths)

    return broken


def _decoder_before_the_noise(real: Any) -> Any:
    def broken(self: Any, codes: Any, lengths: Any, epsilon_nano: int) -> Any:
        table, decoder = self.table, self.decoder
        if decoder is None:
            return real(self, codes, lengths, epsilon_nano)
        noisy = sentence_codes.noisy_counts(table.size, codes, lengths, epsilon_nano)
        document = np.repeat(np.arange(len(lengths)), lengths)
        true = np.bincount(document * table.size + codes, minlength=noisy.size).reshape(noisy.shape)
        return noisy @ table.vectors / lengths[:, None] + decoder.of_histograms(true, lengths)

    return broken


def _short_at_twice_its_epsilon(real: Any) -> Any:
    def broken(self: Any, epsilon_nano: int, *, sentences: int) -> Any:
        table, epsilon = real(self, epsilon_nano, sentences=sentences)
        return table, epsilon * (1 if table in self._tables else 2)

    return broken


BUGS: tuple[Bug, ...] = (
    Bug(
        "a bin without noise",
        "sentence_codes",
        "noise in each bin",
        swap(sentence_codes, "two_sided_geometric", _without_one_bin),
        SPREAD,
    ),
    Bug(
        "sensitivity 1 of the histogram",
        "sentence_codes",
        "L1 sensitivity 2",
        lambda patch: patch.setattr(sentence_codes, "HISTOGRAM_SENSITIVITY", 1),
        COUNTS,
    ),
    Bug(
        "codes seen from the document's mean",
        "sentence_codes",
        "a code depends on that sentence alone",
        swap(SentenceCodes, "codes", _from_the_documents_mean),
        MEAN,
    ),
    Bug(
        "a decoder before the noise",
        "sentence_codes",
        "decoding is post-processing of H",
        swap(TableRelease, "release", _decoder_before_the_noise),
        DECODED,
    ),
    Bug(
        "a decoder with a draw of its own",
        "sentence_codes",
        "decoding is post-processing of one H",
        swap(TableRelease, "release", _decoder_of_a_second_draw),
        DECODED,
    ),
    Bug(
        "short documents at twice their epsilon",
        "sentence_codes",
        "responses at e'",
        swap(SentenceCodes, "table_for", _short_at_twice_its_epsilon),
        SHORT,
    ),
    Bug(
        "short documents at the whole epsilon",
        "sentence_codes",
        "e' is at most 2 log((N - 2) / 2)",
        swap(sentence_codes, "covered_epsilon", lambda _: lambda size, epsilon_nano: epsilon_nano),
        PRICE,
    ),
    Bug(
        "half of G",
        "clipped_cosine",
        "sensitivity G",
        swap(clipped_cosine, "permute_and_flip", HALF_SENSITIVITY),
        COSINE,
    ),
    Bug(
        "no clipping at G",
        "clipped_cosine",
        "q is an integer in 0..G",
        swap(ClippedCosine, "contributions", _unclipped_above),
        COSINE,
    ),
    Bug(
        "no clipping at 0",
        "clipped_cosine",
        "q is an integer in 0..G",
        swap(ClippedCosine, "contributions", _unclipped_below),
        COSINE,
    ),
    Bug(
        "means over k with the sensitivity over k + 1",
        "clipped_cosine",
        "replacing a sentence changes one term",
        swap(ClippedCosine, "scores", _means_of_one_fewer),
        COSINE,
    ),
    Bug(
        "cosines from the batch's centre",
        "clipped_cosine",
        "q is a function of one sentence",
        swap(ClippedCosine, "contributions", _centre_of_the_batch),
        COMPANY,
    ),
    Bug(
        "only the better half of the candidates",
        "clipped_cosine",
        "the candidates are public",
        swap(clipped_cosine, "permute_and_flip", _best_five),
        COSINE,
    ),
    Bug(
        "sensitivity 1 of the depth",
        "deep_candidate",
        "|2 h - k| moves by at most 2",
        lambda patch: patch.setattr(deep_candidate, "SENSITIVITY", 1),
        DEPTH,
    ),
    Bug(
        "the sum over directions",
        "deep_candidate",
        "a maximum moves by no more than its arguments",
        swap(DeepCandidate, "_over_directions", _sum_of_directions),
        DEPTH,
    ),
    Bug(
        "projections scaled by the batch",
        "deep_candidate",
        "a projection depends on one sentence",
        swap(DeepCandidate, "_project", _scaled_by_the_batch),
        COMPANY,
    ),
    Bug(
        "selection at twice the epsilon",
        "document_selection",
        "a member has probability e^eps / (n e^eps + m - n)",
        swap(document_selection, "subset_selection", DOUBLE),
        SELECTION,
    ),
    Bug(
        "always the subset's first member",
        "document_selection",
        "a uniform member",
        swap(document_selection, "subset_selection", _nearest_member),
        SIDES,
    ),
    Bug(
        "as many members as lie near",
        "document_selection",
        "n is a function of m and epsilon alone",
        swap(DocumentSelection, "subsets", _all_on_its_side),
        SIDES,
    ),
    Bug(
        "means drawn to the batch's mean",
        "document_selection",
        "the ranking is a function of that document alone",
        swap(DocumentSelection, "_means", _one_mean),
        COMPANY,
    ),
    Bug(
        "products of 16 bits",
        "integer_vectors",
        "sums of bounded integers, exact in any order",
        swap(integer_vectors.CodeMatrix, "dots", _sixteen_bits),
        COMPANY,
    ),
)
