"""Kill what runs a bulk release, again and again, and compare the rows and the charges with what they must be.

    PYTHONPATH=.:tests:tests/kits python -m soak.bulk_kills [--kills 100] [--seed 0]

Kills the job's process, the gateway with its Redis, and the gateway alone, in the middle of releases to a folder of a
store. Each release must write every row once, never replace a part, and be charged once for each row. Prints a line
for each release; exit code 1 for the first difference.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
from gateway_kit import Gateway, Tenant, children

PARTS, PART_ROWS, EPSILON = 12, 1000, 3.0
JOB = "gpu_workers.jobs.process"
KILLS_PER_JOB_MAX = 12
STARTS_MAX = 2  # that get no further: after three, a job fails


class Soak:
    """One gateway with a store of a folder, and what it has written so far."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.lake = folder / "lake"
        self.lake.mkdir()
        (folder / "stores.toml").write_text(f'[stores.lake]\nurl = "file://{self.lake}"\nread = true\nwrite = true\n')
        environment = {
            "PRIVACY_GATEWAY_BULK_STORES_FILE": str(folder / "stores.toml"),
            "PRIVACY_GATEWAY_JOB_PRIORITY": "normal",
            "PRIVACY_GATEWAY_TAGGER": "off",
        }
        self.gateway = Gateway(folder / "data", environment)
        self.dice = random.Random(seed)
        self.kills = {"process": 0, "gateway": 0, "gateway and Redis": 0}
        rows = (json.dumps({"text": f"Jo wrote {number}.", "id": number}) for number in range(PARTS * PART_ROWS))
        (self.lake / "in.jsonl").write_text("\n".join(rows))

    def release(self, number: int, kills: int) -> None:
        """One release, with about so many kills. Raises AssertionError."""
        tenant = self.gateway.tenant(epsilon=1e6)
        body = {
            "name": f"r{number}", "endpoint": "sanitize", "source": {"store": "lake", "keys": ["in.jsonl"]},
            "body": {"mask": {"techniques": ["all"]}, "fill": {"mode": "metric_dp", "epsilon": EPSILON}},
            "target": {"store": "lake", "prefix": f"out-{number}"},
        }  # fmt: skip
        job_id = tenant.http.post("/jobs/release", json=body).raise_for_status().json()["job_id"]
        written: dict[str, bytes] = {}
        deaths, furthest = 0, -1.0
        while True:
            time.sleep(self.dice.uniform(0.1, 1.0))
            for path in (self.lake / f"out-{number}").glob("part-*"):
                assert written.setdefault(path.name, path.read_bytes()) == path.read_bytes(), (
                    f"{path.name} was replaced"
                )
            job = self._job(tenant, job_id)
            if job is not None and job["status"] in ("succeeded", "failed", "cancelled"):
                break
            if job is not None and job["progress"] > furthest:
                deaths, furthest = 0, job["progress"]
            if kills > 0 and deaths < STARTS_MAX:
                killed, tenant = self._kill(self.dice.choice(["process", "gateway", "gateway and Redis"]), tenant)
                deaths += killed
                kills -= killed
        assert job["status"] == "succeeded", job
        files = sorted((self.lake / f"out-{number}").glob("part-*"))
        rows = [json.loads(line)["row"] for path in files for line in path.read_text().splitlines()]
        assert rows == list(range(PARTS * PART_ROWS)), "other rows"
        spent = tenant.committed("token")
        assert job["spent"]["epsilon"] > 0
        journal = self._commits(tenant)
        assert len(journal) == len(set(journal)) == PARTS, "other charges"
        print(f"release {number}: {len(files)} parts, {job['attempts']} attempts, spent {spent:g}", flush=True)

    def _job(self, tenant: Tenant, job_id: str) -> dict[str, Any] | None:
        with contextlib.suppress(httpx.HTTPError):
            answer = tenant.http.get(f"/jobs/{job_id}")
            return answer.json() if answer.is_success else None
        return None

    def _commits(self, tenant: Tenant) -> list[str]:
        page = tenant.http.get(f"/budget/{tenant.name}/token/journal", params={"limit": 500}).json()
        return [entry["release_id"] for entry in page["entries"] if entry["transition"] in ("commit", "expire")]

    def _kill(self, how: str, tenant: Tenant) -> tuple[bool, Tenant]:
        """Returns whether anything was killed, and the tenant by a new connection."""
        if how == "process":
            found = [pid for pid, line in children(self.gateway.process.pid).items() if JOB in line]
            for pid in found:
                os.kill(pid, signal.SIGKILL)
            self.kills[how] += bool(found)
            return bool(found), tenant
        if how == "gateway and Redis":
            for pid, line in children(self.gateway.process.pid).items():
                if "redis-server" in line:
                    os.kill(pid, signal.SIGKILL)
        self.gateway.die()
        self.gateway.start()
        self.kills[how] += 1
        return True, self.gateway.reconnected(tenant)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder), given.seed)
        try:
            number = 0
            while sum(soak.kills.values()) < given.kills:
                left = given.kills - sum(soak.kills.values())
                soak.release(number, min(left, soak.dice.randint(3, KILLS_PER_JOB_MAX)))
                number += 1
        finally:
            soak.gateway.stop()
        print(soak.kills)
    return 0


if __name__ == "__main__":
    sys.exit(main())
