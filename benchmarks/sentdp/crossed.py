"""Each corpus with its own pack, and with the whole pack of the other corpus.

No setting of `sentence_codes` is chosen by corpus: number of codes and kind of noise depend on epsilon alone
(`gpu_workers.domains.codes.DOMAIN_ROWS`), and space, codes and decoders are fitted to unlabelled public documents.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.sentdp.corpus import EPSILONS, Corpus
from benchmarks.sentdp.methods import shipped
from benchmarks.sentdp.table import Row, Table
from core.amounts import NANO
from core.mechanisms.sentences.domain_pack import DomainPack


def described(pack: DomainPack) -> str:
    """The settings of a pack at the benchmark's epsilons."""
    rows = [pack.info.parameters_for(epsilon * NANO) for epsilon in EPSILONS]
    return ", ".join(f"{row.codes} {row.code_noise}" for row in rows)


def crossed(corpus: Corpus, packs: Mapping[str, DomainPack], own: Row, trials: int) -> Table:
    """A corpus's table. `packs` are the own packs of all corpora; `own` is the row of this corpus with its own."""
    title = corpus.title
    table = Table(f"{title}, sentence_codes", EPSILONS, [f"eps {e}" for e in EPSILONS], about="codes and noise")
    table.rows["own pack"] = Row(described(packs[title]), own.cells)
    for other in (each for each in packs if each != title):
        method = shipped("sentence_codes", other, packs[other])
        cells = [corpus.cell(method, epsilon, trials) for epsilon in EPSILONS]
        table.rows[f"the pack of {other}"] = Row(described(packs[other]), cells)
    return table
