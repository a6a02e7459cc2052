"""Small domain packs for the sentence-level mechanisms."""

from collections.abc import Callable

import numpy as np
import pytest

from core.mechanisms.domain_pack import RECODER_LAYERS, DomainPack, DomainPackInfo, Knobs


def make_pack(
    candidates: np.ndarray,
    *,
    projections: np.ndarray | None = None,
    centre: np.ndarray | None = None,
    knobs: tuple[Knobs, ...] | None = None,
) -> DomainPack:
    """A pack around the given candidates; the recoder is the identity."""
    m, d = candidates.shape
    projections = np.eye(d, dtype=np.float32)[:1] if projections is None else projections
    info = DomainPackInfo(
        name="test",
        encoder="test",
        encoder_fingerprint="0" * 64,
        dimension=d,
        candidates=m,
        projections=len(projections),
        source="made up",
        licence="none",
        knobs=knobs or (Knobs(1.0, 1.0, m, len(projections), m),),
    )
    layer = (np.eye(d, dtype=np.float32), np.zeros(d, dtype=np.float32))
    return DomainPack(
        info=info,
        candidates=candidates.astype(np.float32),
        centre=np.zeros(d, dtype=np.float32) if centre is None else centre.astype(np.float32),
        recoded=candidates.astype(np.float32),
        projections=projections.astype(np.float32),
        recoder=(layer,) * RECODER_LAYERS,
    )


@pytest.fixture(scope="session")
def pack_of() -> Callable[..., DomainPack]:
    return make_pack


@pytest.fixture(scope="session")
def random_pack() -> DomainPack:
    """300 candidates in 64 dimensions, three rows of knobs."""
    source = np.random.default_rng(5)
    candidates = source.normal(size=(300, 64))
    candidates /= np.linalg.norm(candidates, axis=1, keepdims=True)
    projections = source.normal(size=(6, 64))
    projections /= np.linalg.norm(projections, axis=1, keepdims=True)
    return make_pack(
        candidates,
        projections=projections,
        centre=candidates.mean(axis=0),
        knobs=(Knobs(1.0, 0.2, 50, 2, 40), Knobs(5.0, 0.4, 200, 4, 300), Knobs(20.0, 1.0, 300, 6, 300)),
    )
