"""Each corpus with the settings that were chosen on the other: number of codes and kind of noise at each epsilon.

Nothing else of a pack is a setting: the constants of `gpu_workers.domains.codes` are the same for every domain, and
space, centroids and tables are fitted to unlabelled public documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.sentdp.corpus import EPSILONS, SOURCES, Corpus
from benchmarks.sentdp.methods import shipped
from benchmarks.sentdp.table import Row, Table
from core.amounts import NANO
from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.pack_facts import MechanismParameters
from gpu_workers.domains import build_pack, codes, public_text
from gpu_workers.models.encoder import Encoder


def settings(pack: DomainPack) -> tuple[MechanismParameters, ...]:
    """The pack's settings at the benchmark's epsilons."""
    return tuple(replace(pack.info.parameters_for(epsilon * NANO), epsilon=float(epsilon)) for epsilon in EPSILONS)


def described(pack: DomainPack) -> str:
    return ", ".join(f"{parameters.codes} {parameters.code_noise}" for parameters in settings(pack))


def fitted_with(
    other: DomainPack, own: DomainPack, title: str, encoder: Encoder, data: Path, cache: Path
) -> DomainPack:
    """The codes of the corpus called `title`, fitted as in its own pack, with the settings of the other pack."""
    name = f"{SOURCES[title].name}-train"
    parts = [public_text.embed(build_pack.CORPORA[name](data), encoder, cache, name)]
    kept, held = build_pack.split(parts, np.random.default_rng(build_pack.SEED))
    rows = settings(other)
    shape = codes.geometry(kept)
    fitter = codes.Fitter(shape, build_pack.join(kept), held, build_pack.SEED, [row.codes for row in rows])
    tables = [fitter.fitted(row.codes, row.code_noise, round(row.epsilon * NANO)).table for row in rows]
    info = replace(own.info, mechanism_parameters=rows, rank=shape.space.rank)
    return replace(own, info=info, space=shape.space, codebooks=fitter.codebooks, code_tables=tuple(tables))


def crossed(
    corpus: Corpus,
    packs: Mapping[str, DomainPack],
    own: Row,
    encoder: Encoder,
    data: Path,
    cache: Path,
    trials: int,
) -> Table:
    """A corpus's table: `own` choice, the other's settings, the other's whole pack. `packs` are the corpora's own."""
    title = corpus.title
    table = Table(f"{title}, sentence_codes", EPSILONS, [f"eps {e}" for e in EPSILONS], about="codes and noise")
    table.rows["own pack"] = Row(described(packs[title]), own.cells)
    for other in (each for each in packs if each != title):
        same = fitted_with(packs[other], packs[title], title, encoder, data, cache)
        for name, pack in {f"settings of {other}": same, f"the pack of {other}": packs[other]}.items():
            method = shipped("sentence_codes", name, pack)
            cells = [corpus.cell(method, epsilon, trials) for epsilon in EPSILONS]
            table.rows[name] = Row(described(pack), cells)
    return table
