"""Small domain packs that tests and audits of the sentence-level mechanisms share."""

import numpy as np

from core.mechanisms.integer_vectors import code_scale
from core.mechanisms.sentences.domain_pack import RECODER_LAYERS, CodeTable, DomainPack
from core.mechanisms.sentences.pack_facts import CodeNoise, DomainPackInfo, MechanismParameters
from core.mechanisms.space import Space


def parameters_row(
    epsilon: float,
    threshold: float,
    cosine_candidates: int,
    projections: int,
    depth_candidates: int,
    *,
    codes: int = 2,
    code_noise: CodeNoise = CodeNoise.RESPONSES,
) -> MechanismParameters:
    return MechanismParameters(epsilon, codes, code_noise, threshold, cosine_candidates, projections, depth_candidates)


def make_pack(
    candidates: np.ndarray,
    *,
    projections: np.ndarray | None = None,
    centre: np.ndarray | None = None,
    parameters: tuple[MechanismParameters, ...] | None = None,
) -> DomainPack:
    """A pack around the given candidates, which are its centroids too; the recoder is the identity.

    The space is that of the encoder on a grid of 1/100; a code means its centroid.
    """
    m, d = candidates.shape
    projections = np.eye(d, dtype=np.float32)[:1] if projections is None else projections
    info = DomainPackInfo(
        name="test",
        encoder="test",
        encoder_fingerprint="0" * 64,
        dimension=d,
        rank=d,
        candidates=m,
        projections=len(projections),
        source="made up",
        licence="none",
        mechanism_parameters=parameters or (parameters_row(1.0, 1.0, m, len(projections), m),),
    )
    layer = (np.eye(d, dtype=np.float32), np.zeros(d, dtype=np.float32))
    factor = np.full(d, 100 / code_scale(d), dtype=np.float32)
    grid = np.clip(np.round(100 * np.resize(candidates, (max(info.codebook_sizes), d))), -127, 127).astype(np.int8)
    return DomainPack(
        info=info,
        space=Space(np.eye(d, dtype=np.int8), factor, np.zeros(d, dtype=np.float32)),
        codebooks={size: grid[:size] for size in info.codebook_sizes},
        code_tables=tuple(
            CodeTable(row.code_noise, grid[: row.codes].astype(np.float32) / 100, np.zeros(d, dtype=np.float32))
            for row in info.mechanism_parameters
        ),
        candidates=candidates.astype(np.float32),
        centre=np.zeros(d, dtype=np.float32) if centre is None else centre.astype(np.float32),
        recoded=candidates.astype(np.float32),
        projections=projections.astype(np.float32),
        recoder=(layer,) * RECODER_LAYERS,
    )
