"""Personal data found by `POST /sanitize`'s entity technique, beside presidio: how much, and how fast.

    python -m benchmarks.pii --data DATA [--documents 40] [--rounds 5] [--threads 1]

DATA holds `pii/presidio_synth_v2.jsonl.gz` (texts with typed spans) and `imdb/test.jsonl.gz`. Three systems: ours
(default entities); presidio with its predefined recognisers and no NLP model; presidio with those and one more
recogniser that runs the same tagger, the same weights, by transformers' BertModel, in float32 (what presidio's own
transformers recogniser runs) and in our data type. Long texts reach it as they reach presidio's own: in chunks of 400
characters that overlap by 40, one by one.

A labelled span is found when finds of its type cover at least `COVER` of it, hidden when finds of any type do; a find
that touches no span of its type is a false positive. F2 weighs recall over precision. `all` pools every claimed type.

Speed: ours by `Sanitiser.run` on batches as the engine closes them, masks filled; presidio by `AnalyzerEngine.analyze`,
text by text. Rounds alternate between the systems; the ratio is the median of the rounds' ratios.
"""

import logging
import os
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from benchmarks.kit import arguments, head, in_turn, row
from benchmarks.sanitising.finders import Find, ours
from core.text.policy import MaskPolicy, Sanitised, SanitizeTask
from gpu_workers.handlers.sanitiser import Sanitiser
from gpu_workers.models.embedded import TaggerNet, embedded_vocabulary, load_embedded
from gpu_workers.models.encoder_model import fastest_dtype
from gpu_workers.models.sources import TAGGER_BUNDLED
from gpu_workers.models.tagger import EntityTagger
from training.public_text import json_lines

COVER = 0.9
NAMES = ("PERSON", "LOCATION", "ORGANIZATION")
TYPES = (*NAMES, "EMAIL_ADDRESS", "PHONE_NUMBER", "CREDIT_CARD", "IBAN_CODE", "US_SSN", "IP_ADDRESS", "URL")
LABELS = {"GPE": "LOCATION", "STREET_ADDRESS": "LOCATION", "DOMAIN_NAME": "URL"}
BATCH_TOKENS = 4096


def tagger_of(dtype: torch.dtype) -> EntityTagger:
    """The bundled tagger, run by transformers."""
    device = torch.device("cpu")
    info, net = load_embedded(
        "tagger", lambda bert, info: TaggerNet(bert, len(info.labels)), None, device=device, dtype=dtype
    )
    return EntityTagger(
        vocabulary=embedded_vocabulary(), labels=info.labels, forward=net, device=device, name="transformers"
    )


def presidio(tagger: EntityTagger | None) -> Any:
    """Presidio's engine with its predefined English recognisers, no NLP model, and the tagger if there is one."""
    os.environ["TLDEXTRACT_PUBLIC_SUFFIX_LIST_URLS"] = ""  # else the first e-mail address asks the network
    from presidio_analyzer import AnalyzerEngine, EntityRecognizer, RecognizerRegistry, RecognizerResult
    from presidio_analyzer.chunkers import CharacterBasedTextChunker
    from presidio_analyzer.nlp_engine import NlpEngineProvider

    chunker = CharacterBasedTextChunker(chunk_size=400, chunk_overlap=40)

    class TransformersRecognizer(EntityRecognizer):
        def load(self) -> None:
            pass

        def analyze(self, text: str, entities: list[str], nlp_artifacts: object = None) -> list[Any]:  # noqa: ARG002
            return chunker.predict_with_chunking(text, self.of_chunk) if tagger else []

        def of_chunk(self, chunk: str) -> list[Any]:
            found = tagger.tag([chunk])[0] if tagger else []
            return [RecognizerResult(e.type, e.start, e.end, e.score) for e in found if e.type in NAMES]

    registry = RecognizerRegistry()
    registry.load_predefined_recognizers(languages=["en"])
    registry.remove_recognizer("SpacyRecognizer")  # it has nothing to read without a spaCy model
    if tagger:
        registry.add_recognizer(TransformersRecognizer(supported_entities=list(NAMES), name="tagger"))
    configuration = {"nlp_engine_name": "no_op", "models": [{"lang_code": "en", "model_name": "none"}]}
    nlp_engine = NlpEngineProvider(nlp_configuration=configuration).create_engine()
    return AnalyzerEngine(registry=registry, nlp_engine=nlp_engine, supported_languages=["en"])


def theirs(engine: Any, texts: Sequence[str]) -> Iterator[list[Find]]:
    for text in texts:
        yield [Find(r.start, r.end, r.entity_type) for r in engine.analyze(text=text, language="en")]


