"""The kinds of requests and jobs that are audited under fixed draws (`audits.interference`)."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from audits.interference import Kind, Made, Pair, audit_of, both_ways, one
from audits.kit import Audit
from audits.neighbours import Texts
from finetune_kit import LABELS, labelled
from synthesis_kit import shop_request, shop_rows
from twin_kit import Sent

from core.mechanisms.sentences.registry import SENTENCE_MECHANISMS, protection
from core.mechanisms.vectors.pricing import ADJACENCY_ALL
from core.mechanisms.words import pricing
from core.text.policy import MaskPolicy
from core.text.segment import sentences
from service.sanitize.schemas import MaskBody

DIMENSION = 384
WINDOW = 4
_EPSILONS = (0.3, 3.0, 6.0, 10.0, 50.0)
_ODD = (0.0, -0.0, 1.0, -1.0, 1e-320, 1e300, -3e-5, 0.1)


def entity_mask() -> MaskPolicy:
    """What is masked where no technique is named, without a tagger."""
    return MaskBody().masking().completed(())


def slot_pair(texts: Texts) -> tuple[str, str]:
    return texts.slots(entity_mask())


def word_pair(texts: Texts) -> tuple[str, str]:
    return texts.pair(texts.random.choice((1, 1, 2, 3, 7, 40)))


def whole_pair(texts: Texts) -> tuple[str, str]:
    """Two texts of any number of sentences."""
    return texts.words(texts.random.choice((1, 5, 60))), texts.words(texts.random.choice((1, 9, 90)))


def rows_pair(texts: Texts, dimension: int, rows: int) -> tuple[list[list[float]], list[list[float]]]:
    """Two lists of vectors that differ in one: signs of zero, tiny, huge, any direction."""

    def row() -> list[float]:
        kind = texts.random.random()
        if kind < 0.3:
            return [texts.random.choice(_ODD) for _ in range(dimension)]
        length = 10.0 ** texts.random.randint(-6, 6)
        return [length * texts.random.gauss(0, 1) for _ in range(dimension)]

    first = [row() for _ in range(rows)]
    second = list(first)
    second[texts.random.randrange(rows)] = row()
    return first, second


def unit_rows_pair(texts: Texts) -> tuple[list[list[float]], list[list[float]]]:
    """As `rows_pair`, of the encoder's dimension and of lengths that a number of float32 has."""

    def row() -> list[float]:
        length = 10.0 ** texts.random.randint(-3, 3)
        return [texts.random.choice((0.0, -0.0, length * texts.random.gauss(0, 1))) for _ in range(DIMENSION)]

    rows = [row() for _ in range(texts.random.choice((1, 2, 5)))]
    other = list(rows)
    other[texts.random.randrange(len(rows))] = row()
    return rows, other


def sentdp_kinds() -> Iterator[Kind]:
    def body(found: list[Any], *, form: str = "text", **fields: Any) -> dict[str, Any]:
        documents = [
            {form: each} if form != "text" or isinstance(each, str) else {"embeddings": each} for each in found
        ]
        return {"documents": documents, "epsilon": 3.0, "encoding_format": "base64", **fields}

    def kind(name: str, make: Callable[[Texts], tuple[Any, Any]], **fields: Any) -> Kind:
        def made(texts: Texts) -> tuple[Any, Any]:
            epsilon = texts.random.choice(_EPSILONS)
            return both_ways(partial(body, **{"epsilon": epsilon, **fields}), make)(texts)

        return Kind(name, one("/embed/sentdp", made))

    for mechanism in SENTENCE_MECHANISMS:
        whole = protection(mechanism).adjacency == protection("document_selection").adjacency
        yield kind(mechanism, whole_pair if whole else Texts.sentences, mechanism=mechanism)
        if not whole:
            windows = {"segmentation": "words", "window_words": WINDOW}
            yield kind(f"{mechanism}, windows", lambda t: t.windows(WINDOW), mechanism=mechanism, **windows)
    yield kind("auto", Texts.sentences, domain="auto")
    yield kind("auto, many sentences", Texts.copies, domain="auto")
    yield kind(
        "auto, windows", lambda texts: texts.windows(WINDOW), domain="auto", segmentation="words", window_words=WINDOW
    )
    yield Kind("caller's sentences", one("/embed/sentdp", _callers_sentences))
    yield Kind("caller's embeddings", one("/embed/sentdp", _callers_embeddings))
    yield Kind("reuse", one("/embed/sentdp", _fresh), reuses=True)


