"""Plan what a year of releases may cost, spend a week of it under a cap, and watch the rest.

Costs:     epsilon 5: five documents at epsilon 1 (`--documents`, `--epsilon`). All questions about budgets are free.
Protects:  one sentence of each document, as in semantic_search.py. The account's limit bounds everything that is
           ever released from it together, whoever asks, and however the requests depend on earlier answers.
Does not:  bound other tenants, or another account of this one. A cap is a promise of this program to itself; only the
           account, in the gateway, refuses every program. A forecast is an estimate.

Needs: an API key with the roles `read` and `release`, and `admin` to store alerts. Run it again to see what has fired.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

from sample_data import tickets
from shared import account, connect, failed, parser, print_charge

from privacy_gateway_client import Account, BudgetCapReached, Gateway, GatewayError, Problem

MECHANISM, WEEKS = "sentence_codes", 52


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--documents", type=int, default=5, help="documents a week")
    options.add_argument("--epsilon", type=float, default=1.0, help="of each document")
    options.add_argument("--warn-at", type=float, default=0.8, help="share of the budget at which an alert fires")
    options.add_argument("--webhook", help="address that receives the alerts; without it they are only listed")
    arguments = options.parse_args()
    with connect(arguments) as client:
        before = account(client, "sentence")
        plan(client, before, arguments.documents, arguments.epsilon)
        spend_a_week(client, arguments.documents, arguments.epsilon)
        after = account(client, "sentence")
        watch(client, after)
        store_alerts(client, after, arguments.warn_at, arguments.webhook)
        print_charge(before, after)


def plan(client: Gateway, own: Account, documents: int, epsilon: float) -> None:
    """Compare the year's price with what is left."""
    count = WEEKS * documents
    delta = own.limit.delta or 1e-6
    print(f"A year of {WEEKS} weeks with {documents} documents at epsilon {epsilon:g}: {count} releases")
    # Every accountant's epsilon of the year, if it were fixed in advance. `tenant create --plan` opens an account that
    # holds you to such a plan; an account without one also bounds requests that depend on earlier answers.
    compared = client.accounting.compare({"kind": "pure", "epsilon": epsilon}, delta=delta, steps=count)
    bounds = {line["name"]: line["epsilon"] for line in compared["accountants"] if line["kind"] == "bound"}
    print(
        f"  added up: epsilon {bounds['basic']:.6g}; certified for a fixed plan at delta {delta:g}: {bounds['pld']:.6g}"
    )

    fits = client.budget.remaining(MECHANISM, epsilon=epsilon, account=own.account)
    print(
        f"  {own.account}: {own.committed.epsilon:.6g} of {own.limit.epsilon:.6g} is spent; {fits} more releases fit,"
    )
    print(f"  {'enough for the year' if fits >= count else f'enough for {fits // documents} weeks'}.")
    print(f"What else the account would admit at epsilon {epsilon:g}, and which of its bounds refuses first:")
    for row in client.budget.headroom(own.account, epsilon=epsilon)["requests"]:
        if row["preset"] is None:
            print(f"  {row['mechanism']:<20} {row['fits']:>6}   {row['binding']['arm']}")


def spend_a_week(client: Gateway, documents: int, epsilon: float) -> None:
    """Release the week's documents. The cap refuses the first one beyond them, before it is sent."""
    texts = [{"sentences": text.sentences} for text in tickets(documents + 1)]
    print(f"\nA week under a cap of epsilon {documents * epsilon:g}:")
    with client.budget_cap(documents * epsilon) as cap:
        result = client.embed_documents(texts[:documents], epsilon=epsilon, mechanism=MECHANISM)
        print(f"  {len(result.vectors)} vectors, epsilon {cap.spent:g}, {cap.remaining:g} of the cap is left")
        try:
            client.embed_documents(texts[documents:], epsilon=epsilon, mechanism=MECHANISM)
        except BudgetCapReached as error:
            print(f"  one more is refused: {error}")


def watch(client: Gateway, own: Account) -> None:
    """Who spent, when it ends, what is proven, and whether the ledger is sealed."""
    print("\nSpending of the last 28 days, by route (sums are made every few seconds):")
    for row in client.budget.spending(own.account, by="route")["rows"]:
        total = row["total"]
        print(f"  {row['route'] or 'not recorded':<16} epsilon {total['epsilon']:.6g}, releases {total['releases']}")

    forecast = client.budget.forecast(own.account)
    if ends := forecast["exhausted_ms"]:
        earliest, middle, latest = (day(ends[case]) for case in ("earliest", "middle", "latest"))
        print(f"Forecast, an estimate: the budget ends {middle} ({earliest} to {latest})")
    else:
        print(f"No forecast: {forecast['reason']}. It needs a day of spending.")

    print("What is proven of the account, and what is an estimate:")
    for line in client.budget.bounds(own.account)["lines"]:
        if line["epsilon"] is not None:
            print(f"  {line['name']:<10} {line['label']:<9} epsilon {line['epsilon']:.6g}")
    integrity = client.budget.integrity()
    entries, holds = integrity["journal"]["entries"], integrity["open_holds"]["number"]
    print(f"The journal has {entries} entries; {holds} holds are open.")


def store_alerts(client: Gateway, own: Account, share: float, webhook: str | None) -> None:
    """Two rules about the account, and what has fired so far."""
    receiver: dict[str, Any] = {"webhook": {"url": webhook}} if webhook else {}
    rules: dict[str, dict[str, Any]] = {
        "nearly-spent": {"kind": "budget_used", "share": share},
        "ends-within-a-month": {"kind": "forecast", "days": 30, "case": "earliest"},
    }
    print("\nAlerts:")
    try:
        for name, when in rules.items():
            client.alerts.put_rule(name, {"when": {**when, "accounts": [own.account]}, **receiver})
            print(f"  rule {name}: {when}")
    except Problem as error:
        if error.code != "role-missing":
            raise
        print("  no rule is stored, because this key does not have the role `admin`")
    for alert in client.alerts.fired():
        print(f"  {alert['status']} since {day(alert['fired_ms'])}: {alert['rule']} {alert['facts']}")


def day(moment_ms: int | None) -> str:
    return "beyond the forecast" if moment_ms is None else f"{datetime.fromtimestamp(moment_ms / 1000, UTC):%Y-%m-%d}"


if __name__ == "__main__":
    try:
        main()
    except GatewayError as error:
        sys.exit(failed(error))
