"""Calculations for privacy plans: epsilon by every accountant, noise or steps for a target. Nothing is charged."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, Self

from fastapi import APIRouter
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from core.accounting.plans import (
    ALLOCATION_NOISE_MAX,
    ALLOCATION_NOISE_MIN,
    EPOCH_STEPS_MAX,
    CalibratedNoise,
    CalibratedSteps,
    Certificate,
    Gaussian,
    Interval,
    Laplace,
    Line,
    PlanAdjacency,
    PlanEvent,
    Pure,
    RandomAllocation,
    Result,
    SubsampledGaussian,
    check_count,
    check_delta,
)
from core.errors import OutOfRange
from service.accounting.calculations import Calculations
from service.capability import Capability
from service.config.settings import Settings
from service.http.answers import doc
from service.http.auth import ReadCallerDep
from service.http.body import JsonRoute
from service.http.strict import Strict, exactly_one_of
from service.parts import Part, Parts

router = APIRouter(route_class=JsonRoute, tags=["accounting"])

Adjacency = Literal["add-remove", "replace-one"]


class GaussianPlan(Strict):
    kind: Literal["gaussian"]
    noise_multiplier: float = Field(description="Standard deviation over l2 sensitivity.")
    adjacency: Adjacency = "add-remove"

    def event(self) -> PlanEvent:
        return Gaussian(self.noise_multiplier, PlanAdjacency(self.adjacency))


class SubsampledGaussianPlan(Strict):
    kind: Literal["subsampled_gaussian"]
    sampling_rate: float = Field(description="Poisson sampling: each unit joins a step with this probability.")
    noise_multiplier: float = Field(description="Standard deviation over the clipping norm.")
    adjacency: Adjacency = "add-remove"

    def event(self) -> PlanEvent:
        return SubsampledGaussian(self.sampling_rate, self.noise_multiplier, PlanAdjacency(self.adjacency))


EpochSteps = Annotated[int, Field(ge=1, le=EPOCH_STEPS_MAX)]


class RandomAllocationPlan(Strict):
    kind: Literal["random_allocation"]
    epoch_steps: EpochSteps = Field(description="The steps of an epoch: each unit joins one, chosen uniformly.")
    noise_multiplier: float = Field(
        description="Standard deviation over the clipping norm.", ge=ALLOCATION_NOISE_MIN, le=ALLOCATION_NOISE_MAX
    )
    adjacency: Adjacency = "add-remove"

    def event(self) -> PlanEvent:
        return RandomAllocation(self.epoch_steps, self.noise_multiplier, PlanAdjacency(self.adjacency))


class LaplacePlan(Strict):
    kind: Literal["laplace"]
    epsilon: float
    adjacency: Adjacency = "add-remove"

    def event(self) -> PlanEvent:
        return Laplace(self.epsilon, PlanAdjacency(self.adjacency))


class PurePlan(Strict):
    kind: Literal["pure"]
    epsilon: float
    adjacency: Adjacency = "add-remove"

    def event(self) -> PlanEvent:
        return Pure(self.epsilon, PlanAdjacency(self.adjacency))


class CompareRequest(Strict):
    """Body of `POST /accounting/compare`."""

    mechanism: Annotated[
        GaussianPlan | SubsampledGaussianPlan | RandomAllocationPlan | LaplacePlan | PurePlan,
        Field(discriminator="kind"),
    ]
    steps: int = Field(1, description="For `random_allocation` a multiple of `epoch_steps`.")
    delta: float


class Target(Strict):
    epsilon: float
    delta: float


class CalibrateRequest(Strict):
    """Body of `POST /accounting/calibrate`: `steps` asks for the noise, `noise_multiplier` for the steps."""

    target: Target
    sampling_rate: float = 1.0
    epoch_steps: EpochSteps | None = Field(
        None,
        description="For random allocation instead of Poisson sampling: the steps of an epoch. `steps` is a multiple.",
    )
    steps: int | None = None
    noise_multiplier: float | None = None

    _one_unknown = exactly_one_of("steps", "noise_multiplier")

    @model_validator(mode="after")
    def _allocation_asks_for_noise(self) -> Self:
        if self.epoch_steps is not None and (self.steps is None or self.sampling_rate != 1.0):
            said = "give steps with epoch_steps, and neither sampling_rate nor noise_multiplier"
            raise PydanticCustomError("value_error", said, {"permitted": ["epoch_steps", "steps"]})
        return self


class Directions(TypedDict):
    """An epsilon by the direction in which two neighbours differ; null where it was not needed."""

    remove: Annotated[float | None, doc("With the unit removed.")]
    add: Annotated[float | None, doc("With the unit added.")]


class EpsilonInterval(TypedDict):
    """An interval around an epsilon."""

    low: Annotated[float | None, doc("Its lower end.")]
    high: Annotated[float | None, doc("Its upper end; null for none.")]
    kind: Annotated[str, doc("What the ends claim: `bound` or `estimate`.")]


class ComparedLine(TypedDict):
    """The epsilon of a plan, by one accountant."""

    name: Annotated[str, doc("The accountant.")]
    order: NotRequired[Annotated[int, doc("The order of an Edgeworth expansion; absent for other accountants.")]]
    epsilon: Annotated[float | None, doc("The epsilon; null without a value.")]
    kind: Annotated[str, doc("`bound`, `estimate`, `vacuous` or `no-unique-root`.")]
    direction: NotRequired[Annotated[str, doc("The direction in which it is largest; with an `order`.")]]
    directions: NotRequired[Annotated[Directions, doc("It by direction; with an `order`.")]]
    interval: NotRequired[Annotated[EpsilonInterval | str | None, doc("Where it lies, or `vacuous`; null for none.")]]
    note: Annotated[str | None, doc("Why there is no value, or what it assumes; null if nothing is said.")]


class Comparison(TypedDict):
    """The epsilon of a plan, by every accountant."""

    steps: Annotated[int, doc("The number of its steps.")]
    delta: Annotated[float, doc("The delta at which epsilon is stated.")]
    adjacency: Annotated[str, doc("Which inputs are neighbours.")]
    accountants: Annotated[list[ComparedLine], doc("The accountants.")]


class CertifiedPlan(TypedDict):
    """What is proven of a plan."""

    accountant: Annotated[str, doc("Always `pld`, the privacy loss distribution.")]
    kind: Annotated[str, doc("Always `bound`.")]
    adjacency: Annotated[str, doc("Always `add-remove`.")]
    epsilon: Annotated[float, doc("The epsilon, never below the true value.")]
    delta: Annotated[float, doc("The delta.")]
    loss_interval: Annotated[float, doc("The width of the cells of the distribution.")]


class Calibration(TypedDict):
    """Noise and steps that keep within a target."""

    noise_multiplier: Annotated[float, doc("The standard deviation over the clipping norm.")]
    steps: Annotated[int | None, doc("The number of steps.")]
    certificate: Annotated[CertifiedPlan | None, doc("The proof; null for no step.")]
    accountants: Annotated[list[ComparedLine], doc("The epsilon of the plan, by every accountant.")]


@router.post("/accounting/compare", summary="Epsilon of a plan by every accountant")
async def compare(body: CompareRequest, caller: ReadCallerDep, calculations: Part[Calculations]) -> Comparison:
    """`kind` states what a number is: a `bound` is never below the true value, an `estimate` may be."""
    event = body.mechanism.event()
    check_count(body.steps)
    check_delta(body.delta)
    releases = _releases(event, body.steps)
    lines = await calculations.run("compare", event, releases, body.delta, tenant=caller.tenant)
    return {
        "steps": body.steps,
        "delta": body.delta,
        "adjacency": event.adjacency.value,
        "accountants": [line_block(line) for line in lines],
    }


@router.post("/accounting/calibrate", summary="Noise, or steps, for a target; certified")
async def calibrate(body: CalibrateRequest, caller: ReadCallerDep, calculations: Part[Calculations]) -> Calibration:
    """The answer contains the certificate, and every accountant's epsilon of the calibrated plan."""
    delta, steps = body.target.delta, body.steps
    certificate: Certificate | None
    if body.noise_multiplier is None:
        name, known = "calibrate_noise", {"sampling_rate": body.sampling_rate, "steps": steps}
        if body.epoch_steps is not None and steps is not None:
            epochs = _epochs(steps, body.epoch_steps)
            name, known = "calibrate_allocation", {"steps": body.epoch_steps, "epochs": epochs}
        noise_found: CalibratedNoise = await calculations.run(
            name, body.target.epsilon, delta, tenant=caller.tenant, **known
        )
        noise, certificate = noise_found.noise_multiplier, noise_found.certificate
    else:
        steps_found: CalibratedSteps = await calculations.run(
            "calibrate_steps",
            body.target.epsilon,
            delta,
            tenant=caller.tenant,
            sampling_rate=body.sampling_rate,
            noise_multiplier=body.noise_multiplier,
        )
        noise, steps, certificate = body.noise_multiplier, steps_found.steps, steps_found.certificate
    lines: tuple[Line, ...] = ()
    if steps:
        interval = None if certificate is None else certificate.loss_interval or None
        event: PlanEvent = SubsampledGaussian(body.sampling_rate, noise)
        if body.epoch_steps is not None:
            event = RandomAllocation(body.epoch_steps, noise)
        lines = await calculations.run(
            "compare", event, _releases(event, steps), delta, tenant=caller.tenant, interval=interval
        )
    return {
        "noise_multiplier": noise,
        "steps": steps,
        "certificate": certificate_block(certificate),
        "accountants": [line_block(line) for line in lines],
    }


