"""The cost and the public facts of a private vector, computed from its spec alone, without torch and scipy.

A release by a metric mechanism has two guarantees at once, and debits two kinds of account:

* metric DP: Pr[A(x) in S] <= e^(eps |x - x'|) Pr[A(x') in S] for all x, x' in the ball of radius C, eps per unit of
  Euclidean distance: an event of the unit `vector`, whose accounts count epsilon per unit of distance;
* pure DP for replacing the whole vector: the distance of two points of the ball is at most 2 C, so it holds at
  2 C eps: an event of the unit `sentence`, which debits `sentence` and `token`.

`privunit` and `codebook` are pure DP for replacing the vector by any other: one event of the unit `sentence`, since a
vector represents one text, whatever its origin.
"""

from decimal import ROUND_CEILING, Decimal
from typing import Any

from core.accounting.events import Adjacency, Guarantee, PrivacyEvent, Unit
from core.amounts import EPSILON_MAX, NANO, epsilon_of
from core.errors import InvalidInput
from core.mechanisms.vectors.projection import projection_id
from core.mechanisms.vectors.spec import VectorSpec, codebook_size, trained_size

ADJACENCY_ALL = "replace-one vector (any vector by any other)"
PER_UNIT = "unit of Euclidean distance"


def vector_events(spec: VectorSpec, *, spectral_norm_bound: float) -> tuple[PrivacyEvent, ...]:
    """Return the events of one released vector. The response shows the first one.

    `spectral_norm_bound` bounds the projection's largest singular value (`spec_norm_bound`). It prices only the paper's
    form, whose noise of rate eps / (1 + beta) gives eps spectral_norm_bound / (1 + beta) per unit of distance. That
    number is charged, rounded up. Raises: InvalidInput if the price cannot be counted.
    """
    if not spec.is_metric:
        return (_event(spec, Unit.SENTENCE, "pure", Guarantee.PURE_DP, spec.epsilon_nano),)
    per_unit = _per_unit_nano(spec, spectral_norm_bound)
    return (
        _event(spec, Unit.VECTOR, "metric", Guarantee.METRIC_DP, per_unit),
        _event(spec, Unit.SENTENCE, "metric", Guarantee.PURE_DP, _worst_case_nano(spec, per_unit)),
    )


def vector_facts(spec: VectorSpec, *, spectral_norm_bound: float) -> dict[str, Any]:
    """Return what a response's `privacy` block contains beside the first event: public facts, JSON-ready."""
    facts: dict[str, Any] = {"dimension": spec.output_dimension}
    if spec.is_trained:
        facts["projection"] = spec.projection  # internal to the mechanism, whose output is in the input's space
    elif spec.projection != "identity":
        facts["projection"] = projection_id(
            spec.projection, dimension=spec.dimension, output_dimension=spec.output_dimension
        )
    if spec.is_trained:
        facts["codebook"] = trained_size(spec.epsilon_nano)
    elif spec.mechanism == "codebook":
        size = codebook_size(dimension=spec.output_dimension, epsilon_nano=spec.epsilon_nano)
        facts |= {"codebook": size.vectors, "neighbours": size.neighbours}
    if not spec.is_metric:
        return {"unit": Unit.VECTOR.value, "adjacency": ADJACENCY_ALL, **facts}
    per_unit = _per_unit_nano(spec, spectral_norm_bound)
    facts |= {
        "per": PER_UNIT,
        "epsilon_worst_case": epsilon_of(_worst_case_nano(spec, per_unit)),
        "clip_norm": spec.clip_norm,
        "strict": spec.strict,
        "stretch": spectral_norm_bound,
    }
    if spec.beta is not None:
        facts |= {"beta": spec.beta, "epsilon_asked": spec.epsilon}
    return facts


def _event(spec: VectorSpec, unit: Unit, kind: str, guarantee: Guarantee, epsilon_nano: int) -> PrivacyEvent:
    adjacency = Adjacency.METRIC if unit is Unit.VECTOR else Adjacency.REPLACE_ONE
    return PrivacyEvent(spec.mechanism, kind, unit, adjacency, guarantee, epsilon_nano)


def _per_unit_nano(spec: VectorSpec, spectral_norm_bound: float) -> int:
    """Return epsilon per unit of distance of the release as it is run."""
    if spec.beta is None:
        return spec.epsilon_nano
    return _ceiling(Decimal(spec.epsilon_nano) * Decimal(spectral_norm_bound) / Decimal(1 + spec.beta))


def _worst_case_nano(spec: VectorSpec, per_unit_nano: int) -> int:
    # the shortest decimal that represents the float, as everywhere in `core.amounts`
    return _ceiling(2 * Decimal(repr(spec.clip_norm)) * per_unit_nano)


def _ceiling(nano: Decimal) -> int:
    if nano > EPSILON_MAX * NANO:
        raise InvalidInput(f"The worst case of this release exceeds an epsilon of {EPSILON_MAX}.", field="epsilon")
    return int(nano.to_integral_value(rounding=ROUND_CEILING))
