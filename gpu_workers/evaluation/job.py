"""The job that measures mechanisms and policies on the caller's own texts, and writes a report.

    read -> encode -> measure the embeddings -> attack them -> run the policies -> report

Guarantee: none. The results are computed from private texts, for who controls them, and are charged to no account: what
the methods release stays in the memory of this process. The report and the result hold numbers, types and the caller's
names of methods, and no text. Nothing leaves the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import orjson

from core.accounting.events import PrivacyEvent
from core.amounts import epsilon_of
from core.errors import BadCorpus
from core.evaluation.attack_bounds import attack_bounds
from gpu_workers.bulk.releasers import TextRows
from gpu_workers.engine.handler import Handler
from gpu_workers.engine.protocol import Role
from gpu_workers.evaluation import inversion, linkage, masking, membership, utility
from gpu_workers.evaluation.advice import advice_on_embeddings, advice_on_masking
from gpu_workers.evaluation.corpus import Encoded, FloatArray
from gpu_workers.evaluation.findings import Findings, Meaning
from gpu_workers.evaluation.page import page
from gpu_workers.evaluation.spec import EmbeddingMethod, EvaluationSpec, SanitizingMethod, Texts, read_texts
from gpu_workers.jobs.corpus import corpus_lines
from gpu_workers.jobs.protocol import Charge, JobOrder, ReportProgress, publish

_ERROR = 0.05  # that any attack by canaries contradicts a claim that holds


def run(order: JobOrder, report: ReportProgress, _charge: Charge) -> dict[str, Any]:
    """Write the findings as JSON and as a page. Returns counts and the advice. Raises JobFailed."""
    spec: EvaluationSpec = order.spec
    report("reading", 0.0)
    texts = read_texts(corpus_lines(order.received()), chars_max=spec.chars_max)
    if texts.labels and len({*texts.labels}) < 2:
        raise BadCorpus("Labels are of two kinds at least, or there are none.", reason="one-label")
    found = evaluated(spec, texts, report)
    report("writing", 0.99)
    content = orjson.dumps(asdict(found), option=orjson.OPT_INDENT_2)
    publish(lambda path: _write(path, content), _card(found), (str(spec.target),))
    _write(spec.report, page(found).encode())
    return {
        "name": spec.name,
        "texts": found.texts,
        "labels": found.labels,
        "persons": found.persons,
        "methods": len(spec.embeddings) + len(spec.policies),
        "guarantee": "none",
    }


def evaluated(spec: EvaluationSpec, texts: Texts, report: ReportProgress) -> Findings:
    """Measure and attack every method. Raises JobFailed."""
    report("loading", 0.01)
    handlers = _Handlers(spec.handlers)
    encoded = Encoded(handlers[Role.EMBED], texts.texts)
    clear = encoded.source(None, _stage(report, "encoding", 0.02, 0.1)).clean
    for method in spec.embeddings:
        encoded.source(method, _stage(report, "encoding", 0.1, 0.18))
    labels = utility.label_numbers(texts.labels) if texts.labels else utility.clusters(clear)
    utilities = utility.measure(
        encoded,
        spec.embeddings,
        labels,
        epsilons=spec.epsilons,
        repetitions=spec.repetitions,
        tolerance=spec.tolerance,
        shown=_stage(report, "measuring", 0.18, 0.5),
    )
    meanings = _meanings(spec)
    pairs = linkage.halves(texts.persons) if texts.persons else []
    pairs = pairs if len(pairs) >= linkage.PERSONS_MIN else []
    linked = [linkage.linkage("texts", None, clear, pairs)] if pairs else []
    attacker = inversion.Attacker(texts.texts, labels, seed=0)
    inverted = [attacker.attack("texts", None, clear, clear)]
    memberships = []
    shown = _stage(report, "attacking", 0.5, 0.7)
    for number, method in enumerate(spec.embeddings):
        source = encoded.source(method, lambda _: None)
        canaries = membership.canaries(source)
        for place, epsilon in enumerate(spec.epsilons):
            released = encoded.released(method, place, source)
            inverted.append(attacker.attack(method.name, epsilon, released, source.clean))
            if pairs:
                linked.append(linkage.linkage(method.name, epsilon, released, pairs))
            bound = attack_bounds(method.events[place]).advantage
            confidence = 1 - _ERROR / (len(spec.embeddings) * len(spec.epsilons))
            memberships.append(membership.attack(encoded, method, place, canaries, bound=bound, confidence=confidence))
            shown((number * len(spec.epsilons) + place + 1) / (len(spec.embeddings) * len(spec.epsilons)))
    maskings: list[masking.Masking] = []
    if spec.finder is not None:
        maskings, masked = _masked(spec, spec.finder, texts, clear, labels, encoded, handlers, report)
        linked += [linkage.linkage(name, None, vectors, pairs) for name, vectors in masked.items() if pairs]
    by_epsilon = {(each.name, each.epsilon): each.bounds for each in meanings}
    advice = (
        advice_on_embeddings(spec.embeddings, utilities, by_epsilon, spec.tolerance),
        advice_on_masking(spec.policies, maskings, len(texts.texts)),
    )
    return Findings(
        name=spec.name,
        texts=len(texts.texts),
        labels=len({*labels.tolist()}),
        labelled=texts.labels is not None,
        persons=len({*texts.persons}) if texts.persons else None,
        tolerance=spec.tolerance,
        releases=spec.releases,
        repetitions=spec.repetitions,
        utilities=tuple(utilities),
        meanings=meanings,
        memberships=tuple(memberships),
        inversions=tuple(inverted),
        maskings=tuple(maskings),
        linkages=tuple(linked),
        advice=tuple(each for each in advice if each is not None),
    )


def _meanings(spec: EvaluationSpec) -> tuple[Meaning, ...]:
    return tuple(
        Meaning(
            method.name,
            _unit(method, event),
            epsilon,
            epsilon_of(event.epsilon_nano),
            attack_bounds(event, count=spec.releases),
        )
        for method in spec.embeddings
        for epsilon, event in zip(spec.epsilons, method.events, strict=True)
    )


def _unit(method: EmbeddingMethod, event: PrivacyEvent) -> str:
    """What the guarantee lets be replaced: a whole text where the mechanism protects it, else a unit of it."""
    releaser = method.releasers[0]
    whole = isinstance(releaser, TextRows) or releaser.units is None
    return "text" if whole else event.unit.value


def _masked(
    spec: EvaluationSpec,
    finder: SanitizingMethod,
    texts: Texts,
    clear: FloatArray,
    labels: utility.Labels,
    encoded: Encoded,
    handlers: _Handlers,
    report: ReportProgress,
) -> tuple[list[masking.Masking], dict[str, FloatArray]]:
    """Return what the policies do, and the vectors of their outputs by name."""
    finder = replace(finder, task=replace(finder.task, explain=0))
    results = []
    for number, method in enumerate((finder, *spec.policies)):
        share = 0.28 / (1 + len(spec.policies))
        shown = _stage(report, "sanitising", 0.7 + number * share, 0.7 + (number + 1) * share)
        results.append(masking.sanitised(handlers[method.role], method.task, texts.texts, shown))
    values = masking.values_of(texts.texts, results[0])
    vectors = {
        policy.name: encoded.of_texts([each.text or " " for each in outputs])
        for policy, outputs in zip(spec.policies, results[1:], strict=True)
    }
    splits = [utility.split(len(labels), seed) for seed in range(spec.repetitions)]
    before = utility.accuracy(clear, labels, splits)
    found = [
        masking.measured(
            policy.name, texts, values, outputs, before, utility.accuracy(vectors[policy.name], labels, splits)
        )
        for policy, outputs in zip(spec.policies, results[1:], strict=True)
    ]
    return found, vectors


def _stage(report: ReportProgress, name: str, low: float, high: float) -> Callable[[float], None]:
    def shown(share: float) -> None:
        report(name, low + (high - low) * share)

    return shown


class _Handlers:
    """The handlers of this process, made when they are first needed."""

    def __init__(self, factories: Mapping[Role, Any]) -> None:
        self._factories = factories
        self._made: dict[Role, Handler] = {}

    def __getitem__(self, role: Role) -> Handler:
        if role not in self._made:
            self._made[role] = self._factories[role]()
            self._made[role].warm_up()
        return self._made[role]


def _card(found: Findings) -> str:
    return "\n".join(
        [
            f"# Evaluation `{found.name}`",
            "",
            f"Measured on {found.texts} private texts, without a guarantee: the file is for who controls them.",
            "",
            *(f"* `/{each.endpoint}`: {each.said}" for each in found.advice),
            "",
        ]
    )


def _write(path: Path, content: bytes) -> None:
    partial_file = path.with_name(f"{path.name}.partial")
    partial_file.write_bytes(content)
    partial_file.replace(path)
