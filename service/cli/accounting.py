"""`privacy-gateway accounting`: epsilon of a plan, noise or steps for a target. No gateway is needed."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from core.accounting.answers import Certificate, Line
    from core.accounting.plans import PlanEvent

accounting_app = typer.Typer(no_args_is_help=True, help="Epsilon of a plan; noise or steps for a target.")

PLOT_POINTS = 12


class Mechanism(StrEnum):
    SUBSAMPLED_GAUSSIAN = "subsampled_gaussian"
    GAUSSIAN = "gaussian"
    LAPLACE = "laplace"
    PURE = "pure"


Plot = Annotated[
    Path | None, typer.Option("--plot", help="Draw epsilon against steps to this file (.png or .svg).", dir_okay=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@accounting_app.command("compare")
def compare(
    delta: Annotated[float, typer.Option(help="Delta at which epsilon is asked.")],
    steps: Annotated[int, typer.Option(help="Releases.")] = 1,
    mechanism: Annotated[Mechanism, typer.Option(help="What one release is.")] = Mechanism.SUBSAMPLED_GAUSSIAN,
    sampling_rate: Annotated[float, typer.Option(help="Poisson sampling rate.")] = 1.0,
    noise_multiplier: Annotated[float | None, typer.Option(help="Gaussian noise over sensitivity.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Of one laplace or pure release.")] = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Epsilon of a plan by every accountant. An estimate may be below the true value; a bound never is."""
    from core.accounting.compare import compare as compare_all
    from core.errors import GatewayError

    try:
        event = _event(mechanism, sampling_rate, noise_multiplier, epsilon)
        lines = compare_all(event, steps, delta)
        if plot is not None:
            _draw(event, steps, delta, plot)
    except GatewayError as error:
        _fail(error.detail)
    _show({"steps": steps, "delta": delta}, lines, as_json=as_json)


@accounting_app.command("calibrate")
def calibrate(
    epsilon: Annotated[float, typer.Option(help="Target epsilon.")],
    delta: Annotated[float, typer.Option(help="Target delta.")],
    sampling_rate: Annotated[float, typer.Option(help="Poisson sampling rate; 1 is the plain Gaussian.")] = 1.0,
    steps: Annotated[int | None, typer.Option(help="Steps: asks for the noise.")] = None,
    noise_multiplier: Annotated[float | None, typer.Option(help="Noise: asks for the most steps.")] = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """The least certified noise for a number of steps, or the most certified steps for a noise."""
    from core.accounting.calibrate import calibrate_noise, calibrate_steps
    from core.accounting.compare import compare as compare_all
    from core.accounting.plans import SubsampledGaussian
    from core.errors import GatewayError

    if (steps is None) is (noise_multiplier is None):
        raise typer.BadParameter("give exactly one of --steps and --noise-multiplier")
    certificate: Certificate | None
    try:
        if steps is not None:
            noise = calibrate_noise(epsilon, delta, sampling_rate=sampling_rate, steps=steps)
            noise_multiplier, certificate = noise.noise_multiplier, noise.certificate
        else:
            most = calibrate_steps(
                epsilon, delta, sampling_rate=sampling_rate, noise_multiplier=noise_multiplier or 0.0
            )
            steps, certificate = most.steps, most.certificate
        if certificate is None:
            _fail("not even one step meets this target")
        event = SubsampledGaussian(sampling_rate, noise_multiplier or 0.0)
        lines = compare_all(event, steps, delta, interval=certificate.loss_interval or None)
        if plot is not None:
            _draw(event, steps, delta, plot)
    except GatewayError as error:
        _fail(error.detail)
    facts = {
        "noise_multiplier": noise_multiplier,
        "steps": steps,
        "certified_epsilon": certificate.epsilon,
        "delta": delta,
    }
    _show(facts, lines, as_json=as_json)


def _fail(reason: str | None) -> NoReturn:
    typer.echo(f"error: {reason}", err=True)
    raise typer.Exit(1)


def _event(kind: Mechanism, rate: float, noise: float | None, epsilon: float | None) -> PlanEvent:
    from core.accounting.plans import Gaussian, Laplace, Pure, SubsampledGaussian

    if kind in (Mechanism.GAUSSIAN, Mechanism.SUBSAMPLED_GAUSSIAN):
        if noise is None:
            raise typer.BadParameter("--noise-multiplier is needed")
        return Gaussian(noise) if kind is Mechanism.GAUSSIAN else SubsampledGaussian(rate, noise)
    if epsilon is None:
        raise typer.BadParameter("--epsilon is needed")
    return Laplace(epsilon) if kind is Mechanism.LAPLACE else Pure(epsilon)


def _label(line: Line) -> str:
    return line.name if line.order is None else f"{line.name} order {line.order}"


def _show(facts: dict[str, Any], lines: tuple[Line, ...], *, as_json: bool) -> None:
    if as_json:
        rows = [
            {"name": line.name, "order": line.order, "epsilon": line.result.value}
            | {"kind": line.result.kind.value, "note": line.result.note}
            for line in lines
        ]
        typer.echo(json.dumps(facts | {"accountants": rows}, indent=2))
        return
    for name, value in facts.items():
        typer.echo(f"{name.replace('_', ' '):18}{value:g}" if name != "steps" else f"{name:18}{value}")
    typer.echo(f"\n{'accountant':20}{'epsilon':>12}  {'kind':16}note")
    for line in lines:
        value = "-" if line.result.value is None else f"{line.result.value:.4f}"
        typer.echo(f"{_label(line):20}{value:>12}  {line.result.kind.value:16}{line.result.note}".rstrip())


def _draw(event: PlanEvent, steps: int, delta: float, path: Path) -> None:
    """Epsilon against steps for every accountant, up to `steps`: bounds solid, estimates dashed."""
    if path.suffix not in (".png", ".svg"):
        raise typer.BadParameter("--plot takes a .png or .svg file")
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "accounting"
    from matplotlib import pyplot

    from core.accounting.compare import compare as compare_all
    from core.accounting.contract import Kind

    counts = sorted({max(1, round(steps ** (index / (PLOT_POINTS - 1)))) for index in range(PLOT_POINTS)})
    curves: dict[str, list[tuple[int, float]]] = {}
    bounds: set[str] = set()
    for count in counts:
        for line in compare_all(event, count, delta):
            points = curves.setdefault(_label(line), [])
            if line.result.value is not None:
                points.append((count, line.result.value))
            if line.result.kind is Kind.BOUND:
                bounds.add(_label(line))
    figure, pane = pyplot.subplots(figsize=(7, 4.5))
    for label, points in curves.items():
        if points:
            claims = "bound" if label in bounds else "estimate"
            pane.plot(*zip(*points, strict=True), "-" if label in bounds else "--", label=f"{label} ({claims})")
    pane.set(xscale="log", yscale="log", xlabel="steps", ylabel=f"epsilon at delta = {delta:g}")
    pane.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=150)
    pyplot.close(figure)
