"""The synthesis job: turn private rows into a file that generates synthetic ones.

    read and encode -> charge -> release, encrypted -> delete the rows -> train -> write the artifact and its report

Guarantee: (epsilon, delta)-DP for replacing one row (`core.synthesis`). Noise is drawn only after the ledger has spent
the job's hold. Once a release is stored encrypted, every later attempt resumes from it, and it is never drawn again. If
the process dies between the two, its draw is lost (it existed only in the memory of that process), and the next attempt
draws under the same charge. Rows exist in the job's encrypted folder until the release is stored, and in this process's
memory. Everything that is written afterwards is post-processing.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from core.amounts import delta_of, epsilon_of
from core.errors import BadCorpus, InvalidInput, JobFailed, JobFilesLost
from core.synthesis.columns import Outside
from core.synthesis.encoding import ROWS_MIN, EncodedTable, bound_of, encode_block, joined
from core.synthesis.faults import Faults
from core.synthesis.pearl_release import Design, PearlRelease
from core.synthesis.plan import Release, SynthesisPlan, release_bytes, release_of
from core.synthesis.schema import DeclaredTable, declared_table
from gpu_workers.jobs import corpus
from gpu_workers.jobs.protocol import INPUT, Charge, EncryptedCheckpoint, JobOrder, ReportProgress, publish
from gpu_workers.synthesis.report import ROWS_MAX, Facts, page, whom
from gpu_workers.synthesis.spec import SynthesisSpec
from gpu_workers.synthesis.stored_generator import load_source, save_counts

Curve = tuple[tuple[int, float], ...]

_BLOCK_ROWS = 1 << 12


def run(order: JobOrder, report: ReportProgress, charge: Charge) -> dict[str, Any]:
    """Write the artifact and its report. Returns counts and the guarantee. Raises JobFailed."""
    spec: SynthesisSpec = order.spec
    try:
        declared = declared_table(spec.declared)
        release = _released(order, declared, report, charge)
    except InvalidInput as error:  # the settings may have changed since the gateway checked the request
        raise JobFailed(error.detail, reason="refused") from None
    made = _row_count(release)
    curve: Curve = ()
    if isinstance(release, PearlRelease):
        save, curve = _trained(order, release, report)
    else:
        save = partial(save_counts, release=release)
    report("writing", 0.95)
    result = _result(spec, declared, release, rows=made)
    first = Path(spec.targets[0])
    publish(save, synthesis_card(result), spec.targets)
    rows = load_source(first).sample(min(made, ROWS_MAX))
    facts = Facts(
        method=spec.method,
        name=spec.name,
        rows_are_public=spec.rows_are_public,
        rows=made,
        epsilon=epsilon_of(spec.budget.epsilon_nano),
        delta=delta_of(spec.budget.delta_femto),
        noise_multiplier=spec.budget.noise_multiplier,
        rows_per_subject=declared.rows_per_subject,
    )
    _write(Path(spec.report), page(facts, release, rows, curve))
    return result


def _released(order: JobOrder, declared: DeclaredTable, report: ReportProgress, charge: Charge) -> Release:
    """Return the one release of this job: stored by an earlier attempt, or charged, drawn and stored now."""
    spec: SynthesisSpec = order.spec
    kept = EncryptedCheckpoint(order, "release")
    packed = kept.read()
    if packed is None:
        report("reading", 0.0)
        table = read_table(order.received(), declared, outside=Outside(spec.outside), rows_max=spec.rows_max)
        plan = SynthesisPlan(
            spec.method,
            spec.rows_are_public,
            frequencies=spec.frequencies,
            bins=spec.bins,
            design=Design(spec.design),
            rows_per_subject=declared.rows_per_subject,
        )
        plan.check(declared.schema, spec.budget)
        report("charging", 0.04)
        charge()
        report("releasing", 0.05)
        packed = release_bytes(plan.release(table, spec.budget))
        kept.write(packed)
    (order.folder / INPUT).unlink(missing_ok=True)  # the private rows are not read after this point
    try:
        return release_of(packed)
    except ValueError:
        raise JobFilesLost from None


def read_table(chunks: Iterator[bytes], declared: DeclaredTable, *, outside: Outside, rows_max: int) -> EncodedTable:
    """Encode rows given as JSON lines, one block at a time. Raises BadCorpus with all faults, and never a value."""
    blocks: list[EncodedTable] = []
    numbers: list[int] = []
    rows: list[Any] = []
    faults, bound = Faults(), bound_of(declared)
    count = 0

    def encode() -> None:
        blocks.append(encode_block(declared, rows, outside=outside, faults=faults, lines=numbers, bound=bound))
        numbers.clear()
        rows.clear()

    for number, line in corpus.corpus_lines(chunks):
        if faults.are_enough:
            break
        count += 1
        if count > rows_max:
            raise BadCorpus(f"A table has at most {rows_max} rows.", reason="too-many-rows", count=rows_max)
        try:
            rows.append(orjson.loads(line))
        except orjson.JSONDecodeError:
            error = corpus.unreadable(line, number)
            faults.add(error.reason, number, error.detail)
            continue
        numbers.append(number)
        if len(rows) == _BLOCK_ROWS:
            encode()
    if rows:
        encode()
    if faults:
        first = faults.first
        raise BadCorpus(
            first.message, reason=first.reason, line=first.lines[0], count=first.count, faults=faults.as_json()
        )
    if count < ROWS_MIN:
        raise BadCorpus(f"A table needs at least {ROWS_MIN} rows.", reason="too-few-rows", count=count)
    return joined(blocks)


def _trained(order: JobOrder, release: PearlRelease, report: ReportProgress) -> tuple[Any, Curve]:
    """Return a function that writes the generator, and the objective during its training."""
    from gpu_workers.models.device import torch_device
    from gpu_workers.synthesis.generator import save_generator
    from gpu_workers.synthesis.reconstruction import TrainingPlan, train_generator

    spec: SynthesisSpec = order.spec

    def progress(done: int, steps: int) -> None:
        if done % max(1, steps // 100) == 0:
            report("training", 0.08 + 0.86 * done / steps)

    generator = train_generator(
        release,
        plan=TrainingPlan(steps=spec.steps),
        device=torch_device(spec.device, spec.threads),
        checkpoint=EncryptedCheckpoint(order, "training"),
        progress=progress,
    )
    return partial(save_generator, generator=generator), generator.curve


def _row_count(release: Release) -> int:
    """The default number of rows of a sample: n if it was public, else the estimate from the noisy counts."""
    if release.rows is not None:
        return release.rows
    return max(1, round(float(release.classes.clip(min=0).sum())))


def _result(spec: SynthesisSpec, declared: DeclaredTable, release: Release, *, rows: int) -> dict[str, Any]:
    event = spec.budget.event(spec.method)
    return {
        "name": spec.name,
        "method": spec.method,
        "rows": rows,
        "row_count": "public" if spec.rows_are_public else "protected",
        "columns": len(declared.schema.columns),
        "classes": declared.schema.classes,
        "rows_per_subject": declared.rows_per_subject,
        "dimension": declared.dimension,
        "privacy": event.privacy_block() | {"noise_multiplier": event.noise_multiplier},
        "warnings": _warnings(release, rows),
    }


def _warnings(release: Release, rows: int) -> list[dict[str, Any]]:
    """Derive warnings from the released numbers; post-processing."""
    share = release.noise * release.schema.classes / rows
    return [{"code": "mostly-noise", "noise_per_class": round(share, 3)}] if share > 1 else []


def _write(path: Path, text: str) -> None:
    partial_page = path.with_suffix(".html.partial")
    partial_page.write_text(text, encoding="utf-8")
    partial_page.replace(path)


def synthesis_card(result: Mapping[str, Any]) -> str:
    """Return the card of a file that generates synthetic rows."""
    privacy = result["privacy"]
    count = "public" if result["row_count"] == "public" else "estimated from the noisy counts"
    protected = whom(result["rows_per_subject"])
    return "\n".join(
        [
            f"# Synthetic rows `{result['name']}`",
            "",
            "Derived from one private release of a table. The file and every row drawn from it are post-processing, so",
            "drawing rows costs no budget.",
            "",
            "| | |",
            "| --- | --- |",
            f"| guarantee | epsilon {privacy['epsilon']:g}, delta {privacy['delta']:g}, for replacing {protected} |",
            f"| mechanism | `{privacy['mechanism']}`, noise multiplier {privacy['noise_multiplier']:.4g} |",
            f"| rows | {result['rows']} ({count}) |",
            f"| columns | {result['columns']} |",
            f"| classes | {result['classes']} |",
            "",
        ]
    )
