"""Small domain packs for the sentence-level mechanisms."""

import numpy as np
import pytest
from pack_kit import make_pack, parameters_row

from core.mechanisms.samplers.exact import IntArray
from core.mechanisms.sentences import sentence_codes
from core.mechanisms.sentences.domain_pack import CodeNoise, DomainPack


@pytest.fixture(scope="session")
def random_pack() -> DomainPack:
    """300 candidates in 64 dimensions, three rows of parameters, both kinds of code noise."""
    source = np.random.default_rng(5)
    candidates = source.normal(size=(300, 64))
    candidates /= np.linalg.norm(candidates, axis=1, keepdims=True)
    projections = source.normal(size=(6, 64))
    projections /= np.linalg.norm(projections, axis=1, keepdims=True)
    return make_pack(
        candidates, projections=projections, centre=candidates.mean(axis=0),
        parameters=(
            parameters_row(1.0, 0.2, 50, 2, 40, codes=8, code_noise=CodeNoise.COUNTS),
            parameters_row(5.0, 0.4, 200, 4, 300, codes=64), parameters_row(20.0, 1.0, 300, 6, 300, codes=300),
        ),
    )  # fmt: skip


class KnownNoise:
    """Noise of sentence codes that a test knows: none if `silent`, else the next code, and -1, 0 and 1 in turn."""

    def __init__(self) -> None:
        self.silent = True
        self.drawn: list[tuple[str, int, int, int]] = []
        """The noise, the number of what was drawn, the size or the sensitivity, and epsilon."""

    def respond(self, codes: IntArray, *, size: int, epsilon_nano: int) -> IntArray:
        self.drawn.append(("responses", len(codes), size, epsilon_nano))
        return codes if self.silent else (codes + 1) % size

    def add(self, count: int, *, epsilon_nano: int, sensitivity: int) -> IntArray:
        self.drawn.append(("counts", count, sensitivity, epsilon_nano))
        return np.zeros(count, dtype=np.int64) if self.silent else np.arange(count, dtype=np.int64) % 3 - 1


@pytest.fixture
def noise(monkeypatch: pytest.MonkeyPatch) -> KnownNoise:
    known = KnownNoise()
    monkeypatch.setattr(sentence_codes, "randomised_response", known.respond)
    monkeypatch.setattr(sentence_codes, "two_sided_geometric", known.add)
    return known
