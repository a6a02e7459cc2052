"""python -m benchmarks.finetune --data DATA [--parts PARTS]: see docs/reference/benchmarks/fine-tuning.md."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.finetune import accuracy, multipliers, sampling, speed
from benchmarks.finetune.tasks import TASKS


def main() -> None:
    parser = argparse.ArgumentParser(description="Private fine-tuning: noise, accuracy, speed.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the evaluation data")
    parser.add_argument("--parts", default="multipliers,accuracy,sampling,speed")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--methods", default="lora,rgp")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=4_500)
    parser.add_argument("--batch", type=int, default=150)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--processes", type=int, default=2, help="of one thread each")
    parser.add_argument("--rounds", type=int, default=2, help="of the speed, ours and the peer in turn")
    parser.add_argument("--timed-steps", type=int, default=4, help="in a round")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache/privacy-gateway/finetune")
    chosen = parser.parse_args()
    parts, tasks, methods = (value.split(",") for value in (chosen.parts, chosen.tasks, chosen.methods))
    if "multipliers" in parts:
        multipliers.show()
    if "accuracy" in parts:
        size = accuracy.Size(chosen.rows, chosen.batch, chosen.steps)
        accuracy.train(
            chosen.data,
            chosen.cache,
            size,
            tasks=tasks,
            methods=methods,
            seeds=chosen.seeds,
            processes=chosen.processes,
        )
        accuracy.show(chosen.cache, size, tasks=tasks, methods=methods, seeds=chosen.seeds)
    if "sampling" in parts:
        sampling.show_noise()
        sampling.show_accuracy(chosen.data, chosen.cache, tasks=tasks[:1], seeds=chosen.seeds)
    if "speed" in parts:
        speed.show(chosen.data, rounds=chosen.rounds, steps=chosen.timed_steps)


if __name__ == "__main__":
    main()
