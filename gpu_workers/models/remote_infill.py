"""An operator's OpenAI-compatible endpoint (such as vLLM) as `core.text.infill_model.InfillModel`.

What leaves the gateway: for each blank the text around it, words that were filled in included, and marks for what is
still masked, and whether a number is wanted. A masked string is not in it. What comes back is one word of letters, or
one number in digits, or the fill fails: whatever a text or the endpoint says, nothing else gets into an answer.

It fails closed: no answer in time, another status than 200 (a redirect is one), or an answer that is no such word
raises `InfillFailed`, whose `reason` holds no text. Nothing is sent twice here. When an answer has not come in time
nothing is sent for `COOL_DOWN_S`, so that many documents do not wait one after another for an endpoint that hangs.

It has no candidates: which words it may say is not known, so there is no `dp`.
"""

from __future__ import annotations

import json
import ssl
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from core.errors import InfillFailed
from core.mechanisms.words.normal_form import normal
from core.text.infill_model import Blank, FloatArray
from core.text.vocabulary import ranked as public_words
from gpu_workers.models.endpoint import Endpoint
from gpu_workers.models.one_word import is_number, is_word

REQUESTS_MAX = 16  # at the same time
COOL_DOWN_S = 5.0
ANSWER_BYTES_MAX = 1 << 20
SAMPLES_MAX = 16
ALTERNATIVES = 20  # the most that vLLM and OpenAI give for a position
TOKENS_MAX = 16  # of an answer

_MASK, _LATER = "[MASK]", "[...]"
_PROMPT = (
    f"Predict the one word that stands at {_MASK} in the text below; {_LATER} stands for words left out. "
    "Answer with that word alone, without punctuation or explanation.\n\nText:\n"
)
_PROMPT_NUMBER = (
    f"Predict the number that stands at {_MASK} in the text below; {_LATER} stands for words left out. "
    "Answer with that number alone, in digits, without explanation.\n\nText:\n"
)
_AROUND_A_WORD = " \t\r\n.,:;!?\"'`*“”‘’"


class RemoteInfill:
    """Nothing is sent before the first fill."""

    candidates = None
    considered = 1

    def __init__(self, endpoint: Endpoint) -> None:
        self.name = endpoint.model
        self._timeout_s = endpoint.timeout_s
        self._url = f"{endpoint.url.rstrip('/')}/chat/completions"
        self._silent_until = 0.0
        key = {"Authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}
        self._client = httpx.Client(
            headers={"Accept-Encoding": "identity"} | key,
            timeout=endpoint.timeout_s,
            limits=httpx.Limits(max_connections=REQUESTS_MAX, max_keepalive_connections=REQUESTS_MAX),
            follow_redirects=False,
            trust_env=False,  # no proxy that an environment happens to name
            verify=ssl.create_default_context(),
        )

    def ranked(self, blanks: Sequence[Blank], *, count: int) -> list[list[str]]:
        """For `count` 1 the answer at temperature 0. For more: of several samples those that came most often, then the
        endpoint's own alternatives to the first piece, where it names them and they are words of the public frequency
        list (a piece may be half a word).

        Raises: InfillFailed if any blank got no word.
        """
        pool = ThreadPoolExecutor(REQUESTS_MAX, thread_name_prefix="infill")
        try:
            return list(pool.map(lambda blank: self._words(blank, count), blanks))
        finally:
            pool.shutdown(cancel_futures=True)

    def logits(self, blanks: Sequence[Blank]) -> FloatArray:  # noqa: ARG002
        raise RuntimeError("an endpoint has no candidates")

    def _words(self, blank: Blank, count: int) -> list[str]:
        body = self._post(self._request(blank, count))
        try:
            found = _words_of(json.loads(body)["choices"], number=blank.number)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            found = None
        if found is None:
            raise InfillFailed(reason="bad-answer")
        if not found:
            raise InfillFailed(reason="no-word")
        return found[:count]

    def _request(self, blank: Blank, count: int) -> dict[str, Any]:
        text = f"{blank.before}{_MASK}{_LATER.join(blank.after)}"
        asked: dict[str, Any] = {
            "model": self.name,
            "messages": [{"role": "user", "content": (_PROMPT_NUMBER if blank.number else _PROMPT) + text}],
            "max_tokens": TOKENS_MAX,
            "temperature": 0,
        }
        if count > 1:
            samples = min(count, SAMPLES_MAX)
            asked |= {"temperature": 1, "n": samples, "logprobs": True, "top_logprobs": ALTERNATIVES}
        return asked

    def _post(self, asked: dict[str, Any]) -> bytes:
        """The body of a 200. httpx bounds each wait for bytes; this bounds all of them together, and their number."""
        now = time.monotonic()
        if now < self._silent_until:
            raise InfillFailed(reason="endpoint-timeout")
        deadline = now + self._timeout_s
        body = bytearray()
        try:
            with self._client.stream("POST", self._url, json=asked) as response:
                if response.status_code != httpx.codes.OK:
                    raise InfillFailed(reason="endpoint-status")
                for part in response.iter_bytes():
                    body += part
                    if len(body) > ANSWER_BYTES_MAX:
                        raise InfillFailed(reason="bad-answer")
                    if time.monotonic() > deadline:
                        raise httpx.ReadTimeout("the answer comes too slowly")
                return bytes(body)
        except httpx.TimeoutException:
            self._silent_until = time.monotonic() + COOL_DOWN_S
            raise InfillFailed(reason="endpoint-timeout") from None
        except httpx.HTTPError:
            raise InfillFailed(reason="endpoint-unreachable") from None


def _words_of(choices: Any, *, number: bool) -> list[str]:
    """The words (or numbers) of an answer, the best first; of choices that are none, nothing. Raises for another
    shape."""
    fits = is_number if number else is_word
    counted: Counter[str] = Counter()
    others: dict[str, float] = {}
    for choice in choices:
        word = choice["message"]["content"].strip(_AROUND_A_WORD)
        if fits(word):
            counted[word] += 1
            others |= {} if number else _alternatives(choice)
    by_chance = sorted(others, key=lambda word: -others[word])
    return list(dict.fromkeys([*(word for word, _ in counted.most_common()), *by_chance]))


def _alternatives(choice: Any) -> dict[str, float]:
    """What the first piece might have been instead, with its log-probability, as far as it is a word for sure."""
    first = ((choice.get("logprobs") or {}).get("content") or [{}])[0]
    frequent = public_words()[1]
    pieces = {each["token"].strip(): float(each["logprob"]) for each in first.get("top_logprobs") or []}
    return {word: chance for word, chance in pieces.items() if is_word(word) and normal(word) in frequent}
