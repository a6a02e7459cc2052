"""Fine-tune a classifier of support tickets under differential privacy, and read its certificate.

Costs:     more than the epsilon that you ask for: 11.5 for `--epsilon 8` and the sizes below, and delta 1e-5, on the
           account `record`. What you ask for bounds what one ticket more or less changes; the account counts what
           replacing one ticket changes. The estimate shows the price before a ticket is sent, and a cap bounds it.
Protects:  one ticket of the training data, in the weights and in everything that was reported during the training.
Does not:  hide the number of tickets, the names of the labels, or the public split. A customer with several tickets is
           protected for one of them. The classifier knows what tickets of a queue have in common.

The training reads each ticket about `--epochs` times and adds noise to every step. 400 tickets are few: real trainings
have thousands, and need less noise for the same epsilon.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sample_data import labels_of_tickets, tickets
from shared import account, connect, failed, parser, print_charge

from privacy_gateway_client import BudgetCapReached, Gateway, GatewayError, Job


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=400, help="private tickets")
    options.add_argument("--public", type=int, default=100, help="public tickets, on which the metrics are measured")
    options.add_argument("--epsilon", type=float, default=8.0)
    options.add_argument("--delta", type=float, default=1e-5)
    options.add_argument("--batch", type=int, default=100)
    options.add_argument("--epochs", type=float, default=5)
    options.add_argument("--cap", type=float, default=15.0, help="refuse to pay more epsilon than this")
    options.add_argument("--out", type=Path, default=Path("made"), help="folder for the classifier and its card")
    arguments = options.parse_args()
    texts = tickets(arguments.rows + arguments.public, sentences=4, seed=5)
    rows = [{"text": " ".join(text.sentences), "label": text.label} for text in texts]
    terms: dict[str, Any] = {"labels": labels_of_tickets(), "epsilon": arguments.epsilon, "delta": arguments.delta}
    terms |= {"batch": arguments.batch, "epochs": arguments.epochs, "pieces_max": 64}

    with connect(arguments) as client:
        before = account(client, "record")
        price = client.budget.estimate({"name": "tickets", "rows": arguments.rows, **terms}).accounts[0]
        print(f"Asked for: epsilon {arguments.epsilon:g}. Price on {price.account}: epsilon {price.cost.epsilon:.3f},")
        print(f"of which {price.remaining.epsilon:.6g} is left: {'enough' if price.allowed else 'not enough'}.")
        try:
            with client.budget_cap(arguments.cap):
                job = client.finetune("tickets", rows[: arguments.rows], public=rows[arguments.rows :], **terms)
        except BudgetCapReached as error:
            sys.exit(f"error: {error}. Nothing was sent; raise --cap, or use larger data or a smaller --epsilon.")
        done = client.jobs.wait(
            job, progress=metrics_printer()
        )  # resumes after lost connections and restarts of the gateway
        save(client, done, arguments.out)
        after = account(client, "record")
    print_certificate(done)
    print_charge(before, after)


def metrics_printer() -> Callable[[Job], None]:
    """Prints the metrics of the public split when they change. No report is about the private tickets."""
    last: float | None = None

    def show(state: Job) -> None:
        nonlocal last
        metrics = state.metrics or {}
        if metrics.get("public_accuracy") != last:
            last = metrics["public_accuracy"]
            print(f"  step {metrics['step']} of {metrics['steps']}: public accuracy {last:.2f}")

    return show


def save(client: Gateway, job: Job, folder: Path) -> None:
    """The weights, for `gpu_workers.finetune.artifact.load_classifier`, and the card that goes with them."""
    folder.mkdir(exist_ok=True)
    (folder / "tickets.safetensors").write_bytes(client.jobs.artifact(job))
    (folder / "tickets.md").write_text(client.jobs.card(job), encoding="utf-8")
    print(f"The classifier and its card are in {folder}.")


def print_certificate(job: Job) -> None:
    """What is proven of the run, and what other accountants say about it."""
    result = job.result or {}
    certificate, charge = result["certificate"], result["privacy"]
    print(f"\nPublic accuracy {result['metrics']['accuracy']:.3f}, macro-F1 {result['metrics']['macro_f1']:.3f}")
    print("Certificate, for the weights and all reports together:")
    for what in (certificate, charge):
        print(f"  {what['adjacency']:<12} epsilon {what['epsilon']:.4f}, delta {what['delta']:g}")
    print(f"  {result['steps']} steps with noise multiplier {result['noise_multiplier']:.3f}")
    print("The same run by every accountant; only a bound is a guarantee:")
    for line in result["accountants"]:
        order = f" of order {line['order']}" if line["order"] else ""
        value = "none" if line["epsilon"] is None else f"{line['epsilon']:.4f}"
        print(f"  {line['name'] + order:<22} {line['kind']:<15} {value}")


if __name__ == "__main__":
    try:
        main()
    except GatewayError as error:
        sys.exit(failed(error))
