"""The report of an evaluation, as a page: what to use, what it means, what it keeps, what attacks find.

Guarantee: none, and the page says so first. It holds numbers, types, and the caller's names of methods, which are
escaped.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from html import escape
from typing import Any

import orjson

from core.evaluation.attack_bounds import FALSE_POSITIVE_RATE, PRIORS
from gpu_workers.evaluation.advice import LEFT_MAX, Advice
from gpu_workers.evaluation.findings import Findings, Meaning
from gpu_workers.evaluation.masking import ORDINARY_ZIPF
from gpu_workers.evaluation.utility import Estimate, MethodUtility
from gpu_workers.pages import SERIES_MAX, document, figure, items, key, picture

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 520, 240, 40, 12, 14, 30
_OF = 1_000  # guesses, in sentences
_PRIOR = PRIORS.index(0.1)  # of these guesses
_HARDLY_BINDS = 0.9


def page(found: Findings) -> str:
    """Return the page as HTML."""
    sections = [
        f"<h1>Evaluation <em>{escape(found.name)}</em></h1>",
        _warning(),
        _advice(found),
        _utility(found),
        _meaning(found),
        _attacks(found),
        _masking(found),
        _linkage(found),
        _method(found),
    ]
    return document(f"Evaluation {found.name}", sections)


def _warning() -> str:
    return (
        '<p class="card paid">This page is for who controls the texts. It is computed from them <b>without a privacy '
        "guarantee</b>, and an epsilon that was chosen by it depends on them. Do not publish it.</p>"
    )


def _advice(found: Findings) -> str:
    cards = "".join(_advised(each, found) for each in found.advice)
    if not any(each.endpoint != "sanitize" for each in found.advice) and found.utilities:
        cards += (
            f'<div class="card paid"><h3>No epsilon of the grid keeps {1 - found.tolerance:.0%} of the accuracy</h3>'
            "<p>Raise the tolerance or the epsilons, or give each text more sentences or a domain pack of its kind.</p>"
            "</div>"
        )
    return f'<h2>What to use</h2><div class="two">{cards}</div>' if cards else ""


def _advised(advice: Advice, found: Findings) -> str:
    body = escape(orjson.dumps(advice.body, option=orjson.OPT_INDENT_2).decode())
    title, meaning = f"{escape(advice.name)}", ""
    if "epsilon" in advice.body:
        title += f" at epsilon {advice.body['epsilon']:g}"
        own = next(
            each for each in found.meanings if (each.name, each.epsilon) == (advice.name, advice.body["epsilon"])
        )
        meaning = f"<p><b>{in_words(own)}</b></p>"
        if own.bounds.guesses[_PRIOR].success > _HARDLY_BINDS:
            meaning += (
                "<p>So it hides little from somebody who already has candidates. Try more sentences for each text, a "
                "domain pack of your kind of text, or a larger tolerance, and then a smaller epsilon.</p>"
            )
    policy = ""
    if advice.policy_file:
        policy = (
            "<p class='soft'>As a policy in the operator's file (<code>PRIVACY_GATEWAY_POLICIES_FILE</code>):</p>"
            f"<pre>{escape(advice.policy_file)}</pre>"
        )
    return (
        f'<div class="card free"><h3>{title}</h3>{meaning}<p>{escape(advice.said)}</p>'
        f"<p class='soft'>Body of <code>POST /{escape(advice.endpoint)}</code>, without documents:</p>"
        f"<pre>{body}</pre>{policy}</div>"
    )


def in_words(meaning: Meaning) -> str:
    """What an epsilon means for a guess, in a sentence with numbers."""
    guess = meaning.bounds.guesses[_PRIOR]
    before, after = round(guess.prior * _OF), math.ceil(guess.success * _OF - 1e-6)
    times = "a release" if meaning.bounds.count == 1 else f"{meaning.bounds.count} releases"
    right = f"at most {after} are right" if after < _OF else "all may be right"
    return (
        f"Of {_OF:,} guesses about a {escape(_unit(meaning.unit))}, of which {before} would be right anyway, {right} "
        f"after {times}."
    )


def _unit(unit: str) -> str:
    return {"record": "row", "token": "word"}.get(unit, unit)


def _utility(found: Findings) -> str:
    if not found.utilities:
        return ""
    epsilons = [row.epsilon for row in found.utilities[0].rows if row.epsilon is not None]
    names = [each.name for each in found.utilities]
    accuracy = [_means(each, "accuracy") for each in found.utilities]
    recall = [_means(each, "recall") for each in found.utilities]
    what = "the labels" if found.labelled else f"{found.labels} clusters of the clean vectors, in place of labels"
    grids = ""
    for name, title in _MEASURES.items():
        cells = {
            (each.name, row.epsilon): _estimate(getattr(row, name)) for each in found.utilities for row in each.rows
        }
        grids += f"<h3>{title}</h3>{_grid(found, cells, clear=True)}"
    return (
        f"<h2>What each epsilon keeps</h2><p>A linear classifier learns {what} from released vectors and is tested on "
        f"others, {found.repetitions} times. Dashed: without noise.</p>{key(names)}"
        f'<div class="two">{figure("Accuracy", curves(epsilons, accuracy))}'
        f"{figure('Recall of the 10 nearest texts', curves(epsilons, recall))}</div>{grids}"
    )


_MEASURES = {
    "accuracy": "Accuracy",
    "macro_f1": "Macro-F1",
    "recall": "Recall of the 10 nearest texts",
    "neighbour": "The nearest text has the same label",
}


def _grid(found: Findings, cells: Mapping[Any, str], *, clear: bool = False) -> str:
    """A table with a row for each embedding and a column for each epsilon. `cells`: by name and epsilon. `clear`: with
    a first column without noise."""
    epsilons: list[float | None] = [row.epsilon for row in found.utilities[0].rows]
    columns = epsilons if clear else epsilons[1:]
    heads = ["method", *("none" if epsilon is None else f"{epsilon:g}" for epsilon in columns)]
    rows = [
        [escape(each.name), *(cells.get((each.name, epsilon), "") for epsilon in columns)] for each in found.utilities
    ]
    return table(heads, rows, texts=1)


def _means(found: MethodUtility, name: str) -> list[float]:
    """The first is without noise."""
    return [getattr(row, name).mean for row in found.rows]


def _estimate(value: Estimate) -> str:
    return _interval(value.mean, value.low, value.high)


def _interval(middle: float, low: float, high: float) -> str:
    return f'{middle:.3f} <small class="soft">{low:.3f} to {high:.3f}</small>'


def curves(epsilons: Sequence[float], series: Sequence[Sequence[float]]) -> str:
    """Curves over a logarithmic axis of epsilon, from 0 to 1. The first number of a series is a level: without
    noise."""
    logs = [math.log(each) for each in epsilons]
    span = (logs[-1] - logs[0]) or 1.0
    wide, tall = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x(log: float) -> float:
        return _LEFT + ((log - logs[0]) / span if len(logs) > 1 else 0.5) * wide

    def y(value: float) -> float:
        return _TOP + (1 - min(1.0, max(0.0, value))) * tall

    drawn = [
        f'<line class="rule" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(level):.1f}" y2="{y(level):.1f}"/>'
        f'<text x="{_LEFT - 6}" y="{y(level):.1f}" dy="4" text-anchor="end">{level:g}</text>'
        for level in (0, 0.25, 0.5, 0.75, 1)
    ]
    drawn += [
        f'<text x="{x(log):.1f}" y="{_HEIGHT - 10}" text-anchor="middle">{epsilon:g}</text>'
        for log, epsilon in zip(logs, epsilons, strict=True)
    ]
    for number, (level, *values) in enumerate(series):
        colour = f"stroke: var(--c{number % SERIES_MAX})"
        points = " ".join(f"{x(log):.1f},{y(value):.1f}" for log, value in zip(logs, values, strict=True))
        drawn.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(level):.1f}" y2="{y(level):.1f}" style="{colour}; '
            f'stroke-dasharray: 4 4; opacity: .6"/><polyline class="curve" style="{colour}" points="{points}"/>'
        )
        drawn += [
            f'<circle class="s{number % SERIES_MAX}" cx="{x(log):.1f}" cy="{y(value):.1f}" r="3">'
            f"<title>epsilon {epsilon:g}: {value:.3f}</title></circle>"
            for log, epsilon, value in zip(logs, epsilons, values, strict=True)
        ]
    return picture("".join(drawn), width=_WIDTH, height=_HEIGHT)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, texts: int) -> str:
    """Return a table of cells that are HTML. The first `texts` columns are text, the others numbers."""
    sides = ["" if place < texts else ' class="number"' for place in range(len(heads))]
    top = "".join(f"<th{side}>{escape(head)}</th>" for side, head in zip(sides, heads, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{side}>{cell}</td>' for side, cell in zip(sides, row, strict=True))}</tr>" for row in rows
    )
    return f'<div class="wide"><table><tr>{top}</tr>{body}</table></div>'


def _meaning(found: Findings) -> str:
    if not found.meanings:
        return ""
    measures: dict[str, Callable[[Meaning], str]] = {
        "Worst-case epsilon of one release": lambda each: f"{each.worst_case:g}",
        **{
            f"A guess that is right in {guess.prior:.0%} of all cases": partial(_guessed, place)
            for place, guess in enumerate(found.meanings[0].bounds.guesses)
        },
        "Advantage of a test for one value": lambda each: _at_most(each.bounds.advantage),
        f"True positives at {FALSE_POSITIVE_RATE:.0%} false ones": lambda each: _at_most(
            each.bounds.true_positive_rate
        ),
    }
    grids = "".join(
        f"<h3>{title}</h3>{_grid(found, {(each.name, each.epsilon): cell(each) for each in found.meanings})}"
        for title, cell in measures.items()
    )
    times = "one release" if found.releases == 1 else f"{found.releases} releases"
    units = ", ".join(sorted({_unit(each.unit) for each in found.meanings}))
    return (
        f"<h2>What epsilon means</h2><p>Bounds for an attacker who knows everything but one unit ({units}) and sees "
        f"{times} of it. A guess that is right as often as the title says is right as often as its cell, at most. The "
        f"advantage is true minus false positives. These hold for every attack and every text.</p>{grids}"
    )


def _guessed(place: int, each: Meaning) -> str:
    return _at_most(each.bounds.guesses[place].success)


def _at_most(value: float) -> str:
    return f"{math.ceil(value * 1000) / 10:.1f} %"


def _attacks(found: Findings) -> str:
    if not found.memberships:
        return ""
    members = {
        (each.name, epsilon): f"{each.found:.2f} of {each.claim:g}" if each.holds else f"<b>{each.found:.2f}</b>"
        for each, (_, epsilon) in zip(found.memberships, _places(found), strict=True)
    }
    advantages = {
        (each.name, epsilon): f"{each.advantage_low:.3f} of {each.bound:.3f}"
        for each, (_, epsilon) in zip(found.memberships, _places(found), strict=True)
    }
    broken = sum(not each.holds for each in found.memberships)
    verdict = f"<b>{broken} contradict the claim.</b>" if broken else "None contradicts the claim."
    clear = found.inversions[0]
    inverted = {(each.name, each.epsilon): _estimate(each.words_beyond) for each in found.inversions}
    inverted |= {(each.name, None): _estimate(clear.words_beyond) for each in found.utilities}
    return (
        "<h2>What attacks find</h2><h3>Telling two planted texts apart: epsilon found of that claimed</h3><p>The two "
        "units of your texts that are farthest apart, each released a thousand times. Found is what the mechanism has "
        f"at least, with 95 % confidence for all together. {verdict}</p>{_grid(found, members)}"
        f"<h3>The same: advantage found of that allowed</h3>{_grid(found, advantages)}"
        "<h3>Reading words from a vector</h3><p>Token F1, beyond a guess from the topic alone "
        f"({clear.topic.mean:.3f}), of an attacker who has half of the texts and trains on released vectors. Frequent "
        f"words count for nothing.</p>{_grid(found, inverted, clear=True)}"
    )


def _places(found: Findings) -> list[tuple[str, float]]:
    """The method and epsilon of each attack, in order."""
    return [(each.name, each.epsilon) for each in found.meanings]


def _masking(found: Findings) -> str:
    if not found.maskings:
        return ""
    heads = ("policy", "words masked", "ordinary words lost", "accuracy before", "after", "unique persons", "bare")
    rows = [
        (
            escape(each.name),
            f"{each.masked:.1%}",
            f"{each.ordinary_lost:.1%}",
            _estimate(each.accuracy_before),
            _estimate(each.accuracy_after),
            f"{each.unique:.1%}",
            f"{each.bare:.1%}",
        )
        for each in found.maskings
    ]
    kinds = [attribute.name for attribute in found.maskings[0].attributes]
    survivors = [
        (
            kind,
            str(found.maskings[0].attributes[number].texts),
            *(_surviving(each.attributes[number].surviving, found.texts) for each in found.maskings),
        )
        for number, kind in enumerate(kinds)
    ]
    whose = f"{found.persons} persons" if found.persons else "each text as a person"
    return (
        "<h2>Does masking hold</h2><p>A person is unique if nobody else has the same surviving attributes, and bare if "
        f"none survives: of {whose}. Ordinary words are frequent words in small letters.</p>"
        f"{table(heads, rows, texts=1)}<h3>Attributes that survive</h3><p>The number of texts in which an attribute "
        f"was found, and of outputs in which a value of it still stands; bold above {LEFT_MAX:.0%} of the texts.</p>"
        f"{table(('attribute', 'texts', *(each.name for each in found.maskings)), survivors, texts=1)}"
    )


def _surviving(count: int, texts: int) -> str:
    return f"<b>{count}</b>" if count > LEFT_MAX * texts else str(count)


def _linkage(found: Findings) -> str:
    if not found.linkages:
        return ""
    shown = {(each.name, each.epsilon): _interval(each.found, each.low, each.high) for each in found.linkages}
    outputs = [(escape(name), value) for (name, epsilon), value in shown.items() if epsilon is None]
    chance = found.linkages[0]
    return (
        f"<h2>Linking a person's texts</h2><p>The texts of {chance.persons} persons in two halves: how often the "
        f"vectors of one half lead to the other one. By chance: {chance.chance:.3f}.</p>"
        f"{table(('texts', 'found'), outputs, texts=1)}{_grid(found, shown) if found.utilities else ''}"
    )


def _method(found: Findings) -> str:
    facts = (
        f"{found.texts} texts, {'labels of the caller' if found.labelled else 'clusters in place of labels'}.",
        "Intervals are for 95 %, over repetitions with fresh noise and another split, and over the attacked texts.",
        "The smallest epsilon is the one from which on the mean stays within the tolerance of that without noise.",
        "An attribute that no recogniser finds is in no figure: surviving attributes are a lower bound.",
        f"Ordinary: in small letters, with a frequency of {ORDINARY_ZIPF:g} or more on the Zipf scale of wordfreq.",
        "An attack that finds little proves nothing; the bounds do.",
    )
    return f'<h2>How it was measured</h2><ul class="soft">{items(facts)}</ul>'
