"""Small domain packs for the sentence-level mechanisms."""

from collections.abc import Callable

import numpy as np
import pytest
from pack_kit import make_pack, parameters_row

from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.pack_facts import CodeNoise


@pytest.fixture(scope="session")
def pack_of() -> Callable[..., DomainPack]:
    return make_pack


@pytest.fixture(scope="session")
def random_pack() -> DomainPack:
    """300 candidates in 64 dimensions, three rows of parameters, both kinds of code noise."""
    source = np.random.default_rng(5)
    candidates = source.normal(size=(300, 64))
    candidates /= np.linalg.norm(candidates, axis=1, keepdims=True)
    projections = source.normal(size=(6, 64))
    projections /= np.linalg.norm(projections, axis=1, keepdims=True)
    return make_pack(
        candidates,
        projections=projections,
        centre=candidates.mean(axis=0),
        parameters=(
            parameters_row(1.0, 0.2, 50, 2, 40, codes=8, code_noise=CodeNoise.COUNTS),
            parameters_row(5.0, 0.4, 200, 4, 300, codes=64),
            parameters_row(20.0, 1.0, 300, 6, 300, codes=300),
        ),
    )