def _releases(event: PlanEvent, steps: int) -> int:
    """How many releases of `event` the steps are. Raises OutOfRange for a fraction of an epoch."""
    return _epochs(steps, event.steps) if isinstance(event, RandomAllocation) else steps


def _epochs(steps: int, epoch_steps: int) -> int:
    if steps % epoch_steps:
        raise OutOfRange("with random allocation, steps must be a multiple of epoch_steps", field="steps")
    return steps // epoch_steps


def certificate_block(certificate: Certificate | None) -> CertifiedPlan | None:
    if certificate is None:
        return None
    return {
        "accountant": "pld",
        "kind": "bound",
        "adjacency": PlanAdjacency.ADD_REMOVE.value,
        "epsilon": certificate.epsilon,
        "delta": certificate.delta,
        "loss_interval": certificate.loss_interval,
    }


def line_block(line: Line) -> ComparedLine:
    """One accountant's result, as answers show it."""
    block: ComparedLine = {
        "name": line.name,
        "epsilon": line.result.value,
        "kind": line.result.kind.value,
        "note": line.result.note,
    }
    if line.order is not None:
        block |= {
            "order": line.order,
            "direction": line.result.direction.value,
            "directions": {"remove": _value(line.remove), "add": _value(line.add)},
            "interval": _interval(line.result.interval),
        }
    return block


def _value(result: Result | None) -> float | None:
    return None if result is None else result.value


def _interval(interval: Interval | None) -> EpsilonInterval | str | None:
    """Both ends and what they claim, or "vacuous"; null where none is offered (orders 2 and 3, exact answers)."""
    if interval is None:
        return None
    if interval.low is None:
        return interval.kind.value
    return {"low": interval.low, "high": interval.high, "kind": interval.kind.value}


def _calculations(parts: Parts) -> Calculations:
    settings = parts[Settings]
    return Calculations(
        workers=settings.accounting_workers,
        tenant_share=settings.queue_tenant_share,
        timeout_s=settings.accounting_timeout_s,
    )


async def _end(parts: Parts) -> None:
    parts[Calculations].close()


CAPABILITY = Capability(name="accounting", routers=[router], services={Calculations: _calculations}, end=_end)