def _callers_sentences(texts: Texts) -> tuple[Any, Any]:
    first = [texts.words(texts.random.choice((1, 6, 30))) for _ in range(texts.random.choice((1, 2, 4)))]
    second = list(first)
    second[texts.random.randrange(len(first))] = texts.words(texts.random.choice((1, 6, 30)))
    return tuple({"documents": [{"sentences": each}], "epsilon": 3.0} for each in (first, second))  # type: ignore[return-value]


def _callers_embeddings(texts: Texts) -> tuple[Any, Any]:
    pair = unit_rows_pair(texts)
    return tuple({"documents": [{"embeddings": each}], "epsilon": 6.0, "normalize": True} for each in pair)  # type: ignore[return-value]


def vector_kinds() -> Iterator[Kind]:
    def texts_of(mechanism: str | None) -> Callable[[Texts], tuple[Any, Any]]:
        named = {} if mechanism is None else {"mechanism": mechanism}
        return both_ways(lambda found: {"texts": found, "epsilon": 3.0, **named}, whole_pair)

    def vectors_of(size: int, fields: dict[str, Any]) -> Callable[[Texts], tuple[Any, Any]]:
        def made(texts: Texts) -> tuple[Any, Any]:
            pair = rows_pair(texts, size, texts.random.choice((1, 3)))
            return tuple({"vectors": each, "epsilon": 3.0, **fields} for each in pair)  # type: ignore[return-value]

        return made

    for mechanism in (None, "laplace", "privunit", "privemb"):
        yield Kind(f"texts, {mechanism or 'codebook'}", one("/embed/vector", texts_of(mechanism)))
    for dimension in (1, 16):
        for mechanism in ("laplace", "privunit", "codebook"):
            if (dimension, mechanism) != (1, "codebook"):
                yield Kind(
                    f"{dimension} numbers, {mechanism}",
                    one("/embed/vector", vectors_of(dimension, {"mechanism": mechanism})),
                )
    narrow = {"mechanism": "privemb", "dimension": 4, "encoding_format": "base64"}
    yield Kind("16 numbers, privemb", one("/embed/vector", vectors_of(16, narrow)))


def preset_kinds() -> Iterator[Kind]:
    pairs: dict[str, Callable[[Texts], tuple[str, str]]] = {
        "codes": Texts.sentences,
        "auto": Texts.sentences,
        "selection": whole_pair,
        "windows": lambda texts: texts.windows(12),
        "codebook": whole_pair,
        "privunit": whole_pair,
    }
    for model, pair in pairs.items():
        body = both_ways(partial(lambda found, model: {"model": model, "input": found}, model=model), pair)
        yield Kind(model, one("/v1/embeddings", body))


SANITIZE: dict[str, tuple[dict[str, Any], Callable[[Texts], tuple[str, str]]]] = {
    "dp, slot": ({"fill": {"mode": "dp", "epsilon": 4.0}}, slot_pair),
    "dp, slot, all": ({"fill": {"mode": "dp", "epsilon": 4.0}, "mask": {"techniques": ["all"]}}, word_pair),
    "dp, document": ({"fill": {"mode": "dp", "epsilon": 40.0, "scope": "document"}}, word_pair),
    "metric_dp, all": ({"fill": {"mode": "metric_dp", "epsilon": 2.5}, "mask": {"techniques": ["all"]}}, word_pair),
    "metric_dp, laplace": (
        {"fill": {"mode": "metric_dp", "epsilon": 2.5, "mechanism": "laplace"}, "mask": {"techniques": ["all"]}},
        word_pair,
    ),
}


def sanitize_kinds() -> Iterator[Kind]:
    for name, (terms, pair) in SANITIZE.items():
        body = both_ways(partial(lambda found, t: {"documents": [{"text": x} for x in found], **t}, t=terms), pair)
        yield Kind(name, one("/sanitize", body))
        yield Kind(f"{name}, batch", partial(_stream, terms, pair))


