"""Release a synthetic table of a sports club's members, and see what a model learns from it.

Costs:     epsilon 1 and delta 1e-5 on the account `record`, once for each method (`--epsilon`, `--methods`). Rows that
           are drawn later, and every model that is trained on them, cost nothing.
Protects:  one row of the table, that is one member: whoever has all synthetic rows can hardly tell whether a member's
           row was in the table, or any other row in its place.
Does not:  hide what the table teaches. If members who live far away leave more often, the synthetic members do so, too.
           The columns, their bounds and their categories are public: declare them without looking at the rows.

The comparison with real members at the end is for this example, whose members are invented. Scores on real rows of
yours have no guarantee: keep them to yourself, and choose neither epsilon nor method by them.

Needs: numpy, scikit-learn.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sample_data import MEMBERS_SCHEMA, members
from shared import account, connect, failed, parser, print_charge
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from privacy_gateway_client import Gateway, GatewayError

Row = dict[str, Any]
CONTRACTS = MEMBERS_SCHEMA["columns"][3]["categories"]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=2000, help="members of the private table")
    options.add_argument("--epsilon", type=float, default=1.0)
    options.add_argument("--delta", type=float, default=1e-5)
    options.add_argument("--methods", nargs="+", choices=["marginals", "pearl"], default=["marginals", "pearl"])
    arguments = options.parse_args()
    everyone = members(arguments.rows + 1000)
    private, held_out = everyone[: arguments.rows], everyone[arguments.rows :]

    tables = {"real rows": private}
    with connect(arguments) as client:
        before = account(client, "record")
        for method in arguments.methods:
            tables[method] = synthetic(client, private, method, arguments.epsilon, arguments.delta)
        after = account(client, "record")

    print("\nA model that predicts who renews, trained on each table and tested on 1,000 other members:")
    print("  trained on    ROC AUC   weights: visits   distance   yearly contract")
    for name, rows in tables.items():
        auc, (visits, distance, yearly) = learnt(rows, held_out)
        print(f"  {name:<12}  {auc:7.3f}   {visits:15.2f}   {distance:8.2f}   {yearly:15.2f}")

    # Two columns that belong together without the label: students are young. `marginals` keeps each column's own
    # distribution and what it says about the label, and nothing else; `pearl` also keeps pairs of columns.
    print("\nMean age of members by contract:")
    print("  table         " + "   ".join(f"{name:>8}" for name in CONTRACTS))
    for name, rows in tables.items():
        print(f"  {name:<12}  " + "   ".join(f"{mean_age(rows, contract):8.1f}" for contract in CONTRACTS))
    print_charge(before, after)


def synthetic(client: Gateway, private: list[Row], method: str, epsilon: float, delta: float) -> list[Row]:
    """As many synthetic rows as the private table has. The job reads the private rows once, then they are deleted."""
    terms: dict[str, Any] = {"schema": MEMBERS_SCHEMA, "method": method, "epsilon": epsilon, "delta": delta}
    terms["row_count"] = "public"
    job = client.jobs.wait(client.synthesize("members", private, **terms))
    assert job.result is not None  # of a job that succeeded
    noise = job.result["privacy"]["noise_multiplier"]
    print(f"{method}: epsilon {job.spent.epsilon:g}, delta {job.spent.delta:g}, noise multiplier {noise:.2f}")
    rows = list(client.jobs.sample(job))
    print(f"  such as {rows[0]}")
    return rows


def learnt(rows: Sequence[Row], held_out: Sequence[Row]) -> tuple[float, npt.NDArray[np.float64]]:
    """ROC AUC on the held-out members, and the weights of visits, distance and a yearly contract.

    A weight is the change of the log-odds for one standard deviation of its column.
    """
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(columns(rows), renewed(rows))
    auc = roc_auc_score(renewed(held_out), model.predict_proba(columns(held_out))[:, 1])
    return float(auc), model[-1].coef_[0][[1, 2, 4]]


def columns(rows: Sequence[Row]) -> npt.NDArray[np.float64]:
    """Age, visits, distance, and one column for each contract."""
    return np.array(
        [
            [row["age"], row["visits"], row["distance_km"], *(row["contract"] == name for name in CONTRACTS)]
            for row in rows
        ],
        dtype=float,
    )


def renewed(rows: Sequence[Row]) -> npt.NDArray[np.bool_]:
    return np.array([row["renews"] == "yes" for row in rows])


def mean_age(rows: Sequence[Row], contract: str) -> float:
    return float(np.mean([row["age"] for row in rows if row["contract"] == contract] or [np.nan]))


if __name__ == "__main__":
    try:
        main()
    except GatewayError as error:
        sys.exit(failed(error))
