"""Serves a real gateway with the toys: `python -m toys.serve [--toy-engine] serve --port PORT --data-dir DIR`."""

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path

from toys.rows import handler_with_rows  # first: it adds rows that the schemas of `service` are built from

# isort: split

from gpu_workers.engine.local_engine import LocalEngine
from gpu_workers.engine.task_queue import Engine
from service.capabilities import CAPABILITIES
from service.config.settings import Settings
from service.config.worker_options import worker_pools
from service.serve import run
from toys.toy_endpoint import CAPABILITY as TOY_ENDPOINT
from toys.toy_engine import ToyEngine
from toys.toy_job_kind import CAPABILITY as TOY_JOB


def local_engine(settings: Settings) -> LocalEngine:
    """The workers of the settings, with the toys' rows in each."""
    pools = {
        role: replace(
            pool,
            workers=tuple(partial(handler_with_rows, factory) for factory in pool.workers),
            preload=("toys.rows", *pool.preload),  # rows come before what is built from them
        )
        for role, pool in worker_pools(settings).items()
    }
    return LocalEngine(pools)


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--toy-engine", action="store_true")
    arguments.add_argument("command", choices=["serve"])
    arguments.add_argument("--port", type=int)
    arguments.add_argument("--data-dir", type=Path)
    given = arguments.parse_args()
    settings = Settings(port=given.port, data_dir=given.data_dir)
    engine: Engine = ToyEngine() if given.toy_engine else local_engine(settings)
    run(settings, engine=engine, capabilities=[*CAPABILITIES, TOY_JOB, TOY_ENDPOINT])


if __name__ == "__main__":
    main()