def _stream(terms: Any, pair: Callable[[Texts], tuple[str, str]], texts: Texts) -> Pair:
    first, second = pair(texts)
    other = texts.words(5)

    def lines(own: str) -> list[Sent]:
        rows = [terms, {"text": own}, {"text": other}, {"id": "3", "text": own}]
        body = b"\n".join(texts.body(row) for row in rows)
        return [Sent("/sanitize/batch", body, {"content-type": "application/x-ndjson"})]

    return lines(first), lines(second)


def _fresh(texts: Texts) -> tuple[Any, Any]:
    """The same pattern of equal documents on both sides: a new one twice, beside another new one."""
    number = f"{texts.random.getrandbits(64):x}"
    first, second = texts.sentences()
    while len({len(sentences(f"{number}. {own}")) for own in (first, second)}) > 1:  # the number may join a sentence
        first, second = texts.sentences()

    def body(own: str) -> dict[str, Any]:
        documents = [{"text": f"{number}. {own}"}, {"text": f"{number}. {own}"}, {"text": f"{number}, too."}]
        return {"documents": documents, "epsilon": 3.0}

    return body(first), body(second)


def _shop(texts: Texts, **fields: Any) -> Pair:
    """One row is replaced by any other of the schema."""
    rows = shop_rows(60)
    other = list(rows)
    other[texts.random.randrange(60)] = {
        "age": texts.random.choice((0, 100, 37)),
        "spent": texts.random.choice((0, 1, 0.5, 1e-300, -0.0)),
        "colour": texts.random.choice(("red", "green", "blue")),
        "buys": texts.random.choice(("no", "yes")),
    }
    name = f"t{texts.random.getrandbits(40):x}"

    def body(found: list[dict[str, object]]) -> list[Sent]:
        small = {"frequencies": 8, "steps": 3} if fields.get("method") == "pearl" else {}
        return [
            Sent("/jobs/synthesis", texts.body(shop_request(rows=found, **{**fields, **small, "name": name})), job=True)
        ]

    return body(rows), body(other)


def _towns(texts: Texts, **fields: Any) -> Pair:
    """One row is replaced by any other: longer, empty, of another label."""
    rows = labelled(24)
    other = [dict(row) for row in rows]
    place = texts.random.randrange(24)
    other[place] = {"text": texts.words(texts.random.choice((1, 40, 120))), "label": texts.random.choice(LABELS)}
    name = f"t{texts.random.getrandbits(40):x}"
    terms = {"labels": list(LABELS), "epsilon": 50.0, "delta": 1e-3, "rows": 24, "batch": 6, **fields}
    terms |= {"model": "tiny", "pieces_max": 40}

    def body(found: list[dict[str, str]]) -> list[Sent]:
        whole = {"name": name, "private": found, "public": labelled(6), **terms}
        return [Sent("/jobs/finetune", texts.body(whole), job=True)]

    return body(rows), body(other)


def job_kinds() -> Iterator[Kind]:
    """A job takes as long as tens of requests."""
    for method in ("pearl", "marginals", "aim"):
        for count in ("public", "protected"):
            made: Made = partial(_shop, method=method, row_count=count)
            yield Kind(f"synthesis, {method}, rows {count}", made, share=0.25)
    for method, sampling, steps in (("lora", "poisson", 5), ("full", "random_allocation", 8), ("rgp", "poisson", 5)):
        made = partial(_towns, method=method, sampling=sampling, steps=steps)
        yield Kind(f"finetune, {method}, {sampling}", made, share=0.25)


def audits() -> tuple[Audit, ...]:
    place, words = pricing.PLACE.split(",")[0], pricing.ANY
    one_unit = "one sentence, one window, one vector, or the whole document, as each mechanism has it"
    return (
        audit_of("interference-sentdp", "/embed/sentdp", one_unit, sentdp_kinds, 24),
        audit_of("interference-vector", "/embed/vector", ADJACENCY_ALL, vector_kinds, 24),
        audit_of("interference-embeddings", "/v1/embeddings", one_unit, preset_kinds, 24),
        audit_of("interference-sanitize", "/sanitize and /sanitize/batch", f"{place}; {words}", sanitize_kinds, 24),
        audit_of("interference-jobs", "jobs that charge", "replace one row", job_kinds, 12),
    )
