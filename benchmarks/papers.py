"""Redraw every measured item of the five papers (docs/reference/papers.md): run the benchmarks behind them.

    python -m benchmarks.papers --data DATA [--parts pearl sentdp-figure-4] [--results FOLDER]

A part is one run of one benchmark, on one core. Two parts run at a time. The output of a finished part is kept in
FOLDER/<part>.md with its seconds, and a part that is there is not run again: delete its file to repeat it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.kit import ROOT, arguments, head, row

# The arguments of each part, the longest first: a part is named after its paper.
PARTS: dict[str, str] = {
    "ewtune-accuracy": "finetune --data {data} --parts paper --seeds 10",
    "sentdp-figure-4": "sentdp --data {data} --documents 2000 --train 1500 --figures {results}",
    "infill-conll": "obfuscation --data {data} --corpus CoNLL-2003 --masks allow_list vocabulary entity",
    "infill-wikitext": "obfuscation --data {data} --corpus WikiText-2",
    "infill-imdb": "obfuscation --data {data} --corpus IMDB",
    "pearl-digits": "synthesis.digits --epsilons 1 75 10 0.2 --runs 3",
    "infill-smollm2": "obfuscation --data {data} --corpus IMDB --masks entity --smollm2 --fine-tuning-steps 12",
    "privemb-sentences": "privemb --data {data} --parts sentences --trials 1",
    "pearl-adult": "synthesis --data {data} --runs 3 --figures {results}",
    "ewtune-noise": "finetune --data {data} --parts multipliers",
    "ewtune-epsilons": "finetune --data {data} --parts epsilons --figure {results}/ewtune-epsilon.svg",
    "pearl-epsilons": "synthesis --data {data} --runs 1 --epsilons 0.2 0.5 2 4 10 --only pearl marginals aim",
    "sentdp-single": "sentdp.few_sentences --data {data} --documents 500",
    "sentdp-retrieval": "sentdp.retrieval --data {data} --documents 1200",
    "pearl-power": "synthesis.power",
    "privemb-words": "privemb --data {data} --parts words",
    "privemb-figures": "privemb --data {data} --parts figures --figures {results}",
}
_AT_ONCE = 2


def main() -> None:
    options = arguments(
        __doc__,
        needs_data=True,
        parts=(list(PARTS), "names of parts, or their beginnings, such as a paper's name"),
        results=(Path("reports/papers"), "folder of the outputs"),
    )
    wanted = [name for name in PARTS if name.startswith(tuple(options.parts))]
    if not wanted:
        raise SystemExit(f"no such part; the parts are {', '.join(PARTS)}")
    options.results.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        finished = list(pool.map(lambda name: _measured(name, options.data.resolve(), options.results), wanted))
    head("part", "seconds", "result")
    for name, path in zip(wanted, finished, strict=True):
        row(name, *(("failed", path) if path.suffix != ".md" else (_seconds(path), path)))
    if any(path.suffix != ".md" for path in finished):
        raise SystemExit(1)


def _measured(name: str, data: Path, results: Path) -> Path:
    """Run a part unless its result is kept. Return the file of its output, or of its errors if it failed."""
    kept, failed = results / f"{name}.md", results / f"{name}.unfinished"
    if kept.exists():
        return kept
    words = PARTS[name].format(data=data, results=results.resolve()).split()
    command = [sys.executable, "-m", f"benchmarks.{words[0]}", *words[1:]]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT}:{ROOT / 'tests/kits'}"}
    started = time.monotonic()
    with failed.open("w") as output:
        code = subprocess.run(command, cwd=ROOT, env=environment, stdout=output, stderr=output, check=False).returncode
        output.write(f"\n`{' '.join(words)}`: {time.monotonic() - started:.0f} s\n")
    return failed.replace(kept) if code == 0 else failed


def _seconds(path: Path) -> str:
    return path.read_text().rsplit(" s\n", 1)[0].rsplit(" ", 1)[-1]


if __name__ == "__main__":
    main()
