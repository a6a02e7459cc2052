"""What the gateway hides, which plain words it masks by mistake, and what its proxy lets out, beside other finders.

    python -m benchmarks.sanitising [--only de fr ...] [--show N] [--peers]   # our own texts
    python -m benchmarks.sanitising --part tab spia pasteguard --data DATA [--peers]
    python -m benchmarks.sanitising --part leaks

Our own texts are written by hand, in `texts/`; `marked.py` describes their marks and the figures. The patterns and the
shipped tagger run with every entity that is masked by default. Cut: masks that begin or end inside a word. Loose: masks
that begin or end with a space or punctuation. A border that a mark shares is neither.

Public files are no part of the project. DATA holds `tab` (`echr_test.json` of the Text Anonymization Benchmark, or its
cases as JSON lines), `spia` (`spia_*.jsonl` of https://github.com/maisonOP/spia) and `pasteguard` (PasteGuard's
`benchmarks/pii-accuracy/test-data`). `tab`, `leaks` and `--peers` need `benchmarks/sanitising/install_peers`.
"""

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.kit import arguments, head, row
from benchmarks.sanitising import leaks, pasteguard, spia, tab
from benchmarks.sanitising.finders import Find, finds_of
from benchmarks.sanitising.marked import Figures, Marked, names, read, shown

OURS, ALL = "gateway", "all"


def measure(found: Iterable[tuple[Marked, Sequence[Find]]]) -> Figures:
    """Return the figures of texts with what was found in them."""
    figures = Figures()
    for marked, finds in found:
        figures.add(marked, finds)
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


def own_texts(files: Sequence[str], examples: int, *, peers: bool) -> None:
    """Print the figures of our own texts, and a table of all finders."""
    texts = [(name, shown(marked)) for name in files for marked in read(name)]
    found = finds_of([marked.text for _, marked in texts], {OURS: ()}, peers=peers)
    measured = {
        file: {
            finder: measure(
                (marked, own) for (name, marked), own in zip(texts, finds, strict=True) if file in (name, ALL)
            )
            for finder, finds in found.items()
        }
        for file in (*files, ALL)
    }
    for file in files:
        show(file, measured[file][OURS], examples)
    print("\nwords hidden / plain words masked\n")
    head("file", *found)
    for file, by_finder in measured.items():
        shares = (
            (each.words_hidden.total() / max(1, each.words.total()), each.plain_masked.total() / max(1, each.plain))
            for each in by_finder.values()
        )
        row(file, *(f"{hidden:.3f} / {masked:.3f}" for hidden, masked in shares))


def main() -> None:
    options = arguments(
        __doc__,
        part=(["texts"], "texts, tab, spia, pasteguard, leaks"),
        data=(Path, "folder of the public files"),
        only=(names(), "names of our own files without their ending"),
        show=(0, "print so many examples of each mistake of our own files"),
        peers=(False, "Presidio and Rampart, too"),
    )
    if not options.data and {"tab", "spia", "pasteguard"} & {*options.part}:
        raise SystemExit("--data names the folder of the public files.")
    logging.disable()
    if "texts" in options.part:
        own_texts(options.only, options.show, peers=options.peers)
    if "tab" in options.part:
        for path in sorted((options.data / "tab").glob("*.json*")):
            tab.report(path, peers=options.peers)
    if "spia" in options.part:
        for path in sorted((options.data / "spia").glob("*.jsonl")):
            spia.report(path, sorted((options.data / "tab").glob("*.jsonl")))
    if "pasteguard" in options.part:
        pasteguard.report(options.data / "pasteguard", peers=options.peers)
    if "leaks" in options.part:
        leaks.report()


if __name__ == "__main__":
    main()
