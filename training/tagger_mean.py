"""The weighted mean of tagger files that were trained one from another.

    python -m training.tagger_mean OUT FILE=WEIGHT FILE=WEIGHT ...

Such a mean keeps more of what the earlier files know than the last one does; see
docs/adr/0034-tagger-and-adapters.md. The labels are those of the last file; the others have the first of them.
The row of a label is the mean of the files that have this label.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

from gpu_workers.models.embedded import AdapterInfo, load_adapter, save_adapter
from gpu_workers.models.encoder import weights_fingerprint
from gpu_workers.models.encoder_model import bundled_path

Tensors = dict[str, torch.Tensor]


def mean(parts: Sequence[tuple[AdapterInfo, Tensors]], weights: Sequence[float]) -> tuple[AdapterInfo, Tensors]:
    """Return the description of the last part and the mean of the tensors.

    Raises: ValueError for no part, a weight that is not positive, or labels that do not continue each other.
    """
    if not parts or min(weights) <= 0:
        raise ValueError("the mean needs files with positive weights")
    labels = parts[-1][0].labels
    if any(info.labels != labels[: len(info.labels)] for info, _ in parts):
        raise ValueError("the labels of a file are not the first labels of the last one")
    found = {}
    for name, last in parts[-1][1].items():
        total = torch.zeros_like(last)
        weight = torch.zeros(len(last))
        for (_, tensors), own in zip(parts, weights, strict=True):
            rows = len(tensors[name])
            total[:rows] += own * tensors[name]
            weight[:rows] += own
        found[name] = total / weight.view(-1, *[1] * (last.ndim - 1))
    return parts[-1][0], found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("files", nargs="+", metavar="FILE=WEIGHT")
    arguments = parser.parse_args()
    pairs = [each.rpartition("=") for each in arguments.files]
    encoder = weights_fingerprint(bundled_path())
    parts = [load_adapter(Path(name), "tagger", encoder) for name, _, _ in pairs]
    info, tensors = mean(parts, [float(weight) for _, _, weight in pairs])
    save_adapter(arguments.out, info, tensors)


if __name__ == "__main__":
    main()
