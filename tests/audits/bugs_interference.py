"""Planted bugs by which something beside a release depends on private text; each names the rule that it breaks."""

from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pytest
from audits.bug import Bug, Detector, over_claim
from audits.conversations import second_turns
from audits.detect_sentences import swap
from audits.interference import Attacked, Kind
from audits.interference_models import model_kinds, sequence_kinds
from audits.interference_requests import job_kinds, sanitize_kinds, sentdp_kinds, vector_kinds

from core.mechanisms.sentences.routing import Router
from core.mechanisms.vectors import metric
from core.text.reversible import json_text
from core.text.segment import HIDDEN, count_tokens
from gpu_workers.finetune import job as training_job
from gpu_workers.synthesis import job as synthesis_job
from service.proxy import priced, texts
from service.proxy import service as proxy
from service.proxy.outgoing import Field
from service.proxy.service import ProxyService
from service.releases.pipeline import ReleasePipeline
from service.sanitize import service as sanitize
from service.sanitize import stream
from service.sentdp import service as sentdp


def _detector(kinds: Callable[[], Iterator[Kind]], name: str, pairs: int) -> Detector:
    """Flags the first pair of a kind that interferes."""

    def flags() -> str | None:
        kind = next(kind for kind in kinds() if kind.name == name)
        with Attacked() as attacked:
            what = next(attacked.differences(kind, pairs, seed="bugs"), None)
        return what if what is None else f"differs: {what}"

    return Detector(f"fixed draws: {name}", flags)


CHAT = _detector(model_kinds, "chat, whole", 8)
TOOLS = _detector(model_kinds, "messages, slot-all", 6)
SLOTS = _detector(model_kinds, "responses, slot", 8)
VAULT = _detector(sequence_kinds, "priced, then surrogates of the vault", 2)
TURNS = over_claim("audit of turns after a priced one", lambda: second_turns(40))
NEAR = _detector(sequence_kinds, "nearly equal texts, reuse", 4)
SLOT = _detector(sanitize_kinds, "dp, slot", 8)
BATCH = _detector(sanitize_kinds, "dp, document, batch", 4)
METRIC = _detector(sanitize_kinds, "metric_dp, all", 16)
SENTENCES = _detector(sentdp_kinds, "sentence_codes", 8)
ROUTED = _detector(sentdp_kinds, "auto, many sentences", 10)
WINDOWS = _detector(sentdp_kinds, "sentence_codes, windows", 8)
WHOLE = _detector(sentdp_kinds, "document_selection", 6)
NUMBERS = _detector(vector_kinds, "16 numbers, laplace", 12)
TABLES = _detector(job_kinds, "synthesis, marginals, rows public", 3)
TRAINING = _detector(job_kinds, "finetune, lora, poisson", 2)


def _keeps_the_source(patch: pytest.MonkeyPatch) -> None:
    """A value whose draw equals its original keeps its source, escapes included, as in masked requests."""

    def form(source: str) -> tuple[str, list[Any], list[str]]:
        values = json_text.json_values(source)
        return source, values, [value.text for value in values]

    patch.setattr(texts, "public_form", form)


def _conversation_of_the_first_message(patch: pytest.MonkeyPatch) -> None:
    seed: ContextVar[str] = ContextVar("seed")
    real = ProxyService.outgoing

    async def broken(self: Any, payer: Any, dialect: Any, body: Any, **given: Any) -> Any:
        seed.set(dialect.messages_of_user(body))
        return await real(self, payer, dialect, body, **given)

    patch.setattr(ProxyService, "outgoing", broken)
    patch.setattr(proxy, "new_key", lambda: proxy._conversation_key(bytes(32), seed.get()))


