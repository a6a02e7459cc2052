"""Whether structured documents parse as before once they are sanitised, and how long it takes.

    python -m benchmarks.formats --documents 10000

Generated documents of every format (`tests/kits/form_kit.py`) are sanitised with the default patterns and each fill.
Each output must have the structure that the format's own parser (`json`, `csv`, `email`, `html.parser`, `markdown-it`)
sees in the source; each value in it must be equal or show a mask; and no planted value may be left. With a policy that
finds nothing, the output must be the source. A table of times for large documents follows. Exit status 1 if a document
fails.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

from core.text.formats.builder import FORMATS, FormatLimits, parse
from core.text.mask_words import AllowLists
from core.text.policy import FILLS, MaskPolicy
from core.text.sanitize import Inspected, fill_masks, inspect
from service.sanitize.formats import FormatOptions

sys.path.insert(0, str(Path(__file__).parent.parent / "tests/kits"))
from form_kit import Document, Writer, round_trip_fault

LISTS = AllowLists()
LARGE = 20_000  # values of a large document


def sanitised(document: Document, policy: MaskPolicy, fill: str) -> tuple[Inspected, str]:
    options = FormatOptions.model_validate(document.options).resolved()
    form = parse(document.format, document.text, options, FormatLimits())
    if form is None:
        raise ValueError(document.format)
    found = inspect(form.view, policy, LISTS, form=form)
    return found, fill_masks(found, policy, fill, LISTS).text


def faults(count: int, seed: int) -> Counter[str]:
    """The number of documents of each format, and of each kind of fault."""
    writer, seen = Writer(seed), Counter[str]()
    for number in range(count):
        format_name = list(FORMATS)[number % len(FORMATS)]
        document = writer.document(format_name)
        fill = list(FILLS)[number // len(FORMATS) % len(FILLS)]
        found, text = sanitised(document, MaskPolicy(), fill)
        fault = round_trip_fault(document, text, marked=fill != "surrogate")
        if (
            fault is None
            and sanitised(document, MaskPolicy(entities=("CRYPTO",)), fill)[1] != document.text
            and format_name != "email"
        ):
            fault = "changed without a mask"
        seen[format_name] += 1
        seen["masks"] += len(found.masks)
        if fault:
            seen[f"fault in {format_name}: {fault}"] += 1
    return seen


def large(format_name: str, values: int) -> str:
    row = {
        "name": "the order was late",
        "e-mail": "jane.roe@acme-corp.com",
        "amount": 12.5,
        "note": "call +44 20 7946 0958",
    }
    rows = range(values // len(row))
    if format_name == "json":
        return json.dumps([row for _ in rows])
    if format_name == "csv":
        return "name,e-mail,amount,note\n" + "".join(",".join(map(str, row.values())) + "\n" for _ in rows)
    if format_name == "html":
        return "".join("<p>" + "</p><p>".join(map(str, row.values())) + "</p>\n" for _ in rows)
    if format_name == "email":
        return "From: Jo <jo@example.org>\nSubject: x\n\n" + "".join(
            "\n> ".join(map(str, row.values())) + "\n" for _ in rows
        )
    return "".join("\n".join(map(str, row.values())) + "\n\n" for _ in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    seen = faults(options.documents, options.seed)
    for what, count in seen.items():
        print(f"{what}: {count}")
    print(f"| format | MB | values | parse, s | recognise and rebuild, s |\n{'| --- ' * 5}|")
    for format_name in FORMATS:
        for size in (LARGE, 4 * LARGE):
            text = large(format_name, size)
            start = time.perf_counter()
            form = parse(format_name, text, FormatOptions().resolved(), FormatLimits())
            parsed = time.perf_counter()
            sanitised(Document(format_name, text), MaskPolicy(), "class_marker")
            rest = time.perf_counter() - parsed - (parsed - start)
            count = len(form.starts) if form else 0
            print(
                f"| {format_name} | {len(text) / 1e6:.1f} | {count} | {parsed - start:.2f} | {rest:.2f} |", flush=True
            )
    sys.exit(any(what.startswith("fault") for what in seen))


if __name__ == "__main__":
    main()