def _share(start: int, end: int, finds: Sequence[Any]) -> float:
    covered = {place for find in finds for place in range(max(start, find.start), min(end, find.end))}
    return len(covered) / (end - start)


def quality(
    name: str, rows: Sequence[dict[str, Any]], finds: Iterable[Sequence[Any]], types: Sequence[str] = TYPES
) -> None:
    """Print recall, precision and F2 of each type; `finds` of each row have `start`, `end` and `type`."""
    gold, hits, hidden, named, wrong = (Counter[str]() for _ in range(5))
    for text, found in zip(rows, finds, strict=True):
        spans = [
            Find(s["start_position"], s["end_position"], LABELS.get(s["entity_type"], s["entity_type"]))
            for s in text["spans"]
        ]
        for start, end, kind, *_ in spans:
            gold[kind] += 1
            hits[kind] += _share(start, end, [find for find in found if find.type == kind]) >= COVER
            hidden[kind] += _share(start, end, found) >= COVER
        for find in found:
            named[find.type] += 1
            wrong[find.type] += not any(
                span.type == find.type and span.start < find.end and find.start < span.end for span in spans
            )
    for counts in (gold, hits, hidden, named, wrong):
        counts["all"] = sum(counts[kind] for kind in types)
        counts["names"] = sum(counts[kind] for kind in NAMES)
    print(f"\n{name}\n")
    head("entity", "labelled", "recall", "hidden", "precision", "F2")
    for kind in (*types, "names", "all"):
        recall = hits[kind] / gold[kind]
        precision = 1 - wrong[kind] / named[kind] if named[kind] else 0.0
        f2 = 5 * precision * recall / (4 * precision + recall) if precision + recall else 0.0
        row(kind, gold[kind], *(f"{each:.3f}" for each in (recall, hidden[kind] / gold[kind], precision, f2)))


def closed_batches(texts: Sequence[str], policy: MaskPolicy) -> Iterator[list[SanitizeTask]]:
    batch: list[SanitizeTask] = []
    weight = 0
    for text in texts:
        own = len(text) // 4 + 1
        if batch and weight + own > BATCH_TOKENS:
            yield batch
            batch, weight = [], 0
        batch.append(SanitizeTask(text, policy))
        weight += own
    yield batch


def speed(name: str, texts: Sequence[str], peers: dict[str, Any], rounds: int) -> None:
    worker = Sanitiser(tagger=TAGGER_BUNDLED)
    policy = MaskPolicy().completed(NAMES)

    def run_ours() -> None:
        for batch in closed_batches(texts, policy):
            if not all(isinstance(answer, Sanitised) for answer in worker.run(batch)):
                raise RuntimeError("a text was not sanitised")

    def run_peer(engine: Any) -> Callable[[], None]:
        return lambda: [None for _ in theirs(engine, texts)] and None

    systems: dict[str, Callable[[], None]] = {"ours": run_ours, **{n: run_peer(e) for n, e in peers.items()}}
    took = dict(zip(systems, in_turn(list(systems.values()), rounds), strict=True))
    print(f"\n{name}: {len(texts)} texts, {sum(map(len, texts)) / len(texts):.0f} characters each, {rounds} rounds")
    for each, seconds in took.items():
        ratio = statistics.median(theirs_s / ours_s for theirs_s, ours_s in zip(seconds, took["ours"], strict=True))
        print(f"{each:<26}{len(texts) / statistics.median(seconds):>9.1f} texts/s; ours is {ratio:.2f} times as fast")


def main() -> None:
    documents = (40, "IMDB reviews of the speed part; ten times as many PII texts")
    options = arguments(__doc__, needs_data=True, documents=documents, rounds=5, threads=1)
    logging.disable()
    torch.set_num_threads(options.threads)
    own = fastest_dtype(torch.device("cpu"))
    peers = {
        f"presidio+tagger {str(dtype).removeprefix('torch.')}": presidio(tagger_of(dtype))
        for dtype in dict.fromkeys((torch.float32, own))
    }
    rows = list(json_lines(options.data / "pii" / "presidio_synth_v2.jsonl.gz"))
    texts = [str(row["full_text"]) for row in rows]
    quality("ours", rows, ours(texts))
    quality("presidio, predefined recognisers, no NLP model", rows, theirs(presidio(None), texts))
    quality("presidio with the same tagger", rows, theirs(next(iter(peers.values())), texts))
    reviews = [str(row["text"]) for row in json_lines(options.data / "imdb" / "test.jsonl.gz")][: options.documents]
    speed("PII texts", texts[: 10 * options.documents], peers, options.rounds)
    speed("IMDB reviews", reviews, peers, options.rounds)


if __name__ == "__main__":
    main()
