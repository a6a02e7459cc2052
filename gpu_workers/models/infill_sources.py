"""Choose the language model for fills by the operator's setting: one row for each kind. Workers download no model.

The operator's own models are a causal language model in a folder (`CausalInfill`) and an OpenAI-compatible endpoint
(`RemoteInfill`). Both are a `core.text.model_fills.InfillModel`.
"""

from __future__ import annotations

import json
import ssl
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch

from core.errors import InfillFailed
from core.mechanisms.words.normal_form import normal
from core.text.mask_words import ranked as public_words
from core.text.model_fills import Blank, Candidates, FloatArray, InfillModel
from gpu_workers.models.encoder_model import fastest_dtype
from gpu_workers.models.infill import MaskedInfill, MaskedLM, embedded_infill
from gpu_workers.models.lora import TunedInfill, base_fingerprint
from gpu_workers.models.pieces import (
    IntArray,
    batches,
    continuations,
    is_digits,
    is_number,
    is_word,
    number_beginnings,
    word_beginnings,
)
from gpu_workers.models.pretrained import GGUF, architectures, load_checkpoint, load_pretrained, plain
from gpu_workers.models.sources import INFILL_BUNDLED, INFILL_SMOLLM2, Endpoint, InfillSource, smollm2_file

WINDOW_PIECES = 128  # around a blank; the pieces to its left are read twice
WINDOW_PIECES_MIN = 32
WORD_PIECES = 8  # the most pieces of one word; a longer sequence is rejected
FIRSTS_MIN = 4  # beginnings that are continued, so that one that makes no word does not fail the fill

_INSTRUCTION = "Predict the [MASK] tokens in the given text. Write the text again, with one word for each [MASK]."
MASK = "[MASK]"
_TEXT = "\ue000"  # placeholder for the text: a character that no template contains
_POSITIONS = 2_048  # for a model that does not report its number of positions
_TOKENS_MAX = 4_096
_TOKENS_MAX_GPU = 65_536


def causal_infill(path: Path, *, device: torch.device | str = "cpu") -> CausalInfill:
    """Load a transformers causal language model from a local folder, in the precision of its file, or from a GGUF file,
    in the device's fastest.

    Raises: ValueError for a folder that `load_checkpoint` refuses, a vocabulary without words, or too few positions.
    """
    from transformers import AutoModelForCausalLM

    own = torch.device(device)
    dtype: Any = fastest_dtype(own) if path.suffix == GGUF else "auto"
    model, tokenizer = load_checkpoint(path, AutoModelForCausalLM, device=own, dtype=dtype)
    return CausalInfill(model, tokenizer, device=own, name=path.name.removesuffix(GGUF))


@dataclass(frozen=True, eq=False)
class _Spelling:
    """The spelling of words, or of numbers, in a vocabulary. `begins` and `continues` map pieces by number; `usable`
    marks, among all pieces, those that can come first.

    If no piece `begins` a word or number (as for numbers in a vocabulary of single digits), the space before it is a
    piece of its own, followed by the pieces of `continues`.
    """

    begins: dict[int, str]
    continues: dict[int, str]
    whole: Callable[[str], bool]

    @cached_property
    def usable(self) -> torch.Tensor:
        return torch.tensor([*self.begins, *self.continues])


