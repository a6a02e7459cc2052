"""Benchmarks. They import the kits of the tests by their plain names."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/kits"))
