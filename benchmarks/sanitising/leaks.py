"""`pii-leak-benchmark` through the proxy: its values must not reach the model, and must come back to the client.

Its capture stands behind a gateway on its defaults, as the upstream of the model `conformance-model`. Its command
`selfcheck` sends prompts with each of its profiles: personal data alone, and with credentials. A run is clean if all of
its checks pass.
"""

import json
import subprocess
from collections import Counter

from gateway_kit import free_port

from benchmarks.kit import head, row, running
from benchmarks.sanitising.finders import installed

PROFILES = ("pii-v1", "pii-secrets-v1")
RUNS = 5  # the values are new in each


def report() -> None:
    """Print what the benchmark says of each run that is not CLEAN, and how many are."""
    capture = free_port()
    upstream = {"base_url": f"http://127.0.0.1:{capture}/v1", "models": ["conformance-model"], "kind": "openai"}
    with running({"PRIVACY_GATEWAY_UPSTREAMS": json.dumps({"capture": upstream})}) as gateway:
        key = gateway.tenant().key
        clean = Counter[str]()
        for profile in PROFILES * RUNS:
            command = [installed("pii-leak-benchmark"), "selfcheck", "--profile", profile]
            command += ["--target-base-url", f"{gateway.url}/v1", "--capture-port", str(capture)]
            done = subprocess.run(command, env={"CONFORMANCE_TARGET_API_KEY": key}, capture_output=True, text=True)
            clean[profile] += done.returncode == 0
            if done.returncode:
                print(done.stdout, done.stderr)
    head("profile", "runs", "clean")
    for profile in PROFILES:
        row(profile, RUNS, clean[profile])
