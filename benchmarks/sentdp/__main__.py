"""Macro-F1 of sentence-level release on 20 Newsgroups (7 topics) and IMDB, as Figure 4 of Meehan et al. 2022.

    python -m benchmarks.sentdp --data DATA [--trials 5] [--figures docs/reference/sentdp]
    python -m benchmarks.sentdp --data DATA --speed

Documents of at least 8 sentences, the first 24 used. A logistic regression is trained on clean means of public training
documents, in the space in which a row's mechanism releases, and tested on released vectors of the test split, which
gave no code, no candidate and no knob. Against epsilon: each document at its own number of sentences k. Against k:
documents of at least k sentences cut to their first k, at epsilon 10. Mean and standard deviation over trials of the
mechanism.

Two packs each: the corpus's own (its training split without labels; built into `--packs` if it is not there) and the
shipped `general` one. `sentence_codes` also has an own pack that used the training split's labels. Then each corpus
with the pack of the other.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.sentdp import figures, speed
from benchmarks.sentdp.corpus import EPSILONS, LENGTHS_EPSILON, SOURCES, WORDS, Corpus, gap_closed, own_pack
from benchmarks.sentdp.crossed import crossed
from benchmarks.sentdp.methods import GENERAL, OWN
from benchmarks.sentdp.table import Row
from benchmarks.sentdp.words import WordMechanism
from core.mechanisms.sentences.domain_pack import DomainPack
from gpu_workers.models.encoder import Encoder
from training import public_text

PACK = Path(__file__).parents[2] / "gpu_workers" / "packs" / "general.safetensors"
CACHE = Path(tempfile.gettempdir()) / "privacy-gateway-embeddings"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--pack", type=Path, default=PACK, help="the general pack")
    parser.add_argument("--packs", type=Path, help="folder of the corpora's own packs; default: the cache")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--word-documents", type=int, default=200, help="0 leaves word-level metric DP out")
    parser.add_argument("--word-trials", type=int, default=2)
    parser.add_argument("--figures", type=Path, help="folder for the SVGs")
    parser.add_argument("--speed", action="store_true", help="time the release of given embeddings instead")
    chosen = parser.parse_args()
    data, cache = chosen.data, chosen.cache
    encoder = Encoder()
    general = DomainPack.load(chosen.pack, encoder_fingerprint=encoder.packs_of)
    if chosen.speed:
        source = SOURCES["20 Newsgroups"]
        test = public_text.embed(source.read(data, "test", source.test), encoder, cache, f"{source.name}-test")
        speed.measure(general, test)
        return
    folder = chosen.packs or cache
    packs = {title: own_pack(title, encoder, folder, data, cache) for title in SOURCES}
    labelled = {title: own_pack(title, encoder, folder, data, cache, labelled=True) for title in SOURCES}
    corpora = {
        title: Corpus(title, {OWN: packs[title], GENERAL: general}, labelled[title], encoder, data, cache)
        for title in SOURCES
    }
    by_epsilon = {title: corpus.against_epsilon(chosen.trials) for title, corpus in corpora.items()}
    for table in by_epsilon.values():
        print(f"\n{table.markdown()}\n\n{gap_closed(table)}", flush=True)
    for title, corpus in corpora.items():
        row = by_epsilon[title].rows["sentence_codes, own pack"]
        print(f"\n{crossed(corpus, packs, row, chosen.trials).markdown()}", flush=True)
    by_length = {title: corpus.against_length(chosen.trials) for title, corpus in corpora.items()}
    if chosen.word_documents:
        words = WordMechanism(encoder)
        for title, corpus in corpora.items():
            table, by_length[title].rows[WORDS] = corpus.words(words, chosen.word_documents, chosen.word_trials)
            row = table.rows[WORDS]
            by_epsilon[title].rows[WORDS] = Row(row.about, row.cells[: len(EPSILONS)])
            print(f"\n{table.markdown()}", flush=True)
    for table in by_length.values():
        print(f"\n{table.markdown()}", flush=True)
    if chosen.figures:
        figures.draw(by_epsilon, chosen.figures / "against-epsilon.svg", xlabel="epsilon (each document's own k)")
        figures.draw(by_length, chosen.figures / "against-k.svg", xlabel=f"sentences k (epsilon {LENGTHS_EPSILON})")


if __name__ == "__main__":
    main()
