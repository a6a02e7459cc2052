"""What `POST /sanitize` hides of marked texts in eight languages, and which plain words it masks by mistake.

    python -m benchmarks.sanitising [--only de fr ...] [--show N]

Runs the patterns and the shipped tagger with every entity that is masked by default. The texts are written by hand, in
`texts/`; `marked.py` describes their marks and the figures. Cut: masks that begin or end inside a word.
Loose: masks that begin or end with a space or punctuation. A border that a mark shares is neither.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.kit import arguments
from benchmarks.sanitising.marked import Figures, Marked, names, read
from core.text.mask_words import AllowLists
from core.text.policy import MaskPolicy, SanitizeTask
from core.text.sanitize import inspect
from core.text.segment import visible
from gpu_workers.handlers.entity_tagger import NameFinder
from gpu_workers.handlers.own_finder import OwnFinder
from gpu_workers.handlers.recognition import joined, recognise
from gpu_workers.models.sources import TAGGER_BUNDLED


def shown(marked: Marked) -> Marked:
    """Return the text as recognisers read it, without invisible characters inside words, with its marks moved."""
    text = visible(marked.text)
    places = [0]  # how many shown characters precede each character of the original
    for character in marked.text:
        kept = places[-1] < len(text) and text[places[-1]] == character
        places.append(places[-1] + kept)
    marks = (replace(mark, start=places[mark.start], end=places[mark.end]) for mark in marked.marks)
    return replace(marked, text=text, marks=tuple(marks))


def measure(texts: Sequence[Marked], finder: NameFinder) -> Figures:
    """Return the figures of a file."""
    figures, lists = Figures(), AllowLists()
    texts = [shown(marked) for marked in texts]
    policy = MaskPolicy().completed(tuple(finder.types))
    tasks = [SanitizeTask(marked.text, policy) for marked in texts]
    for marked, task, finds in zip(texts, tasks, recognise(tasks, finder, OwnFinder(loaded_max=1)), strict=True):
        figures.add(marked, inspect(task.text, task.policy, lists, joined(task, finds)).masks)
    return figures


def show(name: str, figures: Figures, examples: int) -> None:
    """Print the figures of a file, and some of what is missed and masked by mistake."""
    print(f"\n{name}: {figures.texts} texts, {figures.without_finds} of them without personal data")
    wrong = figures.plain_masked
    print(
        f"plain words {figures.plain}, masked {wrong.total() / max(1, figures.plain):.4f}"
        f"{''.join(f', {kind} {count / figures.plain:.4f}' for kind, count in wrong.most_common())}"
    )
    print(f"masks {figures.masks}, cut {figures.cut}, loose {figures.loose}")
    if figures.finds:
        print(f"{'type':<24}{'finds':>7}{'hidden':>8}{'words':>7}{'hidden':>8}")
    for kind, count in figures.finds.most_common():
        words = figures.words[kind]
        print(
            f"{kind:<24}{count:>7}{figures.finds_hidden[kind] / count:>8.3f}"
            f"{words:>7}{figures.words_hidden[kind] / max(1, words):>8.3f}"
        )
    for title, lines in (("missed", figures.missed), ("masked by mistake", figures.wrong), ("edges", figures.edges)):
        for line in lines[:examples]:
            print(f"  {title}: {line}")


def main() -> None:
    files = (names(), "names of files without their ending")
    options = arguments(__doc__, only=files, show=(0, "print so many examples of each mistake of a file"))
    logging.disable()
    finder = NameFinder(TAGGER_BUNDLED, device="cpu")
    for name in options.only:
        show(name, measure(read(name), finder), options.show)


if __name__ == "__main__":
    main()
