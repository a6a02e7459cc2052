"""Small domain packs and routes that tests and audits of the sentence-level mechanisms share."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from core.mechanisms.integer_vectors import code_scale
from core.mechanisms.sentences.domain_pack import (
    DECODED_CODES_MAX,
    RECODER_LAYERS,
    CodeNoise,
    CodeTable,
    DomainPack,
    DomainPackInfo,
    MechanismParameters,
    decoder_shapes,
)
from core.mechanisms.sentences.routes import Routes, RoutesInfo
from core.mechanisms.space import Space


def document(sentences: int, seed: int, dimension: int = 64) -> torch.Tensor:
    """Random unit sentence vectors, float32 `[sentences, dimension]`."""
    rows = np.random.default_rng(seed).normal(size=(sentences, dimension)).astype(np.float32)
    return torch.from_numpy(rows / np.linalg.norm(rows, axis=1, keepdims=True))


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
        name="test", encoder="test", encoder_fingerprint="0" * 64, dimension=d, rank=d, candidates=m,
        projections=len(projections), source="made up", licence="none",
        mechanism_parameters=parameters or (parameters_row(1.0, 1.0, m, len(projections), m),),
    )  # fmt: skip
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


def with_short_tables(pack: DomainPack, *, sentences: int, codes: int) -> DomainPack:
    """The pack with a table for documents of at most `sentences` in each row, whose codes mean their centroids."""
    rows = tuple(replace(row, short_sentences=sentences, short_codes=codes) for row in pack.info.mechanism_parameters)
    books = dict(pack.codebooks)
    books.setdefault(codes, books[max(books)][:codes])
    short = CodeTable(
        CodeNoise.RESPONSES, books[codes].astype(np.float32) / 100, np.zeros(pack.info.dimension, dtype=np.float32)
    )
    tables = tuple(replace(table, short=short) for table in pack.code_tables)
    return replace(pack, info=replace(pack.info, mechanism_parameters=rows), codebooks=books, code_tables=tables)


def make_routes(
    centroids: np.ndarray,
    owners: Sequence[int],
    packs: tuple[str, ...],
    *,
    default: str | None = None,
    default_percent: int = 0,
    evidence_min: int = 0,
) -> Routes:
    """Routes with these centroids; `owners` are indices of `packs`. The space is that of the encoder, as in
    `make_pack`."""
    n, d = centroids.shape
    info = RoutesInfo(
        encoder="test", encoder_fingerprint="0" * 64, dimension=d, rank=d, centroids=n, packs=packs,
        default=packs[-1] if default is None else default, default_percent=default_percent, evidence_min=evidence_min,
        source="made up", licence="none",
    )  # fmt: skip
    factor = np.full(d, 100 / code_scale(d), dtype=np.float32)
    return Routes(
        info=info,
        space=Space(np.eye(d, dtype=np.int8), factor, np.zeros(d, dtype=np.float32)),
        centroids=np.clip(np.round(100 * centroids), -127, 127).astype(np.int8),
        owners=np.array(owners, dtype=np.int64),
    )


def with_decoders(pack: DomainPack, *, hidden: int, seed: int) -> DomainPack:
    """The pack with a random decoder for each row whose codes are not too many for one."""
    source = np.random.default_rng(seed)

    def decoding(table: CodeTable) -> CodeTable:
        layers = tuple(
            (source.normal(size=(outputs, inputs)).astype(np.float32) / 4, source.normal(size=outputs).astype("f4"))
            for outputs, inputs in decoder_shapes(table.size, hidden, pack.info.dimension)
        )
        return replace(table, decoder=layers, short=decoding(table.short) if table.short else None)

    decoded = [row.codes <= DECODED_CODES_MAX for row in pack.info.mechanism_parameters]
    tables = tuple(decoding(table) if has else table for table, has in zip(pack.code_tables, decoded, strict=True))
    rows = tuple(
        replace(row, decoder=hidden) if has else row
        for row, has in zip(pack.info.mechanism_parameters, decoded, strict=True)
    )
    return replace(pack, info=replace(pack.info, mechanism_parameters=rows), code_tables=tables)
