"""Release a file of support tickets as one job, under a cap, with a pause, and read which rows were left out.

Costs:     epsilon 1 for each ticket (`--epsilon`), on the accounts `sentence` and `token`.
Protects:  each sentence of a ticket, as `/embed/sentdp` does.
Does not:  hide how many tickets there are, their ids, how long they are, and which rows are left out.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from sample_data import tickets
from shared import account, connect, failed, parser, print_charge

from privacy_gateway_client import GatewayError


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--tickets", type=int, default=2000)
    options.add_argument("--epsilon", type=float, default=1.0, help="of each ticket")
    arguments = options.parse_args()
    rows = [json.dumps({"id": n, "note": " ".join(one.sentences)}) for n, one in enumerate(tickets(arguments.tickets))]
    with tempfile.TemporaryDirectory() as folder, connect(arguments) as client:
        source, made = Path(folder) / "tickets.jsonl", Path(folder) / "vectors.jsonl"
        source.write_text("\n".join([*rows, "no JSON", ""]), encoding="utf-8")
        before = account(client, "sentence")
        with client.budget_cap(arguments.epsilon * (len(rows) + 1)):  # rows that are left out count under the cap
            job = client.release(
                "tickets",
                source,
                endpoint="embed/sentdp",
                body={"epsilon": arguments.epsilon},
                text_column="note",
                id_column="id",
            )
        paused = client.jobs.pause(job)
        print(f"After the pause: {paused.status}, {paused.progress:.0%}")  # a running part ends first
        client.jobs.resume(job)
        client.jobs.download(client.jobs.wait(job), made)
        manifest = client.jobs.manifest(job)
        with made.open(encoding="utf-8") as file:
            first = json.loads(next(file))
        print(f"{manifest['written']} of {manifest['rows']} rows are released in {len(manifest['parts'])} parts")
        print(f"Row 0 has {len(first['embedding'])} numbers; left out: {manifest['left_out']}")
        print_charge(before, account(client, "sentence"))


if __name__ == "__main__":
    try:
        main()
    except GatewayError as error:
        sys.exit(failed(error))
