"""Let a language model draft answers to support tickets without showing it names, addresses or account numbers.

Costs:     epsilon 0. Masking reads no budget, and the answers say `guarantee: none`.
Protects:  what the recognisers find: names, places, e-mail addresses, telephone numbers, cards, IBANs and others. The
           model reads invented values of the same form, and its answer comes back with the originals in it.
Does not:  protect what is not found, and the text around it: "I need it for my insulin" stays as it is, and so does a
           rare name. The example counts what stayed. For a bound that holds for every word, see the fill `dp`.

Needs: a language model behind the gateway (setting `UPSTREAMS`), named by `--model`. With `--model-url`, the base URL
       of an OpenAI-compatible server, the example also calls a model by itself, between /sanitize and /restore. The
       variable MODEL_API_KEY has that server's key, if it wants one.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter

import httpx
from sample_data import PersonalTicket, personal_tickets
from shared import account, connect, failed, parser, print_charge

from privacy_gateway_client import Gateway, GatewayError, Sanitized

TASK = "Answer this ticket in one friendly sentence, and address the customer by name:\n\n"
SUMMARY = "Say in one sentence for each ticket who wants what:\n\n"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--model", required=True, help="a model of the gateway's upstreams, such as gpt-5-mini")
    options.add_argument("--model-url", help="such as https://api.example.org/v1")
    arguments = options.parse_args()
    tickets = personal_tickets()
    with connect(arguments) as client:
        before = account(client, "token")
        draft_through_the_gateway(client, arguments.model, tickets)

        masked = mask(client, tickets)
        if arguments.model_url:
            summarise(client, masked, arguments.model, arguments.model_url)
        print_charge(before, account(client, "token"))


def draft_through_the_gateway(client: Gateway, model: str, tickets: list[PersonalTicket]) -> None:
    """One call does it all: the gateway masks the request, calls the model and restores the answer.

    Programs that use the SDK of OpenAI or Anthropic change nothing but its address and key.
    """
    print("Drafts of the model, with the names that it never saw:")
    for ticket in tickets:
        answer = client.language_models.chat_completions(
            {"model": model, "messages": [{"role": "user", "content": TASK + ticket.text}]}
        )
        print(f"  {answer['choices'][0]['message']['content']}")


def mask(client: Gateway, tickets: list[PersonalTicket]) -> Sanitized:
    """All tickets in one reversible call, so that the same person has the same surrogate in all of them."""
    masked = client.sanitize(
        [ticket.text for ticket in tickets], fill={"mode": "surrogate"}, reversible=True, return_spans=True
    )
    print("\nA ticket, and what a model reads in its place:")
    print(f"  {tickets[0].text}\n  {masked.texts[0]}")
    found = Counter(span.type for row in masked.rows for span in row.spans or ())
    print("Found: " + ", ".join(f"{count} {kind}" for kind, count in found.most_common()))

    # The tickets of this example list their personal data, so what was missed can be counted. Yours do not: try a
    # sample with `dry_run`, read the finds, and add recognisers of your own (docs/guide/own-recognisers.md).
    values = [(value, text) for ticket, text in zip(tickets, masked.texts, strict=True) for value in ticket.personal]
    missed = [value for value, text in values if value in text]
    print(
        f"{len(values) - len(missed)} of {len(values)} personal values are gone; guarantee: {masked.privacy.guarantee}."
    )
    for value in missed:
        print(f"  not found: {value}")
    return masked


def summarise(client: Gateway, masked: Sanitized, model: str, url: str) -> None:
    """Call a model without the gateway, and restore its answer: for tools that only take text."""
    key = os.environ.get("MODEL_API_KEY")
    answer = httpx.post(
        f"{url.rstrip('/')}/chat/completions",
        headers={"Authorization": f"Bearer {key}"} if key else {},
        json={"model": model, "messages": [{"role": "user", "content": SUMMARY + "\n\n".join(masked.texts)}]},
        timeout=120,
    )
    answer.raise_for_status()
    summary: str = json.loads(answer.content)["choices"][0]["message"]["content"]
    assert masked.restore_token is not None  # the originals, encrypted for the gateway: keep it as you keep them
    [restored] = client.restore([summary], masked.restore_token)
    print("\nA summary by a model that the gateway does not call:")
    for line in restored.splitlines():
        print(f"  {line}")


if __name__ == "__main__":
    try:
        main()
    except GatewayError as error:
        sys.exit(failed(error))
