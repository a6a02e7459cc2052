"""An operator's OpenAI-compatible endpoint (such as vLLM) as `core.text.model_fills.InfillModel`.

A request to the endpoint contains, for each blank, the text around it including filled words, markers for regions that
are still masked, and whether a number is wanted. It never contains a masked string. Only one word of letters or one
number in digits is accepted from the answer, else the fill fails: whatever a text or the endpoint says, nothing else
enters a result.

It fails closed: a timeout, a status other than 200 (including redirects), or an answer that is not such a word raises
`InfillFailed`, whose `reason` holds no text. This module sends no request twice. After a timeout, no request is sent
for `COOL_DOWN_S`, so that many documents do not wait one after another for an endpoint that hangs.

It has no candidates, because the words that the endpoint may return are unknown. There is therefore no `dp`.
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
from core.text.mask_words import ranked as public_words
from core.text.model_fills import Blank, FloatArray
from gpu_workers.models.endpoint import Endpoint
from gpu_workers.models.one_word import is_number, is_word

REQUESTS_MAX = 16  # at the same time
COOL_DOWN_S = 5.0
ANSWER_BYTES_MAX = 1 << 20
SAMPLES_MAX = 16
ALTERNATIVES = 20  # the most that vLLM and OpenAI return for a position
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
    """Sends nothing before the first fill."""

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
            trust_env=False,  # ignore proxies in environment variables
            verify=ssl.create_default_context(),
        )

    def ranked(self, blanks: Sequence[Blank], *, count: int) -> list[list[str]]:
        """With `count` 1, the answer at temperature 0. With more, the most frequent of several samples, followed by the
        endpoint's alternatives to the first piece, if it returns them and they are words of the public frequency list
        (a piece may be half a word).

        Raises: InfillFailed if a blank got no word.
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
        payload: dict[str, Any] = {
            "model": self.name,
            "messages": [{"role": "user", "content": (_PROMPT_NUMBER if blank.number else _PROMPT) + text}],
            "max_tokens": TOKENS_MAX,
            "temperature": 0,
        }
        if count > 1:
            samples = min(count, SAMPLES_MAX)
            payload |= {"temperature": 1, "n": samples, "logprobs": True, "top_logprobs": ALTERNATIVES}
        return payload

    def _post(self, payload: dict[str, Any]) -> bytes:
        """Return the body of a 200. httpx limits each wait for bytes; this limits the total time and the number of
        bytes."""
        now = time.monotonic()
        if now < self._silent_until:
            raise InfillFailed(reason="endpoint-timeout")
        deadline = now + self._timeout_s
        body = bytearray()
        try:
            with self._client.stream("POST", self._url, json=payload) as response:
                if response.status_code != httpx.codes.OK:
                    raise InfillFailed(reason="endpoint-status")
                for part in response.iter_bytes():
                    body += part
                    if len(body) > ANSWER_BYTES_MAX:
                        raise InfillFailed(reason="bad-answer")
                    if time.monotonic() > deadline:
                        raise httpx.ReadTimeout("the answer takes too long")
                return bytes(body)
        except httpx.TimeoutException:
            self._silent_until = time.monotonic() + COOL_DOWN_S
            raise InfillFailed(reason="endpoint-timeout") from None
        except httpx.HTTPError:
            raise InfillFailed(reason="endpoint-unreachable") from None


def _words_of(choices: Any, *, number: bool) -> list[str]:
    """Return the words (or numbers) of an answer, the best first. Choices that are neither are skipped. Raises for
    another shape."""
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
    """Return the alternatives to the first piece that are certainly words, with their log-probabilities."""
    first = ((choice.get("logprobs") or {}).get("content") or [{}])[0]
    frequent = public_words()[1]
    pieces = {each["token"].strip(): float(each["logprob"]) for each in first.get("top_logprobs") or []}
    return {word: chance for word, chance in pieces.items() if is_word(word) and normal(word) in frequent}