class CausalInfill:
    """A causal language model (LLaMA type) that fills blanks. `model`, `tokenizer`: as loaded by transformers.

    The prompt asks the model to write the text again with each [MASK] filled in, in the form by which Vats et al. 2023
    fine-tune LLaMA2. The text to the left of the blank begins the model's answer, so the next word that it would write
    is the word for the blank. The model reads both sides of the blank, in a window of pieces around it. Blanks that are
    not filled yet are [MASK].

    A text cannot make the model fill more than one word for its own blank: each blank has a row of its own, a text that
    spells a special token is read as plain letters, and only pieces that consist of letters are taken from the answer,
    up to the end of the word. Nothing is sampled. For a number's blank, digits replace letters, if the vocabulary has
    digits.

    Candidates, for the fill `dp`: every piece of the vocabulary that begins a word and has only letters.
    """

    considered = FIRSTS_MIN

    def __init__(self, model: Any, tokenizer: Any, *, device: torch.device, name: str) -> None:
        self.name = name
        self.net = model
        self._device = device
        self._tokens_max = _TOKENS_MAX_GPU if device.type == "cuda" else _TOKENS_MAX
        head, tail = prompt_frame(tokenizer)
        pieces = tokenizer.backend_tokenizer
        self._head, self._tail = (pieces.encode(part, add_special_tokens=False).ids for part in (head, tail))
        self.tokenizer = plain(pieces)
        positions = int(getattr(model.config, "max_position_embeddings", None) or _POSITIONS)
        self.window = min(WINDOW_PIECES, (positions - len(self._head) - len(self._tail) - WORD_PIECES) // 2)
        if self.window < WINDOW_PIECES_MIN:
            raise ValueError("the model has too few positions")
        begins = dict(sorted(word_beginnings(pieces).items()))
        self._words = _Spelling(begins, continuations(pieces, str.isalpha), _is_fill)
        numbers = _Spelling(number_beginnings(pieces), continuations(pieces, is_digits), is_number)
        self._numbers = numbers if numbers.begins or numbers.continues else self._words
        self.candidates = Candidates(tuple(begins.values()))
        self._begins = torch.tensor(list(begins), device=device)

    def ranked(self, blanks: Sequence[Blank], *, count: int) -> list[list[str]]:
        """Rank by the probability of the first piece. The likeliest pieces then continue each one to the end of its
        word.

        Raises: InfillFailed if none of them makes a word.
        """
        answers: list[list[str]] = [[] for _ in blanks]
        for spelling in {self._words, self._numbers}:
            own = [place for place, blank in enumerate(blanks) if self._spelling(blank) is spelling]
            firsts = min(max(count, FIRSTS_MIN), len(spelling.begins or spelling.continues))
            rows = [self._row(blanks[place]) for place in own]
            for numbers in batches([len(row) * firsts for row in rows], self._tokens_max):
                inside = [blanks[own[number]].before.endswith(" ") for number in numbers]
                found = self._written([rows[number] for number in numbers], inside, firsts, spelling)
                for number, words in zip(numbers, found, strict=True):
                    answers[own[number]] = words[:count]
        if not all(answers):
            raise InfillFailed(reason="no-word")
        return answers

    def _spelling(self, blank: Blank) -> _Spelling:
        return self._numbers if blank.number else self._words

    @torch.inference_mode()
    def logits(self, blanks: Sequence[Blank]) -> FloatArray:
        out = np.zeros((len(blanks), len(self.candidates)), dtype=np.float32)
        rows = [self._row(blank) for blank in blanks]
        for numbers in batches([len(row) for row in rows], self._tokens_max):
            _, answer = self._read([rows[number] for number in numbers])
            out[numbers] = _numbers(answer.logits)[:, self._begins].cpu().numpy()
        return out

    @torch.inference_mode()
    def _written(
        self, rows: Sequence[IntArray], inside: Sequence[bool], firsts: int, spelling: _Spelling
    ) -> list[list[str]]:
        """Return the words of each row, the best first. `inside`: whether a space precedes the blank; otherwise the
        word may begin with any letters."""
        begins, continues = spelling.begins, spelling.continues
        mask, answer = self._read(rows)
        usable = spelling.usable.to(self._device)
        scores = _numbers(answer.logits)[:, usable]
        if begins:
            scores[torch.tensor(inside, device=self._device), len(begins) :] = -torch.inf
        pieces = usable[scores.topk(firsts).indices].flatten()
        words = [begins.get(piece) or continues[piece] for piece in pieces.tolist()]
        cache = answer.past_key_values
        cache.batch_repeat_interleave(firsts)
        mask = mask.repeat_interleave(firsts, dim=0)
        unfinished = set(range(len(words)))
        for _ in range(WORD_PIECES):
            mask = torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)
            answer = self.net(
                input_ids=pieces[:, None],
                attention_mask=mask,
                position_ids=mask.sum(dim=1, keepdim=True) - 1,
                past_key_values=cache,
                use_cache=True,
            )
            pieces = _numbers(answer.logits).argmax(dim=1)
            following = pieces.tolist()
            unfinished = {row for row in unfinished if following[row] in continues}
            if not unfinished:
                break
            for row in unfinished:
                words[row] += continues[following[row]]
        whole = [word if row not in unfinished and spelling.whole(word) else "" for row, word in enumerate(words)]
        own = [whole[first : first + firsts] for first in range(0, len(whole), firsts)]
        return [[word for word in dict.fromkeys(each) if word] for each in own]

    def _read(self, rows: Sequence[IntArray]) -> tuple[torch.Tensor, Any]:
        """Read the rows, padded on the left. Return their attention mask and the model's output."""
        longest = max(map(len, rows))
        ids = torch.zeros((len(rows), longest), dtype=torch.int64)
        mask = torch.zeros_like(ids)
        for number, row in enumerate(rows):
            ids[number, longest - len(row) :] = torch.from_numpy(row)
            mask[number, longest - len(row) :] = 1
        ids, mask = ids.to(self._device), mask.to(self._device)
        answer = self.net(
            input_ids=ids,
            attention_mask=mask,
            position_ids=(mask.cumsum(dim=1) - 1).clamp(min=0),
            use_cache=True,
            logits_to_keep=1,
        )
        return mask, answer

    def _row(self, blank: Blank) -> IntArray:
        """Return the prompt and the beginning of the answer. What does not fit is cut from both ends of the text."""
        text = self.tokenizer.encode(MASK.join((blank.before, *blank.after)), add_special_tokens=False)
        at = len(blank.before)
        first = sum(end <= at for _, end in text.offsets)
        last = sum(start < at + len(MASK) for start, _ in text.offsets)
        available = self.window - (last - first)
        left = min(first, max(available // 2, available - (len(text) - last)))
        kept = text.ids[first - left : last + available - left]
        # A vocabulary that marks the beginnings of words counts the space before a word as part of the word.
        begun = blank.before[text.offsets[first - left][0] :]
        if self._spelling(blank).begins:
            begun = begun.rstrip(" ")
        answer = self.tokenizer.encode(begun, add_special_tokens=False).ids[-self.window :]
        return np.array(self.prompt(kept) + answer, dtype=np.int64)

    def prompt(self, text: list[int]) -> list[int]:
        """Return what the model reads before its answer, for the pieces of a text with blanks."""
        return [*self._head, *text, *self._tail]


def _is_fill(word: str) -> bool:
    """Whether it is a word, and not the marker that the prompt contains, which a small model may copy."""
    return is_word(word) and f"[{word}]" != MASK


def prompt_frame(tokenizer: Any) -> tuple[str, str]:
    """Return the part before the text and the part between the text and the answer, special tokens included.

    Raises: ValueError for a chat template that does not contain the text exactly once.
    """
    prompt = f"{_INSTRUCTION}\n\n{_TEXT}"
    if tokenizer.chat_template:
        turns = [{"role": "user", "content": prompt}]
        whole = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    else:
        whole = f"{tokenizer.bos_token or ''}{prompt}\n\nFilled in:\n"
    if whole.count(_TEXT) != 1:
        raise ValueError("the model's chat template does not contain the text exactly once")
    head, _, tail = whole.partition(_TEXT)
    return head, tail


def _numbers(logits: torch.Tensor) -> torch.Tensor:
    """Return the logits at the last position, float32 `[rows, vocabulary]`. Raises RuntimeError if one is not
    finite."""
    last = logits[:, -1].float()
    if not torch.isfinite(last).all():
        raise RuntimeError("the causal language model gave a logit that is not finite")
    return last


REQUESTS_MAX = 16  # at the same time
COOL_DOWN_S = 5.0
ANSWER_BYTES_MAX = 1 << 20
SAMPLES_MAX = 16
ALTERNATIVES = 20  # the most that vLLM and OpenAI return for a position
ANSWER_TOKENS_MAX = 16  # of an answer

_LATER = "[...]"
_PROMPT = (
    f"Predict the one word that stands at {MASK} in the text below; {_LATER} stands for words left out. "
    "Answer with that word alone, without punctuation or explanation.\n\nText:\n"
)
_PROMPT_NUMBER = (
    f"Predict the number that stands at {MASK} in the text below; {_LATER} stands for words left out. "
    "Answer with that number alone, in digits, without explanation.\n\nText:\n"
)
_AROUND_A_WORD = " \t\r\n.,:;!?\"'`*“”‘’"


class RemoteInfill:
    """An operator's OpenAI-compatible endpoint (such as vLLM) that fills blanks. Sends nothing before the first fill.

    A request to the endpoint contains, for each blank, the text around it including filled words, markers for regions
    that are still masked, and whether a number is wanted. It never contains a masked string.

    Only one word of letters or one number in digits is accepted from the answer, else the fill fails: whatever a text
    or the endpoint says, nothing else enters a result. It fails closed: a timeout, a status other than 200 (including
    redirects), or an answer that is not such a word raises `InfillFailed`, whose `reason` holds no text. No request is
    sent twice. After a timeout, no request is sent for `COOL_DOWN_S`, so that many documents do not wait one after
    another for an endpoint that hangs.

    It has no candidates, because the words that the endpoint may return are unknown. There is therefore no `dp`.
    """

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
        text = f"{blank.before}{MASK}{_LATER.join(blank.after)}"
        payload: dict[str, Any] = {
            "model": self.name,
            "messages": [{"role": "user", "content": (_PROMPT_NUMBER if blank.number else _PROMPT) + text}],
            "max_tokens": ANSWER_TOKENS_MAX,
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


class PretrainedInfill(MaskedInfill):
    """A transformers masked language model (BERT, RoBERTa, ...) that fills blanks. `net` maps, as `InfillNet` does.

    Raises: ValueError for a folder that `load_pretrained` refuses, or a tokeniser without a mask.
    """

    def __init__(self, path: Path, *, device: torch.device | str = "cpu") -> None:
        from transformers import AutoModelForMaskedLM

        own = torch.device(device)
        self.net, self.vocabulary = load_pretrained(path, AutoModelForMaskedLM, device=own)
        super().__init__(MaskedLM(vocabulary=self.vocabulary, forward=self.forward, device=own, name=path.name))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """See `InfillNet.forward`."""
        logits: torch.Tensor = self.net(input_ids=ids, attention_mask=mask).logits
        return logits.flatten(0, 1)[positions]


# Maps the suffix of a checkpoint's architecture to its loader.
FOLDERS: dict[str, Callable[..., PretrainedInfill | CausalInfill]] = {
    "ForMaskedLM": PretrainedInfill,
    "ForCausalLM": causal_infill,
    "LMHeadModel": causal_infill,  # the name that GPT-2 uses
}


def infill_model(source: InfillSource, *, device: str) -> InfillModel:
    """`source`: see `InfillSource`, not off.

    Raises: ValueError for a folder that holds no such model, or a package that is not installed.
    """
    if isinstance(source, Endpoint):
        return RemoteInfill(source)
    if source == INFILL_BUNDLED:
        return MaskedInfill(embedded_infill(device=device))
    return pretrained(model_path(source), device=device)


def model_path(source: str) -> Path:
    """The folder or the file of an operator's model."""
    return smollm2_file() if source == INFILL_SMOLLM2 else Path(source)


def pretrained(path: Path, *, device: torch.device | str) -> PretrainedInfill | CausalInfill:
    """Load an operator's model. Raises: ValueError if it holds none that fills."""
    if path.suffix == GGUF:
        return causal_infill(path, device=device)
    for name in (named := architectures(path)):
        for ending, load in FOLDERS.items():
            if name.endswith(ending):
                return load(path, device=device)
    found = ", ".join(named) or "nothing"
    raise ValueError(f"the folder holds {found}, not a model that fills; architectures end in {', '.join(FOLDERS)}")


def tuned_infill(source: InfillSource, base: InfillModel, file: Path, *, device: str) -> InfillModel:
    """The model of `source`, which `base` is, with the adapter in a file. One of an operator shares its weights.

    Raises: ValueError for a file that is no adapter of that model, and for an endpoint.
    """
    if source == INFILL_BUNDLED:
        return MaskedInfill(embedded_infill(file, device=device))
    if isinstance(source, str) and isinstance(base, PretrainedInfill | CausalInfill):
        return TunedInfill(base, base_fingerprint(model_path(source)), file)
    raise ValueError("an endpoint takes no adapter")
