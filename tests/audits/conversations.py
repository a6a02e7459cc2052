"""Audits of conversations by their real draws: what a later, unpriced turn shows of the text of a priced one.

A priced turn is kept in the vault, and a turn under a policy of surrogates continues it. The attacker knows the first
text of one of two conversations and what its second turn looked like once, and sees the second turn of another.
"""

from collections.abc import Iterator

import numpy as np
from audits.interference import Attacked
from audits.interference_models import RESPONSES
from audits.kit import Audit, Case, FloatArray, Found, Scale, attack

from core.mechanisms.words import pricing

EPSILON = 0.01
POLICIES = f"""
[policies.kept]
proxy = {{ vault = true }}
fill = {{ mode = "dp", epsilon = {EPSILON}, scope = "document" }}
mask = {{ techniques = ["all"] }}

[policies.surrogate-kept]
proxy = {{ vault = true }}
fill = {{ mode = "surrogate" }}
"""
TEXTS = ("Maria pays the rent.", "Nobody heard of it.")
LATER = "Now write to maria.keller@example.org, and call +44 20 7946 0958."
_PILOT = 8


class Conversations:
    """Conversations of two turns, each a new one of the same tenant."""

    def __init__(self, attacked: Attacked) -> None:
        self._twins = attacked.twins()
        self._tenant, _ = self._twins.tenants()
        self._count = 0

    def second_turn(self, text: str) -> bytes:
        """What the model gets of the second turn after a priced first one."""
        self._count += 1
        first, second = f"resp_{self._count:08}a", f"resp_{self._count:08}b"
        self._post(text, "kept", first)
        self._post(LATER, "surrogate-kept", second, previous_response_id=first)
        return bytes(self._twins.model.raw[-1][2].replace(first.encode(), b""))

    def _post(self, text: str, policy: str, answer_id: str, **fields: str) -> None:
        self._twins.model.raw.clear()
        self._twins.model.response_id = answer_id
        body = {"model": "stub-gpt", "input": [{"role": "user", "content": text}], **fields}
        answer = self._tenant.http.post(RESPONSES, json=body, headers={"Privacy-Policy": policy})
        if answer.status_code != 200:
            raise RuntimeError(f"{answer.status_code} {answer.text[:300]}")


def cases(conversations: Conversations) -> Iterator[Case]:
    for pair in (TEXTS, TEXTS[::-1]):
        known = conversations.second_turn(pair[0])

        def draw(side: int, runs: int, pair: tuple[str, str] = pair, known: bytes = known) -> FloatArray:
            return np.asarray([float(conversations.second_turn(pair[side]) == known) for _ in range(runs)])

        yield Case(f"'{pair[0]}' and '{pair[1]}'", EPSILON, draw, event="the second turn is the one that is known")


def second_turns(runs: int) -> Found:
    """The largest bound of either text; 0 where the event shows nothing."""
    with Attacked(policies=POLICIES) as attacked:
        every = list(cases(Conversations(attacked)))
        bounds = [attack(case, Scale(runs, 1, _PILOT)).measure(runs) for case in every]
    best = int(np.argmax(bounds))
    return Found(max(0.0, bounds[best]), EPSILON, runs, f"{every[best].facts}; event: {every[best].event}", len(every))


def audits() -> tuple[Audit, ...]:
    return (
        Audit(
            "vault-after-priced",
            "conversations",
            "a turn under surrogates after a priced one",
            "pure",
            pricing.ANY,
            lambda scale: second_turns(200 if scale.runs >= 1_000_000 else 30),
        ),
    )
