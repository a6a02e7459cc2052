"""The encoders on processors that this machine can imitate, beside `SentenceTransformer.encode` in float32.

    python -m benchmarks.processors --data ../shared/data

Variables of the environment keep the libraries from newer instructions. Each processor is one process with two threads:
the encoder in 8-bit integers, the one in floating point and `encode` take turns, sentences all at once and document by
document, and the best of three rounds counts. The encoders' checks run first, as in a worker.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

_THREADS = 2
_ROUNDS = 3
_OLDER = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
_NUMBA_OLDER = {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": ""}
PROCESSORS: dict[str, dict[str, str]] = {
    "as it is": {},
    "AVX512 and BF16, no AMX": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"},
    "AVX512 and VNNI, no BF16": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_VNNI"},
    "AVX512, no VNNI": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"},
    "AVX2": _OLDER | _NUMBA_OLDER,
}


def best(works: list[Callable[[], object]]) -> list[float]:
    """The least seconds of each work; they take turns."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(1 + _ROUNDS):
        for own, work in zip(times, works, strict=True):
            started = time.perf_counter()
            work()
            own.append(time.perf_counter() - started)
    return [min(own[1:]) for own in times]


def measure(documents: list[list[str]]) -> list[dict[str, object]]:
    import torch
    from sentence_transformers import SentenceTransformer

    from gpu_workers.models.encoder import Encoder
    from gpu_workers.models.encoder_model import bundled_path
    from gpu_workers.models.integer.encoder import IntegerEncoder

    torch.set_num_threads(_THREADS)
    peer = SentenceTransformer(str(bundled_path()), device="cpu", model_kwargs={"dtype": "float32"})
    encoders: list[Encoder | IntegerEncoder] = [IntegerEncoder(), Encoder()]
    passed = [encoder.self_check() for encoder in encoders]
    encodes: list[Callable[[list[str]], object]] = [encoder.encode for encoder in encoders]
    encodes.append(lambda sentences: peer.encode(sentences, show_progress_bar=False))
    texts = [sentence for units in documents for sentence in units]

    def each(encode: Callable[[list[str]], object]) -> None:
        for units in documents:
            encode(units)

    works = [lambda encode=encode: encode(texts) for encode in encodes]
    works += [lambda encode=encode: each(encode) for encode in encodes]
    rates = [len(texts) / seconds for seconds in best(works)]
    whole, single = rates[: len(encodes)], rates[len(encodes) :]
    rows: list[dict[str, object]] = []
    for i, encoder in enumerate(encoders):
        facts = encoder.facts()
        path = f"{facts.dtype}, {'packed' if facts.packed else 'fixed batches'}"
        path += f" in tiles of {facts.tile_rows}" if facts.tile_rows else ""
        path += "" if passed[i] else ", FAILS its check"
        rows.append({"path": path, "rates": [whole[i], whole[-1], single[i], single[-1]]})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=60)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        from benchmarks.gateway import load_documents

        print(json.dumps(measure(load_documents(options.data, options.documents))))
        return
    print("| processor | path | all at once, ours | `encode` | ratio | document by document, ours | `encode` | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, variables in PROCESSORS.items():
        environment = (
            {"MKL_CBWR": "AUTO,STRICT", "GOMP_SPINCOUNT": "0", "OMP_NUM_THREADS": str(_THREADS)}
            | os.environ
            | variables
        )
        command = [sys.executable, "-m", "benchmarks.processors", *sys.argv[1:], "--child"]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
        for row in json.loads(done.stdout.splitlines()[-1]):
            whole, its_whole, single, its_single = row["rates"]
            print(f"| {name} | {row['path']} | {whole:.0f} | {its_whole:.0f} | {whole / its_whole:.2f}", end="")
            print(f" | {single:.0f} | {its_single:.0f} | {single / its_single:.2f} |", flush=True)


if __name__ == "__main__":
    main()
