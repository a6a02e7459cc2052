"""The benchmark of packs of few documents: every number of documents and form gets a line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pack_kit import make_pack

from benchmarks.sentdp import few_documents
from core.mechanisms.sentences.domain_pack import DomainPack
from gpu_workers.domains.embedded_documents import Embedded

DIMENSION = 8


def corpus(documents: int) -> Embedded:
    rows = np.random.default_rng(documents).normal(size=(documents * 3, DIMENSION)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return Embedded(rows, np.full(documents, 3), ["ab"[i % 2] for i in range(documents)])


def test_a_number_above_that_of_the_corpus_is_the_whole_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []

    def build_pack(parts: list[Embedded], **_: Any) -> DomainPack:
        used.append(len(parts[0].lengths))
        return make_pack(np.eye(DIMENSION, dtype=np.float32))

    monkeypatch.setattr(few_documents, "build_pack", build_pack)
    found = few_documents.lines(
        corpus(40), corpus(10), counts=(20, 300, 1_000), forms=few_documents.FORMS, encoder="e", fingerprint="0" * 64
    )
    assert [line.split()[:2] for line in found] == [[n, form] for n in ("20", "40") for form in few_documents.FORMS]
    assert used == [20] * 3 + [40] * 3
