"""Sets the environment of the tests as it is imported: before libraries and other kits read it.

It also switches the collector of garbage off. `tiers.py` switches it on when all tests are collected: what imports
make stays, and to look through it again and again takes a third of the time of the collection.
"""

import gc
import os

from gpu_workers.fork_server import WORKER_ENVIRONMENT

gc.disable()
# models that run inside a test compute as in a worker, which reads these when it loads its libraries
for _name, _value in WORKER_ENVIRONMENT.items():
    os.environ.setdefault(_name, _value)
# tests run side by side: more threads of each would only wait for each other
os.environ.setdefault("OMP_NUM_THREADS", "1")
