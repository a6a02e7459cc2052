"""Serves a gateway for tests of a cluster: `python -m toys.cluster serve --port PORT --data-dir DIR`."""

import argparse
from pathlib import Path

import constants_kit
from soak.job_kind import SoakKind

from service.capabilities import CAPABILITIES
from service.capability import Capability
from service.config.settings import Settings
from service.serve import run
from toys.toy_engine import ToyEngine
from toys.toy_sharded_kind import ToyShardedKind

KINDS = Capability(name="soak", job_kinds=lambda parts: [SoakKind(parts[Settings]), ToyShardedKind(parts[Settings])])


def main() -> None:
    constants_kit.change_for_good()
    arguments = argparse.ArgumentParser()
    arguments.add_argument("command", choices=["serve"])
    arguments.add_argument("--port", type=int)
    arguments.add_argument("--data-dir", type=Path)
    given = arguments.parse_args()
    settings = Settings(port=given.port, data_dir=given.data_dir)
    run(settings, engine=ToyEngine(), capabilities=[*CAPABILITIES, KINDS])


if __name__ == "__main__":
    main()
