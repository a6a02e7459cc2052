"""Calculations for privacy plans: epsilon by every accountant, noise or steps for a target. Nothing is charged."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import Field, model_validator

from core.accounting.plans import (
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
    Result,
    SubsampledGaussian,
    check_count,
    check_delta,
)
from service.accounting.calculations import Calculations
from service.capability import Capability
from service.config.settings import Settings
from service.http.auth import ReadCallerDep
from service.http.body import JsonRoute
from service.http.strict import Strict
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

    mechanism: Annotated[GaussianPlan | SubsampledGaussianPlan | LaplacePlan | PurePlan, Field(discriminator="kind")]
    steps: int = 1
    delta: float


class Target(Strict):
    epsilon: float
    delta: float


class CalibrateRequest(Strict):
    """Body of `POST /accounting/calibrate`: `steps` asks for the noise, `noise_multiplier` for the steps."""

    target: Target
    sampling_rate: float = 1.0
    steps: int | None = None
    noise_multiplier: float | None = None

    @model_validator(mode="after")
    def _one_unknown(self) -> CalibrateRequest:
        if (self.steps is None) is (self.noise_multiplier is None):
            raise ValueError("give exactly one of steps and noise_multiplier")
        return self


@router.post("/accounting/compare", summary="Epsilon of a plan by every accountant")
async def compare(body: CompareRequest, caller: ReadCallerDep, calculations: Part[Calculations]) -> dict[str, Any]:
    """`kind` states what a number is: a `bound` is never below the true value, an `estimate` may be."""
    event = body.mechanism.event()
    check_count(body.steps)
    check_delta(body.delta)
    lines = await calculations.run("compare", event, body.steps, body.delta, tenant=caller.tenant)
    return {
        "steps": body.steps,
        "delta": body.delta,
        "adjacency": event.adjacency.value,
        "accountants": [line_block(line) for line in lines],
    }


@router.post("/accounting/calibrate", summary="Noise, or steps, for a target; certified")
async def calibrate(body: CalibrateRequest, caller: ReadCallerDep, calculations: Part[Calculations]) -> dict[str, Any]:
    """The answer contains the certificate, and every accountant's epsilon of the calibrated plan."""
    delta = body.target.delta
    certificate: Certificate | None
    if body.noise_multiplier is None:
        noise_found: CalibratedNoise = await calculations.run(
            "calibrate_noise",
            body.target.epsilon,
            delta,
            tenant=caller.tenant,
            sampling_rate=body.sampling_rate,
            steps=body.steps,
        )
        noise, steps, certificate = noise_found.noise_multiplier, body.steps, noise_found.certificate
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
        event = SubsampledGaussian(body.sampling_rate, noise)
        lines = await calculations.run("compare", event, steps, delta, tenant=caller.tenant, interval=interval)
    return {
        "noise_multiplier": noise,
        "steps": steps,
        "certificate": certificate_block(certificate),
        "accountants": [line_block(line) for line in lines],
    }


def certificate_block(certificate: Certificate | None) -> dict[str, Any] | None:
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


def line_block(line: Line) -> dict[str, Any]:
    """One accountant's result, as answers show it."""
    block: dict[str, Any] = {"name": line.name}
    if line.order is not None:
        block["order"] = line.order
    block |= {"epsilon": line.result.value, "kind": line.result.kind.value}
    if line.order is not None:
        block |= {
            "direction": line.result.direction.value,
            "directions": {"remove": _value(line.remove), "add": _value(line.add)},
            "interval": _interval(line.result.interval),
        }
    block["note"] = line.result.note
    return block


def _value(result: Result | None) -> float | None:
    return None if result is None else result.value


def _interval(interval: Interval | None) -> dict[str, Any] | str | None:
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
