"""The job of a bulk release: read the documents of a source part by part, draw them, write the results part by part.

    scan (count the rows, hold the cost of each part) -> for each part: charge, draw, write -> manifest

Guarantee: that of the endpoint for each document. A part is charged before anything of it is drawn, and charged once. A
part that is written is never drawn again. A part that was drawn but not written may be drawn again under the same
charge, because nothing of it has left: the job's files are encrypted, and a store has either the whole part or none. So
the results that leave are those of one draw of each document, whatever is killed and however often.

On a cluster `draw` runs in several processes at once (`gpu_workers.jobs.protocol.Sharded`).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from core.errors import GatewayError, JobFailed
from gpu_workers.bulk.readers import Columns, Format
from gpu_workers.bulk.releasers import Releaser
from gpu_workers.bulk.sources import BulkPart, BulkRow, BulkSource
from gpu_workers.bulk.stores import StoreAccess, StoredObject, find_objects
from gpu_workers.bulk.targets import BulkTarget, JobTarget, Schema, StoreTarget, TargetFormat, encode
from gpu_workers.engine.handler import Handler, HandlerFactory
from gpu_workers.jobs.protocol import (
    BUDGET,
    Charge,
    EncryptedCheckpoint,
    JobOrder,
    ReportProgress,
    Sharded,
    cell,
    kept_part,
)

PART_ROWS = 1_000  # the ledger debits the accounts of their subjects in one step
PARTS_MAX = 4_000  # open holds of a tenant
UNREADABLE_MAX = 100_000  # each is listed
_UNREADABLE, _TOO_MANY = "too-many-unreadable", "too-many-rows"
_COMMON: Schema = {"row": "integer", "id": "string", "problem": "string"}


@dataclass(frozen=True)
class BulkSpec:
    """One bulk release.

    handler: builds the handler of the endpoint's role. releaser: what it makes of rows. store, keys, prefix: the
    objects of a store, None for the upload. target: a store and a folder in it, None for a file of the job. charged:
    whether a row costs anything. fitting: release the first parts that the budget admits, if it does not admit all.
    facts: what the manifest says of the release beside the numbers, such as the privacy block.
    """

    release: str
    artifact: Path
    handler: HandlerFactory
    releaser: Releaser = field(repr=False)
    columns: Columns
    format: Format
    chars_max: int
    target_format: TargetFormat
    charged: bool
    fitting: bool
    facts: Mapping[str, Any]
    store: StoreAccess | None = None
    keys: Sequence[str] | None = None
    prefix: str = ""
    target: tuple[StoreAccess, str] | None = None

    @property
    def schema(self) -> Schema:
        return {**_COMMON, **self.releaser.schema}

    def release_id(self, part: int) -> str:
        """The release of the ledger that a part is charged as. `service.jobs.holds` derives the same."""
        return hashlib.sha256(f"{self.release}/{part}".encode()).hexdigest()[:32]


@dataclass(frozen=True)
class BulkPlan:
    """What a job releases: the objects of a store in their versions, and the parts, with the rows that are left out.
    `held`: how many parts the budget admits, from the first."""

    objects: tuple[StoredObject, ...]
    parts: tuple[BulkPart, ...]
    held: int

    def packed(self) -> bytes:
        objects = [vars(each) for each in self.objects]
        return orjson.dumps({"objects": objects, "parts": [each.as_json() for each in self.parts], "held": self.held})

    @classmethod
    def unpacked(cls, content: bytes) -> BulkPlan:
        stored = orjson.loads(content)
        objects = tuple(StoredObject(**each) for each in stored["objects"])
        return cls(objects, tuple(map(BulkPart.of_json, stored["parts"])), stored["held"])

    @property
    def chosen(self) -> tuple[BulkPart, ...]:
        return self.parts[: self.held]


def prepare(order: JobOrder, report: ReportProgress, charge: Charge) -> BulkPlan:
    """Find the parts and hold the cost of each. A later attempt finds the plan of the first one. Raises JobFailed."""
    kept = EncryptedCheckpoint(order, "plan")
    plan = kept_part(kept, lambda: _plan(order, report, charge), packed=BulkPlan.packed, unpacked=BulkPlan.unpacked)
    if plan.held < len(plan.parts) and (plan.held == 0 or not order.spec.fitting):
        said = "The budget does not admit all rows. Raise it, release fewer rows, or ask for the rows that fit."
        raise JobFailed(said, reason=BUDGET)
    return plan


def _plan(order: JobOrder, report: ReportProgress, charge: Charge) -> BulkPlan:
    spec: BulkSpec = order.spec
    report("counting", 0.0)
    objects = () if spec.store is None else tuple(find_objects(spec.store, keys=spec.keys, prefix=spec.prefix))
    parts = _parts(_source(order, objects))
    _target(order).done()  # a target that cannot be used ends the job before anything is held
    held = 0
    for part in parts:
        rows = part.rows - len(part.unreadable)
        if spec.charged and rows and not charge.hold(part.number, rows, part.subjects or None):
            break
        held += 1
        report("holding", 0.01 * held / len(parts))
    return BulkPlan(objects, tuple(parts), held)


def _parts(source: BulkSource) -> list[BulkPart]:
    parts: list[BulkPart] = []
    unreadable = 0
    for part in source.scan(PART_ROWS):
        unreadable += len(part.unreadable)
        if unreadable > UNREADABLE_MAX:
            raise JobFailed("Too many rows cannot be read. Check the columns.", reason=_UNREADABLE, count=unreadable)
        if len(parts) == PARTS_MAX:
            raise JobFailed("The source has too many rows for one job.", reason=_TOO_MANY, count=PARTS_MAX * PART_ROWS)
        parts.append(part)
    if sum(part.rows for part in parts) == unreadable:
        found = Counter(row.reason for part in parts for row in part.unreadable).most_common(1)
        reason = found[0][0] if found else "empty"
        said = "The source has no row that can be read. Check its format and the columns."
        raise JobFailed(said, reason=reason, count=unreadable)
    return parts


def missing(order: JobOrder, plan: BulkPlan) -> list[int]:
    """The parts that are not written."""
    done = _target(order).done()
    return [part.number for part in plan.chosen if part.number not in done]


@lru_cache(maxsize=1)
def _handler(made: HandlerFactory) -> Handler:
    """The handler of this process, which draws one part after another."""
    handler = made()
    handler.warm_up()
    return handler


def draw(order: JobOrder, plan: BulkPlan, numbers: Sequence[int], report: ReportProgress, charge: Charge) -> None:
    """Draw these parts and write them, unless they are written. Raises JobFailed."""
    spec: BulkSpec = order.spec
    target = _target(order)
    done = target.done()
    waiting = [plan.parts[number] for number in numbers if number not in done]
    readable = [part.rows - len(part.unreadable) for part in plan.chosen]
    total = sum(readable)
    written = sum(readable[number] for number in done if number < len(readable))
    progress = _progress(report, plan, total)
    progress(written)
    if not waiting:
        return
    handler = _handler(spec.handler)
    source = _source(order, plan.objects)

    def read(part: BulkPart) -> list[BulkRow]:
        return [row for row in source.rows(part) if isinstance(row, BulkRow)]

    def write(number: int, results: list[Mapping[str, Any]]) -> None:
        target.write(number, encode(results, spec.target_format, spec.schema))

    with ThreadPoolExecutor(1) as beside:  # while a part is drawn, it reads the next one and writes the last one
        reading = beside.submit(read, waiting[0])
        writing: Future[None] | None = None
        for part, following in zip(waiting, [*waiting[1:], None], strict=True):
            rows = reading.result()
            if following is not None:
                reading = beside.submit(read, following)
            if spec.charged and rows:
                charge(part.number)
            before = written

            def shown(count: int, before: int = before) -> None:
                progress(before + count)

            results = list(_drawn(spec, handler, rows, shown))
            if writing is not None:
                writing.result()
            writing = beside.submit(write, part.number, results)
            written += len(rows)
        if writing is not None:
            writing.result()
    progress(written)


_STEP_ROWS = 250  # between two reports of progress


def _drawn(
    spec: BulkSpec, handler: Handler, rows: Sequence[BulkRow], shown: Callable[[int], None]
) -> Iterator[Mapping[str, Any]]:
    for start in range(0, len(rows), _STEP_ROWS):
        some = rows[start : start + _STEP_ROWS]
        for row, result in zip(some, spec.releaser.released(handler, some), strict=True):
            named = {"row": row.number, "id": row.id}
            yield {**named, "problem": result.code} if isinstance(result, GatewayError) else {**named, **result}
        shown(start + len(some))


def _progress(report: ReportProgress, plan: BulkPlan, total: int) -> Callable[[int], None]:
    unreadable = sum(len(part.unreadable) for part in plan.chosen)

    def show(written: int) -> None:
        numbers = {"rows": float(total), "rows_written": float(written), "rows_unreadable": float(unreadable)}
        report("releasing", 0.01 + 0.98 * written / max(1, total), numbers)

    return show


def finish(order: JobOrder, plan: BulkPlan) -> dict[str, Any]:
    """Write the manifest, and the artifact. Returns counts. Raises JobFailed."""
    spec: BulkSpec = order.spec
    target = _target(order)
    parts = []
    for part in plan.chosen:
        standing = target.written(part.number)
        rows = part.rows - len(part.unreadable)
        own: dict[str, Any] = {"number": part.number, "rows": rows, "sha256": standing.sha256, "bytes": standing.size}
        parts.append(own | ({"release_id": spec.release_id(part.number)} if spec.charged and rows else {}))
    left_out = [{"row": row.number, "problem": row.reason} for part in plan.chosen for row in part.unreadable]
    counts = {
        "rows": sum(part.rows for part in plan.parts),
        "written": sum(each["rows"] for each in parts),
        "unreadable": len(left_out),
        "not_admitted": sum(part.rows for part in plan.parts[plan.held :]),
    }
    manifest = {
        "release": spec.release,
        **counts,
        **spec.facts,
        "format": spec.target_format,
        "columns": list(spec.schema),
        "parts": parts,
        "left_out": left_out,
    }
    text = target.finish(manifest)
    if spec.target is not None:
        spec.artifact.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        spec.artifact.write_text(text)
    spec.artifact.with_suffix(".md").write_text(_card(spec, counts))
    spec.artifact.with_suffix(".json").write_text(text)
    return {**counts, "parts": len(parts), "bytes": sum(each["bytes"] for each in parts)}


def _source(order: JobOrder, objects: Sequence[StoredObject]) -> BulkSource:
    spec: BulkSpec = order.spec
    limits = {"chars_max": spec.chars_max, "refused": spec.releaser.refused}
    if spec.store is None:
        return BulkSource.of_upload(order, spec.columns, spec.format, **limits)
    return BulkSource.of_store(spec.store, objects, spec.columns, spec.format, **limits)


def _target(order: JobOrder) -> BulkTarget:
    spec: BulkSpec = order.spec
    if spec.target is None:
        return JobTarget(order, spec.target_format, spec.schema, spec.artifact)
    access, folder = spec.target
    return StoreTarget(access, folder, spec.target_format, owner=spec.release)


def _card(spec: BulkSpec, counts: Mapping[str, int]) -> str:
    privacy = spec.facts.get("privacy", {})
    facts = {name: cell(str(value)) for name, value in {**counts, **privacy}.items()}
    table = ["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in facts.items())]
    return "\n".join(
        ["# Bulk release", "", "The manifest lists the parts and the rows that were left out.", "", *table, ""]
    )


JOB = Sharded(prepare, missing, draw, finish)