def _writes(change: Callable[[str, str], str]) -> Callable[[pytest.MonkeyPatch], None]:
    """Each filled text is changed by its original."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        real = Field.write

        def broken(self: Field, texts: Sequence[str]) -> None:
            real(self, [change(own, filled) for own, filled in zip(self.texts, texts, strict=True)])

        patch.setattr(Field, "write", broken)

    return plant


def _hidden_again(own: str, filled: str) -> str:
    return filled + "".join(found.group() for found in HIDDEN.finditer(own))


def _wordless_stays(own: str, filled: str) -> str:
    return filled if any(char.isalnum() for char in own) else own


def _case_of_the_original(own: str, filled: str) -> str:
    return filled.capitalize() if own[:1].isupper() else filled


def _header_of_changes(patch: pytest.MonkeyPatch) -> None:
    write, written = Field.write, priced._written
    kept: list[str] = []

    def counted(self: Field, texts: Sequence[str]) -> None:
        kept.extend(new for own, new in zip(self.texts, texts, strict=True) if own == new)
        write(self, texts)

    def broken(*given: Any) -> dict[str, str]:
        kept.clear()
        return written(*given) | {"Privacy-Unchanged": str(len(kept))}

    patch.setattr(Field, "write", counted)
    patch.setattr(priced, "_written", broken)


def _row_with(**members: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """Rows of `/sanitize` with members that are made of the document and its result."""

    def make(real: Any) -> Any:
        def broken(index: int, document: Any, result: Any, *rest: Any, **given: Any) -> Any:
            return real(index, document, result, *rest, **given) | {
                name: of(document, result) for name, of in members.items()
            }

        return broken

    return make


def _charged_by_words(patch: pytest.MonkeyPatch) -> None:
    """A document costs its epsilon for each of its words, in every scope."""
    real = sanitize.SanitizeService.prepare

    def broken(self: Any, tenant: str, body: Any, *rest: Any) -> Any:
        cost, tasks = real(self, tenant, body, *rest)
        charges = [
            replace(charge, times=max(1, count_tokens(document.text, stop=99)))
            for charge, document in zip(cost.charges, body.documents, strict=False)
        ]
        return replace(cost, charges=charges), tasks

    patch.setattr(sanitize.SanitizeService, "prepare", broken)


def _route_with_a_length(patch: pytest.MonkeyPatch) -> None:
    """The journal names a route by the size of the request."""
    real = ReleasePipeline._reserve

    async def broken(self: Any, caller: Any, request: Any, claim: Any, route: str) -> Any:
        chars = sum(len(each) for task in request.tasks for each in getattr(task.payload, "sentences", None) or ())
        return await real(self, caller, request, claim, f"{route}/{chars // 50}")

    patch.setattr(ReleasePipeline, "_reserve", broken)


def _counts_always(real: Any) -> Any:
    return lambda results, terms: {"tokens": sum(result.tokens for result in results)}


def _reuse_by_words(real: Any) -> Any:
    """Texts of the same words share a release."""

    def broken(task: Any) -> list[bytes]:
        *facts, text = real(task)
        return [*facts, b" ".join(text.split())]

    return broken


def _bytes_in_the_summary(patch: pytest.MonkeyPatch) -> None:
    parse, summed = stream.parse_line, stream.DocumentStream._summary
    read: list[int] = []

    def counted(line: Any, limits: Any) -> Any:
        read.append(len(line.content or b""))
        return parse(line, limits)

    def broken(self: Any, problem: Any) -> bytes:
        found = orjson.loads(summed(self, problem))
        found["summary"]["bytes"] = sum(read)
        read.clear()
        return orjson.dumps(found) + b"\n"

    patch.setattr(stream, "parse_line", counted)
    patch.setattr(stream.DocumentStream, "_summary", broken)


def _utility_by_words(real: Any) -> Any:
    """A document with an odd number of words is said to be of little use."""

    def broken(index: int, document: Any, task: Any, *rest: Any) -> Any:
        row = real(index, document, task, *rest)
        words = sum(len(sentence.split()) for sentence in task.sentences or ())
        return row | {"utility": "low"} if words % 2 else row

    return broken


def _unanimous(self: Any, documents: Any, epsilon_nano: Any) -> Any:
    """The pack for which all sentences are, without a draw; else the default one."""
    votes = self.votes(documents)
    return np.where(votes.max(axis=1) == votes.sum(axis=1), votes.argmax(axis=1), 0)


def _windows_of_characters(real: Any) -> Any:
    """Windows of about as many characters, so that their number depends on the words."""
    return lambda text, words: [text[start : start + 6 * words] for start in range(0, len(text), 6 * words)]


def _sentences_of_a_whole_document(real: Any) -> Any:
    """`document_selection` shows the number of sentences as the other mechanisms do."""

    def broken(index: int, document: Any, task: Any, result: Any, form: str, count: str | None) -> Any:
        return real(index, document, task, result, form, count or "sentences")

    return broken


def _nothing_stays_nothing(patch: pytest.MonkeyPatch) -> None:
    """A vector of zeros is released as it is."""
    real = metric.MetricMechanism._release

    def broken(self: Any, vectors: Any, blocks: Any, released: Any) -> None:
        real(self, vectors, blocks, released)
        released[np.abs(vectors).max(axis=1) < 1] = 0

    patch.setattr(metric.MetricMechanism, "_release", broken)


def _sum_of_the_rows(patch: pytest.MonkeyPatch) -> None:
    read, result = synthesis_job.read_table, synthesis_job._result
    seen: dict[str, int] = {}

    def counted(*args: Any, **given: Any) -> Any:
        table = read(*args, **given)
        seen["sum"] = int(table.labels.sum()) + int(table.codes.sum())
        return table

    patch.setattr(synthesis_job, "read_table", counted)
    patch.setattr(synthesis_job, "_result", lambda *args, **given: result(*args, **given) | seen)


def _words_of_the_rows(patch: pytest.MonkeyPatch) -> None:
    """A training reports how many words it has read."""
    real = training_job._splits

    def broken(order: Any, report: Any) -> Any:
        private, public = real(order, report)
        report("loading", 0.01, {"words": sum(len(text.split()) for row in private.texts for text in row)})
        return private, public

    patch.setattr(training_job, "_splits", broken)


_OF = "fixed draws"

BUGS: tuple[Bug, ...] = (
    Bug(
        "JSON keeps the source of a value that did not change",
        _OF,
        "what leaves is a function of the public form and the draws",
        _keeps_the_source,
        CHAT,
    ),
    Bug(
        "JSON of a tool keeps its source",
        _OF,
        "what leaves is a function of the public form and the draws",
        _keeps_the_source,
        TOOLS,
    ),
    Bug(
        "the vault's key made of the first message",
        _OF,
        "a conversation with a priced turn has a random key",
        _conversation_of_the_first_message,
        VAULT,
    ),
    Bug("invisible characters put back", _OF, "no part of an original is kept", _writes(_hidden_again), SLOTS),
    Bug(
        "texts without words leave as they are",
        _OF,
        "a text is filled, whatever it holds",
        _writes(_wordless_stays),
        CHAT,
    ),
    Bug(
        "a fill in the case of its original", _OF, "a draw is a word of the list", _writes(_case_of_the_original), CHAT
    ),
    Bug("a header with the number of unchanged texts", _OF, "headers show prices alone", _header_of_changes, CHAT),
    Bug(
        "a row that says whether its text changed",
        _OF,
        "whether a draw equals the original is not shown",
        swap(sanitize, "row", _row_with(changed=lambda document, result: document.text != result.text)),
        METRIC,
    ),
    Bug(
        "a row with the length of its original",
        _OF,
        "a row is the filled text",
        swap(sanitize, "row", _row_with(chars=lambda document, result: len(document.text))),
        SLOT,
    ),
    Bug(
        "the number of tokens of a filled document",
        _OF,
        "`dp` counts no words",
        swap(sanitize, "counts", _counts_always),
        SLOT,
    ),
    Bug("a charge for each word of a place", _OF, "a price is public", _charged_by_words, SLOT),
    Bug(
        "a journal that shows the length of a text",
        _OF,
        "an entry is the price and the route",
        _route_with_a_length,
        SENTENCES,
    ),
    Bug(
        "one release for texts of equal words",
        _OF,
        "which texts are equal is public, and no more",
        swap(priced, "_origin", _reuse_by_words),
        NEAR,
    ),
    Bug("a summary with the bytes that were read", _OF, "a summary counts documents", _bytes_in_the_summary, BATCH),
    Bug(
        "the use of a release judged by its text",
        _OF,
        "`utility` is a function of the number of sentences",
        swap(sentdp, "_row", _utility_by_words),
        SENTENCES,
    ),
    Bug(
        "the pack of unanimous sentences",
        _OF,
        "the pack is chosen by a draw",
        lambda patch: patch.setattr(Router, "choose", _unanimous),
        ROUTED,
    ),
    Bug(
        "windows of as many characters",
        _OF,
        "the number of windows is a function of the number of words",
        swap(sentdp, "windows", _windows_of_characters),
        WINDOWS,
    ),
    Bug(
        "the number of sentences of a whole document",
        _OF,
        "`document_selection` shows no number of sentences",
        swap(sentdp, "_row", _sentences_of_a_whole_document),
        WHOLE,
    ),
    Bug("a short vector released as nothing", _OF, "every vector gets noise", _nothing_stays_nothing, NUMBERS),
    Bug("a sum over the rows in the result", _OF, "a result is a function of the release", _sum_of_the_rows, TABLES),
    Bug(
        "a training that counts the words of its rows",
        _OF,
        "a report is a function of the releases",
        _words_of_the_rows,
        TRAINING,
    ),
    Bug(
        "surrogates that follow from a priced text",
        "conversations",
        "a conversation with a priced turn has a random key",
        _conversation_of_the_first_message,
        TURNS,
    ),
)
