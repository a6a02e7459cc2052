"""What a language model learns from a corpus whose words were masked and filled: the tables of Vats et al. 2023.

    python -m benchmarks.obfuscation --data DATA [--cache CACHE] [--sentences 1500] [--corpus IMDB]

DATA holds IMDB, WikiText-2 and, for the pretraining, GLUE's MNLI, QNLI and QQP, Yelp and 20 Newsgroups as JSON lines.

* Table 2: the share of tokens that each technique masks.
* Tables 3 to 5: perplexity by word of held-out clean sentences, of a small Transformer that was pretrained on other
  text and adapted to the corpus as it is (Oracle), masked (Baseline0: the marker is a word like others; Baseline1: it
  has no weight in the loss), or filled. The row without adaptation is ours.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from benchmarks.obfuscation import corpora
from benchmarks.obfuscation.corpora import Corpus
from benchmarks.obfuscation.language_model import LanguageModel
from benchmarks.obfuscation.obfuscated import MASKS, Obfuscator
from core.text.policy import DP, TOP_1, TOP_K

CACHE = Path(tempfile.gettempdir()) / "privacy-gateway-obfuscation"
FINE_TUNING_STEPS = 60
EPSILONS = (10, 20)


class Tables:
    """The figures of one corpus; a perplexity that is in the cache is not computed again."""

    def __init__(self, corpus: Corpus, model: LanguageModel, obfuscator: Obfuscator, cache: Path) -> None:
        self._corpus, self._model, self._obfuscator, self._cache = corpus, model, obfuscator, cache

    def masked(self) -> list[float]:
        """Share of the tokens that each of `MASKS` masks."""
        found = [self._obfuscator.filled(self._corpus.adapt, mask, "marker") for mask in MASKS]
        return [each.masked / each.tokens for each in found]

    def perplexities(self) -> dict[str, list[float]]:
        """Of each row, under each of `MASKS`."""
        clean, obfuscator = self._corpus.adapt, self._obfuscator
        adapted = self._perplexity
        rows: dict[str, Callable[[str], float]] = {
            "not adapted": lambda _: adapted([]),
            "Oracle": lambda _: adapted(clean),
            "Baseline0": lambda mask: adapted(obfuscator.filled(clean, mask, "marker").texts),
            "Baseline1": lambda mask: adapted(obfuscator.filled(clean, mask, "marker").texts, marker_weight=0.0),
            "top1": lambda mask: adapted(obfuscator.filled(clean, mask, TOP_1).texts),
            "topk": lambda mask: adapted(obfuscator.filled(clean, mask, TOP_K).texts),
            "topk, fine-tuned": lambda mask: adapted(obfuscator.fine_tuned(clean, mask).texts),
        } | {
            f"dp, epsilon {epsilon} a slot": lambda mask, epsilon=epsilon: adapted(
                obfuscator.filled(clean, mask, DP, epsilon=epsilon).texts
            )
            for epsilon in EPSILONS
        }
        return {name: [row(mask) for mask in MASKS] for name, row in rows.items()}

    def _perplexity(self, adapt: Sequence[str], *, marker_weight: float = 1.0) -> float:
        key = repr((self._model.fingerprint, list(adapt), self._corpus.test, marker_weight)).encode()
        path = self._cache / f"perplexity-{hashlib.sha256(key).hexdigest()[:24]}.txt"
        if not path.exists():
            found = self._model.perplexity(adapt, self._corpus.test, marker_weight=marker_weight)
            path.write_text(str(found))
        return float(path.read_text())


def _row(name: str, cells: Sequence[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"


def _heading(name: str) -> str:
    return f"\n{_row(name, list(MASKS))}\n{_row('---', ['---'] * len(MASKS))}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--sentences", type=int, default=1_500, help="to adapt to, of each corpus")
    parser.add_argument("--corpus", choices=corpora.NAMES, action="append")
    parser.add_argument("--fine-tuning-steps", type=int, default=FINE_TUNING_STEPS)
    options = parser.parse_args()
    logging.disable()
    torch.set_num_threads(1)
    options.cache.mkdir(parents=True, exist_ok=True)
    obfuscator = Obfuscator(options.cache, fine_tuning_steps=options.fine_tuning_steps)
    model = LanguageModel.pretrained(corpora.pretraining(options.data), options.cache)
    steps = options.fine_tuning_steps
    print(f"load {os.getloadavg()[0]:.1f}; infill {obfuscator.infill[:12]}, {steps} steps of fine-tuning")
    for name in options.corpus or corpora.NAMES:
        corpus = corpora.corpus(name, options.data, options.sentences)
        tables = Tables(corpus, model, obfuscator, options.cache)
        print(_heading(f"{name}, share of tokens masked"))
        print(_row(f"{len(corpus.adapt)} sentences", [f"{share:.1%}" for share in tables.masked()]))
        found = tables.perplexities()
        oracle = found["Oracle"]
        print(_heading(f"{name}, perplexity on {len(corpus.test)} sentences (ratio to Oracle)"))
        for row, values in found.items():
            print(_row(row, [f"{value:.1f} ({value / best:.3f})" for value, best in zip(values, oracle, strict=True)]))


if __name__ == "__main__":
    main()
